"""Adaptation to a memory: what is written, what is refused, and that forgetting is limited."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from command_line import invoke
from made_up_engine import make_run

from bytenmt.checkpoints.quantize import convert, write_rounded
from bytenmt.checkpoints.weights import read_run, restore_weights
from bytenmt.config.facts import PairFiles
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError, DataError
from bytenmt.training import adaptation
from bytenmt.training.adaptation import FACTORS, FEWEST_PAIRS, adapt, read_probe
from bytenmt.training.trainer import Trainer

WORDS = ("open", "close", "save", "print", "delete", "rename")
PAIRS = [(f"{word} file {n}", f"{word.upper()} {n}") for word in WORDS for n in range(5)]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A weights file in int8; adaptations of it are short."""
    monkeypatch.setattr(adaptation, "FIXED_UPDATES", 20)
    path = tmp_path / "old.safetensors"
    convert(make_run(tmp_path / "run", "convs2s"), path, "int8")
    contents = read_run(path)[1]
    corpora = (PairFiles(Path("train.en"), Path("train.de")),)
    facts = msgspec.structs.replace(contents.facts, corpora=corpora, pairs=7, multi_sentence_share=0.25)
    write_rounded(path, restore_weights(contents.arrays), contents.config, facts, "int8")
    return path


@pytest.mark.slow
def test_the_adapted_model_is_one_like_the_old_that_knows_the_pairs_better(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptation, "MOST_FORGOTTEN", 100.0)  # random weights have nothing to lose
    memory, new = tmp_path / "memory.tsv", tmp_path / "new"
    more = tmp_path / "more.tsv"
    for path, pairs in ((memory, PAIRS[:20]), (more, [*PAIRS[20:], PAIRS[0]])):
        path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    result = invoke("adapt", model, memory, more, "-o", new)
    assert result.exit_code == 0, result.output
    assert re.search("30 different pairs, 6 held out; 20 updates, weights (25|40)% of", result.output)
    bits = re.search(r"new text \(6 held-out pairs\): .* bits per byte (\S+) -> (\S+)\n", result.output)
    assert bits is not None and float(bits[2]) < float(bits[1]) and "old text (60 sen" in result.output
    old, written = read_run(model)[1], read_run(new)[1]
    assert written.config == old.config and written.precision == old.precision
    assert written.facts.multi_sentence_share == old.facts.multi_sentence_share == 0.25
    assert written.facts.pairs == 37
    assert [one.tsv for one in written.facts.corpora] == [None, Path("memory.tsv"), Path("more.tsv")]
    assert isinstance(Translator.load(new, max_len_b=4).translate("open file 9"), str)
    assert [path.name for path in new.iterdir()] == ["model.safetensors"]


@pytest.mark.slow
def test_enough_held_out_pairs_tell_when_to_stop(tmp_path: Path, model: Path) -> None:
    pairs = [(f"{word} file {n}", f"{word.upper()} {n}") for word in WORDS for n in range(26)]
    report = adapt(model, pairs, tmp_path / "new", names=["memory.tsv"])
    assert report.n_held_out == 32 and report.factor in FACTORS and report.n_updates != 20
    assert report.new[1].bits < report.new[0].bits


@pytest.mark.slow
def test_training_ends_when_the_held_out_pairs_get_no_better(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates, learn = list[int](), Trainer.learn

    def counted(self: Trainer, *arguments: Any) -> Any:
        updates.append(self.progress.update)
        return learn(self, *arguments)

    monkeypatch.setattr(Trainer, "learn", counted)
    monkeypatch.setattr(adaptation, "LEARNING_RATE", 1e-30)
    monkeypatch.setattr(adaptation, "PATIENCE", 2)
    pairs = [(f"{word} file {n}", f"{word.upper()} {n}") for word in WORDS for n in range(26)]
    with pytest.raises(BytenmtError, match="get no better"):
        adapt(model, pairs, tmp_path / "new", names=["memory.tsv"])
    assert len(updates) == 3 * 6  # three validations, six updates apart


def test_tables_of_n_grams_are_the_new_ones() -> None:
    old, new = (
        {"embedding.ngrams.weight": torch.full((3,), value), "output": torch.full((2,), value)}
        for value in (1.0, 5.0)
    )
    for factor, table, other in ((0.0, 1.0, 1.0), (0.25, 5.0, 2.0), (0.5, 5.0, 3.0)):
        mixed = adaptation._mix_weights(old, new, factor)
        assert mixed["embedding.ngrams.weight"].tolist() == [table] * 3
        assert mixed["output"].tolist() == [other] * 2


def test_weights_that_forget_too_much_are_not_taken(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = [("a", "b")]
    monkeypatch.setattr(adaptation, "MOST_FORGOTTEN", -100.0)
    with pytest.raises(BytenmtError, match="get no better: nothing was written"):
        adapt(model, PAIRS, tmp_path / "new", names=["memory"], probe=probe)
    assert not list((tmp_path / "new").iterdir())


def test_the_probe_text_has_whole_rows() -> None:
    pairs = read_probe("en", "de")
    assert len(pairs) == len(read_probe("ko", "en")) > 50 and all(all(pair) for pair in pairs)
    assert read_probe("en", "fr") == [] == read_probe(None, "de")


def test_too_few_pairs_are_refused(tmp_path: Path, model: Path) -> None:
    with pytest.raises(DataError, match=f"19 different pairs.*{FEWEST_PAIRS}"):
        adapt(model, PAIRS[:19] * 2, tmp_path / "new", names=["memory"])
    assert not (tmp_path / "new").exists()


def test_the_command_refuses_in_one_line(tmp_path: Path, model: Path) -> None:
    empty, other = tmp_path / "empty.po", tmp_path / "new"
    empty.write_text('msgid "a"\nmsgstr ""\n')
    (tmp_path / "latin.tsv").write_bytes(b"a\tcaf\xe9\n")
    for words, arguments in (
        ("no pair of texts", [empty, "-m", model, "-o", other]),
        ("0xE9 is not valid UTF-8: convert", [tmp_path / "latin.tsv", "-m", model, "-o", other]),
        ("trained on en", [empty, "-m", model, "-o", other, "--pair", "fr-de"]),
        ("exists already", [empty, "-m", model, "-o", model]),
    ):
        result = invoke("adapt", *arguments)
        assert result.exit_code == 1, result.output
        assert words in result.output and result.output.count("\n") == 1
