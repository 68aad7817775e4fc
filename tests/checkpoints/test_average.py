"""The mean of checkpoints: against NumPy, refused where models differ, and usable as any weights file."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bytenmt.architectures.registry import build_model
from bytenmt.checkpoints.average import average
from bytenmt.checkpoints.checkpoint import (
    load_checkpoint,
    load_run,
    read_weights,
    save_checkpoint,
    weights,
    write_weights,
)
from bytenmt.config.facts import Facts
from bytenmt.config.schema import Config, config_toml, load_config
from bytenmt.decoding.loading import runtime_from_models
from bytenmt.decoding.translator import Translator
from bytenmt.errors import CheckpointError

CPU = torch.device("cpu")
SMALL = ["model.d_embedding=8", "model.d_channels=8", "model.n_sets=1", "model.dilations=[1,2]"]


def config(*settings: str, arch: str = "bytenet") -> Config:
    return load_config(arch, "tiny", "", [*(SMALL if arch == "bytenet" else []), *settings])


def make_run(run: Path, *settings: str, updates: tuple[int, ...] = (10, 20, 30), best: int = 10) -> Path:
    """A run folder of random checkpoints; the last two with trainer state, and the best."""
    run.mkdir()
    own = config(*settings)
    (run / "config.toml").write_text(config_toml(own))
    for update in updates:
        torch.manual_seed(update)
        new = weights(build_model(own.model))
        save_checkpoint(run, update, new, {}, own, Facts(pairs=1), keep=2, best=update == best)
    return run


def file(run: Path, update: int) -> Path:
    return run / "checkpoints" / f"update-{update:08d}.safetensors"


def assert_mean(output: Path, files: list[Path]) -> None:
    """Every tensor is the mean in float64 of the files' own, rounded to float32 once."""
    mean = read_weights(output)[1][0]
    parts = [read_weights(path)[1][0] for path in files]
    assert mean.keys() == parts[0].keys()
    for name, tensor in mean.items():
        expected = np.mean([part[name].numpy().astype(np.float64) for part in parts], axis=0)
        assert tensor.dtype == torch.float32
        assert np.array_equal(tensor.numpy(), expected.astype(np.float32)), name


def test_the_mean_of_files(tmp_path: Path) -> None:
    """Files of any runs of one model are averaged; facts and configuration are those of the latest."""
    first = make_run(tmp_path / "first")
    second = make_run(tmp_path / "second", "train.lr=0.5", updates=(25, 40), best=40)
    files = [file(first, 10), file(second, 40), file(second, 25)]
    message = average(files, tmp_path / "mean.safetensors", None)
    assert message == [f"{tmp_path}/mean.safetensors: the mean of 3 checkpoints, of updates 10, 25, 40"]
    assert_mean(tmp_path / "mean.safetensors", files)
    loaded = load_run(tmp_path / "mean.safetensors", CPU)
    assert loaded.facts == Facts(pairs=1, update=40, averaged=(10, 25, 40))
    assert loaded.config == load_checkpoint(second).config


@pytest.mark.parametrize(
    ("last", "updates"), [(1, [30]), (2, [20, 30]), (3, [10, 20, 30]), (None, [10, 20, 30])]
)
def test_the_last_of_a_run(tmp_path: Path, last: int | None, updates: list[int]) -> None:
    """The last checkpoints are selected by update; a single one is copied."""
    run = make_run(tmp_path / "run")
    average([run], tmp_path / "mean.safetensors", last)
    assert_mean(tmp_path / "mean.safetensors", [file(run, update) for update in updates])


