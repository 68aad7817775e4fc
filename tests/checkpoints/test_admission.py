"""Files from strangers: what does not fit is refused in one line, by every engine and every command."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from made_up_engine import make_run

from bytenmt.checkpoints import search_defaults
from bytenmt.checkpoints.admission import CHUNK, is_finite
from bytenmt.checkpoints.quantize import round_arrays
from bytenmt.checkpoints.tensor_file import Array, entry, read_arrays, serialise
from bytenmt.checkpoints.weights import CONFIG, read_config, read_weights, restored
from bytenmt.cli.main import main
from bytenmt.config.schema import load_config, parse_config
from bytenmt.errors import CheckpointError, ConfigError

Arrays = dict[str, Array]
Told = dict[str, str]
DEEP, LONG = "[" * 5000 + "]" * 5000, "9" * 5000


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run folders of small models, to be copied."""
    place = tmp_path_factory.mktemp("made")
    return {arch: make_run(place / arch, arch) for arch in ("seq2seq", "bytenet", "convs2s")}


def weights_of(run: Path) -> tuple[Arrays, Told]:
    return read_arrays(run / "last.safetensors")


def written(path: Path, arrays: Arrays, error: Told) -> Path:
    path.write_bytes(
        b"".join(map(bytes, serialise({name: entry(part) for name, part in arrays.items()}, error)))
    )
    return path


def refused(path: Path) -> str:
    """Return the one-line error for a weights file; it names the file."""
    with pytest.raises(CheckpointError) as caught:
        read_weights(path)
    said = str(caught.value)
    assert said.startswith(str(path)) and "\n" not in said and len(said) < 600
    return said


BIAS, GATES, TABLE = "decoder.output.bias", "encoder.0.gates.weight", "embedding.weight"


def with_nan(part: Array, value: float = np.nan) -> Array:
    part = part.copy()
    part.reshape(-1)[-1] = value
    return part


TENSORS: dict[str, tuple[Callable[[Arrays], Arrays], str]] = {
    "a missing bias": (
        lambda a: {k: v for k, v in a.items() if k != BIAS},
        "which is missing, expected F32 256",
    ),
    "a bias of one number": (lambda a: a | {BIAS: a[BIAS][:1]}, "which is F32 1, expected F32 256"),
    "a scalar": (lambda a: a | {BIAS: a[BIAS].sum()}, "F32 of one number, expected F32 256"),
    "a table of 128 rows": (lambda a: a | {TABLE: a[TABLE][:128]}, "F32 128 x 8, expected F32 256 x 8"),
    "a matrix turned": (lambda a: a | {GATES: a[GATES].T}, "F32 12 x 24, expected F32 24 x 12"),
    "whole numbers": (lambda a: a | {GATES: a[GATES].astype(np.int32)}, "I32 24 x 12, expected F32"),
    "halves": (lambda a: {k: v.astype(np.float16) for k, v in a.items()}, "differ, first"),
    "some doubles": (lambda a: a | {TABLE: a[TABLE].astype(np.float64)}, "expected F64"),
    "a double that is too large": (
        lambda a: {k: with_nan(v.astype(np.float64), 1e39) for k, v in a.items()},
        "holds what is no number",
    ),
    "one too many": (lambda a: a | {"x": a[BIAS]}, "first 'x', which is F32 256, expected missing"),
    "a control character": (lambda a: a | {"\x1b[2J\n": a[BIAS]}, r"first '\x1b[2J\n'"),
    "no number": (lambda a: a | {GATES: with_nan(a[GATES])}, f"'{GATES}' holds what is no number"),
    "infinite": (lambda a: a | {BIAS: with_nan(a[BIAS], -np.inf)}, f"'{BIAS}' holds what is no number"),
    "nothing": (lambda a: {}, "tensors differ"),
}


@pytest.mark.parametrize("what", TENSORS)
def test_tensors_that_do_not_fit(what: str, template: dict[str, Path], tmp_path: Path) -> None:
    """Once the CPU engine read past their ends, or translated with them."""
    change, message = TENSORS[what]
    arrays, error = weights_of(template["seq2seq"])
    assert message in refused(written(tmp_path / "w.safetensors", change(arrays), error))


