"""cli/files.py: one writer of an output, resumed with the same options; full disks are named."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import accepted, invoke, refused

from bytenmt.cli.files import naming, output_lock, resumable_writer
from bytenmt.errors import BytenmtError

TRANSLATE = "translate run -i in -o out --max-len-a 0 --max-len-b 3 --buffer-size 7"


@pytest.fixture(autouse=True)
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run and a text."""
    monkeypatch.chdir(tmp_path)
    Path("run").symlink_to(template / "run")
    Path("in").write_text("".join(f"줄 {number}\n" for number in range(40)))
    Path("text.txt").write_text("one\n")
    return tmp_path


WRITERS = [
    (TRANSLATE, "out"),
    (f"{TRANSLATE} --resume", "out"),
    ("translate-file run text.txt out.txt --max-len-a 0 --max-len-b 3", "out.txt"),
    ("convert run -o out.safetensors", "out.safetensors"),
]


@pytest.mark.parametrize(("command", "output"), WRITERS)
def test_a_second_writer_is_refused(command: str, output: str, place: Path) -> None:
    """The first one's lines are untouched, and the lock is gone with it."""
    Path(output).parent.joinpath(f".{output}.part").write_text("mine")
    with output_lock(Path(output)):
        result = invoke(command)
        assert result.exit_code == 1, result.output
        line = f"bytenmt: another command is writing {place / output}: "
        assert result.stderr == f"{line}wait for it, or give another file\n"
    assert Path(f".{output}.part").read_text() == "mine" and not Path(output).exists()
    Path(f".{output}.part").unlink()
    accepted(command)
    assert Path(output).exists() and not list(place.glob(".*"))


def test_a_second_adaptation_is_refused() -> None:
    Path("pairs.tsv").write_text("eins\tone\n")
    with output_lock(Path("new")):
        assert "another command is writing" in invoke("adapt run pairs.tsv -o new").stderr
    assert not Path("new").exists()


def test_the_lock_ends_with_the_process(place: Path) -> None:
    """A file of a killed command is not a lock."""
    program = "import os, sys; from bytenmt.cli.files import output_lock; from pathlib import Path"
    program += "; lock = output_lock(Path('out')); lock.__enter__(); os._exit(1)"
    subprocess.run([sys.executable, "-c", program], check=False)
    assert Path(".out.lock").exists()
    with output_lock(Path("out")):
        pass


def interrupted(*options: tuple[str, object]) -> None:
    """Leave a line in .out.part, as of a command with these options."""
    writing = resumable_writer(Path("out"), False, dict(options))
    with pytest.raises(KeyboardInterrupt), writing as (file, _):
        file.write(b"one\nhalf")
        raise KeyboardInterrupt


def test_options_are_those_of_the_interrupted_command() -> None:
    interrupted(("--beam-size", 4), ("--format", "text"))
    message = "was written with --beam-size 4, not 5: give the same"
    others = resumable_writer(Path("out"), True, {"--beam-size": 5, "--format": "text"})
    with pytest.raises(BytenmtError, match=message), others:
        pass
    assert Path(".out.part").read_bytes() == b"one\nhalf"
    with resumable_writer(Path("out"), True, {"--beam-size": 4, "--format": "text"}) as (file, n):
        file.write(b"two\n")
    assert n == 1 and Path("out").read_bytes() == b"one\ntwo\n" and not Path(".out.part").exists()


def test_unknown_options_are_refused() -> None:
    interrupted(("--beam-size", 4))
    Path(".out.options").unlink()
    resumed = resumable_writer(Path("out"), True, {"--beam-size": 4})
    with pytest.raises(BytenmtError, match="is missing, so nobody knows which options"), resumed:
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "name"),
    [("-b 2", "--beam-size"), ("--format jsonl", "--format"), ("--max-len-b 4", "--max-len-b")],
)
def test_a_resumed_translation_has_the_same_options(more: str, name: str) -> None:
    """Those that change nothing, such as the number of threads, may be others."""
    command = f"{TRANSLATE} --resume"
    accepted(TRANSLATE)
    whole = Path("out").read_bytes()
    Path("out").unlink()
    child = "import os; from bytenmt.cli import line_filter as f; real = f.LineFilter._answer\n"
    child += "def answer(self, *given):\n    real(self, *given); os._exit(9)\n"
    child += "f.LineFilter._answer = answer\nfrom bytenmt.cli.main import main\n"
    child += f"main({TRANSLATE.split()!r})"
    subprocess.run([sys.executable, "-c", child], check=False)
    Path(".out.lock").unlink()
    part = Path(".out.part").read_bytes()
    assert part.count(b"\n") == 7
    assert f"was written with {name} " in refused(f"{command} {more}")
    assert Path(".out.part").read_bytes() == part
    accepted(f"{command} --threads 2 --buffer-size 9")
    assert Path("out").read_bytes() == whole


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_a_full_disk_is_named() -> None:
    line = "/dev/full: No space left on device"
    assert line in invoke("translate run -i in -o /dev/full --max-len-a 0 --max-len-b 3").stderr
    with pytest.raises(OSError, match="'out'"), naming("out"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(OSError) as other, naming("out"):
        raise OSError(errno.EIO, "bad input")
    assert other.value.filename is None


def test_an_empty_file_is_like_an_empty_stream(place: Path) -> None:
    """-i empty gives an empty output, as < empty does; what is scored must have lines."""
    Path("empty").touch()
    assert accepted("translate run -i empty") == ""
    accepted("translate run -i empty -o out")
    assert Path("out").read_bytes() == b"" and not list(place.glob(".*"))
    assert "empty is empty" in refused("evaluate run --src empty --ref empty")


@pytest.mark.parametrize(
    ("stored", "changes"), [("{}", ""), ('{"no_repeat_ngram_size": 2}', "--no-repeat-ngram-size 2")]
)
def test_search_defaults_may_be_some(stored: str, changes: str, template: Path) -> None:
    """The fields that search.json lacks have the usual defaults."""
    command = "translate {} -i in --beam-size 3 --max-len-a 0 --max-len-b 9 {}"
    expected = accepted(command.format("run", changes))
    shutil.copytree(template / "run", "tuned")
    Path("tuned/search.json").write_text(stored)
    assert accepted(command.format("tuned", "")) == expected


def test_a_byte_order_mark_is_no_part_of_a_configuration(template: Path) -> None:
    """Some editors begin a file with it."""
    Path("own.toml").write_text("[train]\nmax_updates = true\n", encoding="utf-8-sig")
    text = "train -o new --arch luong --text in --valid-text in --config own.toml"
    assert "train.max_updates" in refused(text)
