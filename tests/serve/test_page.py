"""The page: allowed to run nothing but itself; and, where there is a Chromium, used as a person would."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
from made_up_service import client, made_up_server

from bytenmt.serve.http.page import page
from bytenmt.serve.http.server import listening, run
from tools.browser import CHROMIUM, Page, open_browser

pytestmark = pytest.mark.slow

TARGET = "document.getElementById('target')"
DONE = f"!{TARGET}.classList.contains('old') && {TARGET}.textContent"


@pytest.mark.parametrize(("path", "name"), [("/", "page.html"), ("/review", "review.html")])
def test_a_page_is_one_file_that_asks_nobody_else(path: str, name: str) -> None:
    with client() as asked:
        answer = asked.get(path)
    policy = answer.headers["content-security-policy"]
    assert answer.headers["content-type"].startswith("text/html") and "default-src 'none'" in policy
    assert "unsafe" not in policy and "*" not in policy and policy.count("'sha256-") == 2
    assert not re.search(r"https?://|//[a-z]|\son[a-z]+=|\sstyle=|innerHTML|eval\(|shared\.", answer.text)
    assert re.search(r'<html lang="en">', answer.text) and "<title>" in answer.text
    for field in re.findall(r'<label[^>]*for="(\w+)"', answer.text):  # each names a field that is there
        assert f'id="{field}"' in answer.text
    assert page(name)[0] == answer.text


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of made-up engines, in a thread."""
    listener = listening("127.0.0.1", 0)
    listener.listen()  # who comes before the thread is there waits
    server, lines = made_up_server("ko-en", "en-ko", "en-ar")
    server.explain = explained
    serving = threading.Thread(target=run, args=(server, listener, 5.0), daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


async def explained(*asked: object) -> dict[str, object]:
    """Every character is of the one in its place, and the second one is a surprise."""
    *_, source, text = map(str, asked)
    links = [(min(k, len(source) - 1), min(k, len(source) - 1) + 1) for k in range(len(text))]
    return {"bits": [8.0 if k == 1 else 0.1 for k in range(len(text))], "alignment": links}


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    if not CHROMIUM:
        pytest.skip("there is no Chromium")
    with open_browser() as found:
        yield found


def ready(tab: Page, url: str, **screen: object) -> None:
    tab.open(url, **screen)  # type: ignore[arg-type]
    tab.wait_until(
        "typeof languages === 'object' && languages.length && document.activeElement.id === 'source'"
    )


def test_what_is_typed_is_translated_meanwhile(tab: Page, url: str) -> None:
    """The source language is found out, and nobody presses a button."""
    ready(tab, url)
    tab.type_text("안녕하세요 hi\n하나")
    tab.wait_until(f"{DONE} === '안녕하세요 HI0\\n하나0'")
    assert "Korean" in tab.evaluate("document.getElementById('detail').textContent")
    tab.type_text("둘")
    tab.wait_until(f"{DONE} === '안녕하세요 HI0\\n하나둘0'")
    tab.evaluate("document.getElementById('clear').click()")
    tab.wait_until(f"{TARGET}.textContent === ''")
    assert tab.errors == []


def test_alignments_and_surprise(tab: Page, url: str) -> None:
    ready(tab, url)
    tab.type_text("가나다")
    tab.wait_until(f"{TARGET}.querySelectorAll('[title]').length === 4")
    tab.evaluate(f"point({TARGET}.querySelectorAll('[title]')[1])")
    assert tab.evaluate("document.querySelector('#mirror mark').textContent") == "나"
    tab.evaluate("document.getElementById('shade').click()")
    shades = f"[...{TARGET}.querySelectorAll('[title]')].map((one) => one.style.backgroundColor !== '')"
    assert tab.evaluate(shades) == [False, True, False, False]


def test_alternatives_by_keyboard_alone(tab: Page, url: str) -> None:
    ready(tab, url)
    tab.type_text("가")
    tab.wait_until(DONE)
    tab.press_key("a", modifiers=1)
    tab.wait_until("!document.getElementById('others').hidden")
    assert tab.evaluate("document.getElementById('others').innerText.split('\\n').filter(Boolean)") == [
        "가1",
        "가2",
        "가3",
    ]
    tab.evaluate("document.querySelector('#others button').click()")
    assert tab.wait_until(DONE) == "가1" and tab.evaluate("document.activeElement.id") == "target"
    tab.press_key("Escape")


def test_terms_and_what_is_kept(tab: Page, url: str) -> None:
    """A term has its translation as soon as it is typed; where it can have none, the page says why."""
    ready(tab, url)
    tab.evaluate("document.getElementById('from').value = 'ko'")
    tab.evaluate("document.getElementById('terms').open = true; document.getElementById('source').focus()")
    tab.type_text("x@y.org a")
    tab.wait_until(f"{DONE} === 'X@Y.ORG A0'")
    tab.evaluate("document.getElementById('glossary').focus()")
    tab.type_text("a = Apfel")
    tab.wait_until(f"{DONE} === 'Apfel X@Y.ORG A0'")
    tab.evaluate("document.getElementById('keep').click()")
    tab.wait_until(f"{DONE} === 'Apfel x@y.org A0'")
    note = "document.getElementById('termsnote').textContent"
    assert tab.evaluate(note) == ""
    source = "document.getElementById('from')"
    tab.evaluate(f"{source}.value = 'auto'; {source}.dispatchEvent(new Event('change'))")
    assert "Name the language" in tab.wait_until(note) and tab.errors == []


def test_it_fits_a_phone_and_text_from_right_to_left(tab: Page, url: str) -> None:
    ready(tab, url, width=360, height=740, phone=True)
    tab.type_text("مرحبا بالعالم " + "Donaudampfschifffahrtsgesellschaft" * 3)
    tab.wait_until(DONE)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tab.evaluate("getComputedStyle(document.getElementById('source')).direction") == "rtl"
    assert tab.evaluate(f"getComputedStyle({TARGET}).direction") == "rtl"
    heights = "[...document.querySelectorAll('button, select')].map((one) => one.offsetHeight)"
    assert all(height == 0 or height >= 40 for height in tab.evaluate(heights))


def test_a_file_is_translated(tab: Page, url: str) -> None:
    ready(tab, url)
    tab.evaluate("translateFile(new File(['하나\\n둘'], 'a.txt'))")
    address = tab.wait_until("document.querySelector('#said a') && document.querySelector('#said a').href")
    assert tab.evaluate(f"fetch('{address}').then((answer) => answer.text())") == "하나0\n둘0"
    assert tab.errors == []


def test_a_file_has_the_terms_and_what_is_kept(tab: Page, url: str) -> None:
    ready(tab, url)
    tab.evaluate("document.getElementById('from').value = 'ko'")
    tab.evaluate(
        "document.getElementById('glossary').value = 'a = Apfel'; document.getElementById('keep').click()"
    )
    tab.evaluate("translateFile(new File(['x 1.50 a'], 'a.txt'))")
    address = tab.wait_until("document.querySelector('#said a') && document.querySelector('#said a').href")
    text = tab.evaluate(f"fetch('{address}').then((answer) => answer.text())")
    assert "Apfel" in text and "1.50" in text and tab.errors == []


def test_a_table_is_asked_for_its_column(tab: Page, url: str) -> None:
    """Its names are offered; the first row is read in the browser."""
    ready(tab, url)
    tab.evaluate("translateFile(new File(['id,\"the, text\"\\n1,하나\\n'], 'a.csv'))")
    tab.wait_until("!document.getElementById('columns').hidden")
    names = "[...document.getElementById('column').options].map((one) => one.value)"
    assert tab.evaluate(names) == ["id", "the, text"]
    tab.evaluate(
        "document.getElementById('column').value = 'the, text'; document.getElementById('go').click()"
    )
    address = tab.wait_until("document.querySelector('#said a') && document.querySelector('#said a').href")
    assert tab.evaluate(f"fetch('{address}').then((answer) => answer.text())") == 'id,"the, text"\n1,하나0\n'
    assert tab.evaluate("document.getElementById('columns').hidden") and tab.errors == []
