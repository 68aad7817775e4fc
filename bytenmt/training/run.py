"""A training run from its files to its end: corpora, trainer, resume, and the loop.

Prints nothing: it calls a reporter, and returns how the run ended.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import torch
from msgspec.structs import replace

from bytenmt.atomic_file import write_atomically
from bytenmt.checkpoints.checkpoint import one_training, read_start
from bytenmt.checkpoints.weights import CONFIG, has_checkpoint, read_config
from bytenmt.config.facts import Progress
from bytenmt.config.schema import (
    Config,
    TrainConfig,
    architecture,
    config_toml,
    fingerprint,
)
from bytenmt.data.corpus import PairFiles
from bytenmt.decoding.engine_selection import n_cores
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.training.language_model_task import open_texts
from bytenmt.training.loop import Loop, spacings
from bytenmt.training.metrics import Log, Record, require_tensorboard
from bytenmt.training.objective import has_fast_bf16, in_bf16, precision_of
from bytenmt.training.optim import lr_factor, stopped_early
from bytenmt.training.task import Task
from bytenmt.training.trainer import Trainer
from bytenmt.training.translation_task import open_pairs

SLOW_BF16 = (
    "bf16: this processor has no instructions for it, which makes the training many times slower:"
    " --set train.precision=fp32"
)
WIDTHS_TO_COMPILE = 16  # the least train.round_to with which train.compile makes sense


class Outcome(NamedTuple):
    """The end of a training. update: the last one; signal: the number of the one that stopped it, or 0."""

    update: int
    signal: int = 0


def train(
    run: Path,
    config: Config,
    *,
    files: Sequence[PairFiles],
    valid: PairFiles,
    device: torch.device,
    errors: str = "replace",
    resume: bool = False,
    init_embedding: Path | None = None,
    init_from: Path | None = None,
    tensorboard: bool = False,
    group: Group = SINGLE_PROCESS,
    reporter: Reporter = SILENT,
    watch: Callable[[Record], None] | None = None,
    threads: int | None = None,
) -> Outcome:
    """Train a model into the folder `run`, as one process of `group`.

    files, valid: all with a source, pairs, or all targets alone, texts whose streams are learnt. resume: go
    on from the run's checkpoint where there is one. init_from: a run whose weights this one begins with; one
    that goes on has done so already. watch: is told every record of metrics.jsonl, in the leading process.
    threads: of the CPU; None: those of the run that goes on, else as many as are idle.
    Raises BytenmtError before anything is written where an input cannot be used.
    """
    _check(config, files, tensorboard)
    if init_from is not None and init_embedding is not None:
        raise BytenmtError("--init-embedding would be ignored: --init-from gives all weights; drop one")
    aloud = reporter if group.is_leader else SILENT
    with _same_threads_afterwards(), one_training(run) if group.is_leader else nullcontext():
        saved = resume and group.broadcast(has_checkpoint(run))
        before = group.on_leader(lambda: read_config(run)).train if saved else None
        if saved:
            config = group.on_leader(lambda: _found_before(config, run))
        task = _open_task(config, files, valid, errors, device, group, aloud)
        if saved and init_embedding is not None:
            raise BytenmtError(f"--init-embedding would be ignored: {run} continues with its own weights")
        config = group.on_leader(lambda: _settled(task.config, device, run if saved else None))
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # TF32
        trainer = Trainer(config, device, group, reporter)
        if init_embedding is not None:
            trainer.begin_with_embedding(init_embedding)
        if saved:
            task.check(run, trainer.load(run))
        elif init_from is not None:
            _begin_with(trainer, init_from, group, aloud)
        progress = trainer.progress
        if threads is not None or device.type == "cpu":
            progress.threads = threads or min(progress.threads, n_cores()) or idle_threads()
            torch.set_num_threads(progress.threads)
        if resume and not saved:
            aloud.warn(f"--resume: {run} holds nothing to resume: the run starts at update 0")
        log = None
        if group.is_leader:
            run.mkdir(parents=True, exist_ok=True)
            write_atomically(run / CONFIG, config_toml(config).encode())
            log = Log(run, trainer.progress.update, tensorboard, reporter, watch)
        loop = Loop(run, trainer, task, log, aloud)
        if saved and loop.ended():
            aloud.say(f"{run} is finished at update {progress.update}: {_to_go_on(config.train, progress)}")
        else:
            if before is not None:
                aloud.say(f"resuming {run} at update {progress.update}")
                if warning := _rate_jump(before, config.train, progress):
                    aloud.warn(warning)
            aloud.say(_describe(trainer))
            if device.type == "cpu" and in_bf16(config.train, device) and not has_fast_bf16():
                aloud.warn(SLOW_BF16)
            number = loop.go()
            if number:
                aloud.say(f"stopped at update {progress.update}, saved; continue with --resume")
                return Outcome(progress.update, number)
            aloud.say(_ended(run, trainer))
        return Outcome(progress.update)


@contextmanager
def _same_threads_afterwards() -> Iterator[None]:
    """Restore PyTorch's number of CPU threads on leaving."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def idle_threads() -> int:
    """Return how many CPU threads a training should use: as many as cores are idle by the machine's load
    average of the last minute, at least one and at most PyTorch's default.

    Threads that wait for one another at every operation are very slow on cores that others use: on a busy
    machine two threads can take several times the CPU time of one. A number in OMP_NUM_THREADS stands.
    """
    default = torch.get_num_threads()
    if "OMP_NUM_THREADS" in os.environ:
        return default
    try:
        load = os.getloadavg()[0]
    except (OSError, AttributeError):  # the system does not tell
        return default
    idle = (os.cpu_count() or 1) - load
    return max(1, min(default, n_cores(), math.floor(idle + 0.5)))


