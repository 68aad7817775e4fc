"""Drafts in the PyTorch engines: whatever is drafted, the bytes are those of the steps without drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import invariants
import numpy as np
import pytest
import torch
from fast_variants import by_variant
from invariants import PARALLEL, VARIANTS, WITH_SOURCE, AnyModel
from made_up import may_follow
from reference_drafts import tag_of
from reference_hash import hash_ngram, word_of

from bytenmt.decoding.drafts import table as draft
from bytenmt.decoding.drafts.table import CHAIN, ORDERS, DraftTable, Speculation
from bytenmt.decoding.interface import Engine, Hypothesis, Options, Request
from bytenmt.decoding.pytorch import cuda_graph
from bytenmt.decoding.pytorch import engine as torch_engine
from bytenmt.decoding.pytorch.cuda_graph import CudaGraphEngine
from bytenmt.decoding.pytorch.draft_width import WIDTHS, best_width, seconds
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.decoding.scheduler import decode
from bytenmt.decoding.search.batch import SearchBatch
from bytenmt.decoding.search.host_search import HostSearch
from bytenmt.decoding.search.state import RUNNING
from bytenmt.utf8 import BOS, EOS

CPU = torch.device("cpu")
GREEDY = Options()
MANY_OPTIONS = [
    GREEDY,
    Options(sample=True, temperature=1.3, top_k=40, top_p=0.9, seed=5),
    Options(sample=True, length_penalty=0.5),
    Options(endless=True),
]
# Greedy is tested everywhere.
PAIRS = list(zip(PARALLEL, cycle(MANY_OPTIONS[1:]), strict=False))


def peaky(name: str) -> AnyModel:
    return invariants.build(VARIANTS[name], seed=11, scale=0.9)


def requests_for(lengths: Sequence[int], limits: Sequence[int], source: bool = True) -> list[Request]:
    """Sources of these lengths; every third begins as it is told, two of them up to the limit."""
    plain = invariants.some_requests(list(lengths), list(limits))
    prefixes = [b"", b"ab", "é한".encode()]
    return [
        r._replace(prefix=prefixes[i % 3][: r.limit], number=i, source=r.source if source else None)
        for i, r in enumerate(plain)
    ]


def some_requests(name: str) -> list[Request]:
    """Unequal in everything, one with the least limit, one that is forced up to its limit."""
    return requests_for([7, 3, 5, 70, 9, 4], [21, 9, 6, 30, 0, 5], VARIANTS[name].get("source", True))


def results(engine: Engine, requests: list[Request]) -> list[list[Hypothesis]]:
    actual = dict(decode(engine, requests))
    return [actual[i] for i in range(len(requests))]


def one_each(engine: Engine, requests: list[Request]) -> list[Hypothesis]:
    return [hypotheses[0] for hypotheses in results(engine, requests)]


def assert_same(actual: list[Hypothesis], expected: list[Hypothesis]) -> None:
    """Bytes to the last one, scores to rounding."""
    assert [h.text for h in actual] == [h.text for h in expected]
    for one, other in zip(actual, expected, strict=True):
        assert one[1:3] == pytest.approx(other[1:3], abs=1e-9)


# ---- tables


def table_of(chains: dict[bytes, tuple[bytes, Sequence[int]]], slots: int = 1 << 12) -> DraftTable:
    """Contexts of as many bytes as some order, and what follows with which reach."""
    table = draft.empty_table(slots)
    for context, (chain, reach) in chains.items():
        h = hash_ngram(int.from_bytes(context, "big"), len(context))
        slot = h >> 64 - (slots.bit_length() - 1)
        table.tag[slot] = tag_of(h)
        table.chain[slot] = int.from_bytes(chain.ljust(8, b"\0"), "little")
        table.reach[slot] = [*reach, *[0] * (CHAIN - len(reach))]
    return table


def falling(generator: np.random.Generator, n: int) -> list[int]:
    return sorted(generator.integers(1, 256, n).tolist(), reverse=True)


def random_table(texts: Sequence[bytes], seed: int, slots: int = 1 << 12) -> DraftTable:
    """Chains, many of them wrong, behind places of these texts."""
    generator = np.random.default_rng(seed)
    chains: dict[bytes, tuple[bytes, Sequence[int]]] = {}
    for text in texts:
        for at in range(len(text) + 1):
            for order in ORDERS:
                if generator.random() < 0.4:
                    context = word_of(text[:at]).to_bytes(8, "big")[8 - order :]
                    follows = bytearray((text[at:] + bytes([EOS]))[: int(generator.integers(1, CHAIN + 1))])
                    if generator.random() < 0.5:
                        follows[generator.integers(len(follows))] = generator.integers(256)
                    chains[context] = bytes(follows), falling(generator, len(follows))
    table = table_of(chains, slots)
    for length in range(1, 9):
        n = int(generator.integers(0, CHAIN + 1))
        table.copy[length, :n] = falling(generator, n)
    return table


# ---- the same bytes as without drafts


@pytest.mark.slow
@by_variant(("name", "options"), PAIRS + [(name, GREEDY) for name in PARALLEL])
def test_drafts_change_nothing(name: str, options: Options) -> None:
    """Tables that are often right and often wrong, at any width; places that are taken again."""
    model, requests = peaky(name), some_requests(name)
    expected = one_each(TorchEngine([model], options, 3, CPU), requests)
    assert all(h.passes == 0 for h in expected)
    table = random_table([h.text for h in expected], seed=1)
    n_saved = 0
    for most, capacity in ((3, 6), (8, 2)):
        speculation = Speculation(table, most)
        actual = one_each(TorchEngine([model], options, capacity, CPU, speculation), requests)
        assert_same(actual, expected)
        assert all(1 <= h.passes <= len(h.text) + 1 for h in actual)
        n_saved += sum(len(h.text) + 1 - h.passes for h in actual)
    assert n_saved > 10, "the test means nothing unless some drafts are right"


@pytest.mark.slow
@pytest.mark.parametrize("options", MANY_OPTIONS[:2])
def test_drafts_change_nothing_of_what_several_decide(options: Options) -> None:
    models, requests = (
        [peaky(name) for name in WITH_SOURCE if name in PARALLEL],
        some_requests("convs2s"),
    )
    expected = one_each(TorchEngine(models, options, 6, CPU), requests)
    speculation = Speculation(random_table([h.text for h in expected], seed=2), 4)
    assert_same(one_each(TorchEngine(models, options, 4, CPU, speculation), requests), expected)


def rehearsed(step: Callable[[], None]) -> Callable[[], None]:
    """A capture without recording."""
    for _ in range(3):
        step()
    return step


@pytest.mark.slow
@by_variant(("name", "options"), list(zip(PARALLEL, cycle(MANY_OPTIONS), strict=False)))
def test_drafts_change_nothing_at_fixed_places(name: str, options: Options) -> None:
    """With a longer source and a longer output that come while others run."""
    model, requests = peaky(name), some_requests(name)
    expected = one_each(TorchEngine([model], options, 6, CPU), requests)
    speculation = Speculation(random_table([h.text for h in expected], seed=3), 5)
    engine = CudaGraphEngine([model], options, 3, CPU, rehearsed, speculation)
    assert_same(one_each(engine, requests), expected)
    assert_same(one_each(engine, requests[::-1]), expected[::-1])


@pytest.mark.parametrize("fixed", [False, True])
def test_a_sentence_has_its_own_source(fixed: bool) -> None:
    """The source to copy from moves with its sentence when slots change."""
    drafts = Speculation(draft.empty_table(), 2)
    engine: Any = (
        CudaGraphEngine([peaky("convs2s")], GREEDY, 3, CPU, rehearsed, drafts)
        if fixed
        else TorchEngine([peaky("convs2s")], GREEDY, 3, CPU, drafts)
    )
    requests = invariants.some_requests([70, 9, 5, 30], [1, 40, 2, 40])
    handles = engine.admit(requests[:3])
    ended: list[int] = []
    while len(ended) < 2:
        engine.advance(1)
        ended += [handle for handle, _ in engine.finished()]
    assert ended == [handles[0], handles[2]], "the test means nothing unless one goes on between two"
    handles += engine.admit(requests[3:])
    state = engine._search.state
    running = sorted(
        state.source[slot, : state.n_source[slot]].tobytes()
        for slot in np.flatnonzero(state.state == RUNNING)
    )
    assert running == sorted(requests[which].source or b"" for which in (1, 3))


# ---- drafts made to harm


ADMIT = SearchBatch.admit


class Oracle:
    """Drafts by what the text will be: `spoil` makes them of the bytes that come, EOS last, and the step."""

    def __init__(self, texts: Sequence[bytes], spoil: Callable[[bytes, int], bytes]) -> None:
        self.texts = [text + bytes([EOS]) for text in texts]
        self.spoil = spoil
        self.numbers: dict[int, int] = {}  # of the request in each slot

    def draft(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the search of the PyTorch engine take its drafts from here."""

        def admit_and_note(batch: SearchBatch, requests: list[Request]) -> tuple[list[int], list[int]]:
            handles, slots = ADMIT(batch, requests)
            self.numbers.update(zip(slots, (request.number for request in requests), strict=True))
            return handles, slots

        monkeypatch.setattr(SearchBatch, "admit", admit_and_note)
        monkeypatch.setattr(HostSearch, "draft_bytes", lambda search: self(search))

    def __call__(self, search: HostSearch) -> None:
        state, width = search.state, search.drafts.most
        for slot in np.flatnonzero(state.state == RUNNING):
            step = int(state.step[slot])
            coming = self.texts[self.numbers[int(slot)]][step:]
            draft = self.spoil(coming, step).ljust(width, b"\x80")[:width]
            state.drafted[slot, :width], state.n_drafted[slot] = list(draft), width


