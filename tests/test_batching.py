"""The plan against its properties and a plain Python planner; assembly against plain Python."""

import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bytenmt import batching
from bytenmt.alphabet import BOS, EOS, PAD
from bytenmt.batching import Batch, EpochPlan, assemble, batches, epoch_plan
from bytenmt.corpus import ParallelCorpus, TextFile

WORD = 2**64 - 1


def lengths(values: object) -> np.ndarray:
    return np.array(values, np.int32)


def cost(source: np.ndarray, target: np.ndarray, pairs: np.ndarray) -> int:
    """Bytes of a batch as its arrays will have them, counted in plain Python."""
    has_source = bool(source.any())
    longest_source = max(int(source[i]) + 1 for i in pairs) if has_source else 0
    return len(pairs) * (longest_source + max(int(target[i]) + 1 for i in pairs))


def check_plan(source: np.ndarray, target: np.ndarray, max_tokens: int, plan: EpochPlan) -> None:
    assert sorted(plan.order.tolist()) == list(range(len(target)))
    assert plan.order.dtype == plan.bounds.dtype == np.int64
    assert plan.bounds[0] == 0 and plan.bounds[-1] == len(target)
    for index in range(plan.n_batches):
        batch = plan.batch(index)
        assert len(batch) >= 1
        assert len(batch) == 1 or cost(source, target, batch) <= max_tokens


length_pairs = st.lists(st.tuples(st.integers(1, 90) | st.integers(1, 5), st.integers(0, 90)), max_size=120)


@settings(deadline=None, max_examples=150)
@given(
    length_pairs,
    st.booleans(),
    st.integers(1, 2000),
    st.integers(-5, 2**70),
    st.integers(0, 99),
    st.booleans(),
)
def test_plan_is_a_partition_within_the_budget(
    pairs: list[tuple[int, int]],
    has_source: bool,
    max_tokens: int,
    seed: int,
    epoch: int,
    shuffle: bool,
) -> None:
    source = lengths([s if has_source else 0 for s, _ in pairs])
    target = lengths([t for _, t in pairs])
    plan = epoch_plan(source, target, max_tokens, seed, epoch, shuffle)
    check_plan(source, target, max_tokens, plan)


@pytest.mark.parametrize("fault", ["dropped", "doubled", "over budget", "empty batch"])
def test_planted_faults_are_found(fault: str) -> None:
    source, target = realistic(200)
    plan = epoch_plan(source, target, 1000, 1, 0)
    check_plan(source, target, 1000, plan)
    order, bounds = plan.order.copy(), plan.bounds.copy()
    if fault == "dropped":
        order = order[:-1]
    elif fault == "doubled":
        order[0] = order[1]
    elif fault == "over budget":
        bounds = np.delete(bounds, 1)
    else:
        bounds = np.insert(bounds, 1, 0)
    with pytest.raises(AssertionError):
        check_plan(source, target, 1000, EpochPlan(order, bounds))


