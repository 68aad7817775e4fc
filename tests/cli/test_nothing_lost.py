"""Nothing is lost and nothing mixed: one writer of a run, texts that change, outputs that stay."""

from __future__ import annotations

import fcntl
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from heard import Heard
from made_up_engine import make_run, warm_up
from processes import job
from small_runs import config

import bytenmt
from bytenmt.atomic_file import replacing
from bytenmt.checkpoints import lock as lock_module
from bytenmt.checkpoints import resumable as resumable_module
from bytenmt.checkpoints.checkpoint import load_checkpoint
from bytenmt.checkpoints.lock import LOCK, one_training
from bytenmt.checkpoints.manifest import CONFIG
from bytenmt.cli import translation_commands as cli_module
from bytenmt.cli.line_filter import Line, LineQueue
from bytenmt.cli.main import main
from bytenmt.config.schema import Config
from bytenmt.data.corpus import PairFiles
from bytenmt.distributed import Group
from bytenmt.errors import BytenmtError
from bytenmt.training.run import train

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(bytenmt.__file__).parent.parent)}


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Any]:
    """Forty pairs to train on, five to validate, as train() takes them."""
    for name, n in (("src", 40), ("tgt", 40), ("valid", 5)):
        draw = random.Random(name)
        lines = ["".join(draw.choices(["하나", "둘", "three", "x "], k=4)) for _ in range(n)]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    valid = tmp_path / "valid"
    return {
        "files": [PairFiles(tmp_path / "src", tmp_path / "tgt")],
        "valid": PairFiles(valid, valid),
        "device": CPU,
    }


def settings(n_updates: int) -> Config:
    return config("luong", f"train.max_updates={n_updates}", "train.save_every=1", "train.valid_lines=0")


# ---- one training a run folder


def test_a_second_training_is_refused(texts: dict[str, Any], tmp_path: Path) -> None:
    """The error is one line that names the first training; the run is not changed, and the lock is released
    with it.
    """
    run = tmp_path / "run"
    with one_training(run):
        who = f"process {os.getpid()} on "
        for resume in (False, True):
            with pytest.raises(BytenmtError, match=f"^{run} is being trained by {who}.* since .*-o another"):
                train(run, settings(2), **texts, resume=resume)
        (run / CONFIG).write_text("")
        again = CliRunner().invoke(main, ["train", "-o", str(run), "--text", "x", "--valid-text", "x"])
        assert again.exit_code == 1 and who in again.stderr and again.stderr.count("\n") == 1
        assert {path.name for path in run.iterdir()} == {LOCK, CONFIG}
    assert {path.name for path in run.iterdir()} == {CONFIG}
    train(run, settings(2), **texts)
    assert not (run / LOCK).exists()


def test_the_lock_of_a_killed_training_is_free(tmp_path: Path) -> None:
    """The kernel lets it go, whatever the file that is left says."""
    run = tmp_path / "run"
    ready, message = os.pipe()
    pid = os.fork()
    if not pid:
        with one_training(run):
            os.write(message, b"x")
            time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    with pytest.raises(BytenmtError, match=f"process {pid} on"), one_training(run):
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert (run / LOCK).exists()
    with one_training(run):
        assert f"process {os.getpid()} on" in (run / LOCK).read_text()


