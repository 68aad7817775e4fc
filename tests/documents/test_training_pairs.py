"""Documents as training text: which of their units are pairs, in little memory, and by the command."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from command_line import invoke

from bytenmt.cli.train import TABLES
from bytenmt.documents.formats import format_of, unit_pairs
from bytenmt.documents.unit import to_markup
from bytenmt.training import run as training
from bytenmt.training.run import TrainingOutcome
from tools.verify.made_up_translations import PAIR, SAMPLES

XLIFF = (SAMPLES / "version-1.2.xlf.in").read_text()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.tmx", (SAMPLES / "memory.tmx.in").read_text(), [("one", "eins")]),
        ("a.xlf", XLIFF, [("done", 'fertig "so"')]),
        ("a.xlf", XLIFF.replace('state="final"', 'state="needs-review-translation"'), []),
        ("a.po", (SAMPLES / "catalogue.po.in").read_text(), [("done", "fertig")]),
        ("a.tsv", "a\tb\nc\t\n", [("a", "b")]),
    ],
)
def test_what_is_translated_and_not_doubted(
    tmp_path: Path, name: str, text: str, expected: list[tuple[str, str]]
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    pairs = unit_pairs(path, format_of(path), PAIR)
    assert [(to_markup(source), to_markup(target)) for source, target, *_ in pairs] == expected


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the training pairs of a command."""
    message: dict[str, Any] = {}

    def train(run: Path, config: object, **more: Any) -> TrainingOutcome:
        message.update(more)
        return TrainingOutcome(0)

    monkeypatch.setattr(training, "train", train)
    return message


def train(tmp_path: Path, *arguments: str) -> Result:
    for name, sample in (("a.tmx", "memory.tmx"), ("a.xlf", "version-1.2.xlf"), ("a.po", "catalogue.po")):
        (tmp_path / name).write_bytes((SAMPLES / f"{sample}.in").read_bytes())
    (tmp_path / "valid.tsv").write_text("a\tb\n")
    words = f"train -o {tmp_path}/run --arch luong --preset tiny --valid-tsv {tmp_path}/valid.tsv".split()
    return invoke(*words, *arguments)


def test_the_command_trains_on_documents(tmp_path: Path, outcome: dict[str, Any]) -> None:
    files = [f"--memory={tmp_path}/a.{suffix}" for suffix in ("tmx", "xlf", "po")]
    result = train(tmp_path, *files, "--pair", "en-de", "--weight", "1", "--weight", "2", "--weight", "3")
    assert result.exit_code == 0, result.output
    tables = [pair.tsv for pair in outcome["files"]]
    assert [pair.weight for pair in outcome["files"]] == [1, 2, 3]
    assert [table.read_text() for table in tables] == ["one\teins\n", 'done\tfertig "so"\n', "done\tfertig\n"]
    assert all(table.parent == tmp_path / "run" / TABLES for table in tables)
    again = train(tmp_path, *files, "--pair", "en-de")
    assert again.exit_code == 0 and [pair.tsv for pair in outcome["files"]] == tables  # as --resume needs it


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--memory a.tmx", "a.tmx: a translation memory may have several languages: give --pair"),
        ("--memory a.tmx --pair en", "'en' is not a language pair: expected one such as en-de"),
        ("--memory a.tmx --pair en-GB-de", "'en-GB-de' is not a language pair: expected one such as en-de"),
        ("--memory a.tmx --pair fr:ko", "a.tmx has no translated pair of texts fr and ko"),
        ("--memory none.tmx --pair en-de", "none.tmx does not exist"),
        ("--memory a.none", "a.none: no format has the suffix '.none'"),
        ("--memory a.po --text valid.tsv", "--text trains a language model"),
    ],
)
def test_one_line_for_a_mistake(
    tmp_path: Path, outcome: dict[str, Any], arguments: str, message: str
) -> None:
    words = [str(tmp_path / word) if "." in word else word for word in arguments.split()]
    result = train(tmp_path, *words)
    assert result.exit_code == 1 and message in result.stderr and result.stderr.count("\n") == 1
    assert not outcome and not (tmp_path / "run").exists()
