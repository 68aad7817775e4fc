"""Search for the best training options by successive halving, on a budget of CPU minutes and validation text.

    python tools/tune.py --arch bahdanau --preset tiny --src data/train.ko --tgt data/train.en \\
        --valid-src data/valid.ko --valid-tgt data/valid.en -o tuning/bahdanau --cpu-minutes 40

A trial is a set of options that Optuna draws from the ranges of --vary. The first trial is the unchanged
preset, the next ones are those of --try. Each trial is trained for the minutes of the first rung, with a
schedule that ends there; while it is among the best third of the trials so far, it is trained from scratch
for each longer rung. The folder -o gets trials.md and trials.json (best first), trials.png, and study.log,
from which the same command resumes after an interruption, until all trials together have taken
--cpu-minutes. --program rival tunes tools/rival/train.py in the same way; all other arguments are passed to
the training as they are. Needs Optuna: pip install 'bytenmt[tune]'.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

RUNGS = (1.0, 3.0, 9.0)  # CPU minutes
FASTER = 3  # reduction factor: each rung is 3 times as long, and the best third of the trials enters it
WEIGHTS = ("checkpoint.pt", "*.safetensors")  # files of a run that are deleted after training
DIVERGED = 8.0  # bits per byte of a uniform distribution, recorded for a training that diverged


class Program(NamedTuple):
    """A training program to tune.

    words: the arguments of Python. once: arguments that make it validate and save only at its end. setting:
    the words that set one option, with {key} and {value}. varied: the ranges to search by default.
    """

    words: tuple[str, ...]
    once: tuple[str, ...]
    setting: tuple[str, ...]
    varied: tuple[str, ...]


def _set(*settings: str) -> tuple[str, ...]:
    return tuple(word for setting in settings for word in ("--set", setting))


PROGRAMS = {
    "bytenmt": Program(
        ("-m", "bytenmt", "train"),
        _set("train.valid_every=1000000", "train.save_every=1000000", "train.valid_lines=0"),
        _set("{key}={value}"),
        ("train.optimizer=adamw|muon", "train.lr=2e-3..1.6e-2", "train.max_tokens=1250|2500|5000"),
    ),
    "rival": Program(
        (str(Path(__file__).resolve().parent / "rival/train.py"),),
        ("--valid-every", "1000000", "--save-every", "1000000"),
        ("--{key}", "{value}"),
        (
            "optimizer=adamw|muon",
            "lr=5e-4..8e-3",
            "d-model=128|192|256|384",
            "layers=2|3|4|6",
            "ff=2|4",
            "vocabulary=1000|2000|4000|8000",
            "max-tokens=500|1000|2000|4000",
            "dropout=0|0.1|0.2|0.3",
            "label-smoothing=0|0.1",
        ),
    ),
}


class Range(NamedTuple):
    """The values of an option: from low to high, drawn on a log scale; or one of choices."""

    key: str
    low: float = 0.0
    high: float = 0.0
    choices: tuple[str, ...] = ()

    @staticmethod
    def parse(text: str) -> Range:
        """Parse `key=low..high` or `key=a|b|c`. Raises ValueError."""
        key, _, values = text.partition("=")
        if ".." in values:
            low, high = (float(value) for value in values.split(".."))
            if not 0 < low < high:
                raise ValueError(f"{text}: expected 0 < low < high")
            return Range(key, low, high)
        if not key or not values:
            raise ValueError(f"{text}: expected key=low..high or key=a|b|c")
        return Range(key, choices=tuple(values.split("|")))

    def draw(self, trial: Trial) -> str:
        """Return a value, formatted for the command line."""
        if self.choices:
            return str(trial.suggest_categorical(self.key, self.choices))
        return f"{trial.suggest_float(self.key, self.low, self.high, log=True):.3g}"


def parse_settings(text: str, ranges: Sequence[Range]) -> dict[str, Any]:
    """Parse `key=value,key=value` into the parameters of an Optuna trial. Raises ValueError."""
    known, found = {one.key: one for one in ranges}, {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        one = known.get(key)
        if one is None or (one.choices and value not in one.choices):
            raise ValueError(f"--try {part}: expected one of {', '.join(known)} and a value that is varied")
        found[key] = value if one.choices else float(value)
    return found


class RungResult(NamedTuple):
    """The result of one training: validation bits per byte, number of updates, and CPU seconds."""

    bits: float
    updates: int
    seconds: float


class Training:
    """Trainings of one architecture on one corpus, each cached in a folder named after its options."""

    def __init__(self, folder: Path, program: Program, arguments: Sequence[str], seed: int) -> None:
        self.folder, self.program, self.arguments, self.seed = folder, program, arguments, seed

    def run(self, settings: Mapping[str, str], minutes: float) -> RungResult:
        """Train for a number of CPU minutes with some options set.

        A training that diverges counts as DIVERGED. Raises RuntimeError where training fails for another
        reason.
        """
        chosen = [f"{key}={value}" for key, value in settings.items()]
        name = hashlib.sha256(json.dumps([self.arguments, self.seed, minutes, *chosen]).encode()).hexdigest()
        run = self.folder / "runs" / name[:12]
        result = run / "result.json"
        if result.is_file():
            return RungResult(**json.loads(result.read_text(encoding="utf-8")))
        shutil.rmtree(run, ignore_errors=True)
        words = [sys.executable, *self.program.words, "-o", str(run), *self.arguments]
        words += ["--max-updates", "0", "--max-minutes", str(minutes), "--seed", str(self.seed)]
        words += self.program.once
        for key, value in settings.items():
            words += [word.format(key=key, value=value) for word in self.program.setting]
        before = _children_seconds()
        ended = subprocess.run(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
        )
        seconds = _children_seconds() - before
        if ended.returncode and "diverged" not in ended.stderr:
            raise RuntimeError(ended.stderr.strip() or f"training ended with {ended.returncode}")
        bits, updates = DIVERGED, 0
        if not ended.returncode:
            lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
            last = [record for record in map(json.loads, lines) if "valid_bits_per_byte" in record][-1]
            bits, updates = last["valid_bits_per_byte"], last["update"]
        for weights in WEIGHTS:
            for path in run.glob(weights):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        run.mkdir(parents=True, exist_ok=True)
        found = RungResult(min(bits, DIVERGED), updates, seconds)
        result.write_text(json.dumps(found._asdict()), encoding="utf-8")
        return found


def tune(
    folder: Path,
    training: Training,
    ranges: Sequence[Range],
    rungs: Sequence[float],
    minutes: float,
    seed: int,
    first: Sequence[Mapping[str, Any]] = (),
) -> list[FrozenTrial]:
    """Run trials until they have taken a number of CPU minutes; return all trials of the study, best first.

    Trials that reached the longest rung come first, by their bits per byte. first: parameters to try after
    the preset.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=6, multivariate=True)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(folder / "study.log"))),
        study_name="tune",
        load_if_exists=True,
        sampler=sampler,
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=FASTER),
    )
    for trial in study.get_trials(states=(TrialState.RUNNING,)):  # interrupted by the end of an earlier call
        study.tell(trial.number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params, user_attrs=_preset_attrs(trial))
    if not study.trials:
        study.enqueue_trial({}, user_attrs={"preset": True})
        for params in first:
            study.enqueue_trial(dict(params))

    def objective(trial: Trial) -> float:
        settings = {} if _preset_attrs(trial) else {one.key: one.draw(trial) for one in ranges}
        bits = DIVERGED
        for number, rung in enumerate(rungs):
            found = training.run(settings, rung)
            bits = found.bits
            trial.set_user_attr(f"rung {number}", found._asdict())
            description = " ".join(f"{key}={value}" for key, value in settings.items()) or "preset"
            print(f"trial {trial.number}, {rung:g} min: {bits:.4f}  {description}", flush=True)
            trial.report(bits, FASTER**number)
            if number + 1 < len(rungs) and trial.should_prune():
                raise optuna.TrialPruned
        return bits

    while total_cpu_seconds(study.trials) < 60 * minutes:
        study.optimize(objective, n_trials=1)
    return rank_trials(study.trials)


