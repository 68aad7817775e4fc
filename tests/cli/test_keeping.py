"""Test translate --keep, --keep-pattern and --glossary with a model that knows sentinels."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import accepted
from made_up_engine import make_run

from bytenmt.config.facts import Facts
from bytenmt.sentinels import PATTERNS_VERSION

LINES = ["%s개의 <b>{name}</b> 서버", "", "see http://a.b/c. A server", "plain", "3.2.1 {x}", "a \ue000 b"]
KEPT = [["%s", "<b>{name}</b>"], [], ["http://a.b/c"], [], ["3.2.1 {x}"], []]


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run with sentinels, a text and a table of terms."""
    folder = tmp_path_factory.mktemp("taught")
    make_run(folder / "run", settings=("data.sentinels=0.2",), facts=Facts(patterns=PATTERNS_VERSION))
    (folder / "src").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (folder / "terms").write_text("server\tServer|Dienst\n서버\tServer\nplain\t!x\n", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def in_folder(taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(taught)


def translated(*options: str) -> str:
    command = "translate run -i src --max-len-a 1 --max-len-b 9 --engine torch"
    return accepted(*command.split(), *options)


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["-b", "1"], ["--sample"]])
def test_all_is_kept_line_by_line(more: list[str]) -> None:
    texts = translated("--glossary", "terms", *more).split("\n")[:-1]
    assert len(texts) == len(LINES) and (texts[1], texts[4]) == ("", "3.2.1 {x}")
    assert all(text.count(span) == 1 for text, spans in zip(texts, KEPT, strict=True) for span in spans)
    assert "Server" in texts[0] and "Server" in texts[2]
    told = translated("--format", "jsonl", "--no-alignment", "--glossary", "terms", *more)
    records: list[dict[str, Any]] = [json.loads(line) for line in told.splitlines()]
    assert [record["text"] for record in records] == texts and records[4]["flags"] == []


def test_a_pattern_of_ones_own_and_none_of_the_classes() -> None:
    own = ["--keep-pattern", "(?<=A )s[a-z]+", "--keep-pattern", "가|개의"]
    texts = translated("--keep", "none", *own).splitlines()
    assert "server" in texts[2] and "개의" in texts[0] and "{name}" not in texts[0]
