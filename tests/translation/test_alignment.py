"""Alignments: the weights are those by which the model predicts; characters sum their bytes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import invoke
from fast_variants import by_variant
from hypothesis import given
from hypothesis import strategies as st
from invariants import WITH_SOURCE, build
from made_up_engine import make_run, small_model
from variants import VARIANTS

from bytenmt.architectures.bahdanau import model as bahdanau
from bytenmt.architectures.convs2s import model as convs2s
from bytenmt.architectures.luong import model as luong
from bytenmt.config.schema import parse_config
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.translation.alignment import CharacterLink, align_lines, link_characters, mean_weights
from bytenmt.utf8 import BOS, EOS

CPU = torch.device("cpu")
TEXTS = [("가나 b", "x 다"), ("one two three", "ab"), ("q", "é\U0001f600"), ("z", "")]
PAIRS = [(source.encode(), target.encode()) for source, target in TEXTS]
MODELS = {name: VARIANTS[name] for name in WITH_SOURCE}
CASES = {
    key: one for key, one in MODELS.items() if parse_config({"model": one}).model.has_attention
}
CASES["luong-reversed"] = {**VARIANTS["luong"], "reverse_source": True}
# Attention sees the source in the text's order, though it is read backwards.
IN_THE_TEXTS_ORDER = ["luong-location", "luong-local-m"]
FADING = ["luong-local-p"]  # a Gaussian after the softmax


def scorers(*models: Any) -> list[TorchScorer]:
    return [TorchScorer([model], CPU) for model in models]


def seen(model: Any, source: bytes, text: bytes, is_reversed: bool) -> np.ndarray:
    """The weights that attention hands out while the model reads one text alone, noted from
    outside: mean over layers, (bytes of the text, bytes of the source + 1)."""
    src = torch.tensor([[*source, EOS]], dtype=torch.uint8)
    memory = model.encode(src, torch.tensor([len(source) + 1]))
    found: list[np.ndarray] = []
    shape = len(text), len(source) + 1

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        for module in (bahdanau, luong, convs2s):
            original = module.attend

            def noting(*arguments: Any, original: Any = original) -> Any:
                result = original(*arguments)
                found.append(result[1][0].numpy())
                return result

            patch.setattr(module, "attend", noting)
        attention = torch.nn.functional.scaled_dot_product_attention

        def noting_heads(q: Any, k: Any, v: Any, attn_mask: Any) -> Any:
            """Record the attention weights of the Transformer by passing the identity as values."""
            if (q.shape[2], k.shape[2]) == shape:  # not a block of self-attention
                values = torch.eye(k.shape[2], dtype=v.dtype).expand(*k.shape[:3], -1)
                found.append(attention(q, k, values, attn_mask=attn_mask)[0].mean(dim=0).numpy())
            return attention(q, k, v, attn_mask=attn_mask)

        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", noting_heads)
        tgt = torch.tensor([[BOS, *text[:-1]]], dtype=torch.uint8)
        model(tgt, memory, model.start(memory))
    # Calls are the bytes of one layer, or the layers with all their bytes.
    weights = np.concatenate(found).reshape(-1, *shape).mean(axis=0)
    order = [*reversed(range(len(source))), len(source)] if is_reversed else range(len(source) + 1)
    return weights[:, order]


@by_variant("name", CASES)
def test_the_weights_are_those_of_the_prediction(name: str) -> None:
    """Weights agree in a padded batch, in the order of the source; they are probabilities unless
    attention fades, and the mean for two models."""
    models = [build(CASES[name], seed, scale=2.0) for seed in (0, 1)]
    for chosen in (models[:1], models):
        found = mean_weights(scorers(*chosen), PAIRS)
        for (source, text), weights in zip(PAIRS, found, strict=True):
            assert weights.shape == (len(text), len(source) + 1)
            if text:
                turned = CASES[name].get("reverse_source", False) and name not in IN_THE_TEXTS_ORDER
                parts = [seen(model, source, text, turned) for model in chosen]
                (layers,) = TorchScorer(chosen[:1], CPU).attention_weights([(source, text)])
                assert np.allclose(np.mean([*layers.values()], axis=0), parts[0], atol=1e-6)
                assert np.allclose(weights, np.mean(parts, axis=0), atol=1e-6)
                if name not in FADING:
                    assert np.allclose(weights.sum(axis=1), 1, atol=1e-6)
    least = 0.02 if name == "luong-twice" else 0.1
    assert np.ptp(found[1]) > least, "weights that are all alike tell no mistake"


@given(st.text("a한é\U0001f600", max_size=6), st.text("b글", max_size=5), st.integers(0, 9))
def test_characters_add_up_their_bytes(source_text: str, text: str, seed: int) -> None:
    """Against sums written out by hand."""
    source, found = source_text.encode(), text.encode()
    generator = np.random.default_rng(seed)
    weights = generator.dirichlet(np.ones(len(source) + 1), len(found)).astype(np.float32)
    links = link_characters(weights.reshape(len(found), len(source) + 1), source, found)
    assert len(links) == (len(text) if source else 0)
    for k, link in enumerate(links):
        assert link.chars == (k, k + 1)
        shares = []
        for j in range(len(source_text)):
            begin = len(source_text[:j].encode())
            end = begin + len(source_text[j].encode())
            rows = range(len(text[:k].encode()), len(text[: k + 1].encode()))
            shares.append(sum(float(weights[row, begin:end].sum()) for row in rows) / len(rows))
        assert link.weight == pytest.approx(max(shares), abs=1e-5)
        assert shares[link.source_chars[0]] == pytest.approx(max(shares), abs=1e-5)


def test_pieces_are_told_in_the_places_of_the_line() -> None:
    models = scorers(small_model("bahdanau"))
    first, second = ("가나".encode(), "é 다".encode()), (b"cd", "x\U0001f600".encode())
    one, other = align_lines(models, [[(*first, b"")], [(*second, b"")]])
    (line, nothing) = align_lines(models, [[(*first, b" "), (*second, b"")], [(b"", b"", b"")]])
    assert nothing == [] and line[: len(one)] == one and len(line) == len(one) + len(other) == 5
    for link, ((a, b), (c, d), weight) in zip(line[len(one) :], other, strict=True):
        assert link == CharacterLink((a + 4, b + 4), (c + 3, d + 3), weight)


BY_PYTORCH = "--engine torch --device cpu -b 2 --n-best 2 --max-source-bytes 7"


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", BY_PYTORCH])
def test_the_command_tells_alignments(tmp_path: Path, options: str) -> None:
    """With --alignment every character but the separators of parts is aligned."""
    run, plain = make_run(tmp_path / "run"), make_run(tmp_path / "plain", "bytenet", 1)
    local = ("model.attention=local-p", "model.attention_window=5")
    near = make_run(tmp_path / "near", "luong", 2, local)
    without = ("model.attention=off", "model.input_feeding=false")
    off = make_run(tmp_path / "off", "luong", 2, without)
    (tmp_path / "src").write_text("one 두 번째 three\n\nb\n")
    options += " --format jsonl --max-len-b 9"
    command = ["translate", "-i", f"{tmp_path}/src", *options.split()]
    for models, more, told in (
        ([run], ["--alignment"], True),
        ([near], ["--alignment"], True),
        ([run], [], False),
        ([plain, off], [], False),
        ([plain, run], ["--alignment"], True),
    ):
        result = invoke(*command, "-m", *models, *more)
        assert result.exit_code == 0, result.output
        records = [json.loads(line) for line in result.stdout.splitlines()]
        assert [record["line"] for record in records] == [1, 2, 3]
        for record in records:
            assert ("alignment" in record) == told
            if told:
                told_of = {link["chars"][0] for link in record["alignment"]}
                untold = [char for k, char in enumerate(record["text"]) if k not in told_of]
                assert len(told_of) == len(record["alignment"]) and set(untold) <= {" "}
                assert bool(untold) == ("--max-source-bytes" in options and record["line"] == 1)
    assert records[0]["alignment"][0].keys() == {"chars", "source_chars", "weight"}
