"""training.optim: optimisers against their papers' formulas, and the moving average."""

from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import build_model
from bytenmt.config.schema import load_config
from bytenmt.config.train_section import TrainConfig
from bytenmt.training.optim import MovingAverage, build_optimizer, set_rate


def descend(train: TrainConfig, n_steps: int, resume_at: int | None = None) -> np.ndarray[Any, Any]:
    """A matrix and a vector under the gradient cos(x); resumed from saved tensors where that is
    said."""
    parameters = nn.ParameterList([torch.linspace(-1, 1, 6).view(2, 3), torch.ones(2) * 0.5])
    optimizer = build_optimizer(parameters, train)
    for step in range(n_steps):
        if step == resume_at:
            kept = deepcopy(optimizer.state_dict())
            optimizer = build_optimizer(parameters, train)
            optimizer.load_state_dict(kept)
        for parameter in parameters:
            parameter.grad = torch.cos(parameter.detach())
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in parameters]).numpy()


def by_hand(name: str, n_steps: int, lr: float) -> np.ndarray[Any, Any]:
    """Compute the update in NumPy, without weight decay, from the papers' equations."""
    x = np.concatenate([np.linspace(-1, 1, 6), [0.5, 0.5]])
    velocity, squares, deltas = np.zeros(8), np.zeros(8), np.zeros(8)
    first, second, momentum = np.zeros(8), np.zeros(8), np.zeros((2, 3))
    for step in range(1, n_steps + 1):
        g = np.cos(x)
        if name == "sgd":
            x = x - lr * g
        elif name == "nag":  # Sutskever et al. 2013, in the variables at the point looked ahead to
            velocity = 0.9 * velocity + g
            x = x - lr * (g + 0.9 * velocity)
        elif name == "adadelta":  # Zeiler 2012, algorithm 1
            squares = 0.95 * squares + 0.05 * g**2
            delta = np.sqrt(deltas + 1e-6) / np.sqrt(squares + 1e-6) * g
            deltas = 0.95 * deltas + 0.05 * delta**2
            x = x - lr * delta
        else:  # Kingma and Ba 2015
            first, second = 0.9 * first + 0.1 * g, 0.98 * second + 0.02 * g**2
            moved = x - lr * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.98**step)) + 1e-8)
            # Jordan et al. 2024, with Nesterov's momentum, scaled as by Liu et al. 2025.
            if name == "muon":
                matrix = g[:6].reshape(2, 3)
                momentum = 0.95 * momentum + 0.05 * matrix
                direction = iterated(0.05 * matrix + 0.95 * momentum)
                moved[:6] = x[:6] - lr * 0.2 * np.sqrt(3) * direction.flatten()
            x = moved
    return x


def iterated(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Singular values s of x, scaled to length 1, to p(p(p(p(p(s))))) with an odd polynomial p."""
    left, s, right = np.linalg.svd(x / np.linalg.norm(x), full_matrices=False)
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return np.asarray(left * s @ right)


@pytest.mark.parametrize("name", ["adamw", "muon", "nag", "sgd", "adadelta"])
def test_optimizers(name: Any) -> None:
    """Five steps as the paper has them; resumed after three, bit for bit the same."""
    train = TrainConfig(optimizer=name, lr=0.1, weight_decay=0.0, momentum=0.9)
    got = descend(train, 5)
    np.testing.assert_allclose(got, by_hand(name, 5, 0.1), rtol=1e-5)
    assert np.array_equal(got, descend(train, 5, resume_at=3))


@pytest.mark.parametrize("name", ["adamw", "muon", "nag", "sgd", "adadelta"])
def test_weight_decay_is_decoupled(name: Any) -> None:
    """It multiplies the weights by 1 - lr * decay, and never enters the gradient, its averages or
    the momentum."""
    lr, decay, n_steps = 0.1, 0.5, 4
    moved = {}
    for weight_decay in (0.0, decay):
        train = TrainConfig(optimizer=name, lr=lr, weight_decay=weight_decay, momentum=0.9)
        parameters = nn.ParameterList([torch.linspace(1, 2, 6).view(2, 3)])
        optimizer = build_optimizer(parameters, train)
        weights = [parameters[0].detach().clone()]
        for _ in range(n_steps):
            parameters[0].grad = torch.ones(2, 3)
            optimizer.step()
            weights.append(parameters[0].detach().clone())
        moved[weight_decay] = weights
    for step in range(n_steps):
        # The update of the gradient, which is the same with and without decay.
        plain = moved[0.0][step + 1] - moved[0.0][step]
        decayed = moved[decay][step + 1] - (1 - lr * decay) * moved[decay][step]
        torch.testing.assert_close(plain, decayed, rtol=1e-5, atol=1e-6)


def test_a_checkpoint_with_the_former_decay_goes_on_as_it_was() -> None:
    """Groups of older versions have PyTorch's weight_decay, and no decoupled one."""
    train = TrainConfig(optimizer="nag", lr=0.1, weight_decay=0.5, momentum=0.9)
    parameters = nn.ParameterList([torch.ones(2, 3)])
    groups = [{"params": [*parameters], "weight_decay": 0.5}]
    former = torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)
    optimizer = build_optimizer(parameters, train)
    optimizer.load_state_dict(former.state_dict())
    parameters[0].grad = torch.zeros(2, 3)
    optimizer.step()
    torch.testing.assert_close(parameters[0].detach(), torch.full((2, 3), 1 - 0.1 * 0.5 * 1.9))