HARM: dict[str, Callable[[bytes, int], bytes]] = {
    "right": lambda coming, step: coming,
    "wrong": lambda coming, step: bytes((byte + 1) % 256 for byte in coming),
    "invalid": lambda coming, step: b"\xc0\xff\xfe\xed\xa0\x80\xf5\x80",
    "ends": lambda coming, step: bytes([EOS] * 8),
    "ends early": lambda coming, step: coming[: step % 3] + bytes([EOS]) * 2 + coming,
    "never ends": lambda coming, step: coming[:-1] + b"aaaaaaaa",
    "broken off": lambda coming, step: coming[: step % 4] + b"\xe2\x82" + coming,
    "line ends": lambda coming, step: coming[:1] + b"\n\r\n\r",
    "one wrong": lambda coming, step: coming[: step % 5] + b"~" + coming[step % 5 + 1 :],
}


@pytest.mark.slow
@pytest.mark.parametrize(("harm", "name"), list(zip(HARM, cycle(["bytenet", "convs2s-alone"]), strict=False)))
def test_no_draft_can_harm(harm: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the passes are as few, or as many, as the draft deserves."""
    model, requests = peaky(name), some_requests(name)
    expected = one_each(TorchEngine([model], GREEDY, 6, CPU), requests)
    oracle = Oracle([h.text for h in expected], HARM[harm])
    oracle.draft(monkeypatch)
    for m in (2, 8):
        actual = one_each(TorchEngine([model], GREEDY, 4, CPU, Speculation(draft.empty_table(), m)), requests)
        assert_same(actual, expected)
        n_choices = [len(h.text) + 1 for h in expected]
        if harm == "right":
            assert [h.passes for h in actual] == [-(-n // (m + 1)) for n in n_choices]
        if harm == "wrong":
            assert [h.passes for h in actual] == n_choices


@pytest.mark.parametrize("limit", range(7))
def test_drafts_near_the_limit(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole characters and never a byte too many, with drafts that go on over it."""
    model = invariants.build(VARIANTS["convs2s"], seed=1, scale=0.3)
    requests = [Request(b"source", limit, number=i) for i in range(6)]
    options = Options(sample=True, temperature=3.0)
    expected = one_each(TorchEngine([model], options, 6, CPU), requests)
    for spoil in (lambda coming, step: coming[:-1] + "한국어".encode(), HARM["right"], HARM["ends"]):
        oracle = Oracle([h.text for h in expected], spoil)
        oracle.draft(monkeypatch)
        actual = one_each(
            TorchEngine([model], options, 6, CPU, Speculation(draft.empty_table(), 8)), requests
        )
        assert_same(actual, expected)
        assert all(len(h.text) <= limit for h in actual)


@pytest.mark.slow
def test_a_forced_beginning_is_its_own_draft() -> None:
    """With an empty table: of the prefix m + 1 bytes a pass, then one."""
    prefix = "Das ist eine längere Vorgabe".encode()
    model, request = peaky("bytenet"), Request(b"abc", 40, prefix)
    (expected,) = one_each(TorchEngine([model], GREEDY, 1, CPU), [request])
    for m in (1, 4, 8):
        (actual,) = one_each(
            TorchEngine([model], GREEDY, 1, CPU, Speculation(draft.empty_table(), m)), [request]
        )
        assert actual.text == expected.text and actual.text.startswith(prefix)
        whole = len(prefix) // (m + 1)  # passes of nothing but the prefix
        assert actual.passes <= whole + 1 + len(actual.text) + 1 - len(prefix)


# ---- how many


def test_the_width_that_pays() -> None:
    """Most bytes a second by the prices that are measured, and nothing where little is accepted."""
    accepted = np.array([0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1], np.float32)
    asked: list[int] = []

    def width(*prices: float, accepted: Any = accepted) -> int:
        asked.clear()
        known = dict(zip((0, *WIDTHS), prices, strict=False))
        return best_width(accepted, lambda m: asked.append(m) or known[m])

    assert width(1, 1, 1, 1) == 8 and asked == [0, 2, 4, 8, 0, 8]
    assert width(1, 1.02, 1.1, 2.5) == 4 and asked == [0, 2, 4, 8, 0, 4]
    assert width(1, 1.2, 9) == 2 and asked == [0, 2, 4, 0, 2]
    assert width(1, 2.45, 9) == 0 and asked == [0, 2, 4, 0, 2], "two in a hundred are noise"
    assert width(1, 3.5, 9) == 0 and asked == [0, 2, 4], "it is given up at once, wide passes cost much"
    assert width(1, 5) == 0 and asked == [0, 2]
    assert width(accepted=np.zeros(8, np.float32)) == 0 and not asked


def test_the_width_that_pays_between_disturbances() -> None:
    """Each price is the least of what is measured in turn; what is cheap is measured oftener."""
    accepted = np.array([0.8, 0.7, 0.6, 0.5, 0, 0, 0, 0], np.float32)
    for first, disturbance, n_rounds in ((0.0001, 10, 10), (0.02, 1.3, 2)):
        for when in range(2):
            asked: list[int] = []

            def price(m: int) -> float:
                asked.append(m)  # noqa: B023
                disturbed = asked.count(m) % 2 == when  # noqa: B023
                return first * (1 + 0.1 * m) * (disturbance if disturbed else 1)  # noqa: B023

            assert best_width(accepted, price) == 4
            assert max(map(asked.count, asked)) == n_rounds
    prices = {0: [0.03] * 2, 2: [0.031] * 2, 4: [0.033, 0.2], 8: [0.075]}
    assert best_width(accepted, lambda m: prices[m].pop(0)) == 4, "the least counts, not the last"


def test_a_pass_between_two_ticks_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measured price of 0, where the CPU clock is coarse, has no yield."""
    monkeypatch.setattr("bytenmt.decoding.pytorch.draft_width.process_time", lambda: 7.0)
    accepted = np.array([0.9] * 8, np.float32)
    assert best_width(accepted, lambda m: seconds(lambda: None, CPU)) == 8


ENGINES: list[Callable[..., Engine]] = [
    TorchEngine,
    lambda *args: CudaGraphEngine(*args[:4], rehearsed, *args[4:]),
]


@pytest.mark.slow
@pytest.mark.parametrize("make_engine", ENGINES)
@pytest.mark.parametrize(("steep", "width"), [(0.01, 8), (0.2, 2), (10.0, 0)])
def test_a_price_is_measured_once(
    make_engine: Callable[..., Engine], steep: float, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later decoding uses the width that paid and does not depend on the measurement."""
    n_measured = 0

    def noted(accepted: Any, price: Callable[[int], float]) -> int:
        def fake(m: int) -> float:
            nonlocal n_measured
            n_measured += 1
            assert price(m) > 0
            return 1.0 + steep * m

        return best_width(accepted, fake)

    monkeypatch.setattr(torch_engine, "best_width", noted)
    monkeypatch.setattr(cuda_graph, "best_width", noted)
    model, requests = peaky("bytenet"), some_requests("bytenet")
    expected = one_each(TorchEngine([model], GREEDY, 6, CPU), requests)
    table = random_table([h.text for h in expected], seed=4)
    table.accepted[:] = [0.9, 0.5, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1]
    engine: Any = make_engine([model], GREEDY, 3, CPU, Speculation(table))
    actual = one_each(engine, requests)
    assert_same(actual, expected)
    asked = n_measured
    assert_same(one_each(engine, requests), expected)
    assert n_measured == asked and engine._width == width
    assert all((h.passes > 0) == (width > 0) for h in actual)


def test_a_price_is_measured_in_earnest() -> None:
    """With the clock; whatever comes of it, the bytes are the same."""
    model, requests = peaky("convs2s"), some_requests("convs2s")
    table = draft.empty_table()
    table.accepted[:] = 0.5
    engine = TorchEngine([model], GREEDY, 4, CPU, Speculation(table))
    assert_same(one_each(engine, requests), one_each(TorchEngine([model], GREEDY, 6, CPU), requests))


def test_passes_end_with_the_last_sentence() -> None:
    """A long draft does not pay if the passes go on when all is said."""
    model = peaky("bytenet")
    (expected,) = one_each(TorchEngine([model], GREEDY, 1, CPU), [Request(b"abc", 40)])
    n_read = 0
    read = type(model).forward

    def counted(self: Any, *args: Any) -> Any:
        nonlocal n_read
        n_read += 1
        return read(self, *args)

    table = table_of({b"\xfe" * 8: (expected.text[:8], [200] * min(8, len(expected.text)))})
    engine = TorchEngine([model], GREEDY, 1, CPU, Speculation(table, 8))
    engine.admit([Request(b"abc", 40)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "forward", counted)
        engine.advance(100)
        ((_, (actual,)),) = engine.finished()
        assert n_read == actual.passes < len(actual.text) + 1
        engine.advance(100)
    assert n_read == actual.passes


def test_a_pass_counts_for_the_bytes_that_it_promises() -> None:
    """So that sentences that are done leave as soon as they do without drafts."""
    table = draft.empty_table()
    table.accepted[:] = 0.5
    speculation = Speculation(table)
    assert [torch_engine.n_passes(speculation, 4, n) for n in (0, 1, 3, 4, 8, 9)] == [0, 1, 1, 2, 3, 3]
    assert torch_engine.n_passes(None, 0, 8) == torch_engine.n_passes(speculation, 0, 8) == 8


@pytest.mark.parametrize("options", [Options(beam=2), Options(no_repeat_ngram_size=3)])
@pytest.mark.parametrize("make_engine", ENGINES)
def test_no_drafts_for_beams_nor_n_gram_blocking(
    make_engine: Callable[..., Engine], options: Options
) -> None:
    with pytest.raises(ValueError, match="one beam and no n-gram blocking"):
        make_engine([peaky("bytenet")], options, 2, CPU, Speculation(draft.empty_table()))


# ---- sampling


def exact(model: AnyModel, options: Options, n_bytes: int, rare: float) -> dict[bytes, float]:
    """The probabilities of all texts of n_bytes at most, EOS appended where one ends before; those that begin
    with what is rarer than `rare` stand together as this beginning. From the model's teacher-forced
    probabilities, with nothing of the engine's."""
    cells: dict[bytes, float] = {}
    going = {b"": 1.0}
    for at in range(n_bytes):
        tgt = torch.tensor([[BOS, *prefix] for prefix in going], dtype=torch.uint8)
        memory = model.encode(torch.zeros(len(tgt), 0, dtype=torch.uint8), torch.zeros(len(tgt)).long())
        with torch.no_grad():
            logits = model(tgt, memory, model.start(memory))[0][:, -1]
        following: dict[bytes, float] = {}
        for (prefix, whole), row in zip(going.items(), logits.numpy() / options.temperature, strict=True):
            may = [byte for byte in range(256) if may_follow(prefix, byte, n_bytes)]
            share = np.exp(row[may] - row[may].max())
            for byte, p in zip(may, whole * share / share.sum(), strict=True):
                over = byte == EOS or p < rare or at == n_bytes - 1
                (cells if over else following)[prefix + bytes([byte])] = float(p)
        going = following
    return cells


def p_value(texts: list[bytes], cells: dict[bytes, float]) -> float:
    """Pearson's chi-square over the cells that are expected at least 5 times, the others as one."""
    counts = dict.fromkeys(cells, 0)
    for text in texts:
        counts[next(text[:k] for k in range(1, 5) if text[:k] in cells)] += 1
    usual = [cell for cell, p in cells.items() if len(texts) * p >= 5]
    actual = [counts[cell] for cell in usual]
    expected = [len(texts) * cells[cell] for cell in usual]
    actual.append(len(texts) - sum(actual))
    expected.append(len(texts) - sum(expected))
    squared = sum((c - e) ** 2 / e for c, e in zip(actual, expected, strict=True))
    half = torch.tensor([len(usual) / 2, squared / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def drawn(model: AnyModel, options: Options, n: int, n_bytes: int, speculation: Speculation) -> list[bytes]:
    """The texts of n requests, EOS appended where they end before n_bytes."""
    engine = TorchEngine([model], options, min(n, 4096), CPU, speculation)
    actual = one_each(engine, [Request(None, n_bytes, number=i) for i in range(n)])
    assert len(set(h.passes for h in actual)) > 1
    return [h.text if len(h.text) == n_bytes else h.text + bytes([EOS]) for h in actual]


def likely_drafts(cells: dict[bytes, float]) -> DraftTable:
    """Drafts the likeliest texts: a wrong rule of acceptance would favour them."""
    chains: dict[bytes, tuple[bytes, Sequence[int]]] = {}
    for text in sorted(cells, key=lambda text: cells[text]):
        for at in range(len(text)):
            context = word_of(text[:at]).to_bytes(8, "big")
            chains[context] = text[at:], [150] * len(text[at:])
    return table_of(chains, 1 << 16)


@pytest.mark.slow
def test_drafts_leave_the_distribution_as_it_is() -> None:
    """The first three bytes of many draws against their exact probabilities, by chi-square."""
    n, options = 5_000, Options(sample=True, seed=3)
    model = invariants.build(VARIANTS["convs2s-alone"], seed=2, scale=1.2)
    cells = exact(model, options, 3, 5 / n)
    assert sum(cells.values()) == pytest.approx(1)
    assert p_value(drawn(model, options, n, 3, Speculation(likely_drafts(cells), 2)), cells) > 0.001
