"""Compare sixty-four bytes at once in compiled code, which Numba does not derive from a loop by itself.

The functions are written in LLVM's language; each takes an array of bytes and a position.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# Bytes that are compared at once, whatever vectors the machine has, with a bit for each of them.
LANES = 64
_VECTOR = ir.VectorType(ir.IntType(8), LANES)


def _bits(build: Callable[..., Any], n_before: int = 0) -> Any:
    """Make (data, at) -> uint64, for compiled code: a bit for each of the bytes data[at : at + 64].

    build(builder, here, *before) writes the comparison in LLVM's language, which Numba does not come to by
    itself: it makes 64-bit numbers of bytes. `before` are the same bytes 1, 2 … n_before places earlier.
    """

    def typed(context: Any, data: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            vectors = []
            for back in range(n_before + 1):
                place = builder.sub(arguments[1], ir.Constant(ir.IntType(64), back))
                pointer = builder.bitcast(builder.gep(array.data, [place]), _VECTOR.as_pointer())
                vectors.append(builder.load(pointer, align=1))
            return builder.bitcast(build(builder, *vectors), ir.IntType(64))

        return types.uint64(data, types.int64), generate

    return intrinsic(typed)


def _all(byte: int) -> Any:
    return ir.Constant(_VECTOR, [byte] * LANES)


def _equal_to(byte: int) -> Any:
    return _bits(lambda builder, here: builder.icmp_unsigned("==", here, _all(byte)))


def _wrong(builder: Any, byte: Any, before: Any, second: Any, third: Any) -> Any:
    """Build the comparison that finds bytes which cannot follow the three bytes before them in UTF-8.

    A byte must be a continuation exactly where a lead byte asks for one, and four leads narrow the range of
    the byte after them (see utf8.py).
    """

    def compare(vector: Any, operator: str, value: int) -> Any:
        return builder.icmp_unsigned(operator, vector, _all(value))

    two, three, four = compare(before, ">=", 0xC0), compare(second, ">=", 0xE0), compare(third, ">=", 0xF0)
    expected = builder.or_(two, builder.or_(three, four))
    continuation = builder.icmp_signed("<", byte, _all(0xC0))  # signed: 0x80 to 0xBF alone lie below
    wrong = builder.xor(expected, continuation)
    terms = [compare(builder.and_(byte, _all(0xFE)), "==", 0xC0), compare(byte, ">=", 0xF5)]
    for lead, operator, value in (
        (0xE0, "<", 0xA0),
        (0xED, ">=", 0xA0),
        (0xF0, "<", 0x90),
        (0xF4, ">=", 0x90),
    ):
        terms.append(builder.and_(compare(before, "==", lead), compare(byte, operator, value)))
    for term in terms:
        wrong = builder.or_(wrong, term)
    return wrong


newline_bits, return_bits, tab_bits = _equal_to(0x0A), _equal_to(0x0D), _equal_to(0x09)
non_ascii_bits = _bits(lambda builder, here: builder.icmp_unsigned(">=", here, _all(0x80)))
utf8_mistake_bits = _bits(_wrong, n_before=3)


def _number(build: Callable[..., Any]) -> Any:
    """Make (uint64) -> int64, for compiled code."""

    def typed(context: Any, bits: Any) -> Any:
        return types.int64(types.uint64), lambda _, builder, __, arguments: build(builder, arguments[0])

    return intrinsic(typed)


# The place of the lowest bit that is set, 64 where none is; and how many are set.
lowest_bit = _number(lambda builder, bits: builder.cttz(bits, ir.Constant(ir.IntType(1), 0)))
count_bits = _number(lambda builder, bits: builder.ctpop(bits))


def _word_at(_: Any, data: Any, at: Any) -> Any:
    """(data, at) -> the 8 bytes from data[at] on as uint64, for compiled code; `at` is any place."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.gep(array.data, [arguments[1]])
        return builder.load(builder.bitcast(pointer, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.int64), generate


word_at: Any = intrinsic(_word_at)
