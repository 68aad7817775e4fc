"""Write the Korean-English sample: dates, times, numbers, prices, durations and measures.

Every surface form of one language is paired with exactly one form of the other, so a perfect answer exists in
both directions. The split is by value: a stable hash of each value (a day of the year, a clock time, an
amount ...) puts it in training, validation or test, in all its forms.
"""

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from random import Random
from typing import NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other


from tools.sample.forms import (
    BARE,
    CLOSED,
    COUNTED,
    CROWDS,
    DAYS,
    MEASURES,
    PRICES,
    SPANS,
    STAYS,
    TIMES,
    UNITS,
    WHILES,
    YEARS,
    Line,
    Value,
    clock12,
    clock24,
    clock_before,
    clock_range,
    clock_words,
    day_clock12,
    day_clock24,
    day_clock_short,
    day_clock_year,
    day_of,
    day_short,
    day_weekday,
    day_words,
    day_year,
    day_year_words,
    decimal,
    decimal_words,
    dollars,
    english,
    native,
    number_myriads,
    number_words,
    ordinal,
    parts,
    sino,
    span,
    span_words,
    table,
    won_digits,
    won_myriads,
    won_words,
)

LONGEST = 60  # bytes of a line, either language
HELD_OUT = {"valid": 500, "test": 500}  # pairs
PERCENT_HELD_OUT = 7  # percentage of the values in each of the two held-out sets


# --- Values and families ----------------------------------------------------------------------


def sample_amount(random: Random) -> Value:
    """Return a number of two to seven digits, of which at most the first four are not zero."""
    length = random.choice((2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6, 6, 7))
    filled = min(random.randint(1, 4), length)
    return (random.randrange(10 ** (filled - 1), 10**filled) * int(10 ** (length - filled)),)


def sample_day(random: Random) -> Value:
    """Return a day of the year, without the leap day."""
    day = date.fromordinal(random.randint(1, 365))  # year 1 is no leap year
    return day.month, day.day


def sample_span(random: Random) -> Value:
    """Return hours and minutes, mostly a few hours at round minutes."""
    hours = random.choice((0, 0, random.randint(1, 6), random.randint(1, 23)))
    return hours, random.choice((0, 30, random.randint(1, 59))) if hours else random.randint(2, 59)


# Random values of each kind. Values are held out, and all values of a held-out line are.
KINDS: dict[str, Callable[[Random], Value]] = {
    "time": lambda r: (r.randint(0, 23), r.randrange(0, 60, r.choice((60, 5, 5, 1, 1)))),
    "day": sample_day,
    "year": lambda r: (r.randint(1900, 2099),),
    "amount": sample_amount,
    "count": lambda r: (r.randint(2, 99),),
    "fraction": lambda r: tuple(sorted(r.sample(range(1, 40), 2))),
    "cents": lambda r: (r.randint(1, 99), r.choice((0, r.randrange(5, 100, 5), 99))),
    "euros": lambda r: (r.randint(2, 999),),
    "span": sample_span,
    "seconds": lambda r: (r.randint(1, 59), r.randint(1, 59)),
    "days": lambda r: (r.randint(11, 199),),
    "months": lambda r: (r.randint(0, 20), r.randint(1, 11)),
    "decimal": lambda r: (r.choice((r.randint(11, 999), 10 * r.randint(2, 300))),),
    "degrees": lambda r: (r.randint(1, 60),),
}


class Form(NamedTuple):
    """A way to write values of some kinds.

    weight: relative frequency; kinds: of its values; write: returns the line, or None where the form is not
    in use; frames: carrier phrases.
    """

    family: str
    weight: int
    kinds: str
    write: Callable[..., Line | None]
    frames: tuple[Line, ...] = BARE


