"""XLIFF whose sources are segmented, as it is and as SDL Trados and Phrase write it."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from bytenmt.decoding.confidence import UNSURE
from bytenmt.documents.formats import format_of, pairs
from bytenmt.documents.segments import Segment
from bytenmt.documents.translation import translate
from tools.verify.sample_documents import (
    SAMPLES,
    XLIFF_PHRASE,
    XLIFF_SEGMENTED,
    XLIFF_TRADOS,
    Sample,
    recording_translator,
)

SAMPLES_PATH = Path("samples")
NAMES = {"x": "urn:oasis:names:tc:xliff:document:1.2", "sdl": "http://sdl.com/FileTypes/SdlXliff/1.0"}


def translated(name: str, flags: tuple[str, ...] = ()) -> tuple[bytes, list[str]]:
    """The file with its units in capitals, and the segments that were asked for."""
    ask, noted = recording_translator(flags=flags)
    data = translate(SAMPLES[name].document(), ask, limit=1000)[0]
    return data, [segment.text.decode() for segment in noted]


def targets(data: bytes) -> list[str]:
    """The text of every segment of a target, by lxml."""
    found = etree.fromstring(data).xpath("//x:target//x:mrk[@mtype='seg']", namespaces=NAMES)
    return ["".join(one.itertext()) for one in found]


def test_segments_of_trados() -> None:
    """Translated, draft and locked segments stay; the others get a translation and a state."""
    data, asked = translated("xliff, Trados")
    assert asked == ['<g id="5">Press</g> the key.', "Stop.", "No target.", "At all."]
    expected = ["Datei \u00f6ffnen.", "PRESS THE KEY.", "STOP.", "NO TARGET.", "AT ALL.", "Ein Entwurf.", ""]
    assert targets(data) == expected
    states = etree.fromstring(data).xpath("//sdl:seg", namespaces=NAMES)
    assert [(one.get("conf"), one.get("origin"), one.get("percent")) for one in states] == [
        ("Translated", "interactive", None),
        *[("Translated", "mt", None)] * 4,
        ("Draft", "mt", None),
        (None, None, None),
    ]
    doubted = etree.fromstring(translated("xliff, Trados", flags=(UNSURE,))[0])
    assert len(doubted.xpath("//sdl:seg[@conf='Draft']", namespaces=NAMES)) == 5
    assert format_of(SAMPLES_PATH / "a.sdlxliff") == "xliff"


def test_segments_of_trados_are_translated_once() -> None:
    data, _ = translated("xliff, Trados")
    ask, noted = recording_translator()
    assert translate(Sample("xliff", data).document(), ask, limit=1000)[0] == data and not noted


def test_units_of_phrase() -> None:
    """Its tags are codes and the text in them is not; what is locked, proposed or confirmed stays."""
    data, asked = translated("xliff, Phrase")
    assert asked == ["Read <g1>the manual</g1> & {2} go."]
    assert data.decode() == XLIFF_PHRASE.replace(
        '<target></target>\n     <alt-trans origin="machine',
        '<target>READ {1&gt;THE MANUAL&lt;1} &amp; {2} GO.</target>\n     <alt-trans origin="machine',
    ).replace(
        '"t1:0" m:score="0.0" m:confirmed="0" m:locked="false" m:trans-origin="null"',
        '"t1:0" m:score="0.0" m:confirmed="0" m:locked="false" m:trans-origin="mt"',
    )
    assert format_of(SAMPLES_PATH / "a.mxliff") == "xliff"


def test_pairs_to_learn_are_confirmed_ones() -> None:
    for text, expected in (
        (XLIFF_TRADOS, [("Open the file.", "Datei \u00f6ffnen.")]),
        (XLIFF_PHRASE, [("done", "fertig")]),
    ):
        found = pairs([text.encode()], "xliff", SAMPLES_PATH / "a", None, strict=True)
        assert list(found) == expected


def test_segmented_sources_have_segmented_targets() -> None:
    text = translated("xliff, segmented")[0].decode()
    assert text == XLIFF_SEGMENTED.replace(
        'Two.</mrk></seg-source>\n </trans-unit>\n <trans-unit id="2">',
        'Two.</mrk></seg-source>\n  <target state="translated"><g id="1"><mrk mtype="seg" mid="a">ONE.</mrk>'
        '</g> <mrk mtype="seg" mid="b">TWO.</mrk></target>\n </trans-unit>\n <trans-unit id="2">',
    ).replace(
        '<mrk mtype="seg" mid="b">Zwei.</mrk></target>',
        '<mrk mtype="seg" mid="a">ONE.</mrk><mrk mtype="seg" mid="b">Zwei.</mrk>'
        '<mrk mtype="seg" mid="c">THREE.</mrk></target>',
    ).replace(
        '<target xml:lang="de"> <mrk mtype="other"/></target>',
        '<target xml:lang="de" state="translated"><mrk mtype="seg" mid="a">ONE.</mrk> '
        '<mrk mtype="seg" mid="b">TWO.</mrk></target>',
    )


@pytest.mark.parametrize("answered", ["One.", "Two."])
def test_a_segment_without_a_translation_stays_empty(answered: str) -> None:
    def translation(segment: Segment) -> bytes:
        return segment.text.upper() if segment.text.decode() == answered else b" "

    ask, _ = recording_translator(translation)
    text = translate(SAMPLES["xliff, segmented"].document(), ask, limit=1000)[0].decode()
    assert f">{answered.upper()}</mrk>" in text.split("</target>")[0]
    assert text.split("</target>")[0].count("></mrk>") == 1
    Sample("xliff", text.encode()).document()


@pytest.mark.parametrize("mids", [("1", "1"), ("1", "2"), ("2", "1"), ("", ""), ("1", "")], ids=str)
@pytest.mark.parametrize("target", ["", "<target/>", "<target>{0}</target>", "<target>{0}{1}</target>"])
def test_any_numbers_of_segments(mids: tuple[str, str], target: str) -> None:
    """Segments with the same number, without one, or in another order: nothing overlaps."""
    attributes = [f' mid="{mid}"' if mid else "" for mid in mids]
    segments = [f'<mrk mtype="seg"{mid}>{n}</mrk>' for mid, n in zip(attributes, ("one", "two"), strict=True)]
    begun = target.format(*(one.replace("one", "").replace("two", "") for one in segments))
    source = f"<source>one two</source><seg-source>{' '.join(segments)}</seg-source>{begun}"
    states = '<s:seg-defs xmlns:s="s"><s:seg id="1"/><s:seg id="1"/></s:seg-defs>'
    unit = f'<trans-unit id="u">{source}{states}</trans-unit>'
    data = f'<xliff version="1.2"><file><body>{unit}</body></file></xliff>'
    ask, noted = recording_translator()
    written = translate(Sample("xliff", data.encode()).document(), ask, limit=1000)[0].decode()
    assert len(noted) == 2 and ">ONE</mrk>" in written and ">TWO</mrk>" in written
    assert len(Sample("xliff", written.encode()).document().units) == 2


ONE, TWO = '<xliff version="1.2"><file><body><trans-unit id="1">', "</trans-unit></body></file></xliff>"
ONE_2 = '<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="u"><segment>'
TWO_2 = "</segment></unit></file></xliff>"


@pytest.mark.parametrize(
    ("around", "annotation", "is_copied"),
    [
        ((ONE, TWO), '<mrk mtype="protected">Good &amp; <g id="1">Office</g></mrk>', True),
        ((ONE, TWO), '<mrk mid="a > b" mtype = \'protected\'>a <mrk mtype="x">b</mrk> c</mrk>', True),
        ((ONE, TWO), '<mrk mtype="term">office</mrk>', False),
        ((ONE, TWO), '<mrk mtype="x" comment="mtype=\'protected\'">office</mrk>', False),
        ((ONE_2, TWO_2), '<mrk id="m" translate="no">Good Office</mrk>', True),
        ((ONE_2, TWO_2), '<mrk id="m" translate="no">a <mrk id="n" translate="yes">b</mrk></mrk>', True),
        ((ONE_2, TWO_2), '<mrk id="m" translate="yes">office</mrk>', False),
        ((ONE_2, TWO_2), '<sm id="1" translate="no"/>Good &lt;Office<em startRef="1"/>', True),
        (
            (ONE_2, TWO_2),
            '<sm id="1" translate="no"/>a <sm id="2"/>b<em startRef="2"/> c<em startRef="1"/>',
            True,
        ),
    ],
)
def test_an_annotation_of_text_that_is_not_translated(
    around: tuple[str, str], annotation: str, is_copied: bool
) -> None:
    """Copy it as one code, as HTML does with translate="no"."""
    data = f"{around[0]}<source>Sign in to {annotation} now.</source>{around[1]}"
    ask, noted = recording_translator()
    text = translate(Sample("xliff", data.encode()).document(), ask, limit=1000)[0].decode()
    assert (f">SIGN IN TO {annotation} NOW.</target>" in text) == is_copied
    assert (noted[0].text == b"Sign in to <x1/> now.") == is_copied
    etree.fromstring(text)


def test_an_annotation_that_ends_in_another_segment() -> None:
    data = f'{ONE_2}<source>Go to <sm id="1" translate="no"/>Good Office</source>{TWO_2}'
    ask, noted = recording_translator()
    text = translate(Sample("xliff", data.encode()).document(), ask, limit=1000)[0].decode()
    assert '>GO TO <sm id="1" translate="no"/>Good Office</target>' in text
    assert [one.text for one in noted] == [b"Go to"]


@pytest.mark.parametrize(
    ("around", "unit", "target", "is_kept"),
    [
        ((ONE, TWO), "", "<target>andere</target>", True),
        ((ONE, TWO), "", "<target> </target>", False),
        ((ONE, TWO), "", "<target>one</target>", False),
        ((ONE, TWO), 'approved="yes"', "<target>one</target>", True),
        ((ONE, TWO), "", '<target state="final">one</target>', True),
        ((ONE, TWO), "", '<target state="needs-review-translation">andere</target>', True),
        ((ONE, TWO), "", '<target state="needs-translation">andere</target>', False),
        ((ONE, TWO), 'approved="yes"', '<target state="new">andere</target>', False),
        ((ONE_2, TWO_2), "", "<target>andere</target>", True),
        ((ONE_2, TWO_2), "", "<target>one</target>", False),
        (
            (ONE_2.replace("<segment", '<segment state="initial"'), TWO_2),
            "",
            "<target>andere</target>",
            False,
        ),
        ((ONE_2.replace("<segment", '<segment state="final"'), TWO_2), "", "<target>one</target>", True),
    ],
)
def test_which_targets_are_translations(
    around: tuple[str, str], unit: str, target: str, is_kept: bool
) -> None:
    """Keep or replace targets as the guide to documents says."""
    head = around[0].replace('<trans-unit id="1"', f'<trans-unit id="1" {unit}')
    data = f"{head}<source>one</source>{target}{around[1]}".encode()
    document = Sample("xliff", data).document()
    assert document.units[0].done == is_kept
    assert (translate(document, recording_translator()[0], limit=1000)[0] == data) == is_kept
