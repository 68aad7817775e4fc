"""The one decode loop: sentences wait, take the places that get free in an engine, and leave when done.

Knows requests, hypotheses and the engine's interface; neither models nor how a byte is chosen.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence

from bytenmt.decoding.interface import Engine, Hypothesis, Request

STOP_TEST_EVERY = 8  # steps between looks at the device


class Scheduler:
    """Requests that come and go while others are decoded.

    The first waiting ones are admitted as soon as a quarter of the places is free: encoding them costs a
    call, which is better shared. Clients take turns, so that one with many sentences does not keep the others
    waiting; the sentences of one client are admitted in their order.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: OrderedDict[Hashable, deque[tuple[int, Request]]] = OrderedDict()
        self._running: dict[int, tuple[int, Hashable]] = {}  # number and client, by the engine's handle
        self._n_submitted = 0

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._waiting or self._running)

    @property
    def n_running(self) -> int:
        """Sentences that are decoded."""
        return len(self._running)

    def submit(self, request: Request, client: Hashable = None) -> int:
        """The request's number, counted from 0."""
        number = self._n_submitted
        self._waiting.setdefault(client, deque()).append((number, request))
        self._n_submitted += 1
        return number

    def drop(self, client: Hashable) -> None:
        """Let go of a client's requests, those that are decoded too."""
        self._waiting.pop(client, None)
        for handle in [handle for handle, (_, whose) in self._running.items() if whose == client]:
            self._engine.drop(handle)
            del self._running[handle]

    def step(self, n_steps: int = STOP_TEST_EVERY) -> list[tuple[int, list[Hypothesis]]]:
        """n steps of what is decoded; the numbers and hypotheses, best first, of what is done with that."""
        room = self._engine.room()
        if self._waiting and (not self._running or 4 * room >= self._engine.capacity):
            numbers, requests = zip(*self._next(room), strict=True)
            self._running.update(zip(self._engine.admit(list(requests)), numbers, strict=True))
        self._engine.advance(n_steps)
        done = [found for found in self._engine.finished() if found[0] in self._running]
        return [(self._running.pop(handle)[0], hypotheses) for handle, hypotheses in done]

    def so_far(self, number: int) -> bytes:
        """What a request will surely begin with; nothing of one that waits."""
        handles = [handle for handle, (own, _) in self._running.items() if own == number]
        return self._engine.so_far(handles[0]) if handles else b""

    def _next(self, n: int) -> Iterator[tuple[tuple[int, Hashable], Request]]:
        """Up to n waiting requests, one of each client in turn."""
        while n and self._waiting:
            client, requests = self._waiting.popitem(last=False)
            number, request = requests.popleft()
            yield (number, client), request
            if requests:
                self._waiting[client] = requests
            n -= 1


def decode(engine: Engine, requests: Sequence[Request]) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Each request's index and hypotheses, best first, as they are done."""
    scheduler = Scheduler(engine)
    for request in requests:
        scheduler.submit(request)
    while scheduler.busy:
        yield from scheduler.step()
