"""Load the models, glossaries and API keys of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bytenmt.decoding.engine_selection import n_cores
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.decoding.loading import MAX_THREADS, Runtime, find_reverse, load_runs
from bytenmt.decoding.scorer import Scorer, Stream, TextScores, Weights
from bytenmt.errors import BytenmtError
from bytenmt.evaluation.judge import FLAG_ABOVE, Judge
from bytenmt.reporter import Reporter
from bytenmt.serve.languages import Direction, check_direction
from bytenmt.serve.service import MAX_ALTERNATIVES, DirectionWorkers
from bytenmt.serve.worker import TranslationJob, Worker
from bytenmt.translation.glossary import Glossary
from bytenmt.translation.reranking import BEAM
from bytenmt.translation.settings import TRANSLATION_SETTINGS, Settings, option_name
from bytenmt.translation.translator import Translator


def load_models(
    models: Sequence[str], options: Mapping[str, Any], reporter: Reporter
) -> dict[Direction, DirectionWorkers]:
    """Load models and return, by direction, running threads that translate with them.

    models: PAIR=RUN each, such as "en-de=runs/a"; several of one pair decode as an ensemble.
    reporter: shows warnings. options: those of `bytenmt serve`, by name; what is left out has its
    default: the fields of SearchOptions and LineSettings, such as beam=5; keep, classes of spans to
    copy, such as "urls,numbers"; glossary, a sequence of PAIR=FILE; reverse, True to rerank by the
    model of the opposite direction where it is loaded, too; precision, "fp32", "int8" or "auto";
    threads, of each direction. Raises BytenmtError.
    """
    names = {*TRANSLATION_SETTINGS, "keep"}
    settings = {name: value for name, value in options.items() if name in names}
    Settings.from_dict(settings, option_name)  # what contradicts each other shows here
    runs = _by_direction(models, "MODEL")
    opposites = {
        direction: runs[direction.opposite][0]
        for direction in runs
        if options.get("reverse") and direction.opposite in runs
    }
    if options.get("reverse") and not opposites:
        reporter.warn("--reverse has no effect: no model translates in an opposite direction")
    glossaries = _by_direction(options.get("glossary", ()), "--glossary")
    for direction in glossaries.keys() - runs.keys():
        raise BytenmtError(f"--glossary {direction}: no model translates in this direction")
    # Threads synchronise hundreds of times per decode step, so each needs a core of its own. One
    # model at a time uses several; the others have one each, and so has the HTTP server.
    threads = options.get("threads") or max(1, min(MAX_THREADS, n_cores() - len(runs)))
    spec = EngineSpec(AUTO, "cpu", options.get("precision", AUTO), threads)
    workers = dict[Direction, DirectionWorkers]()
    for direction, paths in runs.items():
        runtime = load_runs(paths, replace(spec, reverse=opposites.get(direction)), reporter)
        for run in runtime.runs:
            check_direction(direction, run.file, run.facts.corpora)
        own_settings = _with_glossaries(settings, glossaries.get(direction, ()))
        workers[direction] = _start_workers(runtime, own_settings, find_reverse(paths, reporter))
        # The first client need not wait for the engine, and errors show now.
        workers[direction].worker.submit(TranslationJob([b"a"])).result()
    return workers


def _with_glossaries(settings: Mapping[str, Any], glossaries: Sequence[Path]) -> dict[str, Any]:
    """Return the settings of one direction: with the terms of its glossaries, files of lines."""
    own = dict(settings)
    terms = [term for path in glossaries for term in Glossary.from_file(path).terms]
    if terms:
        own["glossary"] = Glossary(terms)
    return own


def _start_workers(
    runtime: Runtime, settings: Mapping[str, Any], reverse: Path | None
) -> DirectionWorkers:
    """Return the running workers of a direction. reverse: the model that ranks for documents."""
    translator = Translator.from_runtime(runtime, **settings)
    n_best = 1 + MAX_ALTERNATIVES
    wide = {"n_best": n_best, "beam": max(n_best, translator.options.beam)}
    alternatives = Translator.from_runtime(runtime, **{**settings, **wide})
    return DirectionWorkers(
        _judged(translator, runtime),
        _judged(alternatives, runtime),
        tuple(run.digest for run in runtime.runs),
        _document_worker(runtime, settings, reverse),
    )


class LateScorer(Scorer):
    """A scorer whose model is loaded at the first use.

    path: run folder or weights file of the model. spec: the engine, device and threads.
    """

    def __init__(self, path: Path, spec: EngineSpec) -> None:
        self._path = path
        self._spec = spec

    @cached_property
    def _scorer(self) -> Scorer:
        return load_runs([self._path], replace(self._spec, reverse=None)).make_scorer()

    def open_stream(self) -> Stream:
        """Return a new stream, which scores one text from its beginning, piece by piece."""
        return self._scorer.open_stream()

    def score_texts(
        self, sources: Sequence[bytes] | None, texts: Sequence[bytes]
    ) -> list[TextScores]:
        """Return the log-probability and rank of each byte of the texts, given their sources.

        sources: one a text; None for a language model.
        """
        return self._scorer.score_texts(sources, texts)

    def attention_weights(self, pairs: Sequence[tuple[bytes, bytes]]) -> list[dict[int, Weights]]:
        """Return the attention weights of each pair (source, text), by layer number from 1.

        Weights are (bytes of text, bytes of source + 1 for EOS).
        """
        return self._scorer.attention_weights(pairs)


def _document_worker(
    runtime: Runtime, settings: Mapping[str, Any], reverse: Path | None
) -> Worker | None:
    """Return a worker with a wide beam that a model of the opposite direction ranks.

    None without such a model, or where the server's settings ask for greedy search or sampling.
    """
    if reverse is None or settings.get("sample") or settings.get("beam") == 1:
        return None
    ranked = replace(runtime, reverse=LateScorer(reverse, runtime.spec))
    translator = Translator.from_runtime(ranked, **{"beam": BEAM, **settings})
    return _judged(translator, ranked)


def _judged(translator: Translator, runtime: Runtime) -> Worker:
    """Return a worker that judges what a translator of the runtime's models writes."""
    judge = Judge.from_runtime(runtime, translator.options, default=FLAG_ABOVE)
    return Worker(translator, judge)


def _by_direction(values: Sequence[str], option: str) -> dict[Direction, list[Path]]:
    """Split values PAIR=PATH. Raises BytenmtError."""
    paths: dict[Direction, list[Path]] = {}
    for value in values:
        pair, _, path = value.partition("=")
        if not path:
            raise BytenmtError(f"{option} {value}: expected a pair and a path, such as en-de=PATH")
        paths.setdefault(Direction.parse(pair), []).append(Path(path))
    return paths


def read_keys(path: Path) -> list[str]:
    """Read API keys from a file, one a line; # begins a comment. Raises BytenmtError for none."""
    # Some editors begin a file with a byte order mark.
    lines = path.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
    keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not keys:
        raise BytenmtError(
            f"{path} contains no API key: give one per line, or leave out --api-keys"
        )
    return keys
