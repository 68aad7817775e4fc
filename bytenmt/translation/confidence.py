"""Judge a translation: sure, to be checked, or wrong, with the reasons in words.

A model that knows a line is sure of nearly every byte; where it guesses, bytes cost bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from bytenmt.checkpoints.facts import FlagThresholds
from bytenmt.decoding.interface import Hypothesis
from bytenmt.sentinels import Span, compile_patterns, find_spans, replace_spans
from bytenmt.translation.line_batch import PLACEMENT, TranslationResult
from bytenmt.translation.numbers import numbers_differ

# Levels of a verdict, the best one first.
SURE = "sure"
CHECK = "check"
WRONG = "wrong"
LEVELS = (SURE, CHECK, WRONG)
# Flags of a translation (suspected faults), as programs read them.
UNSURE = "unsure"
LOOP = "loop"
LENGTH = "length"
NUMBER = "number"
COPY = "copy"
INVENTION = "invention"
UNMET = "unmet"
FORMAT = "format"
WORDLESS = "wordless"
UNLIKELY = "unlikely"
UNKNOWN = "unknown"
# The level of each flag, and the words that people read.
REASONS = {
    LOOP: (WRONG, "repeats itself"),
    COPY: (WRONG, "is the source, untranslated"),
    INVENTION: (WRONG, "has nothing to do with its source"),
    LENGTH: (WRONG, "far longer or shorter than its source"),
    NUMBER: (
        WRONG,
        "a number of the source is missing, written in words, repeated or malformed, or a range has"
        " lost its sign",
    ),
    UNMET: (WRONG, "a placeholder or tag is missing, or there is one too many"),
    FORMAT: (WRONG, "its conversions, such as %s, take other arguments than those of the source"),
    WORDLESS: (WRONG, "has no words, and its source has"),
    UNLIKELY: (WRONG, "the model guesses"),
    UNKNOWN: (CHECK, "its source has a word that the model hardly knows"),
    PLACEMENT: (CHECK, "a tag, placeholder or term may be in the wrong place"),
    UNSURE: (CHECK, "the model is unsure"),
}
# A part that is repeated: the longer it is, the fewer times. Of 204,536 reference translations into
# German seven have one that their source has not, and of 75,336 into Korean 139, 119 of them in the
# Bible.
REPETITION = re.compile(
    rb"(.)\1{11}|(..)\2{5}|(.{3,4})\3{3}|(.{5,48}?)\4\4|(.{10,64}?)\5", re.DOTALL
)
MIN_COMPARED_BYTES = 24  # bytes of the longer side of a pair whose lengths are compared
# Without thresholds of the model: no pair of languages makes a sentence of some length so many
# times longer or shorter; in bytes, of which an ideogram has three.
MAX_LENGTH_RATIO = 6.0
MIN_LENGTH_RATIO = 1 / 8
SOURCE_SHARE = 0.5  # of the source's bits in a doubt; graded lines: tools/EXPERIMENTS.md
MAX_SIGMAS = 4.0  # beyond it a length is wrong; references are within 4.4
WORD = re.compile(r"[^\W\d_]+")
ABBREVIATION = re.compile(r"[A-Za-z]{1,2}|[A-Z]{3,5}|[A-Za-z][A-Z][a-z]")  # pm, USB, kHz
NO_TEXT = compile_patterns(("placeholders", "tags", "urls", "emails"))  # same in all languages


def doubt_of(translation: Hypothesis, counts_source: bool = True) -> float | None:
    """Return how doubtful a translation of a sentence is, 0 at best; None if it was only copied.

    (bits(text | source) + SOURCE_SHARE (0.5) * bits(source | text)) / sqrt(bytes), where bits are
    -log2 of the models' probabilities, EOS included. The second term is left out unless a model of
    the opposite direction has ranked the hypotheses and counts_source is true. bytes: length of the
    text without tags, placeholders and addresses, as a long tag would hide what the words cost. The
    bits of these spans count: they are high where the search had to write them. Divided by the
    bytes instead of their root, a long text with one bad word would look good.
    """
    n_copied = sum(end - begin for begin, end in copied_spans(translation.text))
    n_bytes = len(translation.text) - n_copied
    log_p = translation.log_probability
    if n_bytes == 0 or log_p == 0:
        return None
    if counts_source and translation.source_log_probability is not None:
        log_p += SOURCE_SHARE * translation.source_log_probability
    return -log_p / math.log(2) / math.sqrt(n_bytes)


def doubt_of_line(result: TranslationResult) -> float | None:
    """Return the largest doubt of the sentences of a line; None if all of them were only copied."""
    doubts = [doubt_of(hypotheses[0]) for hypotheses in result.chunk_hypotheses]
    return max((doubt for doubt in doubts if doubt is not None), default=None)


class Verdict(NamedTuple):
    """The judgement of a translation by its flags: suspected faults, such as "loop"."""

    level: str  # "sure", "check" or "wrong", by the gravest flag
    reasons: tuple[str, ...]  # each flag in words, the gravest first

    @staticmethod
    def from_flags(flags: Iterable[str]) -> Verdict:
        """Return the verdict of a translation; an unknown flag means "check", none "sure".

        >>> Verdict.from_flags(["unsure", "loop"])
        Verdict(level='wrong', reasons=('repeats itself', 'the model is unsure'))
        """
        reasons = dict.fromkeys(REASONS.get(flag, (CHECK, flag)) for flag in flags)
        ranked = sorted(reasons, key=lambda reason: -LEVELS.index(reason[0]))
        return Verdict(ranked[0][0] if ranked else SURE, tuple(words for _, words in ranked))


def verdict_record(hypothesis: Hypothesis) -> dict[str, Any]:
    """Return {"verdict": level, "reasons": …, "flags": …} of a translation, for JSON.

    A translation that nothing has judged, whose flags are None, is "sure".
    """
    flags = hypothesis.flags or ()
    verdict = Verdict.from_flags(flags)
    return {"verdict": verdict.level, "reasons": verdict.reasons, "flags": flags}


def text_flags(source: bytes, text: bytes, lengths: FlagThresholds | None = None) -> Iterator[str]:
    """Yield the flags (names of suspected faults) of a translation that need no model.

    They are "loop" (repeats itself), "length" (far longer or shorter than the source), "number" (a
    wrong number), and "invention" for words from a source without letters or digits. source, text:
    valid UTF-8. lengths: the mean and variance of target bytes per source byte that were measured
    for the model; None: limits that hold for any pair of languages.
    """
    if has_loop(text) and not has_loop(source):
        yield LOOP
    is_compared = max(len(text), len(source)) >= MIN_COMPARED_BYTES
    if is_compared and not _is_of_likely_length(source, text, lengths):
        yield LENGTH
    if has_wrong_number(source, text):
        yield NUMBER
    if any(map(str.isalnum, text.decode())) and not any(map(str.isalnum, source.decode())):
        yield INVENTION


def has_loop(text: bytes) -> bool:
    """Return whether a part of the text is repeated in a row too often: a model was in a loop.

    Too often is 12 times for one byte, 6 times for a part of 2 bytes, 4 times for 3 or 4 bytes, 3
    times for 5 to 9 bytes, and twice for 10 to 64 bytes.
    """
    return REPETITION.search(text + b" ") is not None


def _is_of_likely_length(source: bytes, text: bytes, lengths: FlagThresholds | None) -> bool:
    """Compare the lengths of a pair as Gale and Church (1993) do: variance grows with length."""
    if lengths is None:
        ratio = (len(text) + 1) / (len(source) + 1)
        return MIN_LENGTH_RATIO <= ratio <= MAX_LENGTH_RATIO
    deviation = len(text) - lengths.length_ratio * len(source)
    return abs(deviation) <= MAX_SIGMAS * math.sqrt(lengths.length_variance * (len(source) + 1))


def has_wrong_number(source: bytes, text: bytes) -> bool:
    """Return whether a number of a source is missing, repeated or malformed in its translation.

    Also if a range, such as 10-15, has lost its sign. Numbers in placeholders, tags, URLs and
    e-mail addresses do not count; 1,000 may become 1.000, and 3 p.m. 15 Uhr.
    """
    has_digits = any(map(str.isdigit, source.decode()))
    return has_digits and numbers_differ(plain_text(source), plain_text(text))


def is_copy(source: bytes, text: bytes) -> bool:
    """Return whether a translation has the same words as its source, in any letter case.

    Placeholders, tags, URLs and e-mail addresses do not count. False for a source without words,
    or with abbreviations alone: "GB", "pm", "Ok." and "D/L" may be the same in both languages.
    """
    words = WORD.findall(plain_text(source))
    if all(ABBREVIATION.fullmatch(word) for word in words):
        return False
    same = "".join(WORD.findall(plain_text(text)))
    return same.casefold() == "".join(words).casefold()


def plain_text(line: bytes) -> str:
    """Return a line as str, a space in place of each placeholder, tag, URL and e-mail address."""
    text = line.decode()
    return replace_spans(text, [(span, " ") for span in find_spans(text, NO_TEXT)])


def copied_spans(line: bytes) -> list[Span]:
    """Return (begin, end) of each placeholder, tag, URL and e-mail address of a line, in bytes."""
    text = line.decode()
    spans = []
    for begin, end in find_spans(text, NO_TEXT):
        begin_byte = len(text[:begin].encode())
        spans.append(Span(begin_byte, begin_byte + len(text[begin:end].encode())))
    return spans
