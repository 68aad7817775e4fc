"""A constrained search in plain lists and strings, which shares no code with the package.

What is kept are runs of the letter y, over an alphabet of y, commas, semicolons and blanks. Every step is
worked out anew from the text so far and from what has been written of a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from made_up import Distribution

EOS = 255
ALPHABET = b"y,; "
# Nats: what greedy search gives a required byte; what an end that may not come costs; and what a run costs at
# most where half of the attention lies on it.
NEARLY, CLOSING, ATTENDED = 2.0, 8.0, 1.0
Attention = Callable[[bytes], np.ndarray]  # a prefix -> the weights of the source's bytes and its end


class Run(NamedTuple):
    """A run of the letter y: its text and where it begins in the source."""

    text: bytes
    begin: int


class Beam(NamedTuple):
    """text: so far; pending: runs that are still to be written, in the order of the source; begun: bytes of a
    run that have just been written; candidates: the pending runs that begin so; held: "no", "run" where the
    run is written to its end, "end" where nothing but what is pending comes any more; total: log-probability;
    bonus: what the text is ranked higher by; kept_bonus: what of it the text keeps; attended: whether the run
    began where the attention lay on it."""

    text: bytes
    pending: tuple[Run, ...]
    begun: int = 0
    candidates: tuple[Run, ...] = ()
    held: str = "no"
    total: float = 0.0
    bonus: float = 0.0
    kept_bonus: float = 0.0
    attended: bool = False


def runs_of(source: bytes) -> tuple[Run, ...]:
    """The runs of y in a source."""
    return tuple(Run(match[0], match.start()) for match in re.finditer(rb"y+", source))


def lies_on(runs: tuple[Run, ...], weights: np.ndarray) -> bool:
    """Return whether half of the attention lies on one of the runs."""
    shares = [weights[run.begin : run.begin + len(run.text)].sum() for run in runs]
    return any(share >= weights.sum() / 2 > 0 for share in shares)


def after_end(beam: Beam) -> tuple[Run, ...]:
    """The pending runs if the run that has been begun is over."""
    whole = [run for run in beam.candidates if len(run.text) == beam.begun]
    if not whole:
        return beam.pending
    at = beam.pending.index(whole[0])
    return beam.pending[:at] + beam.pending[at + 1 :]


def choices(beam: Beam, limit: int) -> tuple[set[int], int, bool]:
    """The bytes that may come; the byte in place of the end, or -1; and whether y continues a run."""
    left = limit - len(beam.text)
    continues = any(len(run.text) > beam.begun for run in beam.candidates)
    is_whole = any(len(run.text) == beam.begun for run in beam.candidates)
    in_run = continues and not is_whole
    rest = after_end(beam)
    spare = left - sum(len(run.text) + 1 for run in rest)
    after_y = beam.text.endswith(b"y")
    begins = bool(rest) and not after_y and not in_run
    instead = -1
    if in_run:
        instead = ord("y")
    elif rest:
        instead = ord("y")
        if beam.text and not beam.text.endswith(b" ") and spare > 0 or after_y:
            instead = ord(" ")
    if (spare < 1 or beam.held == "end") and instead >= 0:
        may = {instead}
    else:
        may = set() if in_run or (beam.held == "end" and not rest) else set(b",; ")
        may = may if spare >= 1 else set()
        may |= {ord("y")} if continues or begins else set()
        may |= {EOS} if not rest and not in_run else set()
    return (may if left > 0 else may & {EOS}), instead, continues


def taken(beam: Beam, byte: int, how: str, total: float, bonus: float, attended: bool = False) -> Beam:
    """The beam after a byte. how: "likeliest", "less likely" or "in place of the end"."""
    held = {"likeliest": "no", "less likely": "run", "in place of the end": "end"}[how]
    order = ("no", "run", "end")
    text = beam.text + bytes([byte])
    longer = tuple(run for run in beam.candidates if len(run.text) > beam.begun)
    if byte == ord("y") and longer:
        held = max(held, beam.held, key=order.index)
        kept = beam.kept_bonus, beam.attended
        return Beam(text, beam.pending, beam.begun + 1, longer, held, total, bonus, *kept)
    held = "end" if beam.held == "end" else held
    rest = after_end(beam)
    if byte == ord("y"):
        return Beam(text, rest, 1, rest, held, total, bonus, kept_bonus(beam), attended)
    return Beam(text, rest, 0, (), held, total, bonus, kept_bonus(beam))


def kept_bonus(beam: Beam) -> float:
    """The bonus that a text keeps unless it goes on with its run."""
    is_whole = any(len(run.text) == beam.begun for run in beam.candidates)
    return beam.bonus if is_whole and beam.attended else beam.kept_bonus


def how_chosen(row: np.ndarray, may: set[int], byte: int, instead: int, cost: float) -> str:
    """Why a byte came."""
    if byte == instead and row[EOS] - (0 if byte == ord(" ") else cost) > row[byte]:
        return "in place of the end"
    return "likeliest" if row[byte] >= max(row[b] for b in may if np.isfinite(row[b])) else "less likely"


def naive_greedy(log_p: Distribution, source: bytes, limit: int) -> tuple[bytes, float]:
    """Greedy search: required bytes are favoured where they are nearly the likeliest."""
    beam = Beam(b"", runs_of(source))
    while True:
        row = log_p(beam.text)
        may, instead, continues = choices(beam, limit)

        def value(byte: int) -> float:
            own = max(row[byte], row[EOS]) if byte == instead else row[byte]  # noqa: B023
            return float(own + NEARLY * (byte == ord("y") and continues))  # noqa: B023

        finite = [byte for byte in sorted(may) if np.isfinite(row[byte])]
        byte = max(finite, key=value)
        total = beam.total + float(row[byte])
        if byte == EOS:
            return beam.text, total
        beam = taken(beam, byte, how_chosen(row, may, byte, instead, 0.0), total, 0.0)


def naive_beam(
    log_p: Distribution,
    source: bytes,
    limit: int,
    width: int,
    length_penalty: float,
    attention: Attention | None = None,
) -> list[tuple[bytes, float, float]]:
    """Beam search whose width is shared among texts that have the same number of runs before them: texts,
    their log-probabilities and their scores, best first."""
    going, ended = [Beam(b"", runs_of(source))], list[tuple[float, bytes, float]]()
    while going:
        candidates = []
        for number, beam in enumerate(going):
            row = log_p(beam.text)
            may, instead, continues = choices(beam, limit)
            finite = [byte for byte in sorted(may) if np.isfinite(row[byte])]
            for byte in finite:
                cost = 0.0 if len(finite) == 1 and beam.pending else float(row[byte])
                closing = float(row[EOS]) - CLOSING
                if byte == instead and (closing > cost or (byte == ord(" ") and row[EOS] > cost)):
                    cost = closing
                attended = False
                if byte == ord("y") and not continues and attention is not None:
                    attended = lies_on(after_end(beam), attention(beam.text))
                if attended:
                    cost = max(cost, max(float(row[b]) for b in finite) - ATTENDED)
                stays = (byte == ord("y") and continues) or beam.held == "end"
                ranking = beam.total + cost + (beam.bonus if stays else kept_bonus(beam))
                rest = after_end(beam)
                bank = len(beam.pending) - 1 if byte == ord("y") and continues else len(rest)
                bank -= byte == ord("y") and not continues
                how = how_chosen(row, may, byte, instead, CLOSING)
                total = beam.total + float(row[byte])
                candidates.append((-ranking, number * 256 + byte, bank, beam, byte, how, total, attended))
        candidates.sort(key=lambda one: one[:2])
        seen: dict[int, int] = {}
        ranked = []
        for one in candidates:
            seen[one[2]] = seen.get(one[2], 0) + 1
            ranked.append((seen[one[2]], *one))
        ranked.sort(key=lambda one: one[:3])
        ranked = ranked[: 2 * width]
        for _, minus, _, _, beam, byte, _, total, _ in ranked[:width]:
            if byte == EOS:
                ended.append((-minus / (len(beam.text) + 1) ** length_penalty, beam.text, total))
        ended = sorted(ended, key=lambda one: -one[0])[:width]
        others = [one for one in ranked if one[5] != EOS][:width]
        others.sort(key=lambda one: one[1])
        going = [
            taken(beam, byte, how, total, -minus - total, attended)
            for _, minus, _, _, beam, byte, how, total, attended in others
        ]
        if going and ended:
            best, n_bytes = -others[0][1], len(going[0].text)
            soon = min(2 * n_bytes, limit)
            if best / (limit + 1) ** length_penalty <= ended[0][0]:
                break
            if len(ended) == width and best / (soon + 1) ** length_penalty <= ended[0][0]:
                break
    return [(text, total, score) for score, text, total in ended]
