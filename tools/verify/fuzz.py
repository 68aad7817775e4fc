"""Fuzz model files and command lines: nothing may crash the program.

    python tools/verify/fuzz.py --mutations 100000
    python tools/verify/fuzz.py --kind options --mutations 20000
    python tools/verify/fuzz.py --engine torch --mutations 5000
    python tools/verify/fuzz.py --commands --mutations 1000

Each mutation has a number; the same seed, kinds and number give the same mutation: --only 17 tries one alone
and prints it. The kinds, in alternating batches of 25:

    files      run folders and weights files, which the engine reads and translates with
    options    command lines, in the process of the fuzzer

They run in forked children of one warmed-up process. With --engine torch, PyTorch reads the files, and
trainings are resumed from them too. With --commands every mutation is a new process: a command line, or a
command for a mutated run.

A finding is: a signal, a traceback, a warning, more than 10 s of CPU time or 2 GB, a message that is not one
printable line, an undocumented HTTP status, and an output
from a file whose tensors do not match its model, as judged by the safetensors library and PyTorch. Prints
every message with its count; the exit code is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # threads do not survive a fork
    os.environ.setdefault(variable, "1")

import torch  # noqa: E402

from bytenmt.checkpoints.quantize import convert  # noqa: E402
from bytenmt.checkpoints.weights import read_config  # noqa: E402
from bytenmt.cli.main import main as program  # noqa: E402
from bytenmt.config.facts import Facts  # noqa: E402
from bytenmt.config.schema import load_config  # noqa: E402
from bytenmt.decoding.interface import EngineSpec  # noqa: E402
from bytenmt.decoding.loading import load_runs  # noqa: E402
from bytenmt.decoding.translator import Translator  # noqa: E402
from bytenmt.errors import BytenmtError  # noqa: E402
from bytenmt.training.trainer import Trainer  # noqa: E402
from tools.verify.fuzz_children import (  # noqa: E402
    BATCH,
    CPU_SECONDS,
    WALL_FACTOR,
    Outcome,
    judge_message,
    normalize_message,
    run_guarded,
    run_in_children,
)
from tools.verify.fuzz_files import CONFIG, WEIGHTS, Folder, mutate_folder, mutate_weights  # noqa: E402
from tools.verify.fuzz_judge import find_misfit  # noqa: E402
from tools.verify.fuzz_options import Paths, hostile_line, valid_line  # noqa: E402

CPU = torch.device("cpu")
LINES = [b"ab", "é c".encode(), b"ab ab ab"]
MAX_KIB = 2 << 20  # memory limit of a command
# The kinds of consecutive batches.
BATCHES = ["files", "options", "files", "files"]
KINDS = tuple(dict.fromkeys(BATCHES))
SIZES = {
    "seq2seq": ["d_hidden=6", "n_layers=2"],
    "seq2seq-every-step": ["d_hidden=6", 'context="every_step"', "tie_embedding=true"],
    "bahdanau": ["d_hidden=6", "d_attention=5", "d_maxout=4"],
    "luong": ["d_hidden=6"],
    "luong-concat": ["d_hidden=6", 'score="concat"'],
    "bytenet": ["d_channels=6", "n_sets=1", "dilations=[1,2]"],
    "luong-shallow": ["d_hidden=6", "n_encoder_layers=2", "n_decoder_layers=1"],
    "bytenet-add": ["d_channels=6", "n_sets=1", "n_encoder_sets=2", "dilations=[1,2]", 'stacking="add"'],
    "bytenet-multiplicative": ["d_channels=6", "n_sets=1", "dilations=[1,2]", 'block="multiplicative"'],
    "convs2s": ["encoder_layers=[[6,3]]", "decoder_layers=[[6,3],[8,2]]", "n_positions=9"],
    "bytenet-alone": ["d_channels=6", "n_sets=1", "dilations=[1,2]", "source=false"],
    "luong-alone": ["d_hidden=6", "source=false", "input_feeding=false"],
}


class Case(NamedTuple):
    """A valid run: the files of its folder, or a single weights file with the name `weights_file`."""

    files: Folder
    weights_file: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutations", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first mutation")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many seconds")
    parser.add_argument("--only", type=int, help="try only this mutation, and print it")
    parser.add_argument("--kind", action="append", choices=KINDS, help="try only these kinds")
    parser.add_argument("--engine", choices=["numba", "torch"], default="numba")
    parser.add_argument("--commands", action="store_true", help="start a new process for each mutation")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        folder = Path(name)
        kinds = tuple(options.kind or (["files"] if options.engine == "torch" else KINDS))
        fuzzer = Fuzzer(make_cases(folder), folder, options.seed, options.engine, kinds)
        numbers: Sequence[int] = range(options.first, options.first + options.mutations)
        if options.only is not None:
            numbers = [options.only]
            fuzzer.shows_mutations = True
        fuzzer.warm_up()
        began = time.perf_counter()
        outcomes: Iterable[Outcome]
        if options.commands:
            outcomes = (Outcome(number, *fuzzer.run_command(number)) for number in numbers)
        else:
            outcomes = run_in_children(fuzzer.run, numbers, folder)
        n_findings = report(take_until(outcomes, began + options.seconds), folder, began)
    sys.exit(1 if n_findings else 0)


def take_until(outcomes: Iterable[Outcome], end: float) -> Iterator[Outcome]:
    """Yield outcomes until a deadline on the clock of time.perf_counter()."""
    for outcome in outcomes:
        yield outcome
        if time.perf_counter() > end:
            return


def report(outcomes: Iterable[Outcome], folder: Path, began: float) -> int:
    """Print findings as they come and at the end every message with its count. Return the number of findings.

    began: start time on the clock of time.perf_counter().
    """
    kinds, messages, n_seen = Counter[str](), Counter[str](), Counter[str]()
    for outcome in outcomes:
        kinds[outcome.kind] += 1
        text = normalize_message(outcome.message, folder)
        if outcome.is_finding:
            n_seen[text] += 1
            if n_seen[text] <= 3:
                print(f"FINDING {outcome.number}: {outcome.kind}: {outcome.message}", flush=True)
        messages[f"{outcome.kind}: {text}"] += 1
    print("\n" + "\n".join(f"{n:8,}  {kind}" for kind, n in kinds.most_common()))
    print("\n" + "\n".join(f"{n:8,}  {text}" for text, n in messages.most_common()) + "\n")
    n_findings = sum(n for kind, n in kinds.items() if Outcome(0, kind, "").is_finding)
    print(f"{kinds.total():,} mutations in {time.perf_counter() - began:.0f} s, {n_findings} findings")
    return n_findings


def make_cases(folder: Path) -> list[Case]:
    """Write small runs of all architectures, and their weights in other precisions."""
    cases = []
    for name, sizes in SIZES.items():
        run = folder / "valid" / name
        settings = [f"model.{size}" for size in [*sizes, "d_embedding=5"]] + ["train.ema=0.5"]
        config = load_config(name.partition("-")[0], "tiny", "", settings)
        make_run(run, Trainer(config, CPU))
        files = {str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*") if p.is_file()}
        cases.append(Case(files))
        for precision in ("bf16", "int8"):
            file = folder / "valid" / f"{name}.{precision}.safetensors"
            convert(run, file, precision)
            cases.append(Case({file.name: file.read_bytes()}, file.name))
    return cases


def make_run(run: Path, trainer: Trainer) -> Facts:
    """Write a run folder of random weights after one update, and return its facts."""
    from bytenmt.config.schema import config_toml

    run.mkdir(parents=True)
    (run / CONFIG).write_text(config_toml(trainer.config), encoding="utf-8")
    for parameter in trainer.parameters:
        parameter.data.normal_(0, 0.6)
        parameter.grad = torch.zeros_like(parameter)
    trainer.optimizer.step()
    trainer.progress.update = 70
    facts = Facts(pairs=3, source_bytes=9, target_bytes=9)
    trainer.save(run, True, facts)
    return facts


class Fuzzer:
    """Tries mutations by number.

    cases: valid runs. folder: for temporary files. engine: numba or torch. kinds: the kinds of mutations to
    try, of KINDS.
    """

    def __init__(
        self, cases: Sequence[Case], folder: Path, seed: int, engine: str, kinds: Sequence[str]
    ) -> None:
        self._cases, self._folder, self._seed, self._engine = cases, folder, seed, engine
        self._kinds = [kind for kind in BATCHES if kind in kinds]
        self.shows_mutations = False
        text, document = folder / "text", folder / "document.html"
        text.write_bytes(b"\n".join([*LINES, b""]) * 10)
        document.write_bytes(b"<p>One <b>two</b>.</p>")
        valid = folder / "valid"
        self._paths = Paths(valid / "luong", valid / "luong-alone", text, document, folder / "out")

    def warm_up(self) -> None:
        """Compile and import everything that the children will use."""
        for case in self._cases if "files" in self._kinds else ():
            path = self._write(case.files, case.weights_file)
            find_misfit(path if case.weights_file else path / WEIGHTS)
            for engine in ("numba", self._engine):
                self._translate(path, random.Random(0), engine)

    def run(self, number: int) -> tuple[str, str]:
        """Try one mutation in this process; return kind and message of its outcome."""
        chance = random.Random(f"{self._seed} {number}")
        kind = self._kinds[number // BATCH % len(self._kinds)]
        attempts: dict[str, Callable[[random.Random], tuple[str, str]]] = {
            "files": self._run_file,
            "options": self._run_options,
        }
        return run_guarded(lambda: attempts[kind](chance), BytenmtError)

    def _run_file(self, chance: random.Random) -> tuple[str, str]:
        path = self._mutate_run(chance)
        if self._engine == "torch" and path.is_dir() and chance.random() < 0.4:
            return self._resume_training(path)
        return self._translate(path, chance, self._engine)

    def _run_options(self, chance: random.Random) -> tuple[str, str]:
        """Run a command line in this process, with its standard streams redirected to files."""
        words = hostile_line(self._paths, chance)
        self._show(words)
        self._empty_out()
        os.chdir(self._paths.out)  # some option values are names of files to write
        log = self._folder / "log"
        streams = [os.open(self._paths.text, os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)]
        streams.append(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        code: Any = 0
        try:
            program.main(args=words, prog_name="bytenmt")
        except SystemExit as end:
            code = end.code
        sys.stderr.flush()
        return _judge_command(code or 0, log.read_text(encoding="utf-8", errors="replace"))

    def run_command(self, number: int) -> tuple[str, str]:
        """Try one mutation in a process of its own: a command line, or a command for a mutated file."""
        chance = random.Random(f"{self._seed} {number} command")
        kinds: list[Callable[[random.Random], list[str]]] = [
            self._line_with_mutated_run,
            lambda chance: hostile_line(self._paths, chance),
        ]
        words = kinds[number % len(kinds)](chance)
        self._show(words)
        self._empty_out()
        log = self._folder / "log"
        with self._paths.text.open("rb") as text, log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "bytenmt", *(word.replace("\0", "") for word in words)],
                stdin=text, stdout=subprocess.DEVNULL, stderr=output, preexec_fn=_limit, cwd=self._paths.out,
            )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if usage.ru_maxrss > MAX_KIB:
            return "memory", f"{usage.ru_maxrss >> 10} MiB: {words[0]}"
        return _judge_command(process.returncode, log.read_text(encoding="utf-8", errors="replace"))

    def _line_with_mutated_run(self, chance: random.Random) -> list[str]:
        path = self._mutate_run(chance)
        paths = self._paths._replace(run=path, language=path)
        commands = ["translate", "translate", "info", "convert", "evaluate"]
        return valid_line(chance.choice(commands), paths)

    def _mutate_run(self, chance: random.Random) -> Path:
        """Write a mutated run folder or weights file and return its path."""
        case = chance.choice(self._cases)
        if case.weights_file:
            files = dict(case.files)
            mutate_weights(files, case.weights_file, chance)
        else:
            files = mutate_folder(case.files, chance)
        self._show(
            [f"{name}: {data[:3000]!r}" for name, data in files.items() if data != case.files.get(name)]
        )
        return self._write(files, case.weights_file)

    def _write(self, files: Folder, weights_file: str) -> Path:
        run = self._folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        for name, data in files.items():
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).write_bytes(data)
        return run / weights_file if weights_file else run

    def _translate(self, path: Path, chance: random.Random, engine: str) -> tuple[str, str]:
        """Read a run and translate; judge whether it should have been refused."""
        precision = chance.choice(["auto", "fp32", "bf16", "int8"]) if engine == "numba" else "auto"
        beam = chance.choice([1, 1, 3])
        runtime = load_runs([path], EngineSpec(engine, "cpu", precision, threads=1))
        sample: dict[str, Any] = {"sample": True} if chance.random() < 0.2 else {}
        translator = Translator.from_runtime(runtime, beam=beam, max_len_a=1.0, max_len_b=6, **sample)
        translator.n_best(LINES)
        problem = find_misfit(runtime.runs[0].file)
        return ("misfit", problem) if problem else ("output", "")

    def _resume_training(self, path: Path) -> tuple[str, str]:
        """Load a run's trainer and make an update with zero gradients."""
        trainer = Trainer(read_config(path), CPU)
        trainer.load(path)
        for parameter in trainer.parameters:
            parameter.grad = torch.zeros_like(parameter)
        trainer.optimizer.step()
        return "output", ""

    def _empty_out(self) -> None:
        shutil.rmtree(self._paths.out, ignore_errors=True)
        self._paths.out.mkdir()

    def _show(self, lines: Sequence[str]) -> None:
        if self.shows_mutations:
            print("\n".join(lines), flush=True)


def _limit() -> None:
    """Limit the CPU seconds and the wall-clock seconds of this process, and forbid core files."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    signal.alarm(CPU_SECONDS * WALL_FACTOR)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _judge_command(code: int, text: str) -> tuple[str, str]:
    """Return kind and message of a command's outcome, from its exit code and stderr."""
    lines = text.splitlines() or [""]
    if code in (-signal.SIGXCPU, -signal.SIGALRM):
        return "time", f"exit code {code}"
    if code < 0:
        return "signal", f"exit code {code}"
    if "Traceback" in text or "Warning" in text:
        return "traceback", text[-1_000:]
    if code == 0:
        return "output", lines[0] if text else ""
    if code == 2:
        return ("usage" if lines[-1].startswith("Error: ") else "words"), lines[-1]
    if code != 1 or not lines[-1].startswith("bytenmt: "):
        return "exit", f"exit code {code}: {text[-300:]!r}"
    return judge_message(lines[-1])


if __name__ == "__main__":
    main()
