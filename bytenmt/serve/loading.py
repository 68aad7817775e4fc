"""Load the models, glossaries and API keys of a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bytenmt.decoding.engine_selection import n_cores
from bytenmt.decoding.glossary import Glossary, Term
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.decoding.kept_spans import NONE, KeepSpec
from bytenmt.decoding.loading import MAX_THREADS, Runtime, load_runs
from bytenmt.decoding.setting_table import TABLE
from bytenmt.decoding.settings import BEAM_OF_SENTINELS, Settings
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError
from bytenmt.evaluation.judge import FLAG_ABOVE, Judge
from bytenmt.reporter import Reporter
from bytenmt.serve.languages import Direction
from bytenmt.serve.service import MOST_ALTERNATIVES, Model, Models
from bytenmt.serve.worker import Job, Worker


def load_models(
    models: Sequence[str],
    decoding: Mapping[str, Any],
    api_keys: Path | None,
    on_wait: Callable[[float], None],
    reporter: Reporter,
) -> Models:
    """Return models that are ready to translate, with their glossaries, and the API keys. Raises
    BytenmtError.

    models: PAIR=RUN each, as en-de=runs/a; several of one pair decode as an ensemble. decoding: settings of
    the search by name, those left out or None at their defaults, and five keys that must be there: keep
    (classes of spans, None: all), glossary (a sequence of PAIR=FILE), reverse (bool: rerank by the model
    of the opposite direction, if there is one), precision, and threads (of each model; None: an equal share
    of the cores). api_keys: a file with one key per line; None: clients need no key. on_wait: called with
    the seconds from a job's submission to its first decoding step. reporter: shows warnings of the models
    that are loaded.
    """
    search = {name: decoding[name] for name in TABLE if decoding.get(name) is not None}
    # What contradicts each other shows here.
    Settings.from_dict(search, lambda name: TABLE[name].long if name in TABLE else f"--{name}")
    kept = KeepSpec.from_settings(decoding["keep"])
    runs, terms = _by_direction(models, "-m"), dict[Direction, list[Term]]()
    for direction, paths in _by_direction(decoding["glossary"], "--glossary").items():
        terms[direction] = [term for path in paths for term in Glossary.from_file(path).terms]
    # Threads synchronise hundreds of times per decode step, so each needs a core of its own; one core is left
    # for the HTTP server.
    threads = decoding["threads"] or max(1, min(MAX_THREADS, n_cores() // (len(runs) + 1)))
    loaded = dict[Direction, Model]()
    try:
        for direction, paths in runs.items():
            opposite = runs.get(Direction(direction.target, direction.source), [None])
            reverse = opposite[0] if decoding["reverse"] else None
            spec = EngineSpec(AUTO, "cpu", decoding["precision"], threads, reverse=reverse)
            runtime = load_runs(paths, spec, reporter)
            if not runtime.has_source:
                raise BytenmtError(
                    f"{paths[0]} is a language model and cannot translate: give a translation model"
                )
            if not runtime.has_sentinels and (direction in terms or decoding["keep"] not in (None, "", NONE)):
                raise BytenmtError(
                    f"{paths[0]} was trained without sentinels: leave out --keep and --glossary"
                )
            glossary = Glossary(terms.get(direction, ()))
            keep = replace(kept, glossary=glossary) if runtime.has_sentinels else None
            judge = Judge.from_runtime(runtime, default=FLAG_ABOVE, beam=_beam(runtime, search))
            n_best = 1 + MOST_ALTERNATIVES
            more = {"n_best": n_best, "beam": max(n_best, _beam(runtime, search))}
            worker, alternatives = (
                Worker(partial(Translator.from_runtime, runtime, Settings.from_dict(own)), judge, on_wait)
                for own in (search, search | more)
            )
            loaded[direction] = Model(worker, alternatives, keep)
            # The first client need not wait for the engine, and errors show now.
            worker.submit(Job([b"a"], keep=keep)).result()
        return Models(loaded, [] if api_keys is None else read_keys(api_keys))
    except BaseException:
        for model in loaded.values():
            model.finish()
        raise


def _beam(runtime: Runtime, search: Mapping[str, Any]) -> int:
    """Return the beam size, that of the settings or of the models."""
    return int(search.get("beam", BEAM_OF_SENTINELS if runtime.has_sentinels else 1))


def _by_direction(values: Sequence[str], option: str) -> dict[Direction, list[Path]]:
    """Split values PAIR=PATH. Raises BytenmtError."""
    found: dict[Direction, list[Path]] = {}
    for value in values:
        pair, _, path = value.partition("=")
        if not path:
            raise BytenmtError(f"{option} {value}: expected a pair and a path, such as en-de=PATH")
        found.setdefault(Direction.parse(pair), []).append(Path(path))
    return found


def read_keys(path: Path) -> list[str]:
    """Return the API keys of a file, one per line; # starts a comment line. Raises BytenmtError if none."""
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not keys:
        raise BytenmtError(f"{path} contains no API key: give one per line, or leave out --api-keys")
    return keys
