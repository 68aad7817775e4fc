"""The recurrent encoder-decoders beside PyTorch's layers and beside each other, and how they start."""

from typing import Any

import invariants
import pytest
import torch
from invariants import VARIANTS, AnyModel, Variant, assert_same, build
from torch import Tensor, nn
from variants import SEQ2SEQ

from bytenmt.architectures.registry import build_model
from bytenmt.config.schema import parse_config

LENGTHS = [5, 9, 1, 3]
DEEP: Variant = SEQ2SEQ | {"n_layers": 4, "reverse_source": True}


def of_layer(layers: Any, index: int, name: str) -> Any:
    """A parameter of a torch.nn.GRU or LSTM."""
    return getattr(layers, f"{name}_l{index}")


def taken_over(theirs: nn.GRU | nn.LSTM, ours: Any) -> None:
    """Copy the weights of PyTorch's layers, which have two biases a gate, into ours, which have one."""
    d = theirs.hidden_size
    for index, layer in enumerate(ours):
        own = {
            name: of_layer(theirs, index, name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        layer.input.weight.copy_(own["weight_ih"])
        layer.input.bias.copy_(own["bias_ih"] + own["bias_hh"])
        if isinstance(theirs, nn.LSTM):
            layer.recurrent.weight.copy_(own["weight_hh"])
        else:
            layer.gates.weight.copy_(own["weight_hh"][: 2 * d])
            layer.candidate.weight.copy_(own["weight_hh"][2 * d :])


def of_torch(model: AnyModel, kind: Any, tgt: Tensor) -> Tensor:
    """Logits by two of PyTorch's stacks, with weights of their own that the model takes over; sentence by
    sentence, each turned round before its EOS."""
    torch.manual_seed(2)
    width, d, depth = 5, model.config.d_hidden, model.config.decoder_depth  # type: ignore[union-attr]
    encoder, decoder = (kind(width, d, depth, batch_first=True).double() for _ in range(2))
    if kind is nn.GRU:  # no place for g's second bias, which its reset scales
        for stack in (encoder, decoder):
            for index in range(depth):
                of_layer(stack, index, "bias_hh").data[2 * d :] = 0
    taken_over(encoder, model.encoder)
    taken_over(decoder, model.decoder.layers)  # type: ignore[union-attr]
    src, src_len = invariants.some_sources(LENGTHS)
    logits = []
    for row, length, read in zip(src, src_len.tolist(), tgt, strict=True):
        turned = torch.cat([row[: length - 1].flip(0), row[length - 1 : length]])
        _, last = encoder(model.embedding(turned[None]))
        logits.append(model.decoder.output(decoder(model.embedding(read[None]), last)[0]))  # type: ignore[operator]
    return torch.cat(logits)


@pytest.mark.parametrize(("cell", "kind"), [("gru", nn.GRU), ("lstm", nn.LSTM)])
def test_a_deep_reversed_model_of_pytorchs_layers(cell: str, kind: Any) -> None:
    """Four layers of torch.nn.LSTM, or of torch.nn.GRU with gru_reset = "after", whose last states start the
    decoder's (Sutskever et al. 2014): the same logits, a padded batch against single sentences."""
    after = {} if cell == "lstm" else {"gru_reset": "after"}
    model, tgt = build(DEEP | {"cell": cell} | after), invariants.some_inputs(4, 8)
    with torch.no_grad():
        expected = of_torch(model, kind, tgt)
        assert_same(invariants.whole(model, *invariants.some_sources(LENGTHS), tgt), expected, cell)


# ---- init = "paper"

LARGE = {"d_embedding": 60, "d_hidden": 64, "init": "paper"}
PAPERS: dict[str, Variant] = {
    "cho": VARIANTS["seq2seq-cho"] | LARGE,
    "maxout at the start": SEQ2SEQ | LARGE | {"read_out_kind": "maxout", "tie_embedding": True},
    "sutskever": DEEP | LARGE | {"cell": "lstm"},
    "lstm at every step": DEEP | LARGE | {"cell": "lstm", "context": "every_step"},
    "bahdanau": VARIANTS["bahdanau"] | LARGE | {"d_attention": 50, "d_maxout": 30},
    "luong": VARIANTS["luong-concat"] | LARGE,
    "luong-places": VARIANTS["luong-location"] | LARGE | {"attention": "local-p", "n_locations": 500},
}


@pytest.mark.parametrize("name", PAPERS)
def test_every_parameter_starts_as_the_paper_says(name: str) -> None:
    """Cho and Bahdanau: recurrent matrices orthogonal, biases and v zero, W_a and U_a N(0, 0.001^2), the rest
    N(0, 0.01^2). Sutskever: everything uniform in [-0.08, 0.08]. Luong: in [-0.1, 0.1], biases zero."""
    torch.manual_seed(1)
    model, options = build_model(parse_config({"model": PAPERS[name]}).model), PAPERS[name]
    uniform = 0.08 if options.get("cell") == "lstm" else 0.1 if options["arch"] == "luong" else 0.0
    for key, parameter in model.named_parameters():
        weight, message = parameter.detach(), f"{name}: {key}"
        if uniform and not (uniform == 0.1 and key.endswith("bias")):
            assert 0.9 * uniform < weight.abs().max() <= uniform, message
            assert float(weight.std()) == pytest.approx(uniform / 3**0.5, rel=0.2), message
        elif key.endswith(("bias", ".v")):
            assert not weight.any(), message
        elif key.endswith(("gates.weight", "candidate.weight")):
            for block in weight.split(64):
                torch.testing.assert_close(block @ block.T, torch.eye(64), atol=1e-5, rtol=0)
        else:
            std = 0.001 if key in ("encoder.keys.weight", "decoder.score.query.weight") else 0.01
            assert float(weight.std()) == pytest.approx(std, rel=0.1), message
            assert abs(float(weight.mean())) < 0.1 * std, message
