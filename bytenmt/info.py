"""What a model costs, told without its weights: it is built on PyTorch's meta device."""

from __future__ import annotations

from pathlib import Path

import torch

from bytenmt.config import Config, architecture, config_toml
from bytenmt.models import build_model

SOURCE_BYTES = 100  # the source at which a step's cost is told


def describe(config: Config, file: Path | None = None, precision: str = "fp32") -> str:
    """Sizes and costs as TOML comments, then the configuration: together a file for --config. file: a weights
    file that is described, whose matrices are in `precision`."""
    with torch.device("meta"):
        model = build_model(config.model)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    field = model.receptive_field()
    facts = {
        "architecture": architecture(config.model),
        "parameters": f"{n_parameters:,}",
        "decoder weights": f"{model.decoder_weights():,}, read by every decode step",
        "receptive field": "all target bytes" if field is None else f"{field:,} target bytes",
        "a decode step": f"{model.step_cost(SOURCE_BYTES):,} multiply-accumulates a row,"
        f" at a source of {SOURCE_BYTES} bytes",
        "decoder state": f"{model.state_bytes():,} bytes a row, in {model.embedding.weight.dtype}",
    }
    if file is not None:
        facts["weights file"] = f"{file.stat().st_size:,} bytes, matrices in {precision}"
    lines = [f"# {name + ':':17}{value}" for name, value in facts.items()]
    return "\n".join([*lines, "", config_toml(config)]).rstrip("\n")
