"""Nothing is lost and nothing mixed: one writer of a run, texts that change, outputs that stay."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command_line import accepted, dying_after, invoke, refused
from processes import job
from small_runs import CPU, config

from bytenmt.atomic_file import replace_atomically
from bytenmt.checkpoints.checkpoint import LOCK, load_checkpoint, training_lock
from bytenmt.checkpoints.weights import CONFIG
from bytenmt.cli import translate as cli_module
from bytenmt.cli.files import check_output
from bytenmt.cli.line_filter import MAX_LINE_BYTES
from bytenmt.cli.main import main
from bytenmt.distributed import LOST_PROCESS, Group
from bytenmt.errors import BytenmtError
from bytenmt.training.run import train

pytestmark = pytest.mark.slow


SETTINGS = config("luong", "train.max_updates=2 train.save_every=1")


# ---- one training a run folder


def train_in_group(group: Group, run: Path, texts: dict[str, Any]) -> None:
    train(run, SETTINGS, **texts, device=CPU, group=group)


def test_a_second_training_is_refused(texts: dict[str, Any], tmp_path: Path) -> None:
    """The error is one line; the run is not changed, and the lock is released with it. In a job the
    leading process alone says why."""
    run = tmp_path / "run"
    message = f"^another process is training {run}: give -o another"
    with training_lock(run):
        for resume in (False, True):
            with pytest.raises(BytenmtError, match=message):
                train(run, SETTINGS, **texts, device=CPU, resume=resume)
        errors = [outcome.error for outcome in job(train_in_group, run, texts)]
        assert "another process" in str(errors[0]) and str(errors[1]) == LOST_PROCESS
        assert [path.name for path in run.iterdir()] == [LOCK]
    assert not list(run.iterdir())


# ---- a run without its config.toml


def test_a_run_without_its_configuration(
    texts: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint holds it: for a command, and for a training, which writes it again. A new
    training does not take the folder for an empty one."""
    run = tmp_path / "run"
    train(run, SETTINGS, **texts, device=CPU)
    written = (run / CONFIG).read_text()
    (run / CONFIG).unlink()
    monkeypatch.chdir(tmp_path)
    accepted("translate run -i src --max-len-a 0 --max-len-b 3")
    options = "--src src --tgt tgt --valid-src valid_src --valid-tgt valid_tgt"
    assert "already holds a run" in refused(f"train -o run --arch luong {options}")
    accepted(f"train -o run --resume {options} --max-updates 3 --threads 1")
    assert load_checkpoint(run).update == 3 and not (run / LOCK).exists()
    assert (run / CONFIG).read_text() == written.replace("max_updates = 2", "max_updates = 3")


# ---- input and output


