"""PyTorch's kernels for whole sequences, which run on CUDA, equal our loop; here on the CPU.

Tests layers/sequence_kernels.py (gru, lstm, has_sequence_kernels) and layers/recurrent.py
(RecurrentLayer.read_by_kernel). The CPU's kernels share the interface with cuDNN's.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from variants import OPTIONS, Variant

from bytenmt.architectures.registry import build_model
from bytenmt.architectures.tensor_tree import tensors
from bytenmt.config.schema import parse_config
from bytenmt.layers import sequence_kernels
from bytenmt.layers.recurrent import GRU, LSTM
from bytenmt.utf8 import EOS

CELLS: dict[str, Callable[[], GRU | LSTM]] = {
    "gru-keep": lambda: GRU(6, 7, "after"),
    "gru-take": lambda: GRU(6, 7, "after", "take"),
    "lstm": lambda: LSTM(6, 7),
}
LOOPS: dict[str, Callable[[], GRU | LSTM]] = {
    "gru-before": lambda: GRU(6, 7),
    "gru-inside": lambda: GRU(6, 7, "after", d_inside=2),
}


def has_kernels(name: str, options: Variant) -> bool:
    if options["arch"] == "luong":
        return "local" not in name and "location" not in name
    has_cell = "after" in options.values() or options.get("cell") == "lstm"
    # The single layers of Cho's model read otherwise.
    return options["arch"] == "seq2seq" and has_cell and name != "seq2seq-cho"


MODELS = {name: options for name, options in OPTIONS.items() if has_kernels(name, options)}
LENGTHS = torch.tensor([5, 1, 3])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that are called from now on, where they would be called on CUDA."""
    called: list[str] = []
    real_run = sequence_kernels._run

    def run(kernel: Any, *rest: Any) -> Any:
        called.append(kernel.__name__)
        return real_run(kernel, *rest)

    monkeypatch.setattr("bytenmt.layers.recurrent.has_sequence_kernels", lambda x: x.shape[1] > 1)
    monkeypatch.setattr(sequence_kernels, "_run", run)
    return called


def read(cell: GRU | LSTM, lengths: Tensor | None, autocast: bool = False) -> list[Tensor]:
    """The states within the lengths and the last state of a layer on random inputs, and the
    gradients by its weights, the inputs and the first state."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(3, 5, 6, generator=draw).requires_grad_()
    n_states = 1 + isinstance(cell, LSTM)
    state = [torch.randn(3, 7, generator=draw).requires_grad_() for _ in range(n_states)]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        states, after = cell(x, state, lengths)
    if lengths is not None:
        states = states * (torch.arange(5) < lengths[:, None])[:, :, None]
    results = [states, *after]
    loss = sum((part * torch.randn(part.shape, generator=draw)).sum() for part in results)
    assert isinstance(loss, Tensor)
    gradients = torch.autograd.grad(loss, [*cell.parameters(), x, *state])
    return [*(part.detach() for part in results), *gradients]


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "padded"])
@pytest.mark.parametrize("name", CELLS)
def test_layers_equal_the_loop(
    name: str, lengths: Tensor | None, request: pytest.FixtureRequest
) -> None:
    """States, last states of padded rows and gradients in float32; in bf16 within its rounding."""
    torch.manual_seed(2)
    cell = CELLS[name]()
    expected = read(cell, lengths)
    calls = request.getfixturevalue("calls")
    found = read(cell, lengths)
    assert calls == [name[: name.find("-")] if "-" in name else name]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    for one, other in zip(read(cell, lengths, autocast=True), expected, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", LOOPS)
def test_other_equations_keep_the_loop(name: str, calls: list[str]) -> None:
    """PyTorch has no kernel for a reset before the product, or of a part of the inputs."""
    read(LOOPS[name](), None)
    assert not calls


@pytest.mark.parametrize("name", MODELS)
def test_models_equal_the_loop(name: str, request: pytest.FixtureRequest) -> None:
    """Logits, the state after a text and gradients of padded pairs, read at once and byte by byte,
    in float64."""
    torch.manual_seed(4)
    model = build_model(parse_config({"model": MODELS[name]}).model).double().eval()
    source, target = torch.randint(97, 123, (3, 5)).to(torch.uint8), torch.randint(97, 123, (3, 4))
    for row, length in zip(source, LENGTHS, strict=True):
        row[length - 1 :] = EOS
    target, lengths = target.to(torch.uint8), LENGTHS
    if not model.config.source:
        source, lengths = source[:, :0], torch.zeros_like(LENGTHS)

    def run() -> list[Tensor]:
        memory = model.encode(source, lengths)
        logits, state = model(target, memory, model.start(memory))
        model.zero_grad()
        logits.square().sum().backward()
        parts = tensors(state)
        grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        return [logits.detach(), *(part.detach() for part in parts), *grads]

    expected = run()
    calls = request.getfixturevalue("calls")
    found = run()
    assert calls
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    with torch.no_grad():
        memory = model.encode(source, lengths)
        state = model.start(memory)
        for column in range(target.shape[1]):
            logits, state = model(target[:, column : column + 1], memory, state)
            torch.testing.assert_close(logits[:, 0], expected[0][:, column], rtol=1e-9, atol=1e-9)


def test_cuda_alone_has_them() -> None:
    """The CPU keeps the loop with fused cells, and a single byte is a step."""
    assert not sequence_kernels.has_sequence_kernels(torch.zeros(1, 2, 3))
    assert not sequence_kernels.has_sequence_kernels(torch.zeros(1, 2, 3, device="meta"))