@pytest.mark.parametrize("name", ["adamw", "muon", "nag", "sgd", "adadelta"])
def test_weight_decay_leaves_vectors_alone(name: Any) -> None:
    train = partial(TrainConfig, optimizer=name, lr=0.1)
    plain, decayed = (descend(train(weight_decay=decay), 3) for decay in (0.0, 0.5))
    assert np.array_equal(plain[6:], decayed[6:])
    assert (plain[:6] != decayed[:6]).all()


# Parts of the names of matrices that several maps are stacked in, and how many.
STACKED = {
    "seq2seq": {"input": 3, "gates": 2},
    "bahdanau": {"cell.input": 3, "wards.input": 3, "gates": 2},
    "luong": {"layers": 4, "encoder": 4},
    "convs2s": {"convolution": 2},
    "bytenet": {},
    "transformer": {"qkv": 3, "encoder.output": 6},
}


@pytest.mark.slow
@pytest.mark.parametrize("arch", PRESETS["tiny"])
def test_muon_takes_each_map_by_itself(arch: str) -> None:
    """Each of the stacked gates is made orthogonal, kernels are flattened; the other parameters use
    AdamW."""
    settings = ["train.optimizer=muon", "train.adam_lr=1e-6", "train.weight_decay=0"]
    config = load_config(arch, "tiny", ["model.d_embedding=12", *settings])
    model = build_model(config.model)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = build_optimizer(model, config.train)
    set_rate(optimizer, 1e-3)
    generator = torch.Generator().manual_seed(1)
    for p in model.parameters():
        p.grad = torch.randn(p.shape, generator=generator)
    optimizer.step()
    for name, p in model.named_parameters():
        moved = (p.detach() - before[name]).numpy()
        if p.dim() < 2 or "embedding" in name or "positions" in name or "decoder.output" in name:
            assert abs(moved).max() < 2e-6, name  # AdamW's first step is its rate
            continue
        n_maps = max([n for part, n in STACKED[arch].items() if f"{part}." in name], default=1)
        assert p.grad is not None
        maps = (np.split(a.reshape(len(a), -1), n_maps) for a in (moved, p.grad.numpy()))
        for block, grad in zip(*maps, strict=True):
            expected = -1e-3 * 0.2 * np.sqrt(max(block.shape)) * iterated(grad.astype(np.float64))
            np.testing.assert_allclose(block, expected, atol=2e-6, err_msg=name)


def test_moving_average() -> None:
    parameter = nn.Parameter(torch.zeros(3))
    average = MovingAverage([parameter], 0.8)
    expected = np.zeros(3)
    for update in range(1, 40):
        value = np.array([update, -update, 0.5 * update])
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(value))
        average.add(update)
        decay = min(0.8, (1 + update) / (10 + update))
        expected = decay * expected + (1 - decay) * value
    with average.in_place():
        np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-5)
    assert parameter.tolist() == [39.0, -39.0, 19.5]
