"""Files of weights: earlier versions are read, and what does not fit is refused in one line."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import accepted, invoke
from hypothesis import given
from hypothesis import strategies as st
from made_up_engine import make_run
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from bytenmt.architectures.model_program import NGRAM_TABLES
from bytenmt.checkpoints.quantize import round_arrays
from bytenmt.checkpoints.weights import (
    ROWS,
    Array,
    describe_misfit,
    read_run,
    restore_weights,
    without_zero_rows,
)
from bytenmt.config.schema import load_config
from bytenmt.errors import CheckpointError, ConfigError

Arrays = dict[str, Array]
Metadata = dict[str, str]
DEEP, LONG = "[" * 5000 + "]" * 5000, "9" * 5000
BIAS, GATES, TABLE = "decoder.output.bias", "encoder.0.gates.weight", "embedding.weight"
# Commits; the first one wrote the oldest files that are still read.
VERSIONS = ("6d42e7c", "60e445e")


# ---- files of earlier versions


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the weights that each of two commits trained, the same in int8, and its scores."""
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(Path(__file__).parents[1] / "files/older_models.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "tolerance"), [("run/checkpoints/update-00000004", 1e-4), ("int8", 0.02)]
)
def test_a_model_of_an_earlier_version_scores_as_it_did(
    older: Path, version: str, name: str, tolerance: float
) -> None:
    then = [
        float(line.split("\t")[0]) for line in (older / version / "scores").read_text().splitlines()
    ]
    texts = ["--src", str(older / "source"), "--ref", str(older / "target"), "--log-probabilities"]
    model = str(older / version / f"{name}.safetensors")
    done = invoke("evaluate", model, *texts, "--engine", "torch")
    assert done.exit_code == 0, done.output
    now = [float(line.split("\t")[0]) for line in done.stdout.splitlines()]
    assert len(now) == 30 and now == pytest.approx(then, rel=tolerance)


def test_a_removed_key_of_the_training_pairs_is_ignored(
    template: dict[str, Any], places: Path, tmp_path: Path
) -> None:
    """Files of 0.2.0.dev may have data.formality: they are read, printed and converted without."""
    arrays, metadata = template["luong"]
    config = json.loads(metadata["config"])
    older = config | {"data": config["data"] | {"formality": 0.5}}
    path = tmp_path / "w.safetensors"
    save_file(arrays, path, metadata | {"config": json.dumps(older)})
    assert read_run(path)[1].config == read_run(places / "luong")[1].config
    assert "formality" not in accepted("info", str(path))
    converted = tmp_path / "converted.safetensors"
    accepted("convert", str(path), "-o", str(converted), "--precision", "fp32")
    with safe_open(converted, "np") as opened:
        assert json.loads(opened.metadata()["config"]) == config


# ---- files that do not fit


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture(scope="module")
def template(places: Path) -> dict[str, tuple[Arrays, Metadata]]:
    """The tensors and the metadata of small models."""
    contents = {}
    for arch in ("seq2seq", "bytenet", "convs2s", "luong"):
        tables = ("model.ngrams=[2,3]", "model.ngram_rows=64") if arch == "luong" else ()
        file = make_run(places / arch, arch, settings=tables) / "last.safetensors"
        with safe_open(file, "np") as opened:
            contents[arch] = load_file(file), opened.metadata()
    return contents


def refused(folder: Path, arrays: Arrays, metadata: Metadata) -> str:
    """Return the one-line error for a weights file; it names the file."""
    path, contiguous = (
        folder / "w.safetensors",
        {k: np.asarray(v, order="C") for k, v in arrays.items()},
    )
    save_file(contiguous, path, metadata)
    return refused_file(path)


