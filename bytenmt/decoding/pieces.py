"""A line that is too long for a model, cut into pieces that are translated one by one.

Knows bytes; knows no engines.
"""

from __future__ import annotations

from typing import NamedTuple


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
