"""Documents are read in child processes: no file holds up the server, whatever it makes its reader do."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from made_up_service import HELD_UP, client, made_up_server
from starlette.testclient import TestClient

from bytenmt.serve import document_pool
from bytenmt.serve.document_pool import SMALL_BYTES, DocumentFailure, DocumentPool, Slots
from bytenmt.serve.document_worker import (
    DocumentSource,
    DocumentTask,
    LineTranslation,
    lines_to_translate,
    read_document,
    run_task,
    write_document,
)
from bytenmt.serve.limits import Client, Limits, Refusal

T = TypeVar("T")
SPIN, MEMORY, CRASH, FAULT, SLEEP = "spin", "memory", "crash", "fault", "sleep"
PAGE = "<p>One <b>two</b>.</p>"


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children do what the text of a page says, see made_up_service.HELD_UP."""
    monkeypatch.setattr(document_pool, "CHILD", HELD_UP)


@pytest.fixture
def pool() -> Iterator[DocumentPool]:
    made = DocumentPool(Limits(document_seconds=1, document_memory=200_000_000), 2)
    yield made
    made.close()


def page(text: str) -> DocumentSource:
    return DocumentSource(text.encode(), "html", "the page", encoding="utf-8")


def read(pool: DocumentPool, text: str) -> Coroutine[Any, Any, list[list[str]]]:
    return pool.read([page(text)])


def test_a_document_is_read_and_written(pool: DocumentPool) -> None:
    """Several at once, with alternatives; as in this process."""
    pages = [page(PAGE), page("<p>three</p><p>four</p>"), page("<hr>")]
    lines = asyncio.run(pool.read(pages))
    assert lines == [["One <b>two</b>."], ["three", "four"], []]
    alternatives = [
        [[LineTranslation(f"{letter} {line}", -0.1) for line in some] for letter in "xy"] for some in lines
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
            "<p>1 and <b>two</b> and <a href='x'>three</a>.<br>4 dogs</p>",
            ["1 and <b>two</b> and <a href='x'>three</a>.", "4 dogs"],
        ),
    ],
)
def test_a_page_with_its_own_lines_is_as_it_was(text: str, lines: list[str]) -> None:
    document = read_document(page(text))
    assert [segment.text.decode() for segment in lines_to_translate(document)] == lines
    translations = [LineTranslation(line, 0.0) for line in lines]
    assert write_document(document, translations).decode() == text


@pytest.mark.parametrize(
    ("text", "why"), [(SPIN, "too much time"), (MEMORY, "too much memory"), (CRASH, "time or memory")]
)
def test_a_child_at_its_limit_is_replaced(hostile: None, pool: DocumentPool, text: str, why: str) -> None:
    """Its document is refused, and the next one is read."""

    async def ask() -> None:
        with pytest.raises(Refusal, match=why) as refused:
            await read(pool, text)
        assert refused.value.status == 413
        assert await read(pool, PAGE) == [["One <b>two</b>."]]

    asyncio.run(ask())
    assert pool.n_killed == 1


def test_the_event_loop_runs_while_documents_are_read(hostile: None, pool: DocumentPool) -> None:
    async def ask() -> float:
        tasks = [asyncio.ensure_future(read(pool, SPIN)) for _ in range(2)]
        longest = 0.0
        while not all(task.done() for task in tasks):
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)
        for task in tasks:
            with pytest.raises(Refusal):
                task.result()
        return longest

    assert asyncio.run(ask()) < 0.5  # of more than a second of CPU time in each of two documents


def test_a_small_page_does_not_wait_for_large_files(hostile: None, pool: DocumentPool) -> None:
    large = f"<p>{SLEEP}</p>" + " " * SMALL_BYTES

    async def ask() -> None:
        tasks = [asyncio.ensure_future(read(pool, large)) for _ in range(4)]
        await asyncio.sleep(0.1)
        assert await asyncio.wait_for(read(pool, PAGE), 10.0) == [["One <b>two</b>."]]
        for task in tasks:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(ask())


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
        assert await asyncio.wait_for(task(2), 1.0) is None  # no slot was lost
        return order

    assert asyncio.run(ask()) == [9, 1, 3, 5, 2]