def refused_file(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        read_run(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and "\n" not in message and len(message) < 600
    return message


def with_nan(part: Array, value: float = np.nan) -> Array:
    part = part.copy()
    part.reshape(-1)[-1] = value
    return part


# A tensor, what it becomes, and what the message has.
Change = Callable[[Array], Array]
TENSORS: list[tuple[str, Change, str]] = [
    (BIAS, lambda bias: bias[:1], "which is float32 1, expected float32 256"),
    (BIAS, lambda bias: bias.sum(), "float32 of one number, expected float32 256"),
    (TABLE, lambda table: table[:128], "float32 128 x 8, expected float32 256 x"),
    (GATES, lambda gates: gates.T, "float32 16 x 32, expected float32 32 x 16"),
    (GATES, lambda gates: gates.astype(np.int32), "int32 32 x 16, expected float32"),
    (GATES, lambda gates: with_nan(gates), f"'{GATES}' contains something other than a number"),
    (BIAS, lambda bias: with_nan(bias, -np.inf), f"'{BIAS}' contains something other than a"),
]


@pytest.mark.parametrize(("name", "change", "message"), TENSORS)
def test_tensors_that_do_not_fit(
    name: str, change: Change, message: str, template: dict[str, Any], tmp_path: Path
) -> None:
    """Compiled kernels would read past their ends, or translate with them."""
    arrays, metadata = template["seq2seq"]
    assert message in refused(tmp_path, arrays | {name: change(arrays[name])}, metadata)


def test_other_tensors_than_those_of_the_model(template: dict[str, Any], tmp_path: Path) -> None:
    arrays, metadata = template["seq2seq"]
    without_bias = {name: array for name, array in arrays.items() if name != BIAS}
    for wrong, message in (
        (without_bias, "which is missing, expected float32 256"),
        (arrays | {"x": arrays[BIAS]}, "first 'x', which is float32 256, expected missing"),
        (arrays | {"\x1b[2J\n": arrays[BIAS]}, r"first '\x1b[2J\n'"),
        ({name: array.astype(np.float16) for name, array in arrays.items()}, "differ, first"),
        ({}, "tensors differ"),
    ):
        assert message in refused(tmp_path, wrong, metadata)


def test_rows_of_tables_are_checked_too(template: dict[str, Any], tmp_path: Path) -> None:
    """There are as many as the bits say, and as many bits as the tables have rows; both are read
    again."""
    arrays, metadata = template["luong"]
    table, rows = restore_weights(arrays)[NGRAM_TABLES].copy(), NGRAM_TABLES + ROWS
    table[[0, 9, 64, 127]] = 0
    arrays = arrays | without_zero_rows({NGRAM_TABLES: table})
    path, stored, bits = tmp_path / "whole.safetensors", arrays[NGRAM_TABLES], arrays[rows]
    save_file(arrays, path, metadata)
    assert stored.shape == (124, 8)
    assert np.array_equal(restore_weights(read_run(path)[1].arrays)[NGRAM_TABLES], table)
    for wrong, message in (
        ({rows: np.append(bits, np.uint8(0))}, "which is uint8 17, expected uint8 16"),
        ({rows: bits.view(np.int8)}, "which is int8 16, expected uint8 16"),
        ({NGRAM_TABLES: stored[1:]}, "which is float32 123 x 8, expected float32 124 x 8"),
        ({NGRAM_TABLES: with_nan(stored)}, "contains something other than a number"),
    ):
        assert message in refused(tmp_path, arrays | wrong, metadata)


def test_converted_weights_are_checked_too(template: dict[str, Any], tmp_path: Path) -> None:
    arrays, metadata = template["seq2seq"]
    stored, metadata = round_arrays(arrays, "int8"), metadata | {"precision": "int8"}
    scale = f"{GATES}:scale"
    for wrong, message in (
        ({scale: stored[scale][:5]}, f"first '{scale}'"),
        ({scale: stored[scale][:, None]}, f"first '{scale}'"),
        ({scale: stored[scale].astype(np.float64)}, f"first '{scale}'"),
        ({scale: with_nan(stored[scale])}, f"'{scale}' contains"),
        ({GATES: arrays[GATES]}, f"first '{GATES}'"),
    ):
        assert message in refused(tmp_path, stored | wrong, metadata)
    assert "tensors differ" in refused(tmp_path, stored, metadata | {"precision": "fp32"})
    assert "in the precision 'fp7'" in refused(tmp_path, stored, metadata | {"precision": "fp7"})


def with_model(metadata: Metadata, **values: Any) -> Metadata:
    config = json.loads(metadata["config"])
    config["model"].update(values)
    return metadata | {"config": json.dumps(config)}


METADATA: dict[str, tuple[Callable[[Metadata], Metadata], str]] = {
    "deep configuration": (lambda t: t | {"config": DEEP}, "maximum recursion depth exceeded"),
    "deep facts": (lambda t: t | {"facts": DEEP}, "maximum recursion depth exceeded"),
    "long number": (lambda t: t | {"config": f'{{"a": {LONG}}}'}, "cannot be read"),
    "large fact": (lambda t: t | {"facts": f'{{"update": {10**40}}}'}, "Expected `int` <"),
    "a list": (lambda t: t | {"facts": "[1]"}, "Expected `object`, got `array`"),
    "texts": (lambda t: t | {"facts": '{"texts": [1]}'}, "at `$.texts[0]`"),
    "no facts": (lambda t: {k: v for k, v in t.items() if k != "facts"}, "facts cannot be read"),
    "no JSON": (lambda t: t | {"config": "{"}, "configuration or facts cannot be read"),
    "a key with a line's end": (lambda t: with_model(t, **{"a\nb": 1}), r"model"),
    "infinite": (lambda t: with_model(t, dropout=float("inf")), "model.dropout"),
    "another format": (
        lambda t: t | {"format": "bytenmt 1"},
        "does not hold the weights of a model",
    ),
}


@pytest.mark.parametrize("what", METADATA)
def test_metadata_from_strangers(what: str, template: dict[str, Any], tmp_path: Path) -> None:
    change, message = METADATA[what]
    arrays, metadata = template["seq2seq"]
    assert message in refused(tmp_path, arrays, change(metadata))


def test_headers_from_strangers(template: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file(*(template["seq2seq"][0], path, template["seq2seq"][1]))
    whole = path.read_bytes()
    n = int.from_bytes(whole[:8], "little")
    header, data = whole[8 : 8 + n].rstrip(), whole[8 + n :]

    def with_header(text: bytes, length: int | None = None) -> str:
        n_bytes = len(text) if length is None else length
        path.write_bytes(n_bytes.to_bytes(8, "little") + text + data)
        return refused_file(path)

    tensors = json.loads(header)
    for kind, shape in (("F8_E4M3", [1024]), ("BF16", [512]), ("C64", [128])):  # as many bytes
        other = tensors | {BIAS: dict(tensors[BIAS], dtype=kind, shape=shape)}
        assert with_header(json.dumps(other).encode())
    for text in (DEEP.encode(), b"", b"{}", b"[]", b"\xff" * 9, b'{"a": 1}', LONG.encode()):
        assert "damaged or cut off" in with_header(text)
    for length in (2**64 - 1, 2**63, 2**40, 100_000_001, len(header) - 1, len(header) + 1, 0):
        assert "damaged or cut off" in with_header(header, length)


TOO_LARGE = [
    ("seq2seq", "n_layers", 10**9, "model.n_layers"),
    ("seq2seq", "d_hidden", 10**9, "model.d_hidden"),
    ("seq2seq", "d_embedding", 10**30, "model.d_embedding"),
    ("bytenet", "n_sets", 10**9, "model.n_sets"),
    ("bytenet", "dilations", [4096, 4096, 4096], "the receptive field is "),
    ("bytenet", "unfolding_offset", 10**6, "model.unfolding_offset"),
    ("bytenet", "dilations", [1, 10**9], "model.dilations"),
    ("bytenet", "dilations", [1] * 10**4, "model.dilations"),
    ("bytenet", "kernel_width", 10**9, "model.kernel_width"),
    ("convs2s", "n_positions", 10**12, "model.n_positions"),
    ("convs2s", "decoder_layers", [[8, 3]] * 10**4, "model.decoder_layers"),
    ("convs2s", "decoder_layers", [[8, 1024]] * 20, "the receptive field is 20,461 bytes"),
]


@pytest.mark.parametrize(("arch", "key", "value", "message"), TOO_LARGE)
def test_sizes_without_bounds(
    arch: str, key: str, value: Any, message: str, template: dict[str, Any], tmp_path: Path
) -> None:
    arrays, metadata = template[arch]
    assert message in refused(tmp_path, arrays, with_model(metadata, **{key: value}))
    with pytest.raises(ConfigError) as caught:
        load_config(arch, "tiny", [f"model.{key}={json.dumps(value)}"])
    assert message in str(caught.value)


# ---- files that were mutated: a model of the same shapes, or an error

NUMBERS = st.sampled_from([-1, 0, 1, 7, 255, 2**31, 2**63, -(2**63), 1e308])
OTHERS: list[Any] = ["", "x" * 3000, "\x1b[31m", "fp32", [], {}, None, True, "[" * 900]
VALUES = st.one_of(NUMBERS, st.sampled_from(OTHERS))


def read_mutated(path: Path, data: bytes) -> None:
    """Read a weights file; fail unless it is refused, with its name, or fits its configuration."""
    path.write_bytes(data)
    try:
        _, stored = read_run(path)
    except CheckpointError as error:
        assert str(error).isprintable() and str(error).startswith(str(path))
        return
    assert describe_misfit(stored.arrays, stored.config, stored.precision) is None
    assert restore_weights(stored.arrays)


@given(draw=st.data())
def test_fields_are_changed_or_missing(
    template: dict[str, Any], places: Path, draw: st.DataObject
) -> None:
    data = (places / "bytenet/last.safetensors").read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    name = draw.draw(st.sampled_from(sorted(header)))
    entry = header[name]
    if name == "__metadata__" and draw.draw(st.booleans()):
        part = draw.draw(st.sampled_from(["config", "facts"]))
        tree = json.loads(entry[part])
        section = draw.draw(st.sampled_from(sorted(tree)))
        inner = tree[section] if isinstance(tree[section], dict) and tree[section] else tree
        inner[draw.draw(st.sampled_from(sorted(inner)))] = draw.draw(VALUES)
        entry[part] = json.dumps(tree)
    else:
        key = draw.draw(st.sampled_from(sorted(entry)))
        entry[key] = draw.draw(st.one_of(VALUES, st.lists(NUMBERS, max_size=3)))
    text = json.dumps(header).encode()
    whole = len(text).to_bytes(8, "little") + text + data[end:]
    read_mutated(places / "fields.safetensors", whole)
