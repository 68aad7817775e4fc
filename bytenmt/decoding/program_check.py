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
from bytenmt.decoding.cpu.library import load_engine
from bytenmt.decoding.cpu.packing import pack_model
from bytenmt.decoding.cpu.scorer import CpuScorer
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.decoding.scorer import Scorer
from bytenmt.errors import BytenmtError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.utf8 import EOS

CPU = torch.device("cpu")
# One source is shorter and one is longer than the windows of attention.
SOURCES = ["오후 3:40".encode(), b"ab" * 60]
TEXTS = [b"Mr. \xc3\x96z, 3:40 p.m." + bytes([EOS]), b"a b" + bytes([EOS])]
TOLERANCE = 1e-4  # of a log-probability, relative above 1 nat; rounding gives 2e-6
# Of the noise that is added to all parameters: with first weights attention is nearly uniform, and
# zeros hide what they are multiplied by, so that an edit of a score would change nothing.
NOISE_STD = 0.05
NOISE_SEED = 1


def check_program(
    model: Model[Any, Any], config: ModelSection, reporter: Reporter = SILENT
) -> None:
    """Raise BytenmtError if a model's program computes something else than its PyTorch module.

    The program is the architecture as a list of instructions for the CPU engine. Both score a few
    fixed texts in float32 on the CPU, with the weights of a copy of the model to which noise is
    added, and their log-probabilities are compared. An architecture without a program, or a module
    that gives NaN, passes. reporter: shows that kernels are compiled, if they must be.
    """
    if not has_program(config):
        return
    load_engine(reporter)
    module = _noisy_copy(model)
    packed = pack_model(
        {name: part.detach().float().numpy() for name, part in model_tensors(module).items()},
        config,
        "fp32",
    )
    ours = _log_probabilities(TorchScorer([module], CPU), config)
    programs = _log_probabilities(CpuScorer([packed]), config)
    differs = np.abs(ours - programs) > TOLERANCE * np.maximum(1, np.abs(ours))
    if np.isfinite(ours).all() and (differs | ~np.isfinite(programs)).any():
        worst = np.abs(ours - programs).argmax()
        raise BytenmtError(
            f"{architecture(config)}: its module gives a byte the log-probability"
            f" {ours[worst]:.4f}, its program for the CPU engine {programs[worst]:.4f} (by the"
            " model's weights with noise): use --engine torch or change program.py (to train"
            " without it: has_program=False in registry.py)"
        )


def _noisy_copy(model: Model[Any, Any]) -> Model[Any, Any]:
    """Return a copy of a model on the CPU, in evaluation mode, with noise on all parameters."""
    copy = deepcopy(model).to(CPU).float().eval()
    generator = torch.Generator().manual_seed(NOISE_SEED)
    with torch.no_grad():
        for parameter in model_tensors(copy).values():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=NOISE_STD)
    return copy


def _log_probabilities(scorer: Scorer, config: ModelSection) -> npt.NDArray[np.float64]:
    """Return the log-probability of each byte of TEXTS under a scorer."""
    sources = SOURCES if config.source else None
    return np.concatenate([scores.log_p for scores in scorer.score_texts(sources, TEXTS)])