def test_an_input_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever names it has."""
    monkeypatch.chdir(tmp_path)
    text, hard, soft = Path("f"), Path("hard"), Path("soft")
    text.write_bytes(b"one\ntwo\n")
    os.link(text, hard)
    soft.symlink_to(text)
    for output in (text, hard, soft):
        with pytest.raises(BytenmtError, match="is also the input: give another file"):
            check_output(output, None, text)
    assert text.read_bytes() == b"one\ntwo\n" and len(list(tmp_path.iterdir())) == 3


# ---- a translation that is killed


LINES = [f"줄 {number} {'x' * (number * 7 % 23)}".encode() for number in range(60)]


@pytest.fixture(name="model")
def find_model(template: Path) -> Path:
    return template / "run"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_bytes(b"\n".join(LINES) + b"\n")
    return tmp_path


def translate(
    model: Path, *more: str, dies_after: int | None = None, stdin: bytes | None = None
) -> Any:
    """Translate the file `in`, or stdin, in batches of 7 lines; fail before batch `dies_after`."""
    options = f"{model} -o out --buffer-size 7 --max-len-b 9"
    command = ["translate", *options.split(), *more, *([] if stdin is not None else ["-i", "in"])]
    with pytest.MonkeyPatch.context() as patch:
        if stdin is not None:
            patch.setattr(cli_module, "standard_input", lambda: io.BytesIO(stdin))
        with nullcontext() if dies_after is None else dying_after(dies_after):
            return CliRunner().invoke(main, command, catch_exceptions=False)
    return None


FORMS = {"text": "", "jsonl": "--format jsonl -b 2 --n-best 2", "sampling": "--sample --seed 5"}


@pytest.mark.parametrize("form", FORMS)
def test_a_translation_goes_on(form: str, model: Path, place: Path) -> None:
    """Killed twice, the file has the bytes of an undisturbed one; no line is translated twice."""

    def text() -> bytes:  # the time that a line took is its own
        return re.sub(rb',"seconds":[^,}]*', b"", (place / "out").read_bytes())

    more = FORMS[form].split()
    assert translate(model, *more).exit_code == 0
    whole = text()
    (place / "out").unlink()
    translate(model, *more, dies_after=3)
    assert not (place / "out").exists()
    translate(model, *more, "--resume", dies_after=2)
    assert (place / ".out.part").read_bytes().count(b"\n") == 35
    with open(place / ".out.part", "ab") as file:
        file.write(b"half a li")
    done = translate(model, *more, "--resume")
    assert done.exit_code == 0 and done.stderr == ""
    assert text() == whole
    assert {path.name for path in place.iterdir()} == {"in", "out"}


def test_a_stream_goes_on(model: Path, place: Path) -> None:
    """Lines from standard input too, which are read again and not answered again."""
    given = (place / "in").read_bytes()
    assert translate(model, stdin=given).exit_code == 0
    whole = (place / "out").read_bytes()
    translate(model, dies_after=4, stdin=given)
    n_done = (place / ".out.part").read_bytes().count(b"\n")
    assert 4 <= n_done <= 28
    short = translate(model, "--resume", stdin=b"a\n" * (n_done - 1))
    assert short.exit_code == 1
    assert f"has {n_done - 1} lines, but {n_done} are translated" in short.stderr
    assert translate(model, "--resume", stdin=given).exit_code == 0
    assert (place / "out").read_bytes() == whole
    translate(model, dies_after=4, stdin=given)
    assert translate(model, "--resume").exit_code == 0  # the same lines as a file
    assert (place / "out").read_bytes() == whole


def test_what_is_left_is_told(model: Path, place: Path) -> None:
    """An error names the part that it leaves if a line is translated; a new start keeps it."""
    unnamed = translate(model, "--resume", "-o", "-").stderr
    assert "--resume needs an output file with one line per input line" in unnamed
    endless = b"x" * (MAX_LINE_BYTES + 1)
    failed = translate(model, stdin=b"\n".join([*LINES[:20], endless]))
    assert failed.exit_code == 1 and re.search(r"are kept in \S+\.out\.part\n", failed.stderr)
    refused = translate(model)
    assert refused.exit_code == 1 and "continue it with --resume, or delete it" in refused.stderr
    assert translate(model, "--resume").exit_code == 0
    assert (place / "out").read_bytes().count(b"\n") == len(LINES)
    early = translate(model, stdin=endless)
    assert early.exit_code == 1 and early.stderr.count("\n") == 1
    assert {path.name for path in place.iterdir()} == {"in", "out"}


def test_a_planted_link_is_not_followed(place: Path) -> None:
    """A link that someone planted is not followed when a file or a lock is written. Whoever may
    write into a folder does not choose what is overwritten elsewhere."""
    victim = place / "victim"
    victim.write_text("precious")
    (place / f".page.{os.getpid()}.tmp").symlink_to(victim)
    with replace_atomically(place / "page") as file:
        file.write(b"x")
    assert (place / "page").read_bytes() == b"x"
    run = place / "run"
    run.mkdir()
    (run / LOCK).symlink_to(victim)
    with pytest.raises(BytenmtError, match="cannot write into"), training_lock(run):
        pass
    assert victim.read_text() == "precious"


def test_kill_9(model: Path, place: Path) -> None:
    """A real death after the first lines: the output is that of a command that lived."""
    (place / "in").write_bytes(b"\n".join(LINES * 20) + b"\n")
    command = ["translate", str(model), "-i", "in", "--buffer-size", "50"]
    command += ["--max-len-a", "1", "--max-len-b", "5", "-o"]
    assert invoke(*command, "whole").exit_code == 0
    part = place / ".out.part"
    child = subprocess.Popen([sys.executable, "-m", "bytenmt", *command, "out", "--resume"])
    while child.poll() is None and (not part.exists() or not part.stat().st_size):
        time.sleep(0.001)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert invoke(*command, "out", "--resume").exit_code == 0
    assert (place / "out").read_bytes() == (place / "whole").read_bytes()
