"""Tell people about a corpus: its size, what was left out or repaired, and what may be a mistake.

Looks at samples, so that a large corpus takes no more than a moment.
"""

from collections.abc import Iterator

import numpy as np

from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.sentences import languages_of_files, sentence_ends
from bytenmt.data.text_file import Indices, repair_warning

N_LISTED = 10  # line numbers that are named
MAX_LINES = 20_000  # lines of a part that are searched for several sentences
MAX_PAIRS = 100_000  # pairs among which duplicates are counted
DUPLICATE_SHARE = 0.2  # of the pairs, above which there is a warning
N_VALID = 50  # validation pairs that are looked for among the training pairs
N_CANDIDATES = 1000  # training pairs of the same lengths that each of them is compared with
SEEN_SHARE = 0.1  # of those validation pairs, from which on there is a warning


def inventory(corpus: ParallelCorpus) -> list[str]:
    """Return lines for the user: name and size of each part of a corpus, and what was left out."""
    sides = {"source": corpus.source_lengths, "target": corpus.target_lengths}
    report = []
    for part, left_out, begin, end in zip(
        corpus.parts, corpus.left_out, corpus.bounds[:-1], corpus.bounds[1:], strict=True
    ):
        sizes = [
            f"{lengths[begin:end].sum(dtype=np.int64):,} {side}" for side, lengths in sides.items()
        ]
        weight = "" if part.weight == 1 else f", weight {part.weight:g}"
        report.append(f"{part.name}: {end - begin:,} pairs, {' and '.join(sizes)} bytes{weight}")
        for reason, lines in (("empty", left_out.empty), ("too long", left_out.too_long)):
            if len(lines):
                report.append(f"left out, {reason}: {_list_lines(lines + 1)}")
    return report


def _list_lines(numbers: Indices) -> str:
    """Format the number of lines and the first of them: "2 (lines 4, 17)"."""
    listed = ", ".join(map(str, numbers[:N_LISTED].tolist()))
    if len(numbers) > N_LISTED:
        listed += ", …"
    noun = "lines" if len(numbers) > 1 else "line"
    return f"{len(numbers):,} ({noun} {listed})"


def warnings_of_pairs(corpus: ParallelCorpus, valid: ParallelCorpus) -> Iterator[str]:
    """Yield warnings about a training corpus and its validation corpus: repaired lines of invalid
    UTF-8, many duplicates, and validation pairs that are among the training pairs."""
    for part in (*corpus.parts, *valid.parts):
        for text in part.files:
            if len(text.repaired):
                yield repair_warning(text.path, len(text.repaired), len(text))
    n_compared = min(len(corpus), MAX_PAIRS)
    n_repeated = n_compared - len({_pair(corpus, k) for k in range(n_compared)})
    if n_repeated > DUPLICATE_SHARE * n_compared:
        compared = f"the first {n_compared:,} training pairs"
        yield f"{n_repeated:,} of {compared} repeat others: remove duplicates"
    chosen = range(0, len(valid), -(-len(valid) // N_VALID))
    n_seen = 0
    for k in chosen:
        alike = corpus.target_lengths == valid.target_lengths[k]
        alike &= corpus.source_lengths == valid.source_lengths[k]
        candidates = np.flatnonzero(alike)[:N_CANDIDATES].tolist()
        n_seen += _pair(valid, k) in (_pair(corpus, i) for i in candidates)
    if n_seen and n_seen >= SEEN_SHARE * len(chosen):
        yield (
            f"{n_seen} of {len(chosen)} validation pairs that were looked for"
            f" ({valid.parts[0].name}) are among the training pairs: validation will tell what is"
            " remembered, not what is learnt"
        )


def _pair(corpus: ParallelCorpus, k: int) -> tuple[bytes, bytes]:
    return corpus.source(k), corpus.target(k)


def multi_sentence_share(corpus: ParallelCorpus) -> float:
    """Estimate the share, 0 to 1, of pairs whose source holds several sentences.

    Without a source it is the target that counts. Each part counts with its weight, as often as
    training sees it.
    """
    total = 0.0
    several = 0.0
    for p, part in enumerate(corpus.parts):
        begin, end = corpus.bounds[p : p + 2].tolist()
        n = min(end - begin, MAX_LINES)
        if not n:
            continue
        text = part.tgt if part.src is None else part.src
        sample = begin + np.arange(n) * (end - begin) // n
        languages = languages_of_files([str(text.path)])
        lines = (text.line(line).decode() for line in corpus.lines[sample].tolist())
        hits = sum(bool(sentence_ends(line, languages)) for line in lines)
        total += part.weight * (end - begin)
        several += part.weight * (end - begin) * hits / n
    return several / total if total else 0.0
