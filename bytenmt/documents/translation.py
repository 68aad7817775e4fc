"""A document translated: each segment once, by whatever translates lines, and the units put together again.

Knows units and segments; knows no format, and an engine only as what is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bytenmt.documents.codes import put_back
from bytenmt.documents.document import Document, Parts, Unit
from bytenmt.documents.segments import Segment, segments
from bytenmt.reporter import Bar

if TYPE_CHECKING:
    from bytenmt.decoding.translator import Translator

TOGETHER = 1000  # segments that are translated together
# Bits per byte of a translation from which on it wants a review. Of the sample's 500 test lines, as a
# model that has 398 right translates them, 46 are above it, 35 of them wrong; above 0.1 there are 144 and 79.
FLAG_ABOVE = 0.2


class Found(NamedTuple):
    """The translation of a segment. log_probability: natural, of all its bytes and its end."""

    text: bytes
    log_probability: float

    @property
    def bits_per_byte(self) -> float:
        """Its end paid for too; of an empty one without bound."""
        return -self.log_probability / math.log(2) / len(self.text) if self.text else math.inf


Ask = Callable[[Sequence[Segment]], Sequence[Found]]


@dataclass
class Told:
    """What was done. kept: units that were translated already; review: the places of those that want one, and
    why; empty: of those that were left because nothing was found for them."""

    translated: int = 0
    kept: int = 0
    review: list[tuple[str, str]] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)


def asking(translator: Translator) -> Ask:
    """What asks a translator, in a group that leads the others; they follow as for lines. What is kept of
    every line its own settings say; codes that they do not know are put back afterwards."""
    n_asked = 0

    def ask(wanted: Sequence[Segment]) -> list[Found]:
        nonlocal n_asked
        lines = [segment.text for segment in wanted]
        if translator.group is not None:
            translator.group.broadcast((lines, n_asked))
        answers = translator.answer(lines, n_asked)
        n_asked += len(lines)
        return [Found(best.text, best.log_probability) for best in (one.hypotheses[0] for one in answers)]

    return ask


def translate(
    document: Document,
    ask: Ask,
    *,
    limit: int,
    overwrite: bool = False,
    flag_above: float = FLAG_ABOVE,
    bar: Bar | None = None,
) -> tuple[bytes, Told]:
    """The bytes of the document with its units translated, and what was done.

    limit: bytes of a segment. overwrite: also those that are translated already. flag_above: bits per byte.
    bar: is advanced by segments, see wanted. Raises BytenmtError where the file's encoding lacks a character.
    """
    told = Told()
    cut = [segments(unit.source, limit) if overwrite or not unit.done else None for unit in document.units]
    found: dict[Segment, Found] = {}
    for together in _batches(_different(cut)):
        found.update(zip(together, ask(together), strict=True))
        (bar or Bar()).advance(len(together))
    values = [
        None if pieces is None else _joined(document, unit, pieces, found, flag_above, told)
        for unit, pieces in zip(document.units, cut, strict=True)
    ]
    told.kept = cut.count(None)
    return document.with_units(values), told


def wanted(document: Document, limit: int, overwrite: bool) -> list[Segment]:
    """The different segments that there are to translate, in their order; see translate."""
    return _different(segments(unit.source, limit) for unit in document.units if overwrite or not unit.done)


def _different(pieces: Iterable[list[str | Segment] | None]) -> list[Segment]:
    every = (piece for some in pieces for piece in some or () if isinstance(piece, Segment))
    return list(dict.fromkeys(every))


def _batches(different: list[Segment]) -> Iterator[list[Segment]]:
    """So many at once."""
    for first in range(0, len(different), TOGETHER):
        yield different[first : first + TOGETHER]


def _joined(
    document: Document,
    unit: Unit,
    pieces: Sequence[str | Segment],
    found: dict[Segment, Found],
    flag_above: float,
    told: Told,
) -> tuple[Parts, bool] | None:
    """The translation of a unit and whether it wants a review; None where there is none."""
    if not any(isinstance(piece, Segment) for piece in pieces):  # numbers, signs and codes alone
        return (unit.source, False) if "".join(map(str, pieces)).strip() else None
    answers = [found[piece] for piece in pieces if isinstance(piece, Segment)]
    if not all(answer.text.strip() for answer in answers):
        told.empty.append(document.place(unit.at))
        return None
    output = "".join(p.restored(found[p].text.decode()) if isinstance(p, Segment) else p for p in pieces)
    parts, whole = put_back(unit.source, output)
    bits = max(answer.bits_per_byte for answer in answers)
    review = not whole or bits > flag_above
    if review:
        why = f"{bits:.2f} bits per byte" if whole else "tags or placeholders were lost"
        told.review.append((document.place(unit.at), why))
    told.translated += 1
    return parts, review
