"""A line that is too long for a model, cut into pieces that are translated one by one, and joined again.

Knows bytes and hypotheses; knows no engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bytenmt.decoding.interface import Hypothesis


class Piece(NamedTuple):
    """text: whole characters of a line; joint: what stood before the next piece, b" " or b""."""

    text: bytes
    joint: bytes


def cut(line: bytes, limit: int) -> list[Piece]:
    """Cut valid UTF-8 into pieces of at most `limit` bytes; texts and joints make the line again.

    A piece ends at the last space that it can reach, else between two characters. limit: at least
    4 bytes, one character.
    """
    pieces = []
    start = 0
    while len(line) - start > limit:
        end = line.rfind(b" ", start + 1, start + limit + 1)
        joint = line[end : end + 1] if end > start else b""
        if not joint:
            end = start + limit
            while line[end] & 0xC0 == 0x80:  # a continuation byte: its character began before
                end -= 1
        pieces.append(Piece(line[start:end], joint))
        start = end + len(joint)
    pieces.append(Piece(line[start:], b""))
    return pieces


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
        passes = sum(part.passes for part in parts)
        joined.append(Hypothesis(text, log_probability, score, passes, _scores(line, parts)))
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
