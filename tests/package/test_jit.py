"""The cache of compiled code: kept between runs, made anew for other sources, never required."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from source_tree import MODULES, module_imports

from bytenmt import jit, kernel_sources
from bytenmt.jit import CACHE_VARIABLE, cache_folder
from bytenmt.kernel_sources import PACKAGE, kernel_files

FACTOR = 3
ENTRY = PACKAGE / "decoding/cpu/entry.py"


def scaled(x: int) -> int:
    return FACTOR * x


def was_kept(function: Callable[..., Any] = scaled) -> bool:
    """Call the function as a new process does; return whether its machine code was on disk."""
    compiled: Any = jit.njit(function)
    assert compiled(14) == 14 * FACTOR
    hits = sum(compiled.stats.cache_hits.values())
    misses = sum(compiled.stats.cache_misses.values())
    assert hits + misses <= 1
    return bool(hits)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another place for machine code."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "named"))
    cache_folder.cache_clear()
    yield tmp_path / "named" / "bytenmt"
    cache_folder.cache_clear()


def files(place: Path) -> list[Path]:
    return sorted(path for path in place.glob("*/*") if path.suffix in (".nbi", ".nbc"))


@pytest.mark.slow
def test_a_function_is_compiled_once(place: Path) -> None:
    assert [was_kept(), was_kept()] == [False, True]
    assert [path.suffix for path in files(place)] == [".nbc", ".nbi"]


@pytest.mark.slow
@pytest.mark.parametrize("is_full", [False, True])
def test_where_nothing_can_be_stored_each_run_compiles(
    is_full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    if is_full:
        monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", refuse)
    else:
        (tmp_path / "file").touch()
        monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
        assert cache_folder(Path(__file__)) is None
    assert [was_kept(), was_kept()] == [False, False]


def test_places(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """The named folder, else the package's own.

    One that cannot be written to is read where the machine code is there.
    """
    folder = cache_folder(ENTRY)
    assert folder is not None and folder.parent == place
    cache_folder.cache_clear()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert cache_folder(ENTRY) is None
    folder.mkdir()
    cache_folder.cache_clear()
    assert cache_folder(ENTRY) == folder
    monkeypatch.undo()
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    cache_folder.cache_clear()
    found = cache_folder(ENTRY)
    assert found is not None and found.parent == PACKAGE / "__pycache__" / "bytenmt"


def test_every_source_has_a_folder_of_its_own(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an edit of a kernel, or of what its constants come from; not of anything else."""
    copied = tmp_path / "bytenmt"
    for module in MODULES.values():
        if module.parent == PACKAGE or {"decoding", "program"} & {*module.parts}:
            target = copied / module.relative_to(PACKAGE)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(module, target)
    monkeypatch.setattr(kernel_sources, "PACKAGE", copied)
    entry = copied / "decoding/cpu/entry.py"
    sources = ["decoding/cpu/interpreter.py", "decoding/cpu/kernels/simd.py"]
    sources += ["decoding/search/state.py", "kernel_constants.py", "jit.py"]
    others = ["errors.py", "decoding/loading.py", "decoding/cpu/session.py"]
    for other, counts in [*((one, True) for one in sources), *((one, False) for one in others)]:
        before = jit.digest(entry)
        with open(copied / other, "a") as file:
            file.write("# more\n")
        assert (jit.digest(entry) != before) is counts, other


@pytest.mark.slow
def test_all_that_kernels_are_compiled_from_is_covered() -> None:
    """Every import of the interpreter, at any depth, and of other files that compile. Modules that
    compiled code takes nothing from are excepted."""
    waiting = [ENTRY]
    found = set[Path]()
    while waiting:
        found.add(file := waiting.pop())
        waiting += {MODULES[name] for name in module_imports(file) if name != "__init__"} - found
    packages = {path for path in found if path.name == "__init__.py"}
    assert found - packages <= set(kernel_files(ENTRY))
    for file in (PACKAGE / "layers").glob("*.py"):
        names = module_imports(file) - {"__init__"}
        leaves = {MODULES[name] for name in names if "." not in name}
        assert {path for path in leaves if path.parent == PACKAGE} <= set(kernel_files(file)), file
