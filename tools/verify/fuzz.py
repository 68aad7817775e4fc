"""A fuzzer of run folders, weights files, draft tables and option values: none may crash the program.

    python tools/verify/fuzz.py --mutations 100000
    python tools/verify/fuzz.py --engine torch --mutations 5000
    python tools/verify/fuzz.py --commands --mutations 1000

Each mutation has a number, and the same seed and number make the same one: --only 17 tries one alone and
shows what it was. By default four of five are files that the CPU engine reads and translates with, and one is
a command line, all in forked children of one warmed process; --engine torch reads the files by PyTorch, and
takes up training too; --commands starts the program anew for each. A finding is: a signal, a traceback, a
warning, more than 10 s or 2 GB, words that are not one clean line, and an output from a file whose tensors
are not those of its model, which is judged by the safetensors library and a model of PyTorch's. Ends with 1
where there is a finding, and prints the distinct messages with how often they came.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # threads do not live on in a forked child
    os.environ.setdefault(variable, "1")

import torch  # noqa: E402

from bytenmt.cli.main import main as program  # noqa: E402
from bytenmt.config.facts import Facts  # noqa: E402
from bytenmt.config.schema import load_config  # noqa: E402
from bytenmt.decoding.interface import EngineSpec  # noqa: E402
from bytenmt.decoding.loading import load_runs  # noqa: E402
from bytenmt.decoding.translator import Translator  # noqa: E402
from bytenmt.errors import BytenmtError  # noqa: E402
from bytenmt.speculative.counting import counted  # noqa: E402
from bytenmt.speculative.table import write as write_drafts  # noqa: E402
from bytenmt.storage.quantize import convert  # noqa: E402
from bytenmt.storage.weights import read_config  # noqa: E402
from bytenmt.training.trainer import Trainer  # noqa: E402
from tools.verify.fuzz_children import SECONDS, WAITING, Outcome, guarded, normalised, outcomes, said  # noqa: E402
from tools.verify.fuzz_files import CONFIG, WEIGHTS, Folder, changed, weights_changed  # noqa: E402
from tools.verify.fuzz_judge import fits  # noqa: E402
from tools.verify.fuzz_options import Places, good, line  # noqa: E402

CPU = torch.device("cpu")
LINES = [b"ab", "é c".encode(), b"ab ab ab"]
MEMORY = 2 << 20  # KiB of a whole command
EVERY = 5  # so manieth mutation is a command line
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
    """A good run: its folder's files; or one weights file alone."""

    files: Folder
    alone: str = ""  # its name, where it is a weights file


