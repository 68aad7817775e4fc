"""The span extractor: against a naive one that shares no code with it, and in linear time."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenmt.errors import SettingError
from bytenmt.spans.automata import DEAD
from bytenmt.spans.extractor import span_extractor
from bytenmt.spans.grammar import ALONE, CLASSES, CLOSE, OPEN, parse_tag, partners, pattern_class
from tools.verify.spans import HALVES, SPANS, check_lines, random_line


def span_texts(line: str, *classes: str) -> list[str]:
    return [span.decode() for span in span_extractor(classes or CLASSES).texts(line.encode())]


@pytest.mark.parametrize(
    ("line", "spans"),
    [
        ("{name}님, %s개와 %(n)d 및 %1$s", ["{name}", "%s", "%(n)d", "%1$s"]),
        ("${HOME}/$user {0} {} #{y}", ["${HOME}", "$user", "{0}", "{}", "#{y}"]),
        ("%-5.2f %% [X12X] %USER%", ["%-5.2f", "%%", "[X12X]", "%USER%"]),
        ("%dx%d %ld%c %path%", ["%dx", "%d", "%ld", "%c", "%path%"]),
        ("$t(menu.open) $t(a, {{n}})", ["$t(menu.open)", "$t(a, {{n}})"]),
        (
            "<b>글</b> <a\thref='http://x.y/'>가</a><br/>",
            ["<b>", "</b>", "<a\thref='http://x.y/'>", "</a>", "<br/>"],
        ),
        ("http://a.b/c?d=%s).는 www.x.org/a, (https://x.y/z_(q))", None),
        ("a.b+c@d-e.co.kr에게, <x@y.org>", ["a.b+c@d-e.co.kr", "<x@y.org>"]),
        ("<https://x.y/z>", ["<https://x.y/z>"]),
        ("10:30, 1,234.5원 2026년 utf8", ["10", "30", "1,234.5", "2026"]),
        ("x < 3 and 5 > y; 50% of", ["3", "5", "50"]),
        ("a{b", []),
        ("{{name} {{name}} {{{x}}} {x}", ["{name}", "{{name}}", "{{{x}}}", "{x}"]),
        ("http:// {a.b} @ 한@글.kr", ["{a.b}"]),
        (
            "$FILE$는 $a_1@$, $USER$$FILE$ $A$B $A/$B",
            ["$FILE$", "$a_1@$", "$USER$", "$FILE$", "$A$B", "$A", "$B"],
        ),
        ("%,d %1$,d %,.2f %'d %-,10d %+,ld", ["%,d", "%1$,d", "%,.2f", "%'d", "%-,10d", "%+,ld"]),
        ("%1$tY-%2$b, %tig", ["%1$tY", "%2$b", "%tig"]),
        ("<1>글</1>, <0/> <12 /> x<1>y", ["<1>", "</1>", "<0/>", "<12 />", "<1>"]),
    ],
)
def test_spans_of_each_class(line: str, spans: list[str] | None) -> None:
    expected = ["http://a.b/c?d=%s", "www.x.org/a", "https://x.y/z_(q"] if spans is None else spans
    assert span_texts(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        *("$5", "$5 and $6", "US$ 5 $ 6", "$1,000 or A$5.", "from $5-$10", "$ FILE$"),
        *("100 % der", "5 % d. Bevölkerung", "5%, das", "the 99%'s", "'%', 'x'", "'%','d'", "a % b"),
        *("a <1 b", "a < 1 > b", "x<1 and 2>y", "<1234>", "I <3 you"),
    ],
)
def test_prices_percentages_and_comparisons_are_text(line: str) -> None:
    assert span_texts(line, "placeholders", "tags") == []


def test_a_class_alone_leaves_the_others() -> None:
    line = "{a} <b> http://x.y c@d.ef 5"
    assert [span_texts(line, name) for name in CLASSES] == [
        ["{a}"],
        ["<b>"],
        ["http://x.y"],
        ["c@d.ef"],
        ["5"],
    ]


@pytest.mark.parametrize(
    ("line", "classes", "spans"),
    [
        ("Due 2024-05-17 at 10:30-11:45.", CLASSES, ["2024", "05", "17", "10", "30", "11", "45"]),
        ("{5 apples and 3 pears", ("placeholders", "numbers"), ["5", "3"]),
        ("20 %5 b", ("placeholders", "numbers"), ["20", "5"]),
        ("COVID-19, UTF-8, 555-1234", CLASSES, ["19", "8", "555", "1234"]),
        ("Compare a<b with http://a.b/c?d=e now.", CLASSES, ["http://a.b/c?d=e"]),
    ],
)
def test_a_class_that_is_added_loses_no_span(line: str, classes: tuple[str, ...], spans: list[str]) -> None:
    """Text that begins like a span of one class but is none does not affect spans of other classes."""
    assert span_texts(line, *classes) == spans


def test_letters_behind_a_conversion_make_it_another() -> None:
    assert span_texts("%st3 %s t3") == [
        "%st3",
        "%s",
    ]
    assert span_texts("Ge%selbst2") == ["%selbst2"]
    assert span_texts("%süß %s는") == ["%süß", "%s"]


def test_of_overlapping_spans_the_longer_wins_and_the_rest_is_searched_again() -> None:
    # The tag wins over the placeholder; }} is left of it alone, so all is one span.
    assert span_texts('<b c="{{d">e}}', "tags") == ['<b c="{{d">']
    assert span_texts('<b c="{{d">e}}', "tags", "placeholders") == ['<b c="{{d">e}}']
    # The URL loses its last byte to the placeholder and is found again without it.
    assert span_texts("http://a.b/${a long name}", "urls") == ["http://a.b/$"]
    assert span_texts("http://a.b/${a long name}", "urls", "placeholders") == [
        "http://a.b/",
        "${a long name}",
    ]


@pytest.mark.slow
def test_the_extractor_is_the_naive_one() -> None:
    """And monotone, and each span is found again alone; tools/verify/spans.py does it at length."""
    assert check_lines(1500, seed=4) > 4000


@given(st.text(st.sampled_from("ab<>{}/ 5%s:.@h가é\"='"), max_size=30))
def test_spans_are_in_order_and_of_whole_characters(line: str) -> None:
    data, found = line.encode(), span_extractor(CLASSES).spans(line.encode())
    assert all(one.end <= other.begin for one, other in zip(found, found[1:], strict=False))
    for begin, end, of in found:
        alone = data[begin:end]
        alone.decode()
        assert span_extractor(CLASSES).spans(alone) == [(0, len(alone), of)]


HOSTILE = [
    "<word ",
    "[",
    "&",
    "{{",
    '<a b="',
    "a@",
    "http://",
    "<!--",
    "1.1,",
    "$t(",
    "%(",
    "www.",
    "{<a b='",
]


@pytest.mark.slow
@pytest.mark.parametrize("piece", [*HOSTILE, "mixed"])
def test_the_time_is_linear(piece: str) -> None:
    """Four times the text takes about four times as long; quadratic would be sixteen times."""
    draw = random.Random(1)
    mixed = "".join(random_line(draw) + draw.choice(HALVES) for _ in range(600))
    line = ((mixed if piece == "mixed" else piece) * 20_000)[:10_000].encode()
    seconds = []
    for size in (line, line * 4):
        took = []
        for _ in range(3):
            began = time.process_time()
            span_extractor(CLASSES).spans(size)
            took.append(time.process_time() - began)
        seconds.append(min(took))
    assert seconds[1] < 8 * seconds[0] + 0.01


def test_text_without_spans_is_passed_over() -> None:
    """Plain words cost far less than a second a megabyte, also where there is a span now and then."""
    words = b"the quick brown fox jumps over the lazy dogs " * 2_000
    line = (words + b"x@y.org ") * 50  # 4.5 MB
    began = time.process_time()
    assert span_extractor(CLASSES).texts(line) == [b"x@y.org"] * 50
    assert time.process_time() - began < 3  # 10 s where every word was looked at


# ---- patterns

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
            pattern_class(pattern)
        return
    follow, accepting = pattern_class(pattern).automaton
    for text in texts:
        state = 0
        for byte in text.encode():
            state = follow[state][byte] if state != DEAD else DEAD
        matched = state != DEAD and accepting[state]
        assert matched == bool(re.fullmatch(pattern, text, re.ASCII)), (pattern, text)


# ---- tags


def test_kinds_and_names_of_tags() -> None:
    assert [
        parse_tag(tag) for tag in ("<b>", "</b>", '<a href=">">', "<1>", "</1>", "<link>", "<>", "</>")
    ] == [
        (OPEN, "b"),
        (CLOSE, "b"),
        (OPEN, "a"),
        (OPEN, "1"),
        (CLOSE, "1"),
        (OPEN, "link"),
        (OPEN, ""),
        (CLOSE, ""),
    ]
    assert not any(
        map(parse_tag, ("<br>", "<b/>", "<0/>", "<!-- c -->", "{x}", "<x@y.org>", "<http://a.b>", "<b"))
    )


def test_tags_are_paired_in_linear_time() -> None:
    """An end tag closes the innermost element of its name; one without a partner costs nothing."""
    tags = [
        (OPEN, "b"),
        (OPEN, "i"),
        (CLOSE, "b"),
        None,
        (CLOSE, "i"),
        (ALONE, "b"),
        (OPEN, "u"),
        (CLOSE, "u"),
    ]
    assert partners(tags) == {0: 2, 2: 0, 6: 7, 7: 6}
    began = time.process_time()
    assert partners([(OPEN, "b")] * 200_000 + [(CLOSE, "i")] * 200_000) == {}
    assert time.process_time() - began < 5


def test_the_pieces_are_spans() -> None:
    """The mixtures of the comparison have whole spans of every class among them."""
    assert {span.of for piece in SPANS for span in span_extractor(CLASSES).spans(piece.encode())} == {
        *CLASSES
    }
