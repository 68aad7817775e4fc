"""The CPU engine with drafts: what comes out is what comes out without, whatever was drafted."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
import reference_drafts
from compiled_calls import from_python
from cpu_engines import model, packed, run, some_requests
from reference_drafts import draft_from_source, draft_from_table, tag_of
from reference_hash import hash_ngram, word_of
from rotation import rotated

from bytenmt.decoding.cpu import engine as numba_cpu
from bytenmt.decoding.cpu.engine import NumbaEngine
from bytenmt.decoding.drafts.lookup import find_match
from bytenmt.decoding.drafts.table import CHAIN, ORDERS, DraftTable, Speculation, empty_table
from bytenmt.decoding.interface import Hypothesis, Options, Request
from bytenmt.decoding.search.drafting import (
    ADAPTIVE,
    DraftParams,
    draft_all,
    keep_profitable,
    may_pay,
)
from bytenmt.decoding.search.state import RUNNING, SearchState
from bytenmt.utf8 import EOS

SEARCHES = {
    "greedy": Options(),
    "sample": Options(sample=True, temperature=1.5, seed=3),
    "top k and p": Options(sample=True, top_k=20, top_p=0.8, temperature=0.7),
    "endless": Options(sample=True, endless=True),
}
DRAFTS = ("right", "one bit off", "any bytes", "ends at once")
# How many bytes are drafted at most, None: as pays; and how many sentences stand side by side.
WIDTHS = ((CHAIN, 4), (None, 1), (1, 4), (None, 4), (5, 1), (CHAIN, 1), (5, 4), (1, 1))


def table_of(texts: list[bytes], slots: int = 1 << 12) -> DraftTable:
    """Drafts what these texts go on with, EOS included."""
    table = empty_table(slots)
    for text in texts:
        whole = text + bytes([EOS])
        for at, order in product(range(len(whole)), ORDERS):
            h = hash_ngram(word_of(whole[:at]), order)
            slot = h * slots >> 64
            chain = whole[at : at + CHAIN]
            table.tag[slot] = tag_of(h)
            table.chain[slot] = int.from_bytes(chain, "little")
            table.reach[slot] = [240 - 20 * j if j < len(chain) else 0 for j in range(CHAIN)]
    table.copy[1:] = np.linspace(250, 30, CHAIN)
    return table


def drafting(texts: list[bytes], what: str) -> DraftTable:
    table = table_of(texts)
    if what == "one bit off":
        return table._replace(chain=table.chain ^ np.uint64(0x0101010101010101))
    if what == "any bytes":
        words = np.random.default_rng(0).integers(0, 1 << 63, len(table.chain))
        return table._replace(chain=words.astype(np.uint64))
    if what == "ends at once":
        return table._replace(chain=np.full_like(table.chain, ~np.uint64(0)))
    return table


def plainly(results: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
    return [[hypothesis._replace(passes=0) for hypothesis in of] for of in results]


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", ["bytenet", "convs2s", "convs2s-uneven", "bytenet-multiplicative-alone"])
def test_texts_and_scores_are_to_the_last_bit_those_without_drafts(name: str, search: str) -> None:
    """Drafts that are right, wrong or no text at all, as many as pay or a fixed number, sentences that go on
    by different numbers of bytes and take each other's places."""
    one, options = packed(model(name)), SEARCHES[search]
    requests = some_requests(9, source=not name.endswith("alone"), limit=60)
    expected = run(NumbaEngine([one], options, 4), requests)
    texts = [hypotheses[0].text for hypotheses in expected]
    n_bytes = sum(map(len, texts)) + len(texts)
    assert all(hypotheses[0].passes == 0 for hypotheses in expected)
    for what, (most, capacity) in rotated(DRAFTS, WIDTHS, 3):
        speculation = Speculation(drafting(texts, what), most)
        threads = 2 if most == CHAIN else 1
        results = run(NumbaEngine([one], options, capacity, threads, speculation), requests)
        assert plainly(results) == expected, (what, most, capacity)
        passes = sum(hypotheses[0].passes for hypotheses in results)
        assert passes <= n_bytes
        if what == "right" and most == CHAIN:
            assert 2 * passes < n_bytes


def test_a_forced_prefix_takes_a_pass_for_nine_bytes() -> None:
    prefix = "각🙂abcdefghijklmnopqrs".encode()
    assert len(prefix) + 1 == 3 * (CHAIN + 1)  # EOS is behind it
    request = Request(b"abc", len(prefix), prefix)
    for name in ("bytenet", "convs2s"):
        one = packed(model(name))
        expected = run(NumbaEngine([one], Options(), 1), [request])
        results = run(
            NumbaEngine([one], Options(), 1, speculation=Speculation(empty_table(), CHAIN)), [request]
        )
        assert plainly(results) == expected
        assert results[0][0].passes == 3


def test_models_that_vote_check_the_same_drafts() -> None:
    models = [packed(model("bytenet")), packed(model("convs2s")), packed(model("convs2s", seed=1))]
    requests = some_requests(7, limit=40)
    expected = run(NumbaEngine(models, Options(), 3), requests)
    for what in DRAFTS:
        table = drafting([hypotheses[0].text for hypotheses in expected], what)
        results = run(NumbaEngine(models, Options(), 3, speculation=Speculation(table, 4)), requests)
        assert plainly(results) == expected


