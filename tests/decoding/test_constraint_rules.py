"""What is read from a line to be kept: spans, tags, terms; and what is told of a translation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenmt.decoding.constraints.glossary import Glossary, Term
from bytenmt.decoding.constraints.lexer import CLASSES, lexer
from bytenmt.decoding.constraints.nesting import ANYWHERE, ROOT, Place, places
from bytenmt.decoding.constraints.rules import LIMIT, UNMET, Rules
from bytenmt.decoding.constraints.words import ban_of
from bytenmt.decoding.interface import Request
from bytenmt.decoding.pieces import cut
from bytenmt.errors import DataError, SettingError
from bytenmt.utf8 import EOS

ALL = tuple(CLASSES)


def kept(line: str, *classes: str) -> list[str]:
    data = line.encode()
    return [data[span.begin : span.end].decode() for span in lexer(classes or ALL).spans(data)]


FOUND = {
    "{name}님, %s개와 %(n)d 및 %1$s": "{name} %s %(n)d %1$s",
    "${HOME}/$user {0} {} #{y} %-5.2f %% [X12X] %USER%": "${HOME} $user {0} {} #{y} %-5.2f %% [X12X] %USER%",
    "<b>글</b> <a\thref='http://x.y/'>가</a><br/><img>": "<b> </b> <a\thref='http://x.y/'> </a> <br/> <img>",
    "http://a.b/c?d=%s).는 www.x.org/a, (https://x.y/z_(q))": "http://a.b/c?d=%s www.x.org/a https://x.y/z_(q",
    "a.b+c@d-e.co.kr에게, <x@y.org>": "a.b+c@d-e.co.kr <x@y.org>",
    "<https://x.y/z>": "<https://x.y/z>",
    "10:30, 1,234.5원 2026년 utf8": "10 30 1,234.5 2026",
    "x < 3 and 5 > y; 50% of": "3 5 50",
    "a{b": "",
    "{{name} {{name}} {x}": "{{name} {{name}} {x}",
    "http:// {a.b} <1> @ 한@글.kr": "{a.b} 1",
}


@pytest.mark.parametrize("line", FOUND)
def test_what_is_found(line: str) -> None:
    assert kept(line) == FOUND[line].split(" ") if FOUND[line] else not kept(line)


def test_a_class_alone_leaves_the_rest() -> None:
    line = "{a} <b> http://x.y c@d.ef 5"
    assert [kept(line, name) for name in ALL] == [["{a}"], ["<b>"], ["http://x.y"], ["c@d.ef"], ["5"]]


TEXTS = st.text(st.sampled_from("ab<>{}/ 5%s:.@h가é\"='"), max_size=30)


@given(TEXTS)
def test_spans_lie_one_behind_the_other_and_stand_alone(line: str) -> None:
    """Each is found again where it is the whole line, and characters are whole."""
    data, found = line.encode(), lexer(ALL).spans(line.encode())
    assert all(one.end <= other.begin for one, other in zip(found, found[1:], strict=False))
    for begin, end, of in found:
        alone = data[begin:end]
        alone.decode()
        assert [(span.begin, span.end, span.of) for span in lexer(ALL).spans(alone)] == [(0, len(alone), of)]


@given(TEXTS, TEXTS)
def test_a_space_keeps_spans_apart(one: str, other: str) -> None:
    """What plain text may have is left by a byte: what follows it does not depend on it."""
    made = lexer(ALL)
    state = 0
    for byte in one.encode():
        state = int(made.follow[state, byte])
    if made.loose[state] or made.label[state] >= 0:
        assert made.follow[state, made.escape[state]] == 0


PIECES = st.sampled_from(["a", "b", "가", r"\d", "[^ab]", "[a-c5]", ".", r"\.", "(?:a|b5)", "é"])
PATTERNS = st.lists(
    st.tuples(PIECES, st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}"])).map("".join),
    min_size=1,
    max_size=4,
).map("".join)


@given(PATTERNS, st.lists(st.text(st.sampled_from("ab5가é. "), max_size=6), min_size=5, max_size=5))
def test_a_pattern_means_what_python_means(pattern: str, texts: list[str]) -> None:
    if re.fullmatch(pattern, ""):
        with pytest.raises(SettingError, match="empty text"):
            lexer((), (pattern,))
        return
    try:
        made = lexer((), (pattern,))
    except SettingError as error:
        assert "no space or punctuation ends it" in str(error)
        return
    for text in texts:
        state = 0
        for byte in text.encode():
            state = int(made.follow[state, byte]) if not (state and made.begins[state, byte]) else -1
            if state <= 0:
                break
        matched = state > 0 and made.label[state] == 0
        assert matched == bool(re.fullmatch(pattern, text, re.ASCII)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a*", "empty text"),
        ("#.*", "no space or punctuation ends it"),
        ("(a", "has no )"),
        ("a)", "has no ("),
        ("a(?=b)", "(?= is not regular"),
        (r"(a)\1", r"\1 is not regular"),
        (r"\bfoo", r"\b is not regular"),
        ("^a", "^ has no meaning"),
        ("a+?", "? behind a repetition"),
        ("[가]", "not ASCII"),
        ("[b-a]", "no order"),
        ("[ab", "ends too early"),
        ("a{1,900}", "repetitions"),
        ("(((a{99}){99}){99})", "too large"),
        ("(" * 99 + "a" + ")" * 99, "too deeply"),
    ],
)
def test_other_patterns_are_refused_in_a_line(pattern: str, why: str) -> None:
    with pytest.raises(SettingError, match=re.escape(why)) as error:
        lexer((), (pattern,))
    assert "\n" not in str(error.value)


def test_what_is_no_class_is_refused() -> None:
    with pytest.raises(SettingError, match="'dates' is no class to keep"):
        Rules.of("urls, dates")
    with pytest.raises(SettingError, match="give names"):
        Rules.of([3])
    with pytest.raises(SettingError, match="name of a file"):
        Rules.of(glossary=3)
    assert Rules.of() is None and Rules.of("") is None


# ---- tags


def test_tags_stand_in_each_other_as_they_did() -> None:
    spans = [b"<b>", b"{x}", b"<i>", b"</i>", b"<br>", b"</b>", b"<u/>", b"</p>"]
    assert places(spans) == [
        Place(ROOT, 0),
        Place(),
        Place(0, 2),
        Place(2, 0, -1, True),
        Place(),
        Place(0, ROOT, -1, True),
        Place(),
        Place(ROOT),
    ]


def test_tags_without_partners_keep_their_order() -> None:
    assert places([b"</b>", b"<i>", b"<b>", b"</b>", b"<p>"]) == [
        Place(ROOT),
        Place(ROOT, ANYWHERE, 0),
        Place(ROOT, 2),
        Place(2, ROOT, -1, True),
        Place(ROOT, ANYWHERE, 1),
    ]


# ---- terms


def glossary(*lines: str) -> Glossary:
    terms = []
    for line in lines:
        source, target = line.split("=")
        forms = target.split("|")
        terms.append(Term(source, tuple(f for f in forms if f[0] != "!"), ()))
    return Glossary.of(terms)


def found(text: str, *lines: str) -> list[str]:
    data = text.encode()
    return [data[begin:end].decode() for begin, end, _ in glossary(*lines).find(data)]


def test_terms_are_words_in_any_case_and_the_longest_wins() -> None:
    assert found("The Web server, a webserver; servers", "server=x", "web server=y") == ["Web server"]
    assert found("an API and apis", "API=x") == ["API"]
    assert found("an api", "API=x") == []
    assert found("Straße, straßen", "straße=x") == ["Straße"]
    assert found("웹서버를 서버가", "서버=x") == ["서버", "서버"]
    assert found("serverl", "server=x", "serverless=y") == []
    assert found("İserver server", "server=x") == ["server"]


def test_a_table_is_read(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    file.write_bytes(
        "\ufeff# of us\nserver\t서버|서버 컴퓨터\r\n\nserver\t!써버\nAPI\t!에이피아이\n".encode()
    )
    read = Glossary.read(file)
    assert read.folded == {"server": Term("server", ("서버", "서버 컴퓨터"), ("써버",))}
    assert read.exact == {"API": Term("API", (), ("에이피아이",))}


@pytest.mark.parametrize("line", [b"server", b"\tx", b"a\t", b"a\tb|", b"a\t!", b"a\tb\tc", b"a\t\xff"])
def test_a_line_that_is_none_is_told(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "terms.tsv"
    file.write_bytes(b"a\tb\n" + line + b"\n")
    with pytest.raises(DataError, match=r"terms\.tsv, line 2"):
        Glossary.read(file)
    with pytest.raises(DataError, match="cannot be read"):
        Glossary.read(tmp_path / "none")


@given(
    st.lists(st.text(st.sampled_from("ab 가é"), min_size=1, max_size=3), min_size=1, max_size=3),
    st.text(st.sampled_from("ab 가é_"), max_size=12),
)
def test_what_is_forbidden_is_found_as_a_word(forbidden: list[str], text: str) -> None:
    ban, state = ban_of(tuple(one.encode() for one in forbidden)), 0
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
    rules = Rules(("numbers", "urls"), glossary=glossary("server=서버", "windows 11=윈도우 11|윈도 11"))
    source = b"server http://server.org Windows 11, 5 server"
    texts = [item.text.decode() for item in rules.constraint(source).items]
    assert texts == ["서버", "http://server.org", "윈도우 11", "윈도 11", "5"]
    assert rules.met(source, "5 서버 http://server.org 윈도 11".encode())
    assert not rules.met(source, "5 서버 http://server.org 윈도 12".encode())
    assert not rules.met(source, "5 서버 http://server.org 윈도 11 7".encode())
    assert not rules.met(source, b"5 http://server.org")


def test_what_the_prefix_has_is_not_owed_again() -> None:
    rules = Rules(("placeholders", "tags"))
    asked = rules.asked(Request(b"<b>{x}</b> {y}", 2, b"<b>{y} "))
    assert [item.owed for item in asked.constraint.items] == [False, True, True, False]
    assert asked.constraint.inside == 0
    assert asked.limit == len("<b>{y} ") + len("{x}") + 1 + len("</b>") + 1 + 2
    assert rules.flags(asked, b"<b>{y} {x}</b>") == (LIMIT,)


def test_signs_that_stand_in_spans_alone() -> None:
    """They begin no more than is owed; what a text has free besides it may have."""
    rules = Rules(("tags", "placeholders"))
    for source, shut in ((b"<b>x</b>", b"<"), (b"a <b>x</b> < {y}", b"{"), (b"a < b", b""), (b"{ {x}", b"")):
        assert rules.constraint(source).shut == shut
    assert Rules(("tags",)).constraint(b"<b>x</b> {y}").shut == b"<"


def test_flags() -> None:
    rules = Rules(("placeholders",))
    asked = rules.asked(Request(b"a {x} b", 20))
    assert rules.flags(asked, b"q {x} r") == ()
    assert rules.flags(asked, b"q") == (UNMET,)
    assert rules.flags(asked, b"q {x} {x}") == (UNMET,)
    assert rules.flags(asked, b"sixteen letters {x}") == (LIMIT,)


@given(TEXTS.filter(lambda text: len(text) > 4), st.integers(4, 12))
def test_no_span_is_cut(line: str, limit: int) -> None:
    data = line.encode()
    spans = [span[:2] for span in lexer(ALL).spans(data)]
    pieces, at = cut(data, limit, spans), 0
    assert b"".join(piece.text + piece.joint for piece in pieces) == data
    for piece in pieces:
        piece.text.decode()
        end = at + len(piece.text)
        assert piece.text or piece.joint or end == len(data)
        assert len(piece.text) <= limit or any(b <= at and e == end for b, e in spans) or end == len(data)
        at = end + len(piece.joint)
        for edge in (end, at):
            assert not any(begin < edge < behind for begin, behind in spans)
