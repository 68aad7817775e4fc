"""What every test shares: one thread, no deadline for Hypothesis, and forty pairs to train on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

from bytenmt.data.corpus import PairFiles

torch.set_num_threads(1)
settings.register_profile("bytenmt", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("bytenmt")


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Any]:
    """Forty pairs to train on, five to validate, as train() takes them."""
    generator = np.random.default_rng(7)
    words = ["하나", "둘", "three", "four", "다섯 ", "x"]
    files = {}
    for name, n in (("src", 40), ("tgt", 40), ("valid_src", 5), ("valid_tgt", 5)):
        lines = ["".join(generator.choice(words, 4)) for _ in range(n)]
        files[name] = tmp_path / name
        files[name].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "files": [PairFiles(files["src"], files["tgt"])],
        "valid": PairFiles(files["valid_src"], files["valid_tgt"]),
    }
