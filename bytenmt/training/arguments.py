"""Combine the arguments of a training: the configuration of its run, and the files of its texts.

Imports no PyTorch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from bytenmt.checkpoints.weights import PUBLISHED, has_checkpoint, read_config, read_run
from bytenmt.config.schema import Config, config_tree, resolve_config
from bytenmt.config.tree import assign, assign_value, merge, merge_settings
from bytenmt.data.pair_files import PairFiles
from bytenmt.errors import BytenmtError, ConfigError

# The factor of a preset's batch where there is a GPU and train.max_tokens is not set.
GPU_BATCH_FACTOR = 8
# Keys of `train` that --resume may change: the limits of the run, and intervals.
LIMITS = ("max_updates", "max_epochs", "max_minutes", "patience")
CHANGEABLE_KEYS = (*LIMITS, "log_every", "valid_every", "save_every")


def configuration(
    run: Path,
    resume: bool,
    arch: str | None,
    preset: str | None,
    file: Path | None,
    settings: Mapping[str, Any],
    source: bool = True,
    init_from: Path | None = None,
    on_gpu: bool = False,
) -> Config:
    """Return the configuration for training into the folder `run`.

    With `resume` and a checkpoint in the folder it is that of the run, of which the other arguments
    may change only CHANGEABLE_KEYS, such as max_updates; else it is a new one.

    arch: an architecture's name, None if file or settings have model.arch; preset: name of its
    default values, None for "small"; file: a TOML file, which wins over the preset; settings: a
    nested dictionary, which wins over the file; source: whether the training text has sources;
    init_from: a run whose model section and data.sentinels a new run takes; on_gpu: whether a new
    run's batches become 8 times as large, for a GPU. Raises BytenmtError where `run` has a
    published model, or a checkpoint and `resume` is false, ConfigError for settings that do not
    fit.

    >>> new = configuration(Path("new"), False, "luong", "tiny", None, {"train": {"lr": 0.5}})
    >>> new.train.lr, new.model.d_hidden
    (0.5, 168)
    """
    given = {} if file is None else _read_toml(file)
    if has_checkpoint(run):
        if not resume:
            raise BytenmtError(
                f"{run} already holds a run: continue it with --resume, or give another folder"
                " as -o"
            )
        merge(given, settings)
        return _resumed_configuration(run, arch, given)
    if (run / PUBLISHED).exists():
        raise BytenmtError(f"{run} already holds {PUBLISHED}: give another folder as -o")
    if not source:
        assign_value(given, "model.source", False)
    merge(given, settings)
    if init_from is not None:
        start = read_config(init_from)
        data = {"sentinels": start.data.sentinels}
        tree = {"model": msgspec.to_builtins(start.model), "data": data}
        merge(tree, given)
        return resolve_config(arch, preset, tree)
    config = resolve_config(arch, preset, given)
    if on_gpu and preset != "paper":  # a paper's batch belongs to its recipe
        return scale_batch_for_gpu(config, given)
    return config


def _resumed_configuration(run: Path, arch: str | None, given: Mapping[str, Any]) -> Config:
    """Return a run's configuration with what `given` changes; ConfigError for other keys."""
    before = config_tree(read_config(run))
    tree = config_tree(read_config(run))
    merge_settings(tree, given)
    config = resolve_config(arch, None, tree)
    for section in ("model", "data", "train"):
        for key, value in config_tree(config)[section].items():
            old = before[section].get(key)
            if value != old and key not in CHANGEABLE_KEYS and value != "auto":
                raise ConfigError(
                    f"configuration {section}.{key} is {value!r}, but {run} was trained with"
                    f" {old!r}: --resume changes only {', '.join(CHANGEABLE_KEYS)}"
                )
    return config


def scale_batch_for_gpu(config: Config, given: Mapping[str, Any]) -> Config:
    """Adapt a preset's configuration to a GPU: 8 times the batch size (train.max_tokens).

    The learning rate is multiplied by the square root of 8 (GPU_BATCH_FACTOR).

    given: what the user has set, a nested dictionary. With a batch size in it the configuration is
    returned unchanged; a learning rate in it stays.
    """
    given_train = given.get("train", {})
    if "max_tokens" in given_train:
        return config
    train = replace(config.train, max_tokens=GPU_BATCH_FACTOR * config.train.max_tokens)
    if "lr" not in given_train:
        train = replace(train, lr=train.lr * GPU_BATCH_FACTOR**0.5)
    return replace(config, train=train)


def texts_of_run(run: Path) -> tuple[list[PairFiles], list[PairFiles]]:
    """Return two lists of the files that a run was trained on, and validated on.

    They are read from its checkpoint; a list is empty where none were recorded.
    """
    facts = read_run(run, "last")[1].facts
    files = [*facts.corpora, *(PairFiles(tgt=Path(text.path)) for text in facts.texts)]
    return files, [] if facts.valid is None else [facts.valid, *facts.more_valid]


