"""Compare the numbers of a translation with those of its source, by their digits."""

from __future__ import annotations

import re
from collections import Counter

NUMBERS = re.compile(r"\d{1,3}(?:[.,'\u00a0\u202f\u2019]\d{3})+(?!\d)|\d{1,18}")
# A number whose digits are grouped, such as 1,299.50: the sign of the groups, and the decimals.
GROUPED = re.compile(
    r"(?<![\d.,])\d{1,3}(?:([.,'\u00a0\u202f\u2019 ])\d{3})(?:\1\d{3})*+(?!\1?\d)"
    r"([.,]\d++)?+(?![.,]?\d)"
)
WRITTEN = re.compile(r"\d[\d.,'\u00a0\u202f\u2019 ]*\d")
# A unit behind each of two numbers with nothing between: "10 Menschen 15 Menschen".
REPEATED_UNIT = re.compile(r"\d[ \u00a0]([^\W\d_]{3,}) \d[\d.,:]*+[ \u00a0]\1(?!\w)")
# A range of numbers or times, such as 10-15 or 10:30-11:45: both ends.
RANGE = re.compile(
    r"(?<![\w.,:/+-])(\d+(?:[.,:]\d+)*)[ ]?[-\u2013\u2014~][ ]?(\d+(?:[.,:]\d+)*)(?![\w:/-]|[.,]\d)"
)
# What makes a range of two numbers: a sign, a word of one or two letters, or one of these.
RANGE_SIGN = re.compile(
    r"[^\w\s.,;]|[\uac00-\ud7a3]"
    r"|\b(?:\w{1,2}|bis|und|oder|and|until|till|through|tot|hasta|fino|at\xe9)\b",
    re.IGNORECASE,
)
MAX_GAP_CHARS = 24  # between the ends of a range in a translation
HALF_DAY_HOURS = 12  # between "3 p.m." and "15 Uhr"
DECIMAL_SIGNS = {"de": ",", "en": ".", "ko": "."}  # by language


def numbers_differ(source: str, text: str) -> bool:
    """Return whether a number of the source is wrong in its translation.

    A number is wrong if it is missing or in words, occurs more often than in the source, has
    separators in wrong places, or has lost the sign of a range, such as "-". 1,000 may be 1.000,
    and a number up to 12 may be 12 more, such as 15 Uhr for 3 p.m. Additional numbers are not a
    fault: of 1,000 references in Korean, 25 have one that their source has in words. source, text:
    without placeholders, tags and addresses, whose digits would count.
    """
    wanted, written = _numbers(source), _numbers(text)
    is_missing = any(
        n and not (n <= HALF_DAY_HOURS and n + HALF_DAY_HOURS in written) for n in wanted - written
    )
    is_more = any(n in wanted for n in written - wanted)
    repeats_unit = REPEATED_UNIT.search(text) and not REPEATED_UNIT.search(source)
    if is_missing or is_more or repeats_unit or _is_malformed(source, text):
        return True
    return _loses_range(source, text)


def _numbers(text: str) -> Counter[int]:
    """Return the numbers of a text. Signs that group digits are left out."""
    return Counter(int(_digits(number)) for number in NUMBERS.findall(text))


def _digits(number: str) -> str:
    return "".join(filter(str.isdecimal, number))


def _is_malformed(source: str, text: str) -> bool:
    """Return whether a number such as 1,299.50 has one and the same sign twice: 1,299,50."""
    for number in GROUPED.finditer(source):
        if number[2]:
            for written in WRITTEN.findall(text):
                signs = re.sub(r"\d", "", written)
                if _digits(written) == _digits(number[0]) and len(signs) > len(set(signs)) == 1:
                    return True
    return False


def _loses_range(source: str, text: str) -> bool:
    """Return whether nothing says "to" between two ends of a range: "10:30 Uhr 11:45"."""
    for ends in RANGE.finditer(source):
        first, last = map(re.escape, ends.groups())
        gap = re.search(rf"(?<!\d){first}(?!\.\S)([^\d]{{1,{MAX_GAP_CHARS}}}){last}(?!\d)", text)
        if gap is not None and not RANGE_SIGN.search(gap[1]):
            return True
    return False


def count_number_faults(source: str, text: str, language: str) -> int:
    """Grade the numbers of a translation: 2, 1 or 0 for how wrong they are.

    2: a number is missing, repeated or malformed (numbers_differ). 1: a number is copied although
    its digits are grouped by the decimal sign of the target language, as 1,299.50 in German. 0: no
    fault. language: code of the target language; for any but de, en and ko, 1 is never returned.
    """
    if numbers_differ(source, text):
        return 2
    sign = DECIMAL_SIGNS.get(language)
    return int(any(n[1] == sign and n[0] in text for n in GROUPED.finditer(source)))
