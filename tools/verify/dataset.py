"""Kill a Ray data set job's actors and drivers at random moments; check that no row is lost or changed.

    nice python tools/verify/dataset.py --model RUN
    nice python tools/verify/dataset.py --model RUN --lines 1000000 --block-bytes 262144 --kills 5

The lines of --src, repeated to --lines rows with ids, are translated undisturbed by `translate` in one
process of two threads, by `translate --workers 2`, and by `translate-dataset` on a local Ray: their rates
including the start are printed, and their rows compared. Then a job is run in which --kills actors and as
many drivers are killed by SIGKILL in turn, each at a moment drawn uniformly from an interval of the start-up
time plus about twice a kill's share of the remaining work; a job whose driver was killed is continued by
--resume. Unknown options are passed to all commands. Prints a line for each kill and a summary; exits with 1
where a row is lost, duplicated, out of order or different.

Needs the extra `ray`. Kills only processes that it has started.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

PROGRAM = [sys.executable, "-m", "bytenmt"]
DATA = Path(__file__).parents[2] / "data"
FILES = 4  # files of the input data set
PATIENCE = 120.0  # timeout in seconds for the start of an actor and for the end of Ray's processes
ACTOR = b"TranslateActor"


def write_rows(folder: Path, lines: Sequence[str]) -> None:
    """Write the lines as a folder of JSON lines files, with the number of each row as its id."""
    folder.mkdir()
    for number in range(FILES):
        first, last = (len(lines) * at // FILES for at in (number, number + 1))
        with open(folder / f"{number}.jsonl", "w", encoding="utf-8") as file:
            for index in range(first, last):
                file.write(json.dumps({"id": index, "text": lines[index]}, ensure_ascii=False) + "\n")


def read_rows(folder: Path) -> Iterator[tuple[int, str, str | None]]:
    """Yield id, text and translation of each row, in the order of the output parts."""
    for part in sorted(folder.glob("part-*")):
        for line in part.read_bytes().splitlines():
            row = json.loads(line)
            yield row["id"], row["text"], row["translation"]


def rows_equal(folder: Path, lines: Sequence[str], translations: Sequence[str]) -> bool:
    """Check that a data set has each row once, in order, with its translation; print the first difference."""
    n_rows = 0
    for expected, row in enumerate(read_rows(folder)):
        n_rows += 1
        if expected >= len(lines) or row != (expected, lines[expected], translations[expected]):
            print(f"row {expected} is {row}", flush=True)
            return False
    if n_rows != len(lines):
        print(f"{n_rows:,} rows of {len(lines):,}", flush=True)
    return n_rows == len(lines)


def seconds_of(command: Sequence[str]) -> float:
    """Return the seconds that an undisturbed command takes. Raises RuntimeError if it fails."""
    started = time.monotonic()
    child = start_child(command)
    _, stderr = child.communicate()
    if child.returncode:
        raise RuntimeError(stderr.decode())
    return time.monotonic() - started


def time_first_block(command: Sequence[str], out: Path) -> tuple[float, float]:
    """Run a job; return the seconds until its first block and until all are finished. Raises RuntimeError."""
    started, first = time.monotonic(), 0.0
    driver = start_child(command)
    while driver.poll() is None:
        if not first and n_finished_blocks(out):
            first = time.monotonic() - started
        time.sleep(0.1)
    wait_for_end(driver)
    return first, time.monotonic() - started


def start_child(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, as Ray kills the process group of a dead driver."""
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def descendants(pid: int) -> dict[int, bytes]:
    """Return the command lines of a process' descendants by process id."""
    parents, names = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
                names[int(folder.name)] = (folder / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
    found: dict[int, bytes] = {}
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        children = [child for child, parent in parents.items() if parent == one and child in names]
        found |= {child: names[child] for child in children}
        waiting += children
    return found


def kill_actor(driver: subprocess.Popen[bytes], draw: random.Random) -> bool:
    """Kill one of a job's actors once there is one; return whether that was before the job ended."""
    until = time.monotonic() + PATIENCE
    while driver.poll() is None and time.monotonic() < until:
        actors = [pid for pid, name in descendants(driver.pid).items() if ACTOR in name]
        if actors:
            os.kill(draw.choice(actors), signal.SIGKILL)
            return True
        time.sleep(0.1)
    return False


def kill_driver(driver: subprocess.Popen[bytes]) -> bool:
    """Kill a job's driver and wait until Ray's processes are gone; return whether it was still running."""
    started = descendants(driver.pid)
    if driver.poll() is not None:
        return False
    driver.kill()
    driver.communicate()
    until = time.monotonic() + PATIENCE
    while any(left := [pid for pid in started if Path(f"/proc/{pid}").exists()]):
        if time.monotonic() > until:
            print(f"{len(left)} of Ray's processes outlive their driver", flush=True)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.1)
    return True


