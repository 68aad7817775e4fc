"""Write a corpus of single words and their translations, extracted from parallel text.

    python tools/word_pairs.py --src corpora/tatoeba-eng-deu/train.en corpora/uistrings-eng-deu/train.en \\
        --tgt corpora/tatoeba-eng-deu/train.de corpora/uistrings-eng-deu/train.de \\
        -o corpora/words-eng-deu/train.en corpora/words-eng-deu/train.de

Models trained on sentences alone translate single words badly. Word translation probabilities come from IBM
Model 1 (Brown et al. 1993) in both directions. A pair of words is written where each word is the most
probable translation of the other, both probabilities reach --threshold, and the two occur together often
enough. The first word of a sentence is lower-cased where it is mostly lower-case inside sentences.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout: tools import each other

import numpy as np
import numpy.typing as npt

from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.errors import BytenmtError

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
SHORTEST_WORD = 2  # letters
N_ITERATIONS = 5
MOST_WORDS = 40  # longer lines are skipped: they say little about which word translates which

Ids = npt.NDArray[np.int32]
Values = npt.NDArray[np.float64]


class Links(NamedTuple):
    """Pairs of words that occur together in a pair of lines, each combination once per pair of lines.

    source, target (n,) int32: word ids; pair (n,) int32: number of the pair of lines; combination (n,) int64:
    both word ids as one number.
    """

    source: Ids
    target: Ids
    pair: Ids
    combination: npt.NDArray[np.int64]


def split_words(lines: Sequence[str]) -> list[list[str]]:
    """Return the words of each line; a first word is lower-cased where it mostly is inside lines."""
    found = [_WORD.findall(line) for line in lines]
    inside = Counter(word for words in found for word in words[1:])
    for words in found:
        if words and inside[words[0].lower()] >= max(1, inside[words[0]]):
            words[0] = words[0].lower()
    return found


def word_pairs(
    sources: Sequence[str], targets: Sequence[str], threshold: float = 0.3, least: int = 4
) -> list[tuple[str, str]]:
    """Return words that are each other's most probable translation, by descending probability.

    threshold: least translation probability, in both directions; least: least number of pairs of lines with
    both words.
    """
    sides = split_words(sources), split_words(targets)
    vocabularies = [sorted({word for words in side for word in words}) for side in sides]
    ids = [{word: i for i, word in enumerate(vocabulary)} for vocabulary in vocabularies]
    n_words = len(vocabularies[0]), len(vocabularies[1])
    links = _links(_line_ids(sides[0], ids[0]), _line_ids(sides[1], ids[1]), n_words[1])
    there, counts = np.unique(links.combination, return_counts=True)
    of_link = np.searchsorted(there, links.combination)
    source, target = there // n_words[1], there % n_words[1]
    forward = _model_1(of_link, links.pair, links.target, source, n_words[0], len(there))
    backward = _model_1(of_link, links.pair, links.source, target, n_words[1], len(there))
    product = forward * backward
    usable = (np.minimum(forward, backward) >= threshold) & (counts >= least)
    best_of_source, best_of_target = np.zeros(n_words[0]), np.zeros(n_words[1])
    np.maximum.at(best_of_source, source, product)
    np.maximum.at(best_of_target, target, product)
    mutual = usable & (product == best_of_source[source]) & (product == best_of_target[target])
    order = np.flatnonzero(mutual)
    order = order[np.argsort(-product[order], kind="stable")]
    found = [(vocabularies[0][source[k]], vocabularies[1][target[k]]) for k in order.tolist()]
    return [pair for pair in found if min(map(len, pair)) >= SHORTEST_WORD]


def _line_ids(lines: list[list[str]], ids: dict[str, int]) -> list[list[int]]:
    """Return the sorted distinct word ids of each line."""
    return [sorted({ids[word] for word in words}) for words in lines]


def _links(source_lines: list[list[int]], target_lines: list[list[int]], n_targets: int) -> Links:
    """Return the links of all lines that are not too long. Raises BytenmtError where there are none."""
    sources, targets, pairs = [], [], []
    for number, (own, other) in enumerate(zip(source_lines, target_lines, strict=True)):
        if 0 < len(own) <= MOST_WORDS and 0 < len(other) <= MOST_WORDS:
            sources.append(np.repeat(np.array(own, np.int32), len(other)))
            targets.append(np.tile(np.array(other, np.int32), len(own)))
            pairs.append(np.full(len(own) * len(other), number, np.int32))
    if not sources:
        raise BytenmtError("no pair of lines holds words on both sides: check the texts")
    source, target, pair = (np.concatenate(parts) for parts in (sources, targets, pairs))
    return Links(source, target, pair, source.astype(np.int64) * n_targets + target)


def _model_1(
    combination: npt.NDArray[np.int64],
    pair: Ids,
    other: Ids,
    source: npt.NDArray[np.int64],
    n_source: int,
    n: int,
) -> Values:
    """Return the translation probability of each combination, by IBM Model 1.

    combination (n_links,): index of each link's combination; pair, other (n_links,): number of its pair of
    lines, and its word on the predicted side; source (n,): the conditioning word of each combination.
    """
    # E-step: the count 1 of each predicted word is shared among the words on the other side of its line.
    place = np.unique(pair.astype(np.int64) * (int(other.max()) + 1) + other, return_inverse=True)[1]
    probability = np.ones(n)
    for _ in range(N_ITERATIONS):
        weight = probability[combination]
        weight /= np.bincount(place, weight)[place]
        expected = np.bincount(combination, weight, n)
        probability = expected / np.bincount(source, expected, n_source)[source]
    return probability


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--src", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--tgt", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("-o", "--output", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument(
        "--threshold", type=float, default=0.3, help="least probability in both directions (%(default)s)"
    )
    parser.add_argument(
        "--least", type=int, default=4, help="least number of pairs of lines with both words (%(default)s)"
    )
    args = parser.parse_args(arguments)
    if len(args.src) != len(args.tgt):
        parser.error(f"{len(args.src)} source and {len(args.tgt)} target files: give as many")
    try:
        files = [PairFiles(src, tgt) for src, tgt in zip(args.src, args.tgt, strict=True)]
        corpus = ParallelCorpus.open_all(files)
        sources = [corpus.source(k).decode() for k in range(len(corpus))]
        targets = [corpus.target(k).decode() for k in range(len(corpus))]
        found = word_pairs(sources, targets, args.threshold, args.least)
        for path, side in zip(args.output, zip(*found, strict=True), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{word}\n" for word in side), encoding="utf-8")
    except (BytenmtError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{args.output[0]} and {args.output[1]}: {len(found):,} pairs of words")
    return 0


if __name__ == "__main__":
    sys.exit(main())
