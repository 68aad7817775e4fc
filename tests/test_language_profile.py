"""Profiles of languages: what they count, what they survive, and how well they tell languages apart."""

import base64
import gzip
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bytenmt.config.facts import LONGEST_PROFILE, Facts, parse_facts
from bytenmt.config.schema import load_config
from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.language_profile import MOST_TRIGRAMS, LanguageProfile, normalise
from bytenmt.training.translation import TranslationObjective

LINES = st.lists(st.text(st.sampled_from("abcdeÄß한 .1")), min_size=1, max_size=20)


@given(LINES)
def test_it_counts_the_most_frequent_trigrams(lines: list[str]) -> None:
    """Each word with a space before and behind it; compared with counting in Python."""
    text = "".join(f" {' '.join(words_of(line))} " for line in lines).encode()
    expected = Counter(text[at : at + 3] for at in range(len(text) - 2))
    profile = LanguageProfile.from_lines(line.encode() for line in lines)
    if not any(words_of(line) for line in lines):
        assert profile is None
        return
    assert profile is not None
    found = {int(key).to_bytes(3, "big"): int(n) for key, n in zip(*profile, strict=True)}
    assert found == dict(expected) if len(expected) <= MOST_TRIGRAMS else len(found) == MOST_TRIGRAMS


def words_of(line: str) -> list[str]:
    return "".join(c.lower() if c.isalpha() else " " for c in line).split()


def test_the_rarest_are_left_out() -> None:
    lines = [bytes([a, b, c]) for a in b"abcdefghijkl" for b in b"mnopqrstuvwx" for c in b"yzabcdefghij"]
    profile = LanguageProfile.from_lines([*lines, *lines[:50] * 3])
    assert profile is not None and len(profile.keys) == MOST_TRIGRAMS
    kept = {int(key).to_bytes(3, "big") for key in profile.keys}
    assert set(lines[:50]) <= kept


@given(LINES)
def test_as_text_it_is_nearly_the_same(lines: list[str]) -> None:
    profile = LanguageProfile.from_lines(line.encode() for line in lines)
    if profile is None:
        return
    text = profile.to_text()
    again = LanguageProfile.from_text(text)
    assert (again.keys == profile.keys).all()
    assert np.allclose(again.counts, profile.counts, rtol=0.05, atol=0.5)
    assert LanguageProfile.from_text(again.to_text()).to_text() == again.to_text()
    facts = Facts(source_profile=text)
    assert len(text) <= LONGEST_PROFILE and parse_facts(msgspec.to_builtins(facts)) == facts


@pytest.mark.parametrize(
    "text",
    ["", "é", "AAA", "AAAA", "====", base64.b64encode(b"abc1" * 2).decode(), "AAAB" * (2 * MOST_TRIGRAMS)],
)
def test_what_is_no_profile_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="language profile"):
        LanguageProfile.from_text(text)


def test_white_space_digits_and_punctuation_tell_nothing() -> None:
    assert normalise("Im Jahr 1990: „Hallo“,\tWelt!\n") == normalise("im jahr   hallo welt")
    assert normalise("हिन्दी") == " हिन्दी ".encode()


ENGLISH = [b"The weather is nice today.", b"Where have you been all the time?", b"I would like some tea."]
GERMAN = [b"Das Wetter ist heute gut.", b"Wo bist du die ganze Zeit gewesen?", b"Ich h\xc3\xa4tte gern Tee."]


def test_training_counts_both_sides(tmp_path: Path) -> None:
    """From evenly spaced pairs of all parts, in whatever way the files are packed."""
    (tmp_path / "en").write_bytes(b"\n".join(ENGLISH))
    with gzip.open(tmp_path / "de.gz", "wb") as packed:
        packed.write(b"\n".join(GERMAN))
    files = [PairFiles(tmp_path / "en", tmp_path / "de.gz")]
    corpus = ParallelCorpus.open_all(files)
    facts = TranslationObjective(load_config("luong", "tiny", []), corpus, corpus).facts()
    for text, lines in ((facts.source_profile, ENGLISH), (facts.target_profile, GERMAN)):
        expected = LanguageProfile.from_lines(lines)
        assert expected is not None and text == expected.to_text()
    assert facts.without_folders().source_profile == facts.source_profile
    alone = [PairFiles(tgt=tmp_path / "en")]
    corpus = ParallelCorpus.open_all(alone)
    settings = load_config("luong", "tiny", ["model.source=false"])
    facts = TranslationObjective(settings, corpus, corpus).facts()
    assert facts.source_profile == facts.target_profile == ""
