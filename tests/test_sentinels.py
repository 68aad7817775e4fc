"""Test which spans are kept: one table of texts, the time that finding them takes, and tags that
belong together.
"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenmt import sentinels
from bytenmt.errors import SettingError
from bytenmt.sentinels import (
    compile_patterns,
    drop_overlaps,
    find_spans,
    pair_tags,
    to_bytes,
    to_text,
)
from bytenmt.translation.chunks import split_line
from bytenmt.translation.kept_spans import KeepSpec, mark_spans

# In each text the kept spans are in ⟦ and ⟧.
TEXTS = """
⟦✓⟧ done, 5 ⟦€⟧, Windows⟦®⟧, ⟦▾⟧, ⟦→⟧, ⟦👩‍🚀⟧ and ⟦👍🏽⟧
⟦2.200.112⟧ | ⟦3.2.1⟧ | ⟦v1.2.3⟧ | ⟦1.2.3-rc1⟧ | ⟦192.168.0.1⟧ | ⟦12.03.2024⟧ | § 5
⟦+49 30 1234567⟧ | ⟦12345⟧ | ⟦2024-05-17⟧ | ⟦2024-05-17T10:00Z⟧ | ⟦2024-05-17 10:00:00⟧
⟦A1⟧ and ⟦MP3⟧, ⟦H264⟧, ⟦F1⟧-Taste, ⟦0x7fff⟧, ⟦deadbeef1⟧, ⟦123e4567-e89b-12d3-a456-426614174000⟧
⟦{count, plural, one {# file} other {# files in {folder}}}⟧
no cars | one car | ⟦{n}⟧ cars
⟦<x START_LINK/>⟧here⟦<x CLOSE_LINK/>⟧, ⟦<g id="1">⟧a⟦</g>⟧, ⟦<bx id="1" rid="1"/>⟧b⟦<ex id="2" rid="1"/>⟧
⟦<b>⟧bold⟦</b>⟧, ⟦<a href="a?b=1&c='2'">⟧x⟦</a>⟧, ⟦<br/>⟧, ⟦<br />⟧, ⟦<img src=x alt="a b">⟧
⟦<>⟧a⟦</>⟧, ⟦<1>⟧b⟦</1>⟧, ⟦<?>⟧, ⟦<%= name %>⟧
⟦<a href="mailto:a@b.org">⟧⟦a@b.org⟧⟦</a>⟧, ⟦mailto:info@example.org⟧ or ⟦info@example.org⟧.
⟦<kbd>⟧Ctrl⟦</kbd>⟧+⟦<kbd>⟧C⟦</kbd>⟧
⟦{{name}}⟧ ⟦{{{raw}}}⟧ ⟦{name}⟧ ⟦{0}⟧ ⟦{ $count }⟧ ⟦${name}⟧ ⟦$name⟧ ⟦$(name)⟧ ⟦#{x}⟧ ⟦%{y}⟧, is it ⟦{name}⟧?
⟦%s⟧ ⟦%1$s⟧ ⟦%(name)d⟧ ⟦%-5.2f⟧ ⟦%d⟧⟦%%⟧ ⟦%ld⟧ ⟦%@⟧, ⟦%1⟧ ⟦%L1⟧ ⟦%name%⟧ ⟦%PRODUCTNAME⟧
⟦%H:%M⟧ on ⟦%Y-%m-%d⟧
⟦__name__⟧, ⟦[name]⟧, ⟦[[name]]⟧, ⟦[0]⟧, ⟦[X7X]⟧, ⟦*|NAME|*⟧, ⟦##name##⟧
Hello ⟦:name⟧! ⟦:smile:⟧ ⟦@:key⟧ and ⟦$t(key, {"count": {{n}} })⟧
Use ⟦`option`⟧ or ⟦``code``⟧.
One line⟦\\n⟧ 2
See ⟦--help⟧, ⟦-o FILE⟧, ⟦--size <n>⟧, ⟦--colour=never⟧, ⟦-x=1⟧
⟦node.js⟧ and ⟦README.md⟧, ⟦src/main.c⟧, ⟦.bashrc⟧, ⟦*.txt⟧, ⟦archive.tar.gz⟧
⟦/etc/hosts⟧ ⟦~/.config⟧ ⟦./a⟧ ⟦C:\\Windows\\x.dll⟧ ⟦\\\\server\\share⟧
⟦https://example.org/a?b=1#c⟧. See ⟦www.example.org/x⟧, ⟦example.com/y⟧, (⟦http://a.b/c⟧)
⟦Ctrl+C⟧, ⟦Ctrl + Shift + P⟧, ⟦Alt+F4⟧, ⟦⌘+S⟧, ⟦Strg+C⟧, ⟦Ctrl+,⟧
⟦&⟧Quit⟦\\tCtrl+Q⟧
⟦&⟧Quit⟦\tCtrl+Q⟧
⟦&nbsp;⟧ ⟦&#160;⟧ ⟦&#xA0;⟧ AT&T
⟦snake_case⟧, ⟦foo_bar()⟧, ⟦name()⟧, ⟦os.path.join()⟧, ⟦module.name⟧
and/or he/she 24/7 1/2 km/h | 50%ige 100% 50 % of $5 | R&D, Smith & Sons | 1st 2nd 3D
e.g. i.e. a.m. z.B. | 12:30 | No.5 Mr.Smith | 3.5 1,000 1999 | well-known -- yes – no | F-16 UTF-8 C++ C#
It's 5 o'clock (maybe)... "what?" x < y > z | me@x, @user, #tag | [Sic] | 3-4, 10-20
user `⟦%s⟧' of `⟦%s⟧' or `a b' and ⟦`--b`⟧, sure? ⟦[y/N]⟧
각 2024년 5월 17일 \ue000 \udcf5 é
"""


@pytest.mark.parametrize("marked", TEXTS.strip().split("\n"))
def test_spans_that_are_kept(marked: str) -> None:
    text = marked.replace("⟦", "").replace("⟧", "")
    expected = [part.split("⟧")[0] for part in marked.split("⟦")[1:]]
    assert [text[begin:end] for begin, end in find_spans(text)] == expected


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("$NAME$ here", ["$NAME"]),
        ("<!-- note --> here", []),
        ("one\\ntwo", []),
        ("https://x.org에서", ["https://x.org에서"]),
    ],
)
def test_what_version_3_of_the_patterns_misses(text: str, spans: list[str]) -> None:
    """Models were trained with these patterns: who mends them counts PATTERNS_VERSION up."""
    assert sentinels.PATTERNS_VERSION == 3
    assert [text[begin:end] for begin, end in find_spans(text)] == spans


SIGNS = st.sampled_from(
    [
        *"aAzF019 .,:;/\\-_+*~#%$@&|<>()[]{}'\"=\té각✓",
        "Ctrl",
        "0x",
        "www.",
        "com",
        "://",
        "Page ",
        "py",
        "⌘",
    ]
)


@given(st.lists(SIGNS, max_size=12).map("".join))
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


HOSTILE = [
    *(
        "<",
        "{",
        "a.",
        "%",
        "-a",
        "a-b.",
        "a@",
        "a-b/",
        "{{",
        "[[",
        "\\\\a",
        "<a ",
        "<a x='",
        "$t({",
    ),
    *("{a,plural,{", "Ctrl+", "F1", "1.", "A1-", "www.a.", "<a>", "</a>", "<a></b>", "✓ ", "%s"),
    *("Ctrl+C ", "x. ", "a@b.de. "),
]


def seconds(text: str) -> float:
    """The least processor time in which spans of a line are found and its sentences split, of two."""
    times = []
    for _ in range(2):
        begin = time.process_time()
        split_line(mark_spans(text.encode(), KeepSpec()), 1000, ["en"])
        times.append(time.process_time() - begin)
    return min(times)


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("end", ["", "_"])
def test_the_time_is_proportional_to_the_text(unit: str, end: str) -> None:
    """Four times the text takes at most eight times as long, where quadratic time would be sixteen."""
    short, long = (unit * (n // len(unit)) + end for n in (4_000, 16_000))
    assert seconds(long) < 8 * seconds(short) + 0.005


@pytest.mark.parametrize(
    ("spans", "partners"),
    [
        (["<b>", "</b>"], {1: 0}),
        (["<b>", "<b>", "</b>", "</b>"], {2: 1, 3: 0}),
        (["<b>", "<i>", "</b>", "</i>"], {2: 0}),
        (["</b>", "<b>"], {}),
        (["<>", "<1>", "</1>", "</>"], {2: 1, 3: 0}),
        (["<br>", "<x/>", "<a href='b'>", "%s", "</a>", "</br>"], {4: 2}),
    ],
)
def test_a_closing_tag_closes_the_innermost_of_its_name(
    spans: list[str], partners: dict[int, int]
) -> None:
    assert pair_tags(spans) == partners


def test_patterns_of_ones_own() -> None:
    """Any regular expression of Python; what matches nothing keeps nothing."""
    patterns = compile_patterns((), (r"(?<=No\.)\d+", r"\b"))
    assert [*find_spans("No.5 of 6", patterns)] == [(3, 4)]
    for wrong, message in (
        ("a(", "no regular expression: missing"),
        ("a*", "matches the empty text"),
    ):
        with pytest.raises(SettingError, match=message):
            compile_patterns((), (wrong,))
    with pytest.raises(
        SettingError, match="'dates' is not a class of spans: expected tags, placeholders"
    ):
        compile_patterns(("dates",))


@given(st.text(st.sampled_from("a각🙂\ue000\uf8ff"), max_size=9), st.binary(max_size=3))
def test_sentinels_are_bytes_that_text_has_not(text: str, some: bytes) -> None:
    data = text.encode() + bytes(sentinels.SENTINELS[byte % 8] for byte in some) + text.encode()
    assert to_bytes(to_text(data)) == data
    assert sentinels.has_sentinels(data) == bool(some)
    assert not sentinels.has_sentinels(text.encode())
