"""Write kernels in LLVM IR: vectors of 16 float32 numbers, loads and stores by address, and loops.

`emit_function` makes a function that code compiled by Numba can call. Addresses are int64 and need
not be aligned. On machines with narrower vectors LLVM splits a vector into several. Functions that
take a builder emit instructions, and take and return LLVM values.
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
ROUNDING_TERM = 1.5 * 2.0**23  # adding it to a float32 rounds to integers in its last bits

X86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")


def _cpu_features() -> dict[str, bool]:
    """Return the CPU features for which Numba compiles, by LLVM's names; empty on other machines
    than x86."""
    if not X86:
        return {}
    configured = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if configured is None:
        return dict(llvmlite.binding.get_host_cpu_features())
    return {name[1:]: name[0] == "+" for name in configured.split(",") if name}


FEATURES = _cpu_features()
# Without a fused multiply-add instruction, LLVM would call a function for each number.
FUSED = not X86 or FEATURES.get("fma", False)

Value = Any  # of llvmlite, which has no types
Builder = Any


def emit_function(
    n_addresses: int, n_floats: int, generate: Callable[..., Value], result: Any = types.void
) -> Any:
    """Return a function written in LLVM IR, which functions compiled by Numba can call.

    Its arguments are n_addresses int64, then n_floats float32 numbers.
    generate(builder, *arguments) emits its body and returns its result, or None.
    result: the Numba type of the result.
    """
    parameters = [types.int64] * n_addresses + [types.float32] * n_floats

    def build(context: Any, builder: Builder, signature: Any, arguments: Sequence[Value]) -> Value:
        value = generate(builder, *arguments)
        return context.get_dummy_value() if value is None else value

    names = [f"a{i}" for i in range(len(parameters))]
    scope = {"signature": result(*parameters), "build": build}
    # Numba reads the number of arguments from the function's own signature.
    exec(f"def typed(context, {', '.join(names)}): return signature, build", scope)
    return intrinsic(scope["typed"])


def const_int(number: int) -> Value:
    """Return an LLVM constant of the type int64."""
    return ir.Constant(INT64, number)


def splat(number: float) -> Value:
    """Return an LLVM constant: a vector whose 16 lanes are the same float32 number."""
    return ir.Constant(VECTOR, [number] * LANES)


def splat_int(number: int) -> Value:
    """Return an LLVM constant: a vector whose 16 lanes are the same int32 number."""
    return ir.Constant(INT_VECTOR, [number] * LANES)


def pointer(builder: Builder, address: Value, kind: Any, index: Value | None = None) -> Value:
    """Return a pointer to element `index`, or 0, of an array of LLVM type `kind` at an address."""
    base = builder.inttoptr(address, kind.as_pointer())
    return base if index is None else builder.gep(base, [index])


def load(builder: Builder, address: Value, index: Value) -> Value:
    """Emit the load of 16 float32 numbers, from element `index` of an array at an address."""
    element = pointer(builder, address, FLOAT, index)
    return builder.load(builder.bitcast(element, VECTOR.as_pointer()), align=4)


def store(builder: Builder, value: Value, address: Value, index: Value) -> None:
    """Emit the store of 16 float32 numbers, to element `index` of an array at an address."""
    element = pointer(builder, address, FLOAT, index)
    builder.store(value, builder.bitcast(element, VECTOR.as_pointer()), align=4)


def broadcast(builder: Builder, scalar: Value) -> Value:
    """Return a vector whose 16 lanes are the same scalar, an LLVM value of any type."""
    kind = ir.VectorType(scalar.type, LANES)
    first_lane = builder.insert_element(
        ir.Constant(kind, ir.Undefined), scalar, ir.Constant(INT32, 0)
    )
    return builder.shuffle_vector(first_lane, ir.Constant(kind, ir.Undefined), splat_int(0))


def call(builder: Builder, name: str, kind: Any, arguments: Sequence[Value]) -> Value:
    """Emit a call of an LLVM intrinsic by its name; return its result, of the LLVM type `kind`."""
    signature = ir.FunctionType(kind, [argument.type for argument in arguments])
    insert: Any = cgutils.get_or_insert_function  # has no types
    return builder.call(insert(builder.module, signature, name), arguments)


def prefetch(builder: Builder, address: Value) -> None:
    """Emit a prefetch of a cache line into the second-level cache.

    The address need not be that of valid memory.
    """
    numbers = [ir.Constant(INT32, number) for number in (0, 2, 1)]  # read, locality, data cache
    call(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer(builder, address, INT8), *numbers])


def multiply_add(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    """Emit a * b + c of float32 vectors, fused where the machine has the instruction."""
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
    """Emit `for index in range(start, end, step): carried = body(index, *carried)`.

    start: 0 if None. Returns the index at which the loop stops, and then the loop-carried values.
    """
    before = builder.basic_block
    head = builder.append_basic_block("head")
    inside = builder.append_basic_block("inside")
    after = builder.append_basic_block("after")
    builder.branch(head)
    builder.position_at_end(head)
    index = builder.phi(INT64)
    index.add_incoming(const_int(0) if start is None else start, before)
    values = [builder.phi(value.type) for value in carried]
    for value, first in zip(values, carried, strict=True):
        value.add_incoming(first, before)
    builder.cbranch(builder.icmp_signed("<", index, end), inside, after)
    builder.position_at_end(inside)
    following = body(index, *values)
    index.add_incoming(builder.add(index, const_int(step)), builder.basic_block)
    for value, new in zip(values, following, strict=True):
        value.add_incoming(new, builder.basic_block)
    builder.branch(head)
    builder.position_at_end(after)
    return [index, *values]


def loop_with_tail(
    builder: Builder,
    width: Value,
    carried: Sequence[Value],
    body: Callable[..., Sequence[Value]],
    start: Value | None = None,
) -> list[Value]:
    """Emit a loop over `width` numbers, 16 at a time: carried = body(index, n_left, *carried).

    n_left: None for a full step; for a shorter last one, how many numbers are left (see load_part).
    start: the first index, a multiple of 16; 0 if None. Returns `carried`.
    """
    end = builder.and_(width, const_int(-LANES))
    _, *carried = loop(
        builder, end, LANES, carried, lambda index, *values: body(index, None, *values), start
    )
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


def lane_mask(builder: Builder, n: Value) -> Value:
    """Return a vector of 16 booleans, of which the first n are true."""
    count = broadcast(builder, builder.trunc(n, INT32))
    return builder.icmp_unsigned("<", ir.Constant(INT_VECTOR, list(range(LANES))), count)


def load_part(builder: Builder, address: Value, index: Value, n_left: Value | None) -> Value:
    """Emit a `load` of 16 numbers; only the first n_left (None: all) are read, the others are 0."""
    if n_left is None:
        return load(builder, address, index)
    vector = builder.bitcast(pointer(builder, address, FLOAT, index), VECTOR.as_pointer())
    arguments = [vector, ir.Constant(INT32, 4), lane_mask(builder, n_left), splat(0.0)]
    return call(builder, f"llvm.masked.load.v{LANES}f32.p0", VECTOR, arguments)


def store_part(
    builder: Builder, value: Value, address: Value, index: Value, n_left: Value | None
) -> None:
    """Emit a `store` of 16 numbers, of which only the first n_left (None: all) are written."""
    if n_left is None:
        return store(builder, value, address, index)
    vector = builder.bitcast(pointer(builder, address, FLOAT, index), VECTOR.as_pointer())
    arguments = [value, vector, ir.Constant(INT32, 4), lane_mask(builder, n_left)]
    call(builder, f"llvm.masked.store.v{LANES}f32.p0", ir.VoidType(), arguments)


def reduce_lanes(builder: Builder, vector: Value, join: Callable[[Value, Value], Value]) -> Value:
    """Reduce a vector of 16 lanes to one number: join(low half, high half), again and again."""
    width = LANES
    while width > 1:
        width //= 2
        places = ir.VectorType(INT32, width)
        nothing = ir.Constant(vector.type, ir.Undefined)
        low = builder.shuffle_vector(vector, nothing, ir.Constant(places, list(range(width))))
        high = builder.shuffle_vector(
            vector, nothing, ir.Constant(places, list(range(width, 2 * width)))
        )
        vector = join(low, high)
    return builder.extract_element(vector, ir.Constant(INT32, 0))