def realistic(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets of 20 to 60 bytes, sources about as long."""
    draw = np.random.default_rng(3)
    target = draw.integers(20, 61, n)
    source = np.clip(target + draw.normal(0, 5, n), 20, 60)
    return lengths(source), lengths(target)


class PlainRandom:
    """splitmix64 in Python's whole numbers."""

    def __init__(self, state: int) -> None:
        self.state = state & WORD

    def next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        return z ^ (z >> 31)

    def shuffle(self, items: list[int]) -> None:
        for last in range(len(items) - 1, 0, -1):
            other = self.next() % (last + 1)
            items[last], items[other] = items[other], items[last]


def plain_plan(
    source: np.ndarray, target: np.ndarray, max_tokens: int, seed: int, epoch: int, shuffle: bool
) -> list[list[int]]:
    """What epoch_plan does, by Python's sort and lists."""
    draw = PlainRandom(PlainRandom(PlainRandom(seed).next() + epoch).next())
    pairs, first_tokens = list(range(len(target))), max_tokens
    if shuffle:
        draw.shuffle(pairs)
        first_tokens = 1 + draw.next() % max_tokens
    candidates = []
    for width in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
        phase = draw.next() % width if shuffle else 0
        strips: dict[int, list[int]] = {}
        for pair in sorted(pairs, key=lambda pair: source[pair]):
            strips.setdefault((int(target[pair]) + 1 + phase) // width, []).append(pair)
        cut: list[list[int]] = []
        for strip in sorted(strips):
            for pair in strips[strip][::-1] if strip % 2 else strips[strip]:
                budget = first_tokens if len(cut) == 1 else max_tokens
                if cut and cost(source, target, np.array([*cut[-1], pair])) <= budget:
                    cut[-1].append(pair)
                else:
                    cut.append([pair])
        candidates.append((sum(cost(source, target, np.array(b)) for b in cut), cut))
    best = min(candidates, key=lambda candidate: candidate[0])[1]
    numbers = list(range(len(best)))
    if shuffle:
        draw.shuffle(numbers)
    return [best[number] for number in numbers]


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("has_source", [True, False])
def test_plan_equals_plain_python(has_source: bool, shuffle: bool) -> None:
    source, target = realistic(400)
    source *= has_source
    for seed, epoch, max_tokens in ((1, 0, 700), (2**80 + 5, 3, 1500), (-1, 1, 90)):
        plan = epoch_plan(source, target, max_tokens, seed, epoch, shuffle)
        expected = plain_plan(source, target, max_tokens, seed, epoch, shuffle)
        assert [plan.batch(k).tolist() for k in range(plan.n_batches)] == expected


def test_random_numbers_are_splitmix64() -> None:
    """The first values from state 0, as published with the generator's C code."""
    state = np.zeros(1, np.uint64)
    values = [int(batching._random(state)) for _ in range(3)]
    assert values == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_plan_is_drawn_from_seed_and_epoch() -> None:
    source, target = realistic(3000)
    seen = set()
    for seed in range(3):
        for epoch in range(3):
            plan = epoch_plan(source, target, 3000, seed, epoch)
            np.random.default_rng().random()
            again = epoch_plan(source, target, 3000, seed, epoch)
            assert np.array_equal(plan.order, again.order)
            assert np.array_equal(plan.bounds, again.bounds)
            seen.add(plan.order.tobytes())
    assert len(seen) == 9
    # (seed 0, epoch 1) and (seed 1, epoch 0) share nothing, nor do batches of two epochs:
    first, second = (epoch_plan(source, target, 3000, 0, epoch) for epoch in (0, 1))
    members = [{frozenset(p.batch(k).tolist()) for k in range(p.n_batches)} for p in (first, second)]
    assert len(members[0] & members[1]) < 0.05 * first.n_batches
    # A batch says nothing about how long the next one will be.
    for plan in (first, second):
        means = [target[plan.batch(k)].mean() for k in range(plan.n_batches)]
        assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.3


def test_sorted_plan_is_the_same_in_every_epoch() -> None:
    source, target = realistic(500)
    first, second = (epoch_plan(source, target, 1000, 1, epoch, False) for epoch in (0, 7))
    assert np.array_equal(first.order, second.order)
    longest = [target[first.batch(k)].max() for k in range(first.n_batches)]
    # Sorted by strips: no batch falls back behind an earlier one by more than a strip's width.
    fallen = np.maximum.accumulate(longest) - longest
    assert fallen.max() < batching.STRIP_WIDTHS.max() and fallen.mean() < 1


@pytest.mark.parametrize("shuffle", [True, False])
def test_little_padding(shuffle: bool) -> None:
    source, target = realistic(20_000)
    plan = epoch_plan(source, target, 10_000, 1, 0, shuffle)
    padded = sum(cost(source, target, plan.batch(k)) for k in range(plan.n_batches))
    used = int(source.sum() + target.sum()) + 2 * len(target)
    assert 1 - used / padded < 0.03
    assert plan.n_batches < 1.03 * padded / 10_000 + 2  # the batches are full


def test_no_source_has_no_padding_in_it() -> None:
    source, target = realistic(20_000)
    plan = epoch_plan(source * 0, target, 10_000, 1, 0)
    padded = sum(cost(source * 0, target, plan.batch(k)) for k in range(plan.n_batches))
    assert 1 - (int(target.sum()) + len(target)) / padded < 0.01


def test_extreme_plans() -> None:
    nothing = epoch_plan(lengths([]), lengths([]), 100, 1, 0)
    assert nothing.n_batches == 0 and len(nothing.order) == 0
    # 9 + 9 bytes and 2 EOS are 20: two fill a budget of 40, one less lets them stand alone.
    for max_tokens, n_batches in ((40, 2), (39, 4), (1, 4)):
        plan = epoch_plan(lengths([9] * 4), lengths([9] * 4), max_tokens, 1, 0, shuffle=False)
        assert plan.n_batches == n_batches
    long_ones = lengths([200_000, 100_000, 5, 5])
    check_plan(long_ones, long_ones, 100, epoch_plan(long_ones, long_ones, 100, 1, 0))
    with pytest.raises(ValueError, match="max_tokens"):
        epoch_plan(long_ones, long_ones, 0, 1, 0)
    with pytest.raises(ValueError, match="2 source and 1 target"):
        epoch_plan(lengths([1, 1]), lengths([1]), 10, 1, 0)


def plain_batch(sources: list[bytes] | None, targets: list[bytes]) -> list[object]:
    def rows(lines: list[bytes]) -> list[list[int]]:
        width = max(len(line) for line in lines)
        return [[*line] + [PAD] * (width - len(line)) for line in lines]

    end, begin = bytes([EOS]), bytes([BOS])
    return [
        [[]] * len(targets) if sources is None else rows([line + end for line in sources]),
        [0] * len(targets) if sources is None else [len(line) + 1 for line in sources],
        rows([begin + line for line in targets]),
        rows([line + end for line in targets]),
        [len(line) + 1 for line in targets],
    ]


def mixed_texts(n: int) -> tuple[list[bytes], list[bytes]]:
    draw = random.Random(4)
    pieces = [b"word ", "한국".encode(), b"\xff", b"\xe2\x82", b"\x00", "😀".encode()]
    source, target = (
        [b"".join(draw.choices(pieces, k=draw.randrange(1, 12))) for _ in range(n)] for _ in "st"
    )
    return source, target


def repaired(line: bytes) -> bytes:
    return line.decode("utf-8", "replace").encode()


@pytest.fixture(params=[True, False], ids=["source", "no source"])
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> ParallelCorpus:
    source, target = mixed_texts(300)
    target[7] = b""  # left out, so that pairs and lines differ
    (tmp_path / "s").write_bytes(b"\r\n".join(source))
    (tmp_path / "t").write_bytes(b"\n".join(target) + b"\n")
    return ParallelCorpus.open(tmp_path / "s" if request.param else None, tmp_path / "t")


def check_batch(corpus: ParallelCorpus, indices: list[int], batch: Batch) -> None:
    source, target = mixed_texts(300)
    lines = [index + (index >= 7) for index in indices]
    expected = plain_batch(
        None if corpus.src is None else [repaired(source[line]) for line in lines],
        [repaired(target[line]) for line in lines],
    )
    assert [part.tolist() for part in batch] == expected
    assert [part.dtype for part in batch] == [np.uint8, np.int64, np.uint8, np.uint8, np.int64]
    assert batch.source.ndim == 2


def test_assembly_equals_plain_python(corpus: ParallelCorpus) -> None:
    assert corpus.tgt.n_repaired > 50 and corpus.tgt.n_repaired < 290
    for indices in ([0], [298, 7, 6], list(range(299))):
        check_batch(corpus, indices, assemble(corpus, np.array(indices)))


def test_assembly_of_one_known_pair() -> None:
    corpus = ParallelCorpus.from_texts(
        TextFile.from_bytes(b"hi\nyou\n", "s"), TextFile.from_bytes(b"abc\nd\xff\n", "t")
    )
    batch = assemble(corpus, np.array([1, 0]))
    assert batch.source.tolist() == [[121, 111, 117, 255], [104, 105, 255, 253]]
    assert batch.target_in.tolist() == [[254, 100, 0xEF, 0xBF, 0xBD], [254, 97, 98, 99, 253]]
    assert batch.target_out.tolist() == [[100, 0xEF, 0xBF, 0xBD, 255], [97, 98, 99, 255, 253]]
    assert batch.source_len.tolist() == [4, 3] and batch.target_len.tolist() == [5, 4]


def test_batches_follow_the_plan_from_any_batch(corpus: ParallelCorpus) -> None:
    plan = epoch_plan(corpus.source_lengths, corpus.target_lengths, 500, 1, 0)
    check_plan(corpus.source_lengths, corpus.target_lengths, 500, plan)
    for first in (0, 3, plan.n_batches - 1, plan.n_batches):
        found = list(batches(corpus, plan, first))
        assert len(found) == plan.n_batches - first
        for k, batch in enumerate(found, first):
            check_batch(corpus, plan.batch(k).tolist(), batch)
            assert len(batch.source) == 1 or batch.source.size + batch.target_in.size <= 500


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("batches")]


def test_few_batches_are_ahead_and_the_thread_ends(
    corpus: ParallelCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembled: list[object] = []
    monkeypatch.setattr(batching, "assemble", lambda *args: assembled.append(args))
    plan = epoch_plan(corpus.source_lengths, corpus.target_lengths, 200, 1, 0)
    assert plan.n_batches > 20
    stream = batches(corpus, plan)
    for taken in range(1, 4):
        next(stream)
        time.sleep(0.05)
        assert len(assembled) == taken + batching.PREFETCH
    assert len(workers()) == 1
    stream.close()  # what leaving a for loop does
    assert workers() == []


def test_an_error_of_the_thread_reaches_the_consumer(
    corpus: ParallelCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(corpus: ParallelCorpus, indices: np.ndarray) -> Batch:
        raise RuntimeError("planted")

    monkeypatch.setattr(batching, "assemble", broken)
    plan = epoch_plan(corpus.source_lengths, corpus.target_lengths, 500, 1, 0)
    with pytest.raises(RuntimeError, match="planted"):
        next(batches(corpus, plan))
    assert workers() == []
