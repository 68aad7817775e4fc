"""Choose the machine code of the CPU engine: an object of the package, or what Numba compiles here.

The package has an object for each family of processors (tools/build_kernels.py). What depends on
the processor comes with the family, never from the machine: a family can be forced by the
environment variable BYTENMT_KERNELS. Numba compiles where no object fits, where kernels have been
edited in a checkout, or where the variable is "jit".
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from bytenmt.decoding.cpu.call_table import table_of
from bytenmt.decoding.cpu.records import SearchCall
from bytenmt.decoding.search.state import SearchParams, SearchState
from bytenmt.errors import BytenmtError
from bytenmt.kernel_sources import PACKAGE, byte_digest, engine_files, syntax_digest
from bytenmt.reporter import SILENT, Reporter

VARIABLE = "BYTENMT_KERNELS"  # of the environment: "jit", or the name of a family
JIT = "jit"  # stands for kernels that Numba compiles on this machine
OBJECTS = Path(__file__).parent / "objects"  # the folder of shared libraries, one a family
MANIFEST = "manifest.json"  # in OBJECTS, see read_manifest
CPU_INFO = Path("/proc/cpuinfo")


class KernelFamily(NamedTuple):
    """A family of processors, for which the package has one shared library of machine code."""

    name: str
    cpu_flags: frozenset[str]  # Linux's names of the features that a processor needs
    has_int8_products: bool  # whether they have an instruction for dot products of bytes (VNNI)


_AVX2 = {"abm", "avx", "avx2", "bmi1", "bmi2", "cx16", "f16c", "fma", "movbe", "popcnt"}
_AVX2 |= {"sse4_1", "sse4_2"}
_AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni"}
# The best family first.
FAMILIES = (
    KernelFamily("x86-64-avx512", frozenset(_AVX2 | _AVX512), has_int8_products=True),
    KernelFamily("x86-64-avx2", frozenset(_AVX2), has_int8_products=False),
)


class Kernels(NamedTuple):
    """The two functions of the CPU engine in machine code, and the processors they are made for."""

    family: str  # the name of a KernelFamily, or "jit" if Numba compiles them here
    has_int8_products: bool  # whether they use an instruction for dot products of bytes (VNNI)
    run_engine: Callable[[int], object]  # called with the address of the table of an EngineCall
    run_search: Callable[[int], object]  # called with the address of the table of a SearchCall


def load_engine(reporter: Reporter = SILENT) -> Kernels:
    """Return the machine code for this processor, with run_engine ready to be called.

    reporter: gets a message and the progress where Numba compiles. Raises BytenmtError where there
    is no machine code, and no Numba.
    """
    kernels = choose_kernels()
    _prepare(kernels.run_engine, reporter)
    return kernels


def load_search(reporter: Reporter = SILENT) -> Kernels:
    """Return the machine code for this processor, with run_search ready to be called.

    reporter: gets a message where Numba compiles. Raises BytenmtError without code and Numba.
    """
    kernels = choose_kernels()
    _prepare(kernels.run_search, reporter)
    return kernels


def _prepare(function: Callable[[int], object], reporter: Reporter) -> None:
    """Compile a function of the chosen kernels if they are those of Numba."""
    if choose_kernels().family == JIT:
        from bytenmt.decoding.cpu.compilation import compile_once

        compile_once(function, "(int64,)", reporter)


def search_step(search: SearchState, params: SearchParams) -> None:
    """Execute a step of the search, in place: choose each beam's next byte by search.log_p."""
    table = table_of(SearchCall(search, params))
    load_search().run_search(table.ctypes.data)


