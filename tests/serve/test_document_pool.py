"""Documents are read in child processes: no file holds up the server, whatever it makes its reader do.

Nothing here is timed: a child that is held up waits for a file, which a test writes when it has seen that
the others go on.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from made_up_service import HELD_UP, client, made_up_server
from starlette.testclient import TestClient

from bytenmt.decoding.interface import Hypothesis
from bytenmt.serve import document_pool
from bytenmt.serve.document_pool import SMALL_BYTES, DocumentFailure, DocumentPool, Slots
from bytenmt.serve.document_worker import (
    DocumentSource,
    DocumentTask,
    lines_to_translate,
    run_task,
    write_document,
)
from bytenmt.serve.limits import Client, Limits, Refusal

T = TypeVar("T")
SPIN, MEMORY, CRASH, FAULT = "spin", "memory", "crash", "fault"
PAGE = "<p>One <b>two</b>.</p>"
PATIENCE = 100.0  # seconds after which a test that hangs fails; less than document_pool.WALL_SECONDS


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children do what the text of a page says, see made_up_service.HELD_UP."""
    monkeypatch.setattr(document_pool, "CHILD", HELD_UP)


@pytest.fixture
def pool() -> Iterator[DocumentPool]:
    made = DocumentPool(Limits(document_seconds=1, document_memory=200_000_000), 2)
    yield made
    made.close()


def held_up(until: Path) -> str:
    """A page whose child does not answer before a file is there."""
    return f"<p>until:{until}</p>"


def page(text: str) -> DocumentSource:
    return DocumentSource(text.encode(), "html", "the page")


def read(pool: DocumentPool, text: str) -> Coroutine[Any, Any, list[list[str]]]:
    return pool.read([page(text)])


@pytest.mark.slow
def test_a_document_is_read_and_written(pool: DocumentPool) -> None:
    """Several at once, with alternatives; as in this process."""
    pages = [page(PAGE), page("<p>three</p><p>four</p>"), page("<hr>")]
    lines = asyncio.run(pool.read(pages))
    assert lines == [["One <g1>two</g1>."], ["three", "four"], []]
    alternatives = [
        [[Hypothesis(f"{letter} {line}".encode(), -0.1, -0.1) for line in some] for letter in "xy"]
        for some in lines
    ]
    files = asyncio.run(pool.write(pages, alternatives))
    assert files[0] == [b"<p>x One <b>two</b>.</p>", b"<p>y One <b>two</b>.</p>"]
    assert files == run_task(DocumentTask(pages, 1, alternatives)).files


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("<p>One &amp; two.</p>\n<p> three </p>", ["One & two.", "three"]),
        ("<style>p {}</style>z", ["z"]),
        (
            '<p>1 and <b>two</b> and <a href="x">three</a>.<br>4 dogs</p>',
            ["1 and <g1>two</g1> and <g2>three</g2>.", "4 dogs"],
        ),
    ],
)
def test_a_page_with_its_own_lines_is_as_it_was(text: str, lines: list[str]) -> None:
    assert lines_to_translate(page(text)) == lines
    translations = [Hypothesis(line.encode(), 0.0, 0.0) for line in lines]
    assert write_document(page(text), translations).decode() == text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "why"), [(SPIN, "too much time"), (MEMORY, "too much memory"), (CRASH, "time or memory")]
)
def test_a_child_at_its_limit_is_replaced(hostile: None, pool: DocumentPool, text: str, why: str) -> None:
    """Its document is refused, and the next one is read."""

    async def ask() -> None:
        with pytest.raises(Refusal, match=why) as refused:
            await read(pool, text)
        assert refused.value.status == 413
        assert await read(pool, PAGE) == [["One <g1>two</g1>."]]

    asyncio.run(ask())
    assert pool.n_killed == 1


@pytest.mark.slow
def test_the_event_loop_runs_while_documents_are_read(
    hostile: None, pool: DocumentPool, tmp_path: Path
) -> None:
    async def ask() -> None:
        text = held_up(tmp_path / "go")
        tasks = [asyncio.ensure_future(read(pool, text)) for _ in range(2)]
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not any(task.done() for task in tasks)
        (tmp_path / "go").touch()  # would not be reached if the loop read the documents itself
        assert await asyncio.gather(*tasks) == [[[text[3:-4]]]] * 2

    asyncio.run(asyncio.wait_for(ask(), PATIENCE))


@pytest.mark.slow
def test_a_small_page_does_not_wait_for_large_files(
    hostile: None, pool: DocumentPool, tmp_path: Path
) -> None:
    large = held_up(tmp_path / "never") + " " * SMALL_BYTES

    async def ask() -> None:
        tasks = [asyncio.ensure_future(read(pool, large)) for _ in range(4)]
        await asyncio.sleep(0)  # they have begun
        assert await read(pool, PAGE) == [["One <g1>two</g1>."]]
        for task in tasks:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(ask(), PATIENCE))


def test_shorter_tasks_come_first() -> None:
    async def ask() -> list[int]:
        slots, order = Slots(1), list[int]()

        async def task(size: int) -> None:
            async with slots.slot(size):
                order.append(size)
                await asyncio.sleep(0)

        tasks = [asyncio.ensure_future(task(size)) for size in (9, 5, 7, 1, 3)]
        await asyncio.sleep(0)
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await asyncio.wait_for(task(2), PATIENCE) is None  # no slot was lost
        return order

    assert asyncio.run(ask()) == [9, 1, 3, 5, 2]


