"""Compile functions with Numba and keep the machine code on disk between runs.

Every compiled function of the package uses the decorators of this module. Numba's own cache notices only
changes of the function's own file, needs a folder that it can write to, and trusts whatever lies there;
kernel_cache.py covers the imported files too, and this module connects it to Numba.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import llvmlite
import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.options import DefaultOptions
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps
from numba.core.types import BaseNamedTuple, BaseTuple

from bytenmt.kernel_cache import digest, entry_name, store

VERSIONS = numba.__version__, llvmlite.__version__, np.__version__, EXTENSION_SUFFIXES[0]

# Options for code without reference counting. Where functions pass records of many arrays for every row,
# counting references would be most of their work. Such functions can allocate no arrays and return only
# arrays that they were passed; their caller in Python keeps the arguments alive.
BORROWING: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
COUNTING: dict[str, Any] = {
    name: True for name in BORROWING
}  # explicit, since a callee inherits its caller's options

# Of functions that compiled code alone calls.
INNER: dict[str, Any] = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

Function = TypeVar("Function", bound=Callable[..., Any])
_CACHED_ONLY = ContextVar("cached_kernels_only", default=False)


class KernelNotCached(Exception):
    """Raised inside cached_kernels_only for a function whose machine code is not on disk."""


@contextmanager
def cached_kernels_only() -> Iterator[None]:
    """While the context is open, raise KernelNotCached in this thread instead of compiling."""
    before = _CACHED_ONLY.set(True)
    try:
        yield
    finally:
        _CACHED_ONLY.reset(before)


def njit(function: Function) -> Function:
    """Compile a function with Numba, releasing the interpreter lock, and cache it on disk.

    The cache key covers the function's file and all files of this package that it imports, so a compiled
    function may use constants and functions of other files.
    """
    return _kept(numba.njit(nogil=True)(function), function)


def njit_borrowing(function: Function) -> Function:
    """Compile like njit, without reference counting (see BORROWING), a function that only Python calls.

    What compiled callers would need is not stored with it: that takes half of the time of reading it.
    """
    return _kept(numba.njit(nogil=True, **BORROWING)(function), function, alone=True)


def njit_any_order(function: Function) -> Function:
    """Compile like njit, but let sums be reordered, so that they are computed in SIMD lanes.

    The order depends on the machine. It is the same in every run there as long as no loop that sums also
    writes to an array: the vectorisation of such a loop depends on the distance between its arrays.
    """
    return _kept(numba.njit(nogil=True, fastmath={"reassoc", "contract"})(function), function)


def compiled(function: Function) -> Function:
    """Compile a function that only compiled code calls: entry points for Python and C, a third of all
    compilation, are left out. It makes no arrays, see BORROWING."""
    return cast(Function, numba.njit(**INNER, **BORROWING)(function))


def allocating(function: Function) -> Function:
    """Compile like `compiled`, but with reference counting, for a function that allocates arrays or receives
    arrays that compiled code has allocated."""
    return cast(Function, numba.njit(**INNER, **COUNTING)(function))


def inlined(function: Function) -> Function:
    """Compile like `compiled`, and inline the function into its callers.

    A call passes every field of every record argument; for work on one row that takes longer than the work.
    """
    return cast(Function, numba.njit(forceinline=True, **INNER, **BORROWING)(function))


def inlined_allocating(function: Function) -> Function:
    """Compile like `inlined`, but with reference counting, for a function that allocates arrays."""
    return cast(Function, numba.njit(forceinline=True, **INNER, **COUNTING)(function))


def as_python(function: Function, stand_ins: Mapping[Any, Callable[..., Any]] | None = None) -> Function:
    """Return a compiled function as the Python that it was compiled from, and all that it calls likewise.

    stand_ins: called in place of functions that have no Python, or too slow one.
    """
    made = {id(compiled): instead for compiled, instead in (stand_ins or {}).items()}

    def python(value: Any) -> Any:
        source = getattr(value, "py_func", None)
        if id(value) not in made and source is not None:
            scope = dict(source.__globals__)
            rest = source.__name__, source.__defaults__, source.__closure__
            made[id(value)] = FunctionType(source.__code__, scope, *rest)
            scope.update({name: python(scope[name]) for name in source.__code__.co_names if name in scope})
        return made.get(id(value), value)

    return cast(Function, python(function))


def _kept(compiled: Any, function: Function, alone: bool = False) -> Function:
    compiled._cache = KernelCache(function, alone)
    return cast(Function, compiled)


class KernelCache(NullCache):
    """Numba's cache interface of one function, backed by the store of kernel_cache.py."""

    def __init__(self, function: Callable[..., Any], alone: bool = False) -> None:
        """alone: whether no compiled function calls this one."""
        self._alone = alone
        file = Path(inspect.getfile(function))
        self._function, self._name = function, f"{file.stem}.{function.__qualname__}"
        try:
            # Read at once: later the files may differ from what this process has imported.
            self._sources: str | None = digest(file)
        except OSError:  # defined interactively, or inside an archive
            self._sources = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the cached machine code for these argument types, or None."""
        name = self._entry(sig, target_context.codegen())
        payload = store().read(name) if name else None
        if payload is None:
            if _CACHED_ONLY.get():
                raise KernelNotCached(self._name)
            return None  # the compiler refreshes the context itself
        rtsys.initialize(target_context)
        return CompileResult._rebuild(target_context, *pickle.loads(payload))  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store machine code for these argument types."""
        name = self._entry(sig, data.codegen)
        if name and not data.library.has_dynamic_globals:  # addresses that only this process knows
            parts = _called_alone(data._reduce()) if self._alone else data._reduce()
            store().write(name, dumps(parts))  # type: ignore[no-untyped-call]

    def _entry(self, types: Any, codegen: Any) -> str | None:
        """Return the name of the cache entry for these argument types on this machine."""
        if self._sources is None:
            return None
        code = self._function.__code__
        cells = [cell.cell_contents for cell in self._function.__closure__ or ()]
        held = dumps(cells) if cells else None  # type: ignore[no-untyped-call]
        which = code.co_firstlineno, code.co_code, held
        layout = [*record_fields(types)]
        return entry_name(self._name, types, layout, codegen.magic_tuple(), VERSIONS, self._sources, *which)


def record_fields(types: Iterable[Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the name and the fields of every NamedTuple among argument types, nested ones included.

    They belong to the cache key: compiled code addresses fields by number, and the name of Numba's type does
    not contain them.
    """
    for one in types:
        if isinstance(one, BaseNamedTuple):
            record: Any = one
            yield record.instance_class.__name__, record.fields
        if isinstance(one, BaseTuple):
            yield from record_fields(cast(Iterable[Any], one))


def _called_alone(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Drop from a compiled function what other compiled functions would link against.

    Only the symbol of its Python wrapper stays, which Numba looks up there.
    """
    (name, kind, data), function, *rest = parts
    if kind == "object":
        defined = f'@"{function.llvm_cpython_wrapper_name}" = global i8 0'
        data = data[0], llvmlite.binding.parse_assembly(defined).as_bitcode()
    return (name, kind, data), function, *rest