def test_a_lock_file_that_was_deleted_meanwhile_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking the holder may end and another begin: two would hold a lock each."""
    path, taken, real = tmp_path / "x", [], fcntl.flock

    def late(file: int, operation: int) -> None:
        if not taken:
            path.unlink()
            taken.append(os.open(path, os.O_RDWR | os.O_CREAT))
            real(taken[0], fcntl.LOCK_EX)
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    assert lock_module.lock(path) is None


def test_a_file_system_without_locks_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()

    def none(file: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", none)
    with one_training(tmp_path / "run", heard):
        pass
    assert len(heard.lines) == 1
    assert re.fullmatch(".*without locks: make sure that no other process writes there", heard.lines[0])


def train_in_group(group: Group, run: Path, texts: dict[str, Any]) -> None:
    train(run, settings(2), **texts, group=group)


def test_processes_of_one_job_share_the_lock(texts: dict[str, Any], tmp_path: Path) -> None:
    """The leading one holds it; where it is refused all leave, and it alone says why."""
    run = tmp_path / "run"
    with one_training(run):
        errors = [outcome.error for outcome in job(train_in_group, run, texts)]
        assert "is being trained by" in str(errors[0]) and not isinstance(errors[1], type(errors[0]))
    assert [outcome.error for outcome in job(train_in_group, run, texts)] == [None, None]


# ---- texts that change


def test_a_stream_of_another_size_is_named(tmp_path: Path) -> None:
    for name in "abv":
        (tmp_path / name).write_bytes(name.encode() * 300)
    texts = {
        "files": [PairFiles(tgt=tmp_path / name) for name in "ab"],
        "valid": PairFiles(tgt=tmp_path / "v"),
    }
    own = ("model.source=false", "train.window=20", "train.context=0", "train.valid_lines=0")
    train(tmp_path / "run", config("luong", *own, "train.max_updates=1"), **texts, device=CPU)
    (tmp_path / "b").write_bytes(b"b" * 299)
    with pytest.raises(BytenmtError, match=f"^{tmp_path / 'b'} is not the text"):
        train(
            tmp_path / "run", config("luong", *own, "train.max_updates=2"), **texts, device=CPU, resume=True
        )


# ---- a run without its config.toml


def test_a_run_without_its_configuration(texts: dict[str, Any], tmp_path: Path) -> None:
    """The checkpoint holds it: for every command, and for a training, which writes it again; and a new
    training does not take the folder for an empty one."""
    run = tmp_path / "run"
    train(run, settings(2), **texts)
    written = (run / CONFIG).read_text()
    (run / CONFIG).unlink()
    source, target = tmp_path / "src", tmp_path / "tgt"
    for line in (
        f"info {run}",
        f"translate -m {run} -i {source} --max-len-a 0 --max-len-b 3",
        f"evaluate {run} --src {source} --ref {target} --log-probabilities",
        f"convert {run} -o {tmp_path / 'less.safetensors'} --precision bf16",
    ):
        done = CliRunner().invoke(main, line.split())
        assert done.exit_code == 0, done.output
    options = (
        f"--src {source} --tgt {target} --valid-src {tmp_path / 'valid'} --valid-tgt {tmp_path / 'valid'}"
    )
    anew = CliRunner().invoke(main, f"train -o {run} --arch luong {options}".split())
    assert anew.exit_code == 1 and "already holds a run" in anew.stderr
    more = CliRunner().invoke(main, f"train -o {run} --resume {options} --max-updates 3 --threads 1".split())
    assert more.exit_code == 0, more.output
    assert load_checkpoint(run).update == 3
    assert (run / CONFIG).read_text() == written.replace("max_updates = 2", "max_updates = 3")


# ---- input and output


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    warm_up(folder)
    return make_run(folder / "run")


@pytest.mark.parametrize("how", ["-o hard", ">> f", "-i f >> hard", "-i f -o f", "-i f -o soft"])
def test_an_input_is_not_replaced(
    how: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output is refused if it is the same file as the input, whatever its name."""
    text = tmp_path / "f"
    text.write_bytes(b"one\ntwo\n")
    os.link(text, tmp_path / "hard")
    (tmp_path / "soft").symlink_to(text)
    monkeypatch.chdir(tmp_path)
    command = f"translate -m {model} --max-len-a 0 --max-len-b 3 {how}"
    if "-i" in how and ">>" not in how:  # no standard stream is a file
        done = CliRunner().invoke(main, command.split())
        code, stderr = done.exit_code, done.stderr
    else:
        shell = f"{sys.executable} -m bytenmt {command} {'' if '-i' in how else '< f'}"
        process = subprocess.run(shell, shell=True, env=ENVIRONMENT, capture_output=True, text=True)
        code, stderr = process.returncode, process.stderr
    assert code == 1 and "is the input too: give another file" in stderr and stderr.count("\n") == 1
    assert text.read_bytes() == b"one\ntwo\n" and len(list(tmp_path.iterdir())) == 3


# ---- a translation that is killed


class DeathError(BaseException):
    """An exception that no command expects."""


