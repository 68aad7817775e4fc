"""Write the Korean-English sample: dates, times, numbers, prices, durations and measures.

Every surface form of one language is paired with exactly one form of the other, so a perfect answer
exists in both directions. A form takes a value and returns its line in both languages, or None
where that form is not in use. The split is by value: a stable hash of each value (a day of the
year, a clock time, an amount ...) puts it in training, validation or test, in all its forms.
"""

import argparse
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from random import Random
from typing import NamedTuple

MAX_LINE_BYTES = 60  # bytes of a line, either language
HELD_OUT = {"valid": 500, "test": 500}  # pairs
PERCENT_HELD_OUT = 7  # percentage of the values in each of the two held-out sets
Line = tuple[str, str]  # the same text in Korean and in English
Value = tuple[int, ...]  # for example (11, 21) for a day, (15, 40) for a time


def words(text: str) -> list[str]:
    """Return a list of words; _ stands for the empty word."""
    return ["" if word == "_" else word for word in text.split()]


def table(text: str) -> tuple[Line, ...]:
    """Parse pairs of Korean and English phrases: "a = b | c = d"."""
    rows = (row.split("=") for row in text.split("|"))
    return tuple((korean.strip(), english.strip()) for korean, english in rows)


# --- Words and carrier phrases ----------------------------------------------------------------

DIGITS = words("_ 일 이 삼 사 오 육 칠 팔 구")
NATIVE_ONES = words("_ 한 두 세 네 다섯 여섯 일곱 여덟 아홉")
NATIVE_TENS = words("_ 열 스물 서른 마흔 쉰 예순 일흔 여든 아흔")
SMALL_NUMBERS = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
TENS = words("_ _ twenty thirty forty fifty sixty seventy eighty ninety")
ORDINALS = dict(table("one=first|two=second|three=third|five=fifth|eight=eighth|nine=ninth"))
ORDINALS["twelve"] = "twelfth"
MONTHS = words(
    "January February March April May June July August September October November December"
)
WEEKDAYS = table(
    "월요일 = Monday | 화요일 = Tuesday | 수요일 = Wednesday | 목요일 = Thursday | 금요일 = Friday"
    "| 토요일 = Saturday | 일요일 = Sunday"
)
# (end of the period, Korean name, English phrase); noon and midnight are never spelled out
HOURS_OF_DAY = [(6, "새벽", "before dawn"), (10, "아침", "in the morning")]
HOURS_OF_DAY += [(12, "오전", "in the morning"), (18, "오후", "in the afternoon")]
HOURS_OF_DAY += [(21, "저녁", "in the evening"), (25, "밤", "at night")]
# Closed classes with too few words to hold any of them out; every line also has a value that
# decides its set.
CLOSING_TIMES = {
    "weekday": WEEKDAYS,
    "month": tuple((f"{number}월", name) for number, name in enumerate(MONTHS, 1)),
    "season": table("봄 = spring | 여름 = summer | 가을 = autumn | 겨울 = winter"),
    "days": table(
        "이틀 = two days | 사흘 = three days | 나흘 = four days | 닷새 = five days"
        "| 엿새 = six days | 열흘 = ten days | 보름 = fifteen days"
    ),
    "stay": table(
        "1박 2일 = 2 days and 1 night | 2박 3일 = 3 days and 2 nights"
        "| 3박 4일 = 4 days and 3 nights | 4박 5일 = 5 days and 4 nights"
    ),
}
PLAIN_FORMS = table("{x} = {x}")  # {x} is the value as its form writes it
TIMES = table(
    "{x} = {x} | {x}까지 = by {x} | {x}부터 = from {x} | 매일 {x} = every day at {x}"
    "| 내일 {x} = {x} tomorrow | {weekday} {x} = {x} on {weekday}"
    "| 매주 {weekday} {x} = every {weekday} at {x} | {days} 뒤 {x} = {x} in {days}"
)
DAYS = table(
    "{x} = {x} | {x}까지 = by {x} | {x}부터 = from {x} | 매년 {x} = every year on {x}"
    "| {x} {weekday} = {weekday}, {x} | {x} {weekday} = {weekday}, {x}"
)
YEARS = table(
    "{x}년부터 = since {x} | {x}년까지 = until {x} | {x}년 {season} = {season} of {x}"
    "| {x}년 {month} = {month} {x} | {x}년 {month} 초 = early {month} {x}"
    "| {x}년 {month} 중순 = mid-{month} {x} | {x}년 {month} 말 = late {month} {x}"
)
PRICES = table(
    "{x} = {x} | {x} = {x} | {x} = {x} | 약 {x} = about {x} | 총 {x} = {x} in total"
    "| 최대 {x} = up to {x} | 한 개에 {x} = {x} each | 한 달에 {x} = {x} a month"
)
STAYS = (*PRICES, *table("{stay}에 {x} = {x} for {stay}"))
COUNTED = table(
    "사과 {x}개 = {x} apples | 학생 {x}명 = {x} students | 책 {x}권 = {x} books"
    "| 고양이 {x}마리 = {x} cats | 표 {x}장 = {x} tickets | 자동차 {x}대 = {x} cars"
    "| 커피 {x}잔 = {x} cups of coffee | 나무 {x}그루 = {x} trees | 물 {x}병 = {x} bottles of water"
)
CROWDS = table(
    "{x}명 = {x} people | {x}마리 = {x} animals | {x}그루 = {x} trees | {x}개 = {x} items|"
    " {x}장 = {x} sheets"
)
SPANS = table("{x} 동안 = for {x} | {x} 뒤 = in {x} | {x} 전 = {x} ago")
WHILES = SPANS + table(
    "{x} = {x} | 약 {x} = about {x} | {days} 동안 하루 {x}씩 = {x} a day for {days}"
)
MEASURES = table(
    "약 {x}km = about {x} km | 시속 {x}km = {x} km per hour | 왕복 {x}km = {x} km round trip"
    "| 높이 {x}m = {x} m high | 깊이 {x}m = {x} m deep | 길이 {x}m = {x} m long"
    "| 폭 {x}cm = {x} cm wide | 두께 {x}cm = {x} cm thick | 최대 {x}kg = up to {x} kg"
    "| 약 {x}kg = about {x} kg | 몸무게 {x}kg = a weight of {x} kg | 약 {x}L = about {x} L"
)
UNITS = table(
    "{x}킬로미터 = {x} kilometers | {x}미터 = {x} meters | {x}센티미터 = {x} centimeters"
    "| {x}킬로그램 = {x} kilograms | {x}그램 = {x} grams | {x}리터 = {x} liters"
)