def test_it_translates_as_a_model_of_these_weights(tmp_path: Path) -> None:
    """Loaded and asked, it gives what a model with the mean put in by hand gives."""
    run = make_run(tmp_path / "run")
    average([run], tmp_path / "mean.safetensors", 2)
    model = build_model(config().model).eval()
    parts = [read_weights(file(run, update))[1][0] for update in (20, 30)]
    with torch.no_grad():
        for name, parameter in weights(model).items():
            parameter.copy_(torch.stack([part[name] for part in parts]).mean(dim=0))
    lines = [b"one", "두 번째".encode(), b""]
    loaded = load_run(tmp_path / "mean.safetensors", CPU).model
    translators = [
        Translator.from_runtime(runtime_from_models([m], CPU), max_len_b=9) for m in (loaded, model)
    ]
    answers = [translator.translate(lines) for translator in translators]
    assert answers[0] == answers[1] and answers[0][0]
    assert load_run(file(run, 30), CPU).facts.update == 30


@pytest.mark.parametrize(
    ("arch", "setting", "message"),
    [
        ("luong", "train.lr=1", r"other.safetensors holds another architecture \(luong\).*bytenet"),
        ("bytenet", "model.d_channels=12", "other.safetensors holds another model.*d_channels is 12, not 8"),
        ("bytenet", "model.source=false", "model.source is False"),
    ],
)
def test_other_models_are_refused(tmp_path: Path, arch: str, setting: str, message: str) -> None:
    """The error names the difference, and nothing is written."""
    run = make_run(tmp_path / "run")
    other = config(setting, arch=arch)
    write_weights(tmp_path / "other.safetensors", weights(build_model(other.model)), other, Facts(update=1))
    with pytest.raises(CheckpointError, match=message):
        average([file(run, 30), tmp_path / "other.safetensors"], tmp_path / "mean.safetensors", None)
    assert not (tmp_path / "mean.safetensors").exists()


def test_tensors_that_are_not_what_they_say(tmp_path: Path) -> None:
    """Tensors of another shape or name are refused despite an equal configuration."""
    run = make_run(tmp_path / "run")
    tensors = load_checkpoint(run).weights
    name = next(iter(tensors))
    bad = tmp_path / "bad.safetensors"
    for other in ({**tensors, name: tensors[name][:1]}, {**tensors, "x": tensors[name]}):
        write_weights(bad, other, config(), Facts(update=1))
        with pytest.raises(CheckpointError, match="bad.safetensors does not fit the model"):
            average([file(run, 30), bad], tmp_path / "mean.safetensors", None)


def test_bad_requests(tmp_path: Path) -> None:
    """Options that would be ignored, names that would destroy something; nothing changes."""
    run = make_run(tmp_path / "run")
    mean = tmp_path / "mean.safetensors"
    one, trainer = file(run, 30), file(run, 30).with_suffix(".trainer.safetensors")
    bad: list[tuple[list[Path], Path, int | None, str]] = [
        ([one], mean, 2, "--last would be ignored"),
        ([run, one], mean, None, "run folder alone"),
        ([run], mean, 4, "keeps 3 checkpoints; give 1 to 3"),
        ([run], mean, 0, "keeps 3 checkpoints; give 1 to 3"),
        ([tmp_path], mean, None, "is not a run folder"),
        ([tmp_path / "no.safetensors"], mean, None, "no.safetensors is missing"),
        ([trainer], mean, None, "holds trainer, expected weights"),
        ([run], tmp_path / "mean", None, "ends in .safetensors"),
        ([run], Path(__file__) / "mean.safetensors", None, "cannot be created"),
        ([one], one, None, "is an input too"),
        ([one], file(run, 99), None, "the name of a checkpoint"),
    ]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for paths, output, last, message in bad:
        with pytest.raises(CheckpointError, match=message) as caught:
            average(paths, output, last)
        assert "\n" not in str(caught.value)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_damaged_input_is_refused(tmp_path: Path) -> None:
    """One bit of one checkpoint, by the run folder and by name."""
    run = make_run(tmp_path / "run")
    data = bytearray(file(run, 20).read_bytes())
    data[-3] ^= 4
    file(run, 20).write_bytes(data)
    for paths in ([run], [file(run, 30), file(run, 20)]):
        with pytest.raises(CheckpointError, match="update-00000020.safetensors is damaged.*SHA-256"):
            average(paths, tmp_path / "mean.safetensors", None)
    assert not (tmp_path / "mean.safetensors").exists()
