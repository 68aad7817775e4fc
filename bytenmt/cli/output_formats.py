"""Output formats besides plain lines: n-best lists as in Moses, JSON lines and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bytenmt.decoding.interface import Hypothesis
from bytenmt.translation.alignment import CharacterLink
from bytenmt.translation.confidence import Verdict, doubt_of_line, verdict_record
from bytenmt.translation.line_batch import TranslationResult

# The sentences of a line: (source, best translation, white space behind it) of each.
BestChunks = Sequence[tuple[bytes, bytes, bytes]]
Align = Callable[[Sequence[BestChunks]], Sequence[Sequence[CharacterLink]]]


def n_best_list(
    results: Sequence[TranslationResult], first: int, seconds: Sequence[float]
) -> bytes:
    """Return all hypotheses as lines `number ||| text ||| score`, the best of an input line first.

    results: of consecutive input lines, the first one with the number `first`. seconds: unused.
    """
    return b"".join(
        b"%d ||| %b ||| %.6f\n" % (number, hypothesis.text, hypothesis.score)
        for number, result in enumerate(results, first)
        for hypothesis in result.hypotheses
    )


@dataclass(frozen=True)
class JsonRecords:
    """Formats translations as JSON objects, a line each, when it is called.

    n_best: size of the n-best lists; 1: none are written. align: called with the sentences of each
    line; returns for each line the links between characters of translation and source; None: none.

    An object has line: number from 1, as warnings and editors count; source; the fields of the best
    hypothesis; verdict: sure, check or wrong; reasons for it, in words; flags: the same for
    programs, such as "loop"; unknown_words: of the source; n_best: the fields of each hypothesis;
    alignment: of the best one; seconds: from the arrival of the line to its translation.
    """

    n_best: int = 1
    align: Align | None = None

    def __call__(
        self, results: Sequence[TranslationResult], first: int, seconds: Sequence[float]
    ) -> bytes:
        """Return a line of JSON for each result, of consecutive input lines.

        first: number of the first one, from 0. seconds: since the arrival of each line.
        """
        records = [self._record(number, result) for number, result in enumerate(results, first + 1)]
        if self.align is not None:
            links = self.align([result.best_chunks() for result in results])
            for record, of_line in zip(records, links, strict=True):
                record["alignment"] = [link._asdict() for link in of_line]
        for record, elapsed in zip(records, seconds, strict=True):
            record["seconds"] = round(elapsed, 6)
        return b"".join(msgspec.json.encode(record) + b"\n" for record in records)

    def _record(self, number: int, result: TranslationResult) -> dict[str, Any]:
        best = result.best
        record: dict[str, Any] = {"line": number, "source": result.source.decode()}
        record |= hypothesis_record(best) | {"doubt": doubt_of_line(result)} | verdict_record(best)
        record["unknown_words"] = result.unknown_words
        if self.n_best > 1:
            record["n_best"] = [hypothesis_record(hypothesis) for hypothesis in result.hypotheses]
        return record


def describe_flags(results: Sequence[TranslationResult], first: int) -> Iterator[str]:
    """Yield a message for people about each result with flags: line number, verdict and reasons.

    results: of consecutive input lines, which are numbered from first + 1.
    """
    for number, result in enumerate(results, first + 1):
        best = result.best
        if best.flags:
            level, reasons = Verdict.from_flags(best.flags)
            details = [f"doubt {doubt_of_line(result) or 0:.2f}"]
            if result.unknown_words:
                details.append(f"unknown: {', '.join(result.unknown_words)}")
            yield f"line {number}: {level}: {'; '.join(reasons)} ({'; '.join(details)})"


def hypothesis_record(hypothesis: Hypothesis) -> dict[str, Any]:
    """Return the text and scores of a hypothesis as JSON values.

    Its keys: text; score, by which hypotheses are ranked; log_probability: natural, EOS included;
    bits_per_byte: the same in bits per byte, None for no text.
    """
    return {
        "text": hypothesis.text.decode(),
        "score": hypothesis.score,
        "log_probability": hypothesis.log_probability,
        "bits_per_byte": hypothesis.bits_per_byte,
    }
