"""The commands as a user meets them: what they print, and one line for what can go wrong."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from click import Group, Option
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from command_line import accepted, invoke, listing, refused
from made_up_engine import warm_up

import bytenmt
from bytenmt import __version__
from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import ARCHITECTURES, build_model
from bytenmt.checkpoints.checkpoint import save_checkpoint, weights
from bytenmt.checkpoints.weights import CONFIG
from bytenmt.cli import translate as translate_module
from bytenmt.cli.console import writer
from bytenmt.cli.main import main
from bytenmt.cli.progress import Console
from bytenmt.cli.serve import _with_pair
from bytenmt.config.facts import CorpusFact, Facts
from bytenmt.config.schema import Config, config_toml, load_config, parse_config
from bytenmt.data.corpus import PairFiles
from bytenmt.distributed import SINGLE_PROCESS
from bytenmt.training import run as training
from bytenmt.training.run import Outcome

PARALLEL = ("bytenet", "convs2s", "transformer")  # without a loop over time

# So that a child in another folder finds the package under test.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(bytenmt.__file__).parent.parent)}
SMALL = ["model.d_hidden=12", "model.d_embedding=8"]
SHORT = "--max-len-b 5 --max-len-a 0.1"
COMMANDS = main.every()


def make_run(
    folder: Path,
    arch: str = "luong",
    settings: tuple[str, ...] = (),
    seed: int = 0,
    facts: Facts | None = None,
) -> Path:
    """A run folder as training leaves it, of random weights."""
    folder.mkdir()
    small = SMALL if arch not in PARALLEL else ["model.d_embedding=8"]
    config = load_config(arch, "tiny", "", [*small, *settings])
    torch.manual_seed(seed)
    model = build_model(config.model)
    (folder / CONFIG).write_text(config_toml(config), encoding="utf-8")
    save_checkpoint(folder, 70, weights(model), {}, config, facts or Facts(), best=True)
    return folder


WEIGHTS = Path("best.safetensors")


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    warm_up(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, one without a source, and texts good and bad."""
    tmp_path = tmp_path_factory.mktemp("made")
    make_run(tmp_path / "run")
    make_run(tmp_path / "no_source", settings=("model.source=false",))
    make_run(tmp_path / "plain", "seq2seq")
    files = {
        "src": "one\n두 번째\n\nfour\n".encode(),
        "tgt": b"eins\nzwei\ndrei\n\n",
        "three": b"a\nb\nc\n",
        "empty": b"",
        "table": b"one\teins\nno tab\n",
        "invalid": b"fine\nbad \xff\nfine\nfine\n",
        "cp949": "하나\n둘\n셋\n넷\n".encode("cp949"),
        "wrong.toml": b"[model\n",
        "unknown.toml": b"[train]\nlearning_rate = 1\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for name in "ab":
        (tmp_path / "folder" / name).mkdir(parents=True)
        (tmp_path / "folder" / name / CONFIG).write_bytes(b"")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(files["src"]))
    (tmp_path / "nothing.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "invalid.gz").write_bytes(gzip.compress(files["invalid"]))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(files["src"])[:-12])
    return tmp_path


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them to work in."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


EVALUATE = "evaluate -m run"
SCORE = "evaluate -m run --log-probabilities"
TRANSLATE = "translate -m run"
# One update: where a fault lets the command through, the test fails soon.
TRAIN = "train -o new --arch luong --tgt tgt --valid-tgt tgt --set train.max_updates=1"
TEXT = "train -o new --arch luong --text tgt --valid-text tgt --set train.max_updates=1"
RESUME = "train -o run --resume --src src --valid-src src --tgt tgt --valid-tgt tgt"
PAIRS = "train -o new --src src --tgt tgt --valid-src src --valid-tgt tgt"
BAD: list[tuple[str, str]] = [
    (f"{EVALUATE} --src three --ref tgt", "three has 3 lines and tgt has 4"),
    (f"{SCORE} --src three --ref tgt", "three has 3 lines and tgt has 4"),
    (f"{EVALUATE} --src none --ref tgt", "none does not exist"),
    (f"{EVALUATE} --src empty --ref empty", "empty is empty"),
    (f"{SCORE} --src src --ref run", "run is a directory"),
    (f"{SCORE} --src invalid --ref tgt --errors strict", "invalid, line 2, byte offset 4: 0xFF"),
    (f"{EVALUATE} --ref tgt", "is a translation model: give the source text by --src"),
    ("evaluate -m no_source --ref tgt", "is a language model: evaluate it with `bytenmt predict`"),
    (f"{EVALUATE} --src src --ref tgt --hyp-out tgt", "tgt is the input too"),
    (f"{TRANSLATE} -i none", "none does not exist"),
    (f"{TRANSLATE} -i empty", "empty is empty"),
    (f"{TRANSLATE} -i cut.gz", "cut.gz cannot be read: Compressed file ended"),
    (
        f"{TRANSLATE} -i cp949",
        "cp949 is not UTF-8 (4 of 4 lines): convert it, for example by `iconv -f CP949",
    ),
    (f"{EVALUATE} --src cp949 --ref tgt", "cp949 is not UTF-8 (4 of 4 lines)"),
    ("train -o new --arch luong --src cp949 --tgt tgt --valid-src src --valid-tgt tgt", "cp949 is not UTF-8"),
    (f"{TRANSLATE} -i nothing.gz", "nothing.gz is empty"),
    (f"{TRANSLATE} -i none.gz", "none.gz does not exist"),
    (f"{TRANSLATE} -i invalid.gz --errors strict -o out", "invalid.gz, line 2, byte offset 4: 0xFF"),
    (f"{TRANSLATE} -i packed.gz -o packed.gz", "packed.gz is the input too"),
    (f"{TRANSLATE} -i invalid --errors strict -o out", "invalid, line 2, byte offset 4: 0xFF"),
    (f"{TRANSLATE} -i src -o src", "src is the input too"),
    (f"{TRANSLATE} -i src -o ./run/../src", "src is the input too"),
    (f"{TRANSLATE} -i src -o run", "run is a directory"),
    (f"{TRANSLATE} -i src -o src/out", "the folder src cannot be created (File exists)"),
    (f"{TRANSLATE} -i src --n-best 2", "--n-best 2 of --beam-size 1: give --beam-size 2"),
    (f"{TRANSLATE} -i src --n-best 5 -b 4", "--n-best 5 of --beam-size 4: give --beam-size 5"),
    ("translate -m plain -i src --alignment --format jsonl", "--alignment needs a model with attention"),
    (f"{TRANSLATE} -i src --stream --format jsonl", "--stream prints the plain text of a greedy search"),
    (f"{TRANSLATE} -i src --stream -b 2", "--stream prints the plain text of a greedy search"),
    (f"{TRANSLATE} -i src --engine numba --device cuda", "--engine numba runs on the CPU"),
    (f"{TRANSLATE} -i src --engine cuda-graph --device cpu", "--engine cuda-graph runs on a GPU"),
    (f"{TRANSLATE} -i src --engine torch --precision int8", "--engine torch has no int8"),
    (f"{EVALUATE} --src src --ref tgt --engine numba --device cuda", "--engine numba runs on the CPU"),
    ("translate -m run -m no_source -i src", "run is a translation model and no_source is a language model"),
    ("translate -m no_source run -i src", "no_source is a language model and run is a translation model"),
    ("translate -m run none -i src", "none does not exist"),
    ("evaluate -m run no_source --src src --ref tgt", "no_source is a language model"),
    ("translate -m no_source -i src", "is a language model and cannot translate"),
    ("translate -m none -i src", "none does not exist: give a run folder"),
    ("translate -m src -i src", "src holds no weights: give a run folder"),
    (f"{TRAIN} --src src", "no validation text: give --valid-src and --valid-tgt"),
    (f"{TRAIN} --valid-src src", "0 --src and 1 --tgt"),
    (f"{TRAIN} --text tgt", "--text trains a language model"),
    ("train -o new --arch luong --text tgt --valid-tgt tgt", "no validation text: give --valid-text"),
    ("train -o new --arch luong --text tgt --valid-text tgt", "tgt has 16 bytes, less than one window"),
    ("train -o new --arch luong --text . --valid-text tgt", ". is a directory"),
    (f"{TEXT} --set model.source=true", "model.source is true, but the text has no source"),
    (f"{TRAIN} --src src --valid-text tgt", "no validation text: give --valid-src and --valid-tgt"),
    (f"{TRAIN} --src src --src src --valid-src src", "2 --src and 1 --tgt"),
    (f"{TRAIN} --tgt tgt --src src --src none --valid-src src", "none does not exist"),
    (f"{TRAIN} --src src --valid-src src --tsv table", "table, line 2 has no tab"),
    (f"{TRAIN} --src src --valid-src src --weight 1 --weight 2", "2 --weight for 1 corpora"),
    (f"{TRAIN} --src src --valid-src src --tsv table --weight 1", "1 --weight for 2 corpora"),
    ("train -o new --arch luong --valid-tgt tgt", "no training text"),
    ("train -o new --arch luong --tgt tgt --src src", "no validation text"),
    (f"{TRAIN} --src src --valid-src src --set train.metric=chrf --set train.valid_lines=0", "chrf needs"),
    (f"{TRAIN} --src three --valid-src src", "three has 3 lines and tgt has 4"),
    (f"{TRAIN} --src none --valid-src src", "none does not exist"),
    (f"{TRAIN} --src invalid --valid-src src --errors strict", "line 2, byte offset 4: 0xFF"),
    (f"{PAIRS} --arch bytenet --set model.source=false", "model.source is false, but the text has a source"),
    (f"{TEXT} --set train.learning_rate=1", "learning_rate"),
    (f"{TEXT} --set lr=1", "unknown key lr: did you mean train.lr?"),
    (f"{TEXT} --set model.scor=dot", "unknown key model.scor: did you mean model.score?"),
    (f"{TEXT} --set train.optimizer=adam", "'adam' is none of adamw, muon, nag, sgd, adadelta"),
    (f"{TEXT} --set model.score=dots", "'dots' is none of dot, general, concat"),
    (f"{TEXT} --set train.lr=fast", "train.lr"),
    (f"{TEXT} --config unknown.toml", "learning_rate"),
    (f"{TEXT} --config wrong.toml", "wrong.toml is not TOML"),
    (f"{TEXT} --config invalid", "invalid is not TOML"),
    (f"{TEXT} --config none", "--config none cannot be read"),
    ("train -o new --arch lstm --text tgt --valid-text tgt", "unknown architecture 'lstm'"),
    ("train -o new --text tgt --valid-text tgt", "no architecture: give --arch"),
    ("train -o run --arch luong --text tgt --valid-text tgt", "run already holds a run"),
    ("train -o src --arch luong --text tgt --valid-text tgt", "cannot write into src: File exists"),
    ("train -o new --resume --text tgt --valid-text tgt", "no architecture: give --arch"),
    ("convert none -o new.safetensors", "none does not exist"),
    ("convert run -o new", "give a name that ends in .safetensors"),
    ("convert run -o src/new.safetensors --precision int8", "the folder src cannot be created"),
    (f"convert run/{WEIGHTS} -o run/{WEIGHTS} --precision int8", "is an input too"),
    ("convert run -o run/last.safetensors --precision int8", "is an input too"),
    ("convert run -o new.safetensors --valid-src src", "--valid-src and --valid-tgt: give both, or neither"),
    ("translate folder -i src", "folder holds no weights: give a run folder"),
    ("info none.safetensors", "none.safetensors is missing"),
    (f"info run/{WEIGHTS} --preset tiny", "--preset would be ignored"),
    ("info run --set model.source=false", "--set would be ignored"),
    ("info none", "neither a run folder nor an architecture"),
    ("info run --preset tiny", "--preset would be ignored"),
    ("train -o run --resume --text tgt --valid-text tgt", "model.source"),
    (RESUME.replace("-o run", "-o no_source"), "has a source"),
    (f"{RESUME} --arch seq2seq", "model.arch"),
    (f"{RESUME} --set model.d_hidden=13", "model.d_hidden is 13, but run was trained with 12"),
    (f"{RESUME} --set train.lr=1.0", "train.lr"),
    (f"{RESUME} --set train.precision=bf16", "train.precision"),
    (f"{RESUME} --config unknown.toml", "learning_rate"),
]


@pytest.mark.slow
def test_repaired_lines_are_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and standard input alike; a stream in another encoding ends with an error."""
    assert "warning: invalid: 1 of 4 lines are not UTF-8" in invoke(f"{TRANSLATE} -i invalid").stderr
    for name, code, message in (
        ("invalid", 0, "warning: standard input: 1 of 4 lines are not UTF-8"),
        (
            "cp949",
            1,
            "standard input is not UTF-8 (4 of 4 lines): convert it, for example by `iconv -f CP949",
        ),
    ):
        monkeypatch.setattr(translate_module, "standard_input", partial(BytesIO, Path(name).read_bytes()))
        monkeypatch.setattr(translate_module, "standard_input_size", lambda: None)
        piped = invoke(TRANSLATE)
        assert message in piped.stderr and piped.exit_code == code


@pytest.mark.slow
@pytest.mark.parametrize(("command", "message"), BAD)
def test_bad_input_is_one_line(place: Path, command: str, message: str) -> None:
    """Exit code 1, nothing on stdout, nothing written."""
    assert message in refused(command)


@pytest.mark.parametrize("command", [f"{TRANSLATE} -i src", f"{SCORE} --src src --ref tgt"])
def test_bad_checkpoints_are_one_line(place: Path, command: str) -> None:
    best = place / "run" / WEIGHTS
    whole = best.read_bytes()
    best.write_bytes(whole[:-100])
    assert "damaged" in refused(command)
    for path in (place / "run").glob("*.safetensors"):
        path.unlink()
    assert "holds no weights" in refused(command)


def test_a_checkpoint_file_is_a_model_too(place: Path) -> None:
    """A weights file of a run translates like the run."""
    whole = accepted(f"{TRANSLATE} -i src {SHORT}")
    assert accepted(f"translate run/{WEIGHTS} -i src {SHORT}") == whole


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    "command",
    [
        f"{TRANSLATE} -i src",
        f"{EVALUATE} --src src --ref tgt",
        f"{SCORE} --src src --ref tgt",
        TRAIN,
    ],
)
def test_a_gpu_that_is_not_there(place: Path, command: str) -> None:
    assert "no GPU is available" in refused(f"{command} --device cuda")


def test_a_folder_as_model_hubs_have_it_is_a_model_too(place: Path) -> None:
    """Weights under the name that they know."""
    (place / "hub").mkdir()
    accepted("convert run -o hub/model.safetensors")
    there = accepted(f"translate -m hub/model.safetensors {SHORT} -i src")
    assert accepted(f"translate -m hub {SHORT} -i src") == there
    assert "int8" in accepted("info hub")


def test_translate_reads_and_writes_files(place: Path) -> None:
    """A line for each; the same from a packed file, through aliases and on stdout."""
    assert accepted(f"{TRANSLATE} {SHORT} -i src -o out") == ""
    out = (place / "out").read_bytes()
    assert out.count(b"\n") == 4 and out.split(b"\n")[2] == b""
    accepted(f"translate --model run --input packed.gz --output packed --beam 1 {SHORT}")
    assert (place / "packed").read_bytes() == out
    assert accepted(f"{TRANSLATE} {SHORT} -i src -o -").encode() == out
    accepted(f"{TRANSLATE} {SHORT} -i src -o out -b 3 --lenpen 0.6 --threads 1")
    assert (place / "out").read_bytes().count(b"\n") == 4
    assert not list(place.glob(".*.tmp"))


def test_an_output_file_is_whole_or_not_there(tmp_path: Path) -> None:
    """A failure leaves an older file as it was; a link stays a link."""
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to("old")
    for name in ("old", "new"):
        with pytest.raises(KeyboardInterrupt), writer(tmp_path / name) as file:
            file.write(b"half")
            raise KeyboardInterrupt
    assert listing(tmp_path) == {str(tmp_path / "old"): b"old", str(tmp_path / "link"): b"old"}
    with writer(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "old").read_bytes() == b"new" and (tmp_path / "link").is_symlink()


def test_evaluate_prints_its_scores(place: Path) -> None:
    """Scores are printed in the form that scripts read; translations are written on request."""
    command = f"{EVALUATE} --src src --ref tgt --hyp-out hyp --tokenize char {SHORT} --precision fp32"
    said = accepted(command).splitlines()
    patterns = [
        r"chrF \d+\.\d\d  \S*\|version:\S+",
        r"BLEU \d+\.\d\d  \S*tok:char\S*",
        r"exact match: \d+\.\d %",
        r"bits per byte: \d+\.\d{4}",
        rf"bytenmt {__version__}, configuration [0-9a-f]{{8}}, update 70, engine \S+ fp32"
        r"(, commit [0-9a-f]+\S*)?",
    ]
    for pattern, text in zip(patterns, said, strict=True):
        assert re.fullmatch(pattern, text), text
    hypotheses = (place / "hyp").read_bytes()
    assert hypotheses == accepted(f"{TRANSLATE} {SHORT} -i src").encode()
    (place / "hyp").rename("ref")
    again = accepted(f"{EVALUATE} --src src --ref ref {SHORT}")
    assert "exact match: 100.0 %" in again and "chrF 100.00" in again


def test_a_line_longer_than_trained_on_is_cut(place: Path) -> None:
    """Unless told otherwise."""
    make_run(place / "brief", settings=("data.max_source_bytes=6",))
    warning = invoke(f"translate -m brief -i src {SHORT}").stderr
    assert "src, line 2 has 10 bytes, over the 6 of --max-source-bytes" in warning
    assert not invoke(f"translate -m brief -i src {SHORT} --max-source-bytes 10").stderr


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_info_is_a_configuration(arch: str) -> None:
    """Facts, then TOML that parses to the preset; quick for the largest too."""
    said = accepted(f"info {arch} --preset paper")
    assert parse_config(tomllib.loads(said)) == load_config(arch, "paper", "", [])
    names = ["parameters", "decoder weights", "receptive field", "a decode step", "decoder state"]
    assert all(re.search(rf"^# {name}: +\w", said, re.MULTILINE) for name in names)
    settings = ["model.source=false", "train.lr=0.5"]
    said = accepted(" ".join([f"info {arch} --preset tiny", *(f"--set {one}" for one in settings)]))
    assert parse_config(tomllib.loads(said)) == load_config(arch, "tiny", "", settings)


def test_info_of_a_run(place: Path) -> None:
    said = accepted("info run")
    assert parse_config(tomllib.loads(said)) == load_config("luong", "tiny", "", SMALL)
    model = build_model(load_config("luong", "tiny", "", SMALL).model)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    assert re.search(rf"^# parameters: +{n_parameters:,}$", said, re.MULTILINE)


class Call:
    """Stands in for training.train and keeps what it was called with."""

    def __call__(self, run: Path, config: Config, **rest: Any) -> Outcome:
        self.run, self.config, self.rest = run, config, rest
        return Outcome(0, 0)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, place: Path) -> Call:
    call = Call()
    monkeypatch.setattr(training, "train", call)
    return call


def test_train_hands_over(call: Call) -> None:
    accepted(f"{TRAIN} --src src --valid-src src --errors strict --device cpu --threads 3")
    assert call.run == Path("new")
    assert type(call.rest.pop("reporter")) is Console and callable(call.rest.pop("watch"))
    assert call.rest == {
        "files": [PairFiles(Path("src"), Path("tgt"))],
        "valid": PairFiles(Path("src"), Path("tgt")),
        "device": torch.device("cpu"),
        "errors": "strict",
        "resume": False,
        "init_from": None,
        "tensorboard": False,
        "group": SINGLE_PROCESS,
        "threads": 3,
    }


def test_train_takes_several_corpora(call: Call) -> None:
    weights = "--weight 1 --weight 0.5 --weight 3"
    accepted(f"{TRAIN} --src src --tgt three --src src --tsv table {weights} --valid-src src")
    assert call.rest["files"] == [
        PairFiles(Path("src"), Path("tgt"), weight=1.0),
        PairFiles(Path("src"), Path("three"), weight=0.5),
        PairFiles(tsv=Path("table"), weight=3.0),
    ]
    accepted(TEXT)
    assert call.rest["files"] == [call.rest["valid"]] == [PairFiles(None, Path("tgt"))]


SHORT_NAMES = (
    "--lr 0.5 --max-tokens 70 --update-freq 2 --max-updates 9 --patience 4 --seed 8 --max-minutes 2.5"
    " --valid-every 90s --save-every 700"
)
NAMED = re.sub(r"--(\S+) (\S+)", lambda match: f"train.{match[1].replace('-', '_')}={match[2]}", SHORT_NAMES)
NO_SOURCE = "train.max_updates=1 model.source=false"
CONFIGURATIONS = [  # commands, and the architecture, the preset and the settings of their configuration
    (
        f"{TRAIN} --src src --valid-src src --preset tiny --set train.lr=5e-4 --max-minutes 3",
        "luong",
        "tiny",
        "train.max_updates=1 train.lr=5e-4 train.max_minutes=3.0",
    ),
    (f"{TEXT} {SHORT_NAMES}", "luong", None, f"{NAMED} model.source=false"),
    (TEXT, "luong", None, NO_SOURCE),
    (f"{PAIRS} --config info.toml", "bytenet", "tiny", ""),
    (RESUME, "luong", "tiny", ""),
    (f"{RESUME} --arch luong", "luong", "tiny", ""),
    (f"{RESUME} --set train.lr=8e-3", "luong", "tiny", ""),
    (f"{RESUME} --config run/config.toml", "luong", "tiny", ""),
    (
        f"{RESUME} --max-minutes 7 --set train.max_updates=90",
        "luong",
        "tiny",
        "train.max_minutes=7.0 train.max_updates=90",
    ),
    (f"{RESUME} --set train.precision=auto", "luong", "tiny", ""),
    (f"{TEXT.replace('new', 'unsaved')} --preset tiny", "luong", "tiny", NO_SOURCE),
]


@pytest.mark.parametrize(("command", "arch", "preset", "settings"), CONFIGURATIONS)
def test_train_has_a_configuration(
    call: Call, place: Path, command: str, arch: str, preset: str | None, settings: str
) -> None:
    """Short names are settings; what `info` prints is a configuration; a resumed run has its own, and options
    may agree or raise its limits; a run without a checkpoint is none."""
    (place / "info.toml").write_text(accepted("info bytenet --preset tiny"))
    (place / "unsaved").mkdir()
    (place / "unsaved" / CONFIG).write_text(config_toml(load_config("luong", "base", "", [])))
    accepted(command)
    own = SMALL if "--resume" in command else []
    assert call.config == load_config(arch, preset, "", [*own, *settings.split()])
    assert call.rest["resume"] is ("--resume" in command)


def test_version() -> None:
    assert accepted("--version").strip() == f"bytenmt, version {__version__}"


@pytest.mark.slow
def test_help_imports_nothing_heavy() -> None:
    """The help of the program and of every command imports no heavy module."""
    code = (
        "import sys; from bytenmt.cli.main import main\n"
        f"for command in ([], *([name] for name in {[*COMMANDS]})):\n"
        "    main([*command, '--help'], standalone_mode=False)\n"
        "print('heavy:', {'torch', 'numba', 'numpy', 'sacrebleu'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert "heavy: set()" in run.stdout
    assert run.stdout.count("Usage:") == 1 + len(COMMANDS)
    for name in (
        "--init-from",
        "--lenpen",
        "--hyp-out",
        "--max-source-bytes",
        "MODEL|ARCH",
        "--top-p",
    ):
        assert name in run.stdout


def test_every_command_fits_a_line_of_the_list() -> None:
    """Its name and what it does, whole, in eighty columns."""
    _, _, listed = CliRunner().invoke(main, ["--help"], terminal_width=80).output.partition("Commands:\n")
    lines = listed.partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == sorted(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("..") and len(line) <= 80 for line in lines)


def test_every_help_text_stands_by_itself() -> None:
    """Each is a sentence that does not refer to the option listed before it."""
    for name, command in main.every().items():
        for option in command.params:
            help = getattr(option, "help", None)
            if isinstance(option, Option) and not option.hidden:
                assert help and help[0].isupper() | help.startswith("text:") and help[-1] in ".;", (
                    name,
                    help,
                )
                assert not re.match(r"(Of|The same|As|Its|Their|Those|What|Both|Go on)\b", help), (name, help)


@pytest.mark.parametrize("name", ["train", "translate", "serve"])
def test_help_lists_options_of_long_commands_under_headings(name: str) -> None:
    """All options stand under one of them, the common ones last."""
    help = accepted(f"{name} --help")
    headings = re.findall(r"^([A-Z].*):$", help, flags=re.MULTILINE)
    assert len(headings) >= 5 and headings[-1] == "General options"
    assert (
        sum(
            len(re.findall(rf"^  {flag}", help, flags=re.MULTILINE)) for flag in ("-q, --quiet", "-h, --help")
        )
        == 2
    )


@pytest.mark.parametrize(
    ("words", "begun", "completed"),
    [
        (["train", "--arch"], "b", ["bahdanau", "bytenet"]),
        (["train", "--preset"], "", list(PRESETS)),
        (["info"], "conv", ["convs2s", "conv"]),  # or a file's name, which the shell completes
        (["info", "luong", "--preset"], "b", ["base"]),
        (["translate"], "runs/", ["runs/"]),
    ],
)
def test_the_shell_completes(words: list[str], begun: str, completed: list[str]) -> None:
    found = ShellComplete(main, {}, "bytenmt", "_BYTENMT_COMPLETE").get_completions(words, begun)
    assert [item.value for item in found] == completed
    assert "_BYTENMT_COMPLETE=bash_source" in accepted("--help")


def test_the_model_is_the_first_argument(place: Path) -> None:
    """Or -m MODEL; both texts of a pair have either name; no model, or too many, is a usage error."""
    make_run(place / "text", settings=("model.source=false", "model.input_feeding=false"))
    convert = "-o a.safetensors --valid-src src --valid-tgt tgt"
    for words, rest in (
        ("translate run", f"-i src {SHORT}"),
        ("predict run", "tgt --src src --no-reference"),
        ("predict text", "tgt --no-reference"),
        ("generate text", "--bytes 3"),
        ("evaluate run", f"--src src --tgt tgt {SHORT}"),
    ):
        command, model = words.split()
        assert accepted(f"{words} {rest}") == accepted(f"{command} -m {model} {rest}")
    assert accepted(f"evaluate run --src src --tgt tgt {SHORT}") == accepted(
        f"{EVALUATE} --src src --ref tgt {SHORT}"
    )
    for command, message in (
        ("translate", "0 models: expected MODEL..."),
        ("generate text text", "2 models: expected MODEL"),
        ("generate -m text text", "2 models: expected MODEL"),
        ("predict", "0 models: expected MODEL [FILE]"),
        ("predict text tgt src", "2 files after the model: expected MODEL [FILE]"),
        ("adapt run -o new", "0 files after the model: expected MODEL MEMORY..."),
        ("translate-file run src", "1 files after the model: expected MODEL IN OUT"),
        (f"convert run run {convert}", "2 models: expected MODEL"),
    ):
        found = invoke(command)
        assert found.exit_code == 2 and found.stderr.splitlines()[-1] == f"Error: {message}"


def test_quiet_and_verbose(place: Path) -> None:
    """Before the command's name or behind it: notes and warnings are left out, errors never; or what was
    chosen is told beside them."""
    pieces = f"{TRANSLATE} -i src {SHORT} --max-source-bytes 6"
    usual = invoke(pieces)
    assert "translated in" in usual.stderr
    for command in (f"{pieces} -q", f"-q {pieces}"):
        message = invoke(command)
        assert (message.stderr, message.stdout) == ("", usual.stdout)
    assert refused("translate none -i src -q") == refused("translate none -i src")
    for command in (f"{pieces} -v", f"--verbose {pieces} --threads 1"):
        message = invoke(command)
        assert message.stdout == usual.stdout
        first, second, *rest = message.stderr.splitlines()
        assert first == f"bytenmt: run/{WEIGHTS}: luong, update 70, stored in fp32"
        form = r"bytenmt: engine \S+ on cpu, fp32, \d threads; loaded in \d+\.\d\d s"
        assert re.fullmatch(form, second) and "\n".join([*rest, ""]) == usual.stderr
    assert invoke(f"{pieces} -q -v").exit_code == 2
    for command in COMMANDS.values():
        for one in command.commands.values() if isinstance(command, Group) else [command]:
            assert {"-q", "-v"} <= {option for parameter in one.params for option in parameter.opts}


def test_directions_that_differ_are_told(place: Path) -> None:
    """A warning is printed if one run was trained to write the files that another one reads; serve knows the
    direction by their names."""
    for name, (src, tgt) in {"there": ("ko", "en"), "back": ("en", "ko"), "again": ("ko", "en2")}.items():
        make_run(place / name, facts=Facts(corpora=(CorpusFact(f"/t/{src}", f"/t/{tgt}"),)))
    message = invoke(f"translate there back -i src {SHORT}")
    assert message.exit_code == 0 and re.fullmatch(
        r"bytenmt: warning: there/\S+ and back/\S+ translate in different directions, [^\n]+\n",
        message.stderr,
    )
    assert not invoke(f"translate there again run -i src {SHORT}").stderr
    make_run(place / "named", facts=Facts(corpora=(CorpusFact("train.ko", "train.de.gz"),)))
    assert [_with_pair(name) for name in ("named", "a-b=c")] == ["ko:de=named", "a-b=c"]


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--prefix", "a\nb"], 1, "the prefix contains a line break"),
        (["--prefix", "a\r"], 1, "the prefix contains a line break"),
        (["--prefix", "a\udcff"], 2, "'--prefix': 'a\\udcff' is not UTF-8"),
        (["--keep-pattern", "\udced\udca0\udc80"], 2, "is not UTF-8"),
        (["--preset", "tiny"], 2, "No such option"),
        (["--format", "xml"], 2, "'xml' is not one of"),
    ],
)
def test_wrong_values_of_options(place: Path, more: list[str], code: int, message: str) -> None:
    result = CliRunner().invoke(main, [*TRANSLATE.split(), "-i", "src", *more])
    assert result.exit_code == code and message in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("option", ["--temperature 0.5", "--top-k 5", "--top-p 0.5", "--seed 1"])
def test_an_option_without_effect_is_a_warning(place: Path, option: str) -> None:
    result = invoke(f"{TRANSLATE} -i src {option} {SHORT}")
    assert result.stderr == f"bytenmt: warning: {option.split()[0]} has no effect without --sample\n"
    assert result.stdout == accepted(f"{TRANSLATE} -i src {SHORT}")


@pytest.mark.slow
def test_several_runs_vote(place: Path) -> None:
    """`-m A B` is `-m A -m B`; their order is of no weight, and each alone says something else."""
    make_run(place / "other", "bytenet", settings=("model.d_channels=8",), seed=3)
    both = accepted(f"translate -m run other -i src {SHORT}")
    assert both == accepted(f"translate -m other -m run -i src {SHORT}")
    assert both == accepted(f"translate -m other -m run -i src {SHORT} --engine torch --device cpu")
    alone = accepted(f"translate -m other -i src {SHORT}")
    assert alone == accepted(f"translate -m other other -i src {SHORT}") != both


def test_draws_are_repeated_by_their_seed(place: Path) -> None:
    """And are others with another; the number of a line, not its buffer, tells what is drawn."""
    command = f"{TRANSLATE} {SHORT} -i same --sample --temperature 1.5"
    (place / "same").write_bytes(b"one\n" * 20)
    first = accepted(f"{command} --seed 1")
    assert first == accepted(f"{command} --seed 1 --buffer-size 3 --max-tokens 5")
    assert len(set(first.split("\n"))) > 10
    assert first != accepted(f"{command} --seed 2")
    assert set(accepted(f"{command} --top-k 1").split("\n")[:-1]) == set(
        accepted(f"{TRANSLATE} {SHORT} -i same").split("\n")[:-1]
    )


def test_what_is_shown_while_decoded_is_the_same(place: Path) -> None:
    assert accepted(f"{TRANSLATE} {SHORT} -i src --stream") == accepted(f"{TRANSLATE} {SHORT} -i src")


WITHOUT_PYTORCH = (
    f"{TRANSLATE} --device cpu -i src",
    f"{TRANSLATE} no_need --device cpu -i src -b 2 --n-best 2 --format jsonl --no-alignment",
    f"{TRANSLATE} --engine numba -i src --sample --stream",
    f"{TRANSLATE} --device cpu -i src -b 2 --format jsonl",
    "evaluate run --src src --ref tgt --log-probabilities --device cpu",
    "info luong --properties",
    "convert run -o new.safetensors --precision int8",
)


@pytest.mark.slow
def test_commands_that_need_no_pytorch_do_not_import_it(place: Path) -> None:
    """Nor what only training needs. One process runs them in turn and names those after which it is there."""
    make_run(place / "no_need", "convs2s", settings=("model.decoder_layers=[[8,3]]",))
    code = (
        "import sys; from bytenmt.cli.main import main\n"
        f"for line in {WITHOUT_PYTORCH!r}:\n"
        "    main(line.split(), standalone_mode=False)\n"
        "    heavy = {'torch', 'sacrebleu', 'bytenmt.distributed'} & set(sys.modules)\n"
        "    print('heavy:', heavy, 'after', line)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT)
    assert run.returncode == 0, run.stderr
    heavy = [line for line in run.stdout.splitlines() if line.startswith("heavy: ")]
    assert heavy == [f"heavy: set() after {line}" for line in WITHOUT_PYTORCH]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("torch", "train -o new --arch luong --preset tiny --src src --tgt tgt"),
        ("torch", "translate run --engine torch -i src"),
        ("sacrebleu", "evaluate run --src src --ref tgt"),
    ],
)
def test_a_missing_package_is_one_line(place: Path, missing: str, command: str) -> None:
    """The line names what to install, for example in an installation without PyTorch."""
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        f"from bytenmt.cli.main import main\nmain({command.split()!r})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"bytenmt: this needs {missing}: pip install 'bytenmt[train]'\n"


@pytest.mark.slow
def test_closed_standard_streams_are_told_of(place: Path) -> None:
    """`<&-` and `>&-`."""
    program = f"{sys.executable} -m bytenmt {TRANSLATE}"
    for command in (f"{program} <&-", f"{program} -i src >&-"):
        run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=ENVIRONMENT)
        assert run.returncode == 1 and run.stderr.count("\n") == 1
        assert "is closed: name" in run.stderr