def _settled(config: Config, device: torch.device, saved: Path | None) -> Config:
    """Return the configuration with the precision that "auto" stands for.

    It is the resumed run's precision, or else what suits this device; it is written down, so that a run keeps
    it on another machine.
    """
    if config.train.precision != "auto":
        return config
    precision = precision_of(device, config.model) if saved is None else read_config(saved).train.precision
    return replace(config, train=replace(config.train, precision=precision))


def _found_before(config: Config, saved: Path) -> Config:
    """Return the configuration with the options of the model that were found when the run began."""
    if config.model.needs_fit:
        return replace(config, model=read_config(saved).model)
    return config


def _open_task(
    config: Config,
    files: Sequence[PairFiles],
    valid: PairFiles,
    errors: str,
    device: torch.device,
    group: Group,
    reporter: Reporter,
) -> Task:
    """Open the task of the files."""
    if files[0].has_source:
        return open_pairs(config, files, valid, errors, device, group, reporter)
    return open_texts(config, files, valid, device, group, reporter)


def _to_go_on(train: TrainConfig, progress: Progress) -> str:
    """Tell which option to change so that a finished run goes on."""
    reached = [
        f"{key} above {limit:g}"
        for key, limit, used in (
            ("train.max_updates", train.max_updates, progress.update),
            ("train.max_epochs", train.max_epochs, progress.epoch + 1),
            ("train.max_minutes", train.max_minutes, progress.seconds / 60),
            ("train.patience", train.patience, progress.waited),
        )
        if limit and used >= limit
    ]
    return f"to go on, set {' and '.join(reached)}" if reached else stopped_early(train, progress)


def _rate_jump(before: TrainConfig, now: TrainConfig, progress: Progress) -> str:
    """A warning where other limits than those before change the learning rate at once, else ""."""
    old, new = (train.lr * lr_factor(train, progress) for train in (before, now))
    if math.isclose(old, new, rel_tol=0.05):
        return ""
    return (
        f"the {now.schedule} schedule ends at other limits than before: the learning rate goes from"
        f" {old:.3g} to {new:.3g} at once"
    )


def _begin_with(trainer: Trainer, init_from: Path, group: Group, reporter: Reporter) -> None:
    """Take the weights of another run."""
    file, tensors = group.on_leader(lambda: read_start(init_from, trainer.config.model))
    trainer.begin_with(tensors, file)
    reporter.say(f"starting from the weights of {file}")


def _ended(run: Path, trainer: Trainer) -> str:
    """A line on a run that has come to its end."""
    progress, train = trainer.progress, trainer.config.train
    reason = stopped_early(train, progress)
    why = f" ({reason})" if reason else ""
    finished, metric = f"finished at update {progress.update}{why}", train.metric.replace("_", " ")
    if progress.best is None:
        return f"{finished}; every validation's {metric} was NaN: {run}"
    return f"{finished}; best validation {metric} {progress.best:.4f} at update {progress.best_update}: {run}"


def _check(config: Config, files: Sequence[PairFiles], tensorboard: bool) -> None:
    """Settings that do not go together. Raises BytenmtError."""
    train, model = config.train, config.model
    if train.compile and model.is_serial:
        raise ConfigError(f"train.compile would unroll the steps of {model.full_name}: leave it off")
    if config.model.source != files[0].has_source:
        raise ConfigError(
            f"model.source is {str(config.model.source).lower()}, but the text has"
            f" {'a' if files[0].has_source else 'no'} source: change the text or the key"
        )
    for key in () if files[0].has_source else config.data.augmentations:
        raise ConfigError(f"data.{key} would be ignored without a source: leave it at 0")
    if train.compile and config.model.source and train.round_to < WIDTHS_TO_COMPILE:
        raise ConfigError(
            f"train.compile compiles for every width of a batch: set train.round_to={4 * WIDTHS_TO_COMPILE}"
            f" or so to have few widths"
        )
    spacings(train)
    limits = (train.max_updates, train.max_epochs, train.max_minutes)
    if train.schedule in ("cosine", "linear", "wsd") and not any(limits):
        raise ConfigError(
            f"train.schedule = {train.schedule} needs an end: give --max-minutes, --max-epochs or"
            " --max-updates, or set train.schedule=inverse_sqrt"
        )
    if train.metric != "bits_per_byte" and not (files[0].has_source and train.valid_lines):
        raise ConfigError(f"train.metric = {train.metric} needs a source, and train.valid_lines above 0")
    if tensorboard:
        require_tensorboard()


def _describe(trainer: Trainer) -> str:
    n_parameters = sum(p.numel() for p in trainer.model.parameters())
    processes = f", {trainer.group.size} processes" if trainer.group.size > 1 else ""
    n_threads = torch.get_num_threads()
    threads = f", {n_threads} CPU thread{'s' * (n_threads > 1)}" if trainer.device.type == "cpu" else ""
    return (
        f"{architecture(trainer.config.model)}, {n_parameters:,} parameters"
        f" ({trainer.model.decoder_weights():,} in the decoder), {trainer.device}{threads}{processes},"
        f" {trainer.config.train.precision},"
        f" configuration {fingerprint(trainer.config)}"
    )
