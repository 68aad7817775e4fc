"""Check that placeholders, tags, URLs, addresses and numbers are kept in translations, and measure the cost.

    python tools/verify/keep.py --model RUN --src test.en --ref test.ko [--beam 1 4] [--engine numba torch]

The lines of the text that have such spans are translated without constraints, and with all spans kept. Prints
for each engine and beam: the number of lines whose spans, as found by the extractor, equal those of the
source as multisets; of the lines with balanced tags in the source, the number with balanced tags in the
translation, by a count that shares nothing with the search; chrF and BLEU; and source and translation bytes
per second on one thread, with and without constraints in turn. Lines that lack something, or whose tags are
mangled, are printed.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections import Counter
from itertools import product
from operator import eq
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, before what is installed


from bytenmt.decoding.setting_table import KEPT
from bytenmt.decoding.translator import Translator
from bytenmt.evaluation.scores import text_scores
from bytenmt.spans.extractor import span_extractor

ELEMENT = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:._-]*)(?:\s[^<>]*?)?(/?)>")
VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "meta", "source", "track", "wbr")


EXTRACTOR = span_extractor(KEPT)


def count_spans(text: str) -> Counter[bytes]:
    """Count the spans of a text."""
    return Counter(EXTRACTOR.texts(text.encode()))


def is_balanced(text: str) -> bool:
    """Return whether each opened element is closed, the last one first."""
    open_elements: list[str] = []
    for end, name, alone in ELEMENT.findall(text):
        if end:
            if not open_elements or open_elements.pop() != name:
                return False
        elif not alone and name.lower() not in VOID:
            open_elements.append(name)
    return not open_elements


def describe(sources: list[str], translations: list[str], references: list[str], tokenize: str) -> str:
    """Describe how many spans a set of translations keeps, and its quality."""
    n_same = sum(map(eq, map(count_spans, sources), map(count_spans, translations)))
    of_balanced = [
        is_balanced(text) for source, text in zip(sources, translations, strict=True) if is_balanced(source)
    ]
    scores = text_scores(translations, references, tokenize)
    return (
        f"{n_same} of {len(sources)} have exactly the source's spans,"
        f" {sum(of_balanced)} of {len(of_balanced)} balanced, chrF {scores.chrf:.2f}, BLEU {scores.bleu:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Check that spans are kept in translations.")
    for name in ("model", "src", "ref"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000, help="maximum number of lines")
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--engine", nargs="+", default=["numba", "torch"])
    parser.add_argument("--tokenize", default="char", help="sacreBLEU's tokenizer")
    parser.add_argument("--rounds", type=int, default=2, help="measurements, of which the fastest counts")
    options = parser.parse_args()
    read = [path.read_text(encoding="utf-8").splitlines() for path in (options.src, options.ref)]
    pairs = [pair for pair in zip(*read, strict=True) if count_spans(pair[0])][: options.lines]
    sources, references = [list(side) for side in zip(*pairs, strict=True)]
    print(f"{len(sources)} lines with {sum(sum(count_spans(text).values()) for text in sources)} spans")
    for engine, beam in product(options.engine, options.beam):
        ways = {
            way: Translator.load(options.model, engine=engine, threads=1, beam=beam, keep=keep)
            for way, keep in (("free", []), ("kept", list(KEPT)))
        }
        quickest, texts = dict.fromkeys(ways, math.inf), dict[str, list[str]]()
        for translator in ways.values():
            translator.translate(sources[:4])
        for way, translator in [*ways.items()] * options.rounds:
            began = time.perf_counter()
            texts[way] = translator.translate(sources)
            quickest[way] = min(quickest[way], time.perf_counter() - began)
        for way, found in texts.items():
            rates = [sum(len(t.encode()) for t in side) / quickest[way] for side in (sources, found)]
            print(
                f"{engine}, beam {beam}, {way}: {describe(sources, found, references, options.tokenize)},"
                f" bytes a second: source {rates[0]:,.0f}, text {rates[1]:,.0f}",
                flush=True,
            )
        for source, text in zip(sources, texts["kept"], strict=True):
            if count_spans(source) != count_spans(text) or is_balanced(source) > is_balanced(text):
                print(f"  {source}\n  {text}")


if __name__ == "__main__":
    main()
