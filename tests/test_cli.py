"""The commands as a user meets them: what they print, and one line for what can go wrong."""

from __future__ import annotations

import gzip
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

import bytenmt
from bytenmt import __version__
from bytenmt import train as training
from bytenmt.checkpoint import save_checkpoint, weights
from bytenmt.cli import main
from bytenmt.config import Config, config_toml, load_config, parse_config
from bytenmt.console import writer
from bytenmt.corpus import PairFiles
from bytenmt.distributed import ALONE
from bytenmt.models import MODELS, build_model
from bytenmt.pointer import CONFIG

# So that a child in another folder finds the package under test.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(bytenmt.__file__).parent.parent)}
SMALL = ["model.d_hidden=12", "model.d_embedding=8"]
SHORT = "--max-len-b 5 --max-len-a 0.1"
COMMANDS = ["train", "translate", "evaluate", "score", "average", "info"]


def make_run(folder: Path, arch: str = "luong", settings: tuple[str, ...] = ()) -> Path:
    """A run folder as training leaves it, of random weights."""
    folder.mkdir()
    config = load_config(arch, "tiny", "", [*SMALL, *settings])
    torch.manual_seed(0)
    model = build_model(config.model)
    (folder / CONFIG).write_text(config_toml(config), encoding="utf-8")
    save_checkpoint(folder, 70, weights(model), {}, config, {}, keep=1, best=True)
    return folder


