"""Which spans are kept: one table of texts, the time to find them, and tags in pairs."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_tree import PACKAGE

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
from bytenmt.span_classes import (
    PATTERNS_DIGEST,
    PATTERNS_VERSION,
    SPAN_CLASSES,
    SpanClass,
    digest_of_patterns,
)
from bytenmt.translation.chunks import split_line
from bytenmt.translation.kept_spans import KeepSpec, mark_spans

# In each text the kept spans are in ⟦ and ⟧; beside these, the samples of each class.
TEXTS = """
and/or he/she 24/7 1/2 km/h | 50%ige 100% 50 % of $100 | R&D, Smith & Sons | 1st 2nd 3D
e.g. i.e. a.m. z.B. | 12:30 | No.5 Mr.Smith
3.5 1,000 1999 | well-known -- yes – no | F-16 UTF-8 C++ C#
It's 5 o'clock (maybe)... "what?" x < y > z | me@x, @user, #tag | [Sic] | 3-4, 10-20
user `⟦%s⟧' of `⟦%s⟧' or `a b' and ⟦`--b`⟧, sure? ⟦[y/N]⟧
"""
KOREAN = """
옵션 ⟦--help⟧를 사용하십시오.
⟦-v⟧와 ⟦-q⟧는 함께 쓸 수 없습니다.
⟦MP3⟧를 재생할 수 없습니다.
⟦config.yaml⟧에서 이름을 바꾸십시오.
먼저 ⟦/etc/hosts⟧를 여십시오.
⟦src/main.c⟧에는 오류가 없습니다.
⟦README.md⟧부터 읽어 보십시오.
⟦{name}⟧을 지울까요?
⟦%s⟧에서 ⟦%d⟧개를 찾았습니다.
⟦%1$s⟧님이 들어왔습니다.
⟦{{count}}⟧명이 남았습니다.
⟦$HOME⟧에 저장됩니다.
⟦$1⟧에게 편지를 보냈습니다.
⟦%1⟧은 폴더가 아닙니다.
⟦https://example.com/a⟧에서 내려받으십시오.
⟦http://localhost:8080⟧으로 접속합니다.
⟦www.example.org⟧를 참고하십시오.
⟦example.com⟧에 가입했습니다.
⟦user@example.com⟧으로 보내 주십시오.
⟦F5⟧를 누르면 새로 고칩니다.
⟦Ctrl+C⟧로 복사하고 ⟦Ctrl+V⟧로 붙여 넣습니다.
⟦Alt+F4⟧는 창을 닫습니다.
⟦v1.2.3⟧부터 쓸 수 있습니다.
⟦3.11.2⟧에서 고쳤습니다.
⟦192.168.0.1⟧에 연결할 수 없습니다.
⟦snake_case⟧가 더 읽기 쉽습니다.
⟦print_all()⟧을 부르십시오.
⟦os.path⟧는 모듈입니다.
⟦0xFF⟧로 채웁니다.
⟦H264⟧보다 ⟦AV1⟧이 작습니다.
⟦TLS 1.3⟧을 켜십시오.
⟦12345⟧는 비밀번호가 아닙니다.
⟦2026-01-31⟧까지 보내 주십시오.
⟦`git`⟧으로 시작하는 명령입니다.
⟦<b>⟧굵게⟦</b>⟧는 강조입니다.
⟦&lt;⟧는 작다는 뜻입니다.
⟦→⟧를 누르십시오.
⟦*.txt⟧만 보여 줍니다.
파일(⟦&⟧F)을 여십시오.
⟦-Dlog.level=debug⟧로 시작합니다.
켜기/끄기 단추와 예/아니요 물음
한국어/English 가운데 하나를 고르십시오.
오늘은 10월 3일이고 물은 20도입니다.
"""
GERMAN = """
die „config“-Datei, die "config"-Datei und die ‚config‘-Datei
die »config«-Datei
die ⟦{name}⟧-Datei, die ⟦README.md⟧-Datei und die ⟦%s⟧-Werte
Zeilen ein-/ausblenden
Töne an-/abschalten und das Gerät ein-/ausschalten
Groß-/Kleinschreibung beachten
Kopf-/Fußzeile bearbeiten
alle Mitarbeiter/-innen und alle anderen
unsere Leser/-innen und Schüler/-innen
Mitarbeiter_innen und Kolleg_innen
Bitte fragen Sie eine Nutzer_in.
Kosten- und -zeiten
Datum und -uhrzeit
Ordner- oder -dateiname
von Sonnenaufgang bis -untergang
Benutzernamen und -IDs
Er kommt heute, d.h. am Abend.
Das ist so, d. h. es bleibt dabei.
Äpfel, Birnen usw.usf. liegen im Keller.
Gesang a.c. und Dr.h.c. Anna Berg
z.B. u.a. i.d.R. v.l.n.r. s.o. u.U.
Die Stadt hat 1.000.000 Einwohner.
Sie zahlten 12.345.678 Euro.
Das kostet 1.234.567,89 Euro.
Am 17. Mai 2024 um 10.30 Uhr
Am Montag, dem 3. Oktober 2022
eine 30 %ige Lösung
eine 5 %ige und eine 50%ige Lösung
Setzen Sie das %-Zeichen.
[optional] Name der Datei
Sprache [standard] und Farbe [leer]
Das kostet 5 EUR/Monat oder 10 km/h.
Haus-, Hof- und Gartentür
Strg-/Umschalt-Taste drücken
ein E-Mail-Programm und ein UTF-8-Text
Er lief -- wie immer – davon.
§ 5 Abs. 3 Satz 2 BGB
um 12:30 Uhr, von 9-17 Uhr
Tom&Anna, Kaffee & Kuchen
der Ordner dir\\name
[00:12] Guten Tag
Besuchen Sie ⟦www.müller.de⟧ oder schreiben Sie an ⟦info@müller.de⟧.
Drücken Sie ⟦1️⃣⟧ für Ja und ⟦F1⟧ für Hilfe.
Mit ⟦--help⟧ oder ⟦-h⟧ („⟦-h⟧“) sehen Sie die Hilfe.
⟦&⟧Öffnen und ⟦&⟧Über
"""
SAMPLES = [
    *KOREAN.strip().split("\n"),
    *GERMAN.strip().split("\n"),
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
    assert f"| `{spans.name}` | {spans.description} |\n" in page
    assert len(spans.kept) >= 2 and len(spans.not_kept) >= 2
    assert all("⟦" in text for text in spans.kept) and "⟦" not in "".join(spans.not_kept)
    texts = [text.replace("⟦", "").replace("⟧", "") for text in spans.kept]
    for pattern in spans.patterns:
        assert any(re.search(pattern, text) for text in texts), pattern


def test_other_patterns_are_another_version() -> None:
    """Models were trained with these patterns: who changes one counts PATTERNS_VERSION up, and
    then sets PATTERNS_DIGEST to the new one."""
    assert digest_of_patterns() == PATTERNS_DIGEST
    assert PATTERNS_VERSION == 4


SIGNS = st.sampled_from(
    [
        *"aAzFMf019 .,:;?/\\-_+*~#%$@&|<>()[]{}'\"`=\té각ü✓€\u20e3\ufe0f",
        *("Ctrl", "0x", "www.", "com", "://", "Page ", "py", "⌘", "XML 1.0", "12", "abcdef0", "xx"),
        *("<sup>", "ABCDEF01-", "ABCD-", "1.2.3", "$1,000.50", "2024-05-17", "&lt;"),
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


HOSTILE = (
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
    *("Ctrl+C ", "x. ", "a@b.de. ", "$a", "?a=", "$1,000", "1.000.", "xx0", "-a.", "<!-- -", "AB "),
    *("$(a)/", "ü.", "ab_", "&lt;", "__a", "usw.", "1\u20e3", "가a.", "/a", ".a-", "und -a"),
)


def seconds(text: str) -> float:
    """The least processor time, of four, to find the spans of a line and split its sentences."""
    times = []
    for _ in range(4):
        begin = time.process_time()
        split_line(mark_spans(text.encode(), KeepSpec()), 1000, ["en"])
        times.append(time.process_time() - begin)
    return min(times)


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("end", ["", "_"])
def test_the_time_is_proportional_to_the_text(unit: str, end: str) -> None:
    """Four times the text takes at most eight times as long; quadratic time would be sixteen."""
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
        ("a(", "is not a valid regular expression: missing"),
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
