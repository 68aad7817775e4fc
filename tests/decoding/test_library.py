"""The machine code of the CPU engine: decoding/cpu/library.py, tools/build_kernels.py's objects."""

import ctypes
import platform
import shutil
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bytenmt.decoding.cpu import library
from bytenmt.decoding.cpu.library import FAMILIES, JIT, OBJECTS, VARIABLE, read_manifest
from bytenmt.errors import BytenmtError
from bytenmt.kernel_sources import engine_files, syntax_digest

AVX512, AVX2 = FAMILIES
ALL_FLAGS = AVX512.cpu_flags | AVX2.cpu_flags
if sys.platform != "linux" or platform.machine() != "x86_64":
    pytest.skip("the package has objects for Linux on x86-64", allow_module_level=True)


def choose() -> str:
    """Return the family that choose_kernels chooses, as a new process does."""
    return library.choose_kernels.__wrapped__().family


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the objects, which fit the sources, on a processor that can execute all."""
    folder = tmp_path / "objects"
    shutil.copytree(OBJECTS, folder)
    monkeypatch.setattr(library, "OBJECTS", folder)
    monkeypatch.setattr(library, "has_stale_objects", lambda: False)
    monkeypatch.setattr(library, "cpu_flags", lambda: ALL_FLAGS)
    monkeypatch.delenv(VARIABLE, raising=False)
    return folder


def object_of(folder: Path, family: str) -> Path:
    file: str = read_manifest()["objects"][family]["file"]
    return folder / file


def test_objects_are_those_of_the_sources() -> None:
    """An installation without Numba has no other kernels."""
    manifest = read_manifest()
    assert syntax_digest(engine_files()) == manifest["syntax"], (
        "kernels have changed: python tools/build_kernels.py compiles them, commit its objects"
    )
    assert set(manifest["objects"]) == {family.name for family in FAMILIES}
    for built in manifest["objects"].values():
        assert sha256((OBJECTS / built["file"]).read_bytes()).hexdigest() == built["sha256"]
    assert len(list(OBJECTS.glob("*.so"))) == len(FAMILIES)


def test_comments_and_docstrings_make_nothing_stale(tmp_path: Path) -> None:
    source = tmp_path / "kernel.py"
    source.write_text('"""A file."""\ndef f(x):\n    """Return 3 x."""\n    return 3 * x\n')
    before = syntax_digest([source])
    source.write_text("# A file.\n\n\ndef f(x):\n    return 3 * x  # thrice\n")
    assert syntax_digest([source]) == before
    source.write_text("def f(x):\n    return 4 * x\n")
    assert syntax_digest([source]) != before


def test_the_best_family_of_the_processor_is_chosen(
    objects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "cpu_flags", lambda: AVX2.cpu_flags)
    assert choose() == AVX2.name
    monkeypatch.setattr(library, "cpu_flags", lambda: AVX2.cpu_flags - {"fma"})
    assert choose() == JIT
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(library, "cpu_flags", lambda: ALL_FLAGS)
    assert choose() == JIT


def test_a_variable_forces_a_family(objects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What depends on the processor comes with the family."""
    monkeypatch.setenv(VARIABLE, AVX2.name)
    kernels = library.choose_kernels.__wrapped__()
    assert (kernels.family, kernels.has_int8_products) == (AVX2.name, False)
    monkeypatch.setenv(VARIABLE, JIT)
    assert choose() == JIT
    monkeypatch.setenv(VARIABLE, "sse")
    message = "BYTENMT_KERNELS is 'sse': use x86-64-avx512, .* or jit"
    with pytest.raises(BytenmtError, match=message):
        choose()


@pytest.mark.parametrize("harm", ["cut", "missing", "foreign", "unreadable", "empty manifest"])
def test_an_object_that_cannot_be_loaded_is_passed_over(
    harm: str, objects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next family, then Numba; without it one line says why."""
    monkeypatch.setattr(library, "cpu_flags", lambda: AVX2.cpu_flags)
    file = object_of(objects, AVX2.name)
    if harm == "cut":
        file.write_bytes(file.read_bytes()[:20_000])
    elif harm == "missing":
        file.unlink()
    elif harm == "foreign":
        file.write_bytes(b"MZ" + file.read_bytes())
    elif harm == "unreadable":
        file.unlink()
        file.mkdir()
    else:
        (objects / library.MANIFEST).write_text("{}")
    assert choose() == JIT
    monkeypatch.setattr(library, "jit_kernels", without_numba)
    with pytest.raises(BytenmtError, match=r"^x86-64-avx2: .*: pip install 'bytenmt\[jit\]'"):
        choose()


def test_the_next_best_family_is_chosen(objects: Path) -> None:
    assert choose() == AVX512.name
    object_of(objects, AVX512.name).write_bytes(b"")
    assert choose() == AVX2.name


def test_a_folder_where_nothing_may_run(objects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then Numba compiles; without it the message of the system is printed, in one line."""

    def refuse(file: str) -> Any:
        raise OSError(f"{file}: failed to map segment from shared object")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    assert choose() == JIT
    monkeypatch.setattr(library, "jit_kernels", without_numba)
    with pytest.raises(BytenmtError, match="avx512.*failed to map.*avx2.*failed to map.*pip"):
        choose()


def without_numba() -> Any:
    raise ModuleNotFoundError("No module named 'numba'")
