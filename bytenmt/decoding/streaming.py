"""One text as it is decoded, in whole characters. Knows engines by their protocol; knows no lines."""

from __future__ import annotations

from collections.abc import Iterator

from bytenmt.decoding.interface import Engine, Request
from bytenmt.utf8 import first_invalid


def in_characters(engine: Engine, request: Request) -> Iterator[bytes]:
    """What a sentence begins with, character by character as they become sure, then the rest."""
    (handle,) = engine.admit([request])
    n_told = 0
    while True:
        engine.advance(1)
        done = engine.finished()
        text = done[0][1][0].text if done else engine.so_far(handle)
        part = text[n_told:]
        n_whole = first_invalid(part)  # a character may be half there
        part = part if n_whole < 0 else part[:n_whole]
        n_told += len(part)
        if part:
            yield part
        if done:
            return