@pytest.mark.slow
def test_what_is_drafted_is_what_the_table_says() -> None:
    """The compiled look-up and copying against Table.draft; a small table, so that slots are fought for."""
    draw = random.Random(1)
    lines = ["".join(draw.choices("ab c각🙂", k=40)).encode() for _ in range(30)]
    table = table_of(lines[:20], slots=1 << 9)
    table.reach[:] = np.sort(np.random.default_rng(0).integers(0, 256, table.reach.shape))[:, ::-1]
    table.copy[1:] = np.sort(np.random.default_rng(1).integers(0, 256, (8, CHAIN)))[:, ::-1]
    drafts = DraftParams.from_speculation(Speculation(table, CHAIN), 9)
    search = SearchState.allocate(1, 1, 1, length=400, prefix=0, source=400, n_rows=9)
    seen, draft = set(), from_python(draft_all)
    for line, source in product(lines[::2], (b"", lines[3], lines[25])):
        at = draw.randrange(len(line))
        search.begin(0, 300, b"", None, source)
        search.step[0] = at
        search.history_byte[0, :at, 0] = list(line[:at])
        draft(search, drafts)
        expected = reference_drafts.draft(table, word_of(line[:at]), source)
        n = int(search.n_drafted[0])
        assert search.drafted[0, :n].tobytes() == expected.text
        assert np.allclose(search.draft_chance[0, :n] * 255, expected.reach)
        copied, own = (
            draft_from_source(table, word_of(line[:at]), source),
            draft_from_table(table, word_of(line[:at])),
        )
        seen.add((expected == copied, expected == own))
    assert {(True, False), (False, True)} <= seen


def test_a_match_is_the_longest_one_and_the_last_of_those() -> None:
    for source, text, expected in [
        (b"abcabd", b"xab", (5, 2)),
        (b"abcab", b"xab", (2, 2)),
        (b"abc", b"c", (0, 0)),
        (b"0123456789", b"012345678", (9, 8)),
        (b"", b"a", (0, 0)),
        (b"aab", b"", (0, 0)),
    ]:
        assert find_match(np.frombuffer(source, np.uint8), np.uint64(word_of(text))) == expected


@pytest.mark.slow
def test_so_many_drafted_bytes_are_read_as_give_the_most_bytes_a_second() -> None:
    """Against all ways to take the first few drafted bytes of each of three sentences."""
    draw, take = np.random.default_rng(5), from_python(keep_profitable)
    for trial in range(40):
        search = SearchState.allocate(3, 1, 1, 100, 0, n_rows=3 + 3 * CHAIN)
        search.state[:] = RUNNING
        search.n_drafted[:] = draw.integers(0, 6, 3)
        search.draft_chance[:] = np.sort(draw.uniform(0.03, 1, (3, CHAIN)), axis=1)[:, ::-1]
        drafts = DraftParams.from_speculation(Speculation(empty_table()), len(search.rows))
        drafts.price[:] = 1 + np.cumsum(draw.uniform(0, 0.3 if trial % 2 else 1.5, len(drafts.price)))
        candidates = search.n_drafted.tolist()

        def rate(
            counts: tuple[int, ...], search: SearchState = search, drafts: DraftParams = drafts
        ) -> float:
            expected = sum(search.draft_chance[i, :n].sum() for i, n in enumerate(counts))
            return float((3 + expected) / drafts.price[3 + sum(counts)])

        best = max(product(*(range(n + 1) for n in candidates)), key=rate)
        take(search, drafts, 3, len(search.rows) - 3)
        assert abs(rate(tuple(search.n_drafted.tolist())) - rate(best)) < 1e-12


@pytest.mark.slow
def test_where_a_row_costs_as_much_as_any_nothing_is_tried() -> None:
    search = SearchState.allocate(2, 1, 1, 100, 0, n_rows=18)
    search.state[:], search.n_drafted[:], search.draft_chance[:] = RUNNING, CHAIN, 0.95
    drafts = DraftParams.from_speculation(Speculation(empty_table()), 18)
    assert drafts.most == ADAPTIVE
    drafts.price[:] = np.arange(19)
    from_python(keep_profitable)(search, drafts, 2, 16)
    assert search.n_drafted.tolist() == [0, 0]
    pays = from_python(may_pay)
    assert not pays(drafts, 2, 16)
    drafts.price[12:] = 11.0  # a wide pass for little more
    assert pays(drafts, 2, 16)
    assert not pays(drafts, 2, 9)


def test_prices_are_measured_again_when_the_engine_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_cpu, "MEASURED_FOR", 1)
    one, requests = packed(model("convs2s")), some_requests(6, limit=60)
    expected = run(NumbaEngine([one], Options(), 2), requests)
    table = drafting([hypotheses[0].text for hypotheses in expected], "right")
    engine = NumbaEngine([one], Options(), 2, speculation=Speculation(table))
    for _ in range(3):
        engine._batch.drafts.price[:] = 0
        assert plainly(run(engine, requests)) == expected
        assert (np.diff(engine._batch.drafts.price) >= 0).all() and engine._batch.drafts.price[1] > 0


def test_beams_and_recurrent_models_are_refused() -> None:
    speculation = Speculation(empty_table(), 2)
    with pytest.raises(ValueError, match="expected beam 1"):
        NumbaEngine([packed(model("bytenet"))], Options(beam=2), 1, speculation=speculation)
    with pytest.raises(ValueError, match="convolutional"):
        NumbaEngine([packed(model("luong"))], Options(), 1, speculation=speculation)