# --- Numerals ---------------------------------------------------------------------------------


def sino(number: int) -> str:
    """Return a Sino-Korean numeral: 12500 is 만 이천오백."""
    if number >= 10_000:
        high, low = divmod(number, 10_000)
        return ("" if high == 1 else sino(high)) + "만" + (" " + sino(low) if low else "")
    text = ""
    for size, word in ((1000, "천"), (100, "백"), (10, "십"), (1, "")):
        digit = number // size % 10
        if digit:  # 1000, 100 and 10 are written without a leading "one"
            text += ("" if digit == 1 and word else DIGITS[digit]) + word
    return text


def native(number: int) -> str:
    """Return the native Korean numeral before a counter, 1 to 99: 스무, 스물다섯."""
    return "스무" if number == 20 else NATIVE_TENS[number // 10] + NATIVE_ONES[number % 10]


def myriads(number: int) -> str:
    """Group digits by ten thousand: 3만 5천, 1만 2500; a space follows unless a digit ends it."""
    high, low = divmod(number, 10_000)
    if low % 1000:
        return f"{high}만 {low}"
    return f"{high}만 {low // 1000}천 " if low else f"{high}만 "


def english(number: int) -> str:
    """Return the English numeral below a million: twelve thousand five hundred."""
    for size, word in ((1000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = f" {english(number % size)}" if number % size else ""
            return f"{english(number // size)} {word}{rest}"
    if number < 20:
        return SMALL_NUMBERS[number]
    return TENS[number // 10] + (f"-{SMALL_NUMBERS[number % 10]}" if number % 10 else "")


def ordinal(number: int) -> str:
    """Return the English ordinal word up to 99: twenty-first."""
    head, dash, last = english(number).rpartition("-")
    regular = last[:-1] + "ieth" if last.endswith("y") else last + "th"
    return head + dash + ORDINALS.get(last, regular)


def plural(count: int, unit: str, spelled: bool = False) -> str:
    """Return a number with its unit: 1 hour, 2 hours, two hours."""
    return f"{english(count) if spelled else count} {unit}{'s' * (count != 1)}"


# --- Forms: from a value to its line in both languages, or None if the form is not in use -------


def clock12(hour: int, minute: int) -> Line:
    """Write a value like 오후 3시 40분, 3:40 p.m.; the hour alone when it is full."""
    half, suffix = ("오전", "a.m.") if hour < 12 else ("오후", "p.m.")
    number = hour % 12 or 12
    if not minute:
        return f"{half} {number}시", f"{number} {suffix}"
    return f"{half} {number}시 {minute}분", f"{number}:{minute:02} {suffix}"


def clock24(hour: int, minute: int) -> Line:
    """Write a value like 15시 40분, 15:40."""
    return f"{hour}시" + (f" {minute}분" if minute else ""), f"{hour}:{minute:02}"


def clock_words(hour: int, minute: int) -> Line | None:
    """Write a value like 오후 세 시 사십 분, three forty in the afternoon; 반: half past."""
    if hour in (0, 12):
        return None
    part, phrase = next((here, there) for end, here, there in HOURS_OF_DAY if hour < end)
    korean = f"{part} {native(hour % 12)} 시"
    name = english(hour % 12)
    if minute == 30:
        return f"{korean} 반", f"half past {name} {phrase}"
    if minute:
        korean += f" {sino(minute)} 분"
        name += (" oh " if minute < 10 else " ") + english(minute)
    return korean, f"{name} {phrase}"


def clock_before(hour: int, minute: int) -> Line | None:
    """Write a value like 오후 네 시 십 분 전, ten to four in the afternoon: 50 past three."""
    following = clock_words((hour + 1) % 24, 0)
    if following is None or minute not in (40, 45, 50, 55):
        return None
    korean, name = following
    return f"{korean} {sino(60 - minute)} 분 전", f"{english(60 - minute)} to {name}"


def clock_range(*times: int) -> Line | None:
    """Write a value like 오전 9시부터 오후 6시까지, from 9 a.m. to 6 p.m."""
    if times[:2] >= times[2:]:
        return None
    (start, since) = clock12(*times[:2])
    (end, until) = clock12(*times[2:])
    return f"{start}부터 {end}까지", f"from {since} to {until}"


def day_of(month: int, day: int) -> Line:
    """Write a value like 11월 21일, November 21."""
    return f"{month}월 {day}일", f"{MONTHS[month - 1]} {day}"


def day_words(month: int, day: int) -> Line:
    """Write a value like 유월 이십일일, the twenty-first of June."""
    name = {6: "유", 10: "시"}.get(month) or sino(month)
    return f"{name}월 {sino(day)}일", f"the {ordinal(day)} of {MONTHS[month - 1]}"


def day_year(year: int, month: int, day: int) -> Line:
    """Write a value like 2026년 11월 21일, November 21, 2026."""
    return f"{year}년 {month}월 {day}일", f"{MONTHS[month - 1]} {day}, {year}"


def day_weekday(year: int, month: int, day: int) -> Line:
    """Write a value like 2026년 11월 21일 토요일, Saturday, November 21, 2026."""
    korean, name = WEEKDAYS[date(year, month, day).weekday()]
    here, there = day_year(year, month, day)
    return f"{here} {korean}", f"{name}, {there}"


def day_short(year: int, month: int, day: int) -> Line:
    """Write a value like 2026. 11. 21.(토), Sat 21 Nov 2026."""
    korean, name = WEEKDAYS[date(year, month, day).weekday()]
    there = f"{name[:3]} {day} {MONTHS[month - 1][:3]} {year}"
    return f"{year}. {month}. {day}.({korean[0]})", there


def day_year_words(year: int, month: int, day: int) -> Line:
    """Write a value like 이천이십육 년 유월 이십일일, the twenty-first of June 2026."""
    here, there = day_words(month, day)
    return f"{sino(year)} 년 {here}", f"{there} {year}"


def day_clock12(month: int, day: int, hour: int, minute: int) -> Line:
    """Write a value like 11월 21일 오후 3시 40분, 3:40 p.m. on November 21."""
    return on_day(day_of(month, day), clock12(hour, minute))


def on_day(day: Line, clock: Line) -> Line:
    """Return a time on a day."""
    return f"{day[0]} {clock[0]}", f"{clock[1]} on {day[1]}"


def day_clock24(month: int, day: int, hour: int, minute: int) -> Line:
    """Write a value like 11월 21일 15시 40분, 15:40 on November 21."""
    return on_day(day_of(month, day), clock24(hour, minute))


def day_clock_year(year: int, month: int, day: int, hour: int, minute: int) -> Line:
    """Write a value like 2026년 11월 21일 오후 3시 40분, 3:40 p.m. on November 21, 2026."""
    here, there = day_clock12(month, day, hour, minute)
    return f"{year}년 {here}", f"{there}, {year}"


def day_clock_short(month: int, day: int, hour: int, minute: int) -> Line:
    """Write a value like 11. 21. 15:40, 21 Nov 15:40."""
    clock = clock24(hour, minute)[1]
    return f"{month}. {day}. {clock}", f"{day} {MONTHS[month - 1][:3]} {clock}"


def number_words(number: int) -> Line | None:
    """Write a value like 만 이천오백, twelve thousand five hundred."""
    return (sino(number), english(number)) if number < 100_000 else None


def number_myriads(number: int) -> Line | None:
    """Write a value like 1만 2500, 12,500 (before a counter), or two digits of the things."""
    if number < 100:
        return None
    return myriads(number) if number >= 10_000 else f"{number:,}", f"{number:,}"


def won_words(number: int) -> Line | None:
    """Write a value like 만 이천오백 원, 12,500 won."""
    return (f"{sino(number)} 원", f"{number:,} won") if 100 <= number < 1_000_000 else None


def won_myriads(number: int) -> Line | None:
    """Write a value like 3만 5천 원, ₩35,000."""
    return (f"{myriads(number)}원", f"₩{number:,}") if number >= 10_000 else None


def won_digits(number: int) -> Line | None:
    """Write a value like 12,500원, KRW 12,500."""
    return (f"{number:,}원", f"KRW {number:,}") if 1000 <= number < 1_000_000 else None


def dollars(whole: int, cents: int) -> Line:
    """Write a value like 12달러 50센트, $12.50."""
    return f"{whole}달러" + (f" {cents}센트" if cents else ""), f"${whole}.{cents:02}"


def decimal(tenths: int) -> Line:
    """Write a value like 12.5, 12.5 (before a unit)."""
    return f"{tenths / 10:g}", f"{tenths / 10:g}"


def decimal_words(tenths: int) -> Line:
    """Write a value like 십이 점 오, twelve point five (before a unit, hence the space)."""
    whole, rest = divmod(tenths, 10)
    if not rest:
        return f"{sino(whole)} ", english(whole)
    return f"{sino(whole)} 점 {DIGITS[rest]} ", f"{english(whole)} point {SMALL_NUMBERS[rest]}"


def parts(*amounts: tuple[int, str, str]) -> Line:
    """Join amounts of several units, without those of zero: 1년 6개월, 1 year 6 months."""
    here = [f"{count}{korean}" for count, korean, _ in amounts if count]
    there = [plural(count, unit) for count, _, unit in amounts if count]
    return " ".join(here), " ".join(there)


def span(hours: int, minutes: int) -> Line:
    """Write a value like 2시간 30분, 2 hours 30 minutes."""
    return parts((hours, "시간", "hour"), (minutes, "분", "minute"))


def span_words(hours: int, minutes: int) -> Line:
    """Write a value like 두 시간 이십 분, two hours and twenty minutes; 반: and a half."""
    if hours and minutes == 30:
        return f"{native(hours)} 시간 반", f"{english(hours)} and a half hours"
    here = [f"{native(hours)} 시간"] * bool(hours) + [f"{sino(minutes)} 분"] * bool(minutes)
    there = [plural(n, unit, True) for n, unit in ((hours, "hour"), (minutes, "minute")) if n]
    return " ".join(here), " and ".join(there)


# --- Values and families ----------------------------------------------------------------------


def sample_amount(random: Random) -> Value:
    """Return a number of two to seven digits, of which at most the first four are not zero."""
    length = random.choice((2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6, 6, 7))
    filled = min(random.randint(1, 4), length)
    return (random.randrange(10 ** (filled - 1), 10**filled) * int(10 ** (length - filled)),)


def sample_day(random: Random) -> Value:
    """Return a day of the year, without the leap day."""
    day = date.fromordinal(random.randint(1, 365))  # year 1 is not a leap year
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

    weight: relative frequency; kinds: of its values; write: returns the line, or None where the
    form is not in use; frames: carrier phrases.
    """

    family: str
    weight: int
    kinds: str
    write: Callable[..., Line | None]
    frames: tuple[Line, ...] = PLAIN_FORMS


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
    Form(
        "duration", 1, "months", lambda y, m: parts((y, "년", "year"), (m, "개월", "month")), SPANS
    ),
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
    closed = {name: random.choice(pairs) for name, pairs in CLOSING_TIMES.items()}
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
        if max(len(text.encode()) for text in line) <= MAX_LINE_BYTES:
            pairs.setdefault(line, Pair(*line, form.family, values))
    return list(pairs.values())


def make_sample(seed: int = 1, pairs: int = 20_000) -> dict[str, list[Pair]]:
    """Return the three sets.

    Raises ValueError if two lines of one language share a line of the other.
    """
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
    write_sample(make_sample(options.seed, options.pairs), options.out)


if __name__ == "__main__":
    main()
