"""Units cut into lines; what is copied, and what is restored around their translations."""

import re
from unittest.mock import Mock

import pytest

from bytenmt.documents.codes import keeps_codes, nest_pairs
from bytenmt.documents.lines import UnitLine, split_shortcut, split_unit
from bytenmt.documents.unit import CodedText, merge_strings, split_codes, to_markup
from bytenmt.documents.words import has_words
from bytenmt.sentinels import Code
from bytenmt.translation.chunks import split_line
from bytenmt.translation.confidence import UNSURE
from bytenmt.translation.kept_spans import TextOrCode, mark_spans
from tools.verify.made_up_translations import capitals, translated

TAG = re.compile("</?[a-z]+/?>")


def parts(text: str) -> CodedText:
    """A unit with its tags as codes."""
    return split_codes(text, TAG)


def cut(text: str) -> list[str]:
    """The pieces of a unit; lines between « and »."""
    return [
        f"«{to_markup(piece.parts)}»" if isinstance(piece, UnitLine) else to_markup(piece)
        for piece in split_unit(parts(text))
        if isinstance(piece, UnitLine) or to_markup(piece)
    ]


def restored(text: str, translation: str) -> str:
    """A unit whose one line is translated so."""
    made: list[TextOrCode] = []
    pieces = split_unit(parts(text))
    assert sum(isinstance(piece, UnitLine) for piece in pieces) == 1
    for piece in pieces:
        made += piece.restore((translation,)) if isinstance(piece, UnitLine) else piece
    return to_markup(made)


# What users' documents lost, or had translated: the numbers are those of the issue.
COPIED = (
    "https://x.org", "<info@x.org>, www.x.org", "{name}: %s", "42", "12 %s 5,6", "\u266a \u266b",
    "\u2713",  # 10
    "2.200.112", "+49 30 1234567", "3.2.1", "A1", "\u00a7 5", "12.03.2024", "F1", "MP3 / H264, A4",
    "#ff00ff", "#FFF", "menu.file.open", "errors.not_found.0", "true", "false", "null",
    "Ctrl+C", "README.md",
    "__name__", "[name]", "[[name]]", "<%= name %>", "*|NAME|*", "##name##", ":name",  # 12
    "@:key",
    '$t(key, {"count": {{n}} })', "`option`", "--help", "-o FILE", "%H:%M", "%Y-%m-%d",
    "<b>{x}</b>", "\u20ac", "GitHub", "af, csb, de-AT, fr, zh-Hans",
)  # fmt: skip
TRANSLATED = (
    "%s a", "2nd", "A4 page", "e.g.", "Done.", "True", "it is true", "a #fff wall", "ready...",
    "#red", "red, yes, no", "StudentInnen",
)  # fmt: skip
PIECES = {
    # 13: plural forms
    "no cars | one car | {n} cars": ["«no cars»", " | ", "«one car»", " | ", "«{n} cars»"],
    # 16: options of a program
    "  -a, --all   show all": ["  ", "-a, --all", "   ", "«show all»"],
    "  FILE        the file": ["  ", "FILE", "        ", "«the file»"],
    "  -x, --at[=PAT]  at PAT": ["  ", "-x, --at[=PAT]", "  ", "«at PAT»"],
    "One.  two   three": ["«One.»", "  ", "«two»", "   ", "«three»"],
    "One.  Two": ["«One.»", "  ", "«Two»"],
    "하나  둘": ["«하나»", "  ", "«둘»"],
    # 12: a menu's entry and its key
    "&Quit\tCtrl+Q": ["«Quit»", "\t", "Ctrl+Q"],
    "Open\r\nClose": ["«Open»", "\r\n", "«Close»"],
    "\u266a Hello my friend \u266a": ["\u266a ", "«Hello my friend»", " \u266a"],
    "\u25cf a \u25cf b": ["\u25cf ", "«a \u25cf b»"],
    # What encloses a unit is outside of it; so is half of a pair.
    "<p><b>a b</b></p> ": ["<p><b>", "«a b»", "</b></p> "],
    "<b>a</b> b": ["«<1>a</1> b»"],
    "<b>a\nb</b>": ["<b>", "«a»", "\n", "«b»", "</b>"],
    "<br/> Hello {name}<br/>": ["«<1/> Hello {name}<2/>»"],
}  # fmt: skip


@pytest.mark.parametrize("text", (*COPIED, *TRANSLATED))
def test_what_has_no_words_is_copied(text: str) -> None:
    is_translated = text in TRANSLATED
    assert has_words(parts(text)) == is_translated
    assert any(isinstance(one, UnitLine) for one in split_unit(parts(text))) == is_translated


@pytest.mark.parametrize("text", PIECES)
def test_the_lines_of_a_unit(text: str) -> None:
    assert cut(text) == PIECES[text]


