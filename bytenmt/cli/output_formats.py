"""Output formats besides plain lines: n-best lists as in Moses, JSON lines and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from bytenmt.decoding.confidence import Verdict, bits_of_characters, verdict_record
from bytenmt.decoding.interface import Hypothesis
from bytenmt.decoding.line_batch import TranslationResult

if TYPE_CHECKING:  # it imports PyTorch
    from bytenmt.decoding.alignment import Link

BestChunks = Sequence[tuple[bytes, bytes, bytes]]  # of a line, see TranslationResult.best_chunks
Align = Callable[[Sequence[BestChunks]], "Sequence[Sequence[Link]]"]


def n_best_list(results: Sequence[TranslationResult], first: int, seconds: Sequence[float]) -> bytes:
    """Format hypotheses as `sentence ||| text ||| score`, a line each, best first; sentences are
    counted from 0.
    """
    return b"".join(
        b"%d ||| %b ||| %.6f\n" % (number, hypothesis.text, hypothesis.score)
        for number, result in enumerate(results, first)
        for hypothesis in result.hypotheses
    )


@dataclass(frozen=True)
class JsonRecords:
    """Format each line as a JSON object.

    n_best: the number of hypotheses; the list is included if it is more than 1. align: see
    alignment.Aligner.links. with_source: include the source. characters: include the bits of every character,
    which the search must have kept.

    line: number from 1, as warnings and editors count; sentence: number from 0, as in an n-best list;
    source; the fields of the best hypothesis; verdict: sure, check or wrong; reasons for it, in words;
    flags: the same for programs, see confidence.REASONS; characters: each with its bits, the end of the
    line last; n_best: the fields of each hypothesis; alignment: of the best one; seconds: from the
    arrival of the line to its translation.
    """

    n_best: int = 1
    align: Align | None = None
    with_source: bool = False
    characters: bool = False

    def __call__(self, results: Sequence[TranslationResult], first: int, seconds: Sequence[float]) -> bytes:
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
        record: dict[str, Any] = {"line": number, "sentence": number - 1}
        if self.with_source:
            record["source"] = result.source.decode()
        record |= hypothesis_record(best) | verdict_record(best)
        if self.characters:
            bits = bits_of_characters(best) if best.byte_scores else []
            record["characters"] = [[character, round(cost, 6)] for character, cost in bits]
        if self.n_best > 1:
            record["n_best"] = [hypothesis_record(hypothesis) for hypothesis in result.hypotheses]
        return record


def describe_flags(results: Sequence[TranslationResult], first: int) -> Iterator[str]:
    """Yield a line about each flagged translation; first: number of the first one, from 0."""
    for number, best in enumerate((result.best for result in results), first + 1):
        if best.flags:
            level, reasons = Verdict.from_flags(best.flags)
            bits = best.bits_per_byte or 0
            yield f"line {number}: {level}: {'; '.join(reasons)} ({bits:.2f} bits per byte)"


def hypothesis_record(hypothesis: Hypothesis) -> dict[str, Any]:
    """Return a hypothesis as JSON values.

    bits_per_byte: of the text including EOS, None for an empty text.
    """
    return {
        "text": hypothesis.text.decode(),
        "score": hypothesis.score,
        "log_probability": hypothesis.log_probability,
        "bits_per_byte": hypothesis.bits_per_byte,
    }
