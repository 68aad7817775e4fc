"""The commands as a user meets them: what they print, and one line for what can go wrong."""

import re
import signal
import subprocess
import sys
import tomllib
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from command_line import (
    EVALUATE,
    RESUME,
    TEXT,
    TRAIN,
    TRANSLATE,
    accepted,
    invoke,
    listing,
    refused,
)
from made_up_engine import make_run

from bytenmt import __version__
from bytenmt.architectures.registry import ARCHITECTURES, build_model
from bytenmt.checkpoints.facts import Facts
from bytenmt.checkpoints.weights import BEST, CONFIG
from bytenmt.cli import translate as translate_module
from bytenmt.cli.console import Console
from bytenmt.cli.files import writer
from bytenmt.cli.main import main
from bytenmt.config.metrics import bleu_scorer
from bytenmt.config.schema import Config, config_toml, load_config, parse_config
from bytenmt.data.pair_files import PairFiles
from bytenmt.distributed import SINGLE_PROCESS
from bytenmt.span_classes import PATTERNS_VERSION
from bytenmt.training import run as training

SMALL = ["model.d_hidden=12", "model.d_embedding=8"]
SHORT = "--max-len-b 5 --max-len-a 0.1"
COMMANDS = main.every()
PAIRS = "train -o new --src src --tgt tgt --valid-src src --valid-tgt tgt"


@pytest.mark.slow
def test_repaired_lines_are_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = invoke(f"{TRANSLATE} -i invalid").stderr
    assert "warning: invalid: 1 of 4 lines are not UTF-8" in told
    for name, code, message in (
        ("invalid", 0, "warning: standard input: 1 of 4 lines are not UTF-8"),
        ("cp949", 1, "standard input is not UTF-8 (4 of 4 lines): convert it by `iconv -f ENC"),
    ):
        text = partial(BytesIO, Path(name).read_bytes())
        monkeypatch.setattr(translate_module, "standard_input", text)
        piped = invoke(TRANSLATE)
        assert message in piped.stderr and piped.exit_code == code


def test_a_folder_as_model_hubs_have_it_is_a_model_too(place: Path) -> None:
    (place / "hub").mkdir()
    accepted("convert run -o hub/model.safetensors")
    there = accepted(f"translate -m hub/model.safetensors {SHORT} -i src")
    assert accepted(f"translate -m hub {SHORT} -i src") == there
    size = (place / "hub/model.safetensors").stat().st_size
    assert f"# weights file:    {size:,} bytes, matrices in int8\n" in accepted("info hub")


OF_SRC = f"-i src {SHORT}"
SAMPLE = f"{TRANSLATE} {OF_SRC} --sample --seed 1"
SAME = [  # commands with the same output
    (f"{TRANSLATE} {OF_SRC}", f"translate run/{BEST} {OF_SRC}"),
    (f"{TRANSLATE} {OF_SRC}", f"translate run -o - {OF_SRC}"),
    (f"{TRANSLATE} {OF_SRC}", f"translate --model run --input packed.gz --beam 1 {SHORT}"),
    (f"translate run bytenet {OF_SRC}", f"translate -m bytenet -m run {OF_SRC}"),
    (f"translate run bytenet {OF_SRC}", f"translate bytenet run {OF_SRC} --engine torch"),
    (f"translate bytenet {OF_SRC}", f"translate bytenet bytenet {OF_SRC}"),
    (SAMPLE, f"{SAMPLE} --buffer-size 1 --max-tokens 5"),
    ("predict no_source tgt --no-reference", "predict -m no_source tgt --no-reference"),
    ("generate no_source --bytes 3", "generate -m no_source --bytes 3"),
    (f"evaluate run --src src --tgt tgt {SHORT}", f"evaluate -m run --src src --ref tgt {SHORT}"),
]


@pytest.mark.slow
@pytest.mark.usefixtures("shared_place")
@pytest.mark.parametrize(("command", "other"), SAME)
def test_two_ways_to_say_it(command: str, other: str) -> None:
    """Files of a run, packed files, standard streams, aliases; models come in any order."""
    assert accepted(command) == accepted(other) != ""


def test_an_output_file_is_whole_or_not_there(tmp_path: Path) -> None:
    """A failure leaves an older file as it was; a link stays a link."""
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to("old")
    for name in ("old", "new"):
        with pytest.raises(KeyboardInterrupt), writer(tmp_path / name) as file:
            file.write(b"half")
            raise KeyboardInterrupt
    assert listing(tmp_path) == {tmp_path / "old": b"old", tmp_path / "link": b"old"}
    with writer(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "old").read_bytes() == b"new" and (tmp_path / "link").is_symlink()


def test_evaluate_prints_its_scores(place: Path) -> None:
    """Scores are printed in the form that scripts read, and are those of `translate`'s output."""
    command = f"{EVALUATE} --src src --ref tgt --tokenize char {SHORT} --precision fp32"
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
    (place / "ref").write_bytes(accepted(f"{TRANSLATE} {SHORT} -i src").encode())
    again = accepted(f"{EVALUATE} --src src --ref ref {SHORT}")
    assert "exact match: 100.0 %" in again and "chrF 100.00" in again


