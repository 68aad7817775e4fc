"""Test what must be kept of a line (spans, tags, terms) and the flags of a translation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenmt.decoding.constraints.constraint_spec import (
    LIMIT,
    PLACEMENT,
    UNMET,
    ConstraintSpec,
    TagPosition,
    tag_positions,
)
from bytenmt.decoding.constraints.glossary import LONGEST_TEXT, Glossary, Term
from bytenmt.decoding.constraints.words import ban_automaton
from bytenmt.decoding.interface import Request
from bytenmt.decoding.line_batch import cut_line
from bytenmt.errors import DataError, SettingError
from bytenmt.kernel_constants import ANYWHERE, ROOT
from bytenmt.spans.extractor import span_extractor
from bytenmt.spans.grammar import CLASSES
from bytenmt.utf8 import EOS

ALL = CLASSES
TEXTS = st.text(st.sampled_from("ab<>{}/ 5%s:.@h가é\"='"), max_size=30)


def test_what_is_no_class_is_refused() -> None:
    with pytest.raises(SettingError, match="'dates' is not a class of spans"):
        ConstraintSpec.from_settings("urls, dates")
    with pytest.raises(SettingError, match="give names"):
        ConstraintSpec.from_settings([3])
    with pytest.raises(SettingError, match="name of a file"):
        ConstraintSpec.from_settings(glossary=3)
    assert ConstraintSpec.from_settings() is None and ConstraintSpec.from_settings("") is None


# ---- tags


def test_tags_stand_in_each_other_as_they_did() -> None:
    spans = [b"<b>", b"{x}", b"<i>", b"</i>", b"<br>", b"</b>", b"<u/>", b"</p>"]
    assert tag_positions(spans) == [
        TagPosition(ROOT, 0),
        TagPosition(),
        TagPosition(0, 2),
        TagPosition(2, 0, -1, True),
        TagPosition(),
        TagPosition(0, ROOT, -1, True),
        TagPosition(),
        TagPosition(ROOT),
    ]


def test_tags_without_partners_keep_their_order() -> None:
    assert tag_positions([b"</b>", b"<i>", b"<b>", b"</b>", b"<p>"]) == [
        TagPosition(ROOT),
        TagPosition(ROOT, ANYWHERE, 0),
        TagPosition(ROOT, 2),
        TagPosition(2, ROOT, -1, True),
        TagPosition(ROOT, ANYWHERE, 1),
    ]


# ---- terms


def glossary(*lines: str) -> Glossary:
    terms = []
    for line in lines:
        source, target = line.split("=")
        forms = target.split("|")
        terms.append(Term(source, tuple(f for f in forms if f[0] != "!"), ()))
    return Glossary.from_terms(terms)


def glossary_matches(text: str, *lines: str) -> list[str]:
    data = text.encode()
    return [data[begin:end].decode() for begin, end, _ in glossary(*lines).find(data)]


def test_terms_are_words_in_any_case_and_the_longest_wins() -> None:
    one = glossary_matches("The Web server, a webserver; servers", "server=x", "web server=y")
    assert one == ["Web server", "servers"]
    assert glossary_matches("an API and apis", "API=x") == ["API"]
    assert glossary_matches("an api", "API=x") == []
    assert glossary_matches("Straße, straßen", "straße=x") == ["Straße"]
    assert glossary_matches("웹서버를 서버가", "서버=x") == ["서버", "서버"]
    assert glossary_matches("serverl", "server=x", "serverless=y") == []
    assert glossary_matches("İserver server", "server=x") == ["server"]


def test_inflected_forms_of_terms_match() -> None:
    """Plurals of words of four letters, in any case where the term is in small letters; not other words."""
    terms = ("server=x", "category=y", "web page=z", "bus=q", "Katze=r", "box=s")
    assert glossary_matches("Servers and SERVERS serve", *terms) == ["Servers", "SERVERS"]
    assert glossary_matches("categories, category's, categorical", *terms) == ["categories", "category"]
    assert glossary_matches("web pages, web paging, webpages", *terms) == ["web pages"]
    assert glossary_matches("busses, buses, boxes; serverless, servered", *terms) == []
    assert glossary_matches("Katzen, katzen, Katzentür", *terms) == ["Katzen"]
    assert glossary_matches("server servers", "server=x", "servers=y") == ["server", "servers"]
    exact = Glossary.from_terms([Term("server", ("x",), ())], inflected=False)
    assert not exact.find(b"servers") and exact.find(b"Server")


def test_the_target_of_an_inflected_term_may_be_inflected() -> None:
    rules = ConstraintSpec(glossary=Glossary.from_terms([Term("file", ("Datei",), ())]))
    assert rules.is_met(b"two files", b"zwei Dateien")
    assert not rules.is_met(b"a file", b"zwei Dateien")
    assert not rules.is_met(b"two files", b"zwei Unterdatei")
    item = rules.constraint(b"two files").items[0]
    assert not item.needs_word_end and (item.source_begin, item.source_end) == (4, 9)


def test_which_forms_match_is_a_setting(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_text("server\tServer\n")
    for match, n_items in (("inflected", 1), ("exact", 0)):
        rules = ConstraintSpec.from_settings(glossary=file, glossary_match=match)
        assert rules is not None and len(rules.constraint(b"two servers").items) == n_items
    with pytest.raises(SettingError, match="expected inflected or exact"):
        ConstraintSpec.from_settings(glossary=file, glossary_match="some")


def test_a_table_is_read(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_bytes(
        "\ufeff# of us\nserver\t서버|서버 컴퓨터\r\n\nserver\t!써버\nAPI\t!에이피아이\n".encode()
    )
    read = Glossary.from_file(file)
    assert read.folded == {"server": Term("server", ("서버", "서버 컴퓨터"), ("써버",))}
    assert read.exact == {"API": Term("API", (), ("에이피아이",))}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("omegat.txt", "# glossary\nfile, open\tDatei\ta comment\nquit\tBeenden\t\n"),
        ("deepl.csv", '"file, open",Datei,en,de\nquit,Beenden,en,de\n'),
        ("plain.CSV", '"file, open",Datei\r\nquit,"Beenden"\r\n'),
    ],
)
def test_tables_of_other_programs_are_read(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_bytes(text.encode())
    terms = {one.source: one.forms for one in Glossary.from_file(file).terms()}
    assert terms == {"file, open": ("Datei",), "quit": ("Beenden",)}


def test_a_line_that_is_no_csv_is_told(tmp_path: Path) -> None:
    file = tmp_path / "terms.csv"
    for line, problem in (("a", "expected `term,target`"), ('"a,b', "not CSV")):
        file.write_text(f"x,y\n{line}\n")
        with pytest.raises(DataError, match=rf"terms\.csv, line 2: {problem}"):
            Glossary.from_file(file)


LONG = b"x" * (LONGEST_TEXT + 1)


def test_the_longest_term_and_target_are_read(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_bytes(LONG[1:] + b"\t" + LONG[1:] + b"\n")
    assert list(Glossary.from_file(file).folded) == ["x" * LONGEST_TEXT]


@pytest.mark.parametrize(
    "line",
    [
        b"server",
        b"\tx",
        b"a\t",
        b"a\tb|",
        b"a\t!",
        b"a\t\xff",
        LONG + b"\tb",
        b"a\tb|" + LONG,
        b"a\t" + b"b|" * 5_000 + b"b",
    ],
)
def test_a_line_that_is_none_is_told(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "terms.tsv"
    file.write_bytes(b"a\tb\n" + line + b"\n")
    with pytest.raises(DataError, match=r"terms\.tsv, line 2"):
        Glossary.from_file(file)
    with pytest.raises(DataError, match="cannot be read"):
        Glossary.from_file(tmp_path / "none")


@given(
    st.lists(st.text(st.sampled_from("ab 가é"), min_size=1, max_size=3), min_size=1, max_size=3),
    st.text(st.sampled_from("ab 가é_"), max_size=12),
)
def test_what_is_forbidden_is_found_as_a_word(forbidden: list[str], text: str) -> None:
    ban, state = ban_automaton(tuple(one.encode() for one in forbidden)), 0
    for byte in (*text.encode(), EOS):
        state = int(ban[state, byte])
        if state < 0:
            break
    letter = "[abé_]"

    def bounded(one: str) -> str:
        before = rf"(?<!{letter})" if re.match(letter, one[0]) else ""
        return before + re.escape(one) + (rf"(?!{letter})" if re.match(letter, one[-1]) else "")

    assert (state < 0) == any(re.search(bounded(one), text) for one in forbidden)


# ---- what a line owes


def test_terms_and_spans_do_not_overlap() -> None:
    rules = ConstraintSpec(
        ("numbers", "urls"), glossary=glossary("server=서버", "windows 11=윈도우 11|윈도 11")
    )
    source = b"server http://server.org Windows 11, 5 server"
    texts = [item.text.decode() for item in rules.constraint(source).items]
    assert texts == ["서버", "http://server.org", "윈도우 11", "윈도 11", "5"]
    assert rules.is_met(source, "5 서버 http://server.org 윈도 11".encode())
    assert not rules.is_met(source, "5 서버 http://server.org 윈도 12".encode())
    assert not rules.is_met(source, "5 서버 http://server.org 윈도 11 7".encode())
    assert not rules.is_met(source, b"5 http://server.org")


def test_what_the_prefix_has_is_not_owed_again() -> None:
    rules = ConstraintSpec(("placeholders", "tags"))
    asked = rules.add_constraint(Request(b"<b>{x}</b> {y}", 2, b"<b>{y} "))
    assert [item.pending for item in asked.constraint.items] == [False, True, True, False]
    assert asked.constraint.inside == 0
    assert asked.limit == len("<b>{y} ") + len("{x}") + 1 + len("</b>") + 1 + 2
    assert rules.flags(asked, b"<b>{y} {x}</b>") == (LIMIT,)


def test_signs_that_stand_in_spans_alone() -> None:
    """They begin no more than is owed; what a text has free besides it may have."""
    rules = ConstraintSpec(("tags", "placeholders"))
    for source, shut in ((b"<b>x</b>", b"<"), (b"a <b>x</b> < {y}", b"{"), (b"a < b", b""), (b"{ {x}", b"")):
        assert rules.constraint(source).reserved_bytes == shut
    assert ConstraintSpec(("tags",)).constraint(b"<b>x</b> {y}").reserved_bytes == b"<"


def test_flags() -> None:
    rules = ConstraintSpec(("placeholders",))
    asked = rules.add_constraint(Request(b"a {x} b", 20))
    assert rules.flags(asked, b"q {x} r") == ()
    assert rules.flags(asked, b"q") == (UNMET,)
    assert rules.flags(asked, b"q {x} r {x} s") == (UNMET,)
    assert rules.flags(asked, b"q {x} {x}") == (UNMET, PLACEMENT)
    assert rules.flags(asked, b"sixteen letters {x}") == (LIMIT,)


def test_a_span_longer_than_a_piece_is_not_glued_to_the_next_one() -> None:
    """The blank behind it joins the chunks, as elsewhere; the next piece does not begin with it."""
    url = b"http://a.b/" + b"c" * 30
    line = b"see " + url + b" and more words"
    chunks = cut_line(line, 12, [(4, 4 + len(url))])
    assert [(chunk.text, chunk.separator) for chunk in chunks] == [
        (b"see", b" "),
        (url, b" "),
        (b"and more", b" "),
        (b"words", b""),
    ]
    assert cut_line(line[: 4 + len(url)], 12, [(4, 4 + len(url))])[-1].text == url


@given(TEXTS.filter(lambda text: len(text) > 4), st.integers(4, 12))
def test_no_span_is_cut(line: str, limit: int) -> None:
    data = line.encode()
    spans = [span[:2] for span in span_extractor(ALL).spans(data)]
    chunks, at = cut_line(data, limit, spans), 0
    assert b"".join(chunk.text + chunk.separator for chunk in chunks) == data
    for chunk in chunks:
        chunk.text.decode()
        end = at + len(chunk.text)
        assert chunk.text or chunk.separator or end == len(data)
        assert len(chunk.text) <= limit or any(b <= at and e == end for b, e in spans) or end == len(data)
        at = end + len(chunk.separator)
        for edge in (end, at):
            assert not any(begin < edge < behind for begin, behind in spans)
