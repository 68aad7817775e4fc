"""Reviews of documents over HTTP; and, where there is a Chromium, the page as a person uses it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from made_up_service import client, made_up_server
from starlette.testclient import TestClient

from bytenmt.documents.memory import TranslationMemory
from bytenmt.serve.http.server import listening, run
from bytenmt.serve.limits import Limits
from tools.browser import CHROMIUM, Page, open_browser

PO = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"

msgid "good %s dogs"
msgstr ""

msgid "open 3 files"
msgstr ""

msgid "done"
msgstr "fertig"

msgid "the <b>cat</b> 5"
msgstr ""
"""
MEMORY = "open 3 files\t3 Dateien öffnen\ngood dogs\tgute Hunde\n"
FIELDS = {"source": "en", "target": "de"}


def post(test_client: TestClient, path: str, *, memory: str = "", data: str = PO, **fields: str) -> Any:
    files = {"file": ("my menu.po", data.encode())}
    if memory:
        files["memory"] = ("memory.tsv", memory.encode())
    return test_client.post(path, data={**FIELDS, **fields}, files=files)


def test_units_and_the_file_with_edits() -> None:
    with client() as asked:
        record = post(asked, "/review/units", memory=MEMORY, alternatives="2").json()
        assert (record["source"], record["target"]) == ("en", "de")
        shown = [(one["number"], one["origin"], one["target"]) for one in record["units"]]
        assert shown == [
            (0, "machine", "good %s dogs".upper().replace("%S", "%s") + "0"),
            (1, "memory", "3 Dateien öffnen"),
            (2, "kept", "fertig"),
            (3, "machine", "THE <b>CAT</b> 50"),
        ]
        first, match, _, last = record["units"]
        assert (last["verdict"], last["reasons"]) == (
            "wrong",
            ["a number of the source is missing, written in words or repeated"],
        )
        assert first["keep"] == ["%s"] and len(first["alternatives"]) == 2
        assert first["fuzzy"][0]["target"] == "gute Hunde" and first["fuzzy"][0]["score"] > 80
        assert match["is_exact"] and match["alternatives"] == match["fuzzy"] == []
        edits = [
            [0, "gute %s Hunde", False, False],
            [1, "3 Dateien öffnen", False, True],
            [3, "die Katze 5", False],
        ]
        answer = post(asked, "/review/file", units=json.dumps(edits)).json()
        assert answer["restored"] == [3]
        written = asked.get(answer["translatedFileUrl"])
        assert "my_menu_de.po" in written.headers["content-disposition"]
        expected = PO.replace('UTF-8\\n"\n', 'UTF-8\\n"\n"Language: de\\n"\n').replace(
            'dogs"\nmsgstr ""', 'dogs"\nmsgstr "gute %s Hunde"'
        )
        expected = expected.replace('files"\nmsgstr ""', 'files"\nmsgstr "3 Dateien öffnen"')
        expected = expected.replace(
            'msgid "the <b>cat</b> 5"\nmsgstr ""',
            '#, fuzzy\nmsgid "the <b>cat</b> 5"\nmsgstr "die <b>Katze</b> 5"',
        )
        assert written.text == expected


def test_a_detected_language_is_told() -> None:
    with client() as asked:
        record = post(asked, "/review/units", source="auto", data='msgid "the dog and the cat"\nmsgstr ""\n')
        assert record.json()["source"] == "en"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "fields", "reason"),
    [
        (
            "/review/units",
            {"memory": MEMORY, "source": "auto"},
            "a translation memory needs a source language",
        ),
        ("/review/units", {"memory": "no table"}, "the memory.tsv"),
        ("/review/units", {"alternatives": "100"}, "alternatives must be a whole number"),
        ("/review/units", {"data": 'msgid "a'}, "the file.po, line 1"),
        ("/review/file", {}, "missing units parameter"),
        ("/review/file", {"units": "[[0]]"}, "Invalid request: units: "),
        ("/review/file", {"units": "[[0, 1]]"}, "Invalid request: units: "),
        ("/review/file", {"units": '[[0, "\\ud800"]]'}, "Invalid request: "),
        ("/review/file", {"units": "["}, "Invalid request: units: "),
    ],
)
def test_what_is_refused(path: str, fields: dict[str, str], reason: str) -> None:
    with client() as asked:
        answer = post(asked, path, **fields)
        assert answer.status_code == 400 and reason in answer.json()["error"]