WEIGHTS = Path("checkpoints") / "update-00000070.safetensors"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder: a run, one without a source, and texts good and bad."""
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run")
    make_run(tmp_path / "no_source", settings=("data.source=false",))
    files = {
        "src": "one\n두 번째\n\nfour\n".encode(),
        "tgt": b"eins\nzwei\ndrei\n\n",
        "three": b"a\nb\nc\n",
        "empty": b"",
        "table": b"one\teins\nno tab\n",
        "invalid": b"fine\nbad \xff\nfine\nfine\n",
        "wrong.toml": b"[model\n",
        "unknown.toml": b"[train]\nlearning_rate = 1\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(files["src"]))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(files["src"])[:-12])
    return tmp_path


def invoke(command: str) -> Result:
    return CliRunner().invoke(main, command.split())


def accepted(command: str) -> str:
    result = invoke(command)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def listing(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): path.read_bytes() for path in files}


def refused(command: str) -> str:
    """The one line on stderr; nothing on stdout, nothing written."""
    before = listing(Path.cwd())
    result = invoke(command)
    assert result.exit_code == 1, (result.stderr, result.exception)
    assert re.fullmatch(r"bytenmt: [^\n]+\n", result.stderr), result.stderr
    assert result.stdout == ""
    assert listing(Path.cwd()) == before
    return result.stderr


EVALUATE = "evaluate -m run"
SCORE = "score -m run"
TRANSLATE = "translate -m run"
# One update: where a fault lets the command through, the test fails soon.
TRAIN = "train -o new --arch luong --tgt tgt --valid-tgt tgt --set train.max_updates=1"
BAD: list[tuple[str, str]] = [
    (f"{EVALUATE} --src three --ref tgt", "three has 3 lines and tgt has 4"),
    (f"{SCORE} --src three --tgt tgt", "three has 3 lines and tgt has 4"),
    (f"{EVALUATE} --src none --ref tgt", "none does not exist"),
    (f"{EVALUATE} --src empty --ref empty", "empty is empty"),
    (f"{SCORE} --src src --tgt run", "run is a directory"),
    (f"{SCORE} --src invalid --tgt tgt --errors strict", "invalid, line 2, byte offset 4: 0xFF"),
    (f"{EVALUATE} --ref tgt", "trained with a source: give it by --src"),
    ("score -m no_source --src src --tgt tgt", "trained without a source: leave out --src"),
    (f"{EVALUATE} --src src --ref tgt --hyp-out tgt", "tgt is the input too"),
    (f"{EVALUATE} --src src --ref tgt --lenpen 0.6", "give --beam-size 2"),
    (f"{TRANSLATE} -i none", "none does not exist"),
    (f"{TRANSLATE} -i empty", "empty is empty"),
    (f"{TRANSLATE} -i cut.gz", "cut.gz is cut off"),
    (f"{TRANSLATE} -i invalid --errors strict -o out", "invalid, line 2, byte offset 4: 0xFF"),
    (f"{TRANSLATE} -i src -o src", "src is the input too"),
    (f"{TRANSLATE} -i src -o ./run/../src", "src is the input too"),
    (f"{TRANSLATE} -i src -o run", "run is a directory"),
    (f"{TRANSLATE} -i src -o there/out", "make the folder there first"),
    (f"{TRANSLATE} -i src --length-penalty 0.5 -b 1", "give --beam-size 2"),
    ("translate -m no_source -i src", "without a source: it cannot translate"),
    ("translate -m none -i src", "none is not a run folder"),
    ("translate -m src -i src", "src is not a run folder"),
    (f"{TRAIN} --src src", "--src without --valid-src"),
    (f"{TRAIN} --valid-src src", "a source to validate on, but none to train on"),
    (f"{TRAIN} --src src --src src --valid-src src", "2 --src and 1 --tgt"),
    (f"{TRAIN} --tgt tgt --src src --src none --valid-src src", "none does not exist"),
    (f"{TRAIN} --tsv table --valid-src src", "--tsv has a source and --tgt alone has none"),
    (f"{TRAIN} --src src --valid-src src --tsv table", "table, line 2 has no tab"),
    (f"{TRAIN} --src src --valid-src src --weight 1 --weight 2", "2 --weight for 1 corpus"),
    (f"{TRAIN} --src src --valid-src src --tsv table --weight 1", "1 --weight for 2 corpora"),
    (f"{TRAIN} --src src --valid-src src --valid-tsv table", "no text to validate on"),
    ("train -o new --arch luong --valid-tgt tgt", "no text to train on"),
    ("train -o new --arch luong --tgt tgt", "no text to validate on"),
    (
        "train -o new --arch luong --tsv table --valid-tsv table --valid-src src",
        "--valid-src would be ignored",
    ),
    (f"{TRAIN} --src src --valid-src src --set train.metric=chrf --set train.valid_lines=0", "chrf needs"),
    (f"{TRAIN} --src src --valid-src src --set train.compile=true", "would unroll"),
    ("train -o new --arch bytenet --tgt tgt --valid-tgt tgt --set train.compile=true", "train.round_to=64"),
    (f"{TRAIN} --src three --valid-src src", "three has 3 lines and tgt has 4"),
    (f"{TRAIN} --src none --valid-src src", "none does not exist"),
    (f"{TRAIN} --src invalid --valid-src src --errors strict", "line 2, byte offset 4: 0xFF"),
    (f"{TRAIN} --src src --valid-src src --set data.source=false", "--src would be ignored"),
    (f"{TRAIN} --set train.learning_rate=1", "learning_rate"),
    (f"{TRAIN} --set train.lr=fast", "train.lr"),
    (f"{TRAIN} --config unknown.toml", "learning_rate"),
    (f"{TRAIN} --config wrong.toml", "wrong.toml is not TOML"),
    (f"{TRAIN} --config invalid", "invalid is not TOML"),
    (f"{TRAIN} --config none", "--config none cannot be read"),
    (f"{TRAIN} --preset huge", "unknown preset 'huge'"),
    ("train -o new --arch lstm --tgt tgt --valid-tgt tgt", "unknown architecture 'lstm'"),
    ("train -o new --tgt tgt --valid-tgt tgt", "no architecture: give --arch"),
    ("train -o run --arch luong --tgt tgt --valid-tgt tgt", "run already holds a run"),
    ("train -o src --arch luong --tgt tgt --valid-tgt tgt", "src is a file"),
    ("train -o new --resume --tgt tgt --valid-tgt tgt", "no architecture: give --arch"),
    ("average -o out none", "none"),
    ("average -o out src", "src"),
    ("average -o src src", "src is the input too"),
    ("info none", "neither a run folder nor an architecture"),
    ("info run --preset tiny", "--preset would be ignored"),
    ("info luong --preset huge", "unknown preset 'huge'"),
]


@pytest.mark.parametrize(("command", "told"), BAD)
def test_bad_input_is_one_line(place: Path, command: str, told: str) -> None:
    """Exit code 1, nothing on stdout, nothing written."""
    assert told in refused(command)


@pytest.mark.parametrize("command", [f"{TRANSLATE} -i src", f"{SCORE} --src src --tgt tgt"])
def test_bad_checkpoints_are_one_line(place: Path, command: str) -> None:
    best = place / "run" / WEIGHTS
    whole = best.read_bytes()
    best.write_bytes(whole[:-100])
    assert "damaged" in refused(command)
    best.unlink()
    assert f"{WEIGHTS} is missing" in refused(command)
    shutil.rmtree(place / "run")
    make_run(place / "other", "seq2seq").rename(place / "run")
    shutil.copy(place / "no_source" / CONFIG, place / "run" / CONFIG)
    assert "holds another model (seq2seq)" in refused(command)
    (place / "run" / "checkpoints.json").unlink()
    assert "has not saved" in refused(command)


def test_a_checkpoint_file_is_a_model_too(place: Path) -> None:
    """A weights file of a run, and the mean of two, translate; the mean of equal ones as they do."""
    whole = accepted(f"{TRANSLATE} -i src {SHORT}")
    assert accepted(f"translate -m run/{WEIGHTS} -i src {SHORT}") == whole
    accepted(f"average -o mean.safetensors run/{WEIGHTS} run/{WEIGHTS}")
    assert accepted(f"translate -m mean.safetensors -i src {SHORT}") == whole


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    "command",
    [
        f"{TRANSLATE} -i src",
        f"{EVALUATE} --src src --ref tgt",
        f"{SCORE} --src src --tgt tgt",
        TRAIN,
    ],
)
def test_a_gpu_that_is_not_there(place: Path, command: str) -> None:
    assert "no GPU is available" in refused(f"{command} --device cuda")


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
    """In the form that scripts read; the translations are kept on request."""
    command = f"{EVALUATE} --src src --ref tgt --hyp-out hyp --tokenize char {SHORT}"
    said = accepted(command).splitlines()
    patterns = [
        r"chrF \d+\.\d\d  \S*\|version:\S+",
        r"BLEU \d+\.\d\d  \S*tok:char\S*",
        r"exact match: \d+\.\d %",
        r"bits per byte: \d+\.\d{4}",
        rf"bytenmt {__version__}, configuration [0-9a-f]{{8}}, update 70(, commit [0-9a-f]+\S*)?",
    ]
    for pattern, text in zip(patterns, said, strict=True):
        assert re.fullmatch(pattern, text), text
    hypotheses = (place / "hyp").read_bytes()
    assert hypotheses == accepted(f"{TRANSLATE} {SHORT} -i src").encode()
    (place / "hyp").rename("ref")
    again = accepted(f"{EVALUATE} --src src --ref ref {SHORT}")
    assert "exact match: 100.0 %" in again and "chrF 100.00" in again


def test_evaluate_without_a_source(place: Path) -> None:
    """The model's likeliest text stands for every line."""
    said = accepted("evaluate -m no_source --ref tgt --max-len-b 5 --hyp-out hyp")
    assert "bits per byte: " in said
    texts = (place / "hyp").read_bytes().split(b"\n")[:-1]
    assert len(texts) == 4 and len(set(texts)) == 1 and texts[0]


