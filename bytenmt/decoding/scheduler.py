"""The one decode loop: sentences wait, take the places that get free in an engine, and leave when done.

Knows requests, hypotheses and the engine's interface; neither models nor how a byte is chosen.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterator, Sequence

from bytenmt.decoding.interface import Engine, Hypothesis, Request

STOP_TEST_EVERY = 8  # steps between looks at the device


class Scheduler:
    """Requests that come and go while others are decoded.

    The first waiting ones are admitted as soon as a quarter of the places is free: encoding them costs a
    call, which is better shared. A free place goes to the client that has the fewest, so that neither many
    nor long sentences of one keep the others waiting (max-min fairness). While there are several clients,
    none has more than half of the places, and who waits is admitted as soon as any place is free: a client
    that comes with a few sentences need not wait for those of one that sends without end. The jobs of a
    client take turns, and the sentences of a job are admitted in their order.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # By client and job; who was served last stands last.
        self._waiting: dict[Hashable, OrderedDict[Hashable, deque[tuple[int, Request]]]] = {}
        self._running: dict[int, tuple[int, Hashable, Hashable]] = {}  # number, job, client, by engine handle
        self._n_submitted = 0

    @property
    def busy(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._waiting or self._running)

    @property
    def n_running(self) -> int:
        """Sentences that are decoded."""
        return len(self._running)

    def submit(self, request: Request, job: Hashable = None, client: Hashable = None) -> int:
        """The request's number, counted from 0. job: what it belongs to, see `drop`; client: whose job."""
        number = self._n_submitted
        self._waiting.setdefault(client, OrderedDict()).setdefault(job, deque()).append((number, request))
        self._n_submitted += 1
        return number

    def drop(self, job: Hashable) -> None:
        """Let go of a job's requests, those that are decoded too."""
        for client, jobs in list(self._waiting.items()):
            jobs.pop(job, None)
            if not jobs:
                del self._waiting[client]
        for handle in [handle for handle, (_, own, _) in self._running.items() if own == job]:
            self._engine.drop(handle)
            del self._running[handle]

    def step(self, n_steps: int = STOP_TEST_EVERY) -> list[tuple[int, list[Hypothesis]]]:
        """n steps of what is decoded; the numbers and hypotheses, best first, of what is done with that."""
        room = self._engine.room()
        if self._waiting and (not self._running or 4 * room >= self._engine.capacity or self._is_shared()):
            chosen = list(self._next(room))
            if chosen:
                numbers, requests = zip(*chosen, strict=True)
                self._running.update(zip(self._engine.admit(list(requests)), numbers, strict=True))
        self._engine.advance(n_steps)
        done = [found for found in self._engine.finished() if found[0] in self._running]
        return [(self._running.pop(handle)[0], hypotheses) for handle, hypotheses in done]

    def so_far(self, number: int) -> bytes:
        """What a request will surely begin with; nothing of one that waits."""
        handles = [handle for handle, (own, _, _) in self._running.items() if own == number]
        return self._engine.so_far(handles[0]) if handles else b""

    def _is_shared(self) -> bool:
        """Whether more than one client has sentences that wait or are decoded."""
        return len({*self._waiting, *(client for _, _, client in self._running.values())}) > 1

    def _next(self, n: int) -> Iterator[tuple[tuple[int, Hashable, Hashable], Request]]:
        """Up to n waiting requests, each of the client that has the fewest places then."""
        n_places = Counter(client for _, _, client in self._running.values())
        most = max(1, self._engine.capacity // 2) if self._is_shared() else self._engine.capacity
        while n and self._waiting:
            client = min(self._waiting, key=n_places.__getitem__)  # of equal ones, who was served longest ago
            if n_places[client] >= most:
                return
            jobs = self._waiting.pop(client)
            job, requests = jobs.popitem(last=False)
            number, request = requests.popleft()
            yield (number, job, client), request
            if requests:
                jobs[job] = requests
            if jobs:
                self._waiting[client] = jobs
            n_places[client] += 1
            n -= 1


def decode(engine: Engine, requests: Sequence[Request]) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Each request's index and hypotheses, best first, as they are done."""
    scheduler = Scheduler(engine)
    for request in requests:
        scheduler.submit(request)
    while scheduler.busy:
        yield from scheduler.step()