LINES = [f"줄 {number} {'x' * (number * 7 % 23)}".encode() for number in range(60)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(resumable_module, "SYNC_SECONDS", 0.0)
    (tmp_path / "in").write_bytes(b"\n".join(LINES) + b"\n")
    return tmp_path


def translate(model: Path, *more: str, dies_after: int | None = None, stdin: bytes | None = None) -> Any:
    """Translate the file `in`, or stdin, in batches of 7 lines; fail before batch `dies_after` is
    recorded.
    """
    command = ["translate", "-m", str(model), "-o", "out", "--buffer-size", "7", "--max-len-b", "9", *more]
    command += [] if stdin is not None else ["-i", "in"]
    with pytest.MonkeyPatch.context() as patch:
        real, n_added = resumable_module.ResumableFile.add, 0

        def add(self: Any, lines: Sequence[bytes]) -> None:
            nonlocal n_added
            if n_added == dies_after:
                self.leave = self.file.flush  # nobody is there to keep anything
                raise DeathError
            n_added += 1
            real(self, lines)

        patch.setattr(resumable_module.ResumableFile, "add", add)
        if stdin is not None:
            patch.setattr(cli_module, "standard_input", lambda: io.BytesIO(stdin))
            patch.setattr(cli_module, "standard_input_size", lambda: None)
        if dies_after is None:
            return CliRunner().invoke(main, command, catch_exceptions=False)
        with pytest.raises(DeathError):
            CliRunner().invoke(main, command, catch_exceptions=False)
        return None


FORMS = {
    "text": "",
    "n-best": "-b 3 --n-best 2",
    "jsonl": "--format jsonl -b 2",
    "sampling": "--sample --seed 5",
    "stream": "--stream",
    "bf16": "--precision bf16",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_translation_goes_on(form: str, model: Path, place: Path) -> None:
    """Killed twice, the file has the bytes of one in one go, and what was answered is not answered again."""

    def text() -> bytes:  # the time that a line took is its own
        return re.sub(rb',"seconds":[^,}]*', b"", (place / "out").read_bytes())

    more = FORMS[form].split()
    assert translate(model, *more).exit_code == 0
    whole = text()
    (place / "out").unlink()
    translate(model, *more, dies_after=3)
    assert not (place / "out").exists()
    translate(model, *more, "--resume", dies_after=2)
    noted = (place / ".out.part.json").read_text()
    assert '"lines":35,' in noted
    with open(place / ".out.part", "ab") as file:
        file.write(b"half a li")
    done = translate(model, *more, "--resume")
    assert done.exit_code == 0 and done.stderr == ""
    assert text() == whole
    assert {path.name for path in place.iterdir()} == {"in", "out"}


def has_attributes(path: Path) -> bool:
    try:
        os.setxattr(path, "user.bytenmt.test", b"x")
    except (OSError, AttributeError):
        return False
    return True


def test_a_complete_output_is_not_made_again(model: Path, place: Path) -> None:
    """The file stays as it is; lines that were added are translated; another job is refused."""
    if not has_attributes(place):
        pytest.skip("the file system has no extended attributes")
    translate(model)
    made, whole = (place / "out").stat(), (place / "out").read_bytes()
    done = translate(model, "--resume", dies_after=None)
    assert done.exit_code == 0 and "out is complete: its " in done.stderr
    assert (place / "out").stat().st_mtime_ns == made.st_mtime_ns and done.stderr.count("\n") == 1
    refused = translate(model, "--resume", "-b", "2")
    assert refused.exit_code == 1 and "out was started with" in refused.stderr
    lines = (place / "in").read_bytes()
    (place / "in").write_bytes(b"other\n" + lines)
    refused = translate(model, "--resume")
    assert refused.exit_code == 1 and "lines of the input differ" in refused.stderr
    assert (place / "out").read_bytes() == whole
    assert {path.name for path in place.iterdir()} == {"in", "out"}
    (place / "in").write_bytes(lines + b"more\n")
    assert translate(model, "--resume").exit_code == 0
    longer = (place / "out").read_bytes()
    assert longer.startswith(whole) and longer.count(b"\n") == whole.count(b"\n") + 1
    (place / "out").write_bytes(whole)  # edited
    refused = translate(model, "--resume")
    assert refused.exit_code == 1 and "and is damaged" in refused.stderr
    assert {path.name for path in place.iterdir()} == {"in", "out"}


def test_a_complete_output_of_unknown_origin_is_made_again(model: Path, place: Path) -> None:
    (place / "out").write_bytes(b"x\n")
    (place / "out").chmod(0o600)
    done = translate(model, "--resume")
    assert done.exit_code == 0 and "out exists, but not how it was made: all lines are" in done.stderr
    assert (place / "out").read_bytes() != b"x\n"
    assert (place / "out").stat().st_mode & 0o777 == 0o600, "permissions stay"


def test_a_replaced_file_keeps_its_permissions(place: Path) -> None:
    (place / "out").touch(0o640)
    (place / "out").chmod(0o640)
    with replacing(place / "out") as file:
        file.write(b"x")
    assert (place / "out").stat().st_mode & 0o777 == 0o640


def test_a_stream_goes_on(model: Path, place: Path) -> None:
    """Lines from standard input too, which are read again and not answered again."""
    given = (place / "in").read_bytes()
    assert translate(model, stdin=given).exit_code == 0
    whole = (place / "out").read_bytes()
    translate(model, dies_after=4, stdin=given)
    assert translate(model, "--resume", stdin=given).exit_code == 0
    assert (place / "out").read_bytes() == whole
    translate(model, dies_after=4, stdin=given)
    short = translate(model, "--resume", stdin=given[:100])
    assert short.exit_code == 1 and "was started: give the same input" in short.stderr
    assert translate(model, "--resume").exit_code == 0  # the same lines as a file
    assert (place / "out").read_bytes() == whole


def test_what_comes_together_is_told_by_the_lines_alone() -> None:
    """However slowly they come: what is decoded side by side is the same when it is begun anew."""
    waiting = LineQueue(4, 100)

    def read() -> None:
        for text in [b"x"] * 10 + [b"y" * 60] * 3:
            waiting.put(Line(text, 1, 0.0))
            time.sleep(0.002)
        waiting.end()

    Thread(target=read, daemon=True).start()
    blocks, ended = [], False
    while not ended:
        lines, ended = waiting.take(4, whole=True)
        blocks.append(len(lines))
    assert blocks == [4, 4, 3, 1, 1]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("-b 2", "started with beam 1, not 2"),
        ("--prefix a", "started with prefix"),
        ("--max-len-b 8", "started with max-len-b 9, not 8"),
        ("--format jsonl", "started with .*alignment|started with format"),
        ("--buffer-size 8", "started with buffer-size 7, not 8"),
        ("--engine torch", "started with engine numba, not torch"),
        ("--errors strict", "started with errors replace"),
        ("-m other", "started with another model"),
        ("changed", "the first 14 lines of the input differ from those"),
        ("shorter", "the input has 10 lines"),
        ("note", "cannot be read"),
        ("part", "is damaged"),
        ("altered", "was changed since it was written"),
    ],
)
def test_another_translation_is_refused(more: str, message: str, model: Path, place: Path) -> None:
    """One line; what was kept still is, and the first command goes on."""
    translate(model)
    whole = (place / "out").read_bytes()
    translate(model, dies_after=2)
    names = "in", ".out.part", ".out.part.json"
    before = {name: (place / name).read_bytes() for name in names}
    options, run = more.split() if more.startswith("-") else [], model
    if more == "-m other":
        options, run = [], make_run(place / "other", seed=1)
    elif more == "changed":
        (place / "in").write_bytes(before["in"].replace(b"x\n", b"y\n", 1))
    elif more == "shorter":
        (place / "in").write_bytes(b"\n".join(LINES[:10]) + b"\n")
    elif more == "note":
        (place / names[2]).write_bytes(before[names[2]][:-9])
    elif more == "part":
        (place / names[1]).write_bytes(before[names[1]][:9])
    elif more == "altered":
        (place / names[1]).write_bytes(bytes([before[names[1]][0] ^ 1]) + before[names[1]][1:])
    done = translate(run, *options, "--resume")
    assert done.exit_code == 1 and re.search(message, done.stderr), done.output
    said = [line for line in done.stderr.splitlines() if "are saved beside" not in line]
    assert len(said) == 1 and said[0].startswith("bytenmt: --resume: ")
    for name in names:
        if more not in ("note", "part", "altered"):
            assert name == "in" or before[name].startswith((place / name).read_bytes())
        (place / name).write_bytes(before[name])
    assert translate(model, "--resume").exit_code == 0
    assert (place / "out").read_bytes() == whole


