"""Pairs for a student: the teachers' own translations, also after a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import CPU, config

from bytenmt.decoding.translator import Translator
from bytenmt.training.run import train
from tools import distil

TORCH = ["--", "--engine", "torch", "--max-len-b", "6", "--max-len-a", "0", "--buffer-size", "2"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from bytenmt.data.corpus import PairFiles

    folder = tmp_path_factory.mktemp("made")
    (folder / "text").write_text("one two\nthree\n" * 9)
    pair = PairFiles(folder / "text", folder / "text")
    for name in ("a", "b"):
        own = config("convs2s", "train.max_updates=2", f"train.seed={ord(name)}", "train.valid_lines=0")
        train(folder / name, own, files=[pair], valid=pair, device=CPU)
    (folder / "src").write_bytes("one\n두 번째\n\nwith\ttab\nfive\n".encode())
    return folder


@pytest.mark.slow
def test_teachers_and_their_pairs(template: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The teachers' pairs are written one per line, with the command that trains the student."""
    output = tmp_path / "pairs.tsv"
    given = [
        str(template / "a"),
        str(template / "b"),
        "--src",
        str(template / "src"),
        "-o",
        str(output),
        "-b",
        "3",
    ]
    assert distil.main([*given, *TORCH]) == 0
    translator = Translator.load(
        template / "a", template / "b", engine="torch", beam=3, max_len_a=0.0, max_len_b=6, threads=1
    )
    lines = ["one", "두 번째", "five"]
    expected = [f"{line}\t{text}" for line, text in zip(lines, translator.translate(lines), strict=True)]
    found = output.read_text(encoding="utf-8").splitlines()
    assert found == [pair for pair in expected if not pair.endswith("\t")] != []
    assert f"--tsv {output}" in capfd.readouterr().out
    assert list(tmp_path.iterdir()) == [output]


def test_it_goes_on(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished translations are not repeated, whether all or only a part is finished."""
    commands: list[list[str]] = []

    class Done:
        returncode = 0

    def run(command: list[str], **_: Any) -> Done:
        commands.append(command)
        (tmp_path / "pairs.tsv.translations").write_text("a\nb\n\nd\n\n")
        return Done()

    monkeypatch.setattr(distil.subprocess, "run", run)
    given = ["teacher", "--src", str(template / "src"), "-o", str(tmp_path / "pairs.tsv")]
    (tmp_path / ".pairs.tsv.translations.part").write_text("a\n")
    assert distil.main(given) == 0
    assert commands[0][-1] == "--resume"
    assert (tmp_path / "pairs.tsv").read_text() == "one\ta\n두 번째\tb\n"
    (tmp_path / "pairs.tsv.translations").write_text("x\ny\n\nz\n\n")
    assert distil.main(given) == 0 and len(commands) == 1
    (tmp_path / "pairs.tsv.translations").write_text("x\n")
    assert distil.main(given) == 1