def n_finished_blocks(out: Path) -> int:
    """Return the number of blocks that the job has recorded as finished."""
    try:
        return (out / "_bytenmt" / "finished.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def run_with_kills(
    command: Sequence[str], out: Path, n_kills: int, longest: float, whole: Callable[[], bool]
) -> tuple[int, int, bool]:
    """Run and resume a job until n_kills actors and n_kills drivers were killed and it has ended.

    A job that ends before that is checked and started again. longest: maximum seconds until a kill; whole:
    checks the rows. Returns the numbers of killed actors and drivers, and whether all results were right.
    Raises RuntimeError where a job fails by itself.
    """
    draw = random.Random(1)
    kinds = ["actor", "driver"] * n_kills
    deaths = {"actor": 0, "driver": 0}
    driver, good = None, True
    while kinds:
        if driver is None:
            driver = start_child([*command, "--resume"])
        moment = draw.uniform(0, longest)
        try:
            driver.wait(moment)
        except subprocess.TimeoutExpired:
            was_there = kill_actor(driver, draw) if kinds[0] == "actor" else kill_driver(driver)
            if was_there:
                kind = kinds.pop(0)
                deaths[kind] += 1
                event = f"{kind} killed after {moment:.1f} s, {n_finished_blocks(out)} blocks are noted"
                print(f"death {sum(deaths.values())}: {event}", flush=True)
                driver = None if kind == "driver" else driver
                continue
        wait_for_end(driver)
        good, driver = whole() and good, None
        print(f"it ended, {'equal' if good else 'NOT equal'} row for row, and is started again", flush=True)
        shutil.rmtree(out)
    wait_for_end(driver or start_child([*command, "--resume"]))
    return deaths["actor"], deaths["driver"], whole() and good


def wait_for_end(driver: subprocess.Popen[bytes]) -> None:
    """Wait for a job. Raises RuntimeError where it fails."""
    _, stderr = driver.communicate()
    if driver.returncode:
        raise RuntimeError(stderr.decode())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; unknown options go to the commands."""
    parser = argparse.ArgumentParser(
        description="Kill a Ray data set job at random moments and check its rows."
    )
    parser.add_argument("--model", type=Path, required=True, help="the run to translate with")
    parser.add_argument("--src", type=Path, default=DATA / "train.ko")
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=2, help="number of actors, and of drivers, to kill")
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--block-bytes", type=int, default=8192)
    options, more = parser.parse_known_args(arguments)
    source_lines = options.src.read_text(encoding="utf-8").splitlines()
    lines = [source_lines[index % len(source_lines)] for index in range(options.lines)]
    with tempfile.TemporaryDirectory() as name:
        good = check(Path(name), lines, options, ["-m", str(options.model), *more])
    sys.exit(0 if good else 1)


def check(folder: Path, lines: Sequence[str], options: argparse.Namespace, more: Sequence[str]) -> bool:
    """Check that all commands give the same rows. more: options of every command."""
    write_rows(folder / "in", lines)
    few, many, whole = folder / "few", folder / "many", folder / "whole"
    few.write_text(f"{lines[0]}\n", encoding="utf-8")
    many.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def dataset(out: str) -> list[str]:
        how = ["--actors", str(options.actors), "--block-bytes", str(options.block_bytes)]
        return [*PROGRAM, "translate-dataset", str(folder / "in"), str(folder / out), *how, *more]

    def report(what: str, seconds: float, equal: bool = True) -> None:
        rate = f"{len(lines):,} rows in {seconds:.1f} s, {len(lines) / seconds:,.0f} rows/s"
        print(f"{what}: {rate}, {'equal' if equal else 'NOT equal'} row for row", flush=True)

    translate = [*PROGRAM, "translate", *more, "-o", str(whole), "-i"]
    seconds_of([*translate, str(few)])  # warm-up: compiles the kernels
    report("translate --threads 2", seconds_of([*translate, str(many), "--threads", "2"]))
    translations = whole.read_text(encoding="utf-8").split("\n")[:-1]
    seconds = seconds_of([*translate, str(many), "--workers", "2"])
    by_workers = whole.read_text(encoding="utf-8").split("\n")[:-1] == translations
    report("translate --workers 2", seconds, by_workers)
    start, seconds = time_first_block(dataset("lived"), folder / "lived")
    undisturbed_good = rows_equal(folder / "lived", lines, translations)
    report(
        f"translate-dataset --actors {options.actors}, {start:.1f} s until the first block",
        seconds,
        undisturbed_good,
    )
    # Divided by a few more than all kills, so that usually one job gets all of them.
    longest = 2 * (start + (seconds - start) / (2 * options.kills + 4))
    whole_again = partial(rows_equal, folder / "died", lines, translations)
    actors, drivers, killed_good = run_with_kills(
        dataset("died"), folder / "died", options.kills, longest, whole_again
    )
    print(
        f"{actors} actors and {drivers} drivers killed: {'equal' if killed_good else 'NOT equal'} row for row"
    )
    return by_workers and undisturbed_good and killed_good


if __name__ == "__main__":
    main()
