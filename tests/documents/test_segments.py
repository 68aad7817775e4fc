"""Test which part of a unit is translated, and what is copied or restored around the translation."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from bytenmt.decoding.interface import Hypothesis
from bytenmt.documents.document import ALONE, CLOSE, OPEN, Parts, UnitPart, joined_text
from bytenmt.documents.formats import ReadOptions, read
from bytenmt.documents.inline_tags import parse_string
from bytenmt.documents.memory import TranslationMemory
from bytenmt.documents.segments import Segment, has_words, split_unit
from bytenmt.documents.translation import translate


def cut(text: str, limit: int = 1000) -> list[str]:
    """The pieces of a string; segments between < and >."""
    return [
        f"<{piece.text.decode()}>" if isinstance(piece, Segment) else piece
        for piece in split_unit(parse_string(text), limit)
    ]


def translated(text: str, translation: str) -> str:
    """A string whose one segment is translated so."""
    pieces = split_unit(parse_string(text), 1000)
    assert sum(isinstance(piece, Segment) for piece in pieces) == 1
    return "".join(one.restore(translation) if isinstance(one, Segment) else one for one in pieces)


@pytest.mark.parametrize(
    "text",
    [
        "https://x.org",
        "info@x.org",
        "<info@x.org>, www.x.org",
        "{name}: %s",
        "42",
        "\u266a \u266b",
        "12 %s 5,6",
        "F1",
        "MP3 / H264, A4",
        *("#ff00ff", "#FFF", "menu.file.open", "errors.not_found.0", "app.fileMenu", "<b>app.title</b>"),
        *("true", "false", "null"),
    ],
)
def test_what_has_no_words_is_copied(text: str) -> None:
    assert cut(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        *("%s a", "{0}Uhr", "2nd", "2023\ub144", "A4 page", "F-1", "%sF1 go"),
        *(
            "e.g.",
            "Done.",
            "done.",
            "p.m",
            "True",
            "Null",
            "it is true",
            "done.Next",
            "Menu.file",
            "a #fff wall",
        ),
        *("#1 choice", "menu.file.open it", "ready...", "ab.", "#red"),
    ],
)
def test_what_has_words_is_translated(text: str) -> None:
    assert has_words(parse_string(text))


ANGULAR = 'You have {VAR_PLURAL, plural, =0 {no files} other {<x id="INTERPOLATION"/> files}} here'
FORMS = "{n, plural, one {one file} other {# files}}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("po", f'msgid "{FORMS}"\nmsgstr ""\n'),
        ("po", 'msgid ""\n"{sex, select, male {his}"\n" other {their}} file"\nmsgstr ""\n'),
        ("json", json.dumps({"a": FORMS, "b": "the {n, selectordinal, one {#st} other {#th}} file"})),
        ("properties", f"a={FORMS}\nb={{0,choice,0#no files|1#one file}}\n"),
        ("strings", f'"a" = "{FORMS}";\n'),
        ("android", f'<resources><string name="a">{FORMS}</string></resources>'),
        ("xliff", f'<xliff version="1.2"><trans-unit><source>{ANGULAR}</source></trans-unit></xliff>'),
        ("html", f"<p>A {FORMS}</p>"),
        ("markdown", f"A *new* {FORMS}\n"),
        ("csv", f'"{FORMS}"\n'),
        ("text", FORMS),
    ],
)
def test_icu_messages_are_left_untranslated(name: str, text: str) -> None:
    """All formats leave them, with and without inline codes; a target stays empty."""
    document = read(text.encode(), name, None, ReadOptions(column="1" if name == "csv" else None))
    assert document.units
    made, told = translate(
        document, lambda segments: pytest.fail(str(segments)) if segments else [], limit=100, overwrite=True
    )
    assert made.decode() == text and told.n_translated == 0


def test_a_memory_translates_an_icu_message_if_it_is_the_same() -> None:
    german = "{n, plural, one {eine Datei} other {# Dateien}}"
    other = ("Has {n, plural, =2 {x}}", "Hat {n, plural, =2 {x}}")
    memory = TranslationMemory.from_texts([(FORMS, german), other])
    strings = {"a": FORMS, "b": "Has {n, plural, =3 {x}}"}
    made, _ = translate(
        read(json.dumps(strings).encode(), "json", None), lambda _: [], limit=100, memory=memory
    )
    assert json.loads(made) == strings | {"a": german}


def test_codes_with_forms_inside_are_kept_in_a_sentence() -> None:
    """Examples are code of Markdown in a guide, and a nested message in XLIFF 2 of Angular."""
    assert has_words(read(b"Write `{n, plural, other {#}}` then.", "markdown", None).units[0].source)
    assert split_unit(read(b"Write `{n, plural, other {#}}` then.", "markdown", None).units[0].source, 99)


def test_a_unit_of_an_address_alone_is_copied() -> None:
    """And is not sent to the translator."""
    data = json.dumps({"a": "https://x.org", "b": "info@x.org"}).encode()
    document = read(data, "json", None, ReadOptions(None))
    made, told = translate(
        document, lambda segments: pytest.fail(str(segments)) if segments else [], limit=100
    )
    assert made == data and told.n_translated == 0


def test_signs_and_tabs_stay_where_they_are() -> None:
    assert cut("\u266a Hello my friend \u266a") == ["\u266a ", "<Hello my friend>", " \u266a"]
    assert cut("Open\tClose") == ["<Open>", "\t", "<Close>"]
    assert cut("\u25cf a \u25cf b") == ["\u25cf ", "<a \u25cf b>"]


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("Name:", "Name", "Name:"),
        ("Name:", "Name.", "Name:"),
        ("Name:", "\uc774\ub984\uff1a", "\uc774\ub984\uff1a"),
        ("Save as...", "Sichern unter", "Sichern unter..."),
        ("Save as\u2026", "Sichern unter...", "Sichern unter..."),
        ("Done", "Fertig.", "Fertig."),
    ],
)
def test_the_end_is_that_of_the_source(text: str, translation: str, expected: str) -> None:
    assert translated(text, translation) == expected


@pytest.mark.parametrize(
    ("text", "shown", "translation", "expected"),
    [
        ("&File", "File", "Datei", "&Datei"),
        ("_Open", "Open", "\u00d6ffnen", "_\u00d6ffnen"),
        ("Save &As\u2026", "Save As\u2026", "Sichern als\u2026", "Sichern &als\u2026"),
        ("E&xit", "Exit", "Verlassen", "&Verlassen"),
        ("&File", "File", "\ud30c\uc77c", "\ud30c\uc77c(&F)"),
        ("&New {x} file", "New {x} file", "{x} neue Datei", "{x} &neue Datei"),
    ],
)
def test_a_shortcut_is_set_again(text: str, shown: str, translation: str, expected: str) -> None:
    (segment,) = (piece for piece in split_unit(parse_string(text), 1000) if isinstance(piece, Segment))
    assert segment.text.decode() == shown
    assert translated(text, translation) == expected


@pytest.mark.parametrize(
    "text", ["AT&T", "R&D costs", "a && b", "Fish &amp; Chips", "my_name", "A & B", "see http://a.b/?x=y&z=1"]
)
def test_what_is_no_shortcut_stays(text: str) -> None:
    assert all(not one.shortcut for one in split_unit(parse_string(text), 1000) if isinstance(one, Segment))


def test_a_span_is_not_cut() -> None:
    """A longer one than a segment may be is copied on its own, and its neighbours keep their blanks."""
    url = "http://a.b/" + "c" * 60
    assert cut(f"Look at {url} now", 30) == ["<Look at>", " ", url, " ", "<now>"]
    text = "one two {a name of a placeholder} three"
    assert "{a name of a placeholder}" in cut(text, 16) and "".join(cut(text, 16)).count("{") == 1


@pytest.mark.slow
def test_many_codes_take_no_quadratic_time() -> None:
    parts: Parts = tuple(
        UnitPart(text, kind)
        for number in range(5000)
        for text, kind in (
            ("a ", "text"),
            ("[", OPEN),
            ("b", "text"),
            (f"]({number})", CLOSE),
            ("\\*", ALONE),
        )
    )
    assert (
        joined_text(parts) and len([one for one in split_unit(parts, 10**6) if isinstance(one, Segment)]) == 1
    )


@pytest.mark.parametrize("name", ["xliff", "html", "tmx"])
def test_escaped_tags_beside_inline_tags_are_kept(name: str) -> None:
    """Each as it was written, around what it was around, whatever stands beside it."""
    inside = "I am &lt;b&gt;tired&lt;/b&gt; <i>and</i> 3 &lt; 5."
    before = {
        "html": f"<p>{inside}</p>",
        "xliff": f'<xliff version="1.2"><trans-unit><source>{inside}</source></trans-unit></xliff>',
        "tmx": '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en">'
        f"<seg>{inside}</seg></tuv></tu></body></tmx>",
    }[name]

    def ask(segments: list[Segment]) -> list[Hypothesis]:
        """Upper case, tags as they are."""
        return [Hypothesis(_upper(one.text.decode()).encode(), -0.1, -0.1) for one in segments]

    pair = ("en", "de") if name == "tmx" else None
    document = read(before.encode(), name, None, ReadOptions(pair))
    (unit,) = document.units
    assert [part.text for part in unit.source if part.kind in (OPEN, CLOSE)] == [
        "&lt;b&gt;",
        "&lt;/b&gt;",
        "<i>",
        "</i>",
    ]
    made, told = translate(document, ask, limit=1000)
    assert "I AM &lt;b&gt;TIRED&lt;/b&gt; <i>AND</i> 3 &lt; 5." in made.decode()
    assert not told.review or "lost" not in told.review[0][1]


def _upper(text: str) -> str:
    import re

    return "".join(one if one.startswith("<") else one.upper() for one in re.split("(</?[a-z0-9]+/?>)", text))


@pytest.mark.slow
def test_a_long_text_takes_little_memory_and_linear_time() -> None:
    """Per character no Python integers; and a text is not copied for each of its pieces."""
    text = "One word after the other. " * 10_000
    tracemalloc.start()
    try:
        found = split_unit((UnitPart(text),), 1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "".join(p.text.decode() if isinstance(p, Segment) else p for p in found) == text
    assert peak < 20 * len(text)
