"""The decode loop: sentences wait, take free slots in an engine, and leave when they are done."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bytenmt.decoding.interface import Hypothesis, Request
from bytenmt.utf8 import whole_characters

if TYPE_CHECKING:  # it imports Numba
    from bytenmt.decoding.engine import Engine

STOP_TEST_EVERY = 8  # steps between two tests whether a sentence is done


class RunningRequest(NamedTuple):
    """A request that an engine is decoding."""

    number: int  # by which Scheduler.step names it
    job: Hashable  # key of the requests that Scheduler.drop removes together
    client: Hashable  # key of the owner of the job


class Scheduler:
    """Admits requests to an engine while others are being decoded (continuous batching).

    Waiting requests are admitted as soon as a quarter of the slots (places in the engine's batch)
    is free: encoding them costs a call, which is better shared. A free slot goes to the client that
    has the fewest, so that neither many nor long sentences of one client keep the others waiting
    (max-min fairness). While there are several clients, none has more than half of the slots, and
    requests are admitted as soon as any slot is free: a client with a few sentences need not wait
    for those of one that sends without end.

    Clients with equally many slots take turns, and so do the jobs of a client, so that a short job
    does not wait for a long one. The sentences of a job are admitted in their order.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # By client and job, both in the order of their next turns.
        self._waiting: dict[Hashable, dict[Hashable, deque[tuple[int, Request]]]] = {}
        self._running: dict[int, RunningRequest] = {}  # by the engine's handle
        self._n_submitted = 0

    @property
    def busy(self) -> bool:
        """True while any request waits or is being decoded."""
        return bool(self._waiting or self._running)

    def running_jobs(self) -> set[Hashable]:
        """Return the keys of the jobs, given to `submit`, that have a request being decoded now."""
        return {job for _, job, _ in self._running.values()}

    def submit(self, request: Request, job: Hashable = None, client: Hashable = None) -> int:
        """Queue a request and return its number, counted from 0, by which `step` names it.

        job: any key, the same for requests that `drop` removes together. client: any key of the
        owner of the job; clients share the engine's slots fairly.
        """
        number = self._n_submitted
        self._waiting.setdefault(client, {}).setdefault(job, deque()).append((number, request))
        self._n_submitted += 1
        return number

    def drop(self, job: Hashable) -> None:
        """Remove all requests of a job, also those being decoded; `step` will not return them.

        job: the key that was given to `submit`.
        """
        for client, jobs in list(self._waiting.items()):
            jobs.pop(job, None)
            if not jobs:
                del self._waiting[client]
        for handle, running in list(self._running.items()):
            if running.job == job:
                self._engine.drop(handle)
                del self._running[handle]

    def step(self, n_steps: int = STOP_TEST_EVERY) -> list[tuple[int, list[Hypothesis]]]:
        """Admit waiting requests if enough slots are free, and execute n_steps decode steps.

        A step adds a byte to each hypothesis. Returns (number from `submit`, hypotheses, best
        first) of each request that is then done.
        """
        room = self._engine.room()
        has_room = not self._running or 4 * room >= self._engine.capacity
        if self._waiting and (has_room or self._is_shared()):
            chosen = list(self._next(room))
            if chosen:
                handles = self._engine.admit([request for _, request in chosen])
                self._running.update(zip(handles, (running for running, _ in chosen), strict=True))
        self._engine.advance(n_steps)
        return [
            (self._running.pop(handle).number, hypotheses)
            for handle, hypotheses in self._engine.finished()
            if handle in self._running
        ]

    def _is_shared(self) -> bool:
        """Return whether several clients have sentences that wait or are decoded."""
        return len({*self._waiting, *(running.client for running in self._running.values())}) > 1

    def _next(self, n: int) -> Iterator[tuple[RunningRequest, Request]]:
        """Yield up to n waiting requests, each of the client that has the fewest slots then."""
        n_slots = Counter(running.client for running in self._running.values())
        capacity = self._engine.capacity
        max_slots = max(1, capacity // 2) if self._is_shared() else capacity  # of a client
        while n and self._waiting:
            client = min(self._waiting, key=n_slots.__getitem__)
            if n_slots[client] >= max_slots:
                return
            jobs = self._waiting.pop(client)
            job = next(iter(jobs))
            requests = jobs.pop(job)
            number, request = requests.popleft()
            yield RunningRequest(number, job, client), request
            if requests:
                jobs[job] = requests
            if jobs:
                self._waiting[client] = jobs
            n_slots[client] += 1
            n -= 1


def decode(engine: Engine, requests: Sequence[Request]) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Decode requests with an idle engine; yield (index of the request, hypotheses, best first).

    A request is yielded as soon as it is done, so that the order is not that of the requests.
    """
    scheduler = Scheduler(engine)
    for request in requests:
        scheduler.submit(request)
    while scheduler.busy:
        yield from scheduler.step()


def stream_characters(engine: Engine, request: Request) -> Iterator[bytes]:
    """Yield the output of a request in parts of whole characters, as soon as they are decoded.

    engine: an idle one with beam 1; it must decode no other sentences meanwhile.
    """
    (handle,) = engine.admit([request])
    n_sent = 0
    while True:
        engine.advance(1)
        done = engine.finished()
        text = done[0][1][0].text if done else engine.so_far(handle)
        part = whole_characters(text[n_sent:])
        n_sent += len(part)
        if part:
            yield part
        if done:
            return
