"""Record outputs of the package on one commit, and compare those of another commit with them.

    # on the commit before a restructuring
    python tools/verify/oracles.py record FOLDER
    # on a later commit; exits with 1 if anything differs
    python tools/verify/oracles.py compare FOLDER
    python tools/verify/oracles.py compare FOLDER --only cpu trainings

`record` trains small models of all architectures, stores them and all inputs in FOLDER, and writes
the outputs of the package to FOLDER/SECTION.json; sections that are recorded already are kept.
`compare` computes the outputs again from the stored models and inputs. Both take a few minutes on
one core, and need the same machine, because other vector instructions round differently.

Rules of the comparison: outputs of the CPU engine, trainings and epoch plans must be identical,
numbers to the last bit. Texts of the PyTorch engine must be identical, and its numbers agree to
TOLERANCE; where two texts differ but their scores agree to TOLERANCE, they are listed as ties,
which are not differences.

Everything except commands and `bytenmt.api` is accessed through the section "Adapter".
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import math
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import safetensors.torch

import bytenmt

TOLERANCE = 1e-5  # for numbers computed by PyTorch, absolute and relative
SHIPPED = Path(__file__).resolve().parents[2] / "data" / "models" / "en-de"  # `record` copies it
Output = Any  # a JSON value

# ---------------------------------------------------------------------------------------------
# Adapter


def load_translator(
    runs: Sequence[Path], engine: str, precision: str, threads: int, **settings: Any
) -> Any:
    """Return a Translator. engine: "cpu" or "pytorch"."""
    name = "torch" if engine == "pytorch" else "numba"
    return bytenmt.Translator.load(
        *runs, engine=name, device="cpu", precision=precision, threads=threads, **settings
    )


def load_runtime(run: Path, engine: str, threads: int) -> Any:
    """Return loaded runs, whose scorer scores texts and whose attention aligns them, in fp32."""
    from bytenmt.decoding.interface import EngineSpec
    from bytenmt.decoding.loading import load_runs

    name = "torch" if engine == "pytorch" else "numba"
    return load_runs([run], EngineSpec(name, "cpu", "fp32", threads))


def trainer_tensors(run: Path) -> dict[str, Any]:
    """Return the tensors of the trainer's state in a run folder by the keys that lead to them."""
    from bytenmt.checkpoints.checkpoint import load_checkpoint

    def flat(state: Any, name: str) -> dict[str, Any]:
        if isinstance(state, dict | list):
            items = state.items() if isinstance(state, dict) else enumerate(state)
            return {k: v for key, one in items for k, v in flat(one, f"{name}.{key}").items()}
        return {name: state.clone().contiguous()} if hasattr(state, "numpy") else {}

    return flat(load_checkpoint(run).trainer, "trainer")


def epoch_plan_arrays(
    lengths: tuple[Any, Any], max_tokens: int, seed: int, epoch: int, **options: Any
) -> list[Any]:
    """Return the arrays of an epoch plan: which pairs are batched together, and in which order."""
    from bytenmt.data.epoch_plan import epoch_plan

    return list(epoch_plan(*lengths, max_tokens, seed, epoch, **options))


def run_command(*arguments: object) -> str:
    """Run a command in this process and return its stdout."""
    from bytenmt.cli.main import main

    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        main.main([str(argument) for argument in arguments], standalone_mode=False)
    out.flush()
    buffer: Any = out.buffer
    return str(buffer.getvalue().decode())


# ----------------------------------------------------------------------------------------------
# Models

SIZES: dict[str, dict[str, Any]] = {
    "seq2seq": {"d_hidden": 16},
    "bahdanau": {"d_hidden": 12, "d_attention": 8, "d_maxout": 8},
    "luong": {"d_hidden": 12},
    "bytenet": {"d_channels": 8, "n_sets": 1, "dilations": [1, 2]},
    "convs2s": {"encoder_layers": [[12, 3]], "decoder_layers": [[12, 3], [12, 3]]},
}
N_GRAMS = {"ngrams": [2, 3], "ngram_rows": 64}


class Model(NamedTuple):
    """A small model to train. source: whether it translates; otherwise it is a language model."""

    arch: str
    n_grams: bool = False
    source: bool = True


