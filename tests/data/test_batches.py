"""Assembly against plain Python, in shares, of one text and several; the thread that works ahead.

Tests data/batches.py (Batch.from_pairs, assemble, batches).
"""

import random
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from bytenmt.data import batches as batching
from bytenmt.data.batches import Batch, assemble, batches
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.epoch_plan import EpochPlan, epoch_plan
from bytenmt.data.pair_files import PairFiles
from bytenmt.utf8 import BOS, EOS, PAD


def plain_batch(sources: list[bytes], targets: list[bytes]) -> list[object]:
    """source, source_len, target and target_len as lists."""

    def rows(lines: list[bytes], extra: int) -> list[list[int]]:
        width = max(map(len, lines), default=extra)
        return [[*line] + [PAD] * (width - len(line)) for line in lines]

    end, begin = bytes([EOS]), bytes([BOS])
    return [
        rows([line + end for line in sources], 0),
        [len(line) + 1 for line in sources],
        rows([begin + line + end for line in targets], 1),
        [len(line) + 1 for line in targets],
    ]


@cache
def mixed_texts(n: int, seed: int = 4) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    draw = random.Random(seed)
    pieces = [b"word ", "한국".encode(), b"\xff", b"\xe2\x82", b"\x00", "😀".encode()]

    def line() -> bytes:
        return b"".join(draw.choices(pieces, k=draw.randrange(1, 12)))

    return tuple(line() for _ in range(n)), tuple(line() for _ in range(n))


def repaired(line: bytes) -> bytes:
    return line.decode("utf-8", "replace").encode()


@pytest.fixture
def corpus(tmp_path: Path) -> ParallelCorpus:
    source, target = mixed_texts(300)
    target = (*target[:7], b"", *target[8:])  # left out, so that pairs and lines differ
    (tmp_path / "s").write_bytes(b"\r\n".join(source))
    (tmp_path / "t").write_bytes(b"\n".join(target) + b"\n")
    return ParallelCorpus.open_all([PairFiles(tmp_path / "s", tmp_path / "t")])


def plan_of(corpus: ParallelCorpus, max_tokens: int) -> EpochPlan:
    return epoch_plan(corpus.source_lengths, corpus.target_lengths, max_tokens, 1, 0)


def check_batch(corpus: ParallelCorpus, indices: list[int], batch: Batch) -> None:
    source, target = mixed_texts(300)
    lines = [index + (index >= 7) for index in indices]
    sides = ([repaired(side[line]) for line in lines] for side in (source, target))
    assert [part.tolist() for part in batch] == plain_batch(*sides)
    assert [part.dtype for part in batch] == [np.uint8, np.int64, np.uint8, np.int64]
    assert batch.source.ndim == batch.target.ndim == 2
    assert batch.target_in.shape == batch.target_out.shape
    assert (batch.target_in[:, :1] == BOS).all()
    assert np.array_equal(batch.target_in[:, 1:], batch.target_out[:, :-1])


def test_assembly_equals_plain_python(corpus: ParallelCorpus) -> None:
    n_repaired = len(corpus.parts[0].tgt.repaired)
    assert 50 < n_repaired < 290
    for indices in ([0], [298, 7, 6], list(range(299))):
        batch = assemble(corpus, np.array(indices))
        check_batch(corpus, indices, batch)
        again = Batch.from_pairs(batch.pairs())
        assert [part.tolist() for part in again] == [part.tolist() for part in batch]


def test_several_parts_in_one_batch(tmp_path: Path) -> None:
    """Files, a table, files again: rows in the order of the indices, whatever their part."""
    texts = [mixed_texts(40, seed) for seed in range(3)]
    for seed, (source, target) in enumerate(texts):
        (tmp_path / f"s{seed}").write_bytes(b"\n".join(source))
        (tmp_path / f"t{seed}").write_bytes(b"\n".join(target))
    (tmp_path / "table").write_bytes(b"\n".join(map(b"\t".join, zip(*texts[1], strict=True))))
    files = [PairFiles(tmp_path / f"s{k}", tmp_path / f"t{k}") for k in (0, 2)]
    files.insert(1, PairFiles(tsv=tmp_path / "table"))
    corpus = ParallelCorpus.open_all(files)
    sources, targets = ([repaired(line) for text in texts for line in text[k]] for k in (0, 1))
    for indices in ([0, 119, 40, 39, 79, 80], [45, 44], random.Random(1).sample(range(120), 120)):
        batch = assemble(corpus, np.array(indices))
        expected = plain_batch([sources[i] for i in indices], [targets[i] for i in indices])
        assert [part.tolist() for part in batch] == expected


def test_batches_follow_the_plan_from_any_batch(corpus: ParallelCorpus) -> None:
    plan = plan_of(corpus, 1000)
    for first in (0, 3, plan.n_batches - 1, plan.n_batches):
        found = list(batches(corpus, plan, first))
        assert len(found) == plan.n_batches - first
        for k, batch in enumerate(found, first):
            check_batch(corpus, plan.batch(k).tolist(), batch)
            widths = plan.shapes[plan.sequence[k]].tolist()
            assert [batch.source.shape[1], batch.target_in.shape[1]] == widths
            assert len(batch.source) == 1 or batch.source.size + batch.target_in.size <= 1000


@pytest.mark.parametrize("size", [2, 3, 50])
def test_shares_are_a_partition_of_each_batch(corpus: ParallelCorpus, size: int) -> None:
    """Row k of a batch is row k // size of process k % size; all have as many batches."""
    plan = plan_of(corpus, 700)
    shares = [list(batches(corpus, plan, share=(rank, size))) for rank in range(size)]
    for k in range(plan.n_batches):
        indices = plan.batch(k).tolist()
        for rank in range(size):
            check_batch(corpus, indices[rank::size], shares[rank][k])
    assert all(len(share) == plan.n_batches for share in shares)


def n_workers() -> int:
    """The number of threads that collate batches."""
    return sum(thread.name.startswith("batches") for thread in threading.enumerate())


def test_few_batches_are_ahead_and_the_thread_ends(
    corpus: ParallelCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembled: list[object] = []
    monkeypatch.setattr(batching, "assemble", lambda *args, **options: assembled.append(args))
    plan, before = plan_of(corpus, 200), n_workers()
    assert plan.n_batches > 20
    stream: Any = batches(corpus, plan)
    for taken in range(1, 4):
        next(stream)
        time.sleep(0.05)
        assert len(assembled) == taken + batching.N_AHEAD
    assert n_workers() == before + 1
    stream.close()  # what leaving a for loop does
    assert n_workers() == before


def test_an_error_of_the_thread_reaches_the_consumer(
    corpus: ParallelCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "assemble", Mock(side_effect=RuntimeError("planted")))
    plan, before = plan_of(corpus, 500), n_workers()
    with pytest.raises(RuntimeError, match="planted"):
        next(batches(corpus, plan))
    assert n_workers() == before
