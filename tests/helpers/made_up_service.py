"""A service whose engines are made up: what it says of a line is the line in capitals and a 0, whatever the
direction; and one whose engines wait until they are let go on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from threading import Event
from typing import Any

from heard import Heard
from made_up_engine import MadeUpEngine
from starlette.testclient import TestClient

from bytenmt.decoding.constraints.glossary import Glossary
from bytenmt.decoding.interface import Engine, Request
from bytenmt.decoding.setting_table import KEPT_BY_SERVER
from bytenmt.decoding.settings import Settings
from bytenmt.decoding.translator import Translator
from bytenmt.evaluation.judge import Judge
from bytenmt.language_profile import LanguageProfile
from bytenmt.serve.detect import Detector
from bytenmt.serve.http.app import Server
from bytenmt.serve.http.logs import ServerLog
from bytenmt.serve.languages import Direction, Languages
from bytenmt.serve.limits import ApiKeys, Limits
from bytenmt.serve.service import Service
from bytenmt.serve.worker import EngineKey, Worker

# Two engines' work: the lines are long and more than one takes at once.
MANY_LINES = "\n".join(["x" * 200, *(f"{number:03}{'y' * 997}" for number in range(15))])


def profile_of(text: bytes) -> LanguageProfile:
    profile = LanguageProfile.from_lines([text])
    assert profile is not None
    return profile


SECONDS = 20.0  # until a test that waits fails

# A child of a document pool that does what the text of a page says; `until:PATH<` waits for a file.
HELD_UP = """
import os, sys, time
sys.path[:] = {path!r}
from bytenmt.serve import document_worker
real = document_worker.run_task
def run_task(task):
    text = task.documents[0].data
    while b"spin" in text:
        pass
    if b"memory" in text:
        bytearray(10**9)
    if b"crash" in text:
        os._exit(1)
    if b"fault" in text:
        raise ValueError("a fault")
    if b"until:" in text:
        path = text.partition(b"until:")[2].partition(b"<")[0]
        while not os.path.exists(path):
            time.sleep(0.01)
    return real(task)
document_worker.run_task = run_task
document_worker.main({fd}, {memory})
"""


class Gate:
    """Engines that take a step only while it is open, and what they were asked for."""

    def __init__(self, open: bool = True, languages: Sequence[str] = ()) -> None:
        self.open, self.languages = Event(), languages
        self.admitted: list[list[Request]] = []
        self.began = Event()  # a step is wanted
        if open:
            self.open.set()

    def worker(self) -> Worker:
        return Worker(self.translator, judge=Judge(flag_above=0.2))

    def translator(self, kind: EngineKey) -> Translator:
        settings = Settings.from_dict({"beam": kind.n_best, "n_best": kind.n_best, "keep": kind.keep or ()})

        def make(capacity: int) -> Engine:
            engine = MadeUpEngine(capacity, settings.search, self.admitted)
            steps = engine.advance

            def advance(n_steps: int) -> None:
                self.began.set()
                assert self.open.wait(SECONDS)
                steps(n_steps)

            engine.advance = advance  # type: ignore[method-assign]
            return engine

        return Translator(make, settings=settings, languages=self.languages)

    def lines(self) -> list[bytes]:
        return [request.source or b"" for batch in self.admitted for request in batch]


PROFILES = {
    "en": profile_of(b"the cat sat on the mat and the dog " * 20),
    "de": profile_of(b"der Hund und die Katze auf dem Dach " * 20),
}


def made_up_server(
    *pairs: str,
    gate: Gate | None = None,
    keys: Sequence[str] = (),
    limits: Limits | None = None,
    keep: Sequence[str] = KEPT_BY_SERVER,
    glossaries: Mapping[Direction, Glossary] | None = None,
    **more: Any,
) -> tuple[Server, list[str]]:
    """The server of these pairs, and what it logs."""
    heard = Heard()
    gate = gate or Gate()
    workers = {Direction.parse(pair): gate.worker() for pair in pairs or ("ko-en", "en-de", "de-en")}
    service = Service(
        workers,
        Detector(Languages(list(workers)).all, PROFILES),
        limits or Limits(),
        keep=tuple(keep),
        glossaries=glossaries or {},
    )
    return Server(service, ServerLog(heard, "json"), ApiKeys(keys), **more), heard.lines


def wait_for_nothing(service: Service) -> None:
    """Until nothing is in flight."""
    until = time.monotonic() + SECONDS
    while service.n_requests:
        assert time.monotonic() < until, "a request is in flight whose client has gone"
        time.sleep(0.01)


def client(*pairs: str, **more: Any) -> TestClient:
    """A client of such a server."""
    return TestClient(made_up_server(*pairs, **more)[0].app())
