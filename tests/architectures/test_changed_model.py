"""The examples of the guide "Change a model" are applied to a copy of the package and pass its tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from guide_pages import ROOT, blocks

TESTS = [
    "tests/architectures/test_contract.py",
    "tests/architectures/test_reference.py",
    "tests/decoding/test_program_check.py",
]


def apply(difference: str, path: Path) -> None:
    """Replace the lines of a difference that are old by those that are new; all of it occurs once."""
    lines = difference.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path.name} has {text.count(old)} times:\n{old}"
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.slow
def test_the_examples_pass_the_tests_that_the_guide_names(tmp_path: Path) -> None:
    for folder in ("bytenmt", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for block in blocks(ROOT / "bytenmt/docs/adding-an-architecture.md"):
        if block.info.startswith("diff "):
            apply(block.text, tmp_path / block.info.removeprefix("diff "))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-k", "luong-scaled or bytenet-tanh", *TESTS],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    passed = int(done.stdout.split(" passed")[0].split()[-1])
    assert passed >= 30, done.stdout
