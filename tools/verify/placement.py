"""Measure where kept spans are placed in translations of program catalogs, relative to human translations.

    python tools/verify/placement.py --catalogs FILE.mo ... --model data/models/en-de [--beam 1 5] \\
      [--exclude train.en ...] [--way free kept] [--show 30] [--units 400]

Reads units (msgid, msgstr) from gettext catalogs: one line, 8 to 140 bytes, words in addition to the spans,
and the same spans in msgid and msgstr. At most MOST_OF_CATALOG units of a catalog are drawn for each kind:
150 with tags, the others with placeholders or URLs. Lines of the --exclude files, such as a training text,
are skipped. Spans are found by regular expressions that share nothing with the package.

For each model, beam and way (`free`: no constraints, `kept`: placeholders, tags, URLs and e-mail addresses
are kept) it prints

- kept: the share of units whose translation has exactly the spans of the source;
- neighbours: the share of the source's spans that are in the translation with the same neighbours on both
  sides as in the reference. A neighbour is the beginning or end of the text, another span (by its text), or
  text (any run with a letter or digit);
- moved: the mean distance of a span's position from that in the reference, where a position is the share of
  letters and digits before the span; a missing span counts as 1;
- at the end: the share of spans that no letter or digit follows, though one does in the reference; in
  brackets those that are not at the end of the source either;
- empty pairs: the share of paired tags that enclose text in the reference and nothing in the translation;
- inside: chrF of the text inside paired tags;
- chrF of the lines; the number of units with the flag `placement`, and how many of these have a span at the
  end that is not at the end of the source.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, before what is installed

import polib

from bytenmt.decoding.setting_table import KEPT_OF_DOCUMENTS
from bytenmt.decoding.translator import Translator
from bytenmt.evaluation.scores import text_scores

TAG = r"</?[A-Za-z][A-Za-z0-9-]*(?: [^<>]*)?/?>"
SPAN = re.compile(
    rf"(?P<tag>{TAG})|https?://[^\s<>\"']*[A-Za-z0-9/]|[\w.+-]+@[\w-]+\.[\w.]*\w"
    r"|%(?:\(\w+\))?(?:\d+\$)?[-+#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|q|z|j|t|L)?[diouxXeEfFgGcs](?!\w)|%%"
    r"|\$?\{[\w.:]*\}|\$[A-Za-z_]\w*"
)
WORD = re.compile(r"[^\W\d_]{2,}")
N_TAGGED, MOST_OF_CATALOG = 150, 60
BYTES = range(8, 141)
BEGIN, END, TEXT = "begin", "end", "text"


class Unit(NamedTuple):
    """A source text of a catalog and its translation."""

    source: str
    reference: str


class SpanPosition(NamedTuple):
    """A span: its text, the neighbours on both sides, and the share of letters and digits before it.

    is_last: no letter or digit follows.
    """

    span: str
    left: str
    right: str
    position: float
    is_last: bool


def spans(text: str) -> list[str]:
    """Return the spans of a text."""
    return [match[0] for match in SPAN.finditer(text)]


def strip_spans(text: str) -> str:
    """Return the letters and digits of a text outside of spans."""
    return "".join(filter(str.isalnum, SPAN.sub(" ", text)))


def span_positions(text: str) -> list[SpanPosition]:
    """Return the positions of the spans in a text."""
    matches = list(SPAN.finditer(text))
    n_letters, n_before = len(strip_spans(text)), 0
    sequence, at = [BEGIN], 0
    positions = []
    for match in matches:
        between = strip_spans(text[at : match.start()])
        n_before += len(between)
        sequence += [TEXT] * bool(between) + [match[0]]
        positions.append((len(sequence) - 1, n_before / max(1, n_letters)))
        at = match.end()
    sequence += [TEXT] * bool(strip_spans(text[at:])) + [END]
    return [
        SpanPosition(sequence[i], sequence[i - 1], sequence[i + 1], position, TEXT not in sequence[i:])
        for i, position in positions
    ]


def tag_pairs(text: str) -> list[tuple[str, str]]:
    """Return the opening tag and the enclosed text of each element, inner ones before outer ones."""
    found, open_tags = [], list[re.Match[str]]()
    for match in SPAN.finditer(text):
        if match["tag"] is None or match[0].endswith("/>"):
            continue
        if not match[0].startswith("</"):
            open_tags.append(match)
        elif open_tags and re.split(r"[\s>]", open_tags[-1][0][1:])[0] == match[0][2:-1]:
            opening = open_tags.pop()
            found.append((opening[0], text[opening.end() : match.start()]))
    return found


def read_units(catalogs: Sequence[Path], excluded: set[str], n_units: int, seed: int) -> list[Unit]:
    """Draw units from catalogs: N_TAGGED with tags, the others without; see the module."""
    draw, seen = random.Random(seed), set(excluded)
    tagged, others = list[Unit](), list[Unit]()
    for path in sorted(catalogs):
        own: tuple[list[Unit], list[Unit]] = ([], [])
        entries = polib.mofile(str(path)) if path.suffix == ".mo" else polib.pofile(str(path))
        for entry in entries:
            unit = Unit(entry.msgid, entry.msgstr)
            if unit.source in seen or "\n" in "".join(unit) or len(unit.source.encode()) not in BYTES:
                continue
            in_source = spans(unit.source)
            is_same = in_source and Counter(in_source) == Counter(spans(unit.reference))
            has_shortcut = re.search(r"(?<!\w)[_&]\w", unit.source)
            n_words = len(WORD.findall(SPAN.sub(" ", unit.source)))
            if (
                not is_same
                or has_shortcut
                or n_words < 2
                or strip_spans(unit.source) == strip_spans(unit.reference)
            ):
                continue
            seen.add(unit.source)
            has_tag = any(one.startswith("<") for one in in_source)
            if has_tag and len(tag_pairs(unit.source)) * 2 != sum(one.startswith("<") for one in in_source):
                continue  # <file> in a usage message is not a tag
            own[has_tag].append(unit)
        for drawn, of_catalog in zip((others, tagged), own, strict=True):
            drawn += draw.sample(of_catalog, min(MOST_OF_CATALOG, len(of_catalog)))
    n_tagged = min(N_TAGGED, len(tagged))
    return draw.sample(tagged, n_tagged) + draw.sample(others, min(n_units - n_tagged, len(others)))


def match_positions(text: str, reference: str) -> list[tuple[SpanPosition | None, SpanPosition]]:
    """Pair each span of the reference with the next equal span of the text, or None."""
    waiting: dict[str, list[SpanPosition]] = {}
    for place in span_positions(text):
        waiting.setdefault(place.span, []).append(place)
    return [
        (waiting[place.span].pop(0) if waiting.get(place.span) else None, place)
        for place in span_positions(reference)
    ]


def spans_moved_to_end(text: str, unit: Unit) -> list[str]:
    """Return the spans at the end of a translation that are at the end of neither reference nor source."""
    at_end = {place.span for place in span_positions(unit.source) if place.is_last}
    matched = match_positions(text, unit.reference)
    moved = [there.span for own, there in matched if own is not None and own.is_last and not there.is_last]
    return [span for span in moved if span not in at_end]


def describe(units: Sequence[Unit], texts: Sequence[str]) -> str:
    """Describe the placement of spans in the translations of the units."""
    matched = [
        both
        for unit, text in zip(units, texts, strict=True)
        for both in match_positions(text, unit.reference)
    ]
    n_kept = sum(
        Counter(spans(unit.source)) == Counter(spans(text)) for unit, text in zip(units, texts, strict=True)
    )
    n_same = sum(own is not None and own[1:3] == there[1:3] for own, there in matched)
    moved = sum(1.0 if own is None else abs(own.position - there.position) for own, there in matched)
    n_end = sum(own is not None and own.is_last and not there.is_last for own, there in matched)
    n_moved = sum(len(spans_moved_to_end(text, unit)) for unit, text in zip(units, texts, strict=True))
    inside: tuple[list[str], list[str]] = ([], [])
    n_pairs = n_empty = 0
    for unit, text in zip(units, texts, strict=True):
        own = tag_pairs(text)
        for opening, enclosed in tag_pairs(unit.reference):
            if not strip_spans(enclosed):
                continue
            at = next((i for i, (tag, _) in enumerate(own) if tag == opening), None)
            there = own.pop(at)[1] if at is not None else ""
            n_pairs += 1
            n_empty += not strip_spans(there)
            inside[0].append(there)
            inside[1].append(enclosed)
    n, chrf = len(matched), text_scores(texts, [unit.reference for unit in units]).chrf
    line = (
        f"kept {n_kept / len(units):.1%}, neighbours {n_same / n:.1%}, moved {moved / n:.3f},"
        f" at the end {n_end / n:.1%} ({n_moved / n:.1%}), chrF {chrf:.2f}"
    )
    if n_pairs:
        score = text_scores(inside[0], inside[1]).chrf
        line += f", empty pairs {n_empty / n_pairs:.1%}, inside {score:.2f}"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the placement of kept spans in translations.")
    parser.add_argument("--catalogs", type=Path, nargs="+", required=True)
    parser.add_argument("--model", type=Path, nargs="+", required=True)
    parser.add_argument("--exclude", type=Path, nargs="*", default=[])
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--way", nargs="+", choices=("free", "kept"), default=["free", "kept"])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--units", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="number of units to print for reading")
    parser.add_argument("--save", type=Path, help="file for source, reference and translation of each unit")
    options = parser.parse_args()
    excluded = {line for path in options.exclude for line in path.read_text(encoding="utf-8").splitlines()}
    units = read_units(options.catalogs, excluded, options.units, options.seed)
    n_spans = sum(len(spans(unit.reference)) for unit in units)
    n_tagged = sum(bool(tag_pairs(unit.source)) for unit in units)
    print(f"{len(units)} units with {n_spans} spans, {n_tagged} units with tags")
    for model, beam, way in product(options.model, options.beam, options.way):
        keep = KEPT_OF_DOCUMENTS if way == "kept" else ()
        translator = Translator.load(model, engine=options.engine, threads=1, beam=beam, keep=keep)
        best = [hypotheses[0] for hypotheses in translator.n_best([unit.source for unit in units])]
        texts = [one.text for one in best]
        at_end = {number for number, unit in enumerate(units) if spans_moved_to_end(texts[number], unit)}
        flagged = [number for number, one in enumerate(best) if "placement" in (one.flags or ())]
        n_right = len(at_end & {*flagged})
        flags = f"{len(flagged)} units flagged, {n_right} of the {len(at_end)} with a span at the end"
        print(f"{model}, beam {beam}, {way}: {describe(units, texts)}, {flags}")
        print(f"  with tags: {describe(units[:n_tagged], texts[:n_tagged])}", flush=True)
        for number in random.Random(options.seed).sample(range(len(units)), options.show):
            unit = units[number]
            flag = " [placement]" if number in flagged else ""
            print(f"\n  {unit.source}\n  ref   {unit.reference}\n  {way}  {texts[number]}{flag}")
        if options.save:
            with open(options.save, "a", encoding="utf-8") as file:
                for unit, text in zip(units, texts, strict=True):
                    file.write("\t".join((str(model), str(beam), way, *unit, text)) + "\n")


if __name__ == "__main__":
    main()
