"""Placeholders, tags, URLs, addresses and numbers: are all in the translations, and what does it cost?

    python tools/verify/keep.py --model RUN --src test.en --ref test.ko [--beam 1 4] [--engine numba torch]

The lines of the text that have any are translated as the model would, and with them kept. Prints for each
engine and beam in how many lines what the extractor finds is what it finds in the source (equal multisets);
in how many of those whose source's tags are balanced those of the translation are, by a count that shares
nothing with the search; chrF and BLEU; and bytes of source and of translation a second on one thread, with
and without by turns. Lines that lack something, or whose tags are mangled, are printed.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, before what is installed

from bytenmt.decoding.constraints.lexer import lexer
from bytenmt.decoding.names import KEPT
from bytenmt.decoding.translator import Translator
from bytenmt.evaluation.scores import text_scores

ELEMENT = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:._-]*)[^<>]*?(/?)>")
VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")


EXTRACTOR = lexer(KEPT)


def spans(text: str) -> Counter[bytes]:
    line = text.encode()
    return Counter(line[span.begin : span.end] for span in EXTRACTOR.spans(line))


def balanced(text: str) -> bool:
    """Whether each element that is opened is closed, the last first."""
    open_elements: list[str] = []
    for end, name, alone in ELEMENT.findall(text):
        if end:
            if not open_elements or open_elements.pop() != name:
                return False
        elif not alone and name.lower() not in VOID:
            open_elements.append(name)
    return not open_elements


def main() -> None:
    parser = argparse.ArgumentParser(description="Does what is kept stand in the translations?")
    for name in ("model", "src", "ref"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1000, help="at most, from the first on")
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--engine", nargs="+", default=["numba", "torch"])
    parser.add_argument("--tokenize", default="char", help="sacreBLEU's tokenizer")
    parser.add_argument("--rounds", type=int, default=2, help="of which the quicker counts")
    options = parser.parse_args()
    read = [path.read_text(encoding="utf-8").splitlines() for path in (options.src, options.ref)]
    pairs = [pair for pair in zip(*read, strict=True) if spans(pair[0])][: options.lines]
    sources, references = [list(side) for side in zip(*pairs, strict=True)]
    n_spans = sum(sum(spans(text).values()) for text in sources)
    n_balanced = sum(map(balanced, sources))
    print(f"{len(sources)} lines with {n_spans} spans, {n_balanced} of them balanced")
    for engine in options.engine:
        for beam in options.beam:
            ways: dict[str, list[str]] = {"free": [], "kept": list(KEPT)}
            made = {
                way: Translator.load(options.model, engine=engine, threads=1, beam=beam, keep=keep)
                for way, keep in ways.items()
            }
            quickest, texts = dict.fromkeys(ways, float("inf")), dict[str, list[str]]()
            for translator in made.values():
                translator.translate(sources[:4])
            for _ in range(options.rounds):
                for way, translator in made.items():
                    began = time.perf_counter()
                    texts[way] = translator.translate(sources)
                    quickest[way] = min(quickest[way], time.perf_counter() - began)
            for way, found in texts.items():
                told = list(zip(sources, found, strict=True))
                lacking = [pair for pair in told if spans(pair[0]) != spans(pair[1])]
                mangled = [pair for pair in told if balanced(pair[0]) and not balanced(pair[1])]
                scores = text_scores(found, references, options.tokenize)
                rates = [
                    sum(len(text.encode()) for text in side) / quickest[way] for side in (sources, found)
                ]
                print(
                    f"{engine}, beam {beam}, {way}: {len(sources) - len(lacking)} of {len(sources)} have"
                    f" all and no more, {n_balanced - len(mangled)} of {n_balanced} balanced, chrF"
                    f" {scores.chrf:.2f}, BLEU {scores.bleu:.2f}, bytes a second: source {rates[0]:,.0f},"
                    f" text {rates[1]:,.0f}",
                    flush=True,
                )
                for source, text in [*lacking, *mangled] if way == "kept" else ():
                    print(f"  {source}\n  {text}")


if __name__ == "__main__":
    main()
