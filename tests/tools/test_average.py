"""The mean of checkpoints against NumPy's; a card of what it measured."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from made_up_engine import make_run, small_config, small_model

from bytenmt.checkpoints.checkpoint import model_tensors, save_checkpoint
from bytenmt.checkpoints.facts import Facts, SourceWords
from bytenmt.checkpoints.weights import read_run
from bytenmt.errors import CheckpointError
from bytenmt.translation.source_words import build_filter
from tools.average import average, main

WORDS = build_filter(["the", "house"])
FACTS = Facts(pairs=1, words=SourceWords(language="en", min_count=2, known=WORDS, ordinary=WORDS))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Copies of three checkpoints of a run."""
    run = make_run(tmp_path / "run", "bytenet")
    copies = []
    for update in (70, 80, 90):
        model = small_model("bytenet", update).float()
        config = small_config("bytenet")
        save_checkpoint(run, update, model_tensors(model), {}, config, FACTS, best=True)
        copies.append(
            Path(shutil.copy(run / "last.safetensors", tmp_path / f"{update}.safetensors"))
        )
    return copies


@pytest.mark.parametrize("n", [1, 3])
def test_the_mean_of_checkpoints(files: list[Path], n: int) -> None:
    """Sums are float64 and rounded once; files may come in any order; a run is its best weights."""
    run = files[0].parent / "run"
    updates = [70, 80, 90][-n:]
    expected = [read_run(path)[1].arrays for path in files[-n:]]
    for number, paths in enumerate((files[-n:][::-1], [*files[-n:-1], run])):
        output = run.parent / f"mean{number}.safetensors"
        assert average(paths, output).endswith(", ".join(map(str, updates)))
        mean = read_run(output)[1]
        assert mean.facts.update == 90 and mean.facts.pairs == 1
        assert mean.facts.words == FACTS.words
        for name, array in mean.arrays.items():
            parts = np.mean([one[name].astype(np.float64) for one in expected], axis=0)
            assert np.array_equal(array, parts.astype(np.float32)), name


def test_what_has_no_mean_is_refused(files: list[Path]) -> None:
    folder = files[0].parent
    other = make_run(folder / "other", settings=("model.source=false", "model.input_feeding=false"))
    mean = folder / "mean.safetensors"
    with pytest.raises(CheckpointError, match="best.safetensors holds another model"):
        average([files[0], other], mean)
    assert not mean.exists()
    with pytest.raises(SystemExit, match="error: .*no"):
        main([str(folder / "no"), "-o", str(mean)])
