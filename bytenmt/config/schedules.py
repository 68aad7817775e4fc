"""Learning-rate schedules and the ends of a run: functions of the section `train` and the progress.

A schedule returns the factor of train.lr for the next update, after the warm-up. Those of the
package are in plugins.SCHEDULES like those of a plugin: a new one is a function here and a line in
PACKAGE_SCHEDULES.
"""

from __future__ import annotations

import math
from typing import Protocol

from bytenmt.config.train_section import TrainConfig
from bytenmt.errors import BytenmtError
from bytenmt.plugins import SCHEDULES


class Progress(Protocol):
    """The part of a checkpoints.facts.Progress that schedules and ends read; see its comments."""

    update: int
    epoch: int
    batch: int
    epoch_batches: int
    seconds: float
    waited: int
    standstills: int


# The schedules that fall until the end of the run, and therefore need one.
SCHEDULES_WITH_END = frozenset({"cosine", "linear", "wsd", "halving"})


def cosine(train: TrainConfig, progress: Progress) -> float:
    """Fall to zero along half a cosine as the nearest of the run's limits is used up."""
    return 0.5 * (1 + math.cos(math.pi * fraction_done(train, progress)))


def linear(train: TrainConfig, progress: Progress) -> float:
    """Fall linearly to zero as the nearest of the run's limits is used up."""
    return 1 - fraction_done(train, progress)


def inverse_sqrt(train: TrainConfig, progress: Progress) -> float:
    """Fall as 1/sqrt(update) after the warm-up (Vaswani et al. 2017)."""
    return math.sqrt(max(1, train.warmup_updates) / (progress.update + 1))


def constant(train: TrainConfig, progress: Progress) -> float:
    """Stay at the peak rate."""
    return 1.0


def wsd(train: TrainConfig, progress: Progress) -> float:
    """Warm-up, stable, decay (Hu et al. 2024): fall linearly in the last train.decay_share."""
    return min(1.0, (1 - fraction_done(train, progress)) / train.decay_share)


def halving(train: TrainConfig, progress: Progress) -> float:
    """Stay for two thirds of the run, then halve after each twelfth (Luong et al. 2015).

    In a run of twelve epochs these are the epochs from the eighth on.
    """
    n_twelfths = int(12 * fraction_done(train, progress))
    return float(0.5 ** max(0, n_twelfths - 7))


def plateau(train: TrainConfig, progress: Progress) -> float:
    """Fall by train.plateau_factor at validations that are not the best (Gehring et al. 2017)."""
    return float(train.plateau_factor**progress.standstills)


PACKAGE_SCHEDULES = (cosine, linear, inverse_sqrt, constant, wsd, halving, plateau)
for package_schedule in PACKAGE_SCHEDULES:  # a plugin's of the same name wins
    SCHEDULES.setdefault(package_schedule.__name__, package_schedule)


def lr_factor(train: TrainConfig, progress: Progress) -> float:
    """Return the learning rate of the next update as a factor of train.lr.

    It is a linear warm-up, then train.schedule. Raises BytenmtError where the schedule returns a
    factor that is not finite.
    """
    update = progress.update + 1
    warmup_updates = max(1, train.warmup_updates)
    if update < warmup_updates:
        return update / warmup_updates
    factor = float(SCHEDULES[train.schedule](train, progress))
    if not math.isfinite(factor):
        raise BytenmtError(
            f"train.schedule = {train.schedule} returned {factor} after update {progress.update}:"
            " correct the plugin"
        )
    return factor


def fraction_done(train: TrainConfig, progress: Progress) -> float:
    """Return the share, 0 to 1, of the limit that a run reaches first; 0 if it has no limit."""
    shares = [0.0]
    if train.max_updates:
        shares.append(progress.update / train.max_updates)
    if train.max_epochs:
        epochs = float(progress.epoch)
        if progress.epoch_batches:
            epochs += progress.batch / progress.epoch_batches
        shares.append(epochs / train.max_epochs)
    if train.max_minutes:
        shares.append(progress.seconds / (60 * train.max_minutes))
    return min(1.0, max(shares))


def stopped_early(train: TrainConfig, progress: Progress) -> str:
    """Return why training ends before its limits, for the user; "" to go on."""
    if train.patience and progress.waited >= train.patience:
        return f"no better {train.metric.replace('_', ' ')} for {progress.waited} validations"
    if train.schedule == "plateau" and train.plateau_factor**progress.standstills < train.min_lr:
        return "the learning rate has fallen below train.min_lr"
    return ""
