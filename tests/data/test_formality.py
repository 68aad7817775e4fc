"""bytenmt.formality.shown_form on sentences of both languages, and data.formality in training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bytenmt.config.schema import DataConfig, config_tree, load_config, parse_config
from bytenmt.data.augment.augmenter import Augmenter, asking_for_form
from bytenmt.data.batches import Batch
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.text_file import TextFile
from bytenmt.formality import FORM_BYTES, shown_form
from bytenmt.layers.ngram_tables import NgramTables
from bytenmt.utf8 import ACCEPT, FORBIDDEN, UTF8_COST

SIGNS = {"du": "informal", "Sie": "formal", "-": None}
# Lines of a language, a sign for the form that a sentence shows, and the sentence.
FILE = Path(__file__).parents[1] / "files" / "shown_forms.tsv"
ROWS = [line.split("\t") for line in FILE.read_text(encoding="utf-8").splitlines()]
SENTENCES = [sentence for _, _, sentence in ROWS]


@pytest.mark.parametrize(("language", "sign", "sentence"), ROWS)
def test_a_sentence_shows_its_form(language: str, sign: str, sentence: str) -> None:
    assert shown_form(sentence) == SIGNS[sign]


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    assert shown_form(text) in ("informal", "formal", None)


def test_the_bytes_are_never_of_utf8() -> None:
    """A search may not write them in any state of the automaton."""
    for byte in FORM_BYTES.values():
        assert (UTF8_COST[:, byte[0]] == FORBIDDEN).all()
    assert set(FORM_BYTES.values()) == {b"\xc0", b"\xc1"} and UTF8_COST[ACCEPT, 0xC2] != FORBIDDEN


CHARACTERS = st.characters(exclude_categories=["Cs"])


def corpus() -> ParallelCorpus:
    """Return pairs whose sources are numbered and whose targets are the sentences above."""
    sources = "".join(f"Line {k} Here\n" for k in range(len(SENTENCES)))
    targets = "".join(f"{sentence}\n" for sentence in SENTENCES)
    return ParallelCorpus.from_texts(
        TextFile.from_bytes(sources.encode(), "s"), TextFile.from_bytes(targets.encode(), "t")
    )


def changed(
    share: float, seed: int = 1, epoch: int = 0, part: tuple[int, int] = (0, 1), **other: Any
) -> list[tuple[bytes, bytes]]:
    """Return the pairs of one batch of all sentences after augmentation."""
    augmenter = Augmenter(corpus(), DataConfig(formality=share, **other), seed)
    pairs = [(f"Line {k} Here".encode(), text.encode()) for k, text in enumerate(SENTENCES)]
    batch = Batch.from_pairs(pairs[part[0] :: part[1]])
    return augmenter.change(batch, 3, epoch, part).pairs()


def test_all_pairs_with_a_form_ask_for_it_at_a_share_of_one() -> None:
    for k, (source, target) in enumerate(changed(1.0)):
        form = shown_form(SENTENCES[k])
        asked = {FORM_BYTES[form]} if form is not None else {b"", *FORM_BYTES.values()}
        assert source.removesuffix(f"Line {k} Here".encode()) in asked
        assert target == SENTENCES[k].encode()


def test_a_share_of_the_pairs_is_drawn_by_seed_epoch_and_row() -> None:
    pairs = changed(0.5)
    shows = [shown_form(sentence) is not None for sentence in SENTENCES]
    asked = [source[:1] in FORM_BYTES.values() for source, _ in pairs]
    assert 0.3 < sum(asked) / sum(shows) < 0.7
    neutral = [has for has, shown in zip(asked, shows, strict=True) if not shown]
    assert 0.02 < sum(neutral) / len(neutral) < 0.3  # an eighth: a form that changes nothing
    assert pairs == changed(0.5)
    assert pairs != changed(0.5, seed=2) and pairs != changed(0.5, epoch=1)
    assert pairs[1::3] == changed(0.5, part=(1, 3))


def test_the_byte_comes_after_all_other_changes() -> None:
    """Of the original target: capitals hide the form. Noise does not change it, and no other draw
    depends on it."""
    others: dict[str, Any] = {"noise": 0.5, "upper_case": 0.5, "unpunctuated": 0.5}
    others["empty_source"] = 0.3
    without = changed(0.0, **others)
    for k, (source, target) in enumerate(changed(1.0, **others)):
        form = shown_form(SENTENCES[k])
        plain = without[k][0]
        expected = {plain, *(byte + plain for byte in FORM_BYTES.values())}
        if form is not None:
            expected = {FORM_BYTES[form] + plain}
        assert target == without[k][1] and source in (expected if plain else {b""})
    assert any(not source for source, _ in without)


def test_a_source_at_its_limit_and_an_empty_one_stay() -> None:
    assert asking_for_form(b"", b"Hast du Zeit?", np.uint64(0)) == b""
    pairs = changed(1.0, max_source_bytes=12)
    asked = [source[:1] in FORM_BYTES.values() for source, _ in pairs]
    assert any(asked[:10]) and not any(asked[10:])  # "Line 9 Here" has 11 bytes
    assert all(len(source) <= 12 for source, _ in pairs[:100])


def test_small_letters_are_of_the_source_alone() -> None:
    for k, (source, target) in enumerate(changed(0.0, lower_case=1.0)):
        assert source == f"line {k} here".encode() and target == SENTENCES[k].encode()


@given(st.text(CHARACTERS, min_size=1, max_size=12), st.sampled_from(sorted(FORM_BYTES.values())))
def test_ngrams_and_words_of_a_source_stay(text: str, asked: bytes) -> None:
    """Of each byte behind the one that asks for a form, also if it is read alone."""
    tables = NgramTables(1, (2, 3, 8), 1 << 16, fold_case=True, n_word_rows=1 << 16)
    start = tables.start(1, torch.device("cpu"))
    source = text.encode()
    plain = tables.row_numbers(as_row(source), start)
    assert torch.equal(tables.row_numbers(as_row(asked + source), start)[:, 1:], plain)
    recent = torch.cat([start[0], as_row(asked)], dim=1)[:, 1:]
    after = recent, tables.prefix_hashes(as_row(asked), start[1])[:, -1]
    assert torch.equal(tables.row_numbers(as_row(source), after), plain)


def as_row(text: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(text, np.uint8).copy())[None]


def test_a_configuration_without_forms_has_no_such_key() -> None:
    """So that the fingerprints of older ones stay."""
    plain = load_config("luong", "tiny", [])
    assert "formality" not in config_tree(plain)["data"]
    assert parse_config(config_tree(plain)) == plain
    able = load_config("luong", "tiny", ["data.formality=0.5"])
    assert config_tree(able)["data"]["formality"] == 0.5
    assert parse_config(config_tree(able)) == able and able.data.augmentations == ("formality",)