def test_a_width_that_the_file_does_not_have(template: dict[str, Path], tmp_path: Path) -> None:
    """A table of one row for an embedding that is said to be wide: a segmentation fault once."""
    arrays, error = weights_of(template["seq2seq"])
    config = json.loads(error["config"])
    config["model"]["d_embedding"] = 60_000
    arrays[TABLE] = np.zeros((1, 60_000), np.float32)
    wide = written(tmp_path / "w.safetensors", arrays, error | {"config": json.dumps(config)})
    assert "tensors differ" in refused(wide)


def test_doubles_are_read(template: dict[str, Path], tmp_path: Path) -> None:
    """Float64 tensors, as a training in float64 writes them, can be read."""
    arrays, error = weights_of(template["seq2seq"])
    doubles = {name: part.astype(np.float64) for name, part in arrays.items()}
    contents = read_weights(written(tmp_path / "w.safetensors", doubles, error))[1]
    assert contents.arrays[GATES].dtype == np.float64
    assert np.array_equal(restored(contents.arrays)[GATES], arrays[GATES])
    assert restored(contents.arrays)[GATES].dtype == np.float32


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_converted_weights_are_checked_too(precision: str, template: dict[str, Path], tmp_path: Path) -> None:
    """Types, and scales by shape, type and number; and the file as it was is read."""
    arrays, error = weights_of(template["seq2seq"])
    stored, error = round_arrays(arrays, precision), error | {"precision": precision}
    path = tmp_path / "w.safetensors"
    assert read_weights(written(path, stored, error))[1].precision == precision
    assert "tensors differ" in refused(written(path, stored, error | {"precision": "fp32"}))
    assert "is in the precision 'fp7': expected fp32" in refused(
        written(path, stored, error | {"precision": "fp7"})
    )
    if precision == "bf16":
        bad = stored[GATES].copy()
        bad[3, 4] = 0xFF80
        assert "no number" in refused(written(path, stored | {GATES: bad}, error))
        return
    scale = f"{GATES}:scale"
    for wrong in (stored[scale][:5], stored[scale][:, None], stored[scale].astype(np.float64)):
        assert f"first '{scale}'" in refused(written(path, stored | {scale: wrong}, error))
    assert f"'{scale}' holds" in refused(written(path, stored | {scale: with_nan(stored[scale])}, error))
    assert f"first '{GATES}'" in refused(written(path, stored | {GATES: arrays[GATES]}, error))


@pytest.mark.parametrize("kind", [np.float32, np.uint16])
@pytest.mark.parametrize("n", [1, CHUNK - 1, CHUNK, 2 * CHUNK + 7])
def test_every_number_is_looked_at(kind: Any, n: int) -> None:
    """First, last, and on both sides of a piece's end."""
    numbers = np.full(n, 1 if kind is np.float32 else 0x7F7F, kind)  # the largest of bfloat16
    assert is_finite(numbers) and is_finite(numbers[:0])
    for at in {0, n - 1, min(CHUNK - 1, n - 1), min(CHUNK, n - 1)}:
        for bad in (np.nan, np.inf, -np.inf) if kind is np.float32 else (0x7F80, 0xFF80, 0x7FC0, 0xFFFF):
            other = numbers.copy()
            other[at] = bad
            assert not is_finite(other)


def with_model(error: Told, **values: Any) -> Told:
    config = json.loads(error["config"])
    config["model"].update(values)
    return error | {"config": json.dumps(config)}


METADATA: dict[str, tuple[Callable[[Told], Told], str]] = {
    "deep configuration": (
        lambda t: t | {"config": DEEP},
        "configuration cannot be read: it is nested too deeply",
    ),
    "deep facts": (lambda t: t | {"facts": DEEP}, "facts cannot be read: it is nested too deeply"),
    "long number": (lambda t: t | {"config": f'{{"a": {LONG}}}'}, "a number of 5000 digits"),
    "long fact": (lambda t: t | {"facts": f'{{"update": {LONG}}}'}, "a number of 5000 digits"),
    "large fact": (
        lambda t: t | {"facts": f'{{"update": {10**40}}}'},
        "facts cannot be read: Expected `int` <",
    ),
    "a list": (lambda t: t | {"facts": "[1]"}, "Expected `object`, got `array`"),
    "a word": (
        lambda t: t | {"facts": '{"update": "x"}'},
        "Expected `int | null`, got `str` - at `$.update`",
    ),
    "texts": (lambda t: t | {"facts": '{"texts": [1]}'}, "at `$.texts[0]`"),
    "no facts": (lambda t: {k: v for k, v in t.items() if k != "facts"}, "its facts cannot be read"),
    "no JSON": (lambda t: t | {"config": "{"}, "its configuration cannot be read"),
    "a key with a line's end": (lambda t: with_model(t, **{"a\nb": 1}), r"unknown key model.a\nb"),
    "infinite": (lambda t: with_model(t, dropout=float("inf")), "model.dropout: expected a finite number"),
    "another format": (lambda t: t | {"format": "x\n" * 99}, "not a bytenmt checkpoint"),
    "another kind": (lambda t: t | {"holds": "x\n"}, r"holds x\n, expected weights"),
}