MODELS = {
    **{arch: Model(arch) for arch in SIZES},
    "luong-ngrams": Model("luong", n_grams=True),
    "bytenet-ngrams": Model("bytenet", n_grams=True),
    "seq2seq-text": Model("seq2seq", source=False),
    "convs2s-text": Model("convs2s", n_grams=True, source=False),
}
ENSEMBLES = {
    "luong+convs2s": ("luong", "convs2s"),
    "bytenet+bytenet-ngrams": ("bytenet", "bytenet-ngrams"),
}
UPDATES = {"models": 30, "trainings": 4, "interrupted": 2}


def train(folder: Path, inputs: Path, model: Model, updates: int, resume: bool = False) -> Any:
    """Train a small model and return the run's records of metrics."""
    settings: dict[str, Any] = {f"model.{name}": value for name, value in SIZES[model.arch].items()}
    settings |= {"model.d_embedding": 8, "model.dropout": 0.1}
    settings |= {f"model.{name}": value for name, value in N_GRAMS.items()} if model.n_grams else {}
    if "model.encoder_layers" in settings and not model.source:
        settings["model.encoder_layers"] = []
    fixed = {"max_tokens": 300, "save_every": 1, "valid_lines": 0, "valid_every": 1000}
    options: dict[str, Any] = {"max_updates": updates, "log_every": 1}
    options |= {"precision": "fp32", "seed": 5}
    files: dict[str, Any] = {"text": inputs / "train.de", "valid_text": inputs / "valid.de"}
    if model.source:
        files = {"src": inputs / "train.en", "tgt": inputs / "train.de"}
        files |= {"valid_src": inputs / "valid.en", "valid_tgt": inputs / "valid.de"}
    fixed |= {} if model.source else {"window": 100}
    if not resume:
        files |= {"arch": model.arch, "preset": "tiny", "settings": settings, **fixed}
    run = bytenmt.train(folder, resume=resume, device="cpu", threads=1, **files, **options)
    return run.metrics()


def write_inputs(folder: Path) -> None:
    """Write texts to train on and to translate."""
    folder.mkdir(parents=True)
    generator = random.Random(11)
    nouns = [("house", "Haus"), ("door", "Tür"), ("file", "Datei"), ("year", "Jahr")]
    nouns.append(("button", "Knopf"))
    words = [("red", "rot"), ("green", "grün"), ("open", "offen"), ("new", "neu")]

    def pair() -> tuple[str, str]:
        noun = generator.choice(nouns)
        word = generator.choice(words)
        item = generator.choice(["", " 7", " 3.1", " {name}", " <b>x</b>", " www.x.org", " %s"])
        mark = generator.choice([".", "!", "…"])
        return f"The {noun[0]}{item} is {word[0]}{mark}", f"Das {noun[1]}{item} ist {word[1]}{mark}"

    for name, n in (("train", 120), ("valid", 4)):
        pairs = [pair() for _ in range(n)]
        for which, language in enumerate(("en", "de")):
            text = "".join(f"{one[which]}\n" for one in pairs)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8")
    (folder / "lines").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (folder / "sentences").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")


LINES = [
    "The house is red.",
    "Open <b>the <i>new</i> file</b> {name}, 3.1 and 31!",
    "",
    "Grüße an die Tür… 새 집 😀",
    "Press the button %s or write to a.b@example.org; see https://example.org/a?b=1.",
    "no",
]
SENTENCES = [
    "A man in a red shirt is sitting on a bench.",
    "Two dogs run: 3 of {n} <b>people</b> watch.",
]

# -------------------------------------------------------------------------------------------
# Searches

SHORT = {"max_len_a": 1.0, "max_len_b": 8}
TOP = {"top_k": 20, "top_p": 0.9}
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"beam": 4, "n_best": 4},
    "beam, no length penalty": {"beam": 3, "n_best": 2, "length_penalty": 0.0},
    "sample": {"sample": True, "beam": 2, "n_best": 2, "seed": 3},
    "sample, top k and p": {"sample": True, "temperature": 0.7, "seed": 4, **TOP},
    "prefix": {"prefix": "Das é", "beam": 2},
    "n-gram blocking": {"no_repeat_ngram_size": 2},
    "n-gram blocking, beam": {"no_repeat_ngram_size": 1, "beam": 4, "n_best": 2},
    "pieces": {"max_source_bytes": 20, "beam": 2, "n_best": 2},
}
FEW_SEARCHES = ("greedy", "beam", "sample")


def hypotheses(translator: Any, lines: Sequence[str]) -> Output:
    """Return the hypotheses of every line with the fields that the first oracles have."""
    from bytenmt import Hypothesis

    n_fields = Hypothesis._fields.index("is_past_end") + 1
    return [[list(one[:n_fields]) for one in found] for found in translator.n_best(lines)]


