"""Scores against computations of their own."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import results

from bytenmt.architectures.registry import ARCHITECTURES, build_model
from bytenmt.config.schema import load_config
from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.decoding.pytorch.reader import TorchReader
from bytenmt.distributed import SINGLE_PROCESS, Group
from bytenmt.evaluation import likelihood
from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
from bytenmt.evaluation.scores import text_scores
from bytenmt.utf8 import BOS, EOS

CPU = torch.device("cpu")


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("cells", [30, 10_000])
def test_log_probabilities_one_sentence_at_a_time(
    arch: str, cells: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batched scores, in the order of the corpus, equal those of single pairs summed byte by byte, EOS
    included.
    """
    torch.manual_seed(5)
    model = build_model(load_config(arch, "tiny", []).model).double().eval()
    pairs = [("가나", "ab"), ("x", "다라마 ccc"), ("", "empty source"), ("two words", "b"), ("yy", "")]
    files = [tmp_path / "src", tmp_path / "tgt"]
    for file, lines in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    corpus = ParallelCorpus.open_all([PairFiles(*files)])
    assert corpus.lines.tolist() == [0, 1, 3]
    expected = []
    for index in corpus.lines.tolist():
        source, target = (text.encode() for text in pairs[index])
        src = torch.tensor([[*source, EOS]], dtype=torch.uint8)
        memory = model.encode(src, torch.tensor([len(source) + 1]))
        tgt = torch.tensor([[BOS, *target]], dtype=torch.uint8)
        logits = model(tgt, memory, model.start(memory))[0][0].detach().numpy()
        total = 0.0
        for row, byte in zip(logits, [*target, EOS], strict=True):
            total += row[byte] - math.log(sum(math.exp(x) for x in row))
        expected.append(total)
    monkeypatch.setattr("bytenmt.decoding.pytorch.reader.CELLS", cells)
    found = log_probabilities(TorchReader([model], CPU), corpus)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def shared(group: Group, folders: list[Path]) -> list[list[float]]:
    """Return scores in float32: another batch would change the last bits."""
    torch.manual_seed(5)
    model = build_model(load_config("convs2s", "tiny", []).model).eval()
    corpora = [ParallelCorpus.open_all([PairFiles(folder / "src", folder / "tgt")]) for folder in folders]
    likelihood.LINES_AT_ONCE = 7
    return [log_probabilities(TorchReader([model], CPU), corpus, group).tolist() for corpus in corpora]


@pytest.mark.slow
def test_processes_score_as_one(tmp_path: Path) -> None:
    """Every bit of every value, in every process; also where two of them have nothing to do."""
    folders = [tmp_path / "many", tmp_path / "one"]
    for folder, n_lines in zip(folders, (40, 1), strict=True):
        folder.mkdir()
        for name in ("src", "tgt"):
            lines = ["ab가 " * (1 + 7 * k % 11) + str(k) for k in range(n_lines)]
            (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    alone = shared(SINGLE_PROCESS, folders)
    assert [len(values) for values in alone] == [40, 1] and max(alone[0]) < 0
    found = results(shared, folders, size=3)
    assert [values == alone for values in found] == [True] * 3


def test_bits_per_byte() -> None:
    """Two targets of 3 and 5 bytes with probabilities 2^-7 and 2^-9: sixteen bits on eight bytes."""
    log_p = np.array([-7 * math.log(2), -9 * math.log(2)])
    assert bits_per_byte(log_p, np.array([3, 5], np.int32)) == pytest.approx(2.0)


def test_text_scores() -> None:
    """Perfect and useless text, exact match by line, and signatures that name the tokenizer."""
    references = ["the cat sat on the mat", "오늘은 날씨가 좋다", "a third line of it"]
    perfect = text_scores(references, references)
    assert (perfect.chrf, perfect.exact_match) == (pytest.approx(100), 100)
    assert perfect.bleu == pytest.approx(100)
    mixed = text_scores([references[0], "zzz", "qqq"], references, tokenize="char")
    assert mixed.exact_match == pytest.approx(100 / 3)
    assert 0 < mixed.chrf < 100
    assert "tok:char" in mixed.bleu_signature and "version:" in mixed.chrf_signature
