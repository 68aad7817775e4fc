"""`njit`, the one way in which this package compiles with Numba and keeps what is compiled on disk.

Numba's own cache notices a change of the function's file only, cannot do without a folder to write to, and
takes what it finds there for whole; kernel_cache.py does otherwise, and this file fits it to Numba. Knows
Numba; knows no kernel.
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

# Compiled without counting who refers to an array: where functions hand over records of many arrays, for
# every row, that would be most of their work. They can make no arrays, and give none back that they were not
# given; who calls from Python holds on to what it gives.
BORROWING: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
COUNTING: dict[str, Any] = {name: True for name in BORROWING}  # said, as it is taken over from who calls

Function = TypeVar("Function", bound=Callable[..., Any])
_KEPT_ONLY = ContextVar("kept_only", default=False)


class NotKept(Exception):
    """A function is not on disk, and was not to be compiled."""


@contextmanager
def kept_only() -> Iterator[None]:
    """Inside, this thread compiles nothing: NotKept is raised where a function is not there yet."""
    before = _KEPT_ONLY.set(True)
    try:
        yield
    finally:
        _KEPT_ONLY.reset(before)


def njit(function: Function) -> Function:
    """Compile with Numba: without the interpreter lock, and kept on disk between runs.

    What is kept goes with the function's file and all that this file imports from this package, so a compiled
    function may use what other files define.
    """
    return _kept(numba.njit(nogil=True)(function), function)


def njit_borrowing(function: Function) -> Function:
    """njit for a function that makes no arrays, see BORROWING, and that is called from Python alone: what
    compiled code that calls it would need is not kept with it, and takes half of the time to read it."""
    return _kept(numba.njit(nogil=True, **BORROWING)(function), function, alone=True)


def njit_any_order(function: Function) -> Function:
    """njit for a function whose sums may be taken in any order: a vector's lanes each take a part of one. The
    order is the machine's, and the same in every run there if no loop that sums also writes to an array: such
    a loop's lanes depend on how far apart its arrays lie."""
    return _kept(numba.njit(nogil=True, fastmath={"reassoc", "contract"})(function), function)


def uncompiled(function: Function, stand_ins: Mapping[Any, Callable[..., Any]]) -> Function:
    """The Python of a compiled function and of all that it calls. stand_ins: what is called instead of
    functions that have no Python."""
    made = {id(compiled): instead for compiled, instead in stand_ins.items()}

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
    """What Numba asks before it compiles, and gives what it has compiled."""

    def __init__(self, function: Callable[..., Any], alone: bool = False) -> None:
        """alone: no compiled function calls it."""
        self._alone = alone
        file = Path(inspect.getfile(function))
        self._function, self._name = function, f"{file.stem}.{function.__qualname__}"
        try:
            # Now: what stands in the files later may not be what this process has read.
            self._sources: str | None = digest(file)
        except OSError:  # typed in, or in an archive
            self._sources = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function compiled for these types of its arguments, None if there is none."""
        name = self._entry(sig, target_context.codegen())
        payload = store().read(name) if name else None
        if payload is None:
            if _KEPT_ONLY.get():
                raise NotKept(self._name)
            return None  # what compiles refreshes the context
        rtsys.initialize(target_context)
        return CompileResult._rebuild(target_context, *pickle.loads(payload))  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        name = self._entry(sig, data.codegen)
        if name and not data.library.has_dynamic_globals:  # they are a process' own addresses
            parts = _called_alone(data._reduce()) if self._alone else data._reduce()
            store().write(name, dumps(parts))  # type: ignore[no-untyped-call]

    def _entry(self, types: Any, codegen: Any) -> str | None:
        """The entry's name for these types on this machine."""
        if self._sources is None:
            return None
        code = self._function.__code__
        cells = [cell.cell_contents for cell in self._function.__closure__ or ()]
        held = dumps(cells) if cells else None  # type: ignore[no-untyped-call]
        which = code.co_firstlineno, code.co_code, held
        layout = [*record_fields(types)]
        return entry_name(self._name, types, layout, codegen.magic_tuple(), VERSIONS, self._sources, *which)


def record_fields(types: Iterable[Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The name and the fields of every NamedTuple among the types of arguments, and of those inside: compiled
    code knows fields by their numbers, and Numba's name of the type does not tell them."""
    for one in types:
        if isinstance(one, BaseNamedTuple):
            record: Any = one
            yield record.instance_class.__name__, record.fields
        if isinstance(one, BaseTuple):
            yield from record_fields(cast(Iterable[Any], one))


def _called_alone(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """What Numba keeps of a function, without what it is made part of other functions by: of that only the
    name by which Python calls it, which Numba looks for there."""
    (name, kind, data), function, *rest = parts
    if kind == "object":
        defined = f'@"{function.llvm_cpython_wrapper_name}" = global i8 0'
        data = data[0], llvmlite.binding.parse_assembly(defined).as_bitcode()
    return (name, kind, data), function, *rest
