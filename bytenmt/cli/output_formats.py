"""How translations are written besides plain lines: n-best lists as Moses has them, and JSON lines.

Knows what was found for a line; does not know how, and reads and writes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from bytenmt.decoding.interface import Hypothesis
from bytenmt.decoding.translator import Answer

if TYPE_CHECKING:  # it imports PyTorch
    from bytenmt.evaluation.alignment import Link

Parts = Sequence[tuple[bytes, bytes, bytes]]  # of a line: source, text and what joins it to the next one


def n_best_list(answers: Sequence[Answer], first: int, seconds: Sequence[float]) -> bytes:
    """`sentence ||| text ||| score`, a line for each hypothesis, best first; sentences are counted from 0, as
    Moses and what reads its lists do."""
    return b"".join(
        b"%d ||| %b ||| %.6f\n" % (number, hypothesis.text, hypothesis.score)
        for number, answer in enumerate(answers, first)
        for hypothesis in answer.hypotheses
    )


@dataclass(frozen=True)
class JsonLines:
    """An object a line; see `record`.

    n_best: how many are wanted: the list is told where it is more than 1. align: see alignment.Aligner.links.
    with_source: whether the source is told.
    """

    n_best: int = 1
    align: Callable[[Sequence[Parts]], Sequence[Sequence[Link]]] | None = None
    with_source: bool = False

    def __call__(self, answers: Sequence[Answer], first: int, seconds: Sequence[float]) -> bytes:
        records = [self.record(number, answer) for number, answer in enumerate(answers, first + 1)]
        if self.align is not None:
            for record, links in zip(records, self.align([_parts(a) for a in answers]), strict=True):
                record["alignment"] = [link._asdict() for link in links]
        for record, elapsed in zip(records, seconds, strict=True):
            record["seconds"] = round(elapsed, 6)
        return b"".join(msgspec.json.encode(record) + b"\n" for record in records)

    def record(self, number: int, answer: Answer) -> dict[str, Any]:
        """line: from 1, as warnings and editors count; sentence: from 0, as in an n-best list; source: of the
        line; what `told` tells of the best hypothesis; n_best: the same of each; alignment: of the best;
        seconds: from the line's coming to its answer."""
        record: dict[str, Any] = {"line": number, "sentence": number - 1}
        if self.with_source:
            record["source"] = b"".join(piece.text + piece.joint for piece in answer.pieces).decode()
        record |= told(answer.hypotheses[0])
        if self.n_best > 1:
            record["n_best"] = [told(hypothesis) for hypothesis in answer.hypotheses]
        return record


def told(hypothesis: Hypothesis) -> dict[str, Any]:
    """A hypothesis for JSON; bits_per_byte: of the text, its end paid for too, None of an empty one;
    flags: of what was asked to be kept, see constraints.rules; bytes_per_pass: its end counted, where bytes
    were drafted."""
    n_bytes = len(hypothesis.text)
    record = {
        "text": hypothesis.text.decode(),
        "score": hypothesis.score,
        "log_probability": hypothesis.log_probability,
        "bits_per_byte": -hypothesis.log_probability / math.log(2) / n_bytes if n_bytes else None,
    }
    if hypothesis.flags is not None:
        record["flags"] = hypothesis.flags
    if hypothesis.passes:
        record["bytes_per_pass"] = (n_bytes + 1) / hypothesis.passes
    return record


def _parts(answer: Answer) -> Parts:
    """Of which the best hypothesis was joined."""
    pairs = zip(answer.pieces, answer.found, strict=True)
    return [(piece.text, found[0].text, piece.joint) for piece, found in pairs]
