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
from bytenmt.language.scripts import script
from bytenmt.language.summary import (
    ENDS,
    WHOLE,
    Characters,
    PredictionSummary,
    PredictionSums,
    WholeCharacters,
)
from bytenmt.language.surprisal import Surprisal, stream_surprisal, translation_surprisal

CPU = torch.device("cpu")
MIXED = (
    "Das kostet 1.250 € – 가격은 얼마? <b>二千</b>\n".encode() + bytes(range(240, 256)) + b"\xe2\x82A\xea\xb0"
)


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


# Characters and figures.


def made_up(text: bytes, seed: int = 0) -> Surprisal:
    generator = np.random.default_rng(seed)
    return Surprisal(
        np.frombuffer(text, np.uint8), generator.random(len(text)), generator.integers(0, 9, len(text))
    )


def cut(costs: Surprisal, sizes: list[int]) -> list[Characters]:
    """Return whole characters as they come when a stream is cut into pieces of these sizes and the rest."""
    whole, found, rest = WholeCharacters(), [], costs
    for size in sizes:
        part, rest = rest.split(size)
        found.append(whole.add(part))
    return [*found, whole.add(rest), whole.add(None)]


def sums(costs: Surprisal, sizes: list[int], line_ends: bool = False) -> dict[str, PredictionSums]:
    figures = PredictionSummary(line_ends)
    for characters in cut(costs, sizes):
        figures.add(characters)
    return figures.sums()


def test_every_byte_is_counted_once_however_the_stream_is_cut() -> None:
    """Characters are cut, too; what is no UTF-8 is counted byte by byte."""
    costs = made_up(MIXED)
    once = sums(costs, [])
    n_first, n_fifth = (costs.rank == 0).sum(), (costs.rank < 5).sum()
    expected = (len(MIXED), len(MIXED), costs.bits.sum(), n_first, n_fifth)
    assert once[WHOLE] == pytest.approx(expected)
    assert [*np.sum([*once.values()], axis=0)] == pytest.approx(2 * np.array(expected))  # WHOLE and its parts
    for sizes in ([1] * (len(MIXED) - 1), [20, 1, 2, 30], [0, len(MIXED)]):
        pieces = sums(costs, sizes)
        assert pieces.keys() == once.keys()
        assert all(pieces[name] == pytest.approx(once[name]) for name in once)


def test_scripts() -> None:
    """Scripts have Unicode's names; a figure covers all bytes of the characters."""
    assert [script(ord(c)) for c in "aß가二カя1²,€ \n<"] == [
        *("Latin", "Latin", "Hangul", "Han", "Kana", "Cyrillic", "digits", "digits", "punctuation"),
        *("other symbols", "spaces and line ends", "spaces and line ends", "brackets and symbols"),
    ]
    found = sums(made_up("a가é".encode() + b"\xff"), [2])
    expected = {WHOLE: 7, "Latin": 3, "Hangul": 3, "not UTF-8": 1}
    assert {name: one.n_bytes for name, one in found.items()} == expected and [*found][0] == WHOLE


def test_the_end_of_a_line_costs_bits_but_is_no_byte() -> None:
    """Line ends count as in the definition of bits per byte of translations; in a stream 0xFF is a byte."""
    costs = made_up(b"ab\xffc\xff")
    lines, stream_ = sums(costs, [], line_ends=True), sums(costs, [])
    assert (lines[WHOLE].n_bytes, stream_[WHOLE].n_bytes) == (3, 5)
    assert lines[WHOLE].bits == pytest.approx(costs.bits.sum())
    assert lines[ENDS].n_ranked == 2 and ENDS not in stream_


@pytest.mark.parametrize("text", [MIXED, "🙂é가a".encode(), b"\xed\xa0\x80\xf4\x90\x80\x80", b"\xf0\x9f\x99"])
def test_characters_are_pythons(text: bytes) -> None:
    """Any split of the text gives the same code points, and the bits of their bytes add up."""
    expected = [ord(c) for c in text.decode("utf-8", "surrogateescape")]
    for size in range(len(text) + 1):
        parts = cut(made_up(text), [size])
        assert [code for part in parts for code in part.code.tolist()] == expected
        assert all(part.n_bytes.sum() == len(part.surprise.data) for part in parts)
        assert sum(len(part.surprise.data) for part in parts) == len(text)
