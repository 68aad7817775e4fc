"""An application whose engines are made up.

The translation of a line is the line in capitals and a 0, whatever the direction; its engines may
wait until they are let go on.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import Any

from made_up_engine import MadeUpEngine
from starlette.testclient import TestClient

from bytenmt.checkpoints.facts import DoubtThresholds
from bytenmt.decoding.engine import Engine
from bytenmt.decoding.interface import Request
from bytenmt.evaluation.judge import Judge
from bytenmt.serve import server as server_module
from bytenmt.serve.app import App
from bytenmt.serve.languages import Direction
from bytenmt.serve.server import GracefulServer, listening, run
from bytenmt.serve.service import DirectionWorkers, Service
from bytenmt.serve.work_queue import Limits
from bytenmt.serve.worker import Worker
from bytenmt.translation.glossary import Glossary, Term
from bytenmt.translation.kept_spans import KeepSpec
from bytenmt.translation.settings import Settings
from bytenmt.translation.translator import Translator

SECONDS = 20.0  # until a test that waits fails
HELLO: dict[str, Any] = {"q": "hello", "source": "en", "target": "de"}  # a request to /translate
SSE = {"accept": "text/event-stream"}
UPLOAD: dict[str, Any] = {"data": HELLO, "files": {"file": ("a.txt", b"x")}}  # to /translate_file


class Gate:
    """Engines that take a step only while it is open, and what they were asked for."""

    def __init__(self, is_open: bool = True) -> None:
        self.open = Event()
        self.admitted: list[list[Request]] = []
        self.began = Event()  # a step is wanted
        if is_open:
            self.open.set()

    def worker(self, n_best: int = 1, terms: Sequence[Term] = ()) -> Worker:
        return Worker(self.translator(n_best, terms), Judge(doubt=DoubtThresholds(unsure=0.2)))

    def translator(self, n_best: int, terms: Sequence[Term]) -> Translator:
        settings = Settings.from_dict({"beam": n_best, "n_best": n_best})

        def make(capacity: int) -> Engine:
            engine = MadeUpEngine(capacity, settings.search, self.admitted)
            steps = engine.advance

            def advance(n_steps: int) -> None:
                self.began.set()
                assert self.open.wait(SECONDS)
                steps(n_steps)

            engine.advance = advance  # type: ignore[method-assign]
            return engine

        return Translator(make, replace(settings, keep=KeepSpec(glossary=Glossary(terms))))

    def lines(self) -> list[bytes]:
        return [request.source or b"" for batch in self.admitted for request in batch]


def made_up_app(
    *pairs: str,
    gate: Gate | None = None,
    keys: Sequence[str] = (),
    terms: Sequence[Term] = (),
    limits: Limits | None = None,
    suggestions: Any = None,
    access: Any = (),
) -> App:
    """An application of these pairs.

    terms: of the server, from English into German; access: names and origins.
    """
    models = {}
    for one in map(Direction.parse, pairs or ("ko-en", "en-de", "de-en")):
        own = terms if one == ("en", "de") else ()
        best, alternatives = ((gate or Gate()).worker(n, own) for n in (1, 4))
        models[one] = DirectionWorkers(best, alternatives)
    hosts, origins = access or (["*"], [])
    return App(Service(models, keys, limits or Limits()), hosts, origins, suggestions)


def client(*pairs: str, **more: Any) -> TestClient:
    """A client of such an application."""
    return TestClient(made_up_app(*pairs, **more).asgi())


def wait_until(is_true: Callable[[], Any], what: str = "nothing came") -> None:
    until = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < until, what
        time.sleep(0.01)


@contextmanager
def serving(app: App) -> Iterator[tuple[GracefulServer, tuple[str, int]]]:
    """Run an application in a thread, end it as SIGTERM does; yield the server and its address."""
    found: list[GracefulServer] = []

    class Noted(GracefulServer):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            found.append(self)

    real = server_module.GracefulServer
    server_module.GracefulServer = Noted  # type: ignore[misc]
    listener = listening("127.0.0.1", 0)
    thread = threading.Thread(target=run, args=(app, listener), daemon=True)
    thread.start()
    wait_until(lambda: found)
    try:
        yield found[0], listener.getsockname()[:2]
    finally:
        server_module.GracefulServer = real  # type: ignore[misc]
        found[0].should_exit = True
        thread.join(SECONDS)
        assert not thread.is_alive()
