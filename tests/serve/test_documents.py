"""Documents are read in child processes: no file holds up the server.

Nothing here is timed: a child that is held up waits for a file, which a test writes when it has
seen that the others go on.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hostile_child import hostile_task
from made_up_service import SECONDS

from bytenmt.documents.translation import LineTranslation
from bytenmt.sentinels import Code
from bytenmt.serve import documents
from bytenmt.serve.documents import DocumentPool, DocumentSource, read, write
from bytenmt.serve.work_queue import Refusal

PAGE = DocumentSource("a.html", b"<p>One <b>two</b>.</p>")
LINES = [[("One ", Code("<1>", 1, True), "two", Code("</1>", 1), ".")]]


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children do what the name of a document says."""
    monkeypatch.setattr(documents, "run_task", hostile_task)


def run(ask: Callable[[DocumentPool], Awaitable[None]]) -> None:
    async def within() -> None:
        pool = DocumentPool()
        await asyncio.wait_for(ask(pool), 3 * SECONDS)

    asyncio.run(within())


def source(name: str) -> list[DocumentSource]:
    return [DocumentSource(name, b"text")]


def test_a_document_is_read_and_written() -> None:
    """Several at once, as in this process; a refusal says why without the file's name."""

    async def ask(pool: DocumentPool) -> None:
        pages = [PAGE, DocumentSource("b.html", b"<p>three</p><p>four</p>")]
        pages.append(DocumentSource("c.html", b"<hr>"))
        lines = await pool.run("a", read, pages)
        assert lines == [*LINES, [("three",), ("four",)], []]
        translations = [[LineTranslation(("x ", *line)) for line in own] for own in lines]
        files = await pool.run("a", write, pages, translations)
        assert files == list(map(write, pages, translations))
        assert files[0].data == b"<p>x One <b>two</b>.</p>"
        for name, data, why in (
            ("secret.json", b"{", "the file.json: not json: .* line 1"),
            ("a.json", b"[" * 9_000, "the file.json: not json"),
            ("a.txt", b"caf\xe9", "the file.txt"),
        ):
            with pytest.raises(Refusal, match=why) as refused:
                await pool.run("a", read, [DocumentSource(name, data)])
            assert refused.value.status == 400 and "secret" not in refused.value.message

    run(ask)


def test_a_written_file_says_how_many_units_need_a_review() -> None:
    page = DocumentSource("a.html", b"<p>one</p><p>two</p><p>5</p>")
    translations = [LineTranslation(("eins",)), LineTranslation(("zwei",), ("unsure",))]
    made = write(page, translations)
    assert made == (b"<p>eins</p><p>zwei</p><p>5</p>", 2, 1)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["spin", "memory", "xml", "crash", "fault"])
def test_a_hostile_document_ends_its_child_alone(hostile: None, what: str) -> None:
    kind: type[Exception] = ValueError if what == "fault" else Refusal

    async def ask(pool: DocumentPool) -> None:
        with pytest.raises(kind, match="a fault|too much") as raised:
            await pool.run("a", read, source(what))
        assert getattr(raised.value, "status", 413) == 413
        assert await pool.run("a", read, source("a.txt")) == [[("text",)]]

    run(ask)


@pytest.mark.slow
def test_a_killed_child_gets_one_retry(hostile: None, tmp_path: Path) -> None:
    """The system kills processes where memory is short, whatever they read."""
    deaths: list[str] = []

    async def ask() -> None:
        pool = DocumentPool(lambda: deaths.append("one"))
        name = f"killed:{tmp_path / 'once'}"
        assert await pool.run("a", read, source(name)) == [[("text",)]]
        with pytest.raises(Refusal, match="too much time or memory"):
            await pool.run("a", read, source("crash"))

    asyncio.run(asyncio.wait_for(ask(), 3 * SECONDS))
    assert len(deaths) == 1 + documents.N_TRIES


@pytest.mark.slow
def test_a_client_waits_for_its_own_documents_alone(hostile: None, tmp_path: Path) -> None:
    """The event loop runs meanwhile, and who leaves gives the child back."""

    async def ask(pool: DocumentPool) -> None:
        waiting = [source(f"until:{tmp_path / name}") for name in "abc"]
        held_up = [asyncio.create_task(pool.run("one", read, one)) for one in waiting]
        assert await pool.run("another", read, source("a.txt")) == [[("text",)]]
        assert not any(task.done() for task in held_up)
        held_up[0].cancel()
        (tmp_path / "b").touch()  # would not be reached if the loop read the documents itself
        assert await held_up[1] == [[("text",)]] and not held_up[2].done()
        held_up[2].cancel()
        await asyncio.gather(*held_up, return_exceptions=True)
        assert await pool.run("one", read, source("a.txt")) == [[("text",)]]
        held_up.clear()
        gc.collect()
        assert not pool._turns

    run(ask)
