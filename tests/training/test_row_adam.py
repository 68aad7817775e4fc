"""n-gram tables in training: rows that are read are updated as by Adam, the others not touched;
several processes, checkpoints."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from labelled_device import DEVICE, labelled_device
from small_runs import CPU, config
from torch import Tensor

from bytenmt.checkpoints.checkpoint import read_initial_weights
from bytenmt.errors import CheckpointError
from bytenmt.layers.ngram_tables import NgramTables, RowGradients
from bytenmt.training.row_adam import RowAdam
from bytenmt.training.run import train
from bytenmt.training.trainer import Trainer

NGRAMS = ("model.ngrams=[2,3,5]", "model.ngram_rows=64")
TABLES = "embedding.ngrams.weight"


def some_gradients(seed: int, n_rows: int = 24) -> list[RowGradients]:
    """Return gradients of two look-ups in two tables of n_rows / 2 rows of three numbers."""
    generator = torch.Generator().manual_seed(seed)
    make_tables = []
    for t in (5, 4):
        rows = torch.randint(n_rows // 2, (t, 2), generator=generator)
        rows = rows + torch.tensor([0, n_rows // 2])
        make_tables.append(RowGradients(rows, torch.randn(t, 3, generator=generator)))
    return make_tables


def dense(gradients: list[RowGradients], n_rows: int = 24) -> Tensor:
    """Their sum as a table, added up one by one."""
    total = torch.zeros(n_rows, 3)
    for rows, gradient in gradients:
        for i, of_position in enumerate(rows.tolist()):
            for row in of_position:
                total[row] += gradient[i]
    return total


def make_tables() -> NgramTables:
    return NgramTables(3, (2, 3), 12)


@pytest.mark.parametrize("device", ["kernels", "tensors"])  # what a CPU runs, and what a GPU runs
def test_each_row_is_updated_as_by_adam(device: str) -> None:
    """torch.optim.Adam on every row by itself, called only where the row has a gradient."""
    rows = [torch.nn.Parameter(torch.zeros(3)) for _ in range(24)]
    each = [torch.optim.Adam([row], lr=0.1, betas=(0.8, 0.95)) for row in rows]
    with labelled_device() if device == "tensors" else nullcontext():
        ours = RowAdam(make_tables().to(DEVICE if device == "tensors" else CPU), (0.8, 0.95))
        for update in range(6):
            gradients = some_gradients(update)
            for rows_read, gradient in gradients:
                on = ours.sums.device
                ours.tables.gradients.append(RowGradients(rows_read.to(on), gradient.to(on)))
            ours.step(0.1 / (update + 1))
            for row, optimizer, gradient in zip(rows, each, dense(gradients), strict=True):
                if gradient.any():
                    row.grad = gradient
                    optimizer.param_groups[0]["lr"] = 0.1 / (update + 1)
                    optimizer.step()
            expected = torch.stack([row.detach() for row in rows])
            torch.testing.assert_close(ours.tables.weight.detach().cpu(), expected)
        assert not ours.tables.gradients
        states = [optimizer.state.get(row, {}) for row, optimizer in zip(rows, each, strict=True)]
        n_updates = [int(state.get("step", 0)) for state in states]
        assert ours.n_updates.tolist() == n_updates and len(set(n_updates)) > 3


def test_padding_moves_no_row() -> None:
    """A row that is read with a gradient of zeros keeps its momentum for later."""
    ours = RowAdam(make_tables(), (0.9, 0.98))
    ours.tables.gradients += some_gradients(1)
    ours.step(0.1)
    before = ours.tables.weight.detach().clone()
    for rows, gradient in some_gradients(1):
        ours.tables.gradients.append(RowGradients(rows, torch.zeros_like(gradient)))
    ours.step(0.1)
    assert torch.equal(ours.tables.weight, before) and int(ours.n_updates.max()) == 1


@pytest.mark.slow
def test_a_run_without_tables_begins_one_with(tmp_path: Path, texts: dict[str, Any]) -> None:
    """--init-from: its weights, and tables of zeros; the other way round is refused."""
    plain = config("luong", "train.max_updates=3")
    with_tables = config("luong", *NGRAMS, "model.ngram_word_rows=32 train.max_updates=4")
    train(tmp_path / "plain", plain, **texts, device=CPU)
    trainer = Trainer(with_tables, CPU)
    tensors = read_initial_weights(tmp_path / "plain", plain.model)[1]
    trainer.begin_with(tensors, tmp_path / "plain")
    own = dict(trainer.model.named_parameters())
    assert not own[TABLES].any() and all(torch.equal(own[name], tensors[name]) for name in tensors)
    train(tmp_path / "with", with_tables, **texts, device=CPU, init_from=tmp_path / "plain")
    with pytest.raises(CheckpointError, match="another model"):
        train(tmp_path / "no", plain, **texts, device=CPU, init_from=tmp_path / "with")
