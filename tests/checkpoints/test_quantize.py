"""Converted weights: as near as their type allows, the same for every engine, and smaller."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import invoke
from made_up_engine import make_run

from bytenmt.api.runs import Run
from bytenmt.architectures.model_program import NGRAM_TABLES
from bytenmt.architectures.registry import ARCHITECTURES
from bytenmt.checkpoints.checkpoint import model_tensors, save_checkpoint
from bytenmt.checkpoints.facts import Facts, TextFact
from bytenmt.checkpoints.quantize import round_arrays
from bytenmt.checkpoints.weights import SCALE, read_run, restore_weights
from bytenmt.data.pair_files import PairFiles
from bytenmt.decoding.cpu.packing import pack_model
from tools.average import average

TABLES = {"embedding.weight", "target_positions.weight", "encoder.positions.weight"}


def convert(run: Path, precision: str) -> Path:
    """Convert a run with the command."""
    output = run.with_name(f"{run.name}.{precision}.safetensors")
    result = invoke("convert", run, "-o", output, "--precision", precision)
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert result.stderr.count("\n") == 1 and f"bytes in {precision}, of" in result.stderr
    return output


def folded(tensors: dict[str, Any]) -> dict[str, np.ndarray]:
    """A model's matrices and vectors as it multiplies with them: v and g as one, in float64."""
    whole = {name: np.asarray(tensor, np.float64) for name, tensor in tensors.items()}
    for name in [name for name in whole if name.endswith(".v") and name[:-1] + "g" in whole]:
        v, g = whole[name], whole.pop(name[:-1] + "g")
        factors = g / np.sqrt((v**2).reshape(len(v), -1).sum(axis=1))
        whole[name] = v * factors.reshape(-1, *[1] * (v.ndim - 1))
    return whole


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_every_number_is_the_nearest(tmp_path: Path, arch: str, precision: str) -> None:
    """Matrices to half a step of their type, an output's largest weight decides the step of int8;
    all else bit for bit; through the file and the model that PyTorch loads."""
    run = make_run(tmp_path / "run", arch)
    before = folded({name: part.numpy() for name, part in read(run).items()})
    file = convert(run, precision)
    after = folded({name: part.numpy() for name, part in read(file).items()})
    assert before.keys() == after.keys() and read_run(file)[1].facts == Facts(update=70)
    changed = 0
    for name, matrix in before.items():
        error = np.abs(matrix - after[name])
        if matrix.ndim < 2 or name in TABLES or precision == "fp32":
            tolerance = 1e-6 * np.abs(matrix).max() if name.endswith(".v") else 0
            assert error.max(initial=0) <= tolerance, name
            continue
        rows = np.abs(matrix).reshape(len(matrix), -1)
        limit = (rows.max(axis=1) / 127 / 2).reshape(-1, *[1] * (matrix.ndim - 1))
        assert (error <= limit * 1.0001 + 1e-9).all(), name
        changed += int(error.max() > 0)
    assert changed > 3 or precision == "fp32"


def read(run: Path) -> dict[str, torch.Tensor]:
    return {name: part.detach() for name, part in model_tensors(Run(run).model()).items()}


def test_the_file_is_smaller(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", "luong", settings=("model.d_hidden=256",))
    whole, small = convert(run, "fp32"), convert(run, "int8")
    assert 3.5 < whole.stat().st_size / small.stat().st_size < 4
    arrays = read_run(small)[1].arrays
    assert arrays["embedding.weight"].dtype == arrays["keys.weight" + SCALE].dtype == np.float32
    assert arrays["keys.weight"].dtype == np.int8


@pytest.mark.parametrize("arch", [name for name, one in ARCHITECTURES.items() if one.write_program])
def test_it_is_packed_as_the_run_would_be(tmp_path: Path, arch: str) -> None:
    """The engine for the CPU gets the numbers that it would have rounded itself, to a step at most
    where it cuts a matrix in two; and again converted, nothing changes."""
    run = make_run(tmp_path / "run", arch)
    file = convert(run, "int8")
    once = restore_weights(read_run(file)[1].arrays)
    twice = restore_weights(round_arrays(once, "int8"))
    for name, array in folded(once).items():
        assert np.allclose(array, folded(twice)[name], rtol=1e-6, atol=1e-12), name
    config = read_run(file)[1].config.model
    own = pack_model({name: part.numpy() for name, part in read(run).items()}, config, "int8")
    other = pack_model(once, config, "int8")
    assert own.weights.shape == other.weights.shape
    assert np.mean(own.weights != other.weights) < 0.05


@pytest.mark.parametrize("names", [("a.v", "a.g"), ("a.g", "a.v")])  # whatever comes first
def test_weight_normalisation(names: tuple[str, str]) -> None:
    """The lengths are those of the rounded rows, so that a model reads these; one of length 0 stays
    one."""
    v = np.arange(1, 13, dtype=np.float32).reshape(3, 2, 2)
    arrays = {"a.v": v, "a.g": np.array([1, 0, 2], np.float32)}
    back = restore_weights(round_arrays({name: arrays[name] for name in names}, "int8"))
    assert back["a.v"].shape == (3, 2, 2)
    assert np.allclose(folded(back)["a.v"], folded(arrays)["a.v"], rtol=0.01)
    lengths = np.linalg.norm(back["a.v"].reshape(3, -1), axis=1)
    assert np.allclose(back["a.g"][[0, 2]], lengths[[0, 2]], rtol=1e-7) and back["a.g"][1] == 0


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_rows_of_tables_that_are_zero_are_left_out(precision: str) -> None:
    table, rows = np.zeros((64, 5), np.float32), [0, 9, 63]
    table[rows] = np.random.default_rng(3).normal(size=(3, 5))
    stored = round_arrays({NGRAM_TABLES: table}, precision)
    assert stored[NGRAM_TABLES].shape == (3, 5)
    found = restore_weights(stored)[NGRAM_TABLES]
    assert found.shape == table.shape and np.flatnonzero(found.any(axis=1)).tolist() == rows
    step = np.abs(table).max(axis=1, keepdims=True) / 127 if precision == "int8" else 0
    assert (np.abs(found - table) <= step / 2 * 1.0001).all()


def test_a_file_that_is_handed_on_tells_no_folders(tmp_path: Path) -> None:
    """The names of the texts stay, where they lay does not; the run itself still tells."""
    run = make_run(tmp_path / "run", "luong")
    pairs = PairFiles(Path("/home/me/a.ko"), Path("/home/me/a.en"))
    corpora = (pairs, PairFiles(tsv=Path("/home/me/t")))
    facts = Facts(pairs=3, corpora=corpora, texts=(TextFact("/home/me/text", 7),))
    save_checkpoint(run, 80, read(run), {}, Run(run).config, facts, best=True)
    output = convert(run, "int8")
    assert b"/home/me" not in output.read_bytes()
    assert b"/home/me" in (run / "last.safetensors").read_bytes()
    told = read_run(output)[1].facts
    assert told.corpora == (PairFiles(Path("a.ko"), Path("a.en")), PairFiles(tsv=Path("t")))
    assert (told.update, told.pairs, told.texts) == (80, 3, (TextFact("text", 7),))
    average([run], tmp_path / "mean.safetensors")
    assert b"/home/me" not in (tmp_path / "mean.safetensors").read_bytes()
