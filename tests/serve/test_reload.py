"""Models, glossaries and keys are read again while a server answers, and no request is lost."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from made_up_service import PROFILES, SECONDS, Gate, made_up_server

from bytenmt.decoding.constraints.glossary import Glossary, Term
from bytenmt.errors import BytenmtError
from bytenmt.serve.detect import Detector
from bytenmt.serve.http.app import LoadedModels, Server
from bytenmt.serve.languages import Direction
from bytenmt.serve.limits import ApiKeys, Refusal
from bytenmt.serve.service import TranslateParams

EN_DE = Direction("en", "de")
ASKED = TranslateParams("en", "de")


def loaded(gate: Gate, *keys: str) -> LoadedModels:
    glossary = Glossary.from_terms([Term("dog", ("Hund",), ())])
    return LoadedModels(
        {EN_DE: gate.worker()}, Detector(["en", "de"], PROFILES), {EN_DE: glossary}, ApiKeys(keys)
    )


async def translated(server: Server, text: str) -> str:
    service = server.service
    (found,) = await service.translate([text], service.check(ASKED))
    return found.text


def test_who_is_being_answered_is_answered_by_the_former_model() -> None:
    """And who comes later by the new one, which is asked nothing else; the former one ends by itself."""
    before, after = Gate(open=False), Gate()
    server, lines = made_up_server("en-de", gate=before, keys=["old"])
    server = replace(server, load=lambda: loaded(after, "new"))
    keys = server.keys  # as an open websocket holds it
    (former,) = server.service.workers.values()

    async def journey() -> None:
        first = asyncio.create_task(translated(server, "the dog"))
        while not before.began.is_set():
            await asyncio.sleep(0.01)
        await server.reload()
        assert await translated(server, "a dog") == "Hund A DOG0"
        assert not first.done() and former.alive
        before.open.set()
        assert await first == "THE DOG0"

    asyncio.run(asyncio.wait_for(journey(), SECONDS))
    former._thread.join(SECONDS)
    assert not former.alive and server.service.not_ready is None
    assert before.lines() == [b"the dog"] and after.lines() == [b"a dog"]
    assert keys.check("new")
    with pytest.raises(Refusal):
        keys.check("old")
    assert [json.loads(line)["event"] for line in lines] == ["reloading", "reloaded"]


def test_what_cannot_be_read_changes_nothing() -> None:
    def load() -> LoadedModels:
        raise BytenmtError("no such file")

    server, lines = made_up_server("en-de", keys=["old"])
    server = replace(server, load=load)
    workers = server.service.workers
    asyncio.run(server.reload())
    assert server.service.workers is workers and server.keys.check("old")
    assert asyncio.run(translated(server, "a")) == "A0"
    told = json.loads(lines[-1])
    assert (told["event"], told["level"]) == ("reload failed", "error") and "no such file" in told["error"]
