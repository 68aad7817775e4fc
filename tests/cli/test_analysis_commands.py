"""evaluate and plot as a user meets them: what they print and write, and what they refuse."""

from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import threading
from pathlib import Path

import pytest
from command_line import accepted, invoke, refused
from made_up_engine import make_run

from bytenmt.cli import plot as plotting

PNG = b"\x89PNG\r\n\x1a\n"
LINES = ["하나 둘", "one", "", "three 3", "넷", "12"] * 8
SHORT = ["--engine", "torch", "--max-len-a", "0.1", "--max-len-b", "5"]
TEXTS = ["--src", "src", "--ref", "ref"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three architectures, one without a source, and texts."""
    folder = tmp_path_factory.mktemp("made")
    for arch in ("luong", "convs2s", "bytenet"):
        make_run(folder / arch, arch)
    make_run(folder / "alone", settings=("model.source=false", "model.input_feeding=false"))
    (folder / "src").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    (folder / "ref").write_text("".join(f"{line} x\n" for line in LINES), encoding="utf-8")
    (folder / "three").write_text("a\nb\nc\n", encoding="utf-8")
    record = {"update": 1, "seconds": 2.0, "valid_bits_per_byte": 3.0}
    (folder / "luong" / "metrics.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_text_that_is_there_is_scored_as_a_models_own(place: Path) -> None:
    """The scores of a kept translation, without the model; as lines and as JSON the same."""
    own = accepted("evaluate", "luong", *TEXTS, "--hyp-out", "made/deep/hyp", *SHORT)
    shutil.rmtree(place / "luong")
    again = accepted("evaluate", "--hyp", "made/deep/hyp", "--ref", "ref")
    assert again.splitlines()[:3] == own.splitlines()[:3] and "bits per byte" not in again
    found = json.loads(accepted("evaluate", "--hyp", "made/deep/hyp", "--ref", "ref", "--json"))
    (system,) = found["systems"]
    assert f"chrF {system['chrf']:.2f}  {found['chrf_signature']}" == own.splitlines()[0]
    assert f"BLEU {system['bleu']:.2f}  {found['bleu_signature']}" == own.splitlines()[1]
    assert found["lines"] == 48 and "bits_per_byte" not in system
    perfect = json.loads(accepted("evaluate", "--hyp", "ref", "--ref", "ref", "--json"))
    assert perfect["systems"][0]["exact_match"] == 100


@pytest.mark.slow
def test_systems_are_compared(place: Path) -> None:
    """Models and a text, a row each; figures are those of each alone; a curve where there is one."""
    pytest.importorskip("matplotlib")
    shutil.copytree(place / "luong", place / "copy")
    words = ["evaluate", "luong", "bytenet", "copy", *TEXTS, "--hyp", "src", *SHORT]
    done = invoke(*words, "--curves", "c.png")
    assert done.exit_code == 0, done.stderr
    assert "bytenet has no metrics.jsonl: its curve is left out" in done.stderr
    rows = done.stdout.splitlines()
    named = [["luong", "luong"], ["bytenet", "bytenet"], ["copy", "luong"], ["src", "–"]]
    assert [row.split()[:2] for row in rows[1:5]] == named
    assert "2 seeds (luong, copy): " in rows[5]
    assert (place / "c.png").read_bytes().startswith(PNG)
    found = json.loads(accepted(*words, "--json"))
    (own,) = json.loads(accepted("evaluate", "bytenet", *TEXTS, *SHORT, "--json"))["systems"]
    assert found["systems"][1] == own | {name: found["systems"][1][name] for name in ("chrf_p", "bleu_p")}
    assert (found["systems"][2]["chrf_p"], found["systems"][2]["bleu_p"]) == (1.0, 1.0)


def test_the_log_probability_of_every_line(place: Path) -> None:
    """Empty lines too; all together are the bits per byte; two numbers more for another model."""
    rows = accepted("evaluate", "luong", *TEXTS, "--log-probabilities", "--engine", "torch").splitlines()
    texts = (place / "ref").read_bytes().splitlines()
    numbers = [[float(number) for number in row.split("\t")] for row in rows]
    for (nats, bits), text in zip(numbers, texts, strict=True):
        assert nats < 0 and bits == pytest.approx(-nats / math.log(2) / len(text), abs=1e-5)
    bits = -sum(nats for nats, _ in numbers) / math.log(2) / sum(map(len, texts))
    assert f"bits per byte: {bits:.4f}\n" in accepted("evaluate", "luong", *TEXTS, *SHORT)
    both = accepted("evaluate", "luong", "bytenet", *TEXTS, "--log-probabilities", "--engine", "torch")
    assert [row.split("\t")[:2] for row in both.splitlines()] == [row.split("\t") for row in rows]
    assert {row.count("\t") for row in both.splitlines()} == {3}
    (place / "none").write_text("a\n\n")
    empty = accepted("evaluate", "luong", "--src", "none", "--ref", "none", "--log-probabilities")
    assert empty.splitlines()[1].endswith("\tinf")


@pytest.mark.slow
def test_attention_is_drawn(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is a given target or the translation, the line from an option or stdin."""
    pytest.importorskip("matplotlib")
    words = ["plot", "attention", "convs2s", "--line", "하나 둘", "--target", "ab 다"]
    assert accepted(*words, "-o", "a.png") == "ab 다\n"
    assert (place / "a.png").read_bytes().startswith(PNG)
    monkeypatch.setattr(plotting, "standard_input", lambda: io.BytesIO("하나\nmore\n".encode()))
    accepted("plot", "attention", "-m", "luong", "--target", "x")
    assert (place / "attention.png").read_bytes().startswith(PNG)
    done = invoke("plot", "attention", "luong", "--line", "one", "-b", "2")  # whatever random weights write
    assert done.exit_code == 0 or "the text has 0 characters" in done.stderr


@pytest.mark.slow
def test_an_embedding_is_drawn(place: Path) -> None:
    pytest.importorskip("matplotlib")
    assert accepted("plot", "embedding", "bytenet", "--text", "three", "--text", "ref") == ""
    assert (place / "embedding.png").read_bytes().startswith(PNG)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize(
    "words",
    [
        "predict luong {ref} --src {src} --no-reference --engine torch",
        "predict alone {ref} --no-reference --engine torch",
        "evaluate luong --src {src} --ref {ref} --engine torch --log-probabilities",
        "translate luong --src {src} " + " ".join(SHORT),
        "evaluate --hyp {src} --src {src} --ref {ref}",
    ],
)
def test_texts_may_be_pipes(place: Path, words: str) -> None:
    """A text may be a pipe, such as a shell's <(command): messages are the same as for files, and each pipe
    is read once.
    """
    expected = accepted(*words.format(src="src", ref="ref").split())
    used, writers = [], []
    for number, word in enumerate(words.split()):
        name = word.strip("{}")
        if name != word:
            pipe = place / f"pipe-{number}"
            os.mkfifo(pipe)
            data = (place / name).read_bytes()
            writers.append(threading.Thread(target=pipe.write_bytes, args=(data,), daemon=True))
            writers[-1].start()
            word = pipe.name
        used.append(word)
    found = accepted(*used)
    for writer in writers:
        writer.join(10)
        assert not writer.is_alive()
    assert re.sub(r"bytenmt \S+, pipe-2", "", found) == re.sub(r"bytenmt \S+, src", "", expected)


BAD = [
    ("evaluate --hyp three --ref ref", 1, "three has 3 lines and ref has 48"),
    ("evaluate --hyp none --ref ref", 1, "none does not exist"),
    ("evaluate luong --src src --ref ref --curves src", 1, "src is the input too"),
    ("evaluate --hyp src --ref ref --hyp-out out", 1, "--hyp-out is for the translations of one model"),
    ("evaluate luong alone --src src --ref ref --log-probabilities", 1, "alone is a language model"),
    ("evaluate luong", 1, "nothing to score: give --src and --ref, or --curves"),
    ("evaluate luong --ref ref", 1, "luong is a translation model: give the source text by --src"),
    ("evaluate --src src --ref ref", 2, "Missing the model: give MODEL, or --hyp."),
    ("plot attention bytenet --line a", 1, "bytenet has no attention weights: its architecture is bytenet"),
    ("plot attention alone --line a", 1, "alone has no attention weights"),
    ("plot attention luong --line a -o a.pdf", 1, "give a name that ends in .png"),
    (f"plot attention luong --line {'a' * 301} --target b", 1, "301 characters: expected 1 to 300"),
    ("plot attention none --line a", 1, "none does not exist"),
    ("plot attention luong bytenet --line a", 2, "2 models: expected MODEL"),
    ("plot embedding luong -o src/e.png", 1, "the folder src cannot be created"),
    ("plot embedding luong -o e.svg", 1, "give a name that ends in .png"),
    ("plot embedding luong --text none", 1, "none does not exist"),
]


@pytest.mark.parametrize(("command", "code", "message"), BAD)
def test_bad_input_is_one_line(place: Path, command: str, code: int, message: str) -> None:
    """Nothing on stdout, nothing written."""
    assert message in refused(command, code)


def test_no_curve_is_there(place: Path) -> None:
    done = invoke("evaluate bytenet --curves c.png")
    assert done.exit_code == 1 and "no model has metrics.jsonl" in done.stderr.splitlines()[-1]
    assert not (place / "c.png").exists()


def test_a_picture_without_matplotlib_is_one_line(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is decoded."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for command in (
        "plot attention luong --line a --target b",
        "plot embedding luong",
        "evaluate luong --curves c.png",
    ):
        done = invoke(*command.split())
        assert done.exit_code == 1 and "pip install 'bytenmt[plots]'" in done.stderr