def test_what_waits_to_be_read_is_limited(hostile: None) -> None:
    """In all, and of a client; small pages do not count."""
    pool = DocumentPool(Limits(body=SMALL_BYTES), 2)
    large = f"<p>{SLEEP}</p>" + " " * (SMALL_BYTES - 11)
    first, second, *others = (Client(f"client {number}") for number in range(8))

    async def ask() -> None:
        async def upload(client: Client) -> list[list[str]]:
            return await pool.read([page(large)], client)

        tasks = [asyncio.ensure_future(upload(first)) for _ in range(7)]
        await asyncio.sleep(0.1)
        with pytest.raises(Refusal, match="too many files are waiting") as refused:
            await upload(first)
        assert refused.value.status == 429 and refused.value.retry_after
        tasks += [asyncio.ensure_future(upload(one)) for one in (second, *others) for _ in range(4)]
        await asyncio.sleep(0.1)
        with pytest.raises(Refusal, match="too many files are waiting"):
            await upload(Client("one more"))
        assert await asyncio.wait_for(pool.read([page(PAGE)], first), 10.0) == [["One <b>two</b>."]]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not pool._waiting_bytes

    asyncio.run(ask())
    pool.close()


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


def test_who_leaves_gives_the_child_back(hostile: None, pool: DocumentPool) -> None:
    async def ask() -> None:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(read(pool, SLEEP), 0.2)
        assert await asyncio.wait_for(read(pool, PAGE), 20.0) == [["One <b>two</b>."]]

    asyncio.run(ask())


def test_a_child_that_ended_while_idle_is_not_the_clients_affair(pool: DocumentPool) -> None:
    assert asyncio.run(read(pool, PAGE))
    for process in pool._idle:
        process.kill()
        while process._process is not None and not process.has_ended():
            time.sleep(0.01)
    assert asyncio.run(read(pool, PAGE)) == [["One <b>two</b>."]]


def test_signals_to_the_group_leave_the_children(pool: DocumentPool) -> None:
    """The server answers what it has accepted before it ends, documents included."""
    assert asyncio.run(read(pool, PAGE))
    children = [process._process for process in pool._idle if process._process is not None]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for child in children:
            child.send_signal(number)
    assert asyncio.run(read(pool, PAGE)) == [["One <b>two</b>."]]
    assert children and all(child.poll() is None for child in children)


def test_a_fault_in_a_reader_is_told_and_the_child_goes_on(hostile: None, pool: DocumentPool) -> None:
    with pytest.raises(DocumentFailure, match=r"ValueError\('a fault'\) in .*, line \d+"):
        asyncio.run(read(pool, FAULT))
    assert asyncio.run(read(pool, PAGE)) == [["One <b>two</b>."]]
    assert pool.n_killed == 0


def test_what_is_no_document_is_refused(pool: DocumentPool) -> None:
    with pytest.raises(Refusal, match="the file.json, line 1, column") as refused:
        asyncio.run(pool.read([DocumentSource(b"{", "json", "the file.json")]))
    assert refused.value.status == 400


def test_children_end_with_the_pool() -> None:
    made = DocumentPool(Limits(), 2)
    made.start()
    assert asyncio.run(read(made, PAGE))
    children = [process._process for process in made._idle]
    del made
    gc.collect()
    assert all(child is not None and child.wait(10) is not None for child in children)


def test_a_child_imports_neither_numba_nor_pytorch() -> None:
    """A new one is ready in a fraction of a second."""
    program = (
        "import sys; from bytenmt.serve.document_worker import *; "
        "page = DocumentSource(b'<p>a <b>b</b> {c}</p>', 'html', 'page'); "
        "run_task(DocumentTask([page], 1, [[[LineTranslation('a <b>b</b> {c}', 0.0)]]])); "
        "sys.exit(bool({'numba', 'torch'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_server_answers_while_files_are_read(hostile: None) -> None:
    """Both ways in: a file and a page. What takes too long is refused, and others are answered meanwhile."""
    languages = {"source": "en", "target": "de"}
    upload = {"files": {"file": ("a.html", SPIN.encode())}, "data": languages}
    posted = {"json": {"q": SPIN, "format": "html", **languages}}
    with client(limits=Limits(document_seconds=1)) as asked, ThreadPoolExecutor(2) as others:
        sent = [
            others.submit(lambda: asked.post("/translate_file", **upload)),  # type: ignore[arg-type]
            others.submit(lambda: asked.post("/translate", **posted)),  # type: ignore[arg-type]
        ]
        n_answers = 0
        while not all(one.done() for one in sent):
            began = time.monotonic()
            assert asked.get("/health").json() == {"status": "ok"}
            assert asked.post("/translate", json={"q": "hello", **languages}).status_code == 200
            assert time.monotonic() - began < 2.0
            n_answers += 1
            time.sleep(0.02)
    assert n_answers > 5
    for one in sent:
        assert one.result().status_code == 413 and "too much time" in one.result().json()["error"]
