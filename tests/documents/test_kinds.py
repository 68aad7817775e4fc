"""Kinds of texts that once came back broken, in each format: input and output of a document.

The translator writes capitals, so that what is in capitals was translated and all else was kept.
"""

import re

import pytest

from bytenmt.documents.formats import read
from bytenmt.documents.placement import lines_to_repair, repair
from bytenmt.documents.translation import LineTranslation, lines_to_translate, translate
from bytenmt.documents.unit import CodedText, ReadOptions, split_codes, to_markup
from bytenmt.translation.confidence import LOOP, UNSURE
from bytenmt.translation.line_batch import PLACEMENT
from tools.verify.made_up_translations import document, translated

CUE = "1\n00:00:01,000 --> 00:00:02,000\n"
VTT = "WEBVTT\n\n{}\n\n00:01.000 --> 00:02.000\nsome text\n"
XHTML = """<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/x.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" lang="de" xml:lang="de">{}</html>
"""
ANDROID = '<resources xmlns:tools="t">{}<string name="z">text</string></resources>'


def capitalised(name: str, text: str) -> str:
    return translated(name, text)[0].decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, friend.\\NHow are you?", "HELLO, FRIEND.\\NHOW ARE YOU?"),
        ("{\\an8}First\\nsecond line", "{\\an8}FIRST\\nSECOND LINE"),
        ("[door slams]", "[DOOR SLAMS]"),
        ("(sighs) I do not know.", "(SIGHS) I DO NOT KNOW."),
        ("ANNA: Where to?", "ANNA: WHERE TO?"),
        ("JOHN: Home.\nANNA: Why?", "JOHN: HOME.\nANNA: WHY?"),
        ("<i>NARRATOR:</i> Long ago", "<i>NARRATOR:</i> LONG AGO"),
        ("- JOHN: Come in.\n- Thank you.", "- JOHN: COME IN.\n- THANK YOU."),
        ("DR. SMITH: It is late\nand dark.", "DR. SMITH: IT IS\nLATE AND DARK."),
        ("\u266a la la \u266a", "\u266a LA LA \u266a"),
    ],
)
def test_turns_and_sounds_of_subtitles(text: str, expected: str) -> None:
    assert capitalised("a.srt", f"{CUE}{text}\n") == f"{CUE}{expected}\n"


def test_a_turn_and_a_sound_are_lines_of_their_own() -> None:
    text = f"{CUE}ANNA: [door slams] Who is there?\n"
    lines = lines_to_translate(document("a.srt", text))
    assert lines == [("door slams",), ("Who is there?",)]


@pytest.mark.parametrize(
    "block",
    ["NOTE one\nsecond line", "NOTE\n\nNOTE x", "STYLE\n::cue {\n  color: red;\n}", "REGION\nid:f"],
)
def test_blocks_of_webvtt_stay(block: str) -> None:
    text = VTT.format(block)
    assert capitalised("a.vtt", text) == text.replace("some text", "SOME TEXT")


@pytest.mark.parametrize(
    "text",
    [
        "{{< note >}}\nthis is important\n{{< /note >}}\n",
        "{{% tab %}}\ninstall it\n{{% /tab %}}\n",
        "text before\n{{< youtube abc >}}\ntext behind\n",
        "{% note %}\nbe careful\n{% endnote %}\n",
        "{{< columns >}}\nleft\n<--->\nright\n{{< /columns >}}\n",
        "- item\n  {{< note >}}\n  in a list\n  {{< /note >}}\n",
        "read {{< link >}}this page{{< /link >}} now\n",
        "{{< note >}} on one line {{< /note >}}\n",
        "press <kbd>Ctrl</kbd>+<kbd>C</kbd> to copy\n",
        "!!! note\n    this is a note\n",
        '??? tip "open me"\n    hidden text\n\n    second paragraph\n',
        '=== "one tab"\n\n    - item\n\n=== "another"\n\n    text\n',
        "!!! note\n    outer\n\n    !!! tip\n        inner\n\n    outer again\n",
        "- item\n\n    !!! note\n        in a list\n",
    ],
)
def test_templates_and_admonitions_in_markdown(text: str) -> None:
    """Their codes, and the first words of admonitions, stay; the lines are not joined."""
    kept = ("note", "tip", "tab %", "youtube abc", "columns", "end", "link >", "{{% /tab")
    expected = capitalised("a.md", text)
    assert expected != text and expected.lower() == text.lower()
    for word in kept:
        for code in ("{{< ", "{{< /", "{{% ", "{{% /", "{% ", "!!! ", "??? "):
            assert (code + word in expected) == (code + word in text)


