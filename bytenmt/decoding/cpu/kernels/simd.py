"""LLVM's language for the kernels of this package: vectors of 16 float32 numbers at addresses, and loops.

Compiled code (Numba's) calls what `emitted` makes; addresses are int64 and need not be aligned. A machine
with narrower vectors takes several for one; LLVM sees to it. Knows no operations of models.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
FLOAT = ir.FloatType()
INT8, INT16, INT32, INT64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
VECTOR = ir.VectorType(FLOAT, LANES)
INT_VECTOR = ir.VectorType(INT32, LANES)
HALVES = ir.VectorType(INT16, LANES)

X86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")


def _features() -> dict[str, bool]:
    """What instructions Numba will compile for, by LLVM's names; empty but on x86."""
    if not X86:
        return {}
    told = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if told is None:
        return dict(llvmlite.binding.get_host_cpu_features())
    return {name[1:]: name[0] == "+" for name in told.split(",") if name}


FEATURES = _features()
# Where a machine has no fused multiply-add LLVM would call a function for each number.
FUSED = not X86 or FEATURES.get("fma", False)

# Of a machine that rounds to bfloat16 and multiplies pairs of it by itself, where LLVM has words for it.
NATIVE_BF16 = FEATURES.get("avx512bf16", False) and llvmlite.binding.llvm_version_info[0] >= 17


class _BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's bfloat, which llvmlite has not."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return type(other) is _BFloat

    def __hash__(self) -> int:
        return hash(_BFloat)


_BFLOATS, PAIRS = ir.VectorType(_BFloat(), LANES), ir.VectorType(_BFloat(), 2 * LANES)

Value = Any  # of llvmlite, which has no types
Builder = Any


def emitted(n_addresses: int, n_floats: int, generate: Callable[..., Value], result: Any = types.void) -> Any:
    """Make a function for compiled code of int64 numbers, then float32 numbers.

    generate(builder, *arguments) writes it in LLVM's language and returns the result, None for none.
    """
    parameters = [types.int64] * n_addresses + [types.float32] * n_floats

    def build(context: Any, builder: Builder, signature: Any, arguments: Sequence[Value]) -> Value:
        made = generate(builder, *arguments)
        return context.get_dummy_value() if made is None else made

    names = [f"a{place}" for place in range(len(parameters))]
    scope = {"signature": result(*parameters), "build": build}
    # Numba reads the number of arguments from the function's own signature.
    exec(f"def typed(context, {', '.join(names)}): return signature, build", scope)
    return intrinsic(scope["typed"])


def whole(number: int) -> Value:
    """An int64 constant."""
    return ir.Constant(INT64, number)


def spread(number: float) -> Value:
    """A vector constant."""
    return ir.Constant(VECTOR, [number] * LANES)


def spread_int(number: int) -> Value:
    return ir.Constant(INT_VECTOR, [number] * LANES)


def pointer(builder: Builder, address: Value, kind: Any, place: Value | None = None) -> Value:
    """A pointer to `kind` at an address, `place` (of the kind) further on."""
    made = builder.inttoptr(address, kind.as_pointer())
    return made if place is None else builder.gep(made, [place])


def load(builder: Builder, address: Value, place: Value) -> Value:
    """16 numbers from the float `place` after an address on."""
    at = pointer(builder, address, FLOAT, place)
    return builder.load(builder.bitcast(at, VECTOR.as_pointer()), align=4)


def store(builder: Builder, value: Value, address: Value, place: Value) -> None:
    at = pointer(builder, address, FLOAT, place)
    builder.store(value, builder.bitcast(at, VECTOR.as_pointer()), align=4)


def broadcast(builder: Builder, scalar: Value) -> Value:
    """A vector of one number."""
    kind = ir.VectorType(scalar.type, LANES)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(INT32, 0))
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), spread_int(0))


def call(builder: Builder, name: str, kind: Any, arguments: Sequence[Value]) -> Value:
    """Call one of LLVM's own functions."""
    signature = ir.FunctionType(kind, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, signature, name)  # type: ignore[no-untyped-call]
    return builder.call(function, arguments)


def prefetch(builder: Builder, address: Value) -> None:
    """Have the cache line of an address on its way to the second cache; any address will do."""
    numbers = [ir.Constant(INT32, number) for number in (0, 2, 1)]  # to read, how near, data
    call(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer(builder, address, INT8), *numbers])


