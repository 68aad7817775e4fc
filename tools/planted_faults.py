"""Count the planted faults that a model's quality flags detect, and their false alarms.

    python tools/planted_faults.py data/models/en-de --direction en-de --corpora corpora

corpora: as tools/get_data.py writes them. Each fault is planted into the reference translations of
test texts, which are then scored by forced decoding and judged as if the model had written them:

- another line: the reference of another line of the same text
- loop: one to three consecutive words are repeated three to eight more times
- number: a number that occurs on both sides is deleted from the translation
- copy: the source itself, where it is not the reference
- nothing to translate: the source is empty or has only punctuation
- foreign source: the source is a French line of Multi30k

"wrong" counts the lines that are flagged as wrong. Lines flagged only as unsure do not count:
references have a higher cost than the model's own translations, on which that threshold is
calibrated.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout: tools import each other

from msgspec import structs

from bytenmt.data.text_file import TextFile
from bytenmt.decoding.interface import AUTO, EngineSpec, Hypothesis
from bytenmt.decoding.loading import load_runs
from bytenmt.errors import BytenmtError
from bytenmt.evaluation.judge import Judge, bits_of_texts
from bytenmt.translation.confidence import SURE, WRONG, Verdict, is_copy
from tools.extras import tool_parser

TEXTS = {
    "tatoeba": "tatoeba-eng-deu/test",
    "uistrings": "uistrings-eng-deu/test",
    "multi30k": "multi30k/test_2016_flickr",
}
FOREIGN_TEXT = "multi30k/test_2016_flickr.fr"
INTACT = "intact"
NO_WORDS = ("", "–", "...", "***", "?!", "-->")
LN2 = 0.6931471805599453


class Pair(NamedTuple):
    """A source and the text that is judged as its translation."""

    source: str
    text: str


class Count(NamedTuple):
    """Counts over n pairs: flagged as wrong, flagged at all, and by flag."""

    n: int
    n_wrong: int
    n_flagged: int
    flags: dict[str, int]


def plant(pairs: Sequence[Pair], foreign: Sequence[str], seed: int) -> dict[str, list[Pair]]:
    """Return the intact pairs, and for each fault the pairs with that fault, by name."""
    chance = random.Random(seed)
    faults: dict[str, list[Pair]] = {INTACT: list(pairs)}
    others = zip(pairs, [*pairs[1:], *pairs[:1]], strict=True)
    different = [(one, other) for one, other in others if one.text != other.text]
    faults["another line"] = [Pair(one.source, other.text) for one, other in different]
    faults["loop"] = [Pair(one.source, _with_loop(one.text, chance)) for one in pairs]
    faults["number"] = [pair for one in pairs for pair in _without_numbers(one, chance)]
    changed = [one for one in pairs if not is_copy(one.source.encode(), one.text.encode())]
    faults["copy"] = [Pair(one.source, one.source) for one in changed]
    faults["nothing to translate"] = [Pair(chance.choice(NO_WORDS), one.text) for one in pairs]
    faults["foreign source"] = [Pair(chance.choice(foreign), one.text) for one in pairs]
    return faults


def _with_loop(text: str, chance: random.Random) -> str:
    """Return the text with a few consecutive words repeated."""
    words = text.split(" ")
    size = chance.randint(1, min(3, len(words)))
    first = chance.randrange(len(words) - size + 1)
    end = first + size
    repeated = chance.randint(3, 8) * words[first:end]
    return " ".join([*words[:end], *repeated, *words[end:]])


def _without_numbers(pair: Pair, chance: random.Random) -> Iterator[Pair]:
    """Yield the pair without one of the numbers that occur on both sides, if there is any."""
    in_source = Counter(re.findall(r"\d+", pair.source))
    places = [match for match in re.finditer(r"\d+", pair.text) if in_source[match[0]]]
    if places:
        match = chance.choice(places)
        yield Pair(pair.source, pair.text[: match.start()] + pair.text[match.end() :])


def judge_pairs(judge: Judge, pairs: Sequence[Pair]) -> Count:
    """Judge pairs as if the model had written the texts, and count the flags."""
    sources = [pair.source.encode() for pair in pairs]
    texts = [pair.text.encode() for pair in pairs]
    bits = bits_of_texts(judge.scorer, sources, texts)
    costs = zip(texts, bits.tolist(), strict=True)
    written = [Hypothesis(text, -LN2 * cost, 0.0) for text, cost in costs]
    every = judge.flags(sources, written)
    levels = [Verdict.from_flags(flags).level for flags in every]
    found = Counter(flag for flags in every for flag in flags)
    return Count(len(pairs), levels.count(WRONG), len(pairs) - levels.count(SURE), dict(found))


def read_pairs(corpora: Path, name: str, direction: str, n_lines: int | None) -> list[Pair]:
    """Return the pairs of a test text without blank lines. Raises DataError."""
    own, other = (TextFile.open(corpora / f"{TEXTS[name]}.{side}") for side in direction.split("-"))
    lines = islice(zip(own, other, strict=True), n_lines)
    return [Pair(a.decode(), b.decode()) for a, b in lines if a.strip() and b.strip()]


def table(counts_of_texts: dict[str, dict[str, Count]]) -> list[str]:
    """Return a Markdown table of the shares of lines flagged as wrong, one column for each text."""
    lines = [f"| | {' | '.join(counts_of_texts)} | all |"]
    lines.append(f"|---|{'---:|' * (len(counts_of_texts) + 1)}")
    for fault in next(iter(counts_of_texts.values())):
        counts = [text[fault] for text in counts_of_texts.values()]
        total = Count(sum(one.n for one in counts), sum(one.n_wrong for one in counts), 0, {})
        counts.append(total)
        cells = [f"{100 * one.n_wrong / max(1, one.n):.1f} % of {one.n}" for one in counts]
        lines.append(f"| {fault} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    parser.add_argument("run", type=Path, nargs="+")
    parser.add_argument("--direction", choices=("en-de", "de-en"), required=True)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--lines", type=int, help="first lines of each text; all by default")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        judge = Judge.from_runtime(load_runs(args.run, EngineSpec("numba", "cpu", AUTO, 1)))
        if judge.doubt is not None:
            # What people wrote costs a model far more than what it writes itself: the doubt above
            # which its own translations are wrong says nothing here.
            judge = replace(judge, doubt=structs.replace(judge.doubt, wrong=None))
        foreign = [line.decode() for line in TextFile.open(args.corpora / FOREIGN_TEXT)]
        found: dict[str, dict[str, Count]] = {}
        for name in TEXTS:
            pairs = read_pairs(args.corpora, name, args.direction, args.lines)
            faults = plant(pairs, foreign, args.seed)
            found[name] = {fault: judge_pairs(judge, some) for fault, some in faults.items()}
    except BytenmtError as error:
        sys.exit(str(error))
    print(judge.describe())
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