def test_a_line_longer_than_trained_on_is_cut(place: Path) -> None:
    """Unless told otherwise."""
    make_run(place / "brief", settings=("data.max_source_bytes=6",))
    warning = invoke(f"translate -m brief -i src {SHORT}").stderr
    assert "src, line 2 has 10 bytes, over the 6 of --max-source-bytes" in warning
    assert not invoke(f"translate -m brief -i src {SHORT} --max-source-bytes 10").stderr


def test_score_tells_of_every_pair(place: Path) -> None:
    """Empty lines are scored too, and all lines together make evaluate's bits per byte."""
    said = accepted(f"{SCORE} --src src --tgt tgt")
    rows = [line.split("\t") for line in said.splitlines()]
    assert len(rows) == 4
    for (nats, bits), text in zip(rows, ["eins", "zwei", "drei", ""], strict=True):
        expected = -float(nats) / math.log(2) / len(text) if text else math.inf
        assert float(bits) == pytest.approx(expected, abs=1e-5)
        assert float(nats) < 0
    whole = -sum(float(nats) for nats, _ in rows) / math.log(2) / 12
    said = accepted(f"{EVALUATE} --src src --ref tgt {SHORT}")
    assert f"bits per byte: {whole:.4f}" in said


def test_score_without_a_source(place: Path) -> None:
    assert len(accepted("score -m no_source --tgt tgt").splitlines()) == 4


