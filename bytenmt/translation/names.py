"""Find the names of people and products in a line, which its translation keeps.

Whether a word is a name depends on the model: it has a capital, and training text lacks it, or has
it with a capital alone and mostly unchanged in the translation (see source_words). At the beginning
of a sentence, and in a line in title case, every word has a capital: there only names in camel
case, such as "GitLab", are found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bytenmt.checkpoints.facts import SourceWords
from bytenmt.sentinels import Span
from bytenmt.translation.source_words import CAMEL_CASE, is_ordinary, word_spans

CONTEXT = 12  # characters before a word that are looked at
MIN_CONTENT_LETTERS = 4  # of a word that has a capital in title case: "of" and "the" have none
MIN_ACRONYM_LETTERS = 4  # shorter ones are known to models, or are spelt in another way: OK, ID
MIN_TITLE_WORDS = 2  # so many more ordinary words with a capital than without: title case
OPENING_QUOTES = "\"'([«»„“‚‘"
CLOSING_QUOTES = "\"')]»”’"
SENTENCE_ENDS = ".!?…:;•·–—-/="
MARKUP = "*#>|_~"  # what stands before a word of Markdown that may be the first one
ABBREVIATION = re.compile(r"\b(?:Mrs?|Ms|Dr|Prof|St|Hr|Fr|[A-Z])\.\Z")
# A word beside one of these signs is part of a code.
CODE_BEFORE = re.compile(r"[\w@#$%&\\.]\Z")
CODE_BEHIND = re.compile(r"[_(=\\@A-Za-z]|[.:]\w")
# A word before a German noun, which has a capital as well: an article, or an adjective by its
# ending.
GERMAN_ARTICLE = re.compile(
    r"\b(?:[Dd]as|[Ii]m|[Aa]m|[Zz]um|[Zz]ur|beim|vom|ins|ans|aufs|[KkMmDdSs]?[Ee]in|[Ii]hr|[Uu]nser"
    r"|mehr|viel|wenig|etwas|nichts|zwei|drei|vier|\d+|\w*(?:e|en|er|es|em))\W{1,3}\Z"
)
GENDERED = re.compile(r".*[a-zß]In(?:nen)?")  # of German nouns: BenutzerInnen


def find_names(text: str, words: SourceWords) -> list[Span]:
    """Return (begin, end) of each name of a person or product in a text, in characters, in order.

    Names with one space between them are one span. words: the words of the model's
    training text; one that they have as an ordinary word is no name.
    """
    if text.islower():
        return []
    spans = list(word_spans(text))
    has_capitals = _tells_names_by_capitals(text, spans, words)
    names = list[Span]()
    for begin, end in spans:
        word = text[begin:end]
        is_camel_case = CAMEL_CASE.fullmatch(word) is not None and not GENDERED.fullmatch(word)
        if not is_camel_case and not (has_capitals and word[0].isupper()):
            continue
        while end < len(text) and text[end].isdecimal():
            end += 1
        if not is_camel_case and not _is_name_by_capital(text, begin, end, words.language):
            continue
        before = text[max(0, begin - 1) : begin]
        if CODE_BEFORE.search(before) or CODE_BEHIND.match(text, end) or is_ordinary(word, words):
            continue
        if names and text[names[-1].end : begin] == " ":
            begin = names.pop().begin
        names.append(Span(begin, end))
    return names


def _tells_names_by_capitals(text: str, spans: Sequence[Span], words: SourceWords) -> bool:
    """Return whether a capital inside a line tells a name: not in Korean, nor in a line in capitals
    or in title case, in which most of the ordinary words have one."""
    if words.language == "ko" or text.isupper():
        return False
    if words.language == "de":
        return True
    balance = 0
    has_small = False
    for begin, end in spans[1:]:
        word = text[begin:end]
        has_small = has_small or word[0].islower()
        if len(word) >= MIN_CONTENT_LETTERS and is_ordinary(word, words):
            balance += 1 if word[0].isupper() else -1
    return has_small and balance < MIN_TITLE_WORDS


def _is_name_by_capital(text: str, begin: int, end: int, language: str) -> bool:
    """Return whether no rule of spelling asks for the capital of a word."""
    word = text[begin:end]
    if _begins_sentence(text, begin) or (word.isupper() and len(word) < MIN_ACRONYM_LETTERS):
        return False
    if language != "de":
        return True
    before = text[max(0, begin - CONTEXT) : begin]
    return not GERMAN_ARTICLE.search(before) and not text.startswith("-", end)


def _begins_sentence(text: str, begin: int) -> bool:
    """Return whether a word that begins there may be the first one of a sentence."""
    before = text[max(0, begin - CONTEXT) : begin]
    words = before.rstrip().rstrip(OPENING_QUOTES).rstrip()
    if not words or words[-1] in MARKUP:
        return True
    end = words.rstrip(CLOSING_QUOTES)
    return end[-1:] in SENTENCE_ENDS and words != before and not ABBREVIATION.search(words)
