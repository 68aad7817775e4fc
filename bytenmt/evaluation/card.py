"""Write a model card: a README.md that says what a model was trained on, how good and how large it is, and
its limits.

The front matter is read by model hubs: YAML, each value written as JSON, which is YAML too. Names of folders
are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bytenmt.config.facts import Facts
from bytenmt.config.schema import Config, architecture, config_toml
from bytenmt.errors import printable
from bytenmt.evaluation.measurements import NOISE_SEED, Measured

LIBRARY = "bytenmt"
HUB_NAME, NOT_OF_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?", re.ASCII), re.compile(r"[^a-z0-9]+")
MARK = f'library_name: "{LIBRARY}"'  # a card of this program has this line


class CardDetails(NamedTuple):
    """Statements of the user about a model.

    languages: codes, source first; license: of the weights; data: names of the training text on hubs; test:
    name of the test text; limits: sentences.
    """

    name: str
    languages: Sequence[str] = ()
    license: str | None = None
    data: Sequence[str] = ()
    data_licenses: Sequence[str] = ()
    test: str = "test"
    limits: Sequence[str] = ()


class Subject(NamedTuple):
    """The model that a card describes.

    precision: of the matrices in the file; made_with: program, engine and so on.
    """

    config: Config
    facts: Facts
    precision: str
    file_bytes: int
    n_parameters: int
    made_with: Sequence[str]


def card(details: CardDetails, of: Subject, measured: Measured | None) -> str:
    """Return the text of the model card, in Markdown."""
    return "\n".join([*_front_matter(details, of, measured), "", *_body(details, of, measured), ""])


def _front_matter(details: CardDetails, of: Subject, measured: Measured | None) -> Iterator[str]:
    task = "translation" if of.config.model.source else "text-generation"
    values: dict[str, Any] = {"language": list(details.languages), "license": details.license}
    values["tags"] = [task, "byte-level", LIBRARY, architecture(of.config.model)]
    names = [name for name in details.data if HUB_NAME.fullmatch(name)]  # hubs refuse others
    values |= {"pipeline_tag": task, "datasets": names, "library_name": LIBRARY}
    if measured is not None:
        scores = measured.scores
        values["metrics"] = ["chrf", "bleu"]
        found = {
            "task": {"type": task, "name": task.capitalize()},
            "dataset": {"name": details.test, "type": NOT_OF_NAME.sub("-", details.test.lower()).strip("-")},
            "metrics": [
                {"type": "chrf", "name": "chrF", "value": round(scores.chrf, 2)},
                {"type": "bleu", "name": "BLEU", "value": round(scores.bleu, 2)},
            ],
        }
        values["model-index"] = [{"name": details.name, "results": [found]}]
    yield "---"
    for key, value in values.items():
        if value:
            yield f"{key}: {json.dumps(_printable(value), ensure_ascii=False)}"
    yield "---"


def _printable(value: Any) -> Any:
    """Return a value with all texts on one line, for any reader of YAML."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {key: _printable(one) for key, one in value.items()}
    return [_printable(one) for one in value] if isinstance(value, list) else value


def _body(details: CardDetails, of: Subject, measured: Measured | None) -> Iterator[str]:
    model = of.config.model
    what = "translation model" if model.source else "language model"
    direction = " to ".join(details.languages) if model.source else ", ".join(details.languages)
    yield f"# {printable(details.name)}"
    yield ""
    spoken = f", {printable(direction)}" if direction else ""
    size = f"{of.n_parameters:,} parameters, {of.file_bytes / 1e6:.1f} MB in {of.precision}"
    yield f"A {what} on raw UTF-8 bytes{spoken}, without a tokenizer: {architecture(model)}, {size}."
    yield ""
    command = "bytenmt translate FOLDER < lines" if model.source else "bytenmt generate -m FOLDER"
    yield f"    {command}"
    yield from _section("Training text", _text(details, of.facts))
    if measured is not None:
        yield from _section("Scores", _scores(details, of, measured))
        yield from _section("Disturbed sources", _noise(measured))
        yield from _section("Speed", _speeds(measured))
    yield from _section("Training", _training(of))
    if of.facts.lineage:
        lines = [f"- {one.describe()}" for one in of.facts.lineage]
        yield from _section("Lineage", ["It began with the weights of these, the nearest first:", "", *lines])
    yield from _section("Limits", _limits(details, of, measured))