def test_code_in_an_admonition_is_kept() -> None:
    text = "!!! note\n    text\n\n    ```\n    code\n    ```\n\n    !!! tip\n\n        deep\n"
    expected = text.replace("text", "TEXT").replace("deep", "DEEP")
    assert capitalised("a.md", text) == expected
    made = capitalised("a.md", "text:\n\n    !!! this is code\n")
    assert made == "TEXT:\n\n    !!! this is code\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Hello! \U0001f60a How are you?", ["Hello!", "How are you?"]),
        ("Thanks \U0001f60a See you", ["Thanks", "See you"]),
        ("Great!\U0001f44dKeep going.", ["Great!", "Keep going."]),
        ("I \u2764\ufe0f Berlin", ["I \u2764\ufe0f Berlin"]),
        ("[10:30] The start", ["The start"]),
        ("[00:01:23.450] (9:30) Two times", ["Two times"]),
        ("(10:30) is too early", ["(10:30) is too early"]),
        ("(optional)", ["optional"]),
        ("Stay with it. ...", ["Stay with it. ..."]),
        ("a (b) c", ["a (b) c"]),
    ],
)
def test_pictograms_times_and_brackets_are_copied(text: str, lines: list[str]) -> None:
    found = lines_to_translate(document("a.txt", text))
    assert [to_markup(line) for line in found] == lines
    assert capitalised("a.txt", text) == text.upper()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Press <kbd>Ctrl</kbd> + <kbd>S</kbd> now.", "Press <1/> now."),
        ("Hit <kbd>Esc</kbd>.", "Hit <1/>."),
        ("<kbd>A</kbd>/<kbd>B</kbd>-<kbd>C</kbd> works", "<1/> works"),
        ("The keys <kbd>W</kbd>, <kbd>A</kbd>", "The keys <1/>, <2/>"),
        ("<code>a</code> + <b>two</b>", "<1/> + <2>two</2>"),
    ],
)
def test_codes_that_a_sign_joins_are_one(text: str, expected: str) -> None:
    (line,) = lines_to_translate(document("a.html", f"<p>{text}</p>"))
    assert to_markup(line) == expected
    made = capitalised("a.html", f"<p>{text}</p>")
    assert made.lower() == f"<p>{text}</p>".lower() and made.count("<kbd>") == text.count("<kbd>")


@pytest.mark.parametrize(
    "body",
    [
        "<body><p>A<br />B</p><hr /></body>",
        '<body><script src="a.js"></script><p>TEXT</p></body>',
        "<head><title>TITLE</title></head><body><!-- c --><p>FISH &amp; CHIPS</p></body>",
    ],
)
def test_xhtml_by_its_doctype_stays_xml(body: str) -> None:
    lower = XHTML.format(body.replace("TEXT", "text").replace("TITLE", "title"))
    assert capitalised("a.html", lower) == XHTML.format(body)


def test_named_characters_of_xhtml_are_characters() -> None:
    """A page that is not well-formed is HTML."""
    made = capitalised("a.xhtml", XHTML.format("<body><p>caf&eacute;&nbsp;&copy; &lt;</p></body>"))
    assert made == XHTML.format("<body><p>CAF\xc9\xa0\xa9 &lt;</p></body>")
    assert "<br>" in capitalised("a.html", XHTML.format("<body><p>a<br>b</p></body>"))


@pytest.mark.parametrize(
    "string",
    [
        '<string name="a" translatable="false">It\\\'s\\u0020 "x" <b>y</b></string>',
        '<string-array name="a" translatable="false"><item>one</item></string-array>',
        '<!-- c -->\n\n  <string name="a" tools:ignore="X">@string/z</string>',
        '<string name="a"/>',
    ],
)
def test_other_strings_of_android_are_untouched(string: str) -> None:
    text = ANDROID.format(string)
    assert capitalised("a.xml", text) == text.replace(">text<", ">TEXT<")


@pytest.mark.parametrize(
    "text",
    [
        "a: |\n  one\n  two\n",
        "a: >\n  one two\n\n  three\n",
        "a: |-\n  text\nb: 1\n",
        "a: >+\n  text\n\nc: text\n",
        "a: |2\n    indented\n  text\n",
        "a:\n  - |\n    one\n    two\n  - >-\n    three\n",
        "a: |  # 1\n  text\n",
        "a: >\n  one\n    indented\n  two\n",
    ],
)
def test_blocks_of_yaml_keep_their_style(text: str) -> None:
    made = capitalised("a.yaml", text)
    assert made != text and made.lower() == text.lower()