@pytest.mark.parametrize("what", METADATA)
def test_metadata_from_strangers(what: str, template: dict[str, Path], tmp_path: Path) -> None:
    """Damaged or hostile: one line."""
    change, message = METADATA[what]
    arrays, error = weights_of(template["seq2seq"])
    assert message in refused(written(tmp_path / "w.safetensors", arrays, change(error)))


def test_headers_from_strangers(template: dict[str, Path], tmp_path: Path) -> None:
    """Headers that are ambiguous or unreadable are refused."""
    path = tmp_path / "w.safetensors"
    whole = (template["seq2seq"] / "last.safetensors").read_bytes()
    n = int.from_bytes(whole[:8], "little")
    header, data = whole[8 : 8 + n].rstrip(), whole[8 + n :]
    error = json.loads(header)
    again = json.dumps({BIAS: error[BIAS]})[1:].encode()

    def with_header(text: bytes, length: int | None = None) -> str:
        path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
        return refused(path)

    assert f"it has '{BIAS}' twice" in with_header(header[:-1] + b", " + again)
    for kind in ("F8_E4M3", "F8_E5M2", "U16", "I16", "C64", "X"):
        other = dict(error[BIAS], dtype=kind)
        assert "damaged or cut off" in with_header(json.dumps(error | {BIAS: other}).encode())
    f8 = dict(error[BIAS], dtype="F8_E4M3", shape=[1024])  # as many bytes
    assert "is of the type 'F8_E4M3': expected F64" in with_header(json.dumps(error | {BIAS: f8}).encode())
    for text in (DEEP.encode(), b"", b"{}", b"[]", b"\xff" * 9, b'{"a": 1}', LONG.encode()):
        assert "damaged or cut off" in with_header(text)
    for length in (2**64 - 1, 2**63, 2**40, 100_000_001, len(header) - 1, len(header) + 1, 0):
        assert "damaged or cut off" in with_header(header, length)


TOO_LARGE = [
    ("seq2seq", "n_layers", 10**9, "model.n_layers"),
    ("seq2seq", "n_encoder_layers", 10**9, "model.n_encoder_layers"),
    ("seq2seq", "d_hidden", 10**9, "model.d_hidden"),
    ("seq2seq", "d_embedding", 10**6, "model.d_embedding"),
    ("seq2seq", "d_embedding", 10**30, "model.d_embedding"),
    ("bytenet", "n_sets", 10**9, "model.n_sets"),
    ("bytenet", "n_sets", 250, "n_sets times the dilations are "),
    ("bytenet", "n_encoder_sets", 250, "blocks in the encoder"),
    ("bytenet", "n_decoder_sets", 10**9, "model.n_decoder_sets"),
    ("bytenet", "encoder_dilations", [4096, 4096, 4096], "the receptive field is "),
    ("bytenet", "unfolding_offset", 10**6, "model.unfolding_offset"),
    ("bytenet", "dilations", [1, 10**9], "model.dilations"),
    ("bytenet", "dilations", [1] * 10**4, "model.dilations"),
    ("bytenet", "dilations", [4096, 4096, 4096], "the receptive field is "),
    ("bytenet", "kernel_width", 10**9, "model.kernel_width"),
    ("convs2s", "n_positions", 10**12, "model.n_positions"),
    ("convs2s", "decoder_layers", [[8, 3]] * 10**4, "model.decoder_layers"),
    ("convs2s", "decoder_layers", [[8, 1024]] * 20, "the receptive field is 20,461 bytes"),
]


@pytest.mark.parametrize(("arch", "key", "value", "message"), TOO_LARGE)
def test_sizes_without_bounds(
    arch: str, key: str, value: Any, message: str, template: dict[str, Path], tmp_path: Path
) -> None:
    """Excessive sizes in a file, in a run folder and by --set are refused before anything is allocated."""
    arrays, error = weights_of(template[arch])
    assert message in refused(written(tmp_path / "w.safetensors", arrays, with_model(error, **{key: value})))
    with pytest.raises(ConfigError) as caught:
        load_config(arch, "tiny", "", [f"model.{key}={json.dumps(value)}"])
    assert message in str(caught.value)


