"""Documents come back byte for byte, and what is written into a unit is what is read from it again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bytenmt.documents import html, markup, plain, po, strings, subtitles
from bytenmt.documents.document import Parts, joined_text
from bytenmt.documents.formats import FORMATS
from tools.verify.sample_documents import SAMPLES, Sample

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools.verify import documents as verify  # noqa: E402


def wrong(sample: Sample) -> list[str]:
    return verify.find_faults(sample.data, sample.name, Path("sample"), sample.options)[1]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_unit_as_it_was_gives_the_same_bytes(name: str) -> None:
    """Writing every unit unchanged gives the same bytes; writing another text changes that text only."""
    assert wrong(SAMPLES[name]) == []


def test_every_format_has_a_sample() -> None:
    assert {sample.name for sample in SAMPLES.values()} == set(FORMATS)


@pytest.mark.parametrize(
    ("name", "module", "function"),
    [
        ("xliff 1.2", markup, "escape"),
        ("html", html, "escaped"),
        ("po", po, "_escaped"),
        ("vtt", subtitles, "_escaped"),
    ],
)
def test_a_wrong_escape_is_noticed(
    name: str, module: object, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raw(value: str | Parts, *_: object) -> str:
        return value if isinstance(value, str) else joined_text(value)

    monkeypatch.setattr(module, function, raw)
    assert wrong(SAMPLES[name])


@pytest.mark.parametrize(("name", "function"), [("csv", "_csv"), ("properties", "_property_writer")])
def test_a_wrong_writer_is_noticed(name: str, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = plain if name == "csv" else strings
    monkeypatch.setattr(module, function, lambda *_: lambda parts, review: joined_text(parts))
    assert wrong(SAMPLES[name])


def test_a_folder_of_files_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that are no documents are counted; a fault in one is told and ends with 1."""
    for number, sample in enumerate(SAMPLES.values()):
        (tmp_path / f"{number}{FORMATS[sample.name].suffixes[0]}").write_bytes(sample.data)
    (tmp_path / "broken.xlf").write_bytes(b"<xliff>")
    monkeypatch.setattr(sys, "argv", ["documents", str(tmp_path), "--format=xliff", "--format=po"])
    assert verify.main() == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "xliff          16 files       88 units    0 wrong, 1 malformed",
        "po              4 files       20 units    0 wrong, 0 malformed",
    ]
    monkeypatch.setattr(markup, "escape", lambda text: text)
    assert verify.main() == 1
