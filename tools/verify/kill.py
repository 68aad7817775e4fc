"""Kill a translation or a training by SIGKILL at random moments; check that the final output is the same.

    nice python tools/verify/kill.py --model RUN --src data/train.ko --lines 100000
    nice python tools/verify/kill.py

A translation by RUN, `translate -i -o --resume`, has its source repeated to --lines lines; unknown options
are passed to translate. Without --model a small model is trained on a part of the sample, with options for
which a resume must restore all kinds of state; the tensors of the last checkpoint are compared. Each kill
comes at a moment drawn uniformly from an interval of the start-up time plus twice a kill's share of the work.
Prints a line for each kill and a summary; exits with 1 where a byte differs.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

PROGRAM = [sys.executable, "-m", "bytenmt"]
DATA = Path(__file__).parents[2] / "data"
SMALL = [
    "--arch",
    "luong",
    "--preset",
    "tiny",
    "--threads",
    "1",
    "--max-tokens",
    "1000",
    "--set",
    "model.d_hidden=32",
]
OFTEN = [
    "save_every=5",
    "valid_every=20",
    "valid_lines=0",
    "ema=0.9",
    "byte_dropout=0.1",
    "schedule='constant'",
]


def seconds_of(command: Sequence[str]) -> float:
    """Return the seconds that an undisturbed command takes. Raises CalledProcessError."""
    started, quiet = time.monotonic(), subprocess.DEVNULL
    subprocess.run(command, check=True, stdout=quiet, stderr=quiet)
    return time.monotonic() - started


def run_and_kill(command: Sequence[str], moment: float) -> bool:
    """Start a command and kill it after `moment` seconds; return False if it had ended before.

    Raises RuntimeError where it fails by itself.
    """
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        _, stderr_bytes = child.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return True
    if child.returncode:
        raise RuntimeError(stderr_bytes.decode())
    return False


def check(
    name: str,
    command: Sequence[str],
    output: Path,
    n_kills: int,
    longest: float,
    state: Callable[[], str],
    same: Callable[[], bool],
) -> bool:
    """Kill a command n_kills times, restart it after each, let it end, and compare its output.

    A command that ends before it was killed often enough is started again from scratch. longest: maximum
    seconds until a kill; state: describes the unfinished output after each kill; same: compares the finished
    output.
    """
    draw, deaths, n_same, n_ends = random.Random(1), 0, 0, 0
    started = time.monotonic()
    while deaths < n_kills:
        while deaths < n_kills and run_and_kill(command, moment := draw.uniform(0, longest)):
            deaths += 1
            print(f"{name}, death {deaths} after {moment:.2f} s: {state()}", flush=True)
        seconds_of(command)
        n_same, n_ends = n_same + same(), n_ends + 1
        shutil.rmtree(output) if output.is_dir() else output.unlink()
    seconds = time.monotonic() - started
    print(
        f"{name}: {deaths} deaths, {n_ends} times to the end, {n_same} identical, {seconds:.0f} s", flush=True
    )
    return n_same == n_ends


def check_translation(
    folder: Path, run: Path, source: Path, n_lines: int, n_kills: int, more: list[str]
) -> bool:
    """Return whether a killed translation has the bytes of an uninterrupted one."""
    lines = source.read_bytes().splitlines()
    few, many, whole, out = (folder / name for name in ("few", "many", "whole", "out"))
    few.write_bytes(lines[0] + b"\n")
    many.write_bytes(b"".join(lines[index % len(lines)] + b"\n" for index in range(n_lines)))
    command = [*PROGRAM, "translate", "-m", str(run), *more]
    seconds_of([*command, "-i", str(few), "-o", str(whole)])  # warm-up: compiles the kernels
    start = seconds_of([*command, "-i", str(few), "-o", str(whole)])
    seconds = seconds_of([*command, "-i", str(many), "-o", str(whole)])
    print(
        f"translation of {n_lines:,} lines: {seconds:.1f} s, of which the start takes {start:.1f} s",
        flush=True,
    )
    part = folder / ".out.part"

    def state() -> str:
        return f"{part.stat().st_size if part.exists() else 0:,} of {whole.stat().st_size:,} bytes"

    command += ["-i", str(many), "-o", str(out), "--resume"]
    longest = 2 * (start + (seconds - start) / n_kills)
    return check(
        "translation", command, out, n_kills, longest, state, lambda: out.read_bytes() == whole.read_bytes()
    )


def check_training(folder: Path, n_updates: int, n_kills: int) -> bool:
    """Return whether the last checkpoint of a killed training has the tensors of an uninterrupted one."""
    command = [
        *PROGRAM,
        "train",
        *SMALL,
        *(word for setting in OFTEN for word in ("--set", f"train.{setting}")),
    ]
    for side, language in (("src", "ko"), ("tgt", "en")):
        text = folder / side
        text.write_bytes(b"".join((DATA / f"train.{language}").read_bytes().splitlines(True)[:500]))
        command += [f"--{side}", str(text), f"--valid-{side}", str(DATA / f"valid.{language}")]
    command += ["--max-updates", str(n_updates)]
    start = seconds_of([*command, "-o", str(folder / "start"), "--max-updates", "1"])
    seconds = seconds_of([*command, "-o", str(folder / "whole")])
    print(
        f"training of {n_updates} updates: {seconds:.1f} s, of which the start takes {start:.1f} s",
        flush=True,
    )
    run = folder / "run"

    def files(of: Path) -> dict[str, bytes]:
        found = sorted(of.glob("*.safetensors"))
        return {path.name: tensor_bytes(path) for path in found}

    def state() -> str:
        return f"files: {', '.join(sorted(path.name for path in run.glob('*.safetensors'))) or 'none'}"

    longest = 2 * (start + (seconds - start) / n_kills)
    command += ["-o", str(run), "--resume"]
    return check(
        "training", command, run, n_kills, longest, state, lambda: files(run) == files(folder / "whole")
    )


def tensor_bytes(path: Path) -> bytes:
    """Return the data of a weights file without its header, which contains the seconds of training."""
    data = path.read_bytes()
    return data[8 + int.from_bytes(data[:8], "little") :]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; unknown options go to translate."""
    parser = argparse.ArgumentParser(
        description="Kill a translation or training at random moments and compare its output."
    )
    parser.add_argument("--model", type=Path, help="run to translate with; without it a training is killed")
    parser.add_argument("--src", type=Path, default=DATA / "train.ko")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--kills", type=int, default=20)
    options, more = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.model is None:
            good = check_training(folder, options.updates, options.kills)
        else:
            good = check_translation(folder, options.model, options.src, options.lines, options.kills, more)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