HEAD = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n\n'
PLURAL = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\n'


@pytest.mark.parametrize(
    ("target", "n_forms"),
    [("de", 2), ("ko", 1), ("pt-BR", 2), ("de-AT", 2), ("pl", 3), ("ru", 3), ("zh-Hant", 1)],
)
def test_a_template_gets_the_plural_forms_of_its_language(target: str, n_forms: int) -> None:
    made = read((HEAD + PLURAL).encode(), ReadOptions("po", ("en", target)))
    assert len(list(made.units)) == n_forms and not made.warnings
    assert f"nplurals={n_forms};" in made.dump().decode()


def test_unknown_plural_forms_are_a_warning() -> None:
    for pair, cure in ((None, "give --pair"), (("en", "tlh"), "add them")):
        made = read((HEAD + PLURAL).encode(), ReadOptions("po", pair))
        (warning,) = made.warnings
        assert warning.endswith(cure) and b"Plural-Forms" not in made.dump()
    assert not read(HEAD.encode(), ReadOptions("po", None)).warnings
    (warning,) = read(PLURAL.encode(), ReadOptions("po", ("en", "de"))).warnings
    assert warning.endswith("add them")


# ---- codes that a model has put in the wrong place

TORN = "See <b>the <x/> command</b> for details."
LINES = {
    "See the <x/> command for details.": "Siehe den Befehl <x/> f\xfcr Details.",
    "the <x/> command": "der Befehl <x/>",
}


def parts(text: str) -> CodedText:
    return split_codes(text, re.compile(r"</?[a-z]+/?>"))


def line_translations(texts: dict[str, str]) -> dict[CodedText, LineTranslation]:
    return {parts(line): LineTranslation(parts(text)) for line, text in texts.items()}


@pytest.mark.parametrize(
    ("translation", "flags"),
    [("Siehe <b> f\xfcr Details.</b><x/>", (PLACEMENT,)), ("Siehe <b></b><x/> Details", ())],
)
def test_a_torn_pair_is_placed_by_its_content(translation: str, flags: tuple[str, ...]) -> None:
    torn = {parts(TORN): LineTranslation(parts(translation), flags)}
    assert [to_markup(line) for line in lines_to_repair(torn)] == list(LINES)
    (repaired,) = repair(torn, line_translations(LINES)).values()
    assert to_markup(repaired.parts) == "Siehe <b>den Befehl <x/></b> f\xfcr Details."
    assert not repaired.flags


def test_an_unlikely_place_is_to_be_checked() -> None:
    texts = {"a red car": "ein Auto in Rot", "red": "gr\xfcnlich"}
    torn = {parts("a <b>red</b> car"): LineTranslation(("Auto",), (PLACEMENT,))}
    (repaired,) = repair(torn, line_translations(texts)).values()
    assert repaired.flags == [PLACEMENT] and "<b>" in to_markup(repaired.parts)


def test_pairs_that_are_right_are_not_repaired() -> None:
    fine = {parts("a <b>red</b> car"): LineTranslation(parts("ein <b>rotes</b> Auto"))}
    assert lines_to_repair(fine) == [] and repair(fine, {}) == {}


# ---- what people review


def test_a_table_of_units_to_review() -> None:
    made = document("a.txt", "one\ntwo\n{n, plural, other {#}}\n")
    lines: dict[CodedText, LineTranslation] = {
        ("one",): LineTranslation(("eins\teins",), (LOOP, UNSURE)),
        ("two",): LineTranslation(("zwei",)),
    }
    report = translate(made, lines, leave_wrong=True)
    assert made.dump() == b"one\nzwei\n{n, plural, other {#}}\n"
    assert report.to_table().splitlines() == [
        "place\tsource\ttranslation\tverdict\treasons",
        "line 1\tone\teins eins\twrong\trepeats itself; the model is unsure",
        "line 3\t{n, plural, other {#}}\t\tuntranslated (ICU)\t",
    ]
    assert report.counts == {"left as wrong": 1, "translated": 1, "untranslated (ICU)": 1}


def test_doubtful_units_are_translated_all_the_same() -> None:
    made = document("a.txt", "one\n")
    report = translate(made, {("one",): LineTranslation(("eins",), (UNSURE,))}, leave_wrong=True)
    assert made.dump() == b"eins\n" and report.counts == {"translated": 1, "to review": 1}
