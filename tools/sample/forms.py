"""Forms of dates, times and amounts in Korean and English: words, numerals and carrier phrases.

A form takes a value and returns its line in both languages, or None where that form is not in use. Each form
of one language has exactly one counterpart in the other.
"""

from datetime import date

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
SMALL = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
TENS = words("_ _ twenty thirty forty fifty sixty seventy eighty ninety")
ORDINALS = dict(table("one=first|two=second|three=third|five=fifth|eight=eighth|nine=ninth"))
ORDINALS["twelve"] = "twelfth"
MONTHS = words("January February March April May June July August September October November December")
WEEKDAYS = table(
    "월요일 = Monday | 화요일 = Tuesday | 수요일 = Wednesday | 목요일 = Thursday | 금요일 = Friday"
    "| 토요일 = Saturday | 일요일 = Sunday"
)
HOURS_OF_DAY = (  # (end of the period, Korean name, English phrase); noon and midnight are never spelled out
    (6, "새벽", "before dawn"),
    (10, "아침", "in the morning"),
    (12, "오전", "in the morning"),
    (18, "오후", "in the afternoon"),
    (21, "저녁", "in the evening"),
    (25, "밤", "at night"),
)
# Closed classes with too few words to hold any of them out; every line also has a value that decides its set.
CLOSED = {
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
BARE = table("{x} = {x}")  # {x} is the value as its form writes it
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
    "{x}명 = {x} people | {x}마리 = {x} animals | {x}그루 = {x} trees | {x}개 = {x} items| {x}장 = {x} sheets"
)
SPANS = table("{x} 동안 = for {x} | {x} 뒤 = in {x} | {x} 전 = {x} ago")
WHILES = (
    *SPANS,
    *table("{x} = {x} | 약 {x} = about {x} | {days} 동안 하루 {x}씩 = {x} a day for {days}"),
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
        return SMALL[number]
    return TENS[number // 10] + (f"-{SMALL[number % 10]}" if number % 10 else "")


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
    """Write a value like 오후 세 시 사십 분, three forty in the afternoon; 세 시 반, half past three."""
    if hour in (0, 12):
        return None
    part, phrase = next((here, there) for end, here, there in HOURS_OF_DAY if hour < end)
    korean, name = f"{part} {native(hour % 12)} 시", english(hour % 12)
    if minute == 30:
        return f"{korean} 반", f"half past {name} {phrase}"
    if minute:
        korean += f" {sino(minute)} 분"
        name += (" oh " if minute < 10 else " ") + english(minute)
    return korean, f"{name} {phrase}"


def clock_before(hour: int, minute: int) -> Line | None:
    """Write a value like 오후 네 시 십 분 전, ten to four in the afternoon: the 50 minutes past three."""
    following = clock_words((hour + 1) % 24, 0)
    if following is None or minute not in (40, 45, 50, 55):
        return None
    korean, name = following
    return f"{korean} {sino(60 - minute)} 분 전", f"{english(60 - minute)} to {name}"


def clock_range(*times: int) -> Line | None:
    """Write a value like 오전 9시부터 오후 6시까지, from 9 a.m. to 6 p.m."""
    if times[:2] >= times[2:]:
        return None
    (start, since), (end, until) = clock12(*times[:2]), clock12(*times[2:])
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
    return (
        f"{year}. {month}. {day}.({korean[0]})",
        f"{name[:3]} {day} {MONTHS[month - 1][:3]} {year}",
    )


def day_year_words(year: int, month: int, day: int) -> Line:
    """Write a value like 이천이십육 년 유월 이십일일, the twenty-first of June 2026."""
    here, there = day_words(month, day)
    return f"{sino(year)} 년 {here}", f"{there} {year}"


def day_clock12(month: int, day: int, hour: int, minute: int) -> Line:
    """Write a value like 11월 21일 오후 3시 40분, 3:40 p.m. on November 21."""
    (day_here, day_there), (here, there) = day_of(month, day), clock12(hour, minute)
    return f"{day_here} {here}", f"{there} on {day_there}"


def day_clock24(month: int, day: int, hour: int, minute: int) -> Line:
    """Write a value like 11월 21일 15시 40분, 15:40 on November 21."""
    (day_here, day_there), (here, there) = day_of(month, day), clock24(hour, minute)
    return f"{day_here} {here}", f"{there} on {day_there}"


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
    """Write a value like 1만 2500, 12,500 (before a counter); two digits are the counted things' own."""
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
    return f"{sino(whole)} 점 {DIGITS[rest]} ", f"{english(whole)} point {SMALL[rest]}"


def parts(*amounts: tuple[int, str, str]) -> Line:
    """Join amounts of several units, without those of zero: 1년 6개월, 1 year 6 months."""
    here = [f"{count}{korean}" for count, korean, _ in amounts if count]
    there = [plural(count, unit) for count, _, unit in amounts if count]
    return " ".join(here), " ".join(there)


def span(hours: int, minutes: int) -> Line:
    """Write a value like 2시간 30분, 2 hours 30 minutes."""
    return parts((hours, "시간", "hour"), (minutes, "분", "minute"))


def span_words(hours: int, minutes: int) -> Line:
    """Write a value like 두 시간 이십 분, two hours and twenty minutes; 두 시간 반, two and a half hours."""
    if hours and minutes == 30:
        return f"{native(hours)} 시간 반", f"{english(hours)} and a half hours"
    here = [f"{native(hours)} 시간"] * bool(hours) + [f"{sino(minutes)} 분"] * bool(minutes)
    there = [plural(n, unit, True) for n, unit in ((hours, "hour"), (minutes, "minute")) if n]
    return " ".join(here), " and ".join(there)
