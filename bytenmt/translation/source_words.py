"""The words that a model knows: those that the source side of its training text has often enough.

A Bloom filter (Bloom 1970) in the model's facts holds them. A line with another word is often
translated worse than its costs tell: the model spells out something that looks right. A second
filter holds the words that are not names: a name, such as "Nextcloud", stands in training text with
a capital alone and mostly unchanged in the translation, or not at all.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from msgspec.structs import replace

from bytenmt.checkpoints.facts import SourceWords, WordFilter
from bytenmt.sentinels import Span

MIN_COUNTS = (2, 6, 21)  # a calibration chooses one: words as frequent in training text are known
USUAL_COUNT = 6  # without a validation text
MIN_ORDINARY_COUNT = 2  # of a word that is not a name
BITS_PER_WORD = 12  # of a filter, with N_HASHES: one word in 300 that is not in it seems to be
N_HASHES = 8
_WORD = re.compile(r"[가-힣]+|[^\W\d_가-힣]+")  # a word of Korean ends where Latin letters begin
MIN_WORD_LETTERS = 2  # of a word in letters with capitals
STEM_SYLLABLES = 2  # of a word of Korean, before its endings
MIN_PART_LETTERS = 4  # of the last part of a German compound, and of what stands before it
# A name: the share of its occurrences with a small letter at most, and of the translations that
# have it unchanged at least.
MAX_SMALL_SHARE = 0.3
MIN_UNCHANGED_SHARE = 0.6
MAX_NAME_COUNT = 100  # of a name that is kept: the model spells others, and inflects them better
# A word in a path, an address or an identifier has a small letter though it may be a name.
_CODE_BEFORE = frozenset("./\\_@-:=`$&#")
_CODE_BEHIND = re.compile(r"[/\\_@=`(-]|[.:][^\W_]")
CAMEL_CASE = re.compile(r"[^\W\d_]*[^\W\d_A-ZÀ-Þ](?=[A-ZÀ-Þ])[^\W\d_]+")


def word_spans(text: str) -> Iterator[Span]:
    """Yield (begin, end), in characters, of each word: Hangul, or at least two other letters."""
    for match in _WORD.finditer(text):
        if match.end() - match.start() >= MIN_WORD_LETTERS or _is_hangul(match[0]):
            yield Span(*match.span())


def word_key(word: str) -> str:
    """Return the key by which a word is counted: case-folded; of Korean its first two syllables."""
    if _is_hangul(word):
        return word[:STEM_SYLLABLES]
    return unicodedata.normalize("NFC", word).casefold()


def _is_hangul(word: str) -> bool:
    return "가" <= word[0] <= "힣"


def is_known(word: str, words: SourceWords) -> bool:
    """Return whether a word is frequent enough in the model's training text to be known.

    A German compound is known if its last part is. words: as stored in the model's weights file.
    """
    return _has_word(words.known, word, words.language)


def is_ordinary(word: str, words: SourceWords) -> bool:
    """Return whether training text has a word as something other than a name.

    A word that is not ordinary is a name only if it has a capital that no rule of spelling asks
    for; otherwise it is merely rare. Of a German compound the last part counts. words: what the
    model's weights file stores of its training words.
    """
    return _has_word(words.ordinary, word, words.language)


def _has_word(words: WordFilter, word: str, language: str) -> bool:
    key = word_key(word)
    begins = [0]
    if language == "de" and not _is_hangul(word):
        begins += range(MIN_PART_LETTERS, len(key) - MIN_PART_LETTERS + 1)
    return any(contains(words, key[begin:]) for begin in begins)


def unknown_words(text: str, translation: str, words: SourceWords) -> list[str]:
    """Return the distinct words of a text that are too rare in the model's training text, in order.

    Capitalized words that the translation has unchanged are left out; for a Korean source, so are
    all unchanged words. words: what the model's weights file stores of its training words.
    """
    found = dict.fromkeys(text[begin:end] for begin, end in word_spans(text))
    unknown = [word for word in found if not is_known(word, words)]
    copied = _WORD.findall(translation) if unknown else []
    if words.language != "ko":
        copied = [word for word in copied if word[0].isupper()]
    return [word for word in unknown if word not in copied]


def contains(words: WordFilter, key: str) -> bool:
    """Return whether a Bloom filter has a key; rarely True for a key that was not added."""
    bits = words.bits
    return all(bits[place >> 3] >> (place & 7) & 1 for place in _places(key, 8 * len(bits)))


def build_filter(keys: Iterable[str]) -> WordFilter:
    """Return a Bloom filter of the distinct `keys`, 12 bits each; word_key makes keys of words."""
    distinct = set(keys)
    n_bytes = math.ceil(max(1, len(distinct)) * BITS_PER_WORD / 8)
    return extend_filter(WordFilter(bits=bytes(n_bytes), n_words=0), distinct)


def extend_filter(words: WordFilter, keys: Iterable[str]) -> WordFilter:
    """Return a copy of a Bloom filter, of the same size, to which `keys` are added."""
    new = {key for key in keys if not contains(words, key)}
    bits = bytearray(words.bits)
    for key in new:
        for place in _places(key, 8 * len(bits)):
            bits[place >> 3] |= 1 << (place & 7)
    return WordFilter(bits=bytes(bits), n_words=words.n_words + len(new))


def _places(key: str, n_bits: int) -> Iterator[int]:
    """Yield the bits of a key: double hashing as in Kirsch and Mitzenmacher (2006)."""
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    first = int.from_bytes(digest[:8], "little")
    step = int.from_bytes(digest[8:], "little") | 1
    return ((first + number * step) % n_bits for number in range(N_HASHES))


class WordCounts:
    """The counts of the words of a training text, from which SourceWords are made."""

    def __init__(self, language: str) -> None:
        """language: code of the source language, such as "de"."""
        self.language = language
        self._counts = Counter[str]()
        self._small = Counter[str]()  # occurrences without a capital
        self._lines = Counter[str]()  # lines with the word, with a capital
        self._unchanged = Counter[str]()  # those whose translation has it unchanged

    def add(self, source: str, target: str) -> None:
        """Count the words of a source line; its translation `target` tells which stay unchanged."""
        capitalized = set()
        for begin, end in word_spans(source):
            word = source[begin:end]
            key = word_key(word)
            self._counts[key] += 1
            if word[0].isupper() or CAMEL_CASE.fullmatch(word):
                capitalized.add(word)
            elif not (source[begin - 1 : begin] in _CODE_BEFORE or _CODE_BEHIND.match(source, end)):
                self._small[key] += 1
        if capitalized:
            translated = set(_WORD.findall(target))
            for word in capitalized:
                key = word_key(word)
                self._lines[key] += 1
                self._unchanged[key] += word in translated

    def source_words(self, min_count: int) -> SourceWords:
        """Return two Bloom filters of the words that were counted.

        One has the words that occur at least min_count times, the other those that occur at least
        twice and are no names.
        """
        return SourceWords(
            language=self.language,
            min_count=min_count,
            known=build_filter(self._known(min_count)),
            ordinary=build_filter(self._ordinary(MIN_ORDINARY_COUNT)),
        )

    def add_to(self, words: SourceWords) -> SourceWords:
        """Return a copy of a model's words to which all counted words are added, even rare ones."""
        return replace(
            words,
            known=extend_filter(words.known, self._known(1)),
            ordinary=extend_filter(words.ordinary, self._ordinary(1)),
        )

    def _known(self, min_count: int) -> list[str]:
        return [key for key, count in self._counts.items() if count >= min_count]

    def _ordinary(self, min_count: int) -> list[str]:
        return [key for key in self._known(min_count) if not self._is_name(key)]

    def _is_name(self, key: str) -> bool:
        n_lines = self._lines[key]
        is_capital = self._small[key] <= MAX_SMALL_SHARE * self._counts[key]
        is_rare = self._counts[key] <= MAX_NAME_COUNT
        return is_capital and is_rare and self._unchanged[key] >= MIN_UNCHANGED_SHARE * n_lines > 0
