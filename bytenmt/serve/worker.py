"""A thread that owns the engines of one direction: lines of many requests in, answers out as they are found.

Its scheduler admits lines as places get free, so that load raises the batch and not the waiting line; what a
client has abandoned leaves at once. Knows a Translator's way of asking and no PyTorch; knows no HTTP and no
event loop: it calls back from its own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

from bytenmt.decoding.constraints.rules import Rules
from bytenmt.decoding.interface import Hypothesis, Request
from bytenmt.decoding.pieces import Piece, join
from bytenmt.decoding.scheduler import STOP_TEST_EVERY, Scheduler
from bytenmt.decoding.translator import Answer, Translator, copied
from bytenmt.utf8 import first_invalid

SHORT = 249  # bytes of a line: 64 of them are what Settings.max_tokens lets stand side by side
MOST_PLACES = 64
WATCHED_EVERY = 2  # steps between looks at a text that somebody sees grow
# Up to so many watched texts are looked at that often; with more of them, looks get rarer, so that decoding
# keeps its speed.
WATCHED_CHEAPLY = 8
N_BESTS = (1, 4, 8)  # of which engines are made: a request's number is rounded up


@dataclass(eq=False)
class Job:
    """Lines that are answered together.

    lines: valid UTF-8 without line ends; n_best: hypotheses of each that are wanted; rules: what the
    translations owe; client: whose it is: clients take turns, then their jobs. on_done: is given the
    answers in the order of the lines, or what went wrong. on_part: where it is given, the number of a line
    and what its translation goes on with, in whole characters, the lines one after another. Both are called
    by the worker's thread and must not raise.
    """

    lines: Sequence[bytes]
    on_done: Callable[[list[Answer] | Exception], None]
    n_best: int = 1
    on_part: Callable[[int, bytes], None] | None = None
    rules: Rules | None = None
    client: str = ""
    pieces: list[list[Piece]] = field(default_factory=list, init=False)
    asked: list[list[Request | None]] = field(default_factory=list, init=False)
    found: dict[Request, list[Hypothesis]] = field(default_factory=dict, init=False)
    numbers: dict[Request, tuple[_Lane, int]] = field(default_factory=dict, init=False)
    told: tuple[int, int] = field(default=(0, 0), init=False)  # the line, and how many of its bytes


@dataclass(eq=False)
class _Lane:
    """A scheduler and whose requests it has."""

    scheduler: Scheduler
    jobs: dict[int, tuple[Job, Request]] = field(default_factory=dict)  # by the scheduler's number


class Kind(NamedTuple):
    """What jobs have in common that share engines. n_best: of N_BESTS; keep: names of what the search tells
    from other bytes, so that it can be kept, None where nothing is owed."""

    n_best: int
    keep: tuple[str, ...] | None = None

    @staticmethod
    def of(job: Job) -> Kind:
        return Kind(
            next(n for n in N_BESTS if n >= job.n_best), None if job.rules is None else job.rules.classes
        )


class Worker:
    """make: a Translator for a kind of jobs; it is called in the worker's thread, and each one's engines are
    used by it alone."""

    def __init__(self, make: Callable[[Kind], Translator], name: str = "translator") -> None:
        self._make = make
        self._commands: SimpleQueue[tuple[str, Job | None]] = SimpleQueue()
        self._translators: dict[Kind, Translator] = {}
        self._lanes: dict[tuple[Kind, bool], _Lane] = {}
        self._jobs: set[Job] = set()
        self.n_running = 0  # sentences side by side, for whoever looks
        self.n_steps = self.n_sentence_steps = 0
        self._finishing = False
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether its thread is there to translate."""
        return self._thread.is_alive()

    def submit(self, job: Job) -> None:
        """From any thread."""
        self._commands.put(("submit", job))

    def drop(self, job: Job) -> None:
        """Nobody waits for it any more; from any thread. on_done may still be called."""
        self._commands.put(("drop", job))

    def finish(self) -> None:
        """End the thread when all jobs that were submitted have ended; from any thread, without waiting."""
        self._commands.put(("finish", None))

    def stop(self, seconds: float = 10.0) -> None:
        """End the thread; what it was at is left."""
        self._commands.put(("stop", None))
        self._thread.join(seconds)

    def _run(self) -> None:
        while self._obey():
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

    def _obey(self) -> bool:
        """Carry out what has been asked for since; wait for it where there is nothing else to do. False: the
        thread is to end."""
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
        """Hand a job's lines to schedulers; equal ones once."""
        self._jobs.add(job)
        kind = Kind.of(job)
        if kind not in self._translators:
            self._translators[kind] = self._make(kind)
        translator = self._translators[kind]
        job.pieces = [translator.pieces(line, job.rules) for line in job.lines]
        job.asked = [
            [translator.request(piece.text, 0, place, job.rules) for place, piece in enumerate(line)]
            for line in job.pieces
        ]
        for request in dict.fromkeys(request for line in job.asked for request in line):
            if request is not None:
                lane = self._lane(translator, kind, len(request.source or b"") <= SHORT)
                number = lane.scheduler.submit(request, job, job.client)
                job.numbers[request] = lane, number
                lane.jobs[number] = job, request
        self._tell(job)

    def _lane(self, translator: Translator, kind: Kind, short: bool) -> _Lane:
        """Lines of about a length share an engine: a place has room for the longest of its engine's."""
        longest = min(SHORT, translator.max_source_bytes) if short else translator.max_source_bytes
        if (kind, short) not in self._lanes:
            places = min(MOST_PLACES, translator.capacity(longest))
            self._lanes[kind, short] = _Lane(Scheduler(translator.make_engine(places)))
        return self._lanes[kind, short]

    def _advance(self, lane: _Lane) -> None:
        watched = [job for job in self._jobs if job.on_part is not None]
        n_steps = STOP_TEST_EVERY
        if watched:
            n_steps = min(n_steps, WATCHED_EVERY * (1 + len(watched) // WATCHED_CHEAPLY))
        done = lane.scheduler.step(n_steps)
        self.n_steps += n_steps
        self.n_sentence_steps += n_steps * (lane.scheduler.n_running + len(done))
        changed = set(watched)
        for number, hypotheses in done:
            job, request = lane.jobs.pop(number)
            if job.rules is not None:
                flags = job.rules.flags
                hypotheses = [one._replace(flags=flags(request, one.text)) for one in hypotheses]
            job.found[request] = hypotheses
            changed.add(job)
        for job in changed:
            self._tell(job)

    def _tell(self, job: Job) -> None:
        """The parts that are new, and the answers where all is found."""
        if job.on_part is not None:
            for line, part in self._new_parts(job):
                job.on_part(line, part)
        if len(job.found) == len(job.numbers):
            parts = [
                [[copied(piece.text)] if request is None else job.found[request] for piece, request in line]
                for line in map(zip, job.pieces, job.asked)
            ]
            penalty = self._translators[Kind.of(job)].options.length_penalty
            hypotheses = [join(*line, penalty)[: job.n_best] for line in zip(job.pieces, parts, strict=True)]
            answers = zip(hypotheses, job.pieces, parts, strict=True)
            self._end(job, [Answer(*answer) for answer in answers])

    def _new_parts(self, job: Job) -> list[tuple[int, bytes]]:
        """What is known beyond what was told: line by line, up to the first that is still decoded."""
        line, n_told = job.told
        parts = []
        while line < len(job.lines):
            text, whole = self._so_far(job, line)
            if text[n_told:]:
                parts.append((line, text[n_told:]))
            n_told = len(text)
            if not whole:
                break
            line, n_told = line + 1, 0
        job.told = line, n_told
        return parts

    def _so_far(self, job: Job, line: int) -> tuple[bytes, bool]:
        """What a line's translation surely begins with, whole characters of it; whether that is all."""
        text = b""
        for piece, request in zip(job.pieces[line], job.asked[line], strict=True):
            if request is None:
                text += piece.text + piece.joint
                continue
            if request not in job.found:
                lane, number = job.numbers[request]
                part = lane.scheduler.so_far(number)
                n_whole = first_invalid(part)
                return text + (part if n_whole < 0 else part[:n_whole]), False
            text += job.found[request][0].text + piece.joint
        return text, True

    def _forget(self, job: Job) -> None:
        """Let go of its lines, wherever they are."""
        self._jobs.discard(job)
        there = set(self._lanes.values())
        for lane in {lane for lane, _ in job.numbers.values() if lane in there}:  # not one that was given up
            lane.scheduler.drop(job)
            lane.jobs = {number: other for number, other in lane.jobs.items() if other[0] is not job}

    def _end(self, job: Job, outcome: list[Answer] | Exception) -> None:
        if job in self._jobs:
            self._forget(job)
            job.on_done(outcome)
