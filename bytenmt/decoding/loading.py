"""Load runs and choose an engine for them.

PyTorch is imported only for the engines that need it: nothing here imports it for the numba engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from bytenmt.architectures.section import architecture
from bytenmt.checkpoints.facts import Facts, SearchDefaults, SourceWords
from bytenmt.checkpoints.weights import StoredWeights, has_weights, read_run, reverse_path
from bytenmt.config.schema import Config
from bytenmt.decoding.engine_kinds import ENGINES
from bytenmt.decoding.engine_selection import n_cores, precision_of, select_engine
from bytenmt.decoding.interface import AUTO, EngineSpec, SearchOptions
from bytenmt.decoding.scorer import Scorer
from bytenmt.errors import BytenmtError, SettingError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.utf8 import LONGEST_CHARACTER

if TYPE_CHECKING:
    import torch

    from bytenmt.architectures.base import Model
    from bytenmt.decoding.engine import Engine

MAX_THREADS = 2  # of the numba engine by default: more than that wait for the memory

M = TypeVar("M")  # a model as an engine takes it: packed, or a module


class EngineFunctions(NamedTuple):
    """Functions that make engines (to decode) and scorers (of fixed texts) from loaded models."""

    # Takes the options and the number of sentences that are decoded side by side at most.
    make_engine: Callable[[SearchOptions, int], Engine]
    make_scorer: Callable[[], Scorer]  # it scores in fp32 unless another precision was asked for
    make_attention_scorers: Callable[[], list[Scorer]]  # one of each model that has attention


class LoadedRun(NamedTuple):
    """The description of a run (a trained model) that was loaded, without its weights."""

    file: Path  # the weights file
    config: Config
    facts: Facts  # measured in training, such as search defaults
    precision: str  # of the matrices in the file, such as "fp32"

    @property
    def digest(self) -> str:
        """The first 16 hex digits of the SHA-256 of the weights file."""
        with open(self.file, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]


@dataclass(frozen=True)
class Runtime:
    """Loaded models, with functions that make engines and scorers of them.

    Several models form an ensemble. `load_runs` and `runtime_from_models` return it.
    """

    # Takes the options and the number of sentences that are decoded side by side at most.
    make_engine: Callable[[SearchOptions, int], Engine]
    make_scorer: Callable[[], Scorer]  # of all models together
    make_attention_scorers: Callable[[], list[Scorer]]  # one of each model that has attention
    has_source: bool = True  # whether the models translate, instead of being language models
    max_source_bytes: int = 1000  # the longest line that all of them saw in training
    runs: Sequence[LoadedRun] = ()  # one of each model; empty for models in memory
    # The engine in use; only its precision may still be AUTO.
    spec: EngineSpec = EngineSpec("torch", "cpu")
    # A model of the opposite direction, to rerank hypotheses by it; None: no reranking.
    reverse: Scorer | None = None

    @property
    def has_attention(self) -> bool:
        """True if at least one run has attention; False for models in memory."""
        return any(run.config.model.has_attention for run in self.runs)

    @property
    def has_sentinels(self) -> bool:
        """True if all runs were trained with sentinels: bytes that stand for spans to be copied."""
        return bool(self.runs) and all(run.config.data.sentinels > 0 for run in self.runs)

    def reranks(self, search: SearchOptions) -> bool:
        """Return whether the model of the opposite direction ranks the hypotheses of a search: it
        needs a beam, and no sampling."""
        return self.reverse is not None and search.beam > 1 and not search.sample

    @property
    def search_defaults(self) -> SearchDefaults | None:
        """Search settings tuned for a model, such as its length penalty; None if no run has any.

        Of several runs, those of the first one that has some.
        """
        return next((run.facts.search for run in self.runs if run.facts.search is not None), None)

    @property
    def source_words(self) -> SourceWords | None:
        """The frequent words of a model's training sources; None if no run stores them.

        Of several runs, those of the first one that stores them.
        """
        return next((run.facts.words for run in self.runs if run.facts.words is not None), None)


def load_runs(
    paths: Sequence[str | Path], spec: EngineSpec, reporter: Reporter = SILENT
) -> Runtime:
    """Load trained models from run folders or weights files, of any architectures.

    Several form an ensemble, whose probabilities are averaged. spec: the engine to use; AUTO is
    replaced by one that suits the machine. reporter: shows messages, such as that the numba engine
    must compile its kernels on this processor. Raises CheckpointError for a file, BytenmtError
    where the models do not fit together or the engine is not available.
    """
    if not paths:
        raise SettingError("no run: give a run folder or a weights file")
    read = [read_run(Path(path)) for path in paths]
    runs = [LoadedRun(file, stored.config, stored.facts, stored.precision) for file, stored in read]
    has_source = runs[0].config.model.source
    for path, run in zip(paths, runs, strict=True):
        if run.config.model.source != has_source:
            raise BytenmtError(
                f"{paths[0]} is a {_kind(runs[0])} model and {path} is a {_kind(run)} model:"
                " an ensemble needs models of one kind"
            )
    limit = max(LONGEST_CHARACTER, min(run.config.data.max_source_bytes for run in runs))
    chosen = _usable_engine(spec, runs, reporter)
    module, _, function = ENGINES[chosen.engine].loader.partition(":")
    functions: EngineFunctions = getattr(import_module(module), function)(read, chosen, reporter)
    reverse = None
    if spec.reverse is not None:
        opposite = load_runs([spec.reverse], replace(spec, reverse=None), reporter)
        if not (has_source and opposite.has_source):
            named = spec.reverse if has_source else paths[0]
            raise BytenmtError(
                f"{named} is a language model: --reverse ranks translations by their sources"
            )
        reverse = opposite.make_scorer()
    return Runtime(
        *functions,
        has_source=has_source,
        max_source_bytes=limit,
        runs=runs,
        spec=chosen,
        reverse=reverse,
    )


def _kind(run: LoadedRun) -> str:
    """Return the kind of a model, for messages."""
    return "translation" if run.config.model.source else "language"


def find_reverse(runs: Sequence[str | Path], reporter: Reporter) -> Path | None:
    """Return the folder of the model of the opposite direction that the first run's search.json
    names; None if it names none.

    runs: run folders or weights files. A folder without weights counts as none, and `reporter`
    shows a message. Raises CheckpointError for a damaged search.json.
    """
    path = reverse_path(Path(runs[0]))
    if path is not None and not has_weights(path):
        reporter.say(f"bytenmt: {path} is missing: no opposite model ranks the translations")
        return None
    return path


def _usable_engine(spec: EngineSpec, runs: Sequence[LoadedRun], reporter: Reporter) -> EngineSpec:
    """Return the engine that decodes the runs: the one named, or one that suits the machine.

    Where no engine was named and the engine has no program for a run, one in PyTorch decodes.
    """
    from bytenmt.architectures.registry import has_program

    chosen = select_engine(spec)
    models = [run.config.model for run in runs]
    unknown = sorted({architecture(model) for model in models if not has_program(model)})
    if unknown and ENGINES[chosen.engine].runs_programs:
        why = f"the {chosen.engine} engine has no program for {' and '.join(unknown)}"
        other = select_engine(replace(spec, engine=AUTO), runs_programs=False)
        if spec.engine != AUTO:
            raise BytenmtError(
                f"--engine {spec.engine}: {why}: use --engine {other.engine}, or auto"
            )
        chosen = other
        reporter.say(f"bytenmt: decoding with --engine {chosen.engine}: {why}")
    precisions = ENGINES[chosen.engine].precisions
    if spec.precision not in (AUTO, *precisions):
        raise BytenmtError(
            f"--engine {chosen.engine} has no {spec.precision}:"
            f" use --precision {' or '.join(precisions)}"
        )
    return chosen


def runtime_from_models(
    models: Sequence[Model[Any, Any]], device: torch.device, has_source: bool = True
) -> Runtime:
    """Return the Runtime of models in memory, which decode with the torch engine.

    models: in evaluation mode on `device`, else ValueError is raised. Several form an ensemble.
    has_source: whether they translate, instead of being language models.
    """
    from bytenmt.decoding.pytorch.engine import TorchEngine
    from bytenmt.decoding.pytorch.scorer import TorchScorer

    if any(model.training for model in models):
        raise ValueError("a model is in training mode: call its eval() first")
    return Runtime(
        partial(TorchEngine, models, device=device),
        lambda: TorchScorer(models, device),
        lambda: [TorchScorer([model], device) for model in models],
        has_source=has_source,
        spec=EngineSpec("torch", device.type),
    )


def n_threads(spec: EngineSpec) -> int:
    """Return the number of CPU threads that the engine of `spec`, which is not AUTO, uses.

    The numba engine uses spec.threads, or one or two if that is None; the others use PyTorch's.
    """
    if ENGINES[spec.engine].runs_programs:
        return spec.threads or min(MAX_THREADS, n_cores())
    import torch

    return torch.get_num_threads()


def engine_functions(
    stored: Sequence[tuple[Path, StoredWeights]],
    spec: EngineSpec,
    build: Callable[[int, str], M],
    make_engine: Callable[[Sequence[M], SearchOptions, int], Engine],
    make_scorer: Callable[[Sequence[M]], Scorer],
) -> EngineFunctions:
    """Return the functions of a Runtime, made of an engine's own functions.

    stored: file and contents of each model. spec: with an engine that is not AUTO. build: returns
    a model, given its index in `stored` and a precision such as "fp32"; called once for each pair.
    make_engine: returns an engine, given all models, the options and the number of slots.
    make_scorer: returns a scorer of models.
    """
    build = cache(build)
    scorer_precision = "fp32" if spec.precision == AUTO else spec.precision
    numbers = range(len(stored))
    attentive = [number for number in numbers if stored[number][1].config.model.has_attention]
    models = [
        build(number, precision_of(weights.precision, spec))
        for number, (_, weights) in enumerate(stored)
    ]
    return EngineFunctions(
        partial(make_engine, models),
        lambda: make_scorer([build(number, scorer_precision) for number in numbers]),
        lambda: [make_scorer([build(number, scorer_precision)]) for number in attentive],
    )
