"""Cut lines that are too long for a model into pieces, and join the translations of the pieces."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from bytenmt.decoding.interface import Hypothesis


class Piece(NamedTuple):
    """text: whole characters of a line; joint: what stood before the next piece, b" " or b""."""

    text: bytes
    joint: bytes


def cut(line: bytes, limit: int, whole: Sequence[tuple[int, int]] = ()) -> list[Piece]:
    """Cut valid UTF-8 into pieces of at most `limit` bytes; texts and joints make the line again.

    A piece ends at the last space that it can reach, else between two characters. limit: at least
    4 bytes, one character. whole: begins and ends of spans that are not cut, in order and without overlaps; a
    piece that begins with a span longer than the limit ends behind it.
    """
    pieces = []
    start = 0
    begins = [begin for begin, _ in whole]
    while len(line) - start > limit:
        end, joint = _end(line, start, limit, whole, begins)
        if end >= len(line):
            break
        pieces.append(Piece(line[start:end], joint))
        start = end + len(joint)
    pieces.append(Piece(line[start:], b""))
    return pieces


def _end(
    line: bytes, start: int, limit: int, whole: Sequence[tuple[int, int]], begins: Sequence[int]
) -> tuple[int, bytes]:
    """Return where the piece that begins at start ends, and what joins it to the next.

    begins: of the spans of `whole`.
    """
    last = start + limit + 1  # one more than the last byte that may be the joint
    while True:
        end = line.rfind(b" ", start + 1, last)
        joint = line[end : end + 1] if end > start else b""
        if not joint:
            end = min(last - 1, start + limit)
            while line[end] & 0xC0 == 0x80:  # a continuation byte: its character began before
                end -= 1
        # The span that begins last, at the end of the piece or before it, is the only one that can be cut.
        before = bisect_right(begins, end) - 1
        begin, behind = whole[before] if before >= 0 else (end, end)
        if behind <= end or (begin == end and not joint):
            return end, joint
        if begin <= start:
            return behind, line[behind : behind + 1] if line[behind : behind + 1] == b" " else b""
        if joint and line.rfind(b" ", start + 1, begin) > start:
            last = begin
        else:
            return begin, b""


def join(
    line: Sequence[Piece], found: Sequence[Sequence[Hypothesis]], length_penalty: float
) -> list[Hypothesis]:
    """The hypotheses of a line from those of its pieces: the k-th joins the k-th of each."""
    if len(line) == 1:
        return list(found[0])
    joined = []
    for parts in zip(*found, strict=False):
        text = b"".join(part.text + piece.joint for part, piece in zip(parts, line, strict=True))
        log_probability = sum(part.log_probability for part in parts)
        score = log_probability / (len(text) + 1) ** length_penalty
        passes, scores = sum(part.passes for part in parts), _scores(line, parts)
        told = [part.flags for part in parts if part.flags is not None]
        flags = tuple(dict.fromkeys(flag for flags in told for flag in flags)) if told else None
        joined.append(Hypothesis(text, log_probability, score, passes, scores, flags))
    return joined


def _scores(line: Sequence[Piece], parts: Sequence[Hypothesis]) -> tuple[float, ...]:
    """The bytes' scores of a line: what joins its pieces costs nothing, the end as much as all their ends."""
    if not any(part.byte_scores for part in parts):
        return ()
    scores, ends = list[float](), 0.0
    for part, piece in zip(parts, line, strict=True):
        *of_bytes, end = part.byte_scores or (0.0,)  # of a piece that is empty nothing was asked
        scores += of_bytes + [0.0] * len(piece.joint)
        ends += end
    return (*scores, ends)