def test_a_note_of_an_older_version_goes_on(model: Path, place: Path) -> None:
    """Notes of older versions, which have no digest of the output, can be resumed."""
    translate(model)
    whole = (place / "out").read_bytes()
    translate(model, dies_after=2)
    note = place / ".out.part.json"
    message = json.loads(note.read_bytes())
    assert message.pop("written")
    note.write_text(json.dumps(message))
    assert translate(model, "--resume").exit_code == 0
    assert (place / "out").read_bytes() == whole


def test_a_planted_link_is_not_followed(model: Path, place: Path) -> None:
    """Neither where answers are kept, nor where a file is written before it is renamed, nor by a training's
    lock: whoever may write into a folder does not choose what is overwritten elsewhere."""
    victim = place / "victim"
    victim.write_text("precious")
    (place / ".out.part").symlink_to(victim)
    done = translate(model)
    assert done.exit_code == 1 and "is a symbolic link" in done.stderr and done.stderr.count("\n") == 1
    (place / f".page.{os.getpid()}.tmp").symlink_to(victim)
    with replacing(place / "page") as file:
        file.write(b"x")
    assert (place / "page").read_bytes() == b"x"
    run = place / "run"
    run.mkdir()
    (run / LOCK).symlink_to(victim)
    with pytest.raises(BytenmtError, match="cannot write into"), one_training(run):
        pass
    assert victim.read_text() == "precious"