def test_a_pattern_of_ones_own_and_none_of_the_classes(place: Path) -> None:
    """The guide to constraints runs the other options of spans."""
    facts = Facts(patterns=PATTERNS_VERSION)
    make_run(place / "taught", settings=("data.sentinels=0.2",), facts=facts)
    (place / "spans").write_text("A server\n%s개의 {name} 서버\n", encoding="utf-8")
    command = f"translate taught -i spans --engine torch {SHORT} --keep none".split()
    own = ["--keep-pattern", "(?<=A )s[a-z]+", "--keep-pattern", "가|개의"]
    lines = accepted(*command, *own).splitlines()
    assert "server" in lines[0] and "개의" in lines[1] and "{name}" not in lines[1]


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_info_is_a_configuration(arch: str) -> None:
    said = accepted(f"info {arch} --preset paper")
    assert parse_config(tomllib.loads(said)) == load_config(arch, "paper", [])
    names = ["parameters", "decoder weights", "receptive field"]
    # Of architectures that have a program for the CPU.
    names += ["a decode step", "decoder state"] if arch != "transformer" else []
    assert all(re.search(rf"^# {name}: +\w", said, re.MULTILINE) for name in names)
    settings = ["model.source=false", "train.lr=0.5"]
    said = accepted(f"info {arch} --preset tiny --set {settings[0]} --set {settings[1]}")
    assert parse_config(tomllib.loads(said)) == load_config(arch, "tiny", settings)


def test_info_of_a_run(place: Path) -> None:
    said = accepted("info run")
    assert parse_config(tomllib.loads(said)) == load_config("luong", "tiny", SMALL)
    model = build_model(load_config("luong", "tiny", SMALL).model)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    assert re.search(rf"^# parameters: +{n_parameters:,}$", said, re.MULTILINE)


class Call:
    """Stands in for training.train and keeps what it was called with; signal: by which it ends."""

    signal = 0

    def __call__(self, run: Path, config: Config, **rest: Any) -> int:
        self.run = run
        self.config = config
        self.rest = rest
        run.mkdir(exist_ok=True)
        return self.signal


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, place: Path) -> Call:
    call = Call()
    monkeypatch.setattr(training, "train", call)
    return call


def test_train_hands_over(call: Call) -> None:
    accepted(f"{TRAIN} --src src --valid-src src --device cpu --threads 3")
    assert call.run == Path("new")
    assert type(call.rest.pop("reporter")) is Console and call.rest.pop("watch") is None
    assert call.rest == {
        "files": [PairFiles(Path("src"), Path("tgt"))],
        "valid": PairFiles(Path("src"), Path("tgt")),
        "more_valid": [],
        "device": torch.device("cpu"),
        "resume": False,
        "init_from": None,
        "group": SINGLE_PROCESS,
        "threads": 3,
    }


def test_a_signal_is_the_exit_code(call: Call) -> None:
    call.signal = signal.SIGTERM
    assert invoke(f"{TRAIN} --src src --valid-src src").exit_code == 143


def test_a_signal_before_any_update_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "train", Mock(side_effect=KeyboardInterrupt))
    result = invoke(f"{TRAIN} --src src --valid-src src")
    assert result.exit_code == 130
    assert "before the first update; run the same command" in result.stderr


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
    "--lr 0.5 --max-tokens 70 --update-freq 2 --max-updates 9 --patience 4 --seed 8"
    " --max-minutes 2.5 --valid-every 90 --save-every 700"
)
NAMED = SHORT_NAMES.replace("-", "_").replace("__", "train.")
NAMED = re.sub(r"(train\.\S+) ", r"\1=", NAMED)
NO_SOURCE = "train.max_updates=1 model.source=false"
SET = "--preset tiny --set train.lr=5e-4 --max-minutes 3"
AS_SET = "train.max_updates=1 train.warmup_updates=0 train.lr=5e-4 train.max_minutes=3.0"
LIMITS = "train.max_minutes=7 train.max_updates=90"
# commands, and the architecture, the preset and the settings of their configuration
CONFIGURATIONS = [
    (f"{TRAIN} --src src --valid-src src {SET}", "luong", "tiny", AS_SET),
    (f"{TEXT} {SHORT_NAMES}", "luong", None, f"{NAMED} model.source=false"),
    (TEXT, "luong", None, NO_SOURCE),
    (f"{PAIRS} --config info.toml", "bytenet", "tiny", ""),
    (RESUME, "luong", "tiny", ""),
    (f"{RESUME} --arch luong", "luong", "tiny", ""),
    (f"{RESUME} --set train.lr=8e-3", "luong", "tiny", ""),
    (f"{RESUME} --config run/config.toml", "luong", "tiny", ""),
    (f"{RESUME} --max-minutes 7 --max-updates 90", "luong", "tiny", LIMITS),
    (f"{RESUME} --set train.precision=auto", "luong", "tiny", ""),
    (f"{TEXT.replace('new', 'unsaved')} --preset tiny", "luong", "tiny", NO_SOURCE),
]


