"""Write a model card: a README.md for model hubs, with scores and speed.

    python tools/card.py MODEL -o card.md --src test.en --ref test.de --language en --language de

The front matter is YAML, each value written as JSON, which is YAML too.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bytenmt import __version__
from bytenmt.architectures.parameters import n_parameters
from bytenmt.architectures.section import architecture
from bytenmt.checkpoints.facts import FlagThresholds
from bytenmt.config.schema import config_toml
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.decoding.loading import LoadedRun, load_runs
from bytenmt.errors import BytenmtError
from bytenmt.translation.settings import Settings
from tools.extras import tool_parser
from tools.measurements import NOISE_SEED, Measured, measure


def card(model: LoadedRun, measured: Measured, args: argparse.Namespace) -> str:
    """Return the text of a model card, in Markdown. args: of the command line."""
    return "\n".join([*_front_matter(model, measured, args), "", *_body(model, measured, args), ""])


def _front_matter(model: LoadedRun, measured: Measured, args: argparse.Namespace) -> Iterator[str]:
    scores = {"chrF": measured.scores.chrf, "BLEU": measured.scores.bleu}
    metrics = [
        {"type": name.lower(), "name": name, "value": round(value, 2)}
        for name, value in scores.items()
    ]
    test = {"name": args.ref.name, "type": args.ref.name.lower()}
    result = {"task": {"type": "translation"}, "dataset": test, "metrics": metrics}
    values: dict[str, Any] = {
        "language": args.language,
        "license": args.license,
        "tags": ["translation", "byte-level", architecture(model.config.model)],
        "pipeline_tag": "translation",
        "library_name": "bytenmt",
        "datasets": args.data,
        "model-index": [{"name": args.name, "results": [result]}],
    }
    yield "---"
    for key in filter(values.get, values):
        yield f"{key}: {json.dumps(values[key], ensure_ascii=False)}"
    yield "---"


def _body(model: LoadedRun, measured: Measured, args: argparse.Namespace) -> Iterator[str]:
    config = model.config
    facts = model.facts
    scores = measured.scores
    size = f"{n_parameters(config.model):,} parameters, {model.file.stat().st_size / 1e6:.1f} MB"
    languages = " to ".join(args.language) or "unnamed languages"
    yield f"# {args.name}\n"
    yield (
        f"A translation model on raw UTF-8 bytes, {languages}:"
        f" {architecture(config.model)}, {size} in {model.precision}, bytenmt {__version__}.\n"
    )
    corpora = facts.without_folders().corpora
    files = [name for one in corpora for name in (one.src, one.tgt, one.tsv) if name is not None]
    texts = ", ".join([*args.data, *map(str, files)])
    yield f"- Training text: {facts.pairs or 0:,} pairs, {texts}"
    yield f"- Training: update {facts.update or 0:,}"
    yield f"- On {measured.n_lines:,} lines of {args.ref.name}, beam {args.beam}:"
    yield f"  chrF {scores.chrf:.2f} `{scores.chrf_signature}`, BLEU {scores.bleu:.2f}"
    yield f"  `{scores.bleu_signature}`, exact match {scores.exact_match:.1f} %"
    if facts.flags is not None:
        yield from _verdicts(facts.flags)
    speeds = [f"{speed:,.0f} with batches of {batch}" for batch, speed in measured.speeds]
    yield f"- Bytes of translation a second, {measured.threads} threads, on the machine that wrote"
    yield f"  this: {', '.join(speeds)}"
    yield f"- A line of more than {config.data.max_source_bytes:,} bytes is translated in pieces."
    yield "\nchrF with a share of the source's characters disturbed (typos, case, swaps, characters"
    yield f"dropped or doubled; digits stay; seed {NOISE_SEED}):\n"
    yield f"| {' | '.join(f'{share:.0%}' for share, _ in measured.noise)} |"
    yield f"|{'---:|' * len(measured.noise)}"
    yield f"| {' | '.join(f'{chrf:.2f}' for _, chrf in measured.noise)} |"
    yield f"\n```toml\n{config_toml(config).strip()}\n```"


def _verdicts(flags: FlagThresholds) -> Iterator[str]:
    """Yield the thresholds of verdicts as an item of a list."""
    if not flags.searches:
        return
    levels = []
    for search, doubt in flags.searches.items():
        wrong = "" if doubt.wrong is None else f", wrong above {doubt.wrong:.2f}"
        levels.append(f"{search} {doubt.unsure:.2f}{wrong}")
    yield f"- Verdict sure up to a doubt of: {'; '.join(levels)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL", help="run folder or weights file")
    parser.add_argument("-o", "--output", type=Path, required=True, help="card to write")
    parser.add_argument("--src", type=Path, required=True, help="source side of a test set")
    parser.add_argument("--ref", type=Path, required=True, help="reference translation of --src")
    parser.add_argument("--name", help="name of the model (default: that of MODEL)")
    codes = "code, such as en; source first"
    parser.add_argument("--language", action="append", default=[], help=codes)
    parser.add_argument("--license", help="of the weights, such as cc-by-4.0")
    parser.add_argument("--data", action="append", default=[], help="name of a training data set")
    parser.add_argument("-b", "--beam", type=int, default=1, help="beam size (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (%(default)s)")
    parser.add_argument("--engine", default=AUTO, help="as in bytenmt translate")
    args = parser.parse_args(arguments)
    args.name = args.name or args.model.resolve().name.removesuffix(".safetensors")
    try:
        runtime = load_runs([args.model], EngineSpec(args.engine, AUTO, AUTO, args.threads))
        sources, references = (list(TextFile.open(path)) for path in (args.src, args.ref))
        settings = Settings.from_dict({"beam": args.beam})
        measured = measure(runtime, sources, [line.decode() for line in references], settings)
        text = card(runtime.runs[0], measured._replace(threads=args.threads), args)
        args.output.write_text(text, encoding="utf-8")
    except (BytenmtError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
