"""Systems beside each other: p is small where they differ and large where not; seeds are summed up."""

import json
from pathlib import Path

import pytest

from bytenmt.config.schema import load_config
from bytenmt.evaluation.comparison import (
    System,
    read_metrics,
    summarise_seeds,
    table,
    to_dict,
    with_significance,
    without_seed,
)
from bytenmt.evaluation.scores import text_scores

REFERENCES = [f"the {i} cats sat on {i * 7 % 13} mats" for i in range(120)]


def scored(name: str, texts: list[str]) -> System:
    return System(name, texts, text_scores(texts, REFERENCES))


@pytest.mark.slow
def test_chance_is_told_from_skill() -> None:
    """Against the first system: much worse, as many mistakes elsewhere, and the same texts."""
    first = [line.replace("cats", "dogs") if i % 4 == 0 else line for i, line in enumerate(REFERENCES)]
    alike = [line.replace("cats", "dogs") if i % 4 == 1 else line for i, line in enumerate(REFERENCES)]
    worse = [line.replace("sat", "x") for line in REFERENCES]
    named = {"first": first, "alike": alike, "worse": worse, "copy": list(first)}
    found = with_significance([scored(name, texts) for name, texts in named.items()], REFERENCES)
    assert (found[0].p_chrf, found[0].p_bleu) == (None, None)
    for system, low, high in zip(found[1:], (0.1, 0, 1), (1, 0.01, 1), strict=True):
        for p in (system.p_chrf, system.p_bleu):
            assert p is not None and low <= p <= high
    lines = list(table(found))
    assert [line.split()[0] for line in lines[1:5]] == [*named]
    assert [line.count("*") for line in lines[:5]] == [0, 0, 0, 2, 0] and "bootstrap" in lines[-1]
    assert to_dict(found)["systems"][3]["chrf_p"] == 1.0


def test_seeds_have_a_mean_and_a_standard_deviation() -> None:
    """Runs with the same settings but for the seed are summarised; a single run and a text are not."""
    one, two, other = (
        without_seed(load_config("luong", "tiny", [setting]))
        for setting in ("train.seed=1", "train.seed=2", "train.lr=0.1")
    )
    texts = {"a": REFERENCES, "b": REFERENCES[:60] + ["x"] * 60, "c": REFERENCES[:30] + ["x"] * 90}
    systems = [
        scored(name, lines)._replace(config=config, bits_per_byte=bits)
        for (name, lines), config, bits in zip(texts.items(), (one, two, other), (1.0, 3.0, 4.0), strict=True)
    ]
    systems.append(scored("a text", REFERENCES))
    [(names, scores)] = summarise_seeds(systems)
    assert names == ["a", "b"] and scores["bits_per_byte"] == (2.0, pytest.approx(2**0.5))
    assert scores["exact_match"] == (75.0, pytest.approx(50 / 2**0.5))
    assert to_dict(systems)["seeds"][0]["exact_match"]["mean"] == 75.0
    assert any(line.startswith("2 seeds (a, b): bits_per_byte 2 ± 1.4") for line in table(systems))


def test_half_a_line_of_a_log_is_left_out(tmp_path: Path) -> None:
    """A killed run leaves one; a model without a log has no records."""
    written = [{"update": 1, "train_bits_per_byte": 3.0}, {"update": 2, "valid_bits_per_byte": 2.0}]
    text = "".join(json.dumps(record) + "\n" for record in written) + '{"update":5,"val'
    (tmp_path / "metrics.jsonl").write_text(text, encoding="utf-8")
    assert read_metrics(tmp_path) == written and read_metrics(tmp_path / "none") == []
