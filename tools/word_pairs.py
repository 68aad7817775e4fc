r"""Write a corpus of single words and their translations, extracted from parallel text.

    python tools/word_pairs.py \
        --src corpora/tatoeba-eng-deu/train.en corpora/uistrings-eng-deu/train.en \
        --tgt corpora/tatoeba-eng-deu/train.de corpora/uistrings-eng-deu/train.de \
        -o corpora/words-eng-deu/train.en corpora/words-eng-deu/train.de

Models trained on sentences alone translate single words badly. Word translation probabilities come
from IBM Model 1 (Brown et al. 1993) in both directions. A pair of words is written where each word
is the most probable translation of the other, both probabilities are high, and the two occur
together often enough. The first word of a sentence is lower-cased where it is mostly lower-case
inside sentences.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout: tools import each other

import numpy as np
import numpy.typing as npt

from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.pair_files import PairFiles
from bytenmt.errors import BytenmtError
from tools.extras import tool_parser

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
MIN_WORD_LETTERS = 2  # letters
MIN_PROBABILITY = 0.3  # of a translation in both directions
MIN_LINE_PAIRS = 4  # with both words
N_ITERATIONS = 5
MAX_LINE_WORDS = 40  # longer lines are skipped: they say little about which word translates which

Ids = npt.NDArray[np.int64]


def split_words(lines: Sequence[str]) -> list[list[str]]:
    """Return the words of each line; a first word is lower-cased where it mostly is elsewhere."""
    found = [_WORD.findall(line) for line in lines]
    inside = Counter(word for words in found for word in words[1:])
    for words in found:
        if words and inside[words[0].lower()] >= max(1, inside[words[0]]):
            words[0] = words[0].lower()
    return found


def word_pairs(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    """Return words that are each other's most probable translation, by descending probability.

    Both probabilities reach MIN_PROBABILITY, and MIN_LINE_PAIRS pairs of lines have both words.
    Raises BytenmtError.
    """
    sides = split_words(sources), split_words(targets)
    vocabularies = [sorted(set(chain.from_iterable(side))) for side in sides]
    ids = [dict(zip(vocabulary, count(), strict=False)) for vocabulary in vocabularies]
    links: list[tuple[int, int, int]] = []  # number of the pair of lines, source word, target word
    for number, pair in enumerate(zip(*sides, strict=True)):
        own = sorted({ids[0][word] for word in pair[0]})
        other = sorted({ids[1][word] for word in pair[1]})
        if len(own) <= MAX_LINE_WORDS and len(other) <= MAX_LINE_WORDS:
            links += ((number, a, b) for a in own for b in other)
    if not links:
        raise BytenmtError("no pair of lines holds words on both sides: check the texts")
    lines, own_words, other_words = np.array(links, np.int64).T
    pairs, which, counts = np.unique(
        own_words * len(vocabularies[1]) + other_words, return_inverse=True, return_counts=True
    )
    source, target = np.divmod(pairs, len(vocabularies[1]))
    forward = _model_1(which, lines, other_words, source)
    backward = _model_1(which, lines, own_words, target)
    product = forward * backward
    usable = (np.minimum(forward, backward) >= MIN_PROBABILITY) & (counts >= MIN_LINE_PAIRS)
    best_of_source, best_of_target = (np.zeros(len(vocabulary)) for vocabulary in vocabularies)
    np.maximum.at(best_of_source, source, product)
    np.maximum.at(best_of_target, target, product)
    mutual = usable & (product == best_of_source[source]) & (product == best_of_target[target])
    order = np.flatnonzero(mutual)
    order = order[np.argsort(-product[order], kind="stable")]
    found = [(vocabularies[0][source[k]], vocabularies[1][target[k]]) for k in order.tolist()]
    return [pair for pair in found if min(map(len, pair)) >= MIN_WORD_LETTERS]


def _model_1(which: Ids, lines: Ids, predicted: Ids, condition: Ids) -> npt.NDArray[np.float64]:
    """Return the translation probability of each combination of two words, by IBM Model 1.

    which, lines, predicted (n_links,): of each link its combination, its pair of lines, and its
    word on the predicted side; condition (n,): the other word of each combination.
    """
    # E-step: the count 1 of each predicted word is shared among the words on the other side of its
    # line.
    place = np.unique(lines * (int(predicted.max()) + 1) + predicted, return_inverse=True)[1]
    probability = np.ones(len(condition))
    for _ in range(N_ITERATIONS):
        weight = probability[which]
        weight /= np.bincount(place, weight)[place]
        expected = np.bincount(which, weight, len(condition))
        probability = expected / np.bincount(condition, expected)[condition]
    return probability


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    parser.add_argument("--src", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--tgt", type=Path, nargs="+", required=True, metavar="FILE")
    sides = ("SOURCE", "TARGET")
    parser.add_argument("-o", "--output", type=Path, nargs=2, required=True, metavar=sides)
    args = parser.parse_args(arguments)
    if len(args.src) != len(args.tgt):
        parser.error(f"{len(args.src)} source and {len(args.tgt)} target files: give as many")
    try:
        files = [PairFiles(src, tgt) for src, tgt in zip(args.src, args.tgt, strict=True)]
        corpus = ParallelCorpus.open_all(files)
        sources = [corpus.source(k).decode() for k in range(len(corpus))]
        targets = [corpus.target(k).decode() for k in range(len(corpus))]
        found = word_pairs(sources, targets)
        for path, side in zip(args.output, zip(*found, strict=True), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{word}\n" for word in side), encoding="utf-8")
    except (BytenmtError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"{args.output[0]} and {args.output[1]}: {len(found):,} pairs of words")


if __name__ == "__main__":
    main()