def test_what_is_left_is_told(model: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error message and a new start both mention the lines that an interrupted translation left; only one
    process writes at a time.
    """
    refused = CliRunner().invoke(main, ["translate", "-m", str(model), "--resume"], input="a\n")
    assert refused.exit_code == 1 and "needs an output file: add -o FILE" in refused.stderr
    translate(model)
    whole = (place / "out").read_bytes()
    given = b"\n".join([*LINES[:20], b"bad \xff", *LINES[20:]])
    failed = translate(model, "--errors", "strict", stdin=given)
    assert failed.exit_code == 1 and "14 translated lines are saved beside" in failed.stderr
    anew = translate(model)
    assert anew.exit_code == 0 and "the 14 lines that an interrupted translation left" in anew.stderr
    assert (place / "out").read_bytes() == whole
    early = translate(model, "--errors", "strict", stdin=b"\xff")
    assert early.exit_code == 1 and early.stderr.count("\n") == 1
    assert {path.name for path in place.iterdir()} == {"in", "out"}
    file = lock_module.lock(place / ".out.part")
    assert file is not None
    second = translate(model)
    assert second.exit_code == 1 and "another process is writing" in second.stderr
    os.close(file)


def test_kill_9(model: Path, place: Path) -> None:
    """Real deaths, after the first blocks: the output is that of a command that lived."""
    (place / "in").write_bytes(b"\n".join(LINES * 50) + b"\n")
    eager = "from bytenmt.checkpoints import resumable\nresumable.SYNC_SECONDS = 0.0\n"
    eager += "from bytenmt.cli.main import main\nmain()"
    command = ["translate", "-m", str(model), "-i", "in", "--buffer-size", "50"]
    command += ["--max-len-a", "1", "--max-len-b", "5", "-o"]
    assert CliRunner().invoke(main, [*command, "whole"]).exit_code == 0
    child_command = [sys.executable, "-c", eager, *command, "out", "--resume"]
    note, message = place / ".out.part.json", b""
    for _ in range(2):
        child = subprocess.Popen(child_command, env=ENVIRONMENT)
        while child.poll() is None and (not note.exists() or note.read_bytes() == message):
            time.sleep(0.001)
        child.kill()
        assert child.wait() == -signal.SIGKILL
        message = note.read_bytes()
    assert CliRunner().invoke(main, [*command, "out", "--resume"]).exit_code == 0
    assert (place / "out").read_bytes() == (place / "whole").read_bytes()
