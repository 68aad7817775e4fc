"""A thread that owns an engine and translates the lines of many requests.

Lines are admitted as slots become free, so that load makes batches larger instead of queues longer;
those of clients that have left are dropped at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence, Set
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Any

from bytenmt.decoding.interface import Request
from bytenmt.decoding.scheduler import Scheduler
from bytenmt.evaluation.judge import Judge
from bytenmt.translation.kept_spans import SourceLine
from bytenmt.translation.line_batch import LineBatch, TranslationResult
from bytenmt.translation.translator import Translator

# An engine has slots for as many lines of this length as are decoded at once, but not more than
# MAX_SLOTS.
USUAL_LINE_BYTES = 249
MAX_SLOTS = 64
BEGIN_SECONDS = 0.02  # for splitting jobs into requests, before the next decoding steps


@dataclass(eq=False)
class TranslationJob:
    """Lines for a Worker, which sets the future `results`; cancel that future to drop the job."""

    # Each is UTF-8, or the strings and inline codes (such as tags) of a document's line.
    lines: Sequence[SourceLine]
    client: str = ""  # name of the client; clients take turns
    is_judged: bool = False  # whether the best translations get flags of suspected faults
    # Called with a line's index and its next translated sentences.
    on_part: Callable[[int, bytes], object] | None = None
    # Called once, when the first line is decoded, with the seconds that the job has waited.
    on_begin: Callable[[float], object] | None = None
    submitted: float = field(default_factory=time.monotonic, init=False)
    results: Future[list[TranslationResult]] = field(default_factory=Future, init=False)
    batch: LineBatch = field(init=False)  # the lines as requests to the engine; set by the worker
    n_lines_sent: int = field(default=0, init=False)  # to on_part
    n_bytes_sent: int = field(default=0, init=False)  # to on_part, of the next line


class Worker:
    """A thread with one engine, which decodes the lines of all submitted jobs in common batches.

    It starts at once. translator: makes the engine, at the first job and again after a failure, and
    has the settings. judge: flags suspected faults in the translations of jobs with is_judged.
    """

    def __init__(self, translator: Translator, judge: Judge) -> None:
        self._translator = translator
        self._judge = judge
        self._submitted = SimpleQueue[TranslationJob]()
        self._scheduler: Scheduler | None = None  # of the engine
        self._jobs = set[TranslationJob]()
        self._waiting = set[TranslationJob]()  # jobs of which no line is decoded yet
        self._requests: dict[int, tuple[TranslationJob, Request]] = {}  # by the scheduler's numbers
        Thread(target=self._run, name="translator", daemon=True).start()

    async def translate(
        self, lines: Sequence[SourceLine], **options: Any
    ) -> list[TranslationResult]:
        """Translate lines; return a result for each. options: fields of TranslationJob by name."""
        return await asyncio.wrap_future(self.submit(TranslationJob(lines, **options)))

    def submit(self, job: TranslationJob) -> Future[list[TranslationResult]]:
        """Queue a job for the thread; return the future of a result per line. Thread-safe."""
        self._submitted.put(job)
        return job.results

    def _run(self) -> None:
        while True:
            until = time.monotonic() + BEGIN_SECONDS
            while not self._jobs or (time.monotonic() < until and not self._submitted.empty()):
                self._begin(self._submitted.get())
            for job in [job for job in self._jobs if job.results.cancelled()]:
                self._end(job)
            try:
                if self._scheduler is not None and self._jobs:
                    self._advance(self._scheduler)
            except Exception as error:
                # The state of the engine is unknown: it and its lines are given up.
                jobs = self._jobs
                self._scheduler = None
                self._jobs = set()
                self._requests.clear()
                for job in jobs:
                    self._end(job, error)

    def _begin(self, job: TranslationJob) -> None:
        """Submit the lines of a job to the scheduler; equal lines once."""
        try:
            translator = self._translator
            if self._scheduler is None:
                line_bytes = min(USUAL_LINE_BYTES, translator.settings.max_source_bytes)
                n_slots = min(MAX_SLOTS, translator.capacity(line_bytes))
                self._scheduler = Scheduler(translator.make_engine(n_slots))
            job.batch = translator.batch(job.lines)
            self._jobs.add(job)
            self._waiting.add(job)
            for request in job.batch.requests:
                self._requests[self._scheduler.submit(request, job, job.client)] = job, request
            self._report(job)
        except Exception as error:
            self._end(job, error)

    def _advance(self, scheduler: Scheduler) -> None:
        """Decode a few steps, and report the sentences that are done."""
        done = scheduler.step()
        if self._waiting:
            done_jobs = {self._requests[number][0] for number, _ in done}
            self._note_begun(scheduler.running_jobs() | done_jobs)
        for number, hypotheses in done:
            job, request = self._requests.pop(number)
            job.batch.add(request, hypotheses)
            self._report(job)

    def _note_begun(self, begun: Set[Hashable]) -> None:
        """Tell how long the jobs have waited whose first line is decoded now."""
        now = time.monotonic()
        for job in [job for job in self._waiting if job in begun]:
            self._waiting.remove(job)
            if job.on_begin is not None:
                job.on_begin(now - job.submitted)

    def _report(self, job: TranslationJob) -> None:
        """Pass on the sentences that are done up to the first gap, and all results at the end."""
        if job.on_part is not None:
            self._send_parts(job, job.on_part)
        if job.batch.is_complete:
            results = job.batch.results()
            if job.is_judged:
                results = self._judge.flag(results)
            self._end(job, results)

    def _send_parts(self, job: TranslationJob, on_part: Callable[[int, bytes], object]) -> None:
        """Pass on what follows the bytes that were sent, up to the first line with a gap."""
        while job.n_lines_sent < len(job.lines):
            text, is_complete = job.batch.beginning(job.n_lines_sent)
            part = text[job.n_bytes_sent :]
            if part:
                on_part(job.n_lines_sent, part)
            if not is_complete:
                job.n_bytes_sent = len(text)
                return
            job.n_lines_sent += 1
            job.n_bytes_sent = 0

    def _end(
        self, job: TranslationJob, outcome: list[TranslationResult] | Exception | None = None
    ) -> None:
        """Forget a job and its sentences in the scheduler. outcome: None if it was cancelled."""
        self._waiting.discard(job)
        if job in self._jobs:
            self._jobs.remove(job)
            if self._scheduler is not None:
                self._scheduler.drop(job)
            self._requests = {
                number: entry for number, entry in self._requests.items() if entry[0] is not job
            }
        with suppress(InvalidStateError):  # it was cancelled
            if isinstance(outcome, Exception):
                job.results.set_exception(outcome)
            elif outcome is not None:
                job.results.set_result(outcome)
