"""Model files of earlier versions are read by this one, and mean the same.

tests/files/older_models.tar.xz holds, for two commits of this repository, what the code of that commit wrote:
a run folder that it trained for a few updates, the same weights in int8, and the log-probabilities that its
`score` gave to a text. The README has the promise that these tests keep.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from bytenmt.cli.main import main

FILES = Path(__file__).parents[1] / "files"
VERSIONS = ("6d42e7c", "60e445e")  # commits; the first one wrote the oldest files that are still read


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(FILES / "older_models.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder


def scores(folder: Path, model: Path) -> list[float]:
    """The log-probabilities of the lines of target, given those of source."""
    texts = ["--src", str(folder / "source"), "--ref", str(folder / "target"), "--log-probabilities"]
    done = CliRunner().invoke(main, ["evaluate", str(model), *texts, "--engine", "torch"])
    assert done.exit_code == 0, done.output
    return [float(line.split("\t")[0]) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_of_an_earlier_version_scores_as_it_did(older: Path, version: str) -> None:
    then = [float(line.split("\t")[0]) for line in (older / version / "scores").read_text().splitlines()]
    assert len(then) == 30
    assert scores(older, older / version / "run") == pytest.approx(then, rel=1e-4)


@pytest.mark.parametrize("version", VERSIONS)
def test_converted_weights_of_an_earlier_version_are_read(older: Path, version: str) -> None:
    """Scores with eight bits per weight are close to those of the run."""
    then = [float(line.split("\t")[0]) for line in (older / version / "scores").read_text().splitlines()]
    assert scores(older, older / version / "int8.safetensors") == pytest.approx(then, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["run", "int8.safetensors"])
def test_models_of_an_earlier_version_translate(older: Path, version: str, name: str) -> None:
    model = str(older / version / name)
    arguments = ["translate", model, "-i", str(older / "source"), "--engine", "torch", "--max-len-a", "1"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0 and done.stdout.count("\n") == 30, done.output
