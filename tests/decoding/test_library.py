"""The machine code of the CPU engine: decoding/cpu/library.py, tools/build_kernels.py's objects."""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bytenmt.decoding.cpu import library
from bytenmt.decoding.cpu.library import FAMILIES, JIT, OBJECTS, VARIABLE, read_manifest
from bytenmt.errors import BytenmtError
from bytenmt.kernel_sources import engine_files, syntax_digest

MODEL = Path(__file__).parents[2] / "data" / "models" / "en-de"
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
    assert choose() == AVX512.name
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


HARMS = ("cut", "empty", "missing", "foreign", "unreadable", "other machine", "no function")
MACHINE_OFFSET = 18  # of the processor's number in an ELF file
AARCH64 = 183


def harm_object(harm: str, objects: Path, family: str) -> None:
    """Make the object of a family unusable."""
    file = object_of(objects, family)
    content = bytearray(file.read_bytes())
    if harm == "missing":
        file.unlink()
    elif harm == "unreadable":
        file.unlink()
        file.mkdir()
    elif harm == "foreign":
        file.write_bytes(b"MZ" + content)
    elif harm in ("cut", "empty"):
        file.write_bytes(content[: 20_000 if harm == "cut" else 0])
    else:  # as if it had been built so
        content[MACHINE_OFFSET] = AARCH64
        if harm == "no function":
            content = bytearray(file.read_bytes()).replace(b"bytenmt_run", b"another_run")
        file.write_bytes(content)
        manifest = read_manifest()
        manifest["objects"][family]["sha256"] = sha256(content).hexdigest()
        (objects / library.MANIFEST).write_text(json.dumps(manifest))


@pytest.mark.parametrize("harm", [*HARMS, "empty manifest"])
def test_an_object_that_cannot_be_loaded_is_passed_over(
    harm: str, objects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next family, then Numba; without it one line says why."""
    monkeypatch.setattr(library, "cpu_flags", lambda: AVX2.cpu_flags)
    if harm == "empty manifest":
        (objects / library.MANIFEST).write_text("{}")
    else:
        harm_object(harm, objects, AVX2.name)
    assert choose() == JIT
    monkeypatch.setattr(library, "jit_kernels", without_numba)
    with pytest.raises(BytenmtError, match=r"^x86-64-avx2: .*: pip install 'bytenmt\[jit\]'") as e:
        choose()
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("harm", HARMS)
def test_the_next_best_family_is_chosen(harm: str, objects: Path) -> None:
    harm_object(harm, objects, AVX512.name)
    assert choose() == AVX2.name


def test_a_folder_where_nothing_may_run(objects: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then Numba compiles; without it the message of the system is printed, in one line."""

    def refuse(file: str) -> Any:
        raise OSError(f"{file}: failed to map segment from shared object")

    monkeypatch.setattr(library, "ctypes", SimpleNamespace(CDLL=refuse))
    assert choose() == JIT
    monkeypatch.setattr(library, "jit_kernels", without_numba)
    with pytest.raises(BytenmtError, match="avx512.*failed to map.*avx2.*failed to map.*pip"):
        choose()


@pytest.fixture
def forbidding(tmp_path: Path) -> Iterator[Path]:
    """A copy of the objects in a file system that executes nothing; only root can mount one."""
    folder = tmp_path / "noexec"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "noexec,size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        shutil.copytree(OBJECTS, folder / "objects")
        yield folder / "objects"
    finally:
        # A loader that fails may leave a part of the file in memory.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


WITHOUT_NUMBA = """
import sys
from pathlib import Path
sys.modules["numba"] = None
from bytenmt.cli.main import main
from bytenmt.decoding.cpu import library
library.OBJECTS = Path(sys.argv.pop(1))
main(prog_name="bytenmt")
"""


@pytest.mark.slow
def test_the_command_in_a_file_system_that_executes_nothing(
    forbidding: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line and exit code 1."""
    monkeypatch.setattr(library, "OBJECTS", forbidding)
    monkeypatch.setattr(library, "has_stale_objects", lambda: False)
    assert choose() == JIT
    command = [sys.executable, "-c", WITHOUT_NUMBA, str(forbidding), "translate", str(MODEL)]
    environment = {**os.environ, VARIABLE: AVX2.name}
    run = subprocess.run(command, input="Save\n", capture_output=True, text=True, env=environment)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.count("\n") == 1 and "failed to map segment" in run.stderr, run.stderr


def without_numba() -> Any:
    raise ModuleNotFoundError("No module named 'numba'")
