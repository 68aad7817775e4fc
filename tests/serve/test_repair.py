"""The server repairs codes that went astray, as translate-file does."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from bytenmt.decoding.interface import Hypothesis
from bytenmt.sentinels import Code
from bytenmt.serve import service as service_module
from bytenmt.serve.bodies import PairBody, TranslateBody
from bytenmt.serve.documents import DocumentSource
from bytenmt.serve.languages import Direction
from bytenmt.serve.service import DirectionWorkers, Service, TranslationPlan
from bytenmt.translation.kept_spans import SourceLine
from bytenmt.translation.line_batch import PLACEMENT, TranslationResult

PAGE = b"<p>Press the <b>red button</b> now.</p>"
REPAIRED = b"<p>PRESS THE <b>RED BUTTON</b> NOW.</p>"
TORN = b"<p>PRESS THE RED BUTTON NOW.<b></b></p>"


class TearingWorker:
    """Translates lines to capitals and puts their codes behind them."""

    def __init__(self) -> None:
        self.n_lines = 0

    async def translate(self, lines: Sequence[SourceLine], **_: Any) -> list[TranslationResult]:
        self.n_lines += len(lines)
        return [self._result(line) for line in lines]

    def _result(self, line: SourceLine) -> TranslationResult:
        assert not isinstance(line, bytes)
        codes = [part for part in line if isinstance(part, Code)]
        text = "".join(part for part in line if isinstance(part, str)).upper()
        flags = (PLACEMENT,) if codes else ()
        best = Hypothesis(text.encode(), -1.0, -1.0, flags=flags)
        return TranslationResult([best], [], [], [text, *codes])


def translated_file(data: bytes) -> bytes:
    worker: Any = TearingWorker()
    service = Service({Direction("en", "de"): DirectionWorkers(worker, worker)})
    body = PairBody(source="en", target="de")
    file = DocumentSource("a.html", data, ("en", "de"))
    return asyncio.run(service.translate_file(file, body, "client")).data


def test_a_document_is_repaired() -> None:
    assert translated_file(PAGE) == REPAIRED


def test_html_is_repaired() -> None:
    worker: Any = TearingWorker()
    direction = Direction("en", "de")
    service = Service({direction: DirectionWorkers(worker, worker)})
    body = TranslateBody(q=PAGE.decode(), source="en", target="de", format="html")
    plan = TranslationPlan(direction, None, "client")
    (translation,) = asyncio.run(service.translate([PAGE.decode()], plan, body))
    assert translation.variants == [REPAIRED.decode()]


def test_what_needs_too_much_text_stays_torn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "MAX_REPAIR_SHARE", 0.5)
    assert translated_file(PAGE) == TORN