def _section(title: str, lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", *lines)


def _text(details: CardDetails, facts: Facts) -> Iterator[str]:
    counts = {
        "pairs": facts.pairs,
        "bytes of source": facts.source_bytes,
        "bytes of target": facts.target_bytes,
    }
    if facts.texts:
        counts = {"bytes": sum(text.bytes for text in facts.texts)}
    size = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    yield f"- Size: {size or 'unknown'}"
    if facts.multi_sentence_share is not None:
        yield f"- Lines with several sentences: {facts.multi_sentence_share:.1%}"
    if facts.file_names():
        yield f"- Files: {printable(', '.join(facts.file_names()))}"
    if details.data:
        yield f"- Data sets: {printable(', '.join(details.data))}"
    yield f"- Licences: {printable('; '.join(details.data_licenses)) or 'not told'}"


def _scores(details: CardDetails, of: Subject, measured: Measured) -> Iterator[str]:
    scores = measured.scores
    yield f"On {measured.n_lines:,} lines of {printable(details.test)}, {', '.join(of.made_with)}:"
    yield ""
    yield f"- chrF {scores.chrf:.2f} `{scores.chrf_signature}`"
    yield f"- BLEU {scores.bleu:.2f} `{scores.bleu_signature}`"
    yield f"- exact match {scores.exact_match:.1f} %"


def _noise(measured: Measured) -> Iterator[str]:
    yield "chrF where a share of the source's characters is disturbed: typos, case, neighbours swapped,"
    yield f"characters dropped and doubled, digits left as they are; seed {NOISE_SEED}."
    yield ""
    yield f"| {' | '.join(f'{share:.0%}' for share, _ in measured.noise)} |"
    yield f"|{'---:|' * len(measured.noise)}"
    yield f"| {' | '.join(f'{chrf:.2f}' for _, chrf in measured.noise)} |"


def _speeds(measured: Measured) -> Iterator[str]:
    threads = "one CPU thread" if measured.threads == 1 else f"{measured.threads} CPU threads"
    yield f"Bytes of translation a second, {threads}, on the machine that wrote this:"
    yield ""
    yield "| sentences side by side | bytes a second |"
    yield "|---:|---:|"
    for batch, speed in measured.speeds:
        yield f"| {batch} | {speed:,.0f} |"


def _training(of: Subject) -> Iterator[str]:
    facts, progress = of.facts, of.facts.progress
    if facts.averaged:
        yield f"The mean of the checkpoints of updates {', '.join(map(str, facts.averaged))}."
    elif facts.update is not None:
        yield f"Update {facts.update:,}."
    if progress is not None:
        yield f"{progress.seconds / 60:,.0f} minutes of training, {progress.epoch} whole epochs."
        if progress.best is not None:
            yield f"Best validation: {of.config.train.metric.replace('_', ' ')} {progress.best:.4f}."
    yield from ("", "```toml", config_toml(of.config).strip(), "```")


def _limits(details: CardDetails, of: Subject, measured: Measured | None) -> Iterator[str]:
    yield from (f"- {printable(limit)}" for limit in details.limits)
    if of.config.model.source:
        longest = of.config.data.max_source_bytes
        yield f"- Longer lines than {longest:,} bytes are translated in pieces, each by itself."
    yield "- It knows the kind of text that it has learnt; elsewhere it may write what nobody has said."
    if measured is None:
        yield "- Nothing was measured for this card."