@pytest.mark.parametrize("arch", MODELS)
def test_info_is_a_configuration(arch: str) -> None:
    """Facts, then TOML that parses to the preset; quick for the largest too."""
    said = accepted(f"info {arch} --preset paper")
    assert parse_config(tomllib.loads(said)) == load_config(arch, "paper", "", [])
    names = ["parameters", "decoder weights", "receptive field", "a decode step", "decoder state"]
    assert all(re.search(rf"^# {name}: +\w", said, re.MULTILINE) for name in names)


def test_info_of_a_run(place: Path) -> None:
    said = accepted("info run")
    assert parse_config(tomllib.loads(said)) == load_config("luong", "tiny", "", SMALL)
    model = build_model(load_config("luong", "tiny", "", SMALL).model)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    assert re.search(rf"^# parameters: +{n_parameters:,}$", said, re.MULTILINE)


class Call:
    """Stands in for training.train and keeps what it was called with."""

    def __call__(self, run: Path, config: Config, **rest: Any) -> None:
        self.run, self.config, self.rest = run, config, rest


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, place: Path) -> Call:
    call = Call()
    monkeypatch.setattr(training, "train", call)
    return call


def test_train_hands_over(call: Call) -> None:
    options = "--preset tiny --set train.lr=5e-4 --max-minutes 3 --errors strict --device cpu"
    accepted(f"{TRAIN} --src src --valid-src src --init-embedding run {options}")
    settings = ["train.max_updates=1", "train.lr=5e-4", "train.max_minutes=3.0"]
    assert call.run == Path("new")
    assert call.config == load_config("luong", "tiny", "", settings)
    assert call.rest == {
        "files": [PairFiles(Path("src"), Path("tgt"))],
        "valid": PairFiles(Path("src"), Path("tgt")),
        "device": torch.device("cpu"),
        "errors": "strict",
        "resume": False,
        "resume_from": None,
        "init_embedding": Path("run"),
        "tensorboard": False,
        "group": ALONE,
    }


def test_train_takes_several_corpora(call: Call) -> None:
    weights = "--weight 1 --weight 0.5 --weight 3"
    accepted(f"{TRAIN} --src src --tgt three --src src --tsv table {weights} --valid-src src")
    assert call.rest["files"] == [
        PairFiles(Path("src"), Path("tgt"), weight=1.0),
        PairFiles(Path("src"), Path("three"), weight=0.5),
        PairFiles(tsv=Path("table"), weight=3.0),
    ]


def test_short_names_are_settings(call: Call) -> None:
    """--lr 0.5 is --set train.lr=0.5, and so on."""
    names = {"lr": 0.5, "max_tokens": 70, "update_freq": 2, "max_updates": 9, "patience": 4, "seed": 8}
    options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in names.items())
    accepted(f"{TRAIN} {options}")
    settings = [f"train.{name}={value}" for name, value in names.items()]
    assert call.config == load_config("luong", None, "", [*settings, "data.source=false"])


def test_resume_from(call: Call) -> None:
    accepted(f"{RESUME.replace('--resume', '')} --resume-from 70")
    assert call.rest["resume"] is True and call.rest["resume_from"] == 70


def test_train_without_a_source(call: Call) -> None:
    accepted(TRAIN)
    assert call.config == load_config("luong", None, "", ["train.max_updates=1", "data.source=false"])
    assert call.rest["files"] == [PairFiles(None, Path("tgt"))]
    assert call.rest["valid"] == PairFiles(None, Path("tgt"))


def test_train_takes_what_info_prints(call: Call, place: Path) -> None:
    (place / "mine.toml").write_text(accepted("info bytenet --preset tiny"))
    texts = "--src src --valid-src src --tgt tgt --valid-tgt tgt"
    accepted(f"train -o new --config mine.toml {texts}")
    assert call.config == load_config("bytenet", "tiny", "", [])


RESUME = "train -o run --resume --src src --valid-src src --tgt tgt --valid-tgt tgt"


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--arch luong",
        "--set train.lr=2e-3",
        "--preset tiny --set model.d_hidden=12 --set model.d_embedding=8 --arch luong",
        "--config run/config.toml",
    ],
)
def test_resume_takes_the_runs_configuration(call: Call, options: str) -> None:
    """Options may be left out or agree."""
    accepted(f"{RESUME} {options}")
    assert call.config == load_config("luong", "tiny", "", SMALL)
    assert call.rest["resume"] is True


def test_resume_may_change_the_limits(call: Call) -> None:
    accepted(f"{RESUME} --max-minutes 7 --set train.max_updates=90")
    limits = ["train.max_minutes=7.0", "train.max_updates=90"]
    assert call.config == load_config("luong", "tiny", "", [*SMALL, *limits])


