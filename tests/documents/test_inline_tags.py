"""Tags and placeholders are in a translation as often as in its source, and in each other as before."""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from bytenmt.documents.document import TEXT, Parts, joined_text
from bytenmt.documents.inline_tags import parse_string, restore_tags
from bytenmt.documents.markup import content, escaped


def codes(parts: Parts) -> list[str]:
    return [part.text for part in parts if part.kind != TEXT]


@pytest.mark.parametrize(
    ("source", "output", "expected", "whole"),
    [
        ("a <b>x</b>", "A <b>X</b>", "A <b>X</b>", True),
        ("a <b>x</b> %s", "%s A <b>X</b>", "%s A <b>X</b>", True),
        ("a <b>x</b>", "A X", "A <b>X</b>", False),
        ("a <b>x</b>", "A <b>X", "A <b>X</b>", False),
        ("a <b>x</b>", "A X</b>", "A <b>X</b>", False),
        ("a <b>x</b>", "<b>A</b> <b>X</b>", "<b>A</b> X", False),
        ("%d dogs", "%d Hunde %d", "%d Hunde", False),
        ("<i>a</i> <b>x</b>", "<i>A <b></i>X</b>", "<i>A <b>X</b></i>", False),
        ("%s of {n}", "OF %s", "OF %s {n}", False),
        ("<b><i>a</i></b>", "A", "<b><i>A</i></b>", False),
        ("<1>a <2>b</2></1> <0/>", "<0/> <1>A <2>B</1></2>", "<0/> <1>A <2>B</2></1>", False),
        ("%d dogs", "Hunde", "%d Hunde", False),
        ("dogs: %d", "Hunde:", "Hunde: %d", False),
        ("%s: no dogs", "keine Hunde", "%s keine Hunde", False),
        ("x%d", "Hunde", "Hunde%d", False),
        ("to %s.", "Kann nicht gehen.", "Kann nicht gehen %s.", False),
        ("one %s two", "eins zwei", "eins %s zwei", False),
        ("one two %s", "eins\tzwei", "eins\tzwei %s", False),
        ("<b>%d dogs</b> run", "<b>Hunde</b> rennen", "<b>%d Hunde</b> rennen", False),
        ("%s%d dogs", "Hunde", "%s%d Hunde", False),
        ("<b>a</b> <i>b</i> c", "A B C", "<b>A</b> <i>B</i> C", False),
        ("<i>a b</i> <b>c</b>", "<b>A</b> B C", "<b>A</b> B C<i></i>", False),
        ("a <br/>%s", "A", "A <br/>%s", False),
        ("press the key <b>x</b> for a longer help", "Taste drücken", "Taste <b>drücken</b>", False),
        ("a <b>x</b> y", "A X Y<b></b>", "A <b>X</b> Y", False),
        ("a <b><i>x</i> y</b>", "<b><i></i></b>A X Y", "A <b><i>X</i> Y</b>", False),
        ("a <b></b>", "A <b></b>", "A <b></b>", True),
        ("press the longer key <b>x</b>", "Taste drücken", "Taste <b>drücken</b>", False),
        ("plain", "PLAIN <b>", "PLAIN <b>", True),
        ("%d%%", "%d%%", "%d%%", True),
    ],
)
def test_codes_are_put_back(source: str, output: str, expected: str, whole: bool) -> None:
    parts, complete = restore_tags(parse_string(source), output)
    assert (joined_text(parts), complete) == (expected, whole)


MARKUP = ['<g id="1">', "</g>", '<g id="2">', "</g>", '<x id="3"/>', "&brand;"]
SOURCE = 'a <g id="1">b <g id="2">c</g></g> <x id="3"/> &brand; d &amp; e'


@given(st.lists(st.sampled_from([*MARKUP, "x", "<", "&", "</g", "g>", "]]>"]), max_size=12))
def test_whatever_comes_out_is_well_formed(pieces: list[str]) -> None:
    """Outputs are well-formed by lxml and contain each code of the source once and no others."""
    source = content(SOURCE)
    parts, whole = restore_tags(source, "".join(pieces))
    written = escaped(parts)
    document = f'<!DOCTYPE r [<!ENTITY brand "B">]><r>{written}</r>'
    root = etree.fromstring(document, etree.XMLParser(resolve_entities=False))
    assert Counter(codes(parts)) == Counter(codes(source))
    assert Counter(root.xpath("//g/@id")) == Counter(["1", "2"]) and len(root.xpath("//x")) == 1
    if whole:
        assert joined_text(parts) == "".join(pieces)


@given(
    st.lists(st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<br/>", "%s", "{x}", "text", " "]), max_size=10)
)
def test_codes_of_any_string_survive_a_translator_that_keeps_them(pieces: list[str]) -> None:
    source = parse_string("".join(pieces))
    parts, whole = restore_tags(source, joined_text(source))
    assert whole and parts == source


@given(
    st.lists(st.sampled_from(["<b>", "</b>", "<i>", "</i>", "<br/>", "%s", "{x}", "text", " "]), max_size=10)
)
def test_none_is_lost_whatever_a_translator_does(pieces: list[str]) -> None:
    source = parse_string("".join(pieces))
    for output in ("", "word", joined_text(source)[::-1], joined_text(source)[3:], joined_text(source) * 2):
        assert Counter(codes(restore_tags(source, output)[0])) == Counter(codes(source))


@pytest.mark.slow
def test_many_codes_are_put_back_in_linear_time() -> None:
    """Restoring takes linear time in the order of the source, in reverse, and where all are lost."""
    seconds = []
    for n in (2000, 8000):
        names = [f"{{a{number}}}" for number in range(n)]
        source = parse_string(" word ".join(names))
        took = []
        for _ in range(2):
            began = time.process_time()
            for output in (" word ".join(names), " word ".join(reversed(names))):
                parts, whole = restore_tags(source, output)
                assert whole and len(parts) == 2 * n - 1
            for some in (source, parse_string("".join(names))):
                assert len(codes(restore_tags(some, " word" * n)[0])) == n
            took.append(time.process_time() - began)
        seconds.append(min(took))
    assert seconds[1] < 10 * seconds[0] + 0.1  # quadratic: 16 times


def test_placeholders_of_many_kinds() -> None:
    text = "%s %1$s %(name)s %5.2f %-10ld %r {0} {name} ${user} {{count}} %% 100 % {} <a href='x>y'>"
    expected = "%s|%1$s|%(name)s|%5.2f|%-10ld|%r|{0}|{name}|${user}|{{count}}|%%|{}|<a href='x>y'>"
    assert "|".join(codes(parse_string(text))) == expected
    assert not codes(parse_string("5 < 6 > 4, a} b {, 7 %"))
    assert codes(parse_string("$t(menu.open) { name } %st3 [X7X]")) == [
        "$t(menu.open)",
        "{ name }",
        "%st3",
        "[X7X]",
    ]
    assert not re.search("%", "".join(codes(parse_string("100 % of it"))))
