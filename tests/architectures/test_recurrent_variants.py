"""The recurrent encoder-decoders beside PyTorch's layers and beside each other, and how they start."""

import pytest
import torch
from invariants import VARIANTS, Variant
from variants import SEQ2SEQ

from bytenmt.architectures.registry import build_model
from bytenmt.config.schema import parse_config

DEEP: Variant = SEQ2SEQ | {"n_layers": 4, "reverse_source": True}


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
