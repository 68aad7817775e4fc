"""Compare a model's PyTorch module with its program for the CPU engine.

Each architecture is written twice (model.py and program.py). If only one of them is edited,
training and decoding would compute different models. Imports PyTorch.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch

from bytenmt.architectures.base import Model
from bytenmt.architectures.registry import has_program
from bytenmt.architectures.section import ModelSection, architecture
from bytenmt.checkpoints.checkpoint import model_tensors
from bytenmt.decoding.cpu.compilation import compile_kernels
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.cpu.scorer import CpuScorer
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.errors import BytenmtError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.utf8 import EOS

SOURCES = [
    "오후 3:40".encode(),
    b"ab" * 60,
]  # one shorter and one longer than the windows of attention
TEXTS = [b"Mr. \xc3\x96z, 3:40 p.m." + bytes([EOS]), b"a b" + bytes([EOS])]
TOLERANCE = 0.002  # of a log-probability, relative above 1 nat; rounding gives 1e-5


def check_program(
    model: Model[Any, Any], config: ModelSection, reporter: Reporter = SILENT
) -> None:
    """Raise BytenmtError if a model's program for the CPU engine computes something else than its
    module.

    Both give a few fixed bytes log-probabilities by the model's weights, in float32 on the CPU. A
    model without a program, or whose module gives NaN, passes. reporter: shows that kernels are
    compiled.
    """
    if not has_program(config):
        return
    compile_kernels(reporter)
    is_training, cpu = model.training, torch.device("cpu")
    module = model if model.embedding.weight.device == cpu else deepcopy(model).to(cpu)
    packed = pack_model(
        {name: part.detach().float().numpy() for name, part in model_tensors(module).items()},
        config,
        "fp32",
    )
    scorers = TorchScorer([module.eval()], cpu), CpuScorer([packed])
    sources = SOURCES if config.source else None
    ours, programs = (
        np.concatenate([scores.log_p for scores in scorer.score_texts(sources, TEXTS)])
        for scorer in scorers
    )
    model.train(is_training)
    differs = np.abs(ours - programs) > TOLERANCE * np.maximum(1, np.abs(ours))
    if np.isfinite(ours).all() and (differs | ~np.isfinite(programs)).any():
        worst = np.abs(ours - programs).argmax()
        raise BytenmtError(
            f"{architecture(config)}: its module gives a byte the log-probability {ours[worst]:.4f}, its"
            f" program for the CPU engine {programs[worst]:.4f}: use --engine torch or change program.py"
            " (to train without it: has_program=False in registry.py)"
        )