def test_what_waits_to_be_read_is_limited(hostile: None, tmp_path: Path) -> None:
    """The limit holds in all and per client; small pages do not count."""
    pool = DocumentPool(Limits(body=SMALL_BYTES), 2)
    text = held_up(tmp_path / "never")
    large = text + " " * (SMALL_BYTES + 1 - len(text))
    first, second, *others = (Client(f"client {number}") for number in range(8))

    async def ask() -> None:
        async def upload(client: Client) -> list[list[str]]:
            return await pool.read([page(large)], client)

        tasks = [asyncio.ensure_future(upload(first)) for _ in range(7)]
        await asyncio.sleep(0)  # they have begun
        with pytest.raises(Refusal, match="too many files are waiting") as refused:
            await upload(first)
        assert refused.value.status == 429 and refused.value.retry_after
        tasks += [asyncio.ensure_future(upload(one)) for one in (second, *others) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(Refusal, match="too many files are waiting"):
            await upload(Client("one more"))
        assert await pool.read([page(PAGE)], first) == [["One <g1>two</g1>."]]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not pool._waiting_bytes

    asyncio.run(asyncio.wait_for(ask(), PATIENCE))
    pool.close()


@pytest.mark.slow
def test_an_upload_for_which_there_is_no_room_is_refused_unparsed() -> None:
    server, _ = made_up_server()
    sent = {"source": "en", "target": "de"}
    server.service.documents._waiting_bytes[""] = 32 * Limits().body
    with TestClient(server.app()) as asked:
        for data in (b"x" * 2 * SMALL_BYTES, b"\xff" * 2 * SMALL_BYTES):  # which is no text
            answer = asked.post("/translate_file", data=sent, files={"file": ("a.txt", data)})
            assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1
        small = asked.post("/translate_file", data=sent, files={"file": ("a.txt", b"x")})
        assert small.status_code == 200
    server.service.documents.close()


@pytest.mark.slow
def test_who_leaves_gives_the_child_back(hostile: None, pool: DocumentPool, tmp_path: Path) -> None:
    async def ask() -> None:
        for _ in range(3):
            task = asyncio.ensure_future(read(pool, held_up(tmp_path / "never")))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await read(pool, PAGE) == [["One <g1>two</g1>."]]

    asyncio.run(asyncio.wait_for(ask(), PATIENCE))
    assert pool.n_killed == 3


@pytest.mark.slow
def test_a_child_that_ended_while_idle_is_not_the_clients_affair(pool: DocumentPool) -> None:
    assert asyncio.run(read(pool, PAGE))
    for process in pool._idle:
        process.kill()
        while process._process is not None and not process.has_ended():
            time.sleep(0.01)
    assert asyncio.run(read(pool, PAGE)) == [["One <g1>two</g1>."]]


@pytest.mark.slow
def test_signals_to_the_group_leave_the_children(pool: DocumentPool) -> None:
    """The server answers what it has accepted before it ends, documents included."""
    assert asyncio.run(read(pool, PAGE))
    children = [process._process for process in pool._idle if process._process is not None]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for child in children:
            child.send_signal(number)
    assert asyncio.run(read(pool, PAGE)) == [["One <g1>two</g1>."]]
    assert children and all(child.poll() is None for child in children)


def test_a_fault_in_a_reader_is_told_and_the_child_goes_on(hostile: None, pool: DocumentPool) -> None:
    with pytest.raises(DocumentFailure, match=r"ValueError\('a fault'\) in .*, line \d+"):
        asyncio.run(read(pool, FAULT))
    assert asyncio.run(read(pool, PAGE)) == [["One <g1>two</g1>."]]
    assert pool.n_killed == 0


def test_what_is_no_document_is_refused(pool: DocumentPool) -> None:
    with pytest.raises(Refusal, match="the file.json: not json: .* line 1 column") as refused:
        asyncio.run(pool.read([DocumentSource(b"{", "json", "the file.json")]))
    assert refused.value.status == 400


@pytest.mark.slow
def test_children_end_with_the_pool() -> None:
    made = DocumentPool(Limits(), 2)
    made.start()
    assert asyncio.run(read(made, PAGE))
    children = [process._process for process in made._idle]
    del made
    gc.collect()
    assert all(child is not None and child.wait(PATIENCE) is not None for child in children)


@pytest.mark.slow
def test_a_child_imports_neither_numba_nor_pytorch() -> None:
    """A new one is ready in a fraction of a second."""
    program = (
        "import sys; from bytenmt.serve.document_worker import *; "
        "page = DocumentSource(b'<p>a <b>b</b> {c}</p>', 'html', 'page'); "
        "run_task(DocumentTask([page], 1, [[[Hypothesis(b'a <b>b</b> {c}', 0.0, 0.0)]]])); "
        "sys.exit(bool({'numba', 'torch'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
def test_a_server_answers_while_files_are_read(hostile: None, tmp_path: Path) -> None:
    """Both ways in: a file and a page. What takes too long is refused."""
    languages = {"source": "en", "target": "de"}

    with client(limits=Limits(document_seconds=1)) as asked, ThreadPoolExecutor(2) as others:

        def upload(text: str) -> Any:
            return asked.post("/translate_file", files={"file": ("a.html", text.encode())}, data=languages)

        def post(text: str) -> Any:
            return asked.post("/translate", json={"q": text, "format": "html", **languages})

        text = held_up(tmp_path / "go")
        sent = [others.submit(upload, text), others.submit(post, text)]
        for _ in range(10):
            assert asked.get("/health").json() == {"status": "ok"}
            assert asked.post("/translate", json={"q": "hello", **languages}).status_code == 200
        assert not any(one.done() for one in sent)
        (tmp_path / "go").touch()  # would not be reached if the server had to read them first
        assert [one.result(PATIENCE).status_code for one in sent] == [200, 200]
        for answer in (upload(SPIN), post(SPIN)):
            assert answer.status_code == 413 and "too much time" in answer.json()["error"]
