"""The one decode loop: sentences wait, take the places that get free in an engine, and leave when done.

Knows requests, hypotheses and the engine's interface; neither models nor how a byte is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bytenmt.decoding.interface import Engine, Hypothesis, Request

STOP_TEST_EVERY = 8  # steps between looks at the device


def decode(engine: Engine, requests: Sequence[Request]) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Each request's index and hypotheses, best first, as they are done.

    The first waiting ones are admitted as soon as a quarter of the places is free: encoding them costs a
    call, which is better shared.
    """
    index_of: dict[int, int] = {}  # by the engine's handle
    n_admitted = 0
    while n_admitted < len(requests) or index_of:
        room = engine.room()
        if n_admitted < len(requests) and (not index_of or 4 * room >= engine.capacity):
            batch = list(requests[n_admitted : n_admitted + room])
            index_of.update(zip(engine.admit(batch), range(n_admitted, len(requests)), strict=False))
            n_admitted += len(batch)
        engine.advance(STOP_TEST_EVERY)
        for handle, hypotheses in engine.finished():
            if handle in index_of:  # not one that an abandoned loop has left
                yield index_of.pop(handle), hypotheses
