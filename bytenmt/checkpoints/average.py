"""Average the weights of several checkpoints, which is often a little better than any of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from torch import Tensor

from bytenmt.architectures.parameters import buffer_kinds
from bytenmt.checkpoints.checkpoint import is_weights_file, read_weights, write_weights
from bytenmt.checkpoints.manifest import FOLDER, read_pointer
from bytenmt.checkpoints.weights import check_output
from bytenmt.config.facts import Facts
from bytenmt.config.schema import Config, architecture, config_tree
from bytenmt.errors import CheckpointError


def average(paths: Sequence[Path], output: Path, last: int | None = None) -> list[str]:
    """Write the uniform mean of weights files, computed in float64, as a weights file.

    paths: weights files, or one run folder, of which the last `last` checkpoints are averaged (None: all).
    All must hold the same model. The configuration, the facts about the text, and the buffers of the model
    are those of the latest update. Returns lines of text for the user. Raises CheckpointError without writing
    anything.
    """
    files = _files(paths, last)
    check_output(output, files)
    total: dict[str, Tensor] = {}
    updates: list[int] = []
    config: Config | None = None
    text = Facts()
    for path in files:
        tensors, own, facts = read_weights(path)[1]
        if facts.update is None:
            raise CheckpointError(
                f"{path} does not record its update: give checkpoints that training has saved"
            )
        if config is not None:
            _check_same(path, own, files[0], config)
        for name, tensor in tensors.items():
            total[name] = total[name].add_(tensor) if name in total else tensor.double().clone()
        if config is None or facts.update > max(updates):
            config, text = own, facts.of_the_text()
            latest = {name: tensors[name] for name in buffer_kinds(own.model) if name in tensors}
        updates.append(facts.update)
    assert config is not None, "there is at least one file"
    types = {name: tensor.dtype for name, tensor in tensors.items()}
    mean = {name: (sums / len(files)).to(types[name]) for name, sums in total.items()} | latest
    facts = msgspec.structs.replace(text, update=max(updates), averaged=tuple(sorted(updates)))
    write_weights(output, mean, config, facts)
    listed = ", ".join(str(update) for update in sorted(updates))
    return [f"{output}: the mean of {len(files)} checkpoints, of updates {listed}"]


def _files(paths: Sequence[Path], last: int | None) -> list[Path]:
    """Return the weights files to average; those of a run folder are sorted by update."""
    folders = [path for path in paths if not is_weights_file(path)]
    if not folders:
        if last is not None:
            raise CheckpointError("--last would be ignored with weights files: it needs a run folder")
        return list(paths)
    if len(paths) > 1:
        raise CheckpointError(
            f"{folders[0]} is not a weights file (.safetensors): give weights files, or one run folder alone"
        )
    kept = read_pointer(folders[0]).checkpoints
    if last is not None and not 1 <= last <= len(kept):
        raise CheckpointError(
            f"--last {last}: {folders[0]} keeps {len(kept)} checkpoints;"
            f" give 1 to {len(kept)}, and train with a larger train.keep_last for more"
        )
    return [folders[0] / FOLDER / one.weights_name() for one in kept[-last if last else 0 :]]


def _check_same(path: Path, config: Config, first: Path, other_config: Config) -> None:
    """Raise CheckpointError, naming the file, if it holds another model than the first one."""
    arch, other_arch = architecture(config.model), architecture(other_config.model)
    if arch != other_arch:
        raise CheckpointError(f"{path} holds another architecture ({arch}) than {first} ({other_arch})")
    model, other_model = config_tree(config)["model"], config_tree(other_config)["model"]
    for key, value in model.items():
        if value != other_model[key]:
            raise CheckpointError(
                f"{path} holds another model than {first}: its model.{key} is {value}, not {other_model[key]}"
            )
