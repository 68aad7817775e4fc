"""Judge whether a weights file matches its metadata, by other means than the program's own.

The safetensors library reads the file, and PyTorch builds the configured model on the meta device.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import torch
from safetensors import safe_open

from bytenmt.architectures.registry import build_model
from bytenmt.config.schema import parse_config

MATRICES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}
Kinds = dict[str, tuple[torch.dtype, tuple[int, ...]]]


def find_misfit(file: Path) -> str:
    """Describe how the tensors differ from the model's, or return "" where all match and are finite."""
    with safe_open(file, framework="pt") as opened:
        metadata = opened.metadata()
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    expected = _kinds(json.dumps(json.loads(metadata["config"])["model"]), metadata.get("precision", "fp32"))
    if all(tensor.dtype == torch.float64 for tensor in tensors.values()):  # a training in float64
        tensors = {name: tensor.float() for name, tensor in tensors.items()}
    found = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}
    if found != expected:
        return f"an output from a file with {sorted(found.items() ^ expected.items(), key=str)[:4]}"
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor.float()).all()):
            return f"an output from a file with numbers that are none in {name}"
    return ""


@lru_cache(maxsize=200)
def _kinds(model: str, precision: str) -> Kinds:
    """Return the types and shapes of a model's tensors by name."""
    with torch.device("meta"):
        built = build_model(parse_config({"model": json.loads(model)}).model)
    tables = {name for name, _ in built.named_parameters() if name.split(".")[-2] in TABLES}
    kinds: Kinds = {}
    for name, parameter in built.named_parameters():
        matrix = parameter.dim() > 1 and name not in tables
        kinds[name] = MATRICES[precision] if matrix else torch.float32, tuple(parameter.shape)
        if matrix and precision == "int8":
            kinds[f"{name}:scale"] = torch.float32, (len(parameter),)
    return kinds


TABLES = ("embedding", "positions", "target_positions")  # modules whose weight is looked up
