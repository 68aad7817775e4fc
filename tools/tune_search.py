"""Tune the search of a run on validation text and store what is best as the run's defaults.

    python tools/tune_search.py runs/mine --src data/valid.ko --ref data/valid.en

First the size of n-grams that may not be repeated, then, with it, the length penalty. `translate` and
`evaluate` use them unless the options are given; `convert` and `average` copy them.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout: tools import each other

import msgspec

from bytenmt.atomic_file import write_atomically
from bytenmt.checkpoints.weights import SEARCH
from bytenmt.config.facts import SearchDefaults
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.interface import AUTO, ENGINES, EngineSpec
from bytenmt.decoding.loading import load_runs
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError
from bytenmt.evaluation.scores import text_scores

PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 2.0)
NGRAM_SIZES = (0, 8, 10, 12, 16)
NO_PENALTY = 1.0  # the length penalty that is used where nothing was tuned


def best_value(values: Sequence[float], score: Callable[[float], float], usual: float) -> float:
    """Return the value with the highest score; of equal ones, the nearest to the usual one."""
    scores = [score(value) for value in values]
    return max(zip(scores, values, strict=True), key=lambda pair: (pair[0], -abs(pair[1] - usual)))[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="the run folder")
    parser.add_argument("--src", type=Path, required=True, help="source text, not of the test set")
    parser.add_argument("--ref", "--tgt", dest="ref", type=Path, required=True, help="its translation")
    parser.add_argument("-b", "--beam", type=int, default=5, help="beam size, 5 by default")
    parser.add_argument("--metric", choices=("chrf", "bleu"), default="chrf", help="score to maximise")
    parser.add_argument(
        "--lines", type=int, default=500, help="number of first lines to decode, 500 by default"
    )
    parser.add_argument("--ngram-sizes", type=int, nargs="+", default=NGRAM_SIZES, help="sizes to try")
    parser.add_argument("--penalties", type=float, nargs="+", default=PENALTIES, help="penalties to try")
    parser.add_argument("--engine", choices=(AUTO, *ENGINES), default=AUTO, help="decoding engine")
    parser.add_argument("--threads", type=int, help="CPU threads")
    options = parser.parse_args(arguments)
    try:
        if not options.run.is_dir() or options.beam < 2:
            raise BytenmtError("give a run folder, in which the result is stored, and a beam of 2 or more")
        texts = [TextFile.open(path) for path in (options.src, options.ref)]
        if len(texts[0]) != len(texts[1]):
            raise BytenmtError(f"{options.src} and {options.ref} differ in their number of lines")
        sources, references = (
            [line.decode() for line in islice(iter(text), options.lines)] for text in texts
        )
        runtime = load_runs([options.run], EngineSpec(options.engine, AUTO, AUTO, options.threads))

        def score(size: int, penalty: float) -> float:
            """Return the score of a search; each needs its own, as the penalty decides when it ends."""
            translator = Translator.from_runtime(
                runtime, beam=options.beam, no_repeat_ngram_size=size, length_penalty=penalty
            )
            found = text_scores(translator.translate(sources), references)
            shown = f"no repeats of {size} characters, length penalty {penalty:g}"
            print(f"{shown}: chrF {found.chrf:.2f}, BLEU {found.bleu:.2f}", flush=True)
            return found.bleu if options.metric == "bleu" else found.chrf

        size = int(best_value(options.ngram_sizes, lambda size: score(int(size), NO_PENALTY), 0))
        penalty = best_value(options.penalties, lambda penalty: score(size, penalty), NO_PENALTY)
        defaults = SearchDefaults(length_penalty=penalty, no_repeat_ngram_size=size, beam=options.beam)
        write_atomically(options.run / SEARCH, msgspec.json.encode(defaults) + b"\n")
    except (BytenmtError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.run / SEARCH}: no repeats of {size} characters, length penalty {penalty:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
