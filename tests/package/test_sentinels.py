"""Which spans are kept: one table of texts, the time to find them, and tags in pairs."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_tree import PACKAGE

from bytenmt import sentinels
from bytenmt.errors import SettingError
from bytenmt.sentinels import compile_patterns, drop_overlaps, find_spans, pair_tags
from bytenmt.span_classes import PATTERNS_DIGESTS, SPAN_CLASSES, SpanClass, digest_of_patterns
from bytenmt.translation.chunks import split_line
from bytenmt.translation.kept_spans import KeepSpec, mark_spans

# In each text the kept spans are in ⟦ and ⟧; beside these, the samples of each class. The file has
# Korean and German sentences.
FILE = Path(__file__).parents[1] / "files" / "kept_spans.txt"
TEXTS = """
and/or he/she 24/7 1/2 km/h | 50%ige 100% 50 % of $100 | R&D, Smith & Sons | 1st 2nd 3D
e.g. i.e. a.m. z.B. | 12:30 | No.5 Mr.Smith
3.5 1,000 1999 | well-known -- yes – no | F-16 UTF-8 C++ C#
It's 5 o'clock (maybe)... "what?" x < y > z | me@x, @user, #tag | [Sic] | 3-4, 10-20
user `⟦%s⟧' of `⟦%s⟧' or `a b' and ⟦`--b`⟧, sure? ⟦[y/N]⟧
"""
SAMPLES = [
    *FILE.read_text(encoding="utf-8").splitlines(),
    *TEXTS.strip().split("\n"),
    *(text for spans in SPAN_CLASSES for text in (*spans.kept, *spans.not_kept)),
]


@pytest.mark.parametrize("marked", SAMPLES)
def test_spans_that_are_kept(marked: str) -> None:
    text = marked.replace("⟦", "").replace("⟧", "")
    expected = [part.split("⟧")[0] for part in marked.split("⟦")[1:]]
    assert [text[begin:end] for begin, end in find_spans(text)] == expected


@pytest.mark.parametrize("spans", SPAN_CLASSES, ids=[spans.name for spans in SPAN_CLASSES])
def test_each_class_has_samples_and_a_row_of_the_page(spans: SpanClass) -> None:
    """Each pattern of a class finds a span of its samples."""
    page = (PACKAGE / "docs/constraints.md").read_text(encoding="utf-8")
    row = f"| `{spans.name}` | {spans.description} |\n"
    assert row in page, f"add to the table of classes of bytenmt/docs/constraints.md: {row}"
    assert len(spans.kept) >= 2 and len(spans.not_kept) >= 2
    assert all("⟦" in text for text in spans.kept) and "⟦" not in "".join(spans.not_kept)
    texts = [text.replace("⟦", "").replace("⟧", "") for text in spans.kept]
    for pattern in spans.patterns:
        assert any(re.search(pattern, text) for text in texts), pattern


def test_other_patterns_are_another_version() -> None:
    """Models were trained with these patterns: a digest that is there is not replaced."""
    digest = digest_of_patterns()
    assert digest == PATTERNS_DIGESTS[-1], f"append {digest!r} to PATTERNS_DIGESTS: a new version"
    assert PATTERNS_DIGESTS.index("74b1538c08e45f5d") == 3
    assert len(set(PATTERNS_DIGESTS)) == len(PATTERNS_DIGESTS)


SIGNS = [
    *"aAzFMf019 .,:;?/\\-_+*~#%$@&|<>()[]{}'\"`=\té각ü✓€\u20e3\ufe0f",
    *("Ctrl", "0x", "www.", "com", "://", "Page ", "py", "⌘", "XML 1.0", "12", "abcdef0", "xx"),
    *("<sup>", "ABCDEF01-", "ABCD-", "1.2.3", "$1,000.50", "2024-05-17", "&lt;"),
]


@given(st.lists(st.sampled_from(SIGNS), max_size=12).map("".join))
def test_no_text_that_has_spans_is_passed_over(text: str) -> None:
    matches = {match.span() for pattern in compile_patterns() for match in pattern.finditer(text)}
    assert find_spans(text) == drop_overlaps(matches)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=12))
def test_the_longest_are_chosen_then_the_earliest(drawn: list[tuple[int, int]]) -> None:
    matches = {(begin, begin + length) for begin, length in drawn}
    expected: list[tuple[int, int]] = []
    for begin, end in sorted(matches, key=lambda span: (span[0] - span[1], span[0])):
        if begin < end and all(end <= other[0] or begin >= other[1] for other in expected):
            expected.append((begin, end))
    assert drop_overlaps(matches) == sorted(expected)


HOSTILE = (
    *("<", "{", "a.", "%", "-a", "a-b.", "a@", "a-b/", "{{", "[[", "\\\\a", "<a ", "<a x='"),
    *("$t({", "{a,plural,{", "Ctrl+", "F1", "1.", "A1-", "www.a.", "<a>", "</a>", "<a></b>"),
    *("✓ ", "%s"),
    *("Ctrl+C ", "x. ", "a@b.de. ", "$a", "?a=", "$1,000", "1.000.", "xx0", "-a.", "<!-- -", "AB "),
    *("$(a)/", "ü.", "ab_", "&lt;", "__a", "usw.", "1\u20e3", "가a.", "/a", ".a-", "und -a"),
)


MIN_SECONDS = 0.005  # below it a time is not compared


def seconds(work: Callable[[str], object], text: str, n_times: int = 4) -> float:
    """Return the least processor time, of several, of a function of a text."""
    times = []
    for _ in range(n_times):
        begin = time.process_time()
        work(text)
        times.append(time.process_time() - begin)
    return min(times)


def is_proportional(work: Callable[[str], object], short: str, long: str) -> bool:
    """Return whether four times the text takes at most eight times as long; quadratic time would be
    sixteen."""
    if seconds(work, long, n_times=1) < MIN_SECONDS:
        return True
    return seconds(work, long) < 8 * seconds(work, short) + MIN_SECONDS


def mark_and_split(text: str) -> None:
    """Find the spans of a line and split its sentences."""
    split_line(mark_spans(text.encode(), KeepSpec()), 1000, ["en"])


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("end", ["", "_"])
def test_the_time_is_proportional_to_the_text(unit: str, end: str) -> None:
    short, long = (unit * (n // len(unit)) + end for n in (4_000, 16_000))
    assert is_proportional(mark_and_split, short, long)


@pytest.mark.slow
@pytest.mark.parametrize("spans", SPAN_CLASSES, ids=[spans.name for spans in SPAN_CLASSES])
@pytest.mark.parametrize("end", ["", "_"])
def test_the_time_of_a_pattern_is_proportional_to_the_text(spans: SpanClass, end: str) -> None:
    """Texts that begin like a span of the class's samples, and then repeat two characters of it."""
    samples = re.findall("⟦(.*?)⟧", "".join(spans.kept))
    texts = {(span[:i], span[i : i + 2]) for span in samples for i in range(len(span))}
    for pattern in map(re.compile, spans.patterns):
        for begin, unit in sorted(texts):
            short, long = (begin + unit * (n // len(unit)) + end for n in (2_000, 8_000))
            is_linear = is_proportional(pattern.findall, short, long)
            assert is_linear, f"quadratic in {begin!r} + n * {unit!r}: {pattern.pattern}"


def test_a_closing_tag_closes_the_innermost_of_its_name() -> None:
    for spans, partners in (
        ("<b> </b>", {1: 0}),
        ("<b> <b> </b> </b>", {2: 1, 3: 0}),
        ("<b> <i> </b> </i>", {2: 0}),
        ("</b> <b>", {}),
        ("<> <1> </1> </>", {2: 1, 3: 0}),
        ("<br> <x/> <a\thref='b'> %s </a> </br>", {4: 2}),
    ):
        assert pair_tags(spans.split(" ")) == partners


def test_patterns_of_ones_own() -> None:
    """Any regular expression of Python; what matches nothing keeps nothing."""
    patterns = compile_patterns((), (r"(?<=No\.)\d+", r"\b"))
    assert [*find_spans("No.5 of 6", patterns)] == [(3, 4)]
    wrongs = {"a(": "is not a valid regular expression: missing", "a*": "matches the empty text"}
    for wrong, message in wrongs.items():
        with pytest.raises(SettingError, match=message):
            compile_patterns((), (wrong,))
    message = "'dates' is not a class of spans: expected tags, placeholders"
    with pytest.raises(SettingError, match=message):
        compile_patterns(("dates",))


@given(st.text(st.sampled_from("a각🙂\ue000\uf8ff"), max_size=9), st.binary(max_size=3))
def test_sentinels_are_bytes_that_text_has_not(text: str, some: bytes) -> None:
    data = text.encode() + bytes(sentinels.SENTINELS[byte % 8] for byte in some) + text.encode()
    assert sentinels.to_bytes(sentinels.to_text(data)) == data
    assert sentinels.has_sentinels(data) == bool(some)
    assert not sentinels.has_sentinels(text.encode())
