"""Whatever a translator writes beside the codes of a unit, they are read as the codes that they were."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from bytenmt.documents.document import TEXT, Document, Parts, joined_text
from bytenmt.documents.formats import ReadOptions, read
from bytenmt.documents.inline_tags import ESCAPE, parse_string, restore_tags
from bytenmt.documents.segments import Segment

COMMON_MARK = MarkdownIt("commonmark")


def document(name: str, text: str) -> Document:
    return read(text.encode(), name, Path("file"), ReadOptions(column="1"))


def codes(parts: Parts) -> list[str]:
    return [part.text for part in parts if part.kind != TEXT and not ESCAPE.fullmatch(part.text)]


def inline(text: str) -> list[Token]:
    """Parse the only paragraph with a CommonMark parser and return its inline nodes."""
    tokens = COMMON_MARK.parse(text)
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"], text
    return tokens[1].children or []


def written(name: str, text: str, output: str) -> str:
    """The document with its unit translated."""
    (unit,) = (of := document(name, text)).units
    return of.with_units([(restore_tags(unit.source, output)[0], False)]).decode()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("So `b`", "``a`` So `b`"),
        ("So.``a```b`", "So.``a`` `b`"),
        ("So ` ``a`` `b`", r"So \` ``a`` `b`"),
        ("So *x ``a`` `b` y*", r"So \*x ``a`` `b` y\*"),
        ("So <x2/ ``a`` `b`", "So <x2/ ``a`` `b`"),
        ("<x2/ ``a`` `b`", r"\<x2/ ``a`` `b`"),
        ("~~~ ``a`` `b`", r"\~\~\~ ``a`` `b`"),
        ("[x]: ``a`` `b`", r"\[x]: ``a`` `b`"),
        ("1. ``a`` `b`", r"1\. ``a`` `b`"),
    ],
)
def test_code_in_markdown(output: str, expected: str) -> None:
    text = written("markdown", "Is ``a`` like `b`\n", output)
    assert text == expected + "\n"
    assert sorted(one.content for one in inline(text) if one.type == "code_inline") == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "maths"),
    [
        ("Einstein's $E = mc^2$ is known.", ["$E = mc^2$"]),
        (
            r"# The $n$th of $\{a_1, *b* \$ c\}$, $$x$$, $`y`$",
            ["$n$", r"$\{a_1, *b* \$ c\}$", "$$x$$", "$`y`$"],
        ),
        ("| a $x$ | b |\n|--|--|\n| c $y$-d | e |", ["$x$", "$y$"]),
        ("It costs $5 or $6, from $5-$10.", []),
        ("US$ 5 $ 6, 5$/6$, 5 $.", []),
        ("Set $HOME and $PATH.", []),
        (r"So \$a$ is none.", []),
        ("Run $a `b$` c.", ["`b$`"]),
    ],
)
def test_maths_in_markdown(text: str, maths: list[str]) -> None:
    assert [code for unit in document("markdown", text).units for code in codes(unit.source)] == maths


def test_a_dollar_before_maths_is_escaped() -> None:
    assert written("markdown", "The $x+1$ is\n", "Nur $a-$x+1$ ist") == "Nur \\$a-$x+1$ ist\n"


PIECES = [
    "``a``",
    "`b`",
    "*",
    "**",
    "_",
    "`",
    "``",
    "[",
    "](u)",
    "]",
    "<b>",
    "\\",
    "~~~",
    "#",
    "x",
    " ",
    ".",
    "- ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=10))
def test_any_text_in_markdown(pieces: list[str]) -> None:
    """A stray backtick opens no code, and every code of the source is one."""
    text = written("markdown", "Is ``a`` like `b`\n", "X" + "".join(pieces))
    assert sorted(one.content for one in inline(text) if one.type == "code_inline") == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("po", 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "a %A"\nmsgstr ""\n'),
        ("json", '{"k": "a %A"}\n'),
        ("properties", "k=a %A\n"),
    ],
)
def test_a_sign_before_a_placeholder(name: str, text: str) -> None:
    found = written(name, text, "B %%A")
    assert "B % %A" in found
    of = document(name, found).units[-1].target
    assert of is not None and codes(of) == ["%A"]


@given(st.lists(st.sampled_from(["%", "%s", "{", "{n}", "}", "%%", "$", " ", "x", "<b>", "<"]), max_size=8))
def test_strings_are_read_again(pieces: list[str]) -> None:
    """Every string is read as often as in the source, also where a text may begin a code without ending
    it.
    """
    source = parse_string("%s of {n}")
    parts, _ = restore_tags(source, "".join(pieces))
    text = document("json", '{"k": "%s of {n}"}').with_units([(parts, False)]).decode()
    (again,) = document("json", text).units
    if not codes(parse_string("".join(part.text for part in parts if part.kind == TEXT))):
        assert sorted(codes(again.source)) == sorted(codes(parts)), joined_text(parts)


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("a<x1/>3 <x1/> <x1/>x", "a_ 3 _ _x"),
        ("%PATH<x2/>, %s.<x2/>", "%PATH %y, %s.%y"),
        ("See <g3>https://a.b</g3>", "See **https://a.b**"),
    ],
)
def test_a_code_in_place_of_its_tag_hides_no_span(translation: str, expected: str) -> None:
    codes = ("<x1/>", "_"), ("<x2/>", "%y"), ("<g3>", "**"), ("</g3>", "**")
    assert Segment(b"", (), codes).restore(translation) == expected


def test_an_arrow_in_subtitles() -> None:
    (unit,) = document("srt", "1\n0:0:1,0 --> 0:0:2,0\nStart --> Programs\n").units
    assert joined_text(unit.source) == "Start --> Programs"


@pytest.mark.parametrize(("name", "head"), [("srt", ""), ("vtt", "WEBVTT\n\n")])
def test_a_time_in_a_text_begins_no_line(name: str, head: str) -> None:
    """A time at the beginning of a line would be read as a malformed timing line."""
    text = f"{head}1\n00:00:01.000 --> 00:00:02.000\nThe first\nat <b>x</b>\n"
    read = document(name, text)
    written = read.with_units([(parse_string("It starts 00:00:01.000"), False)])
    (again,) = document(name, written.decode()).units
    assert joined_text(again.source) == "It starts 00:00:01.000"


@pytest.mark.parametrize("raw", ["Use {a &lt; b} now", "{{x &amp; y}}", "{1&gt;the manual&lt;1}"])
def test_a_placeholder_of_xml_is_escaped_again(raw: str) -> None:
    """Placeholders are found in the text without entities, and written as XML."""
    text = (
        '<xliff version="1.2"><file source-language="en" target-language="de"><body><trans-unit id="1">'
        f"<source>{raw}</source></trans-unit></body></file></xliff>"
    )
    (unit,) = document("xliff", text).units
    written = document("xliff", text).with_units([(unit.source, False)]).decode()
    assert ElementTree.fromstring(written).findtext(".//target") == ElementTree.fromstring(text).findtext(
        ".//source"
    )


def test_the_delimiter_by_which_rows_are_even() -> None:
    text = 'one; two; three,kept\n"four; five",kept\nsix,kept\n'
    assert [joined_text(unit.source) for unit in document("csv", text).units] == [
        "one; two; three",
        "four; five",
        "six",
    ]
    assert [joined_text(unit.source) for unit in document("csv", "a,b;c;d\n1;2;3\n").units] == ["a,b", "1"]
