"""Character prediction: any cut of a stream gives the same, and the figures count every byte
once."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from fast_variants import MAIN, by_variant
from invariants import AnyModel, make

from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.pytorch.reader import TorchReader, score_bytes
from bytenmt.evaluation.likelihood import log_probabilities
from bytenmt.language.summary import PredictionSummary
from bytenmt.language.surprisal import Surprisal, stream_surprisal, translation_surprisal

CPU = torch.device("cpu")


def some_text(n: int, seed: int = 0) -> bytes:
    """Any bytes at all."""
    return np.random.default_rng(seed).integers(0, 256, n, np.uint8).tobytes()


def reader(model: AnyModel) -> TorchReader:
    return TorchReader([model], CPU)


def bits_of(model: AnyModel, chunk: int, *pieces: bytes) -> np.ndarray:
    return Surprisal.concatenate(list(stream_surprisal(reader(model), pieces, chunk))).bits


@by_variant("name", sorted(MAIN))
def test_stream_equals_whole(name: str) -> None:
    """Many chunks and one; all variants of the architectures obey the same (test_contract.py). Pieces of a
    text change no bit, since stdin arrives in other ones than a file."""
    model, text = make(name), some_text(110)
    whole = bits_of(model, len(text), text)
    for chunk, n in ((1, 12), (7, 40), (64, 110)):
        found = bits_of(model, chunk, text[:n])
        np.testing.assert_allclose(found, whole[:n], rtol=0, atol=1e-9)
        assert np.array_equal(found, bits_of(model, chunk, text[:3], b"", text[3:n]))


def test_of_equally_likely_bytes_the_lower_one_comes_first() -> None:
    """A model that knows nothing is right once in 256 times, not always."""
    truth = torch.arange(256, dtype=torch.uint8)[None]
    log_p, rank = score_bytes([torch.zeros(1, 256, 256)], truth)
    assert rank[0].tolist() == list(range(256)) and np.allclose(log_p, -8 * np.log(2))


def test_a_stream_is_read_as_it_is_predicted() -> None:
    """No more than a chunk ahead; the state does not grow."""
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        while True:
            read += 10
            yield some_text(10)

    for name in sorted(MAIN):
        read = 0
        found = stream_surprisal(reader(make(name)), endless(), 20)
        for n in range(1, 5):
            assert len(next(found).data) == 20
            assert read == 20 * n


@pytest.mark.parametrize("name", ["bahdanau", "bytenet"])
def test_translations_cost_what_evaluate_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line by line in their order, ends counted, empty lines too; in batches of any size."""
    model = reader(make(name))
    source = TextFile.from_bytes(b"one\n\nthree three\nfour\n", "src")
    target = TextFile.from_bytes("eins\nzwei zwei\n\n넷\n".encode(), "tgt")
    corpus = ParallelCorpus.from_texts(source, target, keep_empty=True)
    expected = log_probabilities(model, corpus)
    for cells, at_once in ((1, 1000), (40, 3), (10_000, 1000)):
        monkeypatch.setattr("bytenmt.decoding.pytorch.reader.CELLS", cells)
        monkeypatch.setattr("bytenmt.language.surprisal.LINES_AT_ONCE", at_once)
        found = Surprisal.concatenate(list(translation_surprisal(model, corpus)))
        ends = np.flatnonzero(found.data == 0xFF)
        assert found.data.tobytes().split(b"\xff")[:-1] == [*target]
        lines = np.split(found.bits, ends + 1)[:-1]
        np.testing.assert_allclose([line.sum() for line in lines], -expected / np.log(2), rtol=1e-9)


@pytest.mark.parametrize(("line_ends", "n_bytes", "bits"), [(True, 3, 5.0), (False, 5, 3.0)])
def test_the_end_of_a_line_costs_bits_but_is_no_byte(line_ends: bool, n_bytes: int, bits: float) -> None:
    """However the text is cut. In a stream 0xFF is a byte like any other."""
    data, rank = np.frombuffer(b"ab\xffc\xff", np.uint8), np.array([0, 4, 5, 0, 9])
    summary = PredictionSummary(line_ends)
    for part in (slice(0, 2), slice(2, 2), slice(2, 5)):
        summary.add(Surprisal(data[part], np.full(5, 3.0)[part], rank[part]))
    assert [*summary.lines()] == [
        *(f"bits per byte: {bits:.4f}", f"bytes: {n_bytes}"),
        *("the likeliest byte: 40.00 %", "among the five likeliest: 60.00 %"),
    ]
