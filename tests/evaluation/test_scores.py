"""Scores against computations of their own, and systems beside each other."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from bytenmt.architectures.registry import ARCHITECTURES, build_model
from bytenmt.config.schema import load_config
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.pair_files import PairFiles
from bytenmt.decoding.pytorch.scorer import TorchScorer
from bytenmt.errors import BytenmtError
from bytenmt.evaluation.comparison import System, read_metrics, table, to_dict, with_significance
from bytenmt.evaluation.likelihood import log_probabilities
from bytenmt.evaluation.scores import text_metrics, text_scores, text_values
from bytenmt.plugins import METRICS, Metric
from bytenmt.utf8 import BOS, EOS

CPU = torch.device("cpu")


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("cells", [30, 10_000])
def test_log_probabilities_one_sentence_at_a_time(
    arch: str, cells: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(5)
    model = build_model(load_config(arch, "tiny", []).model).double().eval()
    pairs = [("가나", "ab"), ("x", "다라마 ccc"), ("", "empty source"), ("two words", "b")]
    pairs.append(("yy", ""))
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    corpus = ParallelCorpus.open_all([PairFiles(tsv=table)])
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
    monkeypatch.setattr("bytenmt.decoding.pytorch.scorer.MAX_BATCH_BYTES", cells)
    found = log_probabilities(TorchScorer([model], CPU), corpus)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_text_scores() -> None:
    references = ["the cat sat on the mat", "오늘은 날씨가 좋다", "a third line of it"]
    perfect = text_scores(references, references)
    assert [perfect.chrf, perfect.bleu, perfect.exact_match] == pytest.approx([100] * 3)
    mixed = text_scores([references[0], "zzz", "qqq"], references, tokenize="char")
    assert mixed.exact_match == pytest.approx(100 / 3)
    assert 0 < mixed.chrf < 100
    assert "tok:char" in mixed.bleu_signature and "version:" in mixed.chrf_signature


# ---- systems beside each other

REFERENCES = [f"the {i} cats sat on {i * 7 % 13} mats" for i in range(120)]

SOURCES = [f"{i} cats" for i in range(120)]


def systems_of(
    texts: dict[str, list[str]], sources: list[str], references: list[str] = REFERENCES
) -> list[System]:
    """Systems by their names, with their scores."""
    return [
        System(name, lines, text_values(sources, lines, references))
        for name, lines in texts.items()
    ]


def with_mistakes(old: str, new: str, every: int = 1, first: int = 0) -> list[str]:
    """The references with a mistake in one of `every` lines."""
    return [x.replace(old, new) if i % every == first else x for i, x in enumerate(REFERENCES)]


WORSE = with_mistakes("sat", "x")


@pytest.mark.slow
def test_chance_is_told_from_skill() -> None:
    """Against the first system: much worse, as many mistakes elsewhere, and the same texts.

    Metrics that give the first and the worse system the same value cannot tell them apart.
    """
    first, alike = (with_mistakes("cats", "dogs", 4, k) for k in (0, 1))
    named = {"first": first, "alike": alike, "worse": WORSE, "copy": list(first)}
    found = with_significance(systems_of(named, []), [], REFERENCES)
    assert all(one.p_value is None for one in found[0].significance.values())
    values = [system.values for system in found]
    names = [name for name in text_metrics() if values[0][name] != values[2][name]]
    assert {"chrf", "bleu", "exact_match"} <= {*names}
    for system, low, high in zip(found[1:], (0.1, 0, 1), (1, 0.01, 1), strict=True):
        for name in names:
            p_value = system.significance[name].p_value
            assert p_value is not None and low <= p_value <= high
    lines = list(table(found))
    assert [line.split()[0] for line in lines[1:5]] == [*named]
    assert [line.count("*") for line in lines[:5]] == [0, 0, 0, len(names), 0]
    assert "bootstrap" in lines[-1] and "nrefs:1|bs:1000|seed:12345|case:mixed" in lines[-2]
    assert to_dict(found)["systems"][3]["chrf_p"] == 1.0


def test_the_paired_test_is_that_of_sacrebleu() -> None:
    """Values, confidence intervals and p-values of chrF and BLEU."""
    texts = {"first": with_mistakes("cats", "dogs", 4)}
    texts["other"] = with_mistakes("sat", "lay", 6, first=1)
    systems = with_significance(systems_of(texts, []), [], REFERENCES)
    metrics = {"chrf": CHRF(), "bleu": BLEU()}
    signatures, expected = PairedTest([*texts.items()], metrics, [REFERENCES], "bs")()
    for name, column in (("chrf", "chrF2"), ("bleu", "BLEU")):
        results: Any = expected[column]
        for system, one in zip(systems, results, strict=True):
            found = system.significance[name]
            assert found.value == pytest.approx(one.score)
            assert found.interval == pytest.approx(one.ci, rel=1e-4)
            assert found.p_value == one.p_value
    names = to_dict(systems)
    assert names["chrf_signature"] == str(signatures["chrF2"])
    assert names["bleu_signature"] == str(signatures["BLEU"])


def test_a_metric_of_a_plugin_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its column has p-values; it visits each line of a system once; a wrong count is named."""
    n_lines_seen = 0

    def shared_words(sources: Any, translations: Any, references: Any) -> list[float]:
        nonlocal n_lines_seen
        n_lines_seen += len(translations)
        assert [*sources] == SOURCES
        pairs = zip(translations, references, strict=True)
        return [len({*one.split()} & {*other.split()}) / 7 for one, other in pairs]

    monkeypatch.setitem(METRICS, "words", Metric("words", True, shared_words))
    systems = systems_of({"good": REFERENCES, "bad": WORSE, "same": WORSE}, SOURCES)
    n_lines_seen = 0
    found = with_significance(systems, SOURCES, REFERENCES)
    assert n_lines_seen == 3 * len(REFERENCES)
    assert [one.significance["words"].p_value for one in found[1:]] == [1 / 1001] * 2
    assert found[0].values["words"] - found[1].values["words"] == pytest.approx(1 / 7)
    assert "words" in next(iter(table(found))) and "words_p" in to_dict(found)["systems"][1]
    monkeypatch.setitem(METRICS, "words", Metric("words", True, lambda *_: [1.0]))
    with pytest.raises(BytenmtError, match="metric words: 1 values for 120 lines"):
        text_values(SOURCES, WORSE, REFERENCES)