def test_every_size_stays_within_reach() -> None:
    """The largest of the presets, and more."""
    load_config("bytenet", "paper", "", ["model.n_sets=32", "model.unfolding_offset=1000"])
    load_config("convs2s", "paper", "", ["model.n_positions=100000", "model.d_embedding=8192"])
    load_config("seq2seq", "paper", "", ["model.n_layers=64", "model.d_hidden=16384"])


def test_an_empty_read_out() -> None:
    """Half of one is none."""
    with pytest.raises(ConfigError, match="d_hidden = 1 leaves nothing to read out"):
        parse_config({"model": {"arch": "seq2seq", "d_embedding": 2, "d_hidden": 1, "context": "every_step"}})


def folder(template: dict[str, Path], place: Path, arch: str = "seq2seq") -> Path:
    return Path(shutil.copytree(template[arch], place / "run"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'model = "\xff"', "codec can't decode"),
        (b"a = " + DEEP.encode(), "nested too deeply"),
        (b"a = " + LONG.encode(), "a number of thousands of digits"),
        (b'[model]\narch = "x\\ny"', r"'x\ny'"),
        (b"[model]\n'a\\u000Ab' = 1", "configuration"),
    ],
)
def test_configurations_from_strangers(
    data: bytes, message: str, template: dict[str, Path], tmp_path: Path
) -> None:
    """Hostile configurations of a run folder and of --config are refused."""
    run = folder(template, tmp_path)
    (run / "config.toml").write_bytes(data)
    with pytest.raises(CheckpointError) as caught:
        read_config(run)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    result = CliRunner().invoke(
        main, ["train", "-o", str(tmp_path / "new"), "--tsv", "x", "--valid-tsv", "x", "--config",
               str(run / "config.toml"), "--arch", "luong"]
    )  # fmt: skip
    assert result.exit_code == 1 and result.stderr.count("\n") == 1


@pytest.mark.parametrize("name", [CONFIG, "search.json"])
def test_a_text_of_gigabytes_is_not_read(template: dict[str, Path], tmp_path: Path, name: str) -> None:
    """A sparse file of 3 GB in a run folder is refused in one line, and in no more memory than its limit."""
    run = tmp_path / "run"
    shutil.copytree(template["seq2seq"], run)
    with open(run / name, "wb") as file:
        file.truncate(3 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=f"{name} cannot be read: it has over") as caught:
            {CONFIG: read_config, "search.json": search_defaults.read}[name](run)
        assert tracemalloc.get_traced_memory()[1] < 1 << 26 and "\n" not in str(caught.value)
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_every_command_asks(template: dict[str, Path], tmp_path: Path) -> None:
    """A file whose bias is too short is refused by each command that reads weights."""
    arrays, error = weights_of(template["seq2seq"])
    bad = str(written(tmp_path / "bad.safetensors", arrays | {BIAS: arrays[BIAS][:1]}, error))
    text = tmp_path / "text"
    text.write_text("a\n" * 30)
    pair, valid = (
        ["--src", str(text), "--tgt", str(text)],
        ["--valid-src", str(text), "--valid-tgt", str(text)],
    )
    out, config = str(tmp_path / "out.safetensors"), ["--set", "model.d_embedding=8", "--max-updates", "1"]
    new = [
        "train",
        "-o",
        str(tmp_path / "new"),
        "--arch",
        "luong",
        "--preset",
        "tiny",
        *pair,
        *valid,
        *config,
    ]
    for command in (
        ["translate", "-m", bad],
        ["translate", "-m", bad, "--engine", "torch"],
        ["evaluate", "-m", bad, "--src", str(text), "--ref", str(text)],
        ["predict", bad, str(text), "--src", str(text)],
        ["generate", "-m", bad],
        ["convert", bad, "-o", out, "--precision", "int8"],
        ["info", bad],
        [*new, "--init-embedding", bad],
    ):
        result = CliRunner().invoke(main, command, input="a\n")
        assert result.exit_code == 1 and "which is F32 1, expected F32 256" in result.stderr, command
        assert result.stdout == "" and "Traceback" not in result.stderr and not os.path.exists(out)
