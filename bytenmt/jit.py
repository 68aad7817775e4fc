"""Compile functions with Numba and keep the machine code on disk between runs.

Every compiled function of the package uses the decorators of this module. Numba's own cache notices
only changes of a function's own file; here it lies in a folder that is named by a digest of all
kernel files.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite
import numba
import numpy as np
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.options import DefaultOptions
from numba.core.registry import cpu_target

from bytenmt.kernel_sources import PACKAGE, byte_digest, kernel_files

CACHE_VARIABLE = "NUMBA_CACHE_DIR"  # Numba's own: names the folder of all compiled code
VERSIONS = numba.__version__, llvmlite.__version__, np.__version__, EXTENSION_SUFFIXES[0]
# Options for code without reference counting. Where functions pass records of many arrays for every
# row, counting references would be most of their work. Such functions can allocate no arrays and
# return only arrays that they were passed; their caller in Python keeps the arguments alive.
BORROWING_OPTIONS: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
# Of functions that compiled code alone calls.
INNER_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    **BORROWING_OPTIONS,
}

Function = TypeVar("Function", bound=Callable[..., Any])


def njit(function: Function) -> Function:
    """Decorator: compile a function with Numba, releasing the GIL, and cache the machine code on
    disk.

    The cache notices changes of the files that kernel_files (kernel_sources.py) returns for the
    function's own file, so it may use constants and functions of those files only.
    """
    return _cached(numba.njit(nogil=True)(function), function)


def njit_borrowing(function: Function) -> Function:
    """Decorator like njit for functions that only Python calls, compiled without reference
    counting.

    They can allocate no arrays, and return only arrays that they were passed.
    """
    return _cached(numba.njit(nogil=True, **BORROWING_OPTIONS)(function), function)


def njit_any_order(function: Function) -> Function:
    """Decorator like njit that lets sums be reordered, so that they are computed in SIMD lanes.

    The order depends on the machine. It is the same in every run there as long as no loop that sums
    also writes to an array: the vectorisation of such a loop depends on the distance between its
    arrays.
    """
    return _cached(numba.njit(nogil=True, fastmath={"reassoc", "contract"})(function), function)


def compiled(function: Function) -> Function:
    """Decorator: compile a function that only other compiled functions call. It must not allocate
    arrays.

    Entry points for Python and C, a third of all compilation time, are left out, and so is
    reference counting.
    """
    return cast(Function, numba.njit(**INNER_OPTIONS)(function))


def inlined(function: Function) -> Function:
    """Decorator like `compiled` that also inlines the function into its callers.

    A call passes every field of every record argument, which takes longer than the work on a row.
    """
    return cast(Function, numba.njit(forceinline=True, **INNER_OPTIONS)(function))


@cache
def cache_folder(file: Path) -> Path | None:
    """Return the folder for the machine code of a Python file's functions.

    It is in $NUMBA_CACHE_DIR, or else in the package's own folder, and may be read-only if it
    exists. None if it does not exist and cannot be created.
    """
    place = Path(os.environ.get(CACHE_VARIABLE) or PACKAGE / "__pycache__") / "bytenmt"
    with suppress(OSError):  # a source inside an archive, or no permission
        folder = place / f"{file.stem}-{digest(file)}"
        place.mkdir(parents=True, exist_ok=True)
        if folder.is_dir() or os.access(place, os.W_OK):
            return folder
    return None


def digest(file: Path) -> str:
    """Return a hash (20 hex digits) of all files that the machine code of a Python file may depend
    on, and of the versions of Python, NumPy, Numba and LLVM. Raises OSError."""
    contents = f"{VERSIONS} {byte_digest(kernel_files(file))}"
    return sha256(contents.encode()).hexdigest()[:20]


class _Locator(_CacheLocator):
    """Tells Numba's cache that the machine code of a function is in the cache_folder of its file.

    The stamp of the source is empty, since the folder's name contains the digest. The line tells a
    function from others of the same name.
    """

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._function = function
        self._folder = folder

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return ""

    def get_disambiguator(self) -> str:
        return str(self._function.__code__.co_firstlineno)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _Locator | None:
        folder = cache_folder(Path(file))
        return None if folder is None else cls(function, folder)


class _KernelCache(FunctionCache):
    """Numba's disk cache of one function, which writes nothing to a full disk."""

    class _impl_class(CompileResultCacheImpl):  # Numba's name
        _locator_classes = [_Locator]  # noqa: RUF012

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # a full disk, or a folder of others
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


def is_stored(dispatcher: Any) -> bool:
    """Return whether machine code of a function is on disk for the instruction set of this CPU.

    dispatcher: the function as a decorator of this module returned it.
    """
    here = cpu_target.target_context.codegen().magic_tuple()
    index: Any = getattr(dispatcher._cache, "_cache_file", None)  # None where nothing can be stored
    return index is not None and any(key[1] == here for key in index._load_index())


def _cached(compiled: Any, function: Function) -> Function:
    if cache_folder(Path(inspect.getfile(function))) is not None:
        new_cache: Any = _KernelCache  # has no types
        compiled._cache = new_cache(function)
    return cast(Function, compiled)
