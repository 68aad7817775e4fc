"""Fixtures and settings of all tests: order, one thread, number of examples, training pairs."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# These tests need no compiled engine. With an empty kernel cache one process compiles it for a
# minute, while another runs these tests.
WITHOUT_ENGINE = (
    *("architectures/", "config/", "documents/", "layers/", "serve/"),
    *("data/test_augment.py", "data/test_batches.py", "data/test_epoch_plan.py"),
    *("decoding/test_kernels.py", "docs/test_growth_table.py"),
    *("training/test_optim.py", "training/test_trainer.py"),
    *("package/test_imports.py", "package/test_sentinels.py", "package/test_utf8.py"),
)
WITH_ENGINE = (  # of those folders
    *("architectures/test_another_architecture.py", "architectures/test_options.py"),
    *("architectures/test_unread_tensors.py", "serve/test_process.py"),
)

# Before any test imports PyTorch, which reads it, and for the programs that tests start: their
# threads would spin. No import of PyTorch here: the process that only hands out tests needs none.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # of the few tests that set more threads
# So that a child in another folder finds the package under test.
PATHS = str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, PATHS))
settings.register_profile("bytenmt", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("fast", settings.get_profile("bytenmt"), max_examples=8)
settings.load_profile("bytenmt")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests: first the file marked compiles_kernels, then folders without kernels.

    Within each group, files with slow tests come first, so that all processes end at about the same
    time.
    """
    names = {item: item.path.relative_to(Path(__file__).parent).as_posix() for item in items}
    slow = {names[item] for item in items if item.get_closest_marker("slow")}
    items.sort(
        key=lambda item: (
            item.get_closest_marker("compiles_kernels") is None,
            not names[item].startswith(WITHOUT_ENGINE) or names[item] in WITH_ENGINE,
            names[item] not in slow,
        )
    )


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Any]:
    """Forty pairs to train on, five to validate, as train() takes them."""
    from small_runs import write_pairs

    return write_pairs(tmp_path, n_words=2)