def test_a_preset_does_not_reset_the_limits(call: Call, place: Path) -> None:
    limit = ("train.max_updates=90",)
    shutil.rmtree(place / "run")
    make_run(place / "run", settings=limit)
    given = " ".join(f"--set {setting}" for setting in SMALL)
    accepted(f"{RESUME} --preset tiny {given}")
    assert call.config.train.max_updates == 90


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--arch seq2seq", "model.arch"),
        ("--preset base", "model.d_"),
        ("--set model.d_hidden=13", "model.d_hidden is 13, but run was trained with 12"),
        ("--set train.lr=1.0", "train.lr"),
        ("--config unknown.toml", "learning_rate"),
    ],
)
def test_resume_refuses_what_differs(call: Call, options: str, told: str) -> None:
    """The error names the key."""
    assert told in refused(f"{RESUME} {options}")


def test_resume_with_or_without_a_source(call: Call) -> None:
    assert "data.source" in refused("train -o run --resume --tgt tgt --valid-tgt tgt")
    assert "--src would be ignored" in refused(RESUME.replace("-o run", "-o no_source"))


def test_version() -> None:
    assert accepted("--version").strip() == f"bytenmt, version {__version__}"


def test_help_imports_nothing_heavy() -> None:
    """Of the program and of every command."""
    code = (
        "import sys; from bytenmt.cli import main\n"
        f"for command in ([], *([name] for name in {COMMANDS})):\n"
        "    main([*command, '--help'], standalone_mode=False)\n"
        "print('heavy:', {'torch', 'numba', 'numpy', 'sacrebleu'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert "heavy: set()" in run.stdout
    assert run.stdout.count("Usage:") == 1 + len(COMMANDS)
    for name in ("--init-embedding", "--lenpen", "--hyp-out", "--max-source-bytes", "RUN|ARCH"):
        assert name in run.stdout


@contextmanager
def coprocess(*options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`bytenmt translate` with open pipes, killed after two minutes at the latest."""
    command = [sys.executable, "-m", "bytenmt", *f"{TRANSLATE} {SHORT} --threads 1".split()]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, *options], stdin=pipe, stdout=pipe, stderr=pipe, env=ENVIRONMENT
    ) as process:
        guard = signal.signal(signal.SIGALRM, lambda *_: process.kill())
        signal.alarm(120)
        try:
            yield process
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, guard)
            process.kill()


def ask(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """Send a line and wait for its answer, before anything else is sent."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert answer.endswith(b"\n"), "no answer to a line alone"
    return answer[:-1]


def test_a_line_alone_is_answered_at_once_and_ctrl_c_is_quiet(place: Path) -> None:
    """A coprocess waits for each answer; then an interrupt while the program waits for a line."""
    with coprocess() as process:
        first = [ask(process, line) for line in (b"one", b"", "두 번째".encode())]
        assert first[1] == b""
        assert first[0] == ask(process, b"one\r")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert (out, err, process.returncode) == (b"", b"", 130)


def test_the_end_of_the_input_is_the_end(place: Path) -> None:
    with coprocess() as process:
        out, err = process.communicate(b"one\ntwo\n\nno newline")
        assert (out.count(b"\n"), err, process.returncode) == (4, b"", 0)


def test_strict_ends_while_the_input_is_open(place: Path) -> None:
    """One line on stderr, though the reading thread still waits."""
    with coprocess("--errors", "strict") as process:
        ask(process, b"one")
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b"bad \xff\n")
        process.stdin.flush()
        assert process.wait() == 1
        told = process.stderr.read()
        assert told.count(b"\n") == 1
        assert told.startswith(b"bytenmt: standard input, line 2, byte offset 4: 0xFF")


def test_a_closed_pipe_is_quiet(place: Path) -> None:
    """As under `| head -1`."""
    with coprocess() as process:
        ask(process, b"one")
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"two\n")
        process.stdin.flush()
        assert process.wait() == 141
        assert process.stderr.read() == b""


def test_closed_standard_streams_are_told_of(place: Path) -> None:
    """`<&-` and `>&-`."""
    program = f"{sys.executable} -m bytenmt {TRANSLATE}"
    for command in (f"{program} <&-", f"{program} -i src >&-"):
        run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=ENVIRONMENT)
        assert run.returncode == 1 and run.stderr.count("\n") == 1
        assert "is closed: give" in run.stderr