def files_to_train_on(
    run: Path,
    resume: bool,
    texts: Sequence[Sequence[Path]],
    weights: Sequence[float],
    valid: Sequence[Sequence[Path]],
) -> tuple[list[PairFiles], list[PairFiles]]:
    """Return the files to train on and those to validate on.

    A resumed run for which none are given uses the files that its checkpoint names.

    texts: four lists of files: src, tgt, tsv, and text for a language model. weights: how often
    each corpus, first each tgt, then each tsv, is read in an epoch; empty for once. valid: as
    texts, to validate on; one text for a language model. Raises BytenmtError where they do not go
    together.

    >>> files, valid = files_to_train_on(
    ...     Path("new"), False, ([], [], [], [Path("tgt")]), (), ([], [], [], [Path("tgt")]))
    >>> files[0].has_source, valid[0].tgt
    (False, PosixPath('tgt'))
    """
    files: list[PairFiles] = []
    own_valid: list[PairFiles] = []
    if resume and has_checkpoint(run):
        files, own_valid = texts_of_run(run)
    elif resume and not any(texts):
        raise BytenmtError(
            f"--resume: {run} holds nothing to continue: give the training text to begin"
        )
    if any(texts) or not files:
        files = _training_files(texts)
    if weights and len(weights) != len(files):
        raise BytenmtError(
            f"{len(weights)} --weight for {len(files)} corpora: give one for each --tgt, then each"
            " --tsv"
        )
    if weights:
        files = [replace(pair, weight=weight) for pair, weight in zip(files, weights, strict=True)]
    if own_valid and not any(valid):
        return files, own_valid
    return files, _validation_files(valid, files[0].has_source)


def _validation_files(texts: Sequence[Sequence[Path]], has_source: bool) -> list[PairFiles]:
    """Return the validation texts: (src, tgt) pairs, then tsv files, or one without sources."""
    src, tgt, tsv, text = texts
    if not has_source:
        if src or tgt or tsv or len(text) != 1:
            raise BytenmtError("validation text: give one --valid-text (valid_text) alone")
        return [PairFiles(tgt=text[0])]
    if text or len(src) != len(tgt) or not (src or tsv):
        raise BytenmtError(
            "validation text: give --valid-src and --valid-tgt, or --valid-tsv; each may be"
            " repeated"
        )
    pairs = [PairFiles(*pair) for pair in zip(src, tgt, strict=True)]
    return [*pairs, *(PairFiles(tsv=path) for path in tsv)]


def _training_files(texts: Sequence[Sequence[Path]]) -> list[PairFiles]:
    """Return the training corpora: (src, tgt) pairs, then tsv files, or texts without sources."""
    src, tgt, tsv, text = texts
    if text and (src or tgt or tsv):
        raise BytenmtError(
            "--text trains a language model and cannot be combined with parallel text"
        )
    if len(src) != len(tgt):
        raise BytenmtError(
            f"{len(src)} --src and {len(tgt)} --tgt: give one of each for every corpus"
        )
    if not any(texts):
        raise BytenmtError(
            "no training text: give --src and --tgt, or --tsv; or --text for a language model"
        )
    pairs = [PairFiles(*pair) for pair in zip(src, tgt, strict=True)]
    return [*pairs, *(PairFiles(tsv=path) for path in tsv), *(PairFiles(tgt=path) for path in text)]


def settings_tree(
    settings: Mapping[str, Any] | Iterable[str], train: Mapping[str, Any]
) -> dict[str, Any]:
    """Combine settings into a nested dictionary; values of None are left out. Raises ConfigError.

    settings: values by their keys, or texts `key=value`; train: values of the section `train` by
    their names in it, which win.

    >>> settings_tree(["model.d_hidden=8", "train.schedule=constant"], {"lr": 0.5, "seed": None})
    {'model': {'d_hidden': 8}, 'train': {'schedule': 'constant', 'lr': 0.5}}
    """
    tree: dict[str, Any] = {}
    values = {f"train.{name}": value for name, value in train.items()}
    if isinstance(settings, Mapping):
        values = {**settings, **values}
    else:
        for setting in settings:
            assign(tree, setting)
    for key, value in values.items():
        if value is not None:
            assign_value(tree, key, value)
    return tree


def _read_toml(path: Path) -> dict[str, Any]:
    """Return the tree of a TOML file. Raises ConfigError where it cannot be read as one."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))  # with or without a BOM
    except OSError as error:
        raise ConfigError(f"--config {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # neither UTF-8 nor TOML
        raise ConfigError(f"--config {path} is not TOML: {error}") from None
