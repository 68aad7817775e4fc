"""Describe a model: its sizes, its costs and its configuration, and the contents of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bytenmt.architectures import parameters
from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.section import architecture
from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.weights import is_weights_file, read_config, read_run, resolve_path
from bytenmt.config.schema import Config, config_toml, load_config
from bytenmt.errors import BytenmtError

SOURCE_BYTES = 100  # of the source for which the cost of a step is given


def model_description(name: str, preset: str | None, settings: Sequence[str] = ()) -> str:
    """Return a text: sizes and costs of a model, as TOML comments, and its configuration as TOML.

    name: an architecture, a run folder or a weights file. preset (such as "small"; None: the
    default) and settings (such as `model.source=false`): only for an architecture. Raises
    BytenmtError for an unknown name, or for a preset or settings of a trained model.
    """
    config = config_of(name, preset, settings)
    path = resolve_path(Path(name))
    if name in PRESETS["small"]:
        return describe(config)
    contents = read_run(path, "last" if path.is_dir() else "best")[1]
    file = None if path.is_dir() else path
    return describe(config, file, contents.precision, contents.facts)


def config_of(name: str, preset: str | None, settings: Sequence[str] = ()) -> Config:
    """Return the configuration of an architecture with preset and settings, or of a trained model.

    name: an architecture, a run folder or a weights file. preset (such as "small") and settings
    (such as `model.source=false`): only for an architecture; BytenmtError is raised for those of a
    trained model, and for an unknown name.
    """
    path = resolve_path(Path(name))
    if name in PRESETS["small"]:
        return load_config(name, preset, settings)
    if not path.is_dir() and not is_weights_file(path):
        names = ", ".join(PRESETS["small"])
        raise BytenmtError(f"{name} is neither a run folder nor an architecture: {names}")
    if preset is not None or settings:
        option = "--set" if preset is None else "--preset"
        raise BytenmtError(f"{option} would be ignored: {name} has its own configuration")
    return read_config(path)


def describe(
    config: Config, file: Path | None = None, precision: str = "fp32", facts: Facts | None = None
) -> str:
    """Return a model's sizes and costs as TOML comments, then its configuration as TOML.

    The text is a valid file for the option --config. file: a weights file, whose size is listed,
    too, and whose matrices are in `precision`; None: no file. facts: what a weights file stores
    about the training; the share of lines with several sentences and search defaults are listed.
    """
    model = config.model
    comments = dict[str, str]()
    if facts and facts.multi_sentence_share is not None:
        share = facts.multi_sentence_share
        comments["sentences"] = f"{share:.1%} of the training lines hold several"
    if facts and facts.search:
        search = facts.search
        beam = "" if search.beam is None else f", found with beam {search.beam}"
        comments["length penalty"] = f"{search.length_penalty:g}{beam}"
        if search.no_repeat_ngram_size:
            comments["no repeats"] = f"of {search.no_repeat_ngram_size} characters or more{beam}"
    field = model.receptive_field
    program = parameters.model_program(model)
    comments |= {
        "architecture": architecture(config.model),
        "parameters": f"{parameters.n_parameters(model):,}",
        "decoder weights": f"{parameters.decoder_weights(model):,}, read by every decode step",
        "receptive field": "all target bytes" if field is None else f"{field:,} target bytes",
    }
    if program is not None:
        comments["a decode step"] = (
            f"{parameters.step_cost(model, SOURCE_BYTES):,} multiply-accumulates a row,"
            f" at a source of {SOURCE_BYTES} bytes"
        )
        comments["decoder state"] = f"{parameters.state_bytes(program):,} bytes a row, in float32"
    if file is not None:
        comments["weights file"] = f"{file.stat().st_size:,} bytes, matrices in {precision}"
    lines = [f"# {name + ':':17}{value}" for name, value in comments.items()]
    return "\n".join([*lines, "", config_toml(config)]).rstrip("\n")
