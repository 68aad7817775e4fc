"""Documents as training text: which of their units are pairs, in little memory, and by the command."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bytenmt.cli.documents.training_pairs import CACHE
from bytenmt.cli.main import main
from bytenmt.documents.formats import pairs
from bytenmt.errors import DataError
from bytenmt.training import run as training
from bytenmt.training import task
from bytenmt.training.run import Outcome
from tools.verify.sample_documents import PO, SAMPLES, TMX, XLIFF_1


def read_pairs(data: bytes, name: str, size: int = 1 << 16) -> list[tuple[str, str]]:
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return list(pairs(pieces, name, Path("a.file"), ("en", "de"), strict=False))


def test_what_is_translated_and_not_doubted() -> None:
    assert read_pairs(TMX.encode(), "tmx") == [("one", "eins")]
    assert read_pairs(XLIFF_1.encode(), "xliff") == [("done", 'fertig "so"')]
    assert read_pairs(PO.encode(), "po") == [("done", "fertig")]
    doubted = XLIFF_1.replace('state="final"', 'state="needs-review-translation"')
    assert read_pairs(doubted.encode(), "xliff") == []


MEMORY = TMX.replace("eins</seg>", "\u00fcbersetzt: <ph>x</ph> &#x41;\n  &amp; {n}</seg>").replace(
    "<seg/>", "<seg>zwei</seg>"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("size", [7, 16, 100, 1 << 16])
def test_pieces_of_any_size_are_the_whole(encoding: str, size: int) -> None:
    """Also where a tag or a character is cut in two; the first piece tells the encoding."""
    text = MEMORY if encoding != "latin-1" else MEMORY.replace('"1.0"', '"1.0" encoding="latin-1"')
    data = text.encode(encoding)
    first = data[:60]
    pieces = [first, *(data[at : at + size] for at in range(60, len(data), size))]
    expected = [("one", "\u00fcbersetzt: <ph>x</ph> A & {n}"), ("two", "zwei")]
    assert list(pairs(pieces, "tmx", Path("a"), ("en", "de"), strict=False)) == expected


@pytest.mark.slow
def test_a_long_memory_takes_little_of_the_machines() -> None:
    unit = (
        '<tu><tuv xml:lang="en"><seg>number %d</seg></tuv><tuv xml:lang="de"><seg>Zahl %d</seg></tuv></tu>\n'
    )

    def pieces() -> Iterator[bytes]:
        yield b"<tmx><body>\n"
        for number in range(0, 2000, 100):
            yield "".join(unit % (n, n) for n in range(number, number + 100)).encode()
        yield b"</body></tmx>"

    tracemalloc.start()
    try:
        n = sum(1 for _ in pairs(pieces(), "tmx", Path("a"), ("en", "de"), strict=False))
        assert n == 2000 and tracemalloc.get_traced_memory()[1] < 700_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [9, 1 << 16])
def test_the_place_of_a_mistake_in_a_long_memory(size: int) -> None:
    broken = TMX.replace("</tuv></tu>", "</tu>").encode()
    line = broken[: broken.index(b"</seg></tu>")].count(b"\n") + 1
    with pytest.raises(DataError, match=rf"^a.file, line {line}, column \d+: not XML: mismatched tag$"):
        read_pairs(broken, "tmx", size)


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the training pairs of a command."""
    message: dict[str, Any] = {}

    def train(run: Path, config: object, **more: Any) -> Outcome:
        message.update(more)
        return Outcome(0)

    monkeypatch.setattr(training, "train", train)
    return message


def train(tmp_path: Path, *arguments: str) -> Result:
    for name, sample in (("a.tmx", "tmx"), ("a.xlf", "xliff 1.2"), ("a.po", "po")):
        (tmp_path / name).write_bytes(SAMPLES[sample].data)
    (tmp_path / "valid.tsv").write_text("a\tb\n")
    words = f"train -o {tmp_path}/run --arch luong --preset tiny --valid-tsv {tmp_path}/valid.tsv".split()
    return CliRunner().invoke(main, [*words, *arguments])


def test_the_command_trains_on_documents(tmp_path: Path, outcome: dict[str, Any]) -> None:
    files = [
        f"--{kind}={tmp_path}/a.{suffix}" for kind, suffix in (("tmx", "tmx"), ("xliff", "xlf"), ("po", "po"))
    ]
    result = train(tmp_path, *files, "--pair", "en-de", "--weight", "1", "--weight", "2", "--weight", "3")
    assert result.exit_code == 0, result.output
    tables = [pair.tsv for pair in outcome["files"]]
    assert [pair.weight for pair in outcome["files"]] == [1, 2, 3]
    assert [table.read_text() for table in tables] == ["one\teins\n", 'done\tfertig "so"\n', "done\tfertig\n"]
    assert all(table.parent == tmp_path / "run" / task.CACHE for table in tables) and task.CACHE == CACHE
    again = train(tmp_path, *files, "--pair", "en-de")
    assert again.exit_code == 0 and [pair.tsv for pair in outcome["files"]] == tables  # as --resume needs it


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--tmx a.tmx", "--tmx needs the languages to read: give --pair"),
        ("--po a.po --pair en-de", "--pair would be ignored without --tmx"),
        ("--tmx a.tmx --pair en", "--pair en: expected two languages"),
        ("--tmx a.tmx --pair en-GB-de", "--pair en-GB-de: expected two languages"),
        ("--tmx a.tmx --pair fr:ko", "a.tmx has no translated pair of texts fr and ko"),
        ("--tmx none.tmx --pair en-de", "none.tmx does not exist"),
        ("--po a.tmx", "a.tmx, line 1, column 1: expected a comment"),
        ("--po a.po --text valid.tsv", "--text trains a language model"),
    ],
)
def test_one_line_for_a_mistake(
    tmp_path: Path, outcome: dict[str, Any], arguments: str, message: str
) -> None:
    words = [str(tmp_path / word) if "." in word else word for word in arguments.split()]
    result = train(tmp_path, *words)
    assert result.exit_code == 1 and message in result.stderr and result.stderr.count("\n") == 1
    assert not outcome and not (tmp_path / "run").exists()
