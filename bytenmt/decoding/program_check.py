"""Compare a model's PyTorch module with its program for the CPU engine.

Each architecture is written twice (model.py and program.py). If only one of them is edited,
training and decoding would compute different models. Imports PyTorch.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from bytenmt.architectures.base import Model
from bytenmt.architectures.registry import has_program
from bytenmt.architectures.section import ModelSection, architecture
from bytenmt.checkpoints.checkpoint import model_tensors
from bytenmt.decoding.cpu.compilation import compile_kernels
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.cpu.scorer import CpuScorer
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.decoding.scorer import Scorer
from bytenmt.errors import BytenmtError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.utf8 import EOS

# One is shorter and one longer than the windows of attention.
SOURCES = ["오후 3:40".encode(), b"ab" * 60]
TEXTS = [b"Mr. \xc3\x96z, 3:40 p.m." + bytes([EOS]), b"a b" + bytes([EOS])]
TOLERANCE = 0.002  # of a log-probability, relative above 1 nat; rounding gives 1e-5


def check_program(
    model: Model[Any, Any], config: ModelSection, reporter: Reporter = SILENT
) -> None:
    """Raise BytenmtError if a model's program for the CPU engine differs from its module.

    Both give a few fixed bytes log-probabilities by the model's weights, in float32 on the CPU. A
    model without a program, or whose module gives NaN, passes. reporter: shows that kernels are
    compiled.
    """
    if not has_program(config):
        return
    compile_kernels(reporter)
    is_training = model.training
    cpu = torch.device("cpu")
    module = model if model.embedding.weight.device == cpu else deepcopy(model).to(cpu)
    arrays = {name: part.detach().float().numpy() for name, part in model_tensors(module).items()}
    packed = pack_model(arrays, config, "fp32")
    of_module = _log_probabilities(TorchScorer([module.eval()], cpu), config)
    of_program = _log_probabilities(CpuScorer([packed]), config)
    model.train(is_training)
    differences = np.abs(of_module - of_program)
    differs = differences > TOLERANCE * np.maximum(1, np.abs(of_module))
    if np.isfinite(of_module).all() and (differs | ~np.isfinite(of_program)).any():
        worst = differences.argmax()
        raise BytenmtError(
            f"{architecture(config)}: its module gives a byte the log-probability"
            f" {of_module[worst]:.4f}, its program for the CPU engine {of_program[worst]:.4f}:"
            " use --engine torch or change program.py"
            " (to train without it: has_program=False in registry.py)"
        )


def _log_probabilities(scorer: Scorer, config: ModelSection) -> npt.NDArray[np.float64]:
    """Return the log-probabilities of all bytes of TEXTS."""
    sources = SOURCES if config.source else None
    return np.concatenate([scores.log_p for scores in scorer.score_texts(sources, TEXTS)])