def test_names_are_codes() -> None:
    (line,) = (one for one in split_unit(("McAfee and GitHub, PATH",)) if isinstance(one, UnitLine))
    assert line.parts == (Code("McAfee"), " and ", Code("GitHub"), ", PATH")
    assert to_markup(line.restore((Code("GitHub"), " und ", Code("McAfee")))) == "GitHub und McAfee"
    # For a model without sentinels they are text.
    (chunk,) = split_line(mark_spans((*line.parts, Code("<1/>")), None), 99)
    assert chunk.source == b"McAfee and GitHub, PATH"


def test_a_pair_around_kept_text_is_one_code() -> None:
    """A link whose text is its address; codes are numbered, so that lines with other attributes are
    one."""
    text = "See <a>https://x.org</a> or <b>it</b> <i>5</i> <b>me</b>."
    (line,) = (one for one in split_unit(parts(text)) if isinstance(one, UnitLine))
    assert to_markup(line.parts) == "See <1/> or <2>it</2> <4/> <5>me</5>."
    assert to_markup(line.restore(line.parts)) == text
    for sign in ".!":  # before a code that closes, which a period follows
        assert to_markup(line.restore((*line.parts[:-2], sign, *line.parts[-2:]))) == text
    assert to_markup(line.restore(("See ", line.parts[1], "!"))) == "See <a>https://x.org</a>."
    found = split_unit(parts("x <b>a</b>\nx <i>a</i>"))
    first, second = (one.parts for one in found if isinstance(one, UnitLine))
    assert first == second == ("x ", Code("<1>", 1, True), "a", Code("</1>", 1))


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("Name:", "Name", "Name:"),
        ("Name:", "Name.", "Name:"),
        ("Name:", "\uc774\ub984\uff1a", "\uc774\ub984\uff1a"),
        ("Save as...", "Sichern unter", "Sichern unter..."),
        ("Save as\u2026", "Sichern unter...", "Sichern unter..."),
        ("Delete {name}?", "{name} l\u00f6schen", "{name} l\u00f6schen?"),  # 14
        ("Done", "Fertig.", "Fertig."),
        ("Welcome.", "Willkommen!", "Willkommen."),
        ("Done.", "Fertig..", "Fertig."),
        ("Done.", "Fertig", "Fertig"),
        ("Wait...", "Warte...", "Warte..."),
        ("Read <x>it</x>.", "Lies <1>es.</1>.", "Lies <1>es</1>."),
        ("Welcome, {name}!", "Willkommen, {name}", "Willkommen, {name}!"),
        ("&File", "Datei", "&Datei"),
        ("_Open", "\u00d6ffnen", "_\u00d6ffnen"),
        ("Save &As\u2026", "Sichern als\u2026", "Sichern &als\u2026"),
        ("E&xit", "Verlassen", "&Verlassen"),
        ("E_xit", "Verlassen", "_Verlassen"),
        ("Pre_ferences", "Einstellungen", "_Einstellungen"),
        ("&File", "\ud30c\uc77c", "\ud30c\uc77c(&F)"),
        ("&New file", "neue Datei", "&neue Datei"),
    ],
)  # fmt: skip
def test_ends_and_shortcuts_of_the_source(text: str, translation: str, expected: str) -> None:
    assert restored(text, translation) == expected


@pytest.mark.parametrize(
    "text",
    ["AT&T", "R&D costs", "a && b", "Fish &amp; Chips", "my_name", "A & B", "MY_NAME", "a_b_c"],
)
def test_what_is_no_shortcut_stays(text: str) -> None:
    assert not any(one.shortcut for one in split_unit(parts(text)) if isinstance(one, UnitLine))


FORMS = "{n, plural, one {one file} other {# files}}"
ONE, END_ONE = Code("<1>", 1, True), Code("</1>", 1)
B, END_B, C, END_C = Code("<b>", 0, True), Code("</b>", 0), Code("<i>", 1, True), Code("</i>", 1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.po", f'msgid "{FORMS}"\nmsgstr ""\n'),
        ("a.po", 'msgid "{sex, select, male {his} other {their}} file"\nmsgstr ""\n'),
        (
            "a.json",
            f'{{"a": "{FORMS}", "b": "the {{n, selectordinal, one {{#st}} other {{#th}}}}"}}',
        ),
        ("a.properties", f"a = {FORMS}\nb = {{0,choice,0#no files|1#one file}}\n"),
        ("a.html", f"<p>A {FORMS}</p>"),
        ("a.md", f"A *new* {FORMS}\n"),
    ],
)
def test_icu_messages_are_left_untranslated(name: str, text: str) -> None:
    made, report = translated(name, text, overwrite=True)
    assert made.decode() == text and not report.counts["translated"] and report.notes