@pytest.mark.parametrize(("command", "arch", "preset", "settings"), CONFIGURATIONS)
def test_train_has_a_configuration(
    call: Call, place: Path, command: str, arch: str, preset: str | None, settings: str
) -> None:
    """Short names are settings; what `info` prints is a configuration. A resumed run has its own,
    and options may agree or raise its limits; a folder without a checkpoint is not a run."""
    (place / "info.toml").write_text(accepted("info bytenet --preset tiny"))
    (place / "unsaved").mkdir()
    (place / "unsaved" / CONFIG).write_text(config_toml(load_config("luong", "base", [])))
    accepted(command)
    own = SMALL if "--resume" in command else []
    assert call.config == load_config(arch, preset, [*own, *settings.split()])
    assert call.rest["resume"] is ("--resume" in command)


def test_quiet_and_verbose(place: Path) -> None:
    """Notes and warnings are left out, errors never; or what was chosen is told beside them."""
    pieces = f"{TRANSLATE} -i src {SHORT} --seed 1"
    usual = invoke(pieces)
    assert "no effect" in usual.stderr
    message = invoke(f"{pieces} -q")
    assert (message.stderr, message.stdout) == ("", usual.stdout)
    assert refused("translate none -i src -q") == refused("translate none -i src")
    for verbose in ("-v", "--verbose --threads 1"):
        message = invoke(f"{pieces} {verbose}")
        assert message.stdout == usual.stdout
        first, second = message.stderr.removeprefix(usual.stderr).splitlines()
        assert first == f"bytenmt: run/{BEST}: luong, update 70, stored in fp32"
        form = r"bytenmt: engine \S+ on cpu, fp32, \d threads; loaded in \d+\.\d\d s"
        assert re.fullmatch(form, second)
    for command in COMMANDS.values():
        assert {"-q", "-v"} <= {option for parameter in command.params for option in parameter.opts}


@pytest.mark.usefixtures("shared_place")
@pytest.mark.parametrize("option", ["--temperature 0.5", "--top-k 5", "--top-p 0.5", "--seed 1"])
def test_an_option_without_effect_is_a_warning(option: str) -> None:
    result = invoke(f"{TRANSLATE} -i src {option} {SHORT}")
    name = option.split()[0]
    assert result.stderr == f"bytenmt: warning: {name} has no effect without --sample\n"
    assert result.stdout == accepted(f"{TRANSLATE} -i src {SHORT}")


HELP = ("--help", *(f"{name} --help" for name in COMMANDS))
WITHOUT_PYTORCH = (
    f"{TRANSLATE} --device cpu -i src",
    f"{TRANSLATE} convs2s --device cpu -i src -b 2 --n-best 2 --format jsonl",
    f"{TRANSLATE} --engine numba -i src --sample",
    f"{TRANSLATE} --device cpu -i src -b 2 --format jsonl --alignment",
    "evaluate run --src src --ref tgt --log-probabilities --device cpu",
    "info luong",
    "convert run -o new.safetensors --precision int8",
)


@pytest.mark.slow
def test_commands_import_nothing_heavy_that_they_do_not_need(place: Path) -> None:
    """Help needs no NumPy, most commands neither PyTorch nor what only training needs. One process
    runs them in turn and names those after which a module is there."""
    code = (
        "import sys; from bytenmt.cli.main import main\n"
        f"for line in {(*HELP, *WITHOUT_PYTORCH)!r}:\n"
        "    main(line.split(), standalone_mode=False)\n"
        "    heavy = {'torch', 'sacrebleu', 'bytenmt.distributed'}\n"
        "    heavy |= {'numpy', 'numba'} if '--help' in line else set()\n"
        "    print('heavy:', heavy & set(sys.modules), 'after', line)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    heavy = [line for line in run.stdout.splitlines() if line.startswith("heavy: ")]
    assert heavy == [f"heavy: set() after {line}" for line in (*HELP, *WITHOUT_PYTORCH)]
    assert run.stdout.count("Usage:") == len(HELP)
    for name in ("--init-from", "--lenpen", "--hyp", "--max-source-bytes", "MODEL|ARCH", "--top-p"):
        assert name in run.stdout


WITHOUT = [
    ("torch", "train -o new --arch luong --preset tiny --src src --tgt tgt"),
    ("sacrebleu.metrics.bleu", f"evaluate run --src src --ref tgt {SHORT}"),
]


@pytest.mark.usefixtures("shared_place")
@pytest.mark.parametrize(("missing", "command"), WITHOUT)
def test_a_missing_package_is_one_line(
    missing: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bleu_scorer.cache_clear()
    monkeypatch.setitem(sys.modules, missing, None)
    package = missing.partition(".")[0]
    assert f"bytenmt: this needs {package}: pip install 'bytenmt[train]'\n" in refused(command)


@pytest.mark.usefixtures("shared_place")
@pytest.mark.parametrize(
    ("closed", "command"), [("stdin", TRANSLATE), ("stdout", f"{TRANSLATE} -i src")]
)
def test_a_closed_standard_stream_is_told_of(
    closed: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, closed, None)  # as Python has it
    with pytest.raises(SystemExit, match="1"):
        main(command.split())
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and f"standard {closed[3:]}put is closed: name" in told
