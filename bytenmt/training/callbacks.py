"""Callbacks: code of a program that a training calls after every update and validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bytenmt.architectures.base import Model
from bytenmt.training.trainer import Trainer


@dataclass
class TrainingState:
    """The training that a callback is called from.

    run: its folder; trainer: model, optimiser and progress; metrics: the last record of metrics.jsonl.
    """

    run: Path
    trainer: Trainer
    metrics: Mapping[str, float | str] = field(default_factory=dict)
    stop_requested: bool = False
    save_requested: bool = False

    @property
    def model(self) -> Model[Any, Any]:
        """Return the PyTorch module.

        After an update it is in training mode; in a validation it is in evaluation mode, with the averaged
        weights where train.ema is set.
        """
        return self.trainer.model

    @property
    def update(self) -> int:
        """Updates that have been made."""
        return self.trainer.progress.update

    def stop(self) -> None:
        """End the training after this update, with a last validation and a checkpoint."""
        self.stop_requested = True

    def save(self) -> None:
        """Write a checkpoint after this update."""
        self.save_requested = True


class Callback:
    """The base class of callbacks: override what is needed. What it raises ends the training."""

    def on_update(self, training: TrainingState) -> None:
        """Called after an update; `p.grad` of the parameters are its gradients, after clipping."""

    def on_validation(self, training: TrainingState) -> None:
        """Called after a validation, whose scores are in training.metrics."""