@cache
def choose_kernels() -> Kernels:
    """Return the machine code for this processor: a library of the package, or else Numba's.

    The environment variable BYTENMT_KERNELS can choose: the name of a KernelFamily, or "jit" for
    Numba, which compiles at the first call. Raises BytenmtError for another value of the variable,
    or where there is no library and no Numba.
    """
    choice = os.environ.get(VARIABLE, "")
    names = [family.name for family in FAMILIES]
    if choice not in ("", JIT, *names):
        raise BytenmtError(f"{VARIABLE} is {choice!r}: use {', '.join(names)} or {JIT}")
    problems = []
    if choice == "" and has_stale_objects():
        problems.append("kernels of this checkout have been edited")
    elif choice != JIT:
        for family in usable_families(choice):
            try:
                return open_object(family)
            except (OSError, ValueError, KeyError, AttributeError) as error:
                problems.append(f"{family.name}: {error}")
    try:
        return jit_kernels()
    except ModuleNotFoundError as error:
        here = f"no kernels for {platform.system()} on {platform.machine()}"
        raise BytenmtError(
            f"{'; '.join(problems) or here}: pip install 'bytenmt[jit]' compiles them here"
        ) from error


def usable_families(choice: str) -> list[KernelFamily]:
    """Return the families of processors whose machine code can be used here, the best first.

    choice: the name of a family to return alone, unchecked; "" to check this machine's processor.
    """
    if choice:
        return [family for family in FAMILIES if family.name == choice]
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return []
    flags = cpu_flags()
    return [family for family in FAMILIES if family.cpu_flags <= flags]


def cpu_flags() -> frozenset[str]:
    """Return the features of this machine's processor by Linux's names, such as "avx2"."""
    with CPU_INFO.open() as lines:
        for line in lines:
            if line.startswith("flags"):
                return frozenset(line.partition(":")[2].split())
    return frozenset()


def open_object(family: KernelFamily) -> Kernels:
    """Load the object (shared library) of a family of processors, and return its functions.

    Raises OSError, ValueError, KeyError or AttributeError where it is not there, is not the one
    that was built, or cannot be loaded.
    """
    built = read_manifest()["objects"][family.name]
    file = OBJECTS / built["file"]
    # The loader of the system would be killed by a file that has been cut short.
    if sha256(file.read_bytes()).hexdigest() != built["sha256"]:
        raise ValueError(f"{file} is not the file that was built")
    library: Any = ctypes.CDLL(str(file))  # its functions get other types
    functions = (library.bytenmt_run_engine, library.bytenmt_run_search)
    for function in functions:
        function.argtypes = [ctypes.c_void_p]
        function.errcheck = _check_status
    return Kernels(family.name, family.has_int8_products, *functions)


def _check_status(status: int, *_: object) -> None:
    """Raise RuntimeError if compiled code has failed where Python would have raised an error."""
    if status != 0:
        raise RuntimeError(f"the kernels failed with status {status}")


def jit_kernels() -> Kernels:
    """Return the engine's functions, which Numba compiles at their first call. Raises
    ModuleNotFoundError without Numba."""
    from bytenmt.decoding.cpu.entry import run_engine, run_search
    from bytenmt.decoding.cpu.kernels.microkernels import NATIVE_INT8

    return Kernels(JIT, NATIVE_INT8, run_engine, run_search)


def read_manifest() -> dict[str, Any]:
    """Return the description of the objects (shared libraries) that their build has written.

    "objects": file name and SHA-256 by family; "syntax", "bytes": digests of the kernels' source.
    """
    manifest: dict[str, Any] = json.loads((OBJECTS / MANIFEST).read_text(encoding="utf-8"))
    return manifest


def has_stale_objects() -> bool:
    """Return whether kernels have been edited since the objects (shared libraries) were built.

    False outside a checkout. Comments and docstrings make no difference.
    """
    if not (PACKAGE.parent / "pyproject.toml").is_file():
        return False
    try:
        manifest = read_manifest()
    except (OSError, ValueError):
        return True
    files = engine_files()
    if byte_digest(files) == manifest["bytes"]:
        return False
    is_same: bool = syntax_digest(files) == manifest["syntax"]
    return not is_same