def multiply_add(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    """a * b + c, fused where the machine can."""
    if FUSED:
        return call(builder, f"llvm.fma.v{LANES}f32", VECTOR, [a, b, c])
    return builder.fadd(builder.fmul(a, b), c)


def loop(
    builder: Builder,
    end: Value,
    step: int,
    carried: Sequence[Value],
    body: Callable[..., Sequence[Value]],
    start: Value | None = None,
) -> list[Value]:
    """for place in range(start, end, step): carried = body(place, *carried).

    Returns the place that is not reached, then what is carried last.
    """
    before = builder.basic_block
    head, inside = builder.append_basic_block("head"), builder.append_basic_block("inside")
    after = builder.append_basic_block("after")
    builder.branch(head)
    builder.position_at_end(head)
    place = builder.phi(INT64)
    place.add_incoming(whole(0) if start is None else start, before)
    values = [builder.phi(value.type) for value in carried]
    for value, first in zip(values, carried, strict=True):
        value.add_incoming(first, before)
    builder.cbranch(builder.icmp_signed("<", place, end), inside, after)
    builder.position_at_end(inside)
    following = body(place, *values)
    place.add_incoming(builder.add(place, whole(step)), builder.basic_block)
    for value, new in zip(values, following, strict=True):
        value.add_incoming(new, builder.basic_block)
    builder.branch(head)
    builder.position_at_end(after)
    return [place, *values]


def through(
    builder: Builder, width: Value, step: int, carried: Sequence[Value], body: Callable[..., Sequence[Value]]
) -> list[Value]:
    """carried = body(place, left, *carried) in steps over a width. left: None, or of a last step that is
    shorter how many there are.

    Returns what is carried last.
    """
    end = builder.and_(width, whole(-step))
    _, *carried = loop(builder, end, step, carried, lambda place, *values: body(place, None, *values))
    before = builder.basic_block
    with builder.if_then(builder.icmp_signed("<", end, width)):
        rest = body(end, builder.sub(width, end), *carried)
        inside = builder.basic_block
    joined = []
    for without, value in zip(carried, rest, strict=True):
        phi = builder.phi(value.type)
        phi.add_incoming(without, before)
        phi.add_incoming(value, inside)
        joined.append(phi)
    return joined


def mask(builder: Builder, n: Value) -> Value:
    """Which of 16 lanes are among the first n."""
    count = broadcast(builder, builder.trunc(n, INT32))
    return builder.icmp_unsigned("<", ir.Constant(INT_VECTOR, list(range(LANES))), count)


def load_first(builder: Builder, address: Value, place: Value, lanes: Value) -> Value:
    """As load, but only the lanes of a mask are read; the others are zero."""
    at = builder.bitcast(pointer(builder, address, FLOAT, place), VECTOR.as_pointer())
    arguments = [at, ir.Constant(INT32, 4), lanes, spread(0.0)]
    return call(builder, f"llvm.masked.load.v{LANES}f32.p0", VECTOR, arguments)


def store_first(builder: Builder, value: Value, address: Value, place: Value, lanes: Value) -> None:
    """As store, but only the lanes of a mask are written."""
    at = builder.bitcast(pointer(builder, address, FLOAT, place), VECTOR.as_pointer())
    arguments = [value, at, ir.Constant(INT32, 4), lanes]
    call(builder, f"llvm.masked.store.v{LANES}f32.p0", ir.VoidType(), arguments)


def _from_half(builder: Builder, halves: Value) -> Value:
    bits = builder.shl(builder.zext(halves, INT_VECTOR), spread_int(16))
    return builder.bitcast(bits, VECTOR)


def load_half(builder: Builder, address: Value, place: Value) -> Value:
    """As load, of numbers in bfloat16."""
    at = builder.bitcast(pointer(builder, address, INT16, place), HALVES.as_pointer())
    return _from_half(builder, builder.load(at, align=2))


def load_first_half(builder: Builder, address: Value, place: Value, lanes: Value) -> Value:
    """As load_first, of numbers in bfloat16."""
    at = builder.bitcast(pointer(builder, address, INT16, place), HALVES.as_pointer())
    arguments = [at, ir.Constant(INT32, 2), lanes, ir.Constant(HALVES, [0] * LANES)]
    return _from_half(builder, call(builder, f"llvm.masked.load.v{LANES}i16.p0", HALVES, arguments))


def to_half(builder: Builder, values: Value) -> Value:
    """The bits of the nearest bfloat16, ties to even, in the lower half of each lane; numbers below the
    smallest normal one may become 0."""
    if NATIVE_BF16:
        rounded = call(builder, "llvm.x86.avx512bf16.cvtneps2bf16.512", _BFLOATS, [values])
        return builder.zext(builder.bitcast(rounded, HALVES), INT_VECTOR)
    bits = builder.bitcast(values, INT_VECTOR)
    odd = builder.and_(builder.lshr(bits, spread_int(16)), spread_int(1))
    bits = builder.lshr(builder.add(bits, builder.add(odd, spread_int(0x7FFF))), spread_int(16))
    return builder.select(builder.fcmp_unordered("uno", values, values), spread_int(0x7FC0), bits)


def store_half(builder: Builder, value: Value, address: Value, place: Value) -> None:
    """As store, in bfloat16."""
    at = builder.bitcast(pointer(builder, address, INT16, place), HALVES.as_pointer())
    builder.store(builder.trunc(to_half(builder, value), HALVES), at, align=2)


def store_first_half(builder: Builder, value: Value, address: Value, place: Value, lanes: Value) -> None:
    """As store_first, in bfloat16."""
    at = builder.bitcast(pointer(builder, address, INT16, place), HALVES.as_pointer())
    halves = builder.trunc(to_half(builder, value), HALVES)
    arguments = [halves, at, ir.Constant(INT32, 2), lanes]
    call(builder, f"llvm.masked.store.v{LANES}i16.p0", ir.VoidType(), arguments)


def fold(builder: Builder, vector: Value, join: Callable[[Value, Value], Value]) -> Value:
    """One number of 16: halves are joined, in a fixed order."""
    width = LANES
    while width > 1:
        width //= 2
        places = ir.VectorType(INT32, width)
        nothing = ir.Constant(vector.type, ir.Undefined)
        low = builder.shuffle_vector(vector, nothing, ir.Constant(places, list(range(width))))
        high = builder.shuffle_vector(vector, nothing, ir.Constant(places, list(range(width, 2 * width))))
        vector = join(low, high)
    return builder.extract_element(vector, ir.Constant(INT32, 0))
