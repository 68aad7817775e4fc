"""Test what becomes of kept spans, codes and terms between a line and its translation."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_engine import made_up_translator, make_run

from bytenmt.decoding.interface import Hypothesis, Request
from bytenmt.decoding.search.state import sentinel_numbers
from bytenmt.errors import DataError, SettingError
from bytenmt.sentinels import SENTINELS, Code
from bytenmt.translation import kept_spans
from bytenmt.translation.chunks import split_line
from bytenmt.translation.glossary import Glossary, Term
from bytenmt.translation.kept_spans import (
    KeepSpec,
    KeptSpan,
    TextOrCode,
    encode_parts,
    mark_prefix,
    mark_spans,
    merge_texts,
    restore_spans,
    separate_spans,
)
from bytenmt.translation.line_batch import PLACEMENT, LineBatch
from bytenmt.translation.settings import Settings
from bytenmt.translation.translator import Translator

BOLD, END, ALONE = Code("<g 1>", 1, True), Code("</g 1>", 1), Code("<x/>")
TEXTS = ["a", "각 ", ". ", "B", "\ue000", "🙂", "%s", "<b>", "</b>", "{x}", "  ", "http://a.b"]
TEXTS += ["\u3000", "。", "!", "____", "....!!!!", "_"]
PIECES: st.SearchStrategy[TextOrCode] = st.sampled_from([*TEXTS, BOLD, END, ALONE])


def restored(data: bytes, spans: Sequence[KeptSpan]) -> str:
    """A translation with the texts of its kept spans."""
    return encode_parts(restore_spans(data, spans)).decode()


def shown(data: bytes) -> str:
    """A text with the numbers of its sentinels in brackets."""
    for number in range(8):
        data = data.replace(SENTINELS[number : number + 1], b"[%d]" % number)
    return data.decode()


@given(st.lists(PIECES, max_size=40), st.integers(4, 60), st.sampled_from([(), ("en",), ("ko",)]))
def test_marks_come_back(parts: list[TextOrCode], limit: int, languages: tuple[str, ...]) -> None:
    """Chunks have up to eight sentinels, numbered in their order, and pairs in their order; where
    each is written where it was, texts and codes are those of the line."""
    back: list[TextOrCode] = []
    for chunk in split_line(mark_spans(parts, KeepSpec()), limit, languages):
        separator = chunk.separator.decode()
        own = restore_spans(chunk.source, chunk.spans)
        back += [*own, separator]
        assert not separator.strip() and len(chunk.spans) <= 8
        assert sentinel_numbers(chunk.source) == [*range(len(chunk.spans))]
        assert all(0 <= first < second < len(chunk.spans) for first, second in chunk.pairs)
        assert len(chunk.source) <= limit or len(chunk.source) <= 4
        text = "".join(part if isinstance(part, str) else part.text for part in own)
        assert chunk.text.decode() == restored(chunk.source, chunk.spans) == text
    assert merge_texts(back) == merge_texts(parts)


@pytest.mark.parametrize(
    ("parts", "source", "pairs"),
    [
        (["Press <b>{key}</b> now"], "Press [0] now", ()),  # nothing is between them
        (["Press <b>the {key}</b>{x} now"], "Press [0]the [1] now", ((0, 1),)),
        (["<b>a <i>b</i></b> <i>c</i>"], "[0]a [1]b[2] [3]c[4]", ((0, 2), (1, 2), (3, 4))),
        (["<b>a</b><b>c</b>"], "[0]a[1]c[2]", ((0, 1), (1, 2))),
        (["a ", BOLD, "b", END, ALONE, " c"], "a [0]b[1] c", ((0, 1),)),
        (["a ", BOLD, "{x}", END, "c"], "a [0]c", ()),
        # Closed before it is opened.
        ([END, "a", BOLD, " b", Code("</g 2>", 2), "c"], "[0]a[1] b[2]c", ()),
        (["\ue000 {x}\ue001"], "\ue000 [0]\ue001", ()),
        ([], "", ()),
    ],
)
def test_marked(parts: list[TextOrCode], source: str, pairs: tuple[tuple[int, int], ...]) -> None:
    (chunk,) = split_line(mark_spans(parts, KeepSpec()), 1000)
    assert (shown(chunk.source), chunk.pairs) == (source, pairs)


def test_a_ninth_span_begins_a_chunk() -> None:
    line = "one " + " two ".join(f"{{{k}}}" for k in range(9)) + " <b>x</b>"
    first, second = split_line(mark_spans(line.encode(), KeepSpec()), 1000)
    assert shown(first.source).endswith("two [7] two") and shown(second.source) == "[0] [1]x[2]"
    assert second.pairs == ((1, 2),) and first.separator == b" "
    line = "a".join(["<b>"] + ["{x}"] * 7 + ["</b>"])
    _, second = split_line(mark_spans(line.encode(), KeepSpec()), 1000)
    assert second.pairs == ()


TABLE = (
    "server=dienst|mail server=Mailer|tab=Reiter|city=Stadt|Haus=house|Polish=polnisch"
    "|polish=polieren|서버=server|c++=C-Plus|x=<y>|tab=never|über uns=about us"
)
TERMS = Glossary(Term(*row.split("=")) for row in TABLE.split("|"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("the server", "the dienst"),
        ("The Server of SERVERS", "The dienst of dienst"),
        # A capital where a sentence begins.
        ("Servers. Server! A server", "Dienst. Dienst! A dienst"),
        ("(“Server.”) Server", "(“Dienst.”) Dienst"),
        ("<b>Server</b> %s Server", "<b>Dienst</b> %s dienst"),
        ("a mail server, mail-server", "a Mailer, mail-dienst"),
        ("tabs and tables, a Tab.", "Reiter and tables, a Reiter."),
        ("cities", "Stadt"),
        ("Häuser, Hauses, haus", "House, house, haus"),  # with a capital only as it is written
        ("Polish the polish", "Polnisch the polieren"),
        ("서버에서 서버를, 서버는. 웹서버", "server에서 server를, server는. 웹서버"),
        ("C++ and c", "C-Plus and c"),
        ("Über uns", "About us"),
        ("see http://server/tab and my_server", "see http://server/tab and my_server"),
    ],
)
def test_terms(line: str, expected: str) -> None:
    """The longest at each place, in the forms that glossary.ENDINGS names; where each stands where
    it was."""
    (chunk,) = split_line(mark_spans(line.encode(), KeepSpec(glossary=TERMS)), 1000)
    assert restored(chunk.source, chunk.spans) == expected
    assert chunk.text.decode() == line


def test_a_glossary_of_many_terms(tmp_path: Path) -> None:
    """A table, with remarks and a byte order mark, or a CSV; the first of several targets."""
    table, other = tmp_path / "terms.tsv", tmp_path / "terms.csv"
    lines = [f"word{k} of {k % 7}\tWort {k}|!x|Wörter\tremark" for k in range(5000)]
    table.write_text("\ufeff# Remark\n\n" + "\r\n".join(lines) + "\nno\t!nein\n", encoding="utf-8")
    terms = Glossary.from_file(table)
    assert len(terms.terms) == 5000 and not terms.find("no")
    found = terms.find("word9 of 2, word4999 of 1 or word4999 of 2")
    assert [term.target for term in found.values()] == ["Wort 9", "Wort 4999"]
    other.write_text('"a, b","c ""d"""\n', encoding="utf-8")
    assert Glossary.from_file(other).terms == [Term("a, b", 'c "d"')]
    for wrong in ("a\n", "\tb\n", "a\t\n", "a\tb\na\tb|\n"):
        table.write_text(wrong)
        with pytest.raises(DataError, match=r"terms.tsv, line \d: expected `term TAB target`"):
            Glossary.from_file(table)
    table.write_bytes(b"a\t\xff\n")
    with pytest.raises(DataError, match="line 1 is not valid UTF-8: convert the file"):
        Glossary.from_file(table)
    with pytest.raises(DataError, match="none cannot be read"):
        KeepSpec.from_settings(glossary=tmp_path / "none")


