"""A document translated: what is asked for, what is put in, and which units are marked for review."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from made_up_engine import made_up_translator

from bytenmt.decoding.confidence import UNSURE
from bytenmt.decoding.interface import Hypothesis, Request
from bytenmt.documents.document import UnitPart, joined_text
from bytenmt.documents.formats import ReadOptions, read
from bytenmt.documents.inline_tags import parse_string
from bytenmt.documents.segments import Segment, split_unit
from bytenmt.documents.translation import (
    BATCH,
    segment_translator,
    segments_to_translate,
    translate,
)
from bytenmt.errors import BytenmtError
from tools.verify.sample_documents import (
    PAIR,
    PO,
    SAMPLES,
    SRT,
    TMX,
    XLIFF_1,
    XLIFF_2,
    Sample,
    recording_translator,
    translate_to_upper_case,
)


def translated_document(
    sample: Sample,
    flags: tuple[str, ...] = (),
    overwrite: bool = False,
    how: object = translate_to_upper_case,
) -> str:
    ask, _ = recording_translator(how, flags)
    return translate(sample.document(), ask, limit=1000, overwrite=overwrite)[0].decode()


def with_changes(text: str, *changes: tuple[str, str]) -> str:
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


PO_DONE = with_changes(
    PO,
    ('msgstr[0] ""\nmsgstr[1] ""', 'msgstr[0] "%d FILE"\nmsgstr[1] "%d FILES"'),
    (
        r'"a second line\n"' + '\nmsgstr ""',
        r'"a second line\n"' + "\n" + r'msgstr ""' + "\n" + r'"LONG TEXT WITH \"QUOTES\",\tTABS \\ AND\n"'
        "\n" + r'"A SECOND LINE\n"',
    ),
    ('#, fuzzy, c-format\n#| msgid "Hello %s!"\n', "#, c-format\n"),
    ('"Hallo %s!"', '"HELLO %s"'),
)


def test_a_catalogue() -> None:
    """Plural forms, several lines; what is translated stays, what is fuzzy is translated anew, and fuzzy is
    what is doubted."""
    assert translated_document(SAMPLES["po"]) == PO_DONE
    doubted = with_changes(
        PO_DONE,
        ('#, c-format\nmsgid "%d', '#, fuzzy, c-format\nmsgid "%d'),
        ("#. for translators\nmsgctxt", "#. for translators\n#, fuzzy\nmsgctxt"),
        ('#, c-format\nmsgid "Hello', '#, fuzzy, c-format\nmsgid "Hello'),
    )
    assert translated_document(SAMPLES["po"], flags=(UNSURE,)) == doubted
    anew = with_changes(PO_DONE, ('"fertig"', '"DONE"'))
    assert translated_document(SAMPLES["po"], overwrite=True) == anew
    assert '#, fuzzy\nmsgid "done"\nmsgstr "DONE"' in translated_document(
        SAMPLES["po"], (UNSURE,), overwrite=True
    )


def test_a_language_with_one_form_takes_the_plural() -> None:
    one = PO.replace("nplurals=2; plural=(n != 1)", "nplurals=1; plural=0").replace('msgstr[1] ""\n', "")
    assert 'msgstr[0] "%d FILES"\n' in translated_document(Sample("po", one.encode()))
    other = PO.replace("plural=(n != 1)", "plural=(n == 1 ? 1 : 0)")
    assert 'msgstr[0] "%d FILES"\nmsgstr[1] "%d FILE"\n' in translated_document(Sample("po", other.encode()))


def test_a_form_of_many_numbers_names_the_number() -> None:
    """msgfmt --check accepts the plural forms: in Russian 21 has the form of 1."""
    russian = "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2)"
    text = PO.replace("nplurals=2; plural=(n != 1)", russian)
    assert 'msgstr[0] "%d FILE"' in translated_document(Sample("po", text.encode()))
    text = text.replace('msgid "%d file"', 'msgid "one file"')
    assert 'msgstr[0] "%d FILES"' in translated_document(Sample("po", text.encode()))
    one = text.replace('msgstr[1] ""\n', "")
    forms = 'msgstr[0] "%d FILES"\nmsgstr[1] "%d FILES"\nmsgstr[2] "%d FILES"\n\n'
    assert forms in translated_document(
        Sample("po", one.encode())
    )  # those that the entry has not yet are made
    french = PO.replace("plural=(n != 1)", "plural=(n > 1)").replace('msgid "%d file"', 'msgid "one file"')
    assert 'msgstr[0] "ONE FILE"' in translated_document(Sample("po", french.encode()))


def test_targets_of_xliff_1() -> None:
    text = translated_document(SAMPLES["xliff 1.2"])
    assert text == with_changes(
        XLIFF_1,
        (
            "</g> &#8364;</source>",
            '</g> &#8364;</source>\n    <target state="translated">A &amp; B &lt; C, <g id="1">BOLD'
            ' <x id="2"/></g> \u20ac</target>',
        ),
        ('<target state="needs-translation"/>', '<target state="translated">BEGUN</target>'),
        (
            "& so]]></source>",
            '& so]]></source><target state="translated">IN &lt;b&gt;CDATA&lt;/b&gt; &amp; SO</target>',
        ),
        (
            "</seg-source>",
            '</seg-source><target state="translated"><mrk mtype="seg">TWO\nLINES</mrk></target>',
        ),
        (
            "folded</source>",
            'folded</source><target state="translated">SAY <ph id="1">&lt;br/&gt;</ph> TO %s,'
            " {name} FOLDED</target>",
        ),
        ("<source>42</source>", '<source>42</source><target state="translated">42</target>'),
    )
    doubted = translated_document(SAMPLES["xliff 1.2"], flags=(UNSURE,))
    assert doubted.count('state="needs-review-translation"') == 5 and doubted.count('"translated"') == 1
    assert '<target  state="translated">DONE</target>' in translated_document(
        SAMPLES["xliff 1.2"], overwrite=True
    )


def test_targets_of_xliff_2() -> None:
    assert translated_document(SAMPLES["xliff 2"]) == with_changes(
        XLIFF_2,
        ('srcLang="en"', 'srcLang="en" trgLang="de"'),
        ('<segment id="s1">', '<segment id="s1" state="translated">'),
        (
            'dataRef="d1"/></source>',
            'dataRef="d1"/></source><target>HELLO <pc id="1">WORLD</pc>!<ph id="2" dataRef="d1"/></target>',
        ),
        ('state="initial" subState="x:y"', 'state="translated" subState="bytenmt:translated"'),
        ("<target>einmal</target>", "<target>ONCE MORE</target>"),
    )
    doubted = translated_document(SAMPLES["xliff 2"], flags=(UNSURE,))
    assert '<segment id="s1" state="initial" subState="bytenmt:needs-review">' in doubted


def test_a_variant_is_made_behind_the_source() -> None:
    assert translated_document(SAMPLES["tmx"]) == with_changes(
        TMX,
        (
            "&amp; %d</seg></tuv>",
            '&amp; %d</seg></tuv>\n      <tuv xml:lang="de"><seg>&brand; SAYS <bpt i="1">&lt;b&gt;</bpt>HELLO'
            '<ept i="1">&lt;/b&gt;</ept> &amp; %d</seg></tuv>',
        ),
        ("<seg/>", "<seg>TWO</seg>"),
    )
    doubted = translated_document(SAMPLES["tmx"], flags=(UNSURE,))
    assert doubted.count('<prop type="x-state">needs-review-translation</prop><seg>') == 2


def test_a_cue_has_as_many_lines_as_before() -> None:
    assert translated_document(SAMPLES["srt"]) == with_changes(
        SRT,
        ("First line\nof a sentence", "FIRST LINE OF\nA SENTENCE"),
        ("- You?\n- Me & you.", "- YOU?\n- ME & YOU."),
    )


def test_times_inside_a_cue_ascend() -> None:
    """WebVTT forbids another order, whatever that of the words is."""
    cue = "WEBVTT\n\n00:01.000 --> 00:09.000\nI <00:02.000>have <c>it</c> <00:03.000>seen <00:04.000>now"
    ask, _ = recording_translator(lambda segment: b"A <x3/>b <x1/>c <c>d</c> <x2/>e")
    text, told = translate(Sample("vtt", cue.encode()).document(), ask, limit=99)
    assert not told.review
    assert text.decode().endswith("\nA <00:02.000>b <00:03.000>c <c>d</c> <00:04.000>e")


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("srt", "1\n0:0:1,0 --> 0:0:2,0\nx\n2\n0:0:3,0 --> 0:0:4,0\ny", "X Y"),
        ("vtt", "WEBVTT\n\n00:01.0 --> 00:02.0\nx\n00:03.0 --> 00:04.0\ny", "X Y"),
        ("properties", "a \\: b\nc=\\=d", ": B =D"),
        ("markdown", "| no table\n\n# 1. head\n\n- x\n\n    y\n", "| NO TABLE 1. HEAD X Y"),
        ("json", '[[], {"a": [1, "x"]}, "y"]', "X Y"),
        ("html", "<p>a &lt b</p><p>x<i>", "A < B X"),
    ],
)
def test_what_stands_where_it_is_not_expected(name: str, before: str, after: str) -> None:
    """Cues without a blank line between them, values that begin like what stands before one."""
    text = translated_document(Sample(name, before.encode()))
    parts = [joined_text(unit.source) for unit in Sample(name, text.encode()).document().units]
    assert " ".join(parts) == after
    assert text.lower().replace("&lt;", "&lt") == before.lower()


def test_a_language_that_a_file_does_not_tell() -> None:
    document = Sample("xliff", XLIFF_2.encode()).document()
    with pytest.raises(BytenmtError, match=r"target language \(trgLang\): give --pair"):
        translate(document, recording_translator()[0], limit=1000)


@pytest.mark.parametrize("name", SAMPLES)
def test_equal_segments_are_asked_for_once_and_numbers_never(name: str) -> None:
    document = SAMPLES[name].document()
    ask, noted = recording_translator()
    translate(document, ask, limit=1000, overwrite=True)
    assert len(noted) == len(set(noted)) == len(segments_to_translate(document, 1000, overwrite=True))
    for segment in noted:
        text = segment.text
        for code in segment.keep:
            assert code in text
        assert text.strip() == text and any(letter.isalpha() for letter in text.decode())
        assert not set(text) & set(b"\n\r")


def test_a_segment_that_comes_again_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bytenmt.documents.translation.BATCH", 2)
    assert BATCH > 2
    lines = ["a", "b", "a", "c", "a", "d", "e"]
    ask, noted = recording_translator()
    text, told = translate(Sample("text", "\n".join(lines).encode()).document(), ask, limit=1000)
    assert text.decode().split("\n") == [line.upper() for line in lines]
    assert [segment.text for segment in noted] == [b"a", b"b", b"c", b"d", b"e"] and told.n_translated == 7


def as_it_was(piece: str | Segment) -> str:
    return piece.restore(piece.text.decode()) if isinstance(piece, Segment) else piece


CODES = [
    ("markdown", "See [the *guide*](https://a.b) and `x.y`.", "See <g1>the <g2>guide</g2></g1> and <x3/>."),
    ("markdown", "A <g1> and [a](b) too.", "A <g1> and <g2>a</g2> too."),
    ("html", "<p>An <b>old</b> {name}: <a href='x'>at</a> it", "An <b>old</b> {name}: <a href='x'>at</a> it"),
    (
        "vtt",
        "WEBVTT\n\n00:01.000 --> 00:02.000\nIt <00:01.500>hits <c.r>you</c> a",
        "It <x1/>hits <c.r>you</c> a",
    ),
]


@pytest.mark.parametrize(("name", "text", "shown"), CODES)
def test_codes_that_a_search_cannot_keep_are_shown_as_tags(name: str, text: str, shown: str) -> None:
    """And are themselves again in the document."""
    ask, noted = recording_translator(lambda segment: segment.text + b" indeed")
    translated_document, told = translate(
        Sample(name, text.encode()).document(), ask, limit=1000, overwrite=True
    )
    assert [segment.text.decode() for segment in noted] == [shown] and not told.review
    assert translated_document.decode().replace(" indeed", "") == text != translated_document.decode()


SENTENCE = "Ein kurzer Satz mit <a href='x. y. z'>einer Adresse. Und</a> mehr, z. B. %s. "


def test_long_units_are_cut_at_ends_of_sentences() -> None:
    """And never in a code; the pieces and what stands between them are the unit."""
    source = parse_string(SENTENCE * 40)
    pieces = split_unit(source, 200)
    asked = [piece for piece in pieces if isinstance(piece, Segment)]
    whole = "".join(map(as_it_was, pieces))
    assert whole == joined_text(source) and all(len(piece.text) <= 200 for piece in asked)
    assert len(asked) > 10
    for piece in asked:
        assert piece.text.endswith(b".") and piece.text.count(b"<a ") == piece.text.count(b"'>")
    ask, _ = recording_translator()
    document = Sample("po", PO.replace("done", SENTENCE * 40).replace('"fertig"', '""').encode()).document()
    text, told = translate(document, ask, limit=200)
    kept = "EIN KURZER SATZ MIT <a href='x. y. z'>EINER ADRESSE. UND</a> MEHR, Z. B. %s. "
    assert kept * 40 in text.decode() and not told.review


def test_any_text_is_cut_somewhere() -> None:
    generator = random.Random(5)
    for _ in range(200):
        letters = "".join(generator.choices("ab \uac00\u3002.?<b>%s", k=generator.randrange(1, 120)))
        source = parse_string(letters)
        limit = generator.randrange(4, 40)
        pieces = split_unit(source, limit)
        assert "".join(map(as_it_was, pieces)) == joined_text(source)
        for piece in pieces:
            if isinstance(piece, Segment):
                longest = max([len(code) for code in piece.keep], default=0)
                longest = max([longest, *(len(code.encode()) for _, code in piece.replaced)])
                assert len(as_it_was(piece).encode()) <= max(limit, longest)


def test_without_blanks_it_is_cut_at_ideographic_stops() -> None:
    source = (UnitPart("\u6f22\u5b57\u3002" * 30),)
    asked = [piece.text.decode() for piece in split_unit(source, 50) if isinstance(piece, Segment)]
    assert "".join(asked) == joined_text(source) and all(piece.endswith("\u3002") for piece in asked)


def test_lost_codes_are_put_back_and_told() -> None:
    ask, _ = recording_translator(lambda segment: b"nothing kept")
    source = PO.replace('"%d file', '"the %d file')
    text, told = translate(Sample("po", source.encode()).document(), ask, limit=1000)
    assert 'msgstr[1] "nothing %d kept"' in text.decode() and "#, fuzzy, c-format" in text.decode()
    assert told.review == [
        ("line 10, column 8", "check: tags or placeholders were lost, and put back by their position"),
        ("line 11, column 15", "check: tags or placeholders were lost, and put back by their position"),
    ]


def test_a_code_without_a_place_is_told() -> None:
    ask, _ = recording_translator(lambda segment: segment.text)

    def ask_and_flag(segments: Sequence[Segment]) -> list[Hypothesis]:
        return [one._replace(flags=("placement",)) for one in ask(segments)]

    text, told = translate(SAMPLES["po"].document(), ask_and_flag, limit=1000)
    assert told.review and {why for _, why in told.review} == {
        "check: a tag or placeholder may be in the wrong place"
    }
    assert "#, fuzzy" in text.decode()


def test_what_nothing_was_found_for_stays() -> None:
    ask, _ = recording_translator(lambda segment: b" ")
    for name in ("po", "html", "xliff 1.2", "srt"):
        document = SAMPLES[name].document()
        text, told = translate(document, ask, limit=1000)
        assert told.empty and not told.n_translated
        if name in ("po", "html", "srt"):
            assert text == SAMPLES[name].data


def test_a_unit_has_the_reasons_of_all_its_segments() -> None:
    def ask(segments: Sequence[Segment]) -> list[Hypothesis]:
        flags = {b"one": ("unsure",), b"two": ("loop", "unsure"), b"three": None}
        return [Hypothesis(translate_to_upper_case(one), 0.0, 0.0, flags=flags[one.text]) for one in segments]

    document = Sample("properties", b"a=one\nb=one\\ntwo\nc=three").document()
    assert translate(document, ask, limit=99)[1].review == [
        ("line 1, column 3", "check: the model is unsure"),
        ("line 2, column 3", "wrong: repeats itself; the model is unsure"),
    ]


def test_a_character_that_the_encoding_lacks() -> None:
    """References in XML and HTML, \\u in .properties; else it is told."""
    ask, _ = recording_translator(lambda segment: "\uac00".encode() + translate_to_upper_case(segment))
    for name, shown in [("xliff, Latin-1", b"&#44032;"), ("html, Latin-1", b"&#44032;")]:
        assert shown in translate(SAMPLES[name].document(), ask, limit=999)[0]
    for before, after in [(b"a = one", b"a = \\uac00ONE"), (b"a = \xe4", b"a = \\uac00\xc4")]:
        assert translate(Sample("properties", before).document(), ask, limit=999)[0] == after
    with pytest.raises(BytenmtError, match="in iso8859-1, which lacks the '\uac00' of the translation there"):
        translate(SAMPLES["po, Latin-1"].document(), ask, limit=999)
    pick = Sample("text", "gr\xfcn".encode("cp1252"), ReadOptions(encoding="cp1252"))
    ask, _ = recording_translator()
    assert translate(pick.document(), ask, limit=999)[0] == "GR\xdcN".encode("cp1252")


def test_what_xml_does_not_have_is_not_written() -> None:
    ask, _ = recording_translator(lambda segment: translate_to_upper_case(segment) + "\uffff]]>".encode())
    text = translate(SAMPLES["xliff 1.2"].document(), ask, limit=999)[0]
    Sample("xliff", text, PAIR).document()
    assert "BEGUN\ufffd]]&gt;".encode() in text


def test_a_translator_is_asked_in_the_order_of_the_file() -> None:
    """Each line once, with its number, which its draws depend on; without tags it is what it was."""
    admitted: list[list[Request]] = []
    translator = made_up_translator(admitted)
    text, _ = translate(Sample("text", b"b\n\na\nb").document(), segment_translator(translator), limit=1000)
    assert text == b"B0\n\nA0\nB0"
    assert {request.source for requests in admitted for request in requests} == {b"a", b"b"}


def test_one_doubtful_form_makes_an_entry_fuzzy() -> None:
    """The order of the forms does not matter."""
    for doubtful in (b"%d file", b"%d files"):
        core = doubtful.removeprefix(b"%d ")

        def ask(segments: Sequence[Segment], core: bytes = core) -> list[Hypothesis]:
            return [
                Hypothesis(
                    translate_to_upper_case(one), 0.0, 0.0, flags=(UNSURE,) if one.text == core else ()
                )
                for one in segments
            ]

        text = translate(SAMPLES["po"].document(), ask, limit=1000)[0].decode()
        assert '#, fuzzy, c-format\nmsgid "%d file"' in text


@pytest.mark.parametrize("name", ["html", "xliff"])
def test_a_tag_and_text_that_looks_like_it_are_told_apart(name: str) -> None:
    before = "<p>a &lt;b> c <b>d</b> e</p>"
    if name == "xliff":
        before = f'<xliff version="1.2"><trans-unit><source>{before[3:-4]}</source></trans-unit></xliff>'
    text = translated_document(Sample(name, before.encode()))
    assert "A &lt;b&gt; C <b>D</b> E" in text


@pytest.mark.parametrize(("column", "into"), [("2", "text"), ("source", "3"), ("source", "text")])
def test_a_header_is_not_translated(column: str, into: str) -> None:
    """The first row is a header where either column is given by its name."""
    table = b"key,source,text\na,one,\nb,two,\n"
    document = read(table, "csv", Path("x.csv"), ReadOptions(column=column, into=into))
    assert [joined_text(unit.source) for unit in document.units] == ["one", "two"]
