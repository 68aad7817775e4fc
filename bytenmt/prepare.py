"""What a command needs before it starts: a run's configuration, a model on its device, texts.

Knows what the options of cli.py mean together; prints nothing.
"""

from __future__ import annotations

import io
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from bytenmt.alphabet import LONGEST_CHARACTER
from bytenmt.checkpoint import CONFIG, Loaded, load_run, read_config
from bytenmt.config import Config, config_toml, config_tree, load_config, preset_tree
from bytenmt.corpus import ParallelCorpus, TextFile
from bytenmt.device import pick_device
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.translate import Translator

LIMITS = ("train.max_updates", "train.max_minutes")  # what --resume may change


def configuration(
    run: Path,
    resume: bool,
    arch: str | None,
    preset: str | None,
    file: Path | None,
    settings: tuple[str, ...],
) -> Config:
    """A fresh run's configuration; or that of the run to resume, with which the options must agree.

    Raises BytenmtError where `run` is taken, ConfigError for what does not fit.
    """
    text = "" if file is None else _toml_text(file)
    if run.exists() and not run.is_dir():
        raise BytenmtError(f"{run} is a file: give the name of a folder to -o")
    if not (run / CONFIG).is_file():
        return load_config(arch, preset, text, settings)
    if not resume:
        raise BytenmtError(f"{run} already holds a run: go on with it by --resume, or give -o another folder")
    own = _leaves(config_tree(read_config(run)))
    given = {} if preset is None else _leaves(preset_tree(own["model.arch"], preset))
    given |= _leaves(tomllib.loads(text))
    as_settings = [f"{key}={json.dumps(value)}" for key, value in given.items()]
    wanted = load_config(arch, None, config_toml(read_config(run)), [*as_settings, *settings])
    for key, value in _leaves(config_tree(wanted)).items():
        if own.get(key) != value and key not in LIMITS:
            raise ConfigError(
                f"configuration {key} is {value!r}, but {run} was trained with {own.get(key)!r}:"
                f" --resume changes only {' and '.join(LIMITS)}"
            )
    return wanted


def _leaves(tree: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """A nested dictionary flat: {"train.lr": 1e-3, …}."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _leaves(value, f"{path}{key}.")
        else:
            flat[path + key] = value
    return flat


def _toml_text(path: Path) -> str:
    """The text of a TOML file. Raises ConfigError where it cannot be read as one."""
    try:
        text = path.read_text(encoding="utf-8")
        tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"--config {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # neither UTF-8 nor TOML
        raise ConfigError(f"--config {path} is not TOML: {error}") from None
    return text


def torch_device(name: str, threads: int | None) -> torch.device:
    """The device to run on, the number of CPU threads set."""
    if threads is not None:
        torch.set_num_threads(threads)
    return pick_device(name)


def load(run: Path, device: str, threads: int | None) -> Loaded:
    """The best checkpoint of a run, ready to use."""
    return load_run(run, torch_device(device, threads))


def check_source(run: Path, loaded: Loaded, src: Path | None) -> None:
    """Raise BytenmtError where a source is missing, or would be ignored."""
    if loaded.config.data.source and src is None:
        raise BytenmtError(f"{run} was trained with a source: give it by --src")
    if src is not None and not loaded.config.data.source:
        raise BytenmtError(f"{run} was trained without a source: leave out --src")


def check_decoding(decoding: Mapping[str, Any]) -> None:
    """Raise BytenmtError for an option that would be ignored."""
    if decoding["length_penalty"] is not None and decoding["beam"] in (None, 1):
        raise BytenmtError(
            "--length-penalty would be ignored by greedy search: give --beam-size 2 or more with it"
        )


def translator(loaded: Loaded, decoding: Mapping[str, Any]) -> Translator:
    """The Translator of a loaded run; options that are None are left to its defaults."""
    data = loaded.config.data
    given = {name: value for name, value in decoding.items() if value is not None}
    given.setdefault("max_source_bytes", max(LONGEST_CHARACTER, data.max_source_bytes))
    device = loaded.model.embedding.weight.device
    return Translator(loaded.model, device=device, source=data.source, **given)


def text_file(path: Path, errors: str) -> TextFile:
    """A text file with at least one line."""
    text = TextFile.open(path, errors)
    text.require_lines()
    return text


def all_pairs(src: Path | None, tgt: Path, errors: str) -> ParallelCorpus:
    """Two texts as a corpus of all their lines: empty ones and long ones are scored too."""
    source = None if src is None else text_file(src, errors)
    target = text_file(tgt, errors)
    return ParallelCorpus.from_texts(source, target, keep_empty=True)


def hypotheses(model: Translator, corpus: ParallelCorpus) -> list[bytes]:
    """The translation of every source line; without a source, the model's likeliest text."""
    if corpus.src is None:
        return [model.translate([b""])[0].text] * len(corpus)
    output = io.BytesIO()
    model.translate_file(corpus.src, output)
    return output.getvalue().split(b"\n")[:-1]