# ---- between lines and engines


def test_a_line_of_parts_is_translated() -> None:
    """Its codes are where their sentinels were written; a term near them follows the beginning."""
    one = made_up_translator(glossary=TERMS, max_source_bytes=200)
    line: list[TextOrCode] = [BOLD, "Server ", END, "at {place}", ALONE, "."]
    (result,) = one.translate_lines([line])
    assert result.parts == [BOLD, "Dienst ", END, "AT {place}", ALONE, ".0"]
    assert result.best.text == b"<g 1>Dienst </g 1>AT {place}<x/>.0"
    assert result.source == b"<g 1>Server </g 1>at {place}<x/>."
    assert result.best.flags == ()


def test_equal_chunks_of_other_spans_are_one_request() -> None:
    admitted: list[list[Request]] = []
    one = made_up_translator(admitted, keep="placeholders,tags")
    assert one.translate(["a {x}", "a {y}", "a <b>"]) == ["A {x}0", "A {y}0", "A <b>0"]
    assert [request.source for some in admitted for request in some] == [b"a " + SENTINELS[:1]]


COPIED = (
    "✓;2.200.112;+49 30 1234567;3.2.1;A1;§ 5;12.03.2024;1,000 %;👍 👍;「…」;;%s: {x};<b>{name}</b>"
    ";README.md, 5;Ctrl+C;https://a.org;(info@a.org);\ue000 \uf8ff"
    ";{n, plural, one {# file} other {# files}}"
)
ALWAYS_COPIED = (
    "http://localhost/a?b=1; info@x.org\t;<https://x.org>, (www.x.org) – a@x.org.;- - -;「…」;"
)


