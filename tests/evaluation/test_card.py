"""A model card: what hubs read of it, and that its figures are those of other commands."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from small_runs import CPU, config, nine_lines

from bytenmt.checkpoints.quantize import convert
from bytenmt.cli.main import main
from bytenmt.config.schema import config_tree
from bytenmt.data.augment.noise import Letters, noisy_lines
from bytenmt.data.corpus import PairFiles
from bytenmt.decoding.translator import Translator
from bytenmt.evaluation.measurements import NOISE_SEED, SHARES
from bytenmt.evaluation.scores import text_scores
from bytenmt.training.run import train

LEARNING = ("model.dropout=0.0", "train.max_updates=80", "train.lr=0.03", "train.warmup_updates=5")
LEARNING += ("train.valid_lines=0", "train.valid_every=40", "train.save_every=40")


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that began with another's weights, a byte language model, and their text."""
    folder = tmp_path_factory.mktemp("made")
    pair = nine_lines(folder / "text|1")
    own = config("convs2s", *LEARNING)
    train(folder / "first", own, files=[pair], valid=pair, device=CPU)
    train(folder / "run", own, files=[pair], valid=pair, device=CPU, init_from=folder / "first")
    alone = config("seq2seq", "train.max_updates=2", "model.source=false", "train.window=16")
    text = PairFiles(tgt=folder / "text|1")
    train(folder / "alone", alone, files=[text], valid=text, device=CPU)
    return folder


def call(*words: object) -> Result:
    return CliRunner().invoke(main, ["card", *map(str, words)])


def front_matter(card: str) -> dict[str, Any]:
    """Read as the simplest of YAML: a key, a colon, and JSON, on a line each."""
    _, matter, _ = card.split("---\n", 2)
    pairs = [line.partition(": ") for line in matter.splitlines()]
    assert len(pairs) == len({key for key, _, _ in pairs})
    return {key: json.loads(value) for key, _, value in pairs}


@pytest.mark.slow
def test_a_measured_card(trained_run: Path, tmp_path: Path) -> None:
    """chrF without noise is evaluate's; with noise it is that of lines disturbed by the training's own."""
    given = [
        "--engine",
        "torch",
        "--src",
        trained_run / "text|1",
        "--ref",
        trained_run / "text|1",
        "--language",
        "de",
    ]
    given += ["--language", "no", "--license", "cc-by-4.0", "--data", "a: #\n'b\""]
    given += ["--data", "wmt/wmt14", "--data-license", "mit"]
    path = tmp_path / "card.md"
    done = call(
        trained_run / "run", *given, "-o", path, "--limit", "It knows\nno verbs.", "--test-name", "Colours, 9"
    )
    assert done.exit_code == 0, done.stderr
    card = path.read_text(encoding="utf-8")
    matter = front_matter(card)
    assert matter["language"] == ["de", "no"] and matter["license"] == "cc-by-4.0"
    assert matter["datasets"] == ["wmt/wmt14"] and matter["pipeline_tag"] == "translation"
    assert "- Data sets: a: #\\n'b\", wmt/wmt14\n" in card
    (result,) = matter["model-index"][0]["results"]
    assert matter["model-index"][0]["name"] == "run" and result["dataset"] == {
        "name": "Colours, 9",
        "type": "colours-9",
    }
    values = {metric["type"]: metric["value"] for metric in result["metrics"]}

    lines = (trained_run / "text|1").read_text(encoding="utf-8").splitlines()
    translator = Translator.load(trained_run / "run", engine="torch", threads=1)
    expected = []
    for share in SHARES:
        noisy = noisy_lines([line.encode() for line in lines], share, Letters.from_texts(lines), NOISE_SEED)
        texts = [text.decode() for text in translator.translate(noisy)]
        expected.append(text_scores(texts, lines))
    assert values == {"chrf": round(expected[0].chrf, 2), "bleu": round(expected[0].bleu, 2)}
    table = card.partition("## Disturbed sources")[2]
    assert "| 0% | 5% | 10% | 20% |" in table
    assert f"| {' | '.join(f'{scores.chrf:.2f}' for scores in expected)} |" in table
    assert expected[0].chrf > expected[-1].chrf and expected[0].chrf_signature in card
    assert re.search(r"^\| 32 \| [\d,]+ \|$", card, re.MULTILINE)
    size = next((trained_run / "run" / "checkpoints").glob("update-00000080.safetensors")).stat().st_size
    assert f"{size / 1e6:.1f} MB in fp32" in card
    toml = card.partition("```toml\n")[2].partition("```")[0]
    assert tomllib.loads(toml) == json.loads(json.dumps(config_tree(config("convs2s", *LEARNING))))
    assert "- first, update 80, SHA-256" in card and "- Licences: mit" in card
    assert "- It knows\\nno verbs." in card and "9 pairs" in card
    assert str(trained_run) not in card and str(tmp_path) not in card


@pytest.mark.slow
def test_a_card_of_what_is_not_measured(trained_run: Path, tmp_path: Path) -> None:
    """Into the run folder, and again; a file that somebody else wrote there stays; a converted file is told
    where."""
    readme = trained_run / "alone" / "README.md"
    for _ in range(2):
        assert call(trained_run / "alone", "--engine", "torch").exit_code == 0
    matter = front_matter(readme.read_text(encoding="utf-8"))
    assert matter["pipeline_tag"] == "text-generation" and "model-index" not in matter
    assert "language" not in matter and "Nothing was measured" in readme.read_text(encoding="utf-8")
    readme.write_text("mine")
    refused = call(trained_run / "alone", "--engine", "torch")
    assert (
        refused.exit_code == 1
        and readme.read_text() == "mine"
        and "was not written by bytenmt" in refused.stderr
    )
    readme.unlink()
    convert(trained_run / "run", tmp_path / "a.safetensors", "int8")
    assert call(tmp_path / "a.safetensors", "--engine", "torch").exit_code == 1
    assert call(tmp_path / "a.safetensors", "--engine", "torch", "-o", tmp_path / "a.md").exit_code == 0
    assert "in int8" in (tmp_path / "a.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--src", "text|1"], "give both"),
        (["alone", "--src", "text|1", "--ref", "text|1", "--engine", "torch"], "is a language model"),
        (["nothing"], "not a run folder"),
        (["run", "-o", "text|1/card.md"], "cannot be created"),
    ],
)
def test_mistakes_are_one_line(
    trained_run: Path, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained_run)
    done = call(*words)
    assert done.exit_code == 1 and message in done.stderr and done.stderr.count("\n") == 1
