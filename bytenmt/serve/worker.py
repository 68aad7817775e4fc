"""A thread that owns the engines of one direction and translates the lines of many requests.

Lines are admitted as slots become free, so that load makes batches larger instead of queues longer; those of
clients that have left are dropped at once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from queue import PriorityQueue
from threading import Thread
from typing import Any

from bytenmt.decoding.interface import Request
from bytenmt.decoding.kept_spans import KeepSpec, Part
from bytenmt.decoding.line_batch import LineBatch, TranslationResult
from bytenmt.decoding.scheduler import STOP_TEST_EVERY, Scheduler
from bytenmt.decoding.translator import Translator
from bytenmt.evaluation.judge import Judge

MOST_ALTERNATIVES = 3  # to a best translation
USUAL_LINE_BYTES = (
    249  # an engine has slots for as many such lines as are decoded at once, but not more than:
)
MAX_SLOTS = 64
BEGIN_SECONDS = 0.02  # for splitting jobs into requests, before the next decoding steps
STREAM_STEPS = 2  # decoding steps between two parts of a translation that is streamed
WATCHED_CHEAPLY = 8  # so many texts are looked at that often; with more of them looks get rarer


@dataclass(eq=False)
class Job:
    """Lines that are translated together. Cancelling `results` gives them up."""

    lines: Sequence[bytes | Sequence[Part]]  # see Translator.translate_lines
    has_alternatives: bool = False  # whether MOST_ALTERNATIVES are searched, too
    keep: KeepSpec | None = None
    client: str = ""  # clients take turns
    is_judged: bool = False  # whether the best hypotheses get flags
    # Is given the number of a line and the next part of its translation, by the worker's thread.
    on_part: Callable[[int, bytes], object] | None = None
    results: Future[list[TranslationResult]] = field(default_factory=Future, init=False)
    batch: LineBatch = field(init=False)
    numbers: dict[Request, int] = field(default_factory=dict, init=False)  # the scheduler's
    n_sent: tuple[int, int] = field(default=(0, 0), init=False)  # lines, and bytes of the next one
    submitted: float | None = field(default_factory=time.monotonic, init=False)  # None once it is decoded


class _Lane:
    """An engine's scheduler, with the jobs of its requests by the scheduler's numbers."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        usual = translator.capacity(min(USUAL_LINE_BYTES, translator.max_source_bytes))
        self.scheduler = Scheduler(translator.make_engine(min(MAX_SLOTS, usual)))
        self.jobs: dict[int, tuple[Job, Request]] = {}


