"""Lines in, translations out: a valid one for each, in order, whatever shares the engine."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_up_engine import SHORT, MadeUpEngine, make_run, small_model
from made_up_engine import made_up_translator as made_up
from made_up_engine import small_translator as make

from bytenmt.architectures.registry import ARCHITECTURES
from bytenmt.decoding.interface import Hypothesis, Request, SearchOptions
from bytenmt.decoding.loading import runtime_from_models
from bytenmt.errors import ConfigError, DataError, SettingError
from bytenmt.translation.chunks import cut_text
from bytenmt.translation.glossary import Glossary, Term
from bytenmt.translation.settings import KEEP_SETTINGS, TRANSLATION_SETTINGS
from bytenmt.translation.translator import Translator

CPU = torch.device("cpu")


# Lists of lines.


def test_order_is_kept() -> None:
    draw = random.Random(5)
    lines = ["".join(draw.choices("abcdefgh", k=draw.randrange(1, 40))) for _ in range(40)]
    expected = [f"{line.upper()}0" for line in lines]
    for max_tokens in (1, 150, 10_000):
        assert made_up(max_tokens=max_tokens).translate(lines) == expected


@given(st.lists(st.integers(0, 900), max_size=60), st.integers(1, 5000), st.integers(1, 3))
def test_batches_are_under_the_budget(lengths: list[int], max_tokens: int, beam: int) -> None:
    """Each request once, longest first; more than the budget only alone; half the budget is used
    where there are enough."""
    requests = [Request(b"x" * length, 9, number=index) for index, length in enumerate(lengths)]
    groups = made_up(beam=beam, max_tokens=max_tokens)._by_capacity(requests)
    classes = [(capacity, [request.number for request in some]) for capacity, some in groups]
    order = [index for _, indices in classes for index in indices]
    assert sorted(order) == list(range(len(lengths)))
    assert all(lengths[a] >= lengths[b] for a, b in pairwise(order))
    for capacity, indices in classes:
        cost = beam * (max(lengths[index] for index in indices) + 1)
        assert capacity & (capacity - 1) == 0
        assert capacity * cost <= max_tokens or capacity == 1
        assert len(indices) <= capacity or capacity == 1024 or 2 * capacity * cost > max_tokens
        assert capacity < 2 * len(indices)


@given(st.text(st.sampled_from("a 한é\U0001f600"), max_size=200), st.integers(4, 30))
def test_chunks_make_the_line(text: str, limit: int) -> None:
    """Nothing lost, no chunk over the limit, no character cut, at a space where one is in reach."""
    line = text.encode()
    pieces = cut_text(line, b"", limit)
    assert b"".join(piece + separator for piece, separator in pieces) == line
    for piece, _ in pieces:
        assert len(piece) <= limit
        piece.decode("utf-8")
    start = 0
    for piece, separator in pieces[:-1]:
        reach = line[start + 1 : start + limit + 1]
        assert separator == (b" " if b" " in reach else b"")
        if not separator:
            assert len(piece) > limit - 4
        start += len(piece + separator)
    assert pieces[-1][1] == b""
    assert len(pieces) > 1 or len(line) <= limit


def test_a_long_line_is_the_join_of_its_pieces() -> None:
    translator = make(max_source_bytes=10)
    pieces = [b"one two", b"three", b"abcdefghij", b"kl"]
    first, second, third, fourth = translator.translate(pieces)
    assert translator.translate([b"one two three"]) == [first + b" " + second]
    assert translator.translate([b"three abcdefghijkl"]) == [second + b" " + third + fourth]
    assert made_up(max_source_bytes=10).translate([b"abcdefghij "]) == [b"ABCDEFGHIJ0 "]


@pytest.mark.parametrize("factor, offset", [(0.5, 4), (0.0, 7), (2.0, 0), (0.0, 0)])
def test_the_output_limit(factor: float, offset: int) -> None:
    """At most a * |source| + b bytes, EOS of the source not counted; reached by some line."""
    lines = [bytes([byte]) * n for byte in b"abcde" for n in (1, 6, 11)]
    found = make(max_len_a=factor, max_len_b=offset).translate(lines)
    pairs = zip(lines, found, strict=True)
    assert min(int(factor * len(s)) + offset - len(text) for s, text in pairs) == 0


def test_an_empty_line_asks_no_engine() -> None:
    admitted: list[list[Request]] = []
    translator = made_up(admitted, prefix=b"so ")
    assert translator.translate(["", ""]) == ["", ""]
    assert translator.translate([]) == []
    assert admitted == []


OTHERS: list[tuple[str, dict[str, Any]]] = [("<br/>", {"keep": "placeholders"})]
OTHERS += [(line, {}) for line in ("see https://x.org", "https://x.org 5", "https://x.org か")]
OTHERS += [(line, {}) for line in ("{name}", "a@b", "♪")]


@pytest.mark.parametrize(("line", "settings"), OTHERS)
def test_other_lines_are_translated(line: str, settings: dict[str, Any]) -> None:
    admitted: list[list[Request]] = []
    made_up(admitted, **settings).translate(line)
    assert [[request.source for request in some] for some in admitted] == [[line.encode()]]


def test_settings_that_ask_for_more_than_a_copy_are_heeded() -> None:
    assert made_up(prefix="Siehe ").translate("https://x.org").startswith("Siehe ")
    assert made_up(glossary=Glossary([Term("shop", "Laden")])).translate("shop") == "Laden"


def test_draws_follow_the_number_of_the_line() -> None:
    """Equal lines get different samples, and samples do not depend on how lines are batched."""
    lines = [b"same"] * 4 + [b"other"]
    whole = [result.best.text for result in made_up(sample=True).translate_lines(lines)]
    assert whole == [b"SAME0", b"SAME1", b"SAME2", b"SAME3", b"OTHER4"]
    translator = make(sample=True, seed=3)
    whole = [result.best.text for result in translator.translate_lines(lines)]
    assert len(set(whole[:4])) == 4
    halves = translator.translate_lines(lines[:2]) + translator.translate_lines(lines[2:], first=2)
    assert [result.best.text for result in halves] == whole
    (result,) = made_up(sample=True, max_source_bytes=4).translate_lines([b"same same"])
    first, second = result.chunk_hypotheses
    assert first[0].text != second[0].text


def test_the_prefix_begins_the_first_piece_alone() -> None:
    """And a prefix over the limit is the limit."""
    translator = made_up(prefix=b"so: ", max_source_bytes=5, max_len_a=2.0, max_len_b=0)
    translations = translator.translate(["a", "one two", "abcde fghij"])
    assert translations == ["so: ", "so: ON TWO0", "so: ABCDE0 FGHIJ0"]
    for arch in ARCHITECTURES:
        translations = make(arch, prefix="é").translate(["one", "two three"])
        assert all(text.startswith("é") for text in translations)


def test_an_engine_is_used_again_unless_it_was_broken_off() -> None:
    made: list[MadeUpEngine] = []

    def engine(capacity: int) -> MadeUpEngine:
        made.append(MadeUpEngine(capacity, SearchOptions(), []))
        return made[-1]

    translator = Translator(engine)
    assert translator.translate(["one"]) == translator.translate(["one"]) == ["ONE0"]
    assert [one.capacity for one in made] == [1]
    with pytest.raises(KeyboardInterrupt), translator._engine(1):
        raise KeyboardInterrupt
    assert translator.translate(["one"]) == ["ONE0"] and len(made) == 2


# What a program has in its hands.


def test_the_type_of_a_line_is_that_of_its_translation() -> None:
    """A line is not a list of characters: str for str, bytes for bytes, with and without scores."""
    translator = made_up(beam=2, n_best=2)
    pairs: list[tuple[Any, Any]] = [("두 줄", "두 줄0"), ("두 줄".encode(), "두 줄0".encode())]
    for line, answer in pairs:
        assert translator.translate(line) == answer and translator.translate([line]) == [answer]
        assert translator.n_best(line)[0].text == answer
    assert translator.translate(line for line in ["a", "b"]) == ["A0", "B0"]
    assert translator.n_best(["x", "y"])[1][1] == Hypothesis("Y1", -2.0, -2.0 / 3)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a\nb", "the line contains a line break"),
        (b"\xff", "the line is not valid UTF-8"),
        ([b"", b"\xff"], "line 2 is not valid UTF-8"),
        (["", "\ud800"], "line 2 contains an unpaired surrogate"),
        (["a", 5], "line 2 is of type int: expected str or bytes"),
    ],
)
def test_lines_that_are_none(lines: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        made_up().n_best(lines)


def test_runs_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "luong")
    make_run(tmp_path / "bytenet", "bytenet", 1, ("data.max_source_bytes=30",))
    file = "luong/last.safetensors"
    alone = Translator.load("luong", engine="torch", **SHORT).translate(["one", "two"])
    assert Translator.load(Path(file), engine="torch", **SHORT).translate(["one", "two"]) == alone
    settings: dict[str, Any] = {"beam": 2, "n_best": 2, "prefix": "é", **SHORT}
    both = Translator.load("luong", "bytenet", engine="torch", **settings)
    assert (both.settings.max_source_bytes, both.settings.prefix) == (30, "é".encode())
    assert both.options == SearchOptions(beam=2, n_best=2)
    models = [small_model("luong").float(), small_model("bytenet", 1).float()]
    expected = Translator.from_runtime(runtime_from_models(models, CPU), **settings)
    assert both.n_best(["one", "two"]) == expected.n_best(["one", "two"])


def test_misuse_is_told() -> None:
    """The error of a setting is also a configuration error, raised before a run is loaded."""
    names = ", ".join(sorted(TRANSLATION_SETTINGS | KEEP_SETTINGS))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"prefix": b"\xff"}, "is not valid UTF-8"),
        ({"prefix": "a\n"}, "contains a line break"),
        ({"prefix": b"\r"}, "contains a line break"),
        ({"prefix": 5}, "type int"),
        ({"beams": 3}, f"unknown setting beams: expected one of {names}"),
        ({"sample": "yes"}, "sample is 'yes': expected true or false, got a text"),
        ({"engine": "cuda"}, "'cuda': expected one of auto, torch"),
        ({"device": "gpu"}, "'gpu': expected one of auto, cpu"),
        ({"precision": "fp16"}, "'fp16': expected one of auto, fp32"),
    ]
    for settings, message in wrong:
        with pytest.raises(DataError if "prefix" in settings else ConfigError, match=message):
            Translator.load("none", **settings)
    with pytest.raises(SettingError, match="unknown setting beams"):
        make(beams=3)
    with pytest.raises(ValueError, match="training mode"):
        runtime_from_models([small_model("luong").train()], CPU)
    with pytest.raises(SettingError, match="no run"):
        Translator.load()
