"""Adaptation to a memory: what is learned and written, and what is refused."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command_line import invoke
from made_up_engine import make_run

from bytenmt.architectures.model_program import NGRAM_TABLES
from bytenmt.checkpoints.facts import SourceWords
from bytenmt.checkpoints.quantize import convert, write_rounded
from bytenmt.checkpoints.weights import read_run, restore_weights
from bytenmt.data.pair_files import PairFiles
from bytenmt.errors import BytenmtError, DataError
from bytenmt.training import adaptation
from bytenmt.training.adaptation import MIN_PAIRS, adapt
from bytenmt.training.trainer import Trainer
from bytenmt.translation.source_words import build_filter, is_known
from bytenmt.translation.translator import Translator

WORDS = ("open", "close", "save", "print", "delete", "rename")


def pairs_of(n_files: int) -> list[tuple[str, str]]:
    return [(f"{word} file {n}", f"{word.upper()} {n}") for word in WORDS for n in range(n_files)]


PAIRS, MANY_PAIRS = pairs_of(5), pairs_of(26)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A weights file in int8; adaptations of it are short."""
    monkeypatch.setattr(adaptation, "N_FIXED_UPDATES", 20)
    path = tmp_path / "old.safetensors"
    convert(make_run(tmp_path / "run", "convs2s"), path, "int8")
    contents = read_run(path)[1]
    corpora = (PairFiles(Path("train.en"), Path("train.de")),)
    known = build_filter(["the"])
    words = SourceWords(language="en", min_count=2, known=known, ordinary=known)
    facts = msgspec.structs.replace(
        contents.facts, corpora=corpora, pairs=7, multi_sentence_share=0.25, words=words
    )
    # A plugin's loss term, which is not loaded here.
    train = msgspec.structs.replace(contents.config.train, loss_terms={"of a plugin": 1.0})
    config = msgspec.structs.replace(contents.config, train=train)
    write_rounded(path, restore_weights(contents.arrays), config, facts, "int8")
    return path


@pytest.mark.slow
def test_the_adapted_model_is_like_the_old_and_knows_the_pairs(tmp_path: Path, model: Path) -> None:
    memory, new = tmp_path / "memory.tsv", tmp_path / "new"
    more = tmp_path / "more.tsv"
    for path, pairs in ((memory, PAIRS[:20]), (more, [*PAIRS[20:], PAIRS[0]])):
        path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    result = invoke("adapt", model, memory, more, "-o", new)
    assert result.exit_code == 0, result.output
    report = r"30 different pairs, 20 updates; 6 held out: chrF .* bits per byte (\S+) -> (\S+)\n"
    bits = re.search(report, result.output)
    assert bits is not None and float(bits[2]) < float(bits[1])
    old, written = read_run(model)[1], read_run(new)[1]
    assert written.config == old.config and written.precision == old.precision
    assert written.facts.words is not None
    assert all(is_known(word, written.facts.words) for word in ("the", "rename", "file"))
    assert written.facts.multi_sentence_share == old.facts.multi_sentence_share == 0.25
    assert written.facts.pairs == 37
    tables = [one.tsv for one in written.facts.corpora]
    assert tables == [None, Path("memory.tsv"), Path("more.tsv")]
    assert isinstance(Translator.load(new, max_len_b=4).translate("open file 9"), str)
    assert [path.name for path in new.iterdir()] == ["model.safetensors"]


@pytest.mark.slow
def test_enough_held_out_pairs_tell_when_to_stop(tmp_path: Path, model: Path) -> None:
    report = adapt(model, MANY_PAIRS, tmp_path / "new", names=["memory.tsv"])
    assert report.n_held_out == 32 and report.n_updates != 20
    before, after = report.held_out
    assert after.bits < before.bits


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
    monkeypatch.setattr(adaptation, "PATIENCE_VALIDATIONS", 2)
    with pytest.raises(BytenmtError, match="get no better"):
        adapt(model, MANY_PAIRS, tmp_path / "new", names=["memory.tsv"])
    assert len(updates) == 3 * 6  # three validations, six updates apart
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_of_a_model_with_long_n_grams_only_their_tables_learn(tmp_path: Path, model: Path) -> None:
    settings = ("model.ngrams=[2,5]", "model.ngram_rows=64")
    run = make_run(tmp_path / "tables", "convs2s", settings=settings)
    adapt(run, PAIRS, tmp_path / "new", names=["memory"])
    old, new = (restore_weights(read_run(path)[1].arrays) for path in (run, tmp_path / "new"))
    assert [name for name in old if (new[name] != old[name]).any()] == [NGRAM_TABLES]
    changed = (new[NGRAM_TABLES] != old[NGRAM_TABLES]).any(-1)
    assert not changed[:64].any() and changed[64:].sum() > 20


def test_too_few_pairs_are_refused(tmp_path: Path, model: Path) -> None:
    with pytest.raises(DataError, match=f"19 different pairs.*{MIN_PAIRS}"):
        adapt(model, PAIRS[:19] * 2, tmp_path / "new", names=["memory"])
    assert not (tmp_path / "new").exists()


def test_the_command_refuses_in_one_line(tmp_path: Path, model: Path) -> None:
    empty, other = tmp_path / "empty.po", tmp_path / "new"
    empty.write_text('msgid "a"\nmsgstr ""\n')
    (tmp_path / "latin.tsv").write_bytes(b"a\tcaf\xe9\n")
    for words, arguments in (
        ("contains no translated texts", [empty, "-m", model, "-o", other]),
        ("0xE9 is not valid UTF-8: convert", [tmp_path / "latin.tsv", "-m", model, "-o", other]),
        ("trained on en", [empty, "-m", model, "-o", other, "--pair", "fr-de"]),
        ("already exists", [empty, "-m", model, "-o", model]),
    ):
        result = invoke("adapt", *arguments)
        assert result.exit_code == 1, result.output
        assert words in result.output and result.output.count("\n") == 1
