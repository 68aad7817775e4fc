"""Runs and texts, good and bad, for the tests of commands."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from made_up_engine import make_run, warm_up

from bytenmt.checkpoints.quantize import convert
from bytenmt.checkpoints.weights import CONFIG, PUBLISHED

FILES = {
    "src": "one\n두 번째\n\nfour\n".encode(),
    "tgt": b"eins\nzwei\ndrei\n\n",
    "three": b"a\nb\nc\n",
    "empty": b"",
    "table": b"one\teins\nno tab\n",
    "invalid": b"fine\nbad \xff\nfine\nfine\n",
    "cp949": "하나\n둘\n셋\n넷\n".encode("cp949"),
    "a.po": b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8"\n\nmsgid "a"\nmsgstr ""\n',
    "a.tmx": b"<tmx><body/></tmx>",
    "wrong.toml": b"[model\n",
}


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of four architectures, one without a source, and texts."""
    folder = tmp_path_factory.mktemp("made")
    warm_up(tmp_path_factory.mktemp("compiled"))
    runs = {"run": "luong", "plain": "seq2seq", "convs2s": "convs2s", "bytenet": "bytenet"}
    for name, arch in runs.items():
        make_run(folder / name, arch)
    make_run(folder / "no_source", settings=("model.source=false", "model.input_feeding=false"))
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    convert(folder / "run", folder / "published" / PUBLISHED, "int8")
    for name in ("folder/a", "folder/b"):
        (folder / name).mkdir(parents=True)
        (folder / name / CONFIG).write_bytes(b"")
    (folder / "packed.gz").write_bytes(gzip.compress(FILES["src"]))
    (folder / "cut.gz").write_bytes(gzip.compress(FILES["src"])[:-12])
    record = {"update": 1, "seconds": 2.0, "valid_bits_per_byte": 3.0}
    (folder / "run" / "metrics.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def shared_place(template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder itself, for commands that write nothing."""
    monkeypatch.chdir(template)


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them to work in."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