def search_outputs(folder: Path, names: Sequence[str], engine: str) -> Iterator[tuple[str, Output]]:
    """Translate with models and ensembles by all searches of an engine."""
    inputs = folder / "inputs"
    lines = (inputs / "lines").read_text(encoding="utf-8").splitlines()
    ways = {
        "cpu": [("fp32", 1), ("fp32", 2), ("int8", 1), ("int8", 2)],
        "pytorch": [("fp32", 1), ("bf16", 1)],
    }[engine]
    for name in names:
        runs = [folder / "models" / one for one in ENSEMBLES.get(name, (name,))]
        for precision, threads in ways:
            searches = dict(SEARCHES)
            if precision not in ("fp32", "int8") or name in ENSEMBLES:
                searches = {key: SEARCHES[key] for key in FEW_SEARCHES}
            for search, settings in searches.items():
                translator = load_translator(runs, engine, precision, threads, **SHORT, **settings)
                what = f"{engine} {precision} {threads} | {name} | {search}"
                yield what, hypotheses(translator, lines)


def shipped_outputs(folder: Path, engine: str) -> Iterator[tuple[str, Output]]:
    """Translate sentences with a shipped model."""
    inputs = folder / "inputs"
    lines = (inputs / "sentences").read_text(encoding="utf-8").splitlines()
    searches: dict[str, dict[str, Any]] = {"greedy": {}, "beam": {"beam": 4, "n_best": 2}}
    ways = (("auto", 1), ("auto", 2)) if engine == "cpu" else (("fp32", 1),)
    runs = [folder / "shipped"]
    for (search, settings), (precision, threads) in product(searches.items(), ways):
        translator = load_translator(runs, engine, precision, threads, **settings)
        what = f"{engine} {precision} {threads} | shipped | {search}"
        yield what, hypotheses(translator, lines)


def reading_outputs(folder: Path, engine: str) -> Iterator[tuple[str, Output]]:
    """Score and align fixed texts; score and generate text with language models."""
    inputs = folder / "inputs"
    sources = [line.encode() for line in LINES if line]
    texts = [*sources[1:], sources[0]]
    for name, model in MODELS.items():
        runtime = load_runtime(folder / "models" / name, engine, 1)
        given = sources if model.source else None
        read = runtime.make_scorer().score_texts(given, [text + b"\xff" for text in texts])
        numbers = [[one.log_p.tolist(), one.rank.tolist()] for one in read]
        yield f"{engine} | {name} | scores", numbers
        attentions = runtime.make_attention_scorers() if model.source else ()
        for number, attention in enumerate(attentions):
            layers = attention.attention_weights(list(zip(sources, texts, strict=True)))
            weights = [{str(layer): part.tolist() for layer, part in one.items()} for one in layers]
            yield f"{engine} | {name} | alignment {number}", weights
    name = "torch" if engine == "pytorch" else "numba"
    for model_name in ("seq2seq-text", "convs2s-text"):
        run = bytenmt.Run(folder / "models" / model_name)
        on = {"engine": name, "device": "cpu"}
        found = run.surprisal((inputs / "train.de").read_text(encoding="utf-8")[:700], **on)
        yield f"{engine} | {model_name} | bits", [part.tolist() for part in found]
        for number, sampling in enumerate(({}, {"temperature": 0.6, "top_k": 9}, {"top_p": 0.8})):
            text = run.generate("Das H", 120, seed=number, **sampling, **on)
            yield f"{engine} | {model_name} | generated {number}", text


def command_outputs(folder: Path) -> Iterator[tuple[str, Output]]:
    """Run commands whose output is JSON or a table."""
    inputs = folder / "inputs"
    models = folder / "models"
    jsonl = ["--format", "jsonl", "--alignment", "--max-len-b", "20", "--engine", "numba"]
    one = ("--threads", "1")
    for name in ("bahdanau", "convs2s"):
        words = ["translate", models / name, "-i", inputs / "lines", *jsonl, *one]
        yield f"command | {name} | translate", without_times(run_command(*words, "-b", "3"))
    line = run_command("translate", folder / "shipped", "-i", inputs / "sentences", *jsonl, *one)
    yield "command | shipped | translate", without_times(line)
    texts = ["--src", inputs / "valid.en", "--ref", inputs / "valid.de"]
    numbers = run_command("evaluate", models / "luong", *texts, "--log-probabilities", *one)
    yield "command | luong | score", numbers.splitlines()
    read = ["-m", models / "convs2s-text", inputs / "valid.de", "--per-byte", "--no-reference"]
    yield "command | convs2s-text | predict", run_command("predict", *read, *one).splitlines()


