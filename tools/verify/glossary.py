"""Check that the terms of a mined glossary are in the translations, and measure the effect on quality.

    python tools/verify/glossary.py --model data/models/en-de --train-src train.en --train-tgt train.de \\
      --src test.en --ref test.de [--terms 100] [--show 20]

The terms are pairs of words that are each other's best match in the training text by Dice's coefficient, the
target word in its most frequent spelling. The lines of the test text that contain a term are translated with
and without the glossary. Prints how many of the required terms are in the translations, chrF and BLEU of
both, and some lines to compare.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, before what is installed

from bytenmt.decoding.constraints.glossary import Glossary
from bytenmt.evaluation.scores import text_scores

WORD = re.compile(r"[^\W\d_]+")
SHORTEST, RAREST = 5, 30  # minimum letters of a word, and minimum number of lines with it


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file."""
    return path.read_text(encoding="utf-8").splitlines()


def mine_terms(sources: list[str], targets: list[str], n: int) -> list[tuple[str, str]]:
    """Return the n best pairs of words that are each other's best match by Dice's coefficient."""
    of_source, of_target, both = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for source, target in zip(sources, targets, strict=True):
        words = [{w for w in WORD.findall(text) if len(w) >= SHORTEST} for text in (source.lower(), target)]
        of_source.update(words[0])
        of_target.update(words[1])
        both.update((a, b) for a in words[0] for b in words[1])
    dice = {
        (a, b): 2 * count / (of_source[a] + of_target[b])
        for (a, b), count in both.items()
        if min(of_source[a], of_target[b]) >= RAREST
    }
    best: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for (a, b), _ in sorted(dice.items(), key=lambda one: one[1]):
        best[0][a], best[1][b] = b, a
    mutual = [pair for pair in dice if best[0][pair[0]] == pair[1] and best[1][pair[1]] == pair[0]]
    return sorted(sorted(mutual), key=lambda pair: -dice[pair])[:n]


def translate(model: Path, texts: list[str], beam: int, extra: list[str]) -> list[str]:
    """Translate texts with the command. extra: further options."""
    command = [sys.executable, "-m", "bytenmt", "translate", "-m", str(model), "-b", str(beam), "-q", *extra]
    text = "".join(f"{line}\n" for line in texts)
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().splitlines()


def count_whole_words(text: str, form: str) -> int:
    """Count the occurrences of a form as a whole word."""
    return len(re.findall(rf"(?<!\w){re.escape(form)}(?!\w)", text))


def main() -> None:
    parser = argparse.ArgumentParser(description="Check that a glossary's terms are in the translations.")
    for name in ("model", "train-src", "train-tgt", "src", "ref"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--terms", type=int, default=100)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--show", type=int, default=20, help="number of lines to print for reading")
    options = parser.parse_args()
    pairs = mine_terms(read_lines(options.train_src), read_lines(options.train_tgt), options.terms)
    with TemporaryDirectory() as folder:
        table = Path(folder) / "terms.tsv"
        table.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
        glossary = Glossary.from_file(table)
        test = list(zip(read_lines(options.src), read_lines(options.ref), strict=True))
        held = [(s, r, [f.term for f in glossary.find(s.encode())]) for s, r in test]
        held = [one for one in held if one[2]]
        sources, references = [one[0] for one in held], [one[1] for one in held]
        free = translate(options.model, sources, options.beam, [])
        bound = translate(options.model, sources, options.beam, ["--glossary", str(table)])
    required = sum(len(one[2]) for one in held)
    for name, found in (("without", free), ("with", bound)):
        there = sum(
            sum(
                min(count_whole_words(text, form), n)
                for form, n in Counter(t.forms[0] for t in terms).items()
            )
            for text, (_, _, terms) in zip(found, held, strict=True)
        )
        scores = text_scores(found, references)
        print(
            f"{name:8} {there} of {required} terms in {len(held)} lines,"
            f" chrF {scores.chrf:.1f}, BLEU {scores.bleu:.1f}"
        )
    same = sum(a == b for a, b in zip(free, bound, strict=True))
    n_last = sum(b.endswith(tuple(t.forms[0] for t in h[2])) for b, h in zip(bound, held, strict=True))
    longest = max(len(b) / max(len(f), len(s)) for b, f, s in zip(bound, free, sources, strict=True))
    print(f"{same} lines are the same with and without, {n_last} end with a term")
    print(f"none is longer than {longest:.1f} times the longer of its source and what it is without")
    for b, (source, _, terms) in zip(bound, held, strict=True):
        if any(not count_whole_words(b, t.forms[0]) for t in terms):
            print(f"  not a word of its own: {', '.join(t.forms[0] for t in terms)}   {source}   {b}")
    other = [i for i in range(len(held)) if free[i] != bound[i]]
    for i in random.Random(1).sample(other, min(options.show, len(other))):
        terms_of_line = ", ".join(f"{t.source} = {t.forms[0]}" for t in held[i][2])
        print(
            f"\n  {sources[i]}   [{terms_of_line}]\n  ref   {references[i]}\n  free  {free[i]}\n"
            f"  bound {bound[i]}"
        )


if __name__ == "__main__":
    main()