@pytest.mark.parametrize(("keep", "lines"), [({"keep_pattern": "zz"}, COPIED), ({}, ALWAYS_COPIED)])
def test_what_has_nothing_to_translate_is_copied(keep: dict[str, Any], lines: str) -> None:
    """Models that were trained with sentinels copy more; no engine is asked; it costs nothing."""
    admitted: list[list[Request]] = []
    one = made_up_translator(admitted, **keep)
    for line in lines.split(";"):
        (best,) = one.n_best(line)
        assert (best.text, best.log_probability, best.flags) == (line, 0.0, () if keep else None)
    assert not admitted
    # A model of dates and numbers translates them.
    assert made_up_translator().translate("A1") == "A10"


def test_characters_for_private_use_are_text() -> None:
    one = made_up_translator(keep_pattern="zz")
    line = "a \ue000b{x} \ue001\uf8ff. \U000f0000 c \ue000. D"
    assert one.translate(line) == line.upper().replace("{X}", "{x}") + "0"
    with pytest.raises(DataError, match="unpaired surrogate"):
        one.translate("a \udcf5")
    with pytest.raises(DataError, match="not valid UTF-8"):
        one.translate(b"a \xf5")


def test_a_prefix_has_what_it_has() -> None:
    """Spans in a forced beginning are not written again."""
    spans = [KeptSpan("{x}", ("{x}",)), KeptSpan("%s", ("%s",)), KeptSpan("%s", ("%s",))]
    spans += [KeptSpan("Server", (Term("Server", "dienst"),)), KeptSpan("", (Code(""),))]
    for prefix, expected in (
        ("so {x}, %s %s %s", "so [0], [1] [2] %s"),
        ("{x", "{x"),
        ("", ""),
        ("Dienst %s", "[3] [1]"),
        ("der Dienst", "der Dienst"),  # which the term would become "dienst" there
    ):
        assert shown(mark_prefix(prefix.encode(), spans)) == expected
        assert restored(mark_prefix(prefix.encode(), spans), spans) == prefix
    one = made_up_translator(keep="placeholders", prefix="Zu {x}: ")
    assert one.translate("a {y} {x}") == "Zu {x}: A {y} {x}0"  # this engine writes all again
    (request,) = one.batch([b"a {y} {x}"]).requests
    assert request.prefix == b"Zu " + SENTINELS[1:2] + b": "