class Worker:
    """The thread of a direction.

    make: returns a Translator for so many hypotheses; only the worker's thread uses its engines. judge: flags
    the translations of jobs that ask for it. on_wait: is told the seconds that a job waited for its first
    slot.
    """

    def __init__(
        self, make: Callable[[int], Translator], judge: Judge, on_wait: Callable[[float], None]
    ) -> None:
        self._make, self._judge, self._on_wait = make, judge, on_wait
        # By bytes and number, so that short jobs wait for no long ones to be split. None ends the thread.
        self._submitted: PriorityQueue[tuple[float, int, Job | None]] = PriorityQueue()
        self._numbers = count()
        self._lanes: dict[bool, _Lane] = {}  # without and with alternatives
        self._jobs: set[Job] = set()
        self.n_running = 0  # sentences side by side
        self.thread = Thread(target=self._run, name="translator", daemon=True)
        self.thread.start()

    async def translate(
        self, lines: Sequence[bytes | Sequence[Part]], **options: Any
    ) -> list[TranslationResult]:
        """Return the results of lines, in their order. options: see Job. Cancelling it gives the lines up."""
        return await asyncio.wrap_future(self.submit(Job(lines, **options)))

    def submit(self, job: Job) -> Future[list[TranslationResult]]:
        """Translate a job. Thread-safe."""
        n_parts = (len(part) for line in job.lines for part in ([line] if isinstance(line, bytes) else line))
        self._submitted.put((sum(n_parts), next(self._numbers), job))
        return job.results

    def finish(self) -> None:
        """End the thread when all submitted jobs have ended; does not wait for that. Thread-safe."""
        self._submitted.put((math.inf, next(self._numbers), None))

    def _run(self) -> None:
        is_finishing = False
        while self._jobs or not is_finishing:
            until = time.monotonic() + BEGIN_SECONDS
            while not (self._jobs or is_finishing) or (
                time.monotonic() < until and not self._submitted.empty()
            ):
                job = self._submitted.get()[2]
                is_finishing |= job is None
                if job is not None:
                    self._begin(job)
            for job in [job for job in self._jobs if job.results.cancelled()]:
                self._forget(job)
            for key, lane in list(self._lanes.items()):
                try:
                    if lane.scheduler.busy:
                        self._advance(lane)
                except Exception as error:  # the engine is in no known state: it and its lines are given up
                    del self._lanes[key]
                    for job in {job for job, _ in lane.jobs.values()}:
                        self._end(job, error)
            self.n_running = sum(lane.scheduler.n_running for lane in self._lanes.values())

    def _begin(self, job: Job) -> None:
        """Submit the lines of a job to the scheduler; equal lines once."""
        self._jobs.add(job)
        try:
            if job.has_alternatives not in self._lanes:
                n_best = 1 + MOST_ALTERNATIVES * job.has_alternatives
                self._lanes[job.has_alternatives] = _Lane(self._make(n_best))
            lane = self._lanes[job.has_alternatives]
            job.batch = lane.translator.batch(job.lines, keep=job.keep)
            for request in job.batch.requests:
                job.numbers[request] = number = lane.scheduler.submit(request, job, job.client)
                lane.jobs[number] = job, request
            self._report(job)
        except Exception as error:
            self._end(job, error)

    def _advance(self, lane: _Lane) -> None:
        """Decode a few steps, and report what they have changed."""
        changed = {job for job in self._jobs if job.on_part is not None}
        steps = STREAM_STEPS * (1 + len(changed) // WATCHED_CHEAPLY) if changed else STOP_TEST_EVERY
        done = lane.scheduler.step(min(steps, STOP_TEST_EVERY))
        begun = lane.scheduler.running_jobs()
        for number, hypotheses in done:
            job, request = lane.jobs.pop(number)
            job.batch.add(request, hypotheses)
            changed.add(job)
            begun.add(job)
        for job in begun:
            if job.submitted is not None:
                self._on_wait(time.monotonic() - job.submitted)
                job.submitted = None
        for job in changed:
            self._report(job)

    def _report(self, job: Job) -> None:
        """Pass on new parts of the translations, and the results if all are complete."""
        if job.on_part is not None:
            self._send_parts(job, job.on_part)
        if job.batch.is_complete:
            results = job.batch.results()
            self._end(job, self._judge.flag(results) if job.is_judged else results)

    def _send_parts(self, job: Job, on_part: Callable[[int, bytes], object]) -> None:
        """Pass on what has not been sent yet, up to the first line that is still being decoded."""
        scheduler = self._lanes[job.has_alternatives].scheduler
        line, n_bytes = job.n_sent
        is_complete = True
        while is_complete and line < len(job.lines):
            text, is_complete = job.batch.beginning(line, lambda one: scheduler.so_far(job.numbers[one]))
            if text[n_bytes:]:
                on_part(line, text[n_bytes:])
            job.n_sent = line, n_bytes = (line + 1, 0) if is_complete else (line, len(text))

    def _forget(self, job: Job) -> None:
        """Remove a job and its lines from the scheduler."""
        self._jobs.discard(job)
        if lane := self._lanes.get(job.has_alternatives):
            lane.scheduler.drop(job)
            lane.jobs = {number: other for number, other in lane.jobs.items() if other[0] is not job}

    def _end(self, job: Job, outcome: list[TranslationResult] | Exception) -> None:
        self._forget(job)
        with suppress(InvalidStateError):  # it was cancelled
            if isinstance(outcome, Exception):
                job.results.set_exception(outcome)
            else:
                job.results.set_result(outcome)
