"""Insert made-up placeholders, tags, addresses and menu accelerators on both sides of a training pair.

Ordinary text has few of them, and a model that has seen few does not copy them. Without an alignment, the
position in the target that corresponds to one in the source is known at the ends of a text, before its final
punctuation, and at words that are identical on both sides, such as names and numbers.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.data.augment.copying import Below, keyed_draws
from bytenmt.data.augment.noise import HALF, chance, row_keys
from bytenmt.data.corpus import ParallelCorpus, Part
from bytenmt.data.text_file import TextFile
from bytenmt.spans.extractor import span_extractor
from bytenmt.spans.grammar import CLASSES

_ESCAPES = re.compile(r"&#?[A-Za-z0-9]{2,8};|\\[abfnrtv]")
LITERAL_MARKERS = re.compile(rb"[%{<$@&\[\\]|://|www\.")  # every literal holds one of them
_MARKERS = re.compile(LITERAL_MARKERS.pattern.decode())
_LITERAL_CLASSES = tuple(name for name in CLASSES if name != "numbers")

_TOKEN = re.compile(r"\w+(?:[.,:]\w+)*")
_FINAL = re.compile(r"[.!?…:]+$")
_NAMES = (
    *("name", "user", "file", "path", "folder", "count", "number", "n", "total", "size", "value", "item"),
    *("title", "text", "label", "date", "time", "day", "url", "link", "email", "id", "key", "index", "type"),
    *("status", "message", "error", "version", "host", "port", "line", "page", "from", "to", "x", "y"),
)
_PAIRED_TAGS = (
    *("b", "i", "u", "em", "strong", "code", "a", "span", "p", "li", "h1", "small", "kbd"),
    *("x1", "x2", "g0", "g1"),
)
_VOID_TAGS = ("<br/>", "<br>", "<hr/>", "<img/>")  # which stand for no word
_ENDINGS = ("org", "com", "net", "de", "eu", "io", "info")
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvwz", "aeiou"
_CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LONGEST_ENTRY = 30  # characters: a longer text is no menu entry, and gets no accelerator

PairTexts = tuple[str, str]


class Tags(NamedTuple):
    """A made-up opening tag and its closing tag, for training text."""

    opening: str
    closing: str

    def around(self, text: str) -> str:
        """Return the text with the opening tag before it and the closing tag after it."""
        return f"{self.opening}{text}{self.closing}"


def literal_spans(text: str) -> list[tuple[int, int]]:
    """Return where placeholders, tags, addresses and escapes lie in a text, in order and apart."""
    if not _MARKERS.search(text):
        return []
    spans = [span[:2] for span in span_extractor(_LITERAL_CLASSES).spans_of_text(text)]
    spans += [found.span() for found in _ESCAPES.finditer(text)]
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def insert_placeholders(source: str, target: str, below: Below) -> PairTexts:
    """Return a pair with a made-up item, sometimes two, at corresponding places of both sides.

    below(n) draws a whole number from 0 to n - 1. The pair is returned unchanged where the drawn item has no
    place in it.
    """
    for _ in range(2 if below(4) == 0 else 1):
        source, target = _insert_one(source, target, below)
    return source, target


def placeholder_corpus(corpus: ParallelCorpus, share: float, key: int) -> ParallelCorpus:
    """Return a corpus in which this share of the pairs has made-up items.

    Which pairs, and what they get, depends on the key and on a pair's index alone. Lengths change, and
    batches are planned by length; therefore this is done for a whole epoch before its plan. Changed lines lie
    beside the mapped file, as repaired ones do. A pair that would exceed the corpus' limits stays as it is.
    """
    keys = row_keys(np.uint64(key), np.arange(len(corpus)))
    chosen = np.flatnonzero(keys >> HALF < chance(share))
    source_lengths, target_lengths = corpus.source_lengths.copy(), corpus.target_lengths.copy()
    parts = []
    for p, part in enumerate(corpus.parts):
        assert part.src is not None
        source, target = _ChangedText(part.src), _ChangedText(part.tgt)
        for k in chosen[(chosen >= corpus.bounds[p]) & (chosen < corpus.bounds[p + 1])].tolist():
            line = int(corpus.lines[k])
            before = part.src.line(line).decode(), part.tgt.line(line).decode()
            own, other = (text.encode() for text in insert_placeholders(*before, keyed_draws(keys[k])))
            if _fits(own, corpus.max_source_bytes) and _fits(other, corpus.max_target_bytes):
                source.put(line, own)
                target.put(line, other)
                source_lengths[k], target_lengths[k] = len(own), len(other)
        parts.append(Part(source.finished(), target.finished(), part.weight))
    return replace(corpus, parts=tuple(parts), source_lengths=source_lengths, target_lengths=target_lengths)


class _ChangedText:
    """A text file with some lines replaced."""

    def __init__(self, text: TextFile) -> None:
        self._text, self._side = text, bytearray(text.side.tobytes())
        self._starts, self._lengths = text.starts.copy(), text.lengths.copy()

    def put(self, line: int, content: bytes) -> None:
        self._starts[line], self._lengths[line] = ~len(self._side), len(content)
        self._side += content

    def finished(self) -> TextFile:
        side: npt.NDArray[np.uint8] = np.frombuffer(bytes(self._side), np.uint8)
        return replace(self._text, starts=self._starts, lengths=self._lengths, side=side)


def _fits(text: bytes, limit: int | None) -> bool:
    return limit is None or len(text) <= limit


def _insert_one(source: str, target: str, below: Below) -> PairTexts:
    """Insert one random item at a random position."""
    if below(4) == 0 and (marked := _with_accelerators(source, target, below)):
        return marked
    shared = _shared_tokens(source, target)
    kind = below(10)
    if kind < 3:
        tags = _made_up_tags(below)
        if tags.opening in source or tags.opening in target:
            return source, target
        if shared and below(3):
            token = shared[below(len(shared))]
            return source.replace(token, tags.around(token)), target.replace(token, tags.around(token))
        return _around_text(source, target, tags, below)
    item = _made_up_address(below) if kind == 3 else _made_up_placeholder(source, below)
    if item in source or item in target:
        return source, target
    if shared and kind != 3 and item not in _VOID_TAGS and below(10) < 7:
        token = shared[below(len(shared))]
        return source.replace(token, item), target.replace(token, item)
    return _beside_text(source, target, item, below)


def _shared_tokens(source: str, target: str) -> list[str]:
    """Return names and numbers that occur once, unchanged, on both sides, outside of placeholders and
    tags.
    """
    there = {token for token in _TOKEN.findall(target) if token[0].isdigit() or token[0].isupper()}
    if not there:
        return []
    literals = [source[begin:end] for begin, end in literal_spans(source)]
    return [
        token
        for token in _TOKEN.findall(source)
        if token in there
        and source.count(token) == 1 == target.count(token)
        and not any(token in literal for literal in literals)
    ]


def _same_final(source: str, target: str) -> str:
    """Return the punctuation that ends both sides, or an empty text."""
    found = _FINAL.search(source)
    final = found.group() if found else ""
    other = _FINAL.search(target)
    return final if other and other.group() == final else ""


def _around_text(source: str, target: str, tags: Tags, below: Below) -> PairTexts:
    """Return both sides between tags, sometimes without the final punctuation."""
    final = _same_final(source, target) if below(2) else ""
    own, other = source.removesuffix(final), target.removesuffix(final)
    return tags.around(own) + final, tags.around(other) + final


def _beside_text(source: str, target: str, item: str, below: Below) -> PairTexts:
    """Return both sides with an item at the beginning, at the end, or before the final punctuation."""
    place, final = below(4), _same_final(source, target)
    ended = _FINAL.search(source) or _FINAL.search(target)
    if place == 0:
        between = (" ", ": ", " – ", "" if item.endswith(">") else " ")[below(4)]
        return f"{item}{between}{source}", f"{item}{between}{target}"
    if place == 1 and final:
        own, other = source.removesuffix(final), target.removesuffix(final)
        return f"{own} {item}{final}", f"{other} {item}{final}"
    behind = (f" {item}", f" ({item})", f" {item}" if ended else f": {item}")[below(3)]
    return source + behind, target + behind


def _with_accelerators(source: str, target: str, below: Below) -> PairTexts | None:
    """Return both sides with a mark before the first letter (&File, &Datei), or None if one is no menu
    entry.
    """
    mark = "&_"[below(2)]
    for text in (source, target):
        if len(text) > _LONGEST_ENTRY or not text[:1].isalpha() or mark in text or text[-1] in ".!?":
            return None
    return mark + source, mark + target


def _made_up_tags(below: Below) -> Tags:
    name = _PAIRED_TAGS[below(len(_PAIRED_TAGS))]
    attribute = ""
    if name == "a":
        attribute = f' href="{_made_up_address(below)}"'
    elif name in ("span", "p") and below(2):
        attribute = f' class="{_word(below)}"'
    return Tags(f"<{name}{attribute}>", f"</{name}>")


def _made_up_placeholder(source: str, below: Below) -> str:
    """Return a placeholder in one of the forms that programs use, with a usual name, a word of the
    source or a made-up word.
    """
    words = [word for word in source.split() if word.isascii() and word.isalpha() and word.islower()]
    which = below(4)
    name = _NAMES[below(len(_NAMES))]
    if which == 0 and words:
        name = words[below(len(words))]
    elif which == 1:
        name = _word(below)
    if below(6) == 0:
        name += "_" + _NAMES[below(len(_NAMES))]
    number = below(10)
    capital = _CAPITALS[below(len(_CAPITALS))]
    forms = (
        "%s",
        "%d",
        f"%{1 + number % 4}$s",
        f"%({name})s",
        f"%({name})d",
        f"{{{name}}}",
        f"{{{name}}}",
        f"{{{number % 4}}}",
        f"{{{{{name}}}}}",
        f"{{{{ {name} }}}}",
        f"${name.upper()}",
        f"${{{name}}}",
        f"%{name.upper()}%",
        f"<x{number}/>",
        _VOID_TAGS[below(len(_VOID_TAGS))],
        f"[{capital}{number}{capital}]",
    )
    return forms[below(len(forms))]


def _made_up_address(below: Below) -> str:
    host = f"{_word(below)}.{_ENDINGS[below(len(_ENDINGS))]}"
    if below(3) == 0:
        return f"{_word(below)}{('', '.' + _word(below))[below(2)]}@{host}"
    path = "".join(f"/{_word(below)}" for _ in range(below(3)))
    query = f"?{_NAMES[below(len(_NAMES))]}={below(1000)}" if path and below(4) == 0 else ""
    return ("https://", "https://www.", "http://", "www.")[below(4)] + host + path + query


def _word(below: Below) -> str:
    """Return a made-up word of one to three syllables."""
    n_syllables = 1 + below(3)
    return "".join(
        _CONSONANTS[below(len(_CONSONANTS))] + _VOWELS[below(len(_VOWELS))] for _ in range(n_syllables)
    ) + (_CONSONANTS[below(len(_CONSONANTS))] if n_syllables == 1 or below(2) else "")
