"""The state of a training: model, optimiser and progress; one update; its checkpoints."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from bytenmt.architectures.base import Model
from bytenmt.architectures.model_program import NGRAM_TABLES
from bytenmt.architectures.registry import build_model
from bytenmt.checkpoints.checkpoint import (
    check_can_be_stored,
    load_checkpoint,
    load_weights,
    model_tensors,
    save_checkpoint,
    write_weights,
)
from bytenmt.checkpoints.facts import Facts, Progress
from bytenmt.checkpoints.weights import BEST, TRAINER
from bytenmt.config.schedules import lr_factor
from bytenmt.config.schema import Config
from bytenmt.decoding.program_check import check_program
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.errors import BytenmtError, CheckpointError
from bytenmt.training.language_model import LanguageModelObjective
from bytenmt.training.optim import (
    DEFAULT_NGRAM_LR,
    MovingAverage,
    build_optimizer,
    dense_parameters,
    set_rate,
    stored_rate,
)
from bytenmt.training.row_adam import RowAdam
from bytenmt.training.translation import BatchShare, TranslationObjective

Objective = TranslationObjective | LanguageModelObjective


class Trainer:
    """The state of a training in one process: model, optimiser, moving average and progress.

    It makes single updates and checkpoints, for programs with a loop of their own; run.train is the
    loop with validation, limits and signals. The objective supplies batches and their gradients.

        objective = TranslationObjective(config, corpus, valid)
        trainer = Trainer(config, torch.device("cpu"), objective=objective)
        for share in islice(objective.shares(epoch=0, batch=0), 100):
            nats, norm = trainer.learn([share])
        trainer.save(run, best=True, facts=objective.facts())
    """

    def __init__(
        self,
        config: Config,
        device: torch.device,
        group: Group = SINGLE_PROCESS,
        objective: Objective | None = None,
    ) -> None:
        """Build a new model from train.seed.

        objective: None if only `update` is called, with batches that the caller has made.
        """
        train = config.train
        self.config = config
        self.device = device
        self.group = group
        torch.manual_seed(train.seed)
        self.model: Model[Any, Any] = build_model(config.model).to(device)
        check_can_be_stored(self.model, config.model)
        self.objective = objective or _objective_without_text(config, device, group)
        tables = self.model.embedding.ngrams
        self.parameters = dense_parameters(self.model)  # all but the n-gram tables
        betas = train.adam_beta1, train.adam_beta2
        self.row_adam = RowAdam(tables, betas) if tables else None
        self.progress = Progress()
        self.lr = 0.0  # the rate of the last update
        self.optimizer = build_optimizer(self.model, train)
        self.average = MovingAverage(self.parameters, train.ema) if train.ema else None
        self.start_clock()

    def start_clock(self) -> None:
        """Start the clock of progress.seconds: time before this call is not counted."""
        self._tick = time.monotonic()

    def sum_over_processes(self, *values: float) -> list[float]:
        """Return each value summed over all processes.

        All processes must call this together, with equally many values. It also adds the leading
        process' time since the last call to progress.seconds, in all processes.
        """
        now = time.monotonic()
        own_seconds = (now - self._tick) * self.group.is_leader
        self._tick = now
        sums = torch.tensor([*values, own_seconds], dtype=torch.float64)
        self.group.all_reduce(sums)
        *totals, seconds = sums.tolist()
        self.progress.seconds += seconds
        return totals

    def learn(self, shares: Sequence[BatchShare]) -> tuple[Tensor, Tensor]:
        """Make one update from this process' shares of batches, and advance the progress.

        Returns this process' summed negative log-likelihood in nats and the gradient's norm before
        clipping, scalars on the device. All processes must call it together; a share may have no
        rows.
        """
        batches = [share.data for share in shares]
        (target_bytes,) = self.sum_over_processes(sum(batch.counts[1] for batch in batches))
        progress = self.progress
        progress.epoch, progress.batch, progress.epoch_batches = shares[-1][1:]
        return self.update(batches, int(target_bytes))

    def update(
        self, batches: Sequence[Any], target_bytes: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Make one update from batches: gradients, clipping, steps of optimisers and average.

        batches: this process' rows; target_bytes: the target bytes of all processes, EOS included,
        by which the summed loss is divided; None: those of `batches`. Returns this process'
        negative log-likelihood, summed, in nats and without smoothing, and the norm of the gradient
        before clipping, scalars on the device. Raises BytenmtError if the GPU lacks memory.
        """
        train = self.config.train
        if target_bytes is None:
            target_bytes = sum(batch.counts[1] for batch in batches)
        factor = lr_factor(train, self.progress)
        self.lr = train.lr * factor
        set_rate(self.optimizer, self.lr)
        torch.manual_seed(_draw_seed(train.seed, self.progress.update, self.group.rank))
        self.optimizer.zero_grad(set_to_none=True)
        if self.row_adam is not None:
            self.row_adam.zero_grad()
        try:
            nats = self.objective.gradients(self.model, batches, target_bytes)
        except torch.OutOfMemoryError:
            raise BytenmtError(
                "not enough GPU memory: halve train.max_tokens, with --update-freq 2 for the same"
                " updates"
            ) from None
        self._all_reduce_gradients()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, train.clip_norm or math.inf)
        self.optimizer.step()
        if self.row_adam is not None:
            self.row_adam.step((train.ngram_lr or DEFAULT_NGRAM_LR) * factor, self.group)
        self.progress.update += 1
        if self.average is not None:
            self.average.add(self.progress.update)
        return nats, norm

    def averaged(self) -> AbstractContextManager[None]:
        """Return a context in which the model has the weights that are validated and saved.

        They are the moving averages of the weights if train.ema is set.
        """
        return self.average.in_place() if self.average is not None else nullcontext()

    def save(self, run: Path, best: bool = False, facts: Facts | None = None) -> None:
        """Save a checkpoint into the run folder.

        All processes must call it; the leading one writes. best: also save the weights as
        best.safetensors, which translation uses; facts: of the training text. Raises
        CheckpointError where it cannot be written, and with `best` BytenmtError where the CPU
        engine would compute other outputs than the model; earlier checkpoints stay.
        """
        state: dict[str, Any] = {
            "objective": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }
        if not self.group.is_leader:
            return
        if best:
            check_program(self.model, self.config.model)
        if self.average is not None:
            state["average"] = list(self.average.tensors)
        if self.row_adam is not None:
            state["ngrams"] = self.row_adam.state_dict()
        trained = {name: tensor.detach() for name, tensor in model_tensors(self.model).items()}
        facts = msgspec.structs.replace(facts or Facts(), progress=self.progress)
        update = self.progress.update
        with self.averaged():
            used = model_tensors(self.model)
            save_checkpoint(
                run, update, used, state, self.config, facts, best=best, trained=trained
            )

    def save_best(self, run: Path, facts: Facts | None = None) -> None:
        """Save the model as best.safetensors in the run folder, without a checkpoint.

        The weights are those that were validated: the moving averages, if train.ema is set. facts:
        of the training text, stored in the file. Only the leading process of the group writes.
        Raises CheckpointError where it cannot be written, BytenmtError where the CPU engine would
        compute other outputs than the model.
        """
        if not self.group.is_leader:
            return
        check_program(self.model, self.config.model)
        progress = self.progress
        facts = msgspec.structs.replace(facts or Facts(), progress=progress, update=progress.update)
        with self.averaged():
            write_weights(run / BEST, model_tensors(self.model), self.config, facts)

    def load(self, run: Path) -> Facts:
        """Load the checkpoint of a run folder, to resume, and return its facts about the training.

        It has weights, optimiser, moving average, the objective's state and progress. All processes
        must call this together. Raises CheckpointError where it does not fit the configuration.
        """
        saved, has_best = self.group.on_leader(
            lambda: (load_checkpoint(run), (run / BEST).is_file())
        )
        if saved.config.model != self.config.model:
            raise CheckpointError(
                f"the checkpoint of update {saved.update} in {run} holds another model"
            )
        state = saved.trainer
        try:
            load_weights(self.model, saved.weights, run)
            self.optimizer.load_state_dict(state["optimizer"])
            self.lr = stored_rate(self.optimizer)
            if self.average is not None:
                for tensor, stored in zip(self.average.tensors, state["average"], strict=True):
                    tensor.copy_(stored)
            if self.row_adam is not None:
                self.row_adam.load_state_dict(state["ngrams"])
            self.objective.load_state_dict(self.model, state["objective"])
        except (LookupError, ValueError, RuntimeError) as error:
            raise CheckpointError(
                f"{run / TRAINER} does not fit its training ({error}): begin another run with"
                f" its weights, --init-from {run}"
            ) from None
        self.progress = copy(saved.facts.progress or Progress())
        if not has_best:  # the next validation is the best
            self.progress.best = None
            self.progress.best_update = 0
            self.progress.waited = 0
        return saved.facts

    def begin_with(self, tensors: dict[str, Tensor], file: Path) -> None:
        """Load initial weights from another run before the first update, also into the average.

        file: where they were read, for messages. n-gram tables that the other run lacks stay zero.
        Raises CheckpointError where the tensors do not fit the model.
        """
        tables = self.model.embedding.ngrams
        if tables is not None and NGRAM_TABLES not in tensors:
            tensors = tensors | {NGRAM_TABLES: torch.zeros_like(tables.weight)}
        load_weights(self.model, tensors, file)
        if self.average is not None:
            self.average = MovingAverage(self.parameters, self.config.train.ema)

    def _all_reduce_gradients(self) -> None:
        """Sum the gradients over the processes; one that had no row of the batch adds zeros."""
        if self.group.size == 1:
            return
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        flat = torch.cat([grad.flatten() for grad in grads])
        self.group.all_reduce(flat)
        parts = torch.split(flat, [grad.numel() for grad in grads])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)


def _objective_without_text(config: Config, device: torch.device, group: Group) -> Objective:
    """Return an objective for batches that the caller makes."""
    if config.model.source:
        return TranslationObjective(config, device=device, group=group)
    return LanguageModelObjective(config, device=device, group=group)


def _draw_seed(seed: int, update: int, rank: int) -> int:
    """Return the seed of what is random in one update of one process."""
    digest = hashlib.blake2b(f"{seed} {update} {rank}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