SIBLINGS, INSIDE = (B, "a", END_B, C, "b", END_C), (B, C, "a", END_C, END_B)


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        (SIBLINGS, (C, "b", END_C, B, "a", END_B), (C, "b", END_C, B, "a", END_B)),
        (SIBLINGS, (B, "a", C, "b", END_B, "c", END_C), (B, "a", END_B, C, "b", "c", END_C)),
        (SIBLINGS, (B, "a", C, "b", END_C, END_B), (B, "a", END_B, C, "b", END_C)),
        (INSIDE, (B, "a", C, "b", END_B, "c", END_C), (B, "a", C, "b", END_C, END_B, "c")),
        (SIBLINGS, ("x ", B, " a", END_B, C, "b", END_C), ("x ", B, "a", END_B, C, "b", END_C)),
        (INSIDE, (B, C, " a ", END_C, END_B, " b"), (B, C, "a", END_C, END_B, " b")),
    ],
)
def test_pairs_are_nested_as_in_the_source(
    source: CodedText, translation: CodedText, expected: CodedText
) -> None:
    made = nest_pairs(source, translation)
    assert made == merge_strings(expected) and keeps_codes(source, made)


@pytest.mark.parametrize(
    ("translation", "expected", "level", "why"),
    [
        (("ein ", ONE, "alter", END_ONE), "ein <b>alter</b>", None, ""),
        (("ein alter",), "ein alter<b></b>", "wrong", "a placeholder or tag is missing"),  # 12
        (("ein ", ONE, ONE, "alter", END_ONE), "ein alter<b></b>", "wrong", "one too many"),
        ((ONE, END_ONE, " 5"), "<b></b> 5", "wrong", "has no words"),  # 11
        (("ein alter", ONE, END_ONE), "ein alter<b></b>", "check", "in the wrong place"),
    ],
)
def test_judgements(translation: CodedText, expected: str, level: str | None, why: str) -> None:
    made, report = translated("a.html", "<p>an <b>old</b></p>", lambda _: translation)
    assert made.decode() == f"<p>{expected}</p>"
    assert report.notes == [] if level is None else report.notes[0].verdict == level
    assert level is None or why in report.notes[0].describe()


def test_marks_of_markdown() -> None:
    """Emphasis around nothing leaves none, a text behind a code does not begin a line, where a full
    stop would be escaped, and keys that are pressed together are one code."""
    keys = "<kbd>A</kbd>+<kbd>B</kbd>"
    made, _ = translated("a.md", f"Press {keys} now.\n", lambda line: (*line[1::2], " jetzt."))
    assert made.decode() == f"{keys} jetzt.\n"
    made, _ = translated("a.md", "The **way**.\n", lambda line: (*line[1::2], " der Weg_", "."))
    assert made == b" der Weg_.\n"
    made, _ = translated("a.md", "[one](a) **two**\n", lambda line: ("*x* ", *line, "."))
    assert made == b"\\*x\\* [one](a) **two**.\n"


def test_conversions_are_compared_in_catalogues_and_strings() -> None:
    """13: a stray %s in .strings is a mistake as in PO."""
    texts = {"a.strings": '"a" = "open it";', "a.po": '#, c-format\nmsgid "open it"\nmsgstr ""\n'}
    for name, text in texts.items():
        _, report = translated(name, text, lambda _: ("%s \u00f6ffnen",))
        assert "take other arguments" in report.notes[0].describe()
        assert report.counts["to review"] == 1


def test_lines_are_translated_once_and_empty_translations_left() -> None:
    answer = Mock(side_effect=lambda line: ("",) if line == ("two",) else capitals(line))
    made, report = translated("a.txt", "one\ntwo\none\n", answer, (UNSURE,))
    assert made == b"ONE\ntwo\nONE\n" and answer.call_count == 2
    assert report.counts == {"translated": 2, "without a translation": 1, "to review": 2}
    _, report = translated("a.txt", "word " * 200, flags=(UNSURE,))
    assert 400 < len(report.notes[0].describe()) < 500  # the first 200 characters of either text


@pytest.mark.parametrize(
    "text", ["#&1", "List #&1", "T&Ms", "TM&Xs", "CD&s here", "AT&T", "R&D team", "Q&As", "100&200"]
)
def test_an_ampersand_that_marks_no_shortcut(text: str) -> None:
    """A mark has a letter behind it: inside a word a small one, and no two capitals before it."""
    assert split_shortcut((text,)) == ((text,), "")


@pytest.mark.parametrize(
    "text", ["&File", "E&xit", "Sav&e", "Save &As", "Sho&w all", "&\u00c4ndern"]
)
def test_an_ampersand_that_marks_a_shortcut(text: str) -> None:
    position = text.index("&")
    assert split_shortcut((text,)) == ((text.replace("&", ""),), text[position : position + 2])
