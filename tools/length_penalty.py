"""Tune the length penalty of a run's beam search on validation text and store it as the run's default.

    python tools/length_penalty.py runs/mine --src data/valid.ko --ref data/valid.en

`translate` and `evaluate` use it unless --length-penalty is given; `convert` and `average` copy it.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout: tools import each other

from bytenmt.checkpoints import search_defaults
from bytenmt.config.facts import SearchDefaults
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.interface import AUTO, ENGINES, EngineSpec
from bytenmt.decoding.loading import Runtime, load_runs
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError
from bytenmt.evaluation.scores import text_scores

PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 2.0)


def scores(
    runtime: Runtime, sources: list[str], references: list[str], beam: int, penalties: Sequence[float]
) -> list[tuple[float, float]]:
    """Return chrF and BLEU for each penalty.

    Each penalty needs a search of its own, because it decides when a search ends.
    """
    found = []
    for penalty in penalties:
        translator = Translator.from_runtime(runtime, beam=beam, length_penalty=penalty)
        of_text = text_scores(translator.translate(sources), references)
        found.append((of_text.chrf, of_text.bleu))
        print(f"length penalty {penalty:g}: chrF {of_text.chrf:.2f}, BLEU {of_text.bleu:.2f}", flush=True)
    return found


def best_penalty(penalties: Sequence[float], values: Sequence[float]) -> float:
    """Return the penalty with the highest value; of equal ones, the nearest to 1."""
    return max(zip(values, penalties, strict=True), key=lambda one: (one[0], -abs(one[1] - 1)))[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Tune the length penalty of a run on validation text.")
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("--src", type=Path, required=True, help="source text, not of the test set")
    parser.add_argument("--ref", "--tgt", dest="ref", type=Path, required=True, help="its translation")
    parser.add_argument("-b", "--beam", type=int, default=5, help="beam size, 5 by default")
    parser.add_argument("--metric", choices=("chrf", "bleu"), default="chrf", help="score to maximise")
    parser.add_argument(
        "--lines", type=int, default=500, help="number of first lines to decode, 500 by default"
    )
    parser.add_argument("--penalties", type=float, nargs="+", default=PENALTIES, help="penalties to try")
    parser.add_argument("--engine", choices=(AUTO, *ENGINES), default=AUTO, help="decoding engine")
    parser.add_argument("--threads", type=int, help="CPU threads")
    options = parser.parse_args(arguments)
    try:
        if not options.run.is_dir() or options.beam < 2:
            raise BytenmtError("give a run folder, in which the penalty is stored, and a beam of 2 or more")
        texts = [TextFile.open(path) for path in (options.src, options.ref)]
        if len(texts[0]) != len(texts[1]):
            raise BytenmtError(f"{options.src} and {options.ref} differ in their number of lines")
        sources, references = (
            [line.decode() for line in islice(iter(text), options.lines)] for text in texts
        )
        runtime = load_runs([options.run], EngineSpec(options.engine, AUTO, AUTO, options.threads))
        found = scores(runtime, sources, references, options.beam, options.penalties)
        penalty = best_penalty(options.penalties, [one[options.metric == "bleu"] for one in found])
        search_defaults.write(options.run, SearchDefaults(length_penalty=penalty, beam=options.beam))
    except (BytenmtError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.run / search_defaults.FILE}: length penalty {penalty:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
