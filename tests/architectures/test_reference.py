"""Models against NumPy, initialisations, gradients, the Transformer's attention.

Tests architectures/*/model.py (forward_aligned, encode), layers/recurrent.py (initialise) and
layers/attention.py (AdditiveScore) beside tests/helpers/reference.py.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import invariants
import pytest
import torch
from fast_variants import by_variant
from invariants import assert_same, build, make
from torch import Tensor
from torch.nn import functional as F
from variants import OPTIONS, VARIANTS, WITHOUT_SOURCE, Variant

from bytenmt.architectures.registry import build_model
from bytenmt.architectures.transformer.model import _attend
from bytenmt.config.schema import parse_config
from bytenmt.layers.weight_norm import WeightNorm


@by_variant("name", [name for name in OPTIONS if name not in WITHOUT_SOURCE])
def test_model_equals_numpy(name: str) -> None:
    invariants.check_reference(build(OPTIONS[name], seed=3))


@by_variant("name", VARIANTS)
def test_model_equals_numpy_without_source(name: str) -> None:
    invariants.check_reference(make(name, seed=4), lengths=(), t=9)


@pytest.mark.parametrize(("length", "columns"), [(1, 2), (5, 6), (15, 18), (25, 30), (26, 32)])
def test_bytenet_unfolding(length: int, columns: int) -> None:
    """|t^| = ceil(1.2 |s|), where 1.2 * 15 is 18 and not a hair more."""
    model: Any = make("bytenet")
    assert int(model.unfolded_len(torch.tensor([length]))[0]) == columns


@pytest.mark.parametrize("stacking", ["concat", "add"])
def test_bytenet_columns_at_the_start(stacking: str) -> None:
    """encoder_scale is a factor of the first columns, through the weights alone: all other weights
    are drawn as without it."""
    models: list[Any] = []
    for scale in (1.0, 3.0):
        torch.manual_seed(8)
        options = VARIANTS["bytenet"] | {"stacking": stacking, "encoder_scale": scale}
        models.append(build_model(parse_config({"model": options}).model).eval())
    plain, larger = models
    expected, found = (model.encode(*invariants.some_sources([6, 4])) for model in models)
    torch.testing.assert_close(found.columns, 3 * expected.columns)
    pairs = zip(larger.named_parameters(), plain.parameters(), strict=True)
    names = [name for (name, part), other in pairs if not torch.equal(part, other)]
    assert names == ["encoder.output.weight", "encoder.output.bias"]


# ---- ConvS2S: weight normalisation, initialisation


def test_weight_norm_starts_as_v() -> None:
    """g starts at |v|: the first map is v itself; the length is per output channel."""
    v = torch.randn(4, 3, 2).double()
    norm = WeightNorm(v.clone()).double()
    lengths = torch.arange(1.0, 5.0).double()
    with torch.no_grad():
        assert_same(norm(), v, "first weight")
        norm.g.copy_(lengths)
        assert_same(norm().flatten(1).norm(dim=1), lengths, "lengths")


def refreshes(norm: WeightNorm) -> None:
    """The weight without gradients is the one with them."""
    with torch.no_grad():
        folded = norm()
    assert torch.equal(folded, norm()), "a stale folded weight"


def test_the_folded_weight_follows_every_change() -> None:
    """Loads, casts, assignments and steps of an optimizer, which raises no version if it is fused;
    between them it is kept."""
    norm, other = WeightNorm(torch.randn(4, 3)).eval(), WeightNorm(torch.randn(4, 3))
    optimizer = torch.optim.AdamW(norm.parameters(), lr=0.1, fused=True)

    def step() -> None:
        norm.train()
        norm()[0].sum().backward()
        optimizer.step()
        norm.eval()

    def assign() -> None:
        norm.load_state_dict(WeightNorm(torch.randn(4, 3)).state_dict(), assign=True)

    refreshes(norm)
    load = partial(norm.load_state_dict, other.state_dict())
    for change in (step, step, load, norm.double, norm.float, assign):
        change()
        refreshes(norm)
    with torch.no_grad():
        norm.g.mul_(2)
        refreshes(norm)
        assert norm() is norm(), "folded twice"


def convs2s_at_init(d: int, n_layers: int, dropout: float = 0.0) -> Any:
    torch.manual_seed(7)
    layers = [[d, 3]] * n_layers
    options = {"arch": "convs2s", "d_embedding": d, "dropout": dropout, "n_positions": 0}
    tree = {"model": options | {"encoder_layers": layers, "decoder_layers": layers}}
    return build_model(parse_config(tree).model).double()


def test_convs2s_keeps_the_variance() -> None:
    encoder = convs2s_at_init(128, 8).encoder
    x = 0.1 * torch.randn(4, 200, 128).double()  # as wide as the embeddings
    mask = torch.ones(4, 200, dtype=torch.bool)
    first = float(x.var())
    with torch.no_grad():
        for layer in encoder.layers:
            y = layer.centred(x, mask)
            assert 0.85 < float(y.var() / x.var()) < 1.15
            x = y
    assert 0.75 < float(x.var()) / first < 1.33


def test_convs2s_initial_widths() -> None:
    """Maps into a GLU are N(0, sqrt(4p/n)), the others N(0, sqrt(p/n)); tables N(0, 0.1)."""
    model = convs2s_at_init(128, 2, dropout=0.25)
    layer = model.decoder.layers[1]
    expected = {
        layer.convolution.normed.v: math.sqrt(4 * 0.75 / (3 * 128)),
        layer.query.weight.v: math.sqrt(1 / 128),
        layer.context.weight.v: math.sqrt(1 / 128),
        model.encoder.input.weight.v: math.sqrt(0.75 / 128),
        model.decoder.last.weight.v: math.sqrt(1 / 128),
        model.embedding.weight: 0.1,
    }
    for weight, std in expected.items():
        assert float(weight.detach().std()) == pytest.approx(std, rel=0.05)
    biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
    assert not any(bool(bias.any()) for bias in biases)


# ---- initialisation as the papers have it

DEEP: Variant = {"n_layers": 4, "reverse_source": True}
LARGE = {"d_embedding": 60, "d_hidden": 64, "init": "paper"}
LSTM = DEEP | {"cell": "lstm"}
BASES: dict[str, tuple[str, Variant]] = {
    "cho": ("seq2seq-cho", {}),
    "sutskever": ("seq2seq", LSTM),
    "lstm at every step": ("seq2seq", LSTM | {"context": "every_step"}),
    "bahdanau": ("bahdanau", {"d_attention": 50, "d_maxout": 30}),
    "luong": ("luong-concat", {}),
    "luong-places": ("luong-location", {"attention": "local-p", "n_locations": 500}),
}
PAPERS = {name: VARIANTS[base] | LARGE | more for name, (base, more) in BASES.items()}


@pytest.mark.parametrize("name", PAPERS)
def test_every_parameter_starts_as_the_paper_says(name: str) -> None:
    """Cho and Bahdanau: recurrent matrices orthogonal, biases and v zero, W_a and U_a N(0,
    0.001^2), the rest N(0, 0.01^2). Sutskever: everything uniform in [-0.08, 0.08]. Luong: in
    [-0.1, 0.1], biases zero."""
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


# ---- gradients against finite differences


def loss_of(model: Any, lengths: list[int]) -> Callable[..., Tensor]:
    """Return a loss of a model on sources of these lengths as a function; it may be given the
    memory."""
    sources, tgt = invariants.some_sources(lengths), invariants.some_inputs(len(lengths), 9)

    def loss(memory: Any = None) -> Tensor:
        memory = memory or model.encode(*sources)
        logits: Tensor = model(tgt, memory, model.start(memory))[0]
        return logits.log_softmax(dim=-1)[..., 70].sum()

    return loss


@torch.no_grad()
def slope(loss: Callable[..., Tensor], parameter: Tensor, i: int, step: float = 1e-5) -> float:
    """Return how the loss changes with number i of a parameter."""
    flat, values = parameter.data.view(-1), []
    for move in (step, -step):
        flat[i] += move
        values.append(float(loss()))
        flat[i] -= move
    return (values[0] - values[1]) / (2 * step)


STACKS = [
    *(("convs2s", "layers.0", 2), ("convs2s-one-attention", "layers.0", 1)),
    *(("convs2s-conv", "keys.layers.1", 2), ("convs2s-conv", "values.layers.0", 2)),
]


@pytest.mark.parametrize(("name", "layer", "n_attentions"), STACKS)
def test_convs2s_encoder_gradient_factor(name: str, layer: str, n_attentions: int) -> None:
    """The gradient into the encoder's stack, where alone these weights are, is the true one over
    twice the number of attentions."""
    model = make(name)
    bias, loss = model.get_parameter(f"encoder.{layer}.convolution.bias"), loss_of(model, [6, 4])
    loss().backward()
    assert bias.grad is not None
    for i, found in enumerate(bias.grad.tolist()):
        assert found == pytest.approx(slope(loss, bias, i) / (2 * n_attentions), rel=1e-5, abs=1e-8)


def test_convs2s_embedding_path_is_not_scaled() -> None:
    """The path through e_j keeps its whole gradient: table = scaled stack + whole e + target."""
    model: Any = make("convs2s")
    loss, row = loss_of(model, [6]), model.encoder.positions.weight  # only the source has these
    memory = model.encode(*invariants.some_sources([6]))
    value = loss(memory)
    (through_e,) = torch.autograd.grad(value * math.sqrt(0.5), memory.values, retain_graph=True)
    value.backward()
    for i, e in enumerate(through_e.flatten().tolist()):
        expected = (slope(loss, row, i) - e) / 4 + e  # the slope is that of stack and e together
        assert float(row.grad.view(-1)[i]) == pytest.approx(expected, rel=1e-5, abs=1e-7)


GAUSSIAN = VARIANTS["luong-local-p"] | {"score": "general", "attention_window": 4}
LOCATION = GAUSSIAN | {"score": "location", "n_locations": 7, "attention": "local-m"}


@pytest.mark.parametrize(
    ("options", "learnt"),
    [
        (GAUSSIAN | {"gaussian": "after"}, ["position.hidden.weight", "position.v"]),
        (GAUSSIAN | {"gaussian": "inside"}, ["position.hidden.weight", "position.v"]),
        (LOCATION, ["location.weight"]),
        (LOCATION | {"location_softmax": "twice", "input_feeding": False}, ["location.weight"]),
    ],
)
def test_luong_learns_where_to_look(options: dict[str, Any], learnt: list[str]) -> None:
    """W_p and v_p, where no byte enters or leaves a window, through the Gaussian alone."""
    model: Any = build(options, seed=6, scale=1.0)
    loss = loss_of(model, [14, 3, 9])
    loss().backward()
    for parameter in map(model.decoder.get_parameter, learnt):
        assert float(parameter.grad.abs().max()) > 1e-3
        for i, found in enumerate(parameter.grad.view(-1)[::5].tolist()):
            assert found == pytest.approx(slope(loss, parameter, 5 * i, 1e-6), rel=1e-4, abs=1e-6)


# ---- attention


def test_additive_scores_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computing them in parts, which limits memory, gives the same."""
    loss = loss_of(make("luong-concat"), [14, 3, 9])
    expected = loss().detach()
    monkeypatch.setattr("bytenmt.layers.attention.MAX_TANH_NUMBERS", 1)
    assert_same(loss().detach(), expected, "parts")


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.bfloat16, 2e-2)])
def test_gradients_equal_those_of_the_fused_attention(dtype: torch.dtype, tolerance: float) -> None:
    """Outputs and all three gradients, with columns that some or all queries may not see."""
    generator = torch.Generator().manual_seed(1)
    shapes = (3, 2, 5, 6), (3, 2, 7, 6), (3, 2, 7, 6), (3, 2, 5, 6)
    q, k, v, weight = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
    )
    mask = torch.rand(3, 1, 5, 7, generator=generator) < 0.6
    mask[..., 0], mask[1, :, :, 3] = True, False
    found = []
    fused: Any = F.scaled_dot_product_attention
    ours: Any = _attend
    for precision, attend in ((dtype, ours), (torch.float64, fused)):
        inputs = [one.to(precision).requires_grad_() for one in (q, k, v)]
        output = attend(*inputs, mask)
        grads = torch.autograd.grad((output.double() * weight).sum(), inputs)
        found.append([output.double(), *(one.double() for one in grads)])
    for own, theirs in zip(*found, strict=True):
        torch.testing.assert_close(own, theirs, rtol=tolerance, atol=3 * tolerance)