def rung_results(trial: FrozenTrial) -> list[RungResult]:
    """Return the results of a trial's trainings, shortest first."""
    found = [RungResult(**value) for name, value in trial.user_attrs.items() if name.startswith("rung ")]
    return sorted(found, key=lambda rung: rung.seconds)


def total_cpu_seconds(trials: Sequence[FrozenTrial]) -> float:
    """Return the CPU seconds of all trainings together."""
    return sum(rung.seconds for trial in trials for rung in rung_results(trial))


def rank_trials(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Return the trials that were trained, best first."""
    done = [trial for trial in trials if rung_results(trial) and trial.state != TrialState.FAIL]
    return sorted(done, key=lambda trial: (-len(rung_results(trial)), rung_results(trial)[-1].bits))


def write(folder: Path, trials: Sequence[FrozenTrial], rungs: Sequence[float]) -> None:
    """Write trials.md, trials.json and trials.png."""
    keys = sorted({key for trial in trials for key in trial.params})
    head = ["trial", *(f"bits/byte at {rung:g} min" for rung in rungs), "updates", *keys]
    rows = []
    for trial in trials:
        bits = [f"{rung.bits:.4f}" for rung in rung_results(trial)]
        values = [_format_value(trial.params[key]) if key in trial.params else "preset" for key in keys]
        blank = [""] * (len(rungs) - len(bits))
        rows.append([str(trial.number), *bits, *blank, str(rung_results(trial)[-1].updates), *values])
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    (folder / "trials.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    records: list[dict[str, Any]] = [
        {
            "trial": trial.number,
            "params": trial.params,
            "rungs": [rung._asdict() for rung in rung_results(trial)],
        }
        for trial in trials
    ]
    (folder / "trials.json").write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    _draw(folder / "trials.png", trials, [key for key in keys if key in ("train.lr", "lr")])


def _draw(path: Path, trials: Sequence[FrozenTrial], keys: Sequence[str]) -> None:
    """Plot bits per byte over the learning rate: a colour per optimiser, larger dots for longer rungs."""
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(7, 4.5))).add_subplot()
    for optimizer, colour in (("adamw", "tab:blue"), ("muon", "tab:red")):
        chosen = [t for t in trials if keys and _optimizer(t) == optimizer]
        points = [
            (t.params[keys[0]], rung.bits, n)
            for t in chosen
            if t.params
            for n, rung in enumerate(rung_results(t))
        ]
        if points:
            x, y, n = zip(*points, strict=True)
            axes.scatter(x, y, s=[15 * (1 + 2 * k) for k in n], color=colour, alpha=0.6, label=optimizer)
    axes.set(xscale="log", xlabel="learning rate", ylabel="validation bits per byte")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")


def _optimizer(trial: FrozenTrial) -> str:
    return str(trial.params.get("train.optimizer", trial.params.get("optimizer", "adamw")))


def _preset_attrs(trial: Trial | FrozenTrial) -> dict[str, Any]:
    """Return the user attribute that marks the preset's trial; empty for all others."""
    return {name: value for name, value in trial.user_attrs.items() if name == "preset"}


def _format_value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _children_seconds() -> float:
    """Return the CPU seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the study")
    parser.add_argument(
        "--program", choices=PROGRAMS, default="bytenmt", help="program to tune (%(default)s)"
    )
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=LOW..HIGH | KEY=A|B")
    parser.add_argument("--try", action="append", default=[], metavar="KEY=VALUE,...", dest="first")
    parser.add_argument(
        "--rungs", default=",".join(f"{rung:g}" for rung in RUNGS), help="CPU minutes of each rung"
    )
    parser.add_argument("--cpu-minutes", type=float, default=40.0, help="budget of all trainings together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    args, training_args = parser.parse_known_args()
    program = PROGRAMS[args.program]
    ranges = [Range.parse(text) for text in args.vary or program.varied]
    rungs = [float(rung) for rung in args.rungs.split(",")]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    words = ["--threads", str(args.threads), *training_args]
    training = Training(args.output, program, words, args.seed)
    first = [parse_settings(text, ranges) for text in args.first]
    trials = tune(args.output, training, ranges, rungs, args.cpu_minutes, args.seed, first)
    write(args.output, trials, rungs)
    best = trials[0]
    assert all(math.isfinite(rung.bits) for rung in rung_results(best))
    print((args.output / "trials.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