def test_limits_hold_for_reviews() -> None:
    """Too many characters and a missing key are refused; the page itself needs no key."""
    with client(limits=Limits(characters=20)) as asked:
        assert post(asked, "/review/units").status_code == 413
    with client(keys=["secret"]) as asked:
        assert post(asked, "/review/units").status_code == 403
        assert post(asked, "/review/units", api_key="secret").status_code == 200
        assert asked.get("/review").status_code == 200


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of made-up engines, in a thread."""
    listener = listening("127.0.0.1", 0)
    listener.listen()
    server, _ = made_up_server("en-de", "de-en")
    threading.Thread(target=run, args=(server, listener, 5.0), daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/review"


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Page]:
    """A page of a browser with a profile of its own, which puts downloads into tmp_path."""
    if not CHROMIUM:
        pytest.skip("there is no Chromium")
    with open_browser() as found:
        found.send_command("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        yield found


def opened(
    tab: Page, url: str, data: str = PO, memory: str = MEMORY, name: str = "menu.po", **screen: Any
) -> None:
    """Open the page and have it translate a document."""
    tab.open(url, **screen)
    tab.wait_until("languages.length && document.getElementById('from').options.length")
    choose = """
        const given = new DataTransfer(), field = document.getElementById({field});
        given.items.add(new File([{data}], {name}));
        field.files = given.files;
        field.dispatchEvent(new Event('change'));"""
    files = [("file", data, name)] + ([("memory", memory, "memory.tsv")] if memory else [])
    for field, text, file in files:
        given = {"field": json.dumps(field), "data": json.dumps(text), "name": json.dumps(file)}
        tab.evaluate("(() => {" + choose.format(**given) + "})()")
    if name.endswith(".csv"):
        tab.wait_until("document.getElementById('column').value")
    tab.evaluate(
        "document.getElementById('from').value = 'en'; fillTargets(); document.getElementById('go').click()"
    )
    tab.wait_until("rows.length")


def downloaded(folder: Path, name: str) -> str:
    until = time.monotonic() + 30
    while not (folder / name).exists():
        assert time.monotonic() < until, f"{name} was not saved"
        time.sleep(0.05)
    return (folder / name).read_text(encoding="utf-8")


def note(tab: Page, k: int) -> str:
    return str(tab.evaluate(f"document.getElementById('note{k}').textContent.trim()"))


def focused(tab: Page) -> int:
    """The number of the unit whose field has the focus."""
    return int(tab.evaluate("rows.findIndex((row) => row.field === document.activeElement)"))


CONTROL, ALT = 2, 1


@pytest.mark.slow
def test_edited_and_accepted_by_keyboard_and_saved(tab: Page, url: str, tmp_path: Path) -> None:
    opened(tab, url)
    assert [note(tab, k) for k in range(4)] == [
        "sure",
        "memory exact match",
        "kept translated in the file",
        "wrong a number of the source is missing, written in words or repeated",
    ]
    assert (
        tab.evaluate("document.getElementById('tally').textContent")
        == "1 of 4 accepted · 0 to check · 1 wrong"
    )
    tab.evaluate("rows[0].field.focus(); rows[0].field.select()")
    tab.type_text("gute Hunde")
    assert note(tab, 0) == "wrong missing: %s"
    tab.evaluate("rows[0].insert.querySelector('button').click()")
    assert tab.evaluate("rows[0].field.value") == "gute Hunde %s" and note(tab, 0) == "edited"
    tab.press_key("Enter", CONTROL)
    assert focused(tab) == 1
    tab.press_key("Enter", CONTROL)
    assert focused(tab) == 3  # the one between was translated in the file
    tab.press_key("ArrowUp", ALT)
    assert focused(tab) == 2
    assert (
        tab.evaluate("document.getElementById('tally').textContent")
        == "3 of 4 accepted · 0 to check · 1 wrong"
    )
    tab.evaluate("document.getElementById('save').click()")
    made = downloaded(tmp_path, "menu_de.po")
    assert 'msgid "good %s dogs"\nmsgstr "gute Hunde %s"\n' in made
    assert 'msgid "open 3 files"\nmsgstr "3 Dateien öffnen"\n' in made
    assert '#, fuzzy\nmsgid "the <b>cat</b> 5"\nmsgstr "THE <b>CAT</b> 50"\n' in made
    assert tab.errors == []


@pytest.mark.slow
def test_placeholders_are_inserted_apart_from_words_and_tags_touch_them(tab: Page, url: str) -> None:
    """No blank is inserted where the source has none."""
    opened(tab, url, 'msgid "good %s dogs, <b>all</b> ({n}s)"\nmsgstr ""\n', memory="")
    insert = """((text, at, code) => {
        changeText(0, text);
        rows[0].field.setSelectionRange(at, at);
        [...rows[0].insert.children].find((one) => one.textContent === `Insert ${code}`).click();
        return [rows[0].field.value, rows[0].field.selectionEnd];
    })"""
    for text, at, code, expected in (
        ("Hunde", 5, "%s", ["Hunde %s", 8]),
        ("Hunde", 0, "%s", ["%s Hunde", 2]),
        ("Hunde alle", 6, "%s", ["Hunde %s alle", 8]),
        ("gute Hunde", 4, "%s", ["gute %s Hunde", 7]),
        ("Hunde", 5, "</b>", ["Hunde</b>", 9]),
        ("nicht", 0, "{n}", ["{n}nicht", 3]),
    ):
        assert tab.evaluate(f"{insert}({json.dumps(text)}, {at}, {json.dumps(code)})") == expected, text
    assert tab.errors == []


@pytest.mark.slow
def test_tags_of_a_memory_are_tags_of_the_saved_page(tab: Page, url: str, tmp_path: Path) -> None:
    """Edited translations have them, too."""
    memory = "Save\t<b>Speichern</b>\nOpen\t<i>Offnen</i>\n"
    opened(tab, url, "<p>Save</p>\n<p>Open</p>\n", memory, "page.html")
    tab.evaluate("changeText(1, '<i>Öffnen</i>'); document.getElementById('save').click()")
    written = downloaded(tmp_path, "page_de.html")
    assert "<p><b>Speichern</b></p>\n<p><i>Öffnen</i></p>" in written
    assert tab.errors == []


@pytest.mark.slow
def test_alternatives_and_matches(tab: Page, url: str) -> None:
    opened(tab, url)
    tab.evaluate("rows[0].field.focus()")
    tab.press_key("a", ALT)
    texts = tab.evaluate(
        "[...rows[0].others.querySelectorAll('button')].map((one) => one.firstChild.textContent)"
    )
    assert texts == ["gute Hunde", "GOOD %s DOGS1", "GOOD %s DOGS2", "GOOD %s DOGS3"]
    assert tab.evaluate("rows[0].others.querySelector('small').textContent") == "memory, 85 %: good dogs"
    tab.press_key("Escape")
    assert focused(tab) == 0 and tab.evaluate("rows[0].others.hidden && rows[0].more.ariaExpanded") == "false"
    tab.press_key("a", ALT)
    tab.evaluate("rows[0].others.querySelectorAll('button')[2].click()")
    assert tab.evaluate("rows[0].field.value") == "GOOD %s DOGS2" and focused(tab) == 0
    tab.evaluate("rows[0].undo.click()")
    assert tab.evaluate("rows[0].field.value") == "GOOD %s DOGS0" and note(tab, 0) == "sure"
    assert tab.errors == []


@pytest.mark.slow
def test_nothing_is_lost_when_the_page_is_loaded_again(tab: Page, url: str, tmp_path: Path) -> None:
    opened(tab, url)
    tab.wait_until("database('readonly', (reviews) => reviews.count()).then((n) => n === 1)")
    tab.evaluate("rows[3].field.focus(); rows[3].field.select()")
    tab.type_text("die Katze 5")
    tab.press_key("Enter", CONTROL)
    tab.open(url)
    tab.wait_until("rows.length && settings.language")
    assert tab.evaluate("rows[3].field.value") == "die Katze 5" and tab.evaluate("states[3].accepted")
    assert note(tab, 3) == "wrong missing: <b> </b>"
    tab.evaluate("document.getElementById('save').click()")
    assert '#, fuzzy\nmsgid "the <b>cat</b> 5"\nmsgstr "die <b>Katze</b> 5"' in downloaded(
        tmp_path, "menu_de.po"
    )
    assert "put back" in tab.wait_until(
        "document.getElementById('said').textContent.includes('put back') && "
        "document.getElementById('said').textContent"
    )
    tab.evaluate("document.getElementById('close').click()")
    tab.evaluate("document.querySelector('#sure [value=close]').click()")
    tab.wait_until("!document.getElementById('form').hidden && localStorage.length === 0")
    tab.open(url)
    tab.wait_until("settings.language")
    assert tab.evaluate("document.getElementById('review').hidden") and tab.errors == []


@pytest.mark.slow
def test_accepted_translations_as_tmx(tab: Page, url: str, tmp_path: Path) -> None:
    """A memory reads back from it what was accepted."""
    opened(tab, url, memory="")
    tab.evaluate("setAccepted(2, false); document.getElementById('tmx').click()")
    assert "Accept a translation first" in tab.evaluate("document.getElementById('said').textContent")
    tab.evaluate("setAccepted(2, true)")
    tab.evaluate(
        "changeText(3, 'die <b>Katze</b> 5'); setAccepted(3, true);"
        "changeText(0, 'a & b < \\u0001 %s'); setAccepted(0, true)"
    )
    tab.evaluate("document.getElementById('tmx').click()")
    data = downloaded(tmp_path, "menu_de.tmx").encode()
    assert len(etree.fromstring(data).findall(".//tu")) == 3
    memory = TranslationMemory.from_pieces([data], "tmx", Path("a.tmx"), ("en", "de"))
    assert memory.translation("good %s dogs") == "a & b <  %s"
    assert memory.translation("the <b>cat</b> 5") == "die <b>Katze</b> 5"
    assert memory.translation("done") == "fertig"
    assert tab.errors == []


@pytest.mark.slow
def test_filters(tab: Page, url: str) -> None:
    opened(tab, url)
    tab.evaluate("setAccepted(0, true)")
    for kind, expected in (
        ("open", [False, True, False, True]),
        ("flagged", [False, False, False, True]),
        ("all", [True] * 4),
    ):
        tab.evaluate(f"document.getElementById('filter').value = '{kind}'; filter()")
        assert tab.evaluate("rows.map(({ node }) => !node.hidden)") == expected
    assert tab.errors == []


@pytest.mark.slow
def test_a_table_has_a_column_and_is_closed_without_a_question(tab: Page, url: str) -> None:
    """There is a question only where something would be lost."""
    opened(tab, url, data="text,id\nthe dog,1\nthe cat,2\n", memory="", name="a.csv")
    assert tab.evaluate("[review.column, ...rows.map(({ field }) => field.value)]") == [
        "text",
        "THE DOG0",
        "THE CAT0",
    ]
    tab.evaluate("document.getElementById('close').click()")
    tab.wait_until("!document.getElementById('form').hidden && document.activeElement.id === 'file'")
    assert tab.errors == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "phone"), [(360, True), (1200, False)])
def test_it_fits_the_screen_and_is_named(tab: Page, url: str, width: int, phone: bool) -> None:
    """No line is cut, buttons are large enough for a thumb, and every field and button has a name."""
    long = PO + f'\nmsgid "{"Donaudampfschifffahrt" * 5} <b>a</b>"\nmsgstr ""\n'
    opened(tab, url, data=long, width=width, height=740, phone=phone)
    tab.evaluate("toggleOthers(4)")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    buttons = "[...document.querySelectorAll('button, select, textarea')].filter((one) => one.offsetHeight)"
    assert min(tab.evaluate(f"{buttons}.map((one) => one.offsetHeight)")) >= 40
    names = tab.evaluate(f"{buttons}.map((one) => one.ariaLabel || one.textContent.trim())")
    assert all(names) and "Translation of unit 5" in names
    assert tab.errors == []