def without_times(lines: str) -> list[Output]:
    """Return JSON lines as objects without the field that differs from run to run."""
    every = map(json.loads, lines.splitlines())
    return [{key: one[key] for key in one if key != "seconds"} for one in every]


# ---------------------------------------------------------------------------- Trainings and plans


def scratch_folder(folder: Path) -> Path:
    """Return the folder for files of this process."""
    return folder / f"scratch-{os.getpid()}"


def digest(arrays: Sequence[Any]) -> str:
    """Return a hash of the types, shapes and bytes of arrays."""
    total = hashlib.sha256()
    for array in arrays:
        whole = np.ascontiguousarray(array)
        total.update(f"{whole.dtype} {whole.shape}".encode() + whole.tobytes())
    return total.hexdigest()[:24]


def run_digest(run: Path) -> dict[str, str]:
    """Return a hash of each tensor in a run's checkpoint files, by kind of file and tensor name."""
    found: dict[str, str] = {}
    trainer = safetensors.torch.save(trainer_tensors(run))
    for kind, data in (("weights", (run / "last.safetensors").read_bytes()), ("trainer", trainer)):
        header_bytes = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8 : 8 + header_bytes]).items():
            if name != "__metadata__":
                first, last = (8 + header_bytes + offset for offset in entry["data_offsets"])
                prefix = f"{entry['dtype']} {entry['shape']} ".encode()
                found[f"{kind} {name}"] = hashlib.sha256(prefix + data[first:last]).hexdigest()[:16]
    return found


def training_outputs(folder: Path) -> Iterator[tuple[str, Output]]:
    """Train small models, and resume trainings that were interrupted."""
    scratch = scratch_folder(folder)
    inputs = folder / "inputs"
    for name, model in MODELS.items():
        metrics = train(scratch / name, inputs, model, UPDATES["trainings"])
        key = "train_bits_per_byte"
        yield f"training | {name} | bits per byte", [one[key] for one in metrics if key in one]
        yield f"training | {name} | whole", run_digest(scratch / name)
        resumed = scratch / f"{name}-resumed"
        train(resumed, inputs, model, UPDATES["interrupted"])
        train(resumed, inputs, model, UPDATES["trainings"], resume=True)
        yield f"training | {name} | resumed", run_digest(resumed)
        for path in (scratch / name, resumed):
            shutil.rmtree(path)


def plan_outputs() -> Iterator[tuple[str, Output]]:
    """Plan epochs of made-up lengths."""
    generator = np.random.default_rng(4)
    lengths = tuple(generator.integers(1, 300, 5000).astype(np.int32) for _ in range(2))
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "weighted": {"bounds": np.array([0, 2000, 5000]), "weights": [0.5, 2.25]},
    }
    for (case, options), epoch in product(cases.items(), (0, 1)):
        arrays = epoch_plan_arrays((lengths[0], lengths[1]), 4000, 3, epoch, **options)
        yield f"plan | {case} | epoch {epoch}", digest(arrays)


# ------------------------------------------------------------------------- Recording and comparing

Section = Callable[[Path], Iterator[tuple[str, Output]]]
TRANSLATING = [name for name in (*MODELS, *ENSEMBLES) if not name.endswith("-text")]
SOME = [*SIZES, "bytenet-ngrams", "luong+convs2s"]
SECTIONS: dict[str, Section] = {
    "plans": lambda folder: plan_outputs(),
    "trainings": training_outputs,
    "cpu": lambda folder: search_outputs(folder, TRANSLATING, "cpu"),
    "pytorch": lambda folder: search_outputs(folder, SOME, "pytorch"),
    "shipped": lambda f: chain(shipped_outputs(f, "cpu"), shipped_outputs(f, "pytorch")),
    "reading": lambda f: chain(reading_outputs(f, "cpu"), reading_outputs(f, "pytorch")),
    "commands": command_outputs,
}