def main() -> None:
    """Mutate, try, count, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutations", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="The number of the first one.")
    parser.add_argument("--only", type=int, help="Try this one, and show it.")
    parser.add_argument("--engine", choices=["numba", "torch"], default="numba")
    parser.add_argument("--every", type=int, default=EVERY, help="So manieth is a command line; 0: none.")
    parser.add_argument("--commands", action="store_true", help="Start the program anew for each.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        place = Path(name)
        cases = make_cases(place)
        every = 0 if options.engine == "torch" else options.every
        fuzzer = Fuzzer(cases, place, options.seed, options.engine, every)
        task = fuzzer.command if options.commands else fuzzer.forked
        numbers: Sequence[int] = range(options.first, options.first + options.mutations)
        if options.only is not None:
            numbers = [options.only]
            fuzzer.shows = True
        fuzzer.warm_up()
        started = time.perf_counter()
        found = (
            (Outcome(number, *task(number)) for number in numbers)
            if options.commands
            else outcomes(task, numbers, place)
        )
        findings = report(found, place)
        print(f"{len(numbers):,} mutations in {time.perf_counter() - started:.0f} s, {findings} findings")
    sys.exit(1 if findings else 0)


def report(found: Any, place: Path) -> int:
    """Print findings as they come, at the end what was said how often; returns how many findings."""
    kinds, messages, seen = Counter[str](), Counter[str](), Counter[str]()
    for outcome in found:
        kinds[outcome.kind] += 1
        text = normalised(outcome.message, place)
        if outcome.is_finding:
            seen[text] += 1
            if seen[text] <= 3:
                print(f"FINDING {outcome.number}: {outcome.kind}: {outcome.message}", flush=True)
        messages[f"{outcome.kind}: {text}"] += 1
    print("\n" + "\n".join(f"{n:8,}  {kind}" for kind, n in kinds.most_common()))
    print("\n" + "\n".join(f"{n:8,}  {text}" for text, n in messages.most_common()) + "\n")
    return sum(n for kind, n in kinds.items() if Outcome(0, kind, "").is_finding)


def make_cases(place: Path) -> list[Case]:
    """Small runs of all architectures as training leaves them, with drafts, and their converted weights."""
    cases = []
    for name, sizes in SIZES.items():
        run = place / "good" / name
        settings = [f"model.{size}" for size in [*sizes, "d_embedding=5"]] + ["train.ema=0.5"]
        config = load_config(name.partition("-")[0], "tiny", "", settings)
        facts = make_run(run, Trainer(config, CPU))
        if config.model.__struct_config__.tag in ("bytenet", "convs2s"):
            texts = [b"abc abd ab", "é été".encode()] * 30
            write_drafts(run, counted(texts, texts if config.model.source else None, slots=16), config, facts)
        files = {str(p.relative_to(run)): p.read_bytes() for p in run.rglob("*") if p.is_file()}
        cases.append(Case(files))
        for precision in ("bf16", "int8"):
            file = place / "good" / f"{name}.{precision}.safetensors"
            convert(run, file, precision)
            cases.append(Case({file.name: file.read_bytes()}, file.name))
    return cases


def make_run(run: Path, trainer: Trainer) -> Facts:
    """A run folder of random weights after an update; returns its facts."""
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
    """Mutations by number. every: so manieth is a command line, none for 0; shows: tell what each was."""

    def __init__(self, cases: Sequence[Case], place: Path, seed: int, engine: str, every: int) -> None:
        self._cases, self._place, self._seed, self._engine, self._every = cases, place, seed, engine, every
        self.shows = False
        text = place / "text"
        text.write_bytes(b"\n".join([*LINES, b""]) * 10)
        good_runs = place / "good"
        self._at = Places(good_runs / "luong", good_runs / "luong-alone", text, place / "out")

    def warm_up(self) -> None:
        """Compile and import what children will use."""
        for case in self._cases:
            path = self._written(case.files, case.alone)
            fits(path if case.alone else path / WEIGHTS)
            for engine in ("numba", self._engine):
                self._translated(path, random.Random(0), engine)

    def forked(self, number: int) -> tuple[str, str]:
        """One mutation, in this process."""
        chance = random.Random(f"{self._seed} {number}")
        if self._every and number % self._every == 0:
            return self._line(chance)
        path = self._mutated(chance)
        if self._engine == "torch" and path.is_dir() and chance.random() < 0.4:
            return guarded(lambda: self._taken_up(path), BytenmtError)
        return guarded(lambda: self._translated(path, chance, self._engine), BytenmtError)

    def command(self, number: int) -> tuple[str, str]:
        """One mutation, as a command of its own: of a file or of options."""
        chance = random.Random(f"{self._seed} {number} command")
        words = line(self._at, chance) if number % 2 else self._good_line(chance)
        self._tell(words)
        self._empty_out()
        log = self._place / "said"
        with self._at.text.open("rb") as text, log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "bytenmt", *(word.replace("\0", "") for word in words)],
                stdin=text, stdout=subprocess.DEVNULL, stderr=output, preexec_fn=_limited, cwd=self._at.out,
            )  # fmt: skip
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if usage.ru_maxrss > MEMORY:
            return "memory", f"{usage.ru_maxrss >> 10} MiB: {words[0]}"
        return _judged(process.returncode, log.read_text(encoding="utf-8", errors="replace"))

    def _line(self, chance: random.Random) -> tuple[str, str]:
        """A command line in this process, its standard streams in files."""
        words = line(self._at, chance)
        self._tell(words)
        self._empty_out()
        os.chdir(self._at.out)  # some values are names of files to write
        log = self._place / "said"
        streams = [os.open(self._at.text, os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)]
        streams.append(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)

        def attempt() -> tuple[str, str]:
            code: Any = 0
            try:
                program.main(args=words, prog_name="bytenmt")
            except SystemExit as end:
                code = end.code
            sys.stderr.flush()
            return _judged(code or 0, log.read_text(encoding="utf-8", errors="replace"))

        return guarded(attempt, BytenmtError)

    def _good_line(self, chance: random.Random) -> list[str]:
        """A command that works, on a mutated file."""
        path = self._mutated(chance)
        at = self._at._replace(run=path, language=path)
        return good(chance.choice(["translate", "translate", "info", "convert", "average", "score"]), at)

    def _mutated(self, chance: random.Random) -> Path:
        """A case with something wrong, written: a run folder, or a weights file."""
        case = chance.choice(self._cases)
        if case.alone:
            files = dict(case.files)
            weights_changed(files, case.alone, chance)
        else:
            files = changed(case.files, chance)
        self._tell(
            [f"{name}: {data[:3000]!r}" for name, data in files.items() if data != case.files.get(name)]
        )
        return self._written(files, case.alone)

    def _written(self, files: Folder, alone: str) -> Path:
        run = self._place / "run"
        shutil.rmtree(run, ignore_errors=True)
        for name, data in files.items():
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).write_bytes(data)
        return run / alone if alone else run

    def _translated(self, path: Path, chance: random.Random, engine: str) -> tuple[str, str]:
        """Read it and translate; whether it should have been refused."""
        precision = chance.choice(["auto", "fp32", "bf16", "int8"]) if engine == "numba" else "auto"
        beam = chance.choice([1, 1, 3])
        runtime = load_runs([path], EngineSpec(engine, "cpu", precision, threads=1))
        sample: dict[str, Any] = {"sample": True} if chance.random() < 0.2 else {}
        translator = Translator.of_runtime(runtime, beam=beam, max_len_a=1.0, max_len_b=6, **sample)
        translator.n_best(LINES)
        problem = fits(runtime.runs[0].file)
        return ("misfit", problem) if problem else ("output", "")

    def _taken_up(self, path: Path) -> tuple[str, str]:
        """Go on with its training, for an update without gradients."""
        trainer = Trainer(read_config(path), CPU)
        trainer.load(path)
        for parameter in trainer.parameters:
            parameter.grad = torch.zeros_like(parameter)
        trainer.optimizer.step()
        return "output", ""

    def _empty_out(self) -> None:
        shutil.rmtree(self._at.out, ignore_errors=True)
        self._at.out.mkdir()

    def _tell(self, what: Sequence[str]) -> None:
        if self.shows:
            print("\n".join(what), flush=True)


def _limited() -> None:
    """Of a whole command: seconds of the processor, and by the clock."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    signal.alarm(SECONDS * WAITING)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _judged(code: int, text: str) -> tuple[str, str]:
    """How a command ended, from its exit code and its stderr."""
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
    return said(lines[-1])


if __name__ == "__main__":
    main()
