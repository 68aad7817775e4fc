"""Text drawn from a model: always valid UTF-8, line ends allowed, as long as it may be, in both
engines."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_up import FakeDecoder, fake_engine, few_bytes, random_distribution
from made_up_engine import make_run

from bytenmt.decoding.interface import EngineSpec, SearchOptions
from bytenmt.decoding.loading import Runtime, load_runs, runtime_from_models
from bytenmt.decoding.pytorch.engine import TorchEngine
from bytenmt.language.generate import generate
from bytenmt.utf8 import ACCEPT, EOS, LONGEST_CHARACTER, allowed_bytes, decoding_cost

CPU = torch.device("cpu")
SOURCELESS = {"seq2seq": "model.source=false"}
SOURCELESS["convs2s"] = "model.source=false model.encoder_layers=[]"


def fake(decoder: FakeDecoder) -> Runtime:
    """A runtime whose engine follows a made-up distribution."""

    def make_engine(options: SearchOptions, capacity: int) -> TorchEngine:
        return fake_engine(decoder, options=options, capacity=capacity)

    return replace(runtime_from_models([], CPU, has_source=False), make_engine=make_engine)


def test_allowed_bytes_are_those_that_have_room() -> None:
    """All whose cost, which test_utf8.py holds against Python's decoder, is in the room; but EOS of
    a text where there is none alone, between two characters."""
    rooms = np.arange(LONGEST_CHARACTER + 1)[:, None, None]
    line, text = allowed_bytes(False), allowed_bytes(True)
    assert np.array_equal(line, decoding_cost(False) <= rooms)
    assert np.array_equal(text[..., :EOS], (decoding_cost(True) <= rooms)[..., :EOS])
    assert np.argwhere(text[..., EOS]).tolist() == [[0, ACCEPT]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_bytes", [0, 1, 2, 7, 40])
def test_text_is_valid_and_fills_its_limit(seed: int, n_bytes: int) -> None:
    """From any distribution, one that loves to end too; it is short only of a character that had no
    room."""
    runtime = fake(FakeDecoder([random_distribution(seed, end=20.0)]))
    prompt = "가\nb".encode()
    parts = list(generate(runtime, prompt, n_bytes, seed=seed))
    text = b"".join(parts)
    assert all(part.decode() for part in parts)
    assert text.startswith(prompt) and len(text) == len(prompt) + n_bytes


def test_line_ends_come_as_often_as_they_are_drawn() -> None:
    """A stream of two bytes, one of them a line end."""
    text = b"".join(generate(fake(FakeDecoder([few_bytes(0, b"a\n")])), n_bytes=300))
    assert set(text) == set(b"a\n") and 30 < text.count(b"\n") < 270


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["seq2seq", "convs2s"])
def test_both_engines_draw_the_same_text(arch: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", arch, settings=tuple(SOURCELESS[arch].split()))
    drawn = []
    for engine in ("torch", "numba"):
        runtime = load_runs([run], EngineSpec(engine, "cpu"))
        for seed in (1, 2):
            parts = generate(runtime, b"one\ntwo\r\n", 60, seed=seed, temperature=0.7)
            drawn.append(b"".join(parts))
    assert drawn[:2] == drawn[2:] and drawn[0] != drawn[1]


def test_it_comes_as_it_is_drawn() -> None:
    decoder = FakeDecoder([few_bytes(0, b"abc")])
    assert next(generate(fake(decoder), n_bytes=30)) and len(decoder.rows) == 1


def test_misuse() -> None:
    with pytest.raises(ValueError, match="give language models"):
        list(generate(runtime_from_models([], CPU, has_source=True)))
    with pytest.raises(ValueError, match="not valid UTF-8"):
        list(generate(fake(FakeDecoder([few_bytes(0, b"a")])), b"\xff"))