def compute(folder: Path, section: str) -> dict[str, Output]:
    """Return the outputs of a section by name, after a round trip through JSON."""
    shutil.rmtree(scratch_folder(folder), ignore_errors=True)
    scratch_folder(folder).mkdir()
    begin = time.perf_counter()
    outputs = dict(SECTIONS[section](folder))
    print(f"{section}: {len(outputs)} outputs, {time.perf_counter() - begin:.0f} s", flush=True)
    shutil.rmtree(scratch_folder(folder))
    return dict(json.loads(json.dumps(outputs)))


def record(folder: Path, sections: Sequence[str]) -> None:
    """Make models and inputs, and write the outputs of the sections that are not recorded yet."""
    inputs = folder / "inputs"
    if not (folder / "commit").exists():
        for name in ("inputs", "models"):
            shutil.rmtree(folder / name, ignore_errors=True)
        write_inputs(inputs)
        shutil.copytree(SHIPPED, folder / "shipped", dirs_exist_ok=True)
        for name, model in MODELS.items():
            train(folder / "models" / name, inputs, model, UPDATES["models"])
        (folder / "commit").write_text(commit() + "\n", encoding="utf-8")
    for section in sections:
        path = folder / f"{section}.json"
        if path.exists():
            continue
        outputs = compute(folder, section)
        for name in MODELS if section == "trainings" else ():
            if outputs[f"training | {name} | whole"] != outputs[f"training | {name} | resumed"]:
                raise SystemExit(f"a resumed training of {name} differs from an uninterrupted one")
        path.write_text(json.dumps(outputs, indent=0, ensure_ascii=False), encoding="utf-8")


def commit() -> str:
    """Return the checked-out commit, with a plus sign where files differ from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + "+" * bool(git("status", "--porcelain", "-uno"))


def compare(folder: Path, sections: Sequence[str], show: int) -> int:
    """Compare this commit's outputs with those recorded, and return the number that differ."""
    different = list[tuple[str, str]]()
    ties = list[tuple[str, str]]()
    n_outputs = 0
    gone = 0
    for section in sections:
        expected = json.loads((folder / f"{section}.json").read_text(encoding="utf-8"))
        outputs = compute(folder, section)
        n_outputs += len(outputs)
        gone += len(expected.keys() - outputs.keys())
        different += [(name, "not recorded") for name in sorted(outputs.keys() - expected.keys())]
        for name in sorted(expected.keys() & outputs.keys()):
            exact = not name.startswith("pytorch")
            difference = first_difference(expected[name], outputs[name], exact)
            if difference and not exact and are_ties(expected[name], outputs[name]):
                ties.append((name, difference))
            elif difference:
                different.append((name, difference))
    for title, found in (("DIFFERENT", different), ("TIE", ties)):
        for name, difference in found[:show]:
            print(f"{title}  {name}\n    {difference}")
        if len(found) > show:
            print(f"{title}  … and {len(found) - show} more")
    recorded = (folder / "commit").read_text(encoding="utf-8").strip()
    print(
        f"{n_outputs} outputs of {commit()} compared with {recorded}:"
        f" {len(different)} different, {len(ties)} ties, {gone} recorded ones of removed searches"
    )
    return len(different)


def first_difference(expected: Output, found: Output, exact: bool, where: str = "") -> str | None:
    """Describe the first difference of two outputs; return None where they are equal.

    exact: numbers are compared to the last bit.
    """
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        keys: Iterable[Any] = range(len(expected))
    elif isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        keys = expected
    else:
        are_numbers = isinstance(expected, float) and isinstance(found, float)
        is_equal = expected == found or (not exact and are_numbers and close(expected, found))
        return None if is_equal else f"{where}: {expected!r} -> {found!r}"[:600]
    parts = (first_difference(expected[k], found[k], exact, f"{where}[{k}]") for k in keys)
    return next(filter(None, parts), None)


def close(one: float, other: float) -> bool:
    """Return whether two numbers agree to TOLERANCE."""
    return one == other or math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def are_ties(expected: Output, found: Output) -> bool:
    """Return whether the hypotheses of all lines have the same scores, although texts differ."""
    try:
        lines = list(zip(expected, found, strict=True))
        pairs = [pair for line in lines for pair in zip(*line, strict=True)]
        return all(close(one[2], other[2]) for one, other in pairs)
    except (TypeError, ValueError, IndexError):
        return False


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=tuple(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--show", type=int, default=20, help="differences to print at most")
    options = parser.parse_args()
    if options.what == "record":
        record(options.folder.resolve(), options.only)
    elif compare(options.folder.resolve(), options.only, options.show):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
