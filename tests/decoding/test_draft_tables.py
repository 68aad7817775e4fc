"""Drafts as a user meets them: counted on request, taken where they are there, and never a byte different."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from made_up_engine import MadeUpEngine, make_run, warm_up

from bytenmt.checkpoints.tensor_file import read_arrays
from bytenmt.cli.main import main
from bytenmt.decoding.drafts.table import FILE
from bytenmt.decoding.interface import EngineSpec, Hypothesis, Options
from bytenmt.decoding.loading import load_runs
from bytenmt.decoding.settings import Settings
from bytenmt.decoding.translator import Translator

DATA = Path(__file__).parents[2] / "data"
SHORT = "--max-len-b 12 --max-len-a 0.5"
COUNT = "--src src --tgt tgt"
LINE = re.compile(r"\S+: 2,62\d,\d{3} bytes, [\d,]+ contexts; right to byte 1, 2, …, held out: [\d, ]+ %\n")


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    warm_up(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random runs: two with a draft table, one of them without a source; two without; and texts."""
    place = tmp_path_factory.mktemp("made")
    for name in ("ko", "en"):
        lines = (DATA / f"train.{name}").read_bytes().splitlines(keepends=True)[:100]
        (place / {"ko": "src", "en": "tgt"}[name]).write_bytes(b"".join(lines))
    (place / "in").write_bytes(b"".join((DATA / "test.ko").read_bytes().splitlines(keepends=True)[:6]))
    make_run(place / "run", "convs2s")
    make_run(place / "text", "bytenet", settings=("model.source=false",))
    make_run(place / "bare", "convs2s", seed=1)
    make_run(place / "serial", "luong")
    for name, given in (("run", "--src src --tgt tgt"), ("text", "--text tgt")):
        command = " ".join(str(place / word) if word in ("src", "tgt") else word for word in given.split())
        result = invoke(f"draft {place / name} {command}")
        assert (result.exit_code, result.stdout) == (0, ""), result.output
        assert LINE.fullmatch(result.stderr), result.stderr
    return place


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them to work in."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(command: str) -> Result:
    return CliRunner().invoke(main, command.split())


def accepted(command: str, message: str = "") -> str:
    """stdout; stderr is one line that holds `told`, or nothing."""
    result = invoke(command)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("\n") == bool(message) and message in result.stderr, result.stderr
    return result.stdout


TRANSLATE = f"translate -m run -i in {SHORT}"
GENERATE = "generate -m text --bytes 40 --prompt Da --seed 3"
TRAIN = "--arch convs2s --preset tiny --src src --tgt tgt --valid-src src --valid-tgt tgt --max-updates 1"
SMALL = (
    "--set model.encoder_layers=[[8,3]] --set model.decoder_layers=[[8,3]] --set model.d_embedding=8"
    " --set train.valid_lines=0"
)
BAD = [
    ("convert run", "nothing to write: give -o FILE.safetensors and --precision, one of fp32, bf16, int8"),
    ("convert run -o new.safetensors", "nothing to write: give --precision, one of fp32, bf16, int8"),
    ("convert run --precision bf16", "nothing to write: give -o FILE.safetensors"),
    (
        "convert run -o new.safetensors --precision bf16 --text src",
        "src would be ignored: only `bytenmt draft` uses it",
    ),
    ("convert run -o new.safetensors --draft", "leave out -o and --precision"),
    ("convert run --precision bf16 --draft", "leave out -o and --precision"),
    ("draft run", "run does not record its training text: give it by --src and --tgt"),
    ("draft text", "the run does not record its training text"),
    ("draft run --src src", "no training text: give --src and --tgt"),
    ("draft run --text tgt", "run was trained with a source"),
    ("draft text --src src --tgt tgt", "text was trained without a source"),
    (f"draft serial {COUNT}", "serial: luong cannot verify drafts, only bytenet, convs2s and"),
    ("draft none", "none is not a run folder"),
    (f"draft run/checkpoints/update-00000070.safetensors {COUNT}", "is a weights file: give the run"),
    ("translate -m serial -i in --draft 4", "--draft 4: serial: luong cannot verify drafts"),
    ("translate -m run serial -i in --draft 4", "serial: luong cannot verify drafts"),
    (
        "translate -m bare -i in --draft 1",
        "bare has no draft.safetensors: build it with `bytenmt draft bare`",
    ),
    ("evaluate -m bare --src in --ref in --draft 1", "build it with `bytenmt draft bare`"),
    (f"train -o new {TRAIN.replace('convs2s', 'luong')} --draft", "luong cannot verify drafts"),
]