FORMS = (
    Form("date", 4, "day", day_of, DAYS),
    Form("date", 2, "day", day_words, DAYS[:4]),
    Form("date", 3, "year day", day_year),
    Form("date", 3, "year day", day_weekday),
    Form("date", 2, "year day", day_short),
    Form("date", 1, "year day", day_year_words),
    Form("date", 2, "year", lambda year: (f"{year}", f"{year}"), YEARS),
    Form("date", 1, "year", lambda year: (f"{sino(year)} ", f"the year {year}"), YEARS[:3]),
    Form("time", 8, "time", clock12, TIMES),
    Form("time", 3, "time", clock24, TIMES[:5]),
    Form("time", 4, "time", clock_words),
    Form("time", 2, "time", clock_before),
    Form("time", 3, "time time", clock_range),
    Form("datetime", 5, "day time", day_clock12, TIMES[:3]),
    Form("datetime", 3, "day time", day_clock24, TIMES[:3]),
    Form("datetime", 3, "year day time", day_clock_year, TIMES[:1]),
    Form("datetime", 2, "day time", day_clock_short),
    Form("number", 4, "amount", number_words),
    Form("number", 4, "amount", number_myriads, CROWDS),
    Form("number", 2, "count", lambda n: (f"{native(n)} ", english(n)), COUNTED),
    Form("number", 2, "count", lambda n: (f"{n}", f"{n}"), COUNTED),
    Form("number", 1, "count", lambda n: (f"{native(n)} 살", f"{english(n)} years old")),
    Form("number", 1, "count", lambda n: (f"{n}세", f"aged {n}")),
    Form("number", 1, "count", lambda n: (f"{native(n)} 번째", f"the {ordinal(n)}")),
    Form("number", 1, "fraction", lambda part, of: (f"{of}분의 {part}", f"{part}/{of}")),
    Form("price", 6, "amount", won_words, PRICES),
    Form("price", 8, "amount", won_myriads, STAYS),
    Form("price", 3, "amount", won_digits, PRICES),
    Form("price", 2, "cents", dollars),
    Form("price", 1, "euros", lambda whole: (f"{whole}유로", f"€{whole}"), PRICES),
    Form("duration", 3, "span", span, WHILES),
    Form("duration", 3, "span", span_words, WHILES),
    Form("duration", 1, "seconds", lambda m, s: parts((m, "분", "minute"), (s, "초", "second"))),
    Form("duration", 1, "days", lambda days: (f"{days}일", f"{days} days"), SPANS),
    Form("duration", 1, "months", lambda y, m: parts((y, "년", "year"), (m, "개월", "month")), SPANS),
    Form("measure", 3, "decimal", decimal, MEASURES),
    Form("measure", 2, "decimal", decimal, UNITS),
    Form("measure", 2, "decimal", decimal_words, UNITS),
    Form("measure", 1, "decimal", decimal, table("{x}% = {x} percent")),
    Form("measure", 1, "decimal", decimal_words, table("{x}퍼센트 = {x} percent")),
    Form("measure", 1, "degrees", lambda n: (f"섭씨 {n}도", f"{n} degrees Celsius")),
    Form("measure", 1, "degrees", lambda n: (f"영하 {n}도", f"{n} degrees below zero")),
)


# --- The sets ---------------------------------------------------------------------------------


class Pair(NamedTuple):
    """A line of the sample with its values, e.g. ("time", (15, 40))."""

    korean: str
    english: str
    family: str
    values: tuple[tuple[str, Value], ...]


def assign_set(kind: str, value: Value) -> str:
    """Return the set of a value: the same in every run, for every seed, in every form."""
    digest = hashlib.sha256(f"{kind} {value}".encode()).digest()
    bucket = int.from_bytes(digest[:4], "big") % 100
    if bucket < PERCENT_HELD_OUT:
        return "test"
    return "valid" if bucket < 2 * PERCENT_HELD_OUT else "train"


def draw_value(random: Random, kind: str, side: str) -> Value:
    """Return a random value of a kind that belongs to a set."""
    while True:
        value = KINDS[kind](random)
        if assign_set(kind, value) == side:
            return value


def add_carrier_phrase(random: Random, frames: Sequence[Line], line: Line) -> Line:
    """Return the line inside a random carrier phrase."""
    korean, english = random.choice(frames)
    closed = {name: random.choice(pairs) for name, pairs in CLOSED.items()}
    here = korean.format(x=line[0], **{name: pair[0] for name, pair in closed.items()})
    return here, english.format(x=line[1], **{name: pair[1] for name, pair in closed.items()})


def make_side(side: str, count: int, seed: int) -> list[Pair]:
    """Return `count` different pairs whose values all belong to one set."""
    random = Random(f"{seed} {side}")
    weights = [form.weight for form in FORMS]
    pairs: dict[Line, Pair] = {}
    while len(pairs) < count:
        [form] = random.choices(FORMS, weights)
        values = tuple((kind, draw_value(random, kind, side)) for kind in form.kinds.split())
        line = form.write(*(number for _, value in values for number in value))
        if line is None:
            continue
        line = add_carrier_phrase(random, form.frames, line)
        if max(len(text.encode()) for text in line) <= LONGEST:
            pairs.setdefault(line, Pair(*line, form.family, values))
    return list(pairs.values())


def make_sample(seed: int = 1, pairs: int = 20_000) -> dict[str, list[Pair]]:
    """Return the three sets. Raises ValueError if two lines of one language share a line of the other."""
    sides = {"train": pairs, **HELD_OUT}
    sample = {side: make_side(side, count, seed) for side, count in sides.items()}
    every = [pair for side in sample.values() for pair in side]
    for lines in ([pair.korean for pair in every], [pair.english for pair in every]):
        twice = [line for line, count in Counter(lines).items() if count > 1]
        if twice:
            raise ValueError(f"not one to one: {twice[:5]}")
    return sample


def write_sample(sample: dict[str, list[Pair]], folder: Path) -> None:
    """Write train.ko, train.en and so on, and the family of each line for the held-out sets."""
    folder.mkdir(parents=True, exist_ok=True)
    for side, pairs in sample.items():
        columns = {"ko": [pair.korean for pair in pairs], "en": [pair.english for pair in pairs]}
        if side in HELD_OUT:
            columns["family"] = [pair.family for pair in pairs]
        for suffix, lines in columns.items():
            (folder / f"{side}.{suffix}").write_bytes("".join(f"{x}\n" for x in lines).encode())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Write the Korean-English sample.")
    parser.add_argument("--out", type=Path, default=Path("data"), help="folder to write to")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=20_000, help="training pairs")
    options = parser.parse_args(arguments)
    sample = make_sample(options.seed, options.pairs)
    write_sample(sample, options.out)


if __name__ == "__main__":
    main()
