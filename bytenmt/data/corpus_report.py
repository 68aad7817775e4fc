"""Describe a corpus for people: its size, the lines that were left out or repaired, and several sentences in
a line.

A model that was trained on single sentences should be given single sentences; the share of lines with several
tells whether it was.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.line_scan import LONGEST_LINE, Indices, Lengths
from bytenmt.data.sentences import languages_of_files, sentence_ends
from bytenmt.errors import DataError, printable
from bytenmt.language_profile import LanguageProfile

N_LISTED = 10  # line numbers that are named
MOST_PROFILED = 10_000  # pairs from which language profiles are counted
MOST_COUNTED = 20_000  # lines of a part; of more, as many evenly spaced ones are looked at


def inventory(corpus: ParallelCorpus, listing: Path | None = None) -> list[str]:
    """Return lines that describe the corpus and what was left out or repaired.

    listing: a file (tab-separated: file, line, reason) that is written if more lines were left out or
    repaired than are named here. Raises DataError if it cannot be written.
    """
    parts = range(len(corpus.parts))
    groups = [group for p in parts for group in _groups(corpus, p)]
    if listing is None or all(len(lines) <= N_LISTED for _, lines in groups):
        listing = None
    else:
        _write(listing, ("\t".join(row) for p in parts for row in _rows(corpus, p)))
    found = [line for p in parts for line in _part_lines(corpus, p, listing)]
    if len(corpus.parts) > 1:
        source, target = (
            f"{lengths.sum(dtype=np.int64):,}" for lengths in (corpus.source_lengths, corpus.target_lengths)
        )
        sizes = f"{source} source and {target} target" if corpus.has_source else f"{target} target"
        found.append(f"{len(corpus.parts)} parts together: {len(corpus):,} pairs, {sizes} bytes")
    return found


def _groups(corpus: ParallelCorpus, p: int) -> list[tuple[str, Indices]]:
    """Return the reasons why lines of a part are left out or repaired, and the lines, from 0."""
    part, (too_long, empty) = corpus.parts[p], corpus.left_out[p]
    sides = {
        "source": corpus.max_source_bytes if corpus.has_source else None,
        "target": corpus.max_target_bytes,
    }
    limits = " or ".join(f"{limit} {side}" for side, limit in sides.items() if limit)
    groups = [(f"left out, longer than {limits} bytes", too_long), ("left out, empty", empty)]
    groups += [(f"repaired, not UTF-8 in {text.path}", text.repaired - 1) for text in part.files]
    return [(reason, lines) for reason, lines in groups if len(lines)]


def _part_lines(corpus: ParallelCorpus, p: int, listing: Path | None) -> Iterator[str]:
    part, within = corpus.parts[p], slice(int(corpus.bounds[p]), int(corpus.bounds[p + 1]))
    weight = "" if part.weight == 1 else f", weight {part.weight:g}"
    yield f"{part.name}: {within.stop - within.start:,} pairs{weight}"
    if corpus.has_source:
        yield f"source: {_describe_lengths(corpus.source_lengths[within])}"
    yield f"target: {_describe_lengths(corpus.target_lengths[within])}"
    for reason, lines in _groups(corpus, p):
        yield f"{reason}: {_list_lines(lines + 1, listing)}"


def _rows(corpus: ParallelCorpus, p: int) -> Iterator[tuple[str, str, str]]:
    """Yield file, line number and reason of each fault in a part's lines; a pair may have two."""
    part, (too_long, empty) = corpus.parts[p], corpus.left_out[p]
    sides = [(part.tgt, "target", corpus.max_target_bytes)]
    if part.src is not None:
        sides.insert(0, (part.src, "source", corpus.max_source_bytes))
    for text, side, limit in sides:
        for line in empty[text.lengths[empty] == 0].tolist():
            yield printable(text.path), str(line + 1), f"left out: {side} empty"
        over = text.lengths[too_long] > (limit or LONGEST_LINE)
        for line in too_long[over].tolist():
            yield printable(text.path), str(line + 1), f"left out: {side} longer than {limit} bytes"
    for text in part.files:
        for number in text.repaired.tolist():
            yield printable(text.path), str(number), "repaired: not UTF-8"


def _describe_lengths(lengths: Lengths) -> str:
    longest = int(lengths.max(initial=0))
    return f"{int(lengths.sum(dtype=np.int64)):,} bytes, longest line {longest:,}"


def _list_lines(numbers: Indices, listing: Path | None) -> str:
    """Format the number of lines and the first of them: "2 (lines 4, 17)"."""
    named = ", ".join(str(number) for number in numbers[:N_LISTED].tolist())
    more = ""
    if len(numbers) > N_LISTED:
        more = f" and {len(numbers) - N_LISTED:,} more" + ("" if listing is None else f", see {listing}")
    return f"{len(numbers):,} (line{'s' if len(numbers) > 1 else ''} {named}{more})"


def _write(listing: Path, rows: Iterable[str]) -> None:
    """Write the rows of a report below a line with the names of the columns."""
    try:
        listing.parent.mkdir(parents=True, exist_ok=True)
        with open(listing, "w", encoding="utf-8") as file:
            file.writelines(f"{row}\n" for row in chain(["file\tline\treason"], rows))
    except OSError as error:
        raise DataError(
            f"{listing} cannot be written ({error.strerror}): free disk space or check its permissions"
        ) from error


def multi_sentence_share(corpus: ParallelCorpus) -> float:
    """Return the share of a corpus' pairs whose source (without one: whose target) holds several sentences.

    Each part counts with its weight, as often as training sees it.
    """
    total, several = 0.0, 0.0
    for p, part in enumerate(corpus.parts):
        begin, end = int(corpus.bounds[p]), int(corpus.bounds[p + 1])
        n = min(end - begin, MOST_COUNTED)
        if not n:
            continue
        text = part.tgt if part.src is None else part.src
        looked_at = begin + np.arange(n) * (end - begin) // n
        languages = languages_of_files([str(text.path)])
        lines = (text.line(line).decode() for line in corpus.lines[looked_at].tolist())
        hits = sum(bool(sentence_ends(line, languages)) for line in lines)
        total += part.weight * (end - begin)
        several += part.weight * (end - begin) * hits / n
    return several / total if total else 0.0


def language_profiles(corpus: ParallelCorpus) -> tuple[str, str]:
    """Return the profiles of a corpus' source and target language as text, see `language_profile`.

    They are counted from evenly spaced pairs; empty for a corpus without a source, whose language nobody asks
    for, and for a side without letters.
    """
    if not corpus.has_source:
        return "", ""
    n = min(len(corpus), MOST_PROFILED)
    pairs = (np.arange(n) * len(corpus) // n).tolist()
    profiles = [LanguageProfile.from_lines(map(side, pairs)) for side in (corpus.source, corpus.target)]
    source, target = ("" if profile is None else profile.to_text() for profile in profiles)
    return source, target
