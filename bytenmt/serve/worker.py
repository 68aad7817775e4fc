"""A thread that owns the engines of one direction and translates the lines of many requests.

Its scheduler admits lines as slots become free, so that load makes batches larger instead of queues longer;
lines of clients that have left are dropped at once. Results are passed to callbacks in the worker's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

from bytenmt.decoding.constraints.constraint_spec import ConstraintSpec
from bytenmt.decoding.interface import Request
from bytenmt.decoding.line_batch import LineBatch, TranslationResult
from bytenmt.decoding.scheduler import STOP_TEST_EVERY, Scheduler
from bytenmt.decoding.translator import Translator
from bytenmt.evaluation.judge import Judge

SHORT_LINE_BYTES = 249  # of 64 of them, Settings.max_tokens lets an engine decode all at once
MAX_SLOTS = 64
STREAM_STEPS = 2  # decoding steps between two parts of a translation that is streamed
# Up to so many watched texts are looked at that often; with more of them, looks get rarer, so that decoding
# keeps its speed.
WATCHED_CHEAPLY = 8
N_BEST_SIZES = (1, 4, 8)  # engines are made for these; the number of a request is rounded up


@dataclass(eq=False)
class Job:
    """Lines that are translated together.

    lines: valid UTF-8 without line ends. n_best: hypotheses of each line. rules: constraints on the
    translations. client: an account; clients take turns. is_judged: whether the best hypotheses get flags.
    on_done: is
    called with the results in the order of the lines, or with the error. on_part: if given, is called with
    the number of a line and the next whole characters of its translation, line after line. Both are called by
    the worker's thread and must not raise.
    """

    lines: Sequence[bytes]
    on_done: Callable[[list[TranslationResult] | Exception], None]
    n_best: int = 1
    on_part: Callable[[int, bytes], None] | None = None
    rules: ConstraintSpec | None = None
    client: str = ""
    is_judged: bool = False
    batch: LineBatch = field(init=False)
    numbers: dict[Request, tuple[_Lane, int]] = field(default_factory=dict, init=False)
    n_sent: tuple[int, int] = field(default=(0, 0), init=False)  # lines, and bytes of the next one


@dataclass(eq=False)
class _Lane:
    """A scheduler with the jobs of its requests."""

    scheduler: Scheduler
    jobs: dict[int, tuple[Job, Request]] = field(default_factory=dict)  # by the scheduler's number


class EngineKey(NamedTuple):
    """The properties of a job that decide which engines it can use.

    n_best: of N_BEST_SIZES. keep: classes of spans that the search tracks, None without constraints.
    """

    n_best: int
    keep: tuple[str, ...] | None = None

    @staticmethod
    def from_job(job: Job) -> EngineKey:
        return EngineKey(
            next(n for n in N_BEST_SIZES if n >= job.n_best), None if job.rules is None else job.rules.classes
        )


class Worker:
    """The thread of a direction.

    make: returns a Translator for an EngineKey; only the worker's thread uses its engines. judge: flags the
    translations of jobs that ask for it; None: they get no flags.
    """

    def __init__(
        self,
        make: Callable[[EngineKey], Translator],
        name: str = "translator",
        judge: Judge | None = None,
    ) -> None:
        self._make, self._judge = make, judge
        self._commands: SimpleQueue[tuple[str, Job | None]] = SimpleQueue()
        self._translators: dict[EngineKey, Translator] = {}
        self._lanes: dict[tuple[EngineKey, bool], _Lane] = {}
        self._jobs: set[Job] = set()
        self.n_running = 0  # sentences side by side, for whoever looks
        self.n_steps = self.n_sentence_steps = 0
        self._finishing = False
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Return whether the thread is running."""
        return self._thread.is_alive()

    def submit(self, job: Job) -> None:
        """Translate a job. Thread-safe."""
        self._commands.put(("submit", job))

    def drop(self, job: Job) -> None:
        """Give up a job; on_done may still be called. Thread-safe."""
        self._commands.put(("drop", job))

    def finish(self) -> None:
        """End the thread when all submitted jobs have ended; does not wait for that. Thread-safe."""
        self._commands.put(("finish", None))

    def stop(self, seconds: float = 10.0) -> None:
        """End the thread and abandon its jobs."""
        self._commands.put(("stop", None))
        self._thread.join(seconds)

    def _run(self) -> None:
        while self._run_commands():
            for key, lane in list(self._lanes.items()):
                if lane.scheduler.busy:
                    try:
                        self._advance(lane)
                    except (
                        Exception
                    ) as error:  # the engine is in no known state: it and its lines are given up
                        del self._lanes[key]
                        for job in {job for job, _ in lane.jobs.values()}:
                            self._end(job, error)
            self.n_running = sum(lane.scheduler.n_running for lane in self._lanes.values())

    def _run_commands(self) -> bool:
        """Carry out the commands that have arrived; wait for one if there is nothing else to do.

        Returns False when the thread is to end.
        """
        idle = not any(lane.scheduler.busy for lane in self._lanes.values())
        if idle and self._finishing and self._commands.empty():
            return False
        while idle or not self._commands.empty():
            idle = False
            what, job = self._commands.get()
            if what == "finish":
                self._finishing = True
                continue
            if job is None:
                return False
            if what == "submit":
                try:
                    self._begin(job)
                except Exception as error:
                    self._end(job, error)
            elif job in self._jobs:
                self._forget(job)
        return True

    def _begin(self, job: Job) -> None:
        """Submit the lines of a job to schedulers; equal lines once."""
        self._jobs.add(job)
        kind = EngineKey.from_job(job)
        if kind not in self._translators:
            self._translators[kind] = self._make(kind)
        translator = self._translators[kind]
        job.batch = translator.batch(job.lines, rules=job.rules)
        for request in job.batch.requests:
            lane = self._lane(translator, kind, len(request.source or b"") <= SHORT_LINE_BYTES)
            number = lane.scheduler.submit(request, job, job.client)
            job.numbers[request] = lane, number
            lane.jobs[number] = job, request
        self._report(job)

    def _lane(self, translator: Translator, kind: EngineKey, short: bool) -> _Lane:
        """Return the lane for short or long lines: a slot has room for the longest line of its engine."""
        longest = min(SHORT_LINE_BYTES, translator.max_source_bytes) if short else translator.max_source_bytes
        if (kind, short) not in self._lanes:
            n_slots = min(MAX_SLOTS, translator.capacity(longest))
            self._lanes[kind, short] = _Lane(Scheduler(translator.make_engine(n_slots)))
        return self._lanes[kind, short]

    def _advance(self, lane: _Lane) -> None:
        watched = [job for job in self._jobs if job.on_part is not None]
        n_steps = STOP_TEST_EVERY
        if watched:
            n_steps = min(n_steps, STREAM_STEPS * (1 + len(watched) // WATCHED_CHEAPLY))
        done = lane.scheduler.step(n_steps)
        self.n_steps += n_steps
        self.n_sentence_steps += n_steps * (lane.scheduler.n_running + len(done))
        changed = set(watched)
        for number, hypotheses in done:
            job, request = lane.jobs.pop(number)
            job.batch.add(request, hypotheses)
            changed.add(job)
        for job in changed:
            self._report(job)

    def _report(self, job: Job) -> None:
        """Pass on new parts of the translations, and the results if all are complete."""
        if job.on_part is not None:
            for line, part in self._new_parts(job):
                job.on_part(line, part)
        if job.batch.is_complete:
            results = job.batch.results(job.n_best)
            self._end(job, self._judge.flag(results) if job.is_judged and self._judge else results)

    def _new_parts(self, job: Job) -> list[tuple[int, bytes]]:
        """Return the parts that have not been sent yet, up to the first line that is still being decoded."""

        def so_far(request: Request) -> bytes:
            lane, number = job.numbers[request]
            return lane.scheduler.so_far(number)

        line, n_bytes_sent = job.n_sent
        parts = []
        while line < len(job.lines):
            text, is_complete = job.batch.beginning(line, so_far)
            if text[n_bytes_sent:]:
                parts.append((line, text[n_bytes_sent:]))
            n_bytes_sent = len(text)
            if not is_complete:
                break
            line, n_bytes_sent = line + 1, 0
        job.n_sent = line, n_bytes_sent
        return parts

    def _forget(self, job: Job) -> None:
        """Remove a job and its lines from all schedulers."""
        self._jobs.discard(job)
        there = set(self._lanes.values())
        for lane in {lane for lane, _ in job.numbers.values() if lane in there}:  # not one that was given up
            lane.scheduler.drop(job)
            lane.jobs = {number: other for number, other in lane.jobs.items() if other[0] is not job}

    def _end(self, job: Job, outcome: list[TranslationResult] | Exception) -> None:
        if job in self._jobs:
            self._forget(job)
            job.on_done(outcome)