@pytest.mark.parametrize(("command", "message"), BAD)
def test_bad_input_is_one_line(
    template: Path, command: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1; nothing on stdout, nothing written, so that no copy is needed."""
    monkeypatch.chdir(template)
    before = sorted(template.rglob("*"))
    result = invoke(command)
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    assert re.fullmatch(r"bytenmt: [^\n]+\n", result.stderr) and message in result.stderr, result.stderr
    assert sorted(template.rglob("*")) == before


@pytest.mark.parametrize("value", ["0", "9", "-1", "yes", "2.5", ""])
def test_what_a_draft_may_be(place: Path, value: str) -> None:
    """auto, off, or 1 to 8; from Python too."""
    result = CliRunner().invoke(main, [*TRANSLATE.split(), "--draft", value])
    assert result.exit_code == 2 and "is not one of auto, off, 1 to 8" in result.stderr
    with pytest.raises(ValueError, match="expected auto, off or 1 to 8"):
        EngineSpec("numba", "cpu", draft=value)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_drafts_change_nothing_but_the_passes(place: Path, engine: str) -> None:
    """Drafts do not change texts; jsonl reports between 1 and N + 1 bytes per pass if bytes were drafted."""
    on = f"--engine {engine} --device cpu"
    plain = accepted(f"{TRANSLATE} {on} --draft off")
    for draft in ("auto", "1", "8"):
        assert accepted(f"{TRANSLATE} {on} --draft {draft}") == plain
    assert accepted(f"{TRANSLATE} {on}") == plain
    for draft, most in (("off", 0), ("3", 4)):
        said = accepted(f"{TRANSLATE} {on} --draft {draft} --format jsonl --no-alignment")
        records = [json.loads(line) for line in said.splitlines()]
        assert [record["text"] for record in records] == plain.splitlines()
        message = [record.get("bytes_per_pass", 0) for record in records]
        assert all(1 <= each <= most if most else not each for each in message), message
    assert accepted(f"{TRANSLATE} {on} --sample --seed 4 --draft 5") == accepted(
        f"{TRANSLATE} {on} --sample --seed 4 --draft off"
    )


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_generate_drafts_too(place: Path, engine: str) -> None:
    on = f"--engine {engine} --device cpu"
    assert accepted(f"{GENERATE} {on} --draft 4") == accepted(f"{GENERATE} {on} --draft off")
    (place / "text" / FILE).unlink()
    assert "text has no draft.safetensors" in invoke(f"{GENERATE} {on} --draft 4").stderr


def drafts(command: str, message: str = "") -> bool:
    """Return whether bytes were drafted."""
    said = accepted(f"{command} --format jsonl --no-alignment", message)
    found = {"bytes_per_pass" in json.loads(line) for line in said.splitlines()}
    assert len(found) == 1
    return found.pop()


@pytest.mark.slow
def test_whose_table_is_taken(place: Path) -> None:
    """An ensemble uses the table of the first run that has one; a weights file that of its run folder."""
    weights = "checkpoints/update-00000070.safetensors"
    for models, there in [
        ("run", True),
        ("bare run", True),
        ("run bare", True),
        (f"run/{weights}", True),
        (f"bare run/{weights}", True),
    ]:
        assert drafts(f"translate -i in {SHORT} --draft 2 -m {models}") == there
    assert not drafts(f"translate -i in {SHORT} -m bare")
    assert not drafts(f"translate -i in {SHORT} -m run serial")
    assert not drafts(f"translate -i in {SHORT} -m run --draft off")


@pytest.mark.parametrize("option", ["-b 3", "--no-repeat-ngram-size 2"])
def test_beams_and_guards_go_the_ordinary_way(place: Path, option: str) -> None:
    """They say so once where drafts are insisted on."""
    message = f"--draft 4 has no effect: {option.replace('-b', '--beam-size').partition(' 2')[0]}"
    plain = accepted(f"{TRANSLATE} {option} --draft off")
    assert accepted(f"{TRANSLATE} {option}") == plain
    assert accepted(f"{TRANSLATE} {option} --draft 4", message) == plain
    assert not drafts(f"{TRANSLATE} {option} --draft 4", message)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["cut", "flipped", "foreign", "empty"])
def test_a_table_that_is_no_good_is_told_of_once(place: Path, fault: str) -> None:
    """One line names the table, and decoding continues without it."""
    plain = accepted(f"{TRANSLATE} --draft off")
    path = place / "run" / FILE
    whole = path.read_bytes()
    other = bytearray(whole)
    other[len(whole) // 2] ^= 1
    faults = {"cut": whole[:-9], "flipped": bytes(other), "empty": b""}
    path.write_bytes(faults.get(fault) or (place / "text" / FILE).read_bytes() if fault != "empty" else b"")
    message = f"bytenmt: warning: decoding without drafts: run/{FILE} is "
    message += "the draft table of another run" if fault == "foreign" else "damaged"
    for option in ("", "--draft 4", "--draft off"):
        assert accepted(f"{TRANSLATE} {option}", "" if "off" in option else message) == plain
    assert not drafts(f"{TRANSLATE} --draft 4", message)
    assert invoke("info run").stdout.startswith(f"# run/{FILE} is ")
    accepted(f"draft run {COUNT}", "held out")
    assert path.read_bytes() == whole and drafts(f"{TRANSLATE} --draft 4")


def test_a_run_without_a_table_is_as_ever(place: Path) -> None:
    """Its engines are made without drafts, and nothing is said of them."""
    runtime = load_runs(["bare"], EngineSpec("numba", "cpu"))
    drafting = load_runs(["run"], EngineSpec("numba", "cpu", draft=6))
    template = (
        (runtime, Options(), False, 0),
        (drafting, Options(), True, 6),
        (drafting, Options(beam=2), False, 0),
    )
    for loaded, options, speculates, most in template:
        engine: Any = loaded.engine_maker(options)(1)
        assert (engine._batch._has_drafts, engine._batch.drafts.most) == (speculates, most)
    accepted(f"translate -m bare -i in {SHORT}")
    assert "draft" not in accepted("info bare").partition("[train]")[0]
    lines = (place / "in").read_text().splitlines()
    texts = [Translator.load("run", device="cpu", draft=draft).translate(lines) for draft in ("off", 3)]
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_training_counts_at_its_end(place: Path) -> None:
    """On request, once; what convert counts of the same text later is the same, and of other text refused."""
    said = invoke(f"train -o one {TRAIN} {SMALL} --draft").stderr
    assert LINE.fullmatch(said.splitlines(keepends=True)[-1]), said
    first = (place / "one" / FILE).read_bytes()
    assert accepted("info one").startswith(f"# one/{FILE}: ") and "draft = true" in accepted("info one")
    accepted("draft one", "held out")
    assert (place / "one" / FILE).read_bytes() == first
    (place / "one" / FILE).write_bytes(b"not to be written over")
    assert "held out" not in invoke(f"train -o one {TRAIN} {SMALL} --resume").stderr
    assert (place / "one" / FILE).read_bytes() == b"not to be written over"
    assert invoke(f"train -o two {TRAIN} {SMALL}").exit_code == 0
    assert not (place / "two" / FILE).exists()
    again = f"train -o two {TRAIN.replace('--max-updates 1', '--max-updates 2')} {SMALL} --draft --resume"
    assert "held out" in invoke(again).stderr and (place / "two" / FILE).is_file()
    (place / "two" / FILE).unlink()
    assert "is finished" in invoke(again).stderr and (place / "two" / FILE).is_file()
    (place / "tgt").write_bytes((place / "tgt").read_bytes() + b"x\n")
    (place / "src").write_bytes((place / "src").read_bytes() + b"x\n")
    assert "has changed: give it by --src and --tgt" in invoke("draft two").stderr
    (place / "tgt").unlink()
    assert "tgt does not exist" in invoke("draft two").stderr


def test_a_text_is_counted_as_a_stream(place: Path) -> None:
    """The training text of a language model is recognised by its hash."""
    small = f"{SMALL.replace('model.encoder_layers=[[8,3]]', 'model.dropout=0')} --set train.window=64"
    train = f"train -o lm --arch convs2s --preset tiny --text tgt --valid-text tgt --max-updates 1 {small}"
    assert invoke(f"{train} --draft").exit_code == 0
    first = (place / "lm" / FILE).read_bytes()
    accepted("draft lm", "held out")
    assert (place / "lm" / FILE).read_bytes() == first
    accepted("draft lm --text src", "held out")
    assert (place / "lm" / FILE).read_bytes() != first
    block = bytes(Random(1).choices(b"abcdefgh", k=4096))  # as long as a piece
    (place / "steady").write_bytes(block * 20)
    accepted("draft lm --text steady", "held out")
    arrays = read_arrays(place / "lm" / FILE)[0]
    drafted = arrays["guess"][arrays["reach"][:, 0] > 0].view(np.uint8)
    assert set(drafted.tolist()) == set(b"abcdefgh"), "a stream has no EOS, and chains do not end"
    (place / "tgt").write_bytes(b"x" * (place / "tgt").stat().st_size)
    assert "tgt has changed" in invoke("draft lm").stderr


def test_pieces_of_a_line_add_their_passes() -> None:
    class Passes(MadeUpEngine):
        def _hypotheses(self, request: object) -> list[Hypothesis]:
            return [Hypothesis(b"abcd", -1.0, -0.2, 2)]

    translator = Translator(
        lambda capacity: Passes(capacity, Options(), []), settings=Settings(max_source_bytes=4)
    )
    (result,) = translator.translate_lines([b"one two six"])
    assert len(result.chunks) == 3 and result.best.passes == 6
