"""The page while one types, in a real browser: text appears at once, and committed text never changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from made_up_engine import ShoutingEngine
from made_up_service import SECONDS, Gate, made_up_server

from bytenmt.serve.http.server import listening, run
from tools.browser import CHROMIUM, Page, open_browser

pytestmark = pytest.mark.slow

TARGET = "document.getElementById('target')"
SOURCE = "document.getElementById('source')"
DETAIL = "document.getElementById('detail').textContent"
COMMITTED = "[...document.querySelectorAll('#target .committed')].map((one) => one.textContent).join('|')"
TAIL = "[...document.querySelectorAll('#target .tail')].map((one) => one.textContent).join('')"
SECONDS_A_KEY = 60 / 200
NUMBERS = "하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열 끝"  # with checkpoints after 넷, 일곱 and 열

# Counts what the browser may show between two tasks: committed text that was appended to, or changed in any
# other way; text before it that is not shown; and nodes with committed text that were changed or removed.
WATCH = """
window.seen = { appended: 0, changed: 0, hidden: 0, touched: 0, shown: 0 };
{ let before = '', text = '';
  new MutationObserver((records) => {
    const nodes = [...document.querySelectorAll('#target .committed')];
    const committed = nodes.map((one) => one.textContent).join('\\n');
    if (committed !== before) seen[committed.startsWith(before) ? 'appended' : 'changed']++;
    before = committed;
    if (!document.getElementById('target').textContent.startsWith(before)) seen.hidden++;
    if (document.getElementById('target').textContent !== text) seen.shown++;
    text = document.getElementById('target').textContent;
    for (const one of records) {
      const own = one.target.parentElement.closest('.committed') || one.target.className === 'committed';
      if (own && (one.type === 'characterData' || one.removedNodes.length)) seen.touched++;
    }
  }).observe(document.getElementById('target'), { subtree: true, childList: true, characterData: true });
}
"""


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate(kind=ShoutingEngine)


@pytest.fixture(scope="module")
def url(gate: Gate) -> Iterator[str]:
    """A server of made-up engines, in a thread."""
    listener = listening("127.0.0.1", 0)
    listener.listen()
    server, _ = made_up_server("ko-en", "en-ko", gate=gate)
    server.explain = explained
    threading.Thread(target=run, args=(server, listener, 5.0), daemon=True).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    with urlopen(f"{url}translate", b"q=a&source=ko&target=en", timeout=SECONDS) as answer:
        answer.read()  # what is made once for the first request is made
    yield url


async def explained(*asked: object) -> dict[str, object]:
    return {"bits": [0.1 for _ in str(asked[-1])], "alignment": None}


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    if not CHROMIUM:
        pytest.skip("there is no Chromium")
    with open_browser() as found:
        yield found


@pytest.fixture
def tab(browser: Page, url: str) -> Iterator[Page]:
    browser.open(url)
    browser.wait_until("typeof languages === 'object' && languages.length > 0")
    browser.evaluate("document.getElementById('source').focus()")
    yield browser
    assert browser.errors == []


def test_nothing_committed_flickers_at_200_characters_a_minute(tab: Page) -> None:
    tab.evaluate(f"settings.explain = false; {WATCH}")
    begin = time.monotonic()
    for number, character in enumerate(NUMBERS, 1):
        tab.type_text(character)
        time.sleep(max(0.0, begin + number * SECONDS_A_KEY - time.monotonic()))
    assert time.monotonic() - begin >= SECONDS_A_KEY * len(NUMBERS)
    tab.wait_until(f"{TARGET}.textContent === '{NUMBERS}?'")
    seen = tab.evaluate("seen")
    assert (seen["appended"], seen["changed"], seen["hidden"], seen["touched"]) == (2, 0, 0, 0)
    assert tab.evaluate(COMMITTED) == "하나 둘 셋 넷 다섯 여섯 일곱"
    assert seen["shown"] > 4, "text appears while one types, on a busy machine too"


def test_a_pause_shows_the_verdict_and_changes_nothing(tab: Page) -> None:
    """The server explains translations here: every letter is then a node of its own."""
    tab.evaluate(WATCH)
    tab.type_text(NUMBERS)
    tab.wait_until(f"{TARGET}.querySelectorAll('[title]').length === {len(NUMBERS) + 1}")
    assert tab.evaluate(f"{TARGET}.querySelectorAll('.tail [title]').length") == len(" 여덟 아홉 열 끝?")
    assert "sure" in tab.wait_until(DETAIL) and "Korean" in tab.evaluate(DETAIL)
    tab.type_text(" 또")
    tab.wait_until(f"{TARGET}.textContent === '{NUMBERS} 또?' && {COMMITTED}")
    seen = tab.evaluate("seen")
    assert (seen["changed"], seen["hidden"]) == (0, 0) and seen["appended"]


def test_lines(tab: Page) -> None:
    """Enter commits a line and begins the next; an edit replaces the text of its own line alone."""
    tab.type_text("하나 둘\n")
    tab.wait_until(f"{COMMITTED} === '하나 둘?|' && {TAIL} === ''")
    tab.type_text("셋")
    tab.wait_until(f"{TARGET}.textContent === '하나 둘?\\n셋?'")
    assert tab.evaluate(COMMITTED) == "하나 둘?|" and tab.evaluate(TAIL) == "셋?"
    tab.evaluate(f"{SOURCE}.setSelectionRange(2, 2)")
    tab.type_text("와")
    tab.wait_until(f"{TARGET}.textContent === '하나와 둘?\\n셋?'")
    assert tab.evaluate(COMMITTED) == "|셋?", "the line that was typed before is finished"
    tab.evaluate(f"{SOURCE}.setSelectionRange(3, 4)")
    tab.type_text("\n")
    tab.wait_until(f"{TARGET}.textContent === '하나와?\\n둘?\\n셋?'")
    tab.evaluate(f"{SOURCE}.setSelectionRange(3, 5)")
    tab.send_command("Input.insertText", text=" ")
    tab.wait_until(f"{TARGET}.textContent === '하나와?\\n셋?'")
    tab.evaluate("document.getElementById('clear').click()")
    tab.wait_until(f"{TARGET}.textContent === ''")
    tab.type_text("넷")
    tab.wait_until(f"{TARGET}.textContent === '넷?'")


def test_a_long_paste_is_translated_as_a_whole(tab: Page) -> None:
    """A request does it, and typing goes on at its end."""
    lines = [f"{number} 하나" for number in range(9)]
    tab.send_command("Input.insertText", text="\n".join(lines))
    shown = "\\n".join(f"{line}?" for line in lines)
    tab.wait_until(f"{TARGET}.textContent === '{shown}'")
    assert tab.evaluate("pending === 0 && socket === null")
    tab.type_text(" 둘")
    tab.wait_until(f"{TARGET}.textContent === '{shown[:-1]} 둘?' && socket !== null")
    tab.wait_until(f"{DETAIL}.includes('sure')")
    # A part, of which the rest never comes.
    tab.evaluate(f"show({TARGET}.textContent.replace('3 하나?', '3'), false)")
    tab.type_text(" 셋")
    tab.wait_until(f"{TARGET}.textContent === '{shown[:-1]} 둘 셋?'")


def test_without_websockets_it_translates_after_each_pause(tab: Page) -> None:
    tab.evaluate("WebSocket = class { constructor() { throw new Error('none'); } }")
    tab.type_text("하나")
    tab.wait_until(f"{TARGET}.textContent === '하나?'")
    assert tab.evaluate("socket === null")


def test_a_socket_that_is_lost_is_opened_again(tab: Page, gate: Gate) -> None:
    """Text without an answer is sent as a request."""
    tab.type_text("하나")
    tab.wait_until(f"{TARGET}.textContent === '하나?'")
    tab.evaluate("new Promise((done) => { socket.addEventListener('close', done); socket.close(); })")
    tab.type_text(" 둘")
    tab.wait_until(f"{TARGET}.textContent === '하나 둘?' && socket !== null")
    gate.began.clear()
    gate.open.clear()
    tab.type_text(" 셋")
    assert gate.began.wait(SECONDS)
    tab.evaluate("socket.close()")
    gate.open.set()
    tab.wait_until(f"{TARGET}.textContent === '하나 둘 셋?' && unfit")


def test_a_refused_text_is_sent_as_a_request(tab: Page) -> None:
    """Text goes by requests while the box is off, and after an error on the socket."""
    tab.evaluate("document.getElementById('live').click()")
    tab.type_text("하나")
    tab.wait_until(f"{TARGET}.textContent === '하나?'")
    assert tab.evaluate("socket === null")
    tab.evaluate("document.getElementById('live').click()")
    tab.wait_until("socket !== null")
    tab.evaluate("received({ error: 'no' })")
    tab.wait_until(f"{TARGET}.textContent === '하나?' && unfit")
