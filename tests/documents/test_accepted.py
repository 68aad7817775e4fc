"""Test that the tools of each format accept translated documents and read the right texts from them."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from pathlib import Path

import html5lib
import openstep_plist
import polib
import pytest
import srt
import webvtt
from lxml import etree

from bytenmt.decoding.confidence import UNSURE
from bytenmt.documents.document import joined_text
from bytenmt.documents.segments import Segment
from bytenmt.documents.translation import translate
from tools.verify.sample_documents import SAMPLES, recording_translator, translate_to_upper_case


def shuffled(segment: Segment) -> bytes:
    """Everything that could go wrong: codes lost, doubled and crossed, and signs that formats use."""
    codes = [*segment.keep[::-1], *segment.keep[:1]]
    return b"".join([*codes, segment.text.upper(), b' <b> & "q" \\ | -- > # {x} %s \t', *codes[1:]])


def written(name: str, how: object = translate_to_upper_case) -> bytes:
    ask, _ = recording_translator(how, (UNSURE,))
    return translate(SAMPLES[name].document(), ask, limit=1000)[0]


def names_of(format_name: str) -> list[str]:
    return [name for name, sample in SAMPLES.items() if sample.name == format_name]


@pytest.mark.parametrize("how", [translate_to_upper_case, shuffled])
@pytest.mark.parametrize("name", [*names_of("xliff"), *names_of("tmx")])
def test_xml(name: str, how: object) -> None:
    root = etree.fromstring(written(name, how), etree.XMLParser(resolve_entities=False))
    n_targets = len(root.xpath("//*[local-name()='target' or local-name()='seg']"))
    assert n_targets >= 3
    before = etree.fromstring(SAMPLES[name].data, etree.XMLParser(resolve_entities=False))
    for path in ("source", "note", "header"):
        texts = [
            [etree.tostring(one, with_tail=False) for one in tree.xpath(f"//*[local-name()='{path}']")]
            for tree in (before, root)
        ]
        assert texts[0] == texts[1]


@pytest.mark.parametrize("how", [translate_to_upper_case, shuffled])
@pytest.mark.parametrize("name", ["po", "po, CRLF and a byte order mark", "po, Latin-1"])
def test_po(name: str, how: object, tmp_path: Path) -> None:
    data = written(name, how)
    if name == "po":
        file = tmp_path / "a.po"
        file.write_bytes(data)
        if shutil.which("msgfmt"):
            check = [] if how is shuffled else ["--check"]  # its {x} and %s are more than the source has
            command = ["msgfmt", *check, "--use-fuzzy", "-o", str(tmp_path / "a.mo"), str(file)]
            subprocess.run(command, check=True, capture_output=True)
        catalogue = polib.pofile(str(file))
        assert len(catalogue) == 5 and catalogue.metadata["Plural-Forms"]
        by_id = {entry.msgid: entry for entry in catalogue}
        long = next(entry for entry in catalogue if entry.msgctxt == "menu")
        if how is translate_to_upper_case:
            assert long.msgstr == long.msgid.upper() and long.fuzzy
            assert by_id["%d file"].msgstr_plural == {0: "%d FILE", 1: "%d FILES"}
            assert by_id["%d file"].flags == ["fuzzy", "c-format"]
            assert by_id["done"].msgstr == "fertig" and not by_id["done"].fuzzy


@pytest.mark.parametrize("how", [translate_to_upper_case, shuffled])
def test_html(how: object) -> None:
    for name in names_of("html"):
        texts = [
            one.document().text for one in (SAMPLES[name], SAMPLES[name]._replace(data=written(name, how)))
        ]
        before, tree = (
            html5lib.parse(text, treebuilder="lxml", namespaceHTMLElements=False) for text in texts
        )
        found = [[(one.tag, dict(one.attrib)) for one in t.iter("*")] for t in (before, tree)]
        assert len(found[0]) == len(found[1])
        if how is translate_to_upper_case:
            for (_, was), (_, now) in zip(*found, strict=True):
                assert was.keys() == now.keys()
                changed = {key: value for key, value in now.items() if value != was[key]}
                assert changed.items() <= {"alt": "Y", "placeholder": "NAME", "title": 'SAY "X"'}.items() or (
                    changed == {"content": "A PAGE &AMP; 'MORE'"} and was["name"] == "description"
                )
            assert tree.find(".//img").get("alt") == "Y"
        for path in (".//script", ".//style", ".//pre", ".//code"):
            assert tree.find(path).text == before.find(path).text


@pytest.mark.parametrize("how", [translate_to_upper_case, shuffled])
def test_subtitles(how: object) -> None:
    before, after = (list(srt.parse(data.decode())) for data in (SAMPLES["srt"].data, written("srt", how)))
    assert [(one.index, one.start, one.end) for one in before] == [
        (one.index, one.start, one.end) for one in after
    ]
    captions = webvtt.from_string(written("vtt", how).decode())
    assert [one.start for one in captions] == ["00:00:01.000", "00:00:03.000"]
    if how is translate_to_upper_case:
        assert after[0].content == "<i>FIRST LINE OF\nA SENTENCE</i>"
        assert captions[1].lines == ["TWO LINES", "OF TEXT"] and captions[0].identifier == "intro"


@pytest.mark.parametrize("how", [translate_to_upper_case, shuffled])
def test_strings_and_tables(how: object) -> None:
    for name in names_of("json"):
        found = json.loads(written(name, how))
        before = json.loads(SAMPLES[name].data)
        assert found.keys() == before.keys() and found["count"] == before["count"]
        assert found["@title"] == before["@title"] and found["list"][1:3] == [2, None]
        if how is translate_to_upper_case:
            assert found["list"][3] == "THREE\nLINES" and found["title"] == 'HELLO \xc9 "YOU" {name}'
            assert found["msg"] == {"message": "THE TEXT", "description": "not it"}
    rows = list(csv.reader(io.StringIO(written("csv", how).decode(), newline="")))
    assert [len(row) for row in rows] == [3, 3, 3, 3, 0, 3]
    assert [row[:2] for row in rows] == [
        row[:2] for row in csv.reader(io.StringIO(SAMPLES["csv"].data.decode(), newline=""))
    ]
    if how is translate_to_upper_case:
        assert [row[2] for row in rows if row][1:] == ['HELLO, "YOU"', "PLAIN", "fertig", "TWO\r\nLINES"]
    assert all(line.count(b"\t") == 2 for line in written("tsv", how).splitlines())


@pytest.mark.parametrize("how", [translate_to_upper_case, shuffled])
def test_strings_of_apple(how: object) -> None:
    def fields(text: str) -> dict[str, str]:
        found: dict[str, str] = openstep_plist.loads(f"{{{text}}}")
        return found

    for name in names_of("strings"):
        before = SAMPLES[name].document()
        after = SAMPLES[name]._replace(data=written(name, how)).document()
        assert {u.name: joined_text(u.source) for u in before.units}.items() <= fields(before.text).items()
        found = fields(after.text)
        assert found.keys() == fields(before.text).keys() and found["empty"] == ""
        if how is translate_to_upper_case:
            assert found["greeting"] == 'HELLO %1$@, "YOU"\n AND \xc9' and found["bare.key"] == "BARE"
            assert "IT'S /* NOT */ A // COMMENT\nOF TWO LINES" in [
                one.replace("\r", "") for one in found.values()
            ]


@pytest.mark.parametrize("how", [translate_to_upper_case, shuffled])
def test_strings_of_android(how: object, tmp_path: Path) -> None:
    """The file is well-formed XML, and aapt compiles it where it is installed."""
    for name in names_of("android"):
        before, after = (
            etree.fromstring(data, etree.XMLParser(resolve_entities=False, strip_cdata=False))
            for data in (SAMPLES[name].data, written(name, how))
        )
        names = [[(one.tag, *one.attrib.items()) for one in tree.iter()] for tree in (before, after)]
        assert sorted(map(str, names[0])) == sorted(map(str, names[1]))
        assert after.find("string[@name='app']").text == "App"
    if shutil.which("aapt") and how is translate_to_upper_case:  # it refuses two placeholders without numbers
        values = tmp_path / "res" / "values"
        values.mkdir(parents=True)
        (values / "strings.xml").write_bytes(written("android", how))
        (tmp_path / "AndroidManifest.xml").write_text('<manifest package="a.b"/>')
        command = ["aapt", "package", "-S", "res", "-M", "AndroidManifest.xml", "-F", "a.apk"]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        dump = ["aapt", "dump", "--values", "resources", "a.apk"]
        told = subprocess.run(dump, cwd=tmp_path, check=True, capture_output=True).stdout.decode()
        for value in ("IT'S  ", "FISH & CHIPS", "FILES", "?TWO", "@ME"):
            assert value in told
        assert 'DON\'T SAY \\"HI\\" TO %1$s\\n AND MORE \xc9' in told
