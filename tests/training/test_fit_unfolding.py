"""ByteNet's unfolding = "fit": found once, written down, and the run is as one with given numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from heard import Heard
from small_runs import CPU, assert_same, config, weights

from bytenmt.architectures.bytenet.config import ByteNetConfig
from bytenmt.architectures.bytenet.unfolding import fit_unfolding
from bytenmt.checkpoints.weights import read_config
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.training.arguments import configuration, settings_tree
from bytenmt.training.run import train

FIT = "model.unfolding=fit"


def numbers(run: Path) -> tuple[str, float, int]:
    model = read_config(run).model
    assert isinstance(model, ByteNetConfig)
    return model.unfolding, model.unfolding_factor, model.unfolding_offset


@pytest.mark.slow
def test_a_fitted_run_is_that_of_given_numbers(texts: dict[str, Any], tmp_path: Path) -> None:
    """Its configuration holds them; what is resumed, with the option or without, ends with the same bits."""
    heard, parts = Heard(), tmp_path / "parts"
    train(parts, config("bytenet", FIT, "train.max_updates=5"), **texts, device=CPU, reporter=heard)
    corpus = ParallelCorpus.open_all(texts["files"], "replace", 1000, 1000)
    found = fit_unfolding(corpus.source_lengths, corpus.target_lengths)
    assert numbers(parts) == ("given", found.factor, found.offset) != ("given", 1.2, 0)
    assert f"unfolding: {found}" in heard.lines
    for n_updates, settings in ((6, (FIT,)), (8, ())):
        more = (*settings, f"train.max_updates={n_updates}")
        wanted = configuration(parts, True, "bytenet", None, None, settings_tree(more, {}))
        train(parts, wanted, **texts, device=CPU, resume=True)
    assert numbers(parts) == ("given", found.factor, found.offset)
    given = [f"model.unfolding_factor={found.factor}", f"model.unfolding_offset={found.offset}"]
    train(tmp_path / "whole", config("bytenet", *given, "train.max_updates=8"), **texts, device=CPU)
    assert_same(weights(tmp_path / "whole"), weights(parts))