def test_what_the_model_would_have_left_out_is_flagged() -> None:
    """And only with models that keep something."""
    spec = KeepSpec(glossary=Glossary([Term("server", "ıß")]))
    for keep, flags in ((spec, (PLACEMENT,)), (None, None)):
        batch = LineBatch(["a {x} Server. Server ß".encode()], Settings(keep=keep))
        (request,) = batch.requests
        batch.add(request, [Hypothesis(request.source or b"", -2.0, -1.0, is_past_end=True)])
        assert batch.results()[0].best.flags == flags


def test_a_line_has_the_flags_of_its_chunks() -> None:
    """A chunk that was translated past its end flags the line; the others keep no flag."""
    batch = LineBatch([b"One. {x} two."], Settings(keep=KeepSpec(), languages=("en",)))
    with pytest.raises(ValueError, match="all requests first"):
        batch.results()
    for request in batch.requests:
        is_past_end = b"two" in (request.source or b"")
        batch.add(request, [Hypothesis(request.source or b"", -2.0, -1.0, is_past_end=is_past_end)])
    (result,) = batch.results()
    assert [best.flags for (best,) in result.chunk_hypotheses] == [(), (PLACEMENT,)]
    assert result.best.flags == (PLACEMENT,) and result.best.text == b"One. {x} two."
    assert batch.results() == [result]


# ---- models


def test_models_without_sentinels_refuse_to_keep(tmp_path: Path) -> None:
    plain = make_run(tmp_path / "plain")
    taught = make_run(tmp_path / "taught", settings=("data.sentinels=0.2",))
    wishes: list[dict[str, Any]] = [{"keep": "tags"}, {"keep_pattern": "a"}, {"glossary": TERMS}]
    message = r"^.*need a model that was trained with sentinels.*\Z"
    for wish in wishes:
        for runs in ((plain,), (taught, plain)):
            with pytest.raises(SettingError, match=message):
                Translator.load(*runs, engine="torch", **wish)
        assert Translator.load(taught, engine="torch", **wish).settings.keep is not None
    without: list[dict[str, Any]] = [{}, {"keep": "none"}, {"keep": ""}, {"keep_pattern": []}]
    for nothing in without:
        assert Translator.load(plain, engine="torch", **nothing).settings.keep is None
    keep = Translator.load(taught, engine="torch", keep="none").settings.keep
    (none,) = split_line(mark_spans(b"<b> {x}", keep), 99)
    assert none.source == b"<b> {x}"


def test_the_default_beam_is_that_of_sentinels(tmp_path: Path) -> None:
    taught = make_run(tmp_path / "taught", settings=("data.sentinels=0.2",))
    settings: list[dict[str, Any]] = [{}, {"beam": 1}, {"beam": 2}, {"sample": True}]
    for named, beam in zip(settings, (4, 1, 2, 1), strict=True):
        assert Translator.load(taught, engine="torch", **named).options.beam == beam
    assert Translator.load(make_run(tmp_path / "plain"), engine="torch").options.beam == 1


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", r"(\w+\s?)+$x"])
def test_a_pattern_that_takes_for_ever(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with an error that names the line; a usual line is not touched."""
    monkeypatch.setattr(kept_spans, "PATTERN_SECONDS", 0.2)
    translator = made_up_translator(keep_pattern=pattern)
    assert translator.translate("one") == "ONE0"
    with pytest.raises(SettingError, match="take more than 0.2 s on the line 'aaaa.*: avoid"):
        translator.translate("a" * 60)
    assert signal.getsignal(signal.SIGVTALRM) == signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        (b"the \xf5 list", b"die Liste.\xf5Listen", b"die Liste. \xf5 Listen"),
        (b"a \xf5. b", b"ab\xf5.", b"ab \xf5."),
        (b"\xf5one\xf6 two", b"eins zwei\xf5\xf6", b"eins zwei \xf5\xf6"),
        (b"x-\xf5 \xf6", b"x\xf5\xf6", b"x\xf5 \xf6"),
        (b"\xf5 is", b"\xf5" + "는".encode(), b"\xf5" + "는".encode()),
    ],
)
def test_spans_past_the_end_do_not_touch_words(
    source: bytes, output: bytes, expected: bytes
) -> None:
    """A space stands where the source has one; other scripts' particles stay at a span."""
    assert separate_spans(output, source) == expected
