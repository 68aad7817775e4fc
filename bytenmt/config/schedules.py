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
    """The progress of a training run, as far as schedules and limits read it."""

    update: int  # the number of the last update
    epoch: int  # from 0
    batch: int  # the next batch of the epoch
    epoch_batches: int  # batches of the epoch; 0: not known
    seconds: float  # of training in all
    waited: int  # validations since the best one
    standstills: int  # validations of the whole run that brought no new best one


# The schedules that fall until the end of the run, and therefore need one.
SCHEDULES_WITH_END = frozenset({"cosine", "linear", "wsd", "halving"})


def cosine(train: TrainConfig, progress: Progress) -> float:
    """Return the factor of train.lr: half a cosine from 1 at the run's start to 0 at its end.

    The run includes the warm-up, during which lr_factor replaces this factor by its own.
    """
    return 0.5 * (1 + math.cos(math.pi * fraction_done(train, progress)))


def linear(train: TrainConfig, progress: Progress) -> float:
    """Return the factor of train.lr: linear from 1 at the run's start to 0 at its end.

    The run includes the warm-up, during which lr_factor replaces this factor by its own.
    """
    return 1 - fraction_done(train, progress)


def inverse_sqrt(train: TrainConfig, progress: Progress) -> float:
    """Return the factor of train.lr after the warm-up: sqrt(warm-up updates / next update).

    See Vaswani et al. 2017. lr_factor adds the warm-up.
    """
    return math.sqrt(max(1, train.warmup_updates) / (progress.update + 1))


def constant(train: TrainConfig, progress: Progress) -> float:
    """Return the factor of train.lr after the warm-up (which lr_factor adds): always 1."""
    return 1.0


def wsd(train: TrainConfig, progress: Progress) -> float:
    """Return the factor of train.lr after the warm-up: 1, then a linear fall to 0.

    The fall takes the last part of the run, the fraction train.decay_share of it. lr_factor adds
    the warm-up. See Hu et al. 2024 (warm-up, stable, decay).
    """
    return min(1.0, (1 - fraction_done(train, progress)) / train.decay_share)


def halving(train: TrainConfig, progress: Progress) -> float:
    """Return the factor of train.lr: 1 for two thirds of the run, then halved after each twelfth.

    Of twelve epochs, that is after the eighth and each later one (Luong et al. 2015). lr_factor
    adds the warm-up.
    """
    n_twelfths = int(12 * fraction_done(train, progress))
    return float(0.5 ** max(0, n_twelfths - 7))


def plateau(train: TrainConfig, progress: Progress) -> float:
    """Return the factor of train.lr: train.plateau_factor ** progress.standstills.

    Each validation that is not the best so far multiplies the rate once more (Gehring et al. 2017).
    lr_factor adds the warm-up.
    """
    return float(train.plateau_factor**progress.standstills)


PACKAGE_SCHEDULES = (cosine, linear, inverse_sqrt, constant, wsd, halving, plateau)
for package_schedule in PACKAGE_SCHEDULES:  # a plugin's of the same name wins
    SCHEDULES.setdefault(package_schedule.__name__, package_schedule)


def lr_factor(train: TrainConfig, progress: Progress) -> float:
    """Return the learning rate of the next update as a factor of train.lr.

    It rises linearly to 1 over train.warmup_updates; then the schedule train.schedule gives it.
    Raises BytenmtError where the schedule returns a factor that is not finite.
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
    """Return how much of a run is done, 0 to 1, as a share of its nearest limit; 0 without limits.

    Limits are train.max_updates, train.max_epochs and train.max_minutes.
    """
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
    """Return a message why training ends before its limits; "" if it goes on.

    It ends after train.patience validations without a better one, or when the plateau schedule has
    brought the rate below train.min_lr times its peak.
    """
    if train.patience and progress.waited >= train.patience:
        return f"no better {train.metric.replace('_', ' ')} for {progress.waited} validations"
    if train.schedule == "plateau" and train.plateau_factor**progress.standstills < train.min_lr:
        return "the learning rate has fallen below train.min_lr"
    return ""
