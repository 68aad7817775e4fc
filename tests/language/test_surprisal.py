"""Character prediction: any cut of a stream gives the same, and the figures count every byte
once."""

from collections.abc import Iterator

import numpy as np
import torch
from fast_variants import MAIN, by_variant
from invariants import AnyModel, make

from bytenmt.decoding.pytorch.scorer import TorchScorer, score_bytes
from bytenmt.language.surprisal import PredictionSummary, Surprisal, stream_surprisal

CPU = torch.device("cpu")


def some_text(n: int, seed: int = 0) -> bytes:
    """Any bytes at all."""
    return np.random.default_rng(seed).integers(0, 256, n, np.uint8).tobytes()


def scorer(model: AnyModel) -> TorchScorer:
    return TorchScorer([model], CPU)


def bits_of(model: AnyModel, chunk: int, *pieces: bytes) -> np.ndarray:
    return Surprisal.concatenate(list(stream_surprisal(scorer(model), pieces, chunk))).bits


@by_variant("name", sorted(MAIN))
def test_stream_equals_whole(name: str) -> None:
    """Many chunks and one; all variants of the architectures obey the same (test_contract.py).
    Pieces of a text change no bit, since stdin arrives in other ones than a file."""
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
        found = stream_surprisal(scorer(make(name)), endless(), 20)
        for n in range(1, 5):
            assert len(next(found).data) == 20
            assert read == 20 * n


def test_predictions_are_counted_however_the_text_is_cut() -> None:
    data, rank = np.frombuffer(b"ab\xffc\xff", np.uint8), np.array([0, 4, 5, 0, 9])
    summary = PredictionSummary()
    for part in (slice(0, 2), slice(2, 2), slice(2, 5)):
        summary.add(Surprisal(data[part], np.full(5, 3.0)[part], rank[part]))
    assert [*summary.lines()] == [
        *("bits per byte: 3.0000", "bytes: 5"),
        *("the likeliest byte: 40.00 %", "among the five likeliest: 60.00 %"),
    ]