@pytest.mark.parametrize("name", [name for name, one in METRICS.items() if one.line_values])
def test_a_metric_calls_the_reference_better_than_a_worse_translation(name: str) -> None:
    """By its own direction (is_higher_better)."""
    perfect = text_values(SOURCES, REFERENCES, REFERENCES)[name]
    worse = text_values(SOURCES, WORSE, REFERENCES)[name]
    assert METRICS[name].is_better(perfect, worse)
    assert not METRICS[name].is_better(worse, perfect)


def test_equal_scores_are_no_difference() -> None:
    """BLEU of single words is 0 for both, in every resample, for which sacreBLEU has its smallest
    p."""
    references = ["ac"] * 20
    systems = systems_of({"first": ["a"] * 20, "other": ["ab"] * 20}, [], references)
    found = with_significance(systems, [], references)
    assert found[1].significance["bleu"].p_value == 1.0


def test_half_a_line_of_a_log_is_left_out(tmp_path: Path) -> None:
    """A killed run leaves one; a model without a log has no records."""
    written = [{"update": 1, "train_bits_per_byte": 3.0}, {"update": 2, "valid_bits_per_byte": 2.0}]
    text = "".join(json.dumps(record) + "\n" for record in written) + '{"update":5,"val'
    (tmp_path / "metrics.jsonl").write_text(text, encoding="utf-8")
    assert read_metrics(tmp_path) == written and read_metrics(tmp_path / "none") == []
