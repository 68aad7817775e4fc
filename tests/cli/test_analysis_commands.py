"""evaluate, plot and compare as a user meets them: what they print and write, and what they refuse."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from made_up_engine import make_run

from bytenmt.cli.analysis import plot as plotting
from bytenmt.cli.main import main
from bytenmt.evaluation import drawing

PNG = b"\x89PNG\r\n\x1a\n"
LINES = ["하나 둘", "one", "", "three 3", "넷", "12"] * 8
SHORT = ["--engine", "torch", "--max-len-a", "0.1", "--max-len-b", "5"]


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


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def accepted(*words: str) -> str:
    done = call(*words)
    assert done.exit_code == 0, (done.stderr, done.exception)
    return done.stdout


def test_a_text_that_is_there_is_scored_as_a_runs_own(place: Path) -> None:
    """The scores of a kept translation, without the model; as lines and as JSON the same."""
    own = accepted("evaluate", "luong", "--src", "src", "--ref", "ref", "--hyp-out", "hyp", *SHORT)
    shutil.rmtree(place / "luong")
    again = accepted("evaluate", "--hyp", "hyp", "--ref", "ref")
    assert again.splitlines()[:3] == own.splitlines()[:3] and "bits per byte" not in again
    message = json.loads(accepted("evaluate", "--hyp", "hyp", "--ref", "ref", "--json"))
    assert f"chrF {message['chrf']:.2f}  {message['chrf_signature']}" == own.splitlines()[0]
    assert f"BLEU {message['bleu']:.2f}  {message['bleu_signature']}" == own.splitlines()[1]
    assert message["lines"] == 48 and "bits_per_byte" not in message and "by_length" not in message
    assert json.loads(accepted("evaluate", "--hyp", "ref", "--ref", "ref", "--json"))["exact_match"] == 100


@pytest.mark.slow
def test_scores_by_length_are_printed_and_drawn(place: Path) -> None:
    pytest.importorskip("matplotlib")
    texts = ["--src", "src", "--hyp", "src", "--ref", "ref", "--by-length"]
    said = accepted("evaluate", *texts, "--plot", "lengths.png").splitlines()
    assert said[-3].split() == ["source", "bytes", "lines", "BLEU", "chrF", "exact", "match"]
    assert (place / "lengths.png").read_bytes().startswith(PNG)
    buckets = json.loads(accepted("evaluate", *texts, "--json"))["by_length"]
    assert [(one["shortest"], one["longest"], one["lines"]) for one in buckets] == [(0, 3, 32), (7, 10, 16)]
    run = json.loads(
        accepted("evaluate", "luong", "--src", "src", "--ref", "ref", "--by-length", "--json", *SHORT)
    )
    assert run["bits_per_byte"] > 0 and len(run["by_length"]) == 2


@pytest.mark.slow
def test_attention_is_drawn_and_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention is drawn for a given target or the translation, from an option or stdin, for every layer of
    ConvS2S.
    """
    pytest.importorskip("matplotlib")
    words = ["plot", "attention", "convs2s", "--line", "하나 둘", "--target", "ab 다"]
    assert accepted(*words, "-o", "a.png", "-o", "a.html") == "ab 다\n"
    assert (place / "a.png").read_bytes().startswith(PNG)
    page = (place / "a.html").read_text(encoding="utf-8")
    n_layers = page.count("<h2>layer ")
    assert n_layers >= 2 and f"mean of {n_layers} layers" in page and "<th>둘" in page
    monkeypatch.setattr(plotting, "standard_input", lambda: io.BytesIO("하나\nmore\n".encode()))
    accepted("plot", "attention", "-m", "luong", "-o", "b.html", "--target", "x")
    assert "<th>하<th>나<th>↵" in (place / "b.html").read_text(encoding="utf-8")
    done = call("plot", "attention", "luong", "--line", "one")  # whatever random weights write
    assert done.exit_code == 0 or "the text has 0 characters" in done.stderr
    assert done.exit_code == 1 or (place / "attention.png").read_bytes().startswith(PNG)


@pytest.mark.slow
def test_an_embedding_is_drawn_and_listed(place: Path) -> None:
    pytest.importorskip("matplotlib")
    said = accepted("plot", "embedding", "bytenet", "--text", "three", "--text", "ref").splitlines()
    assert "a" in [line.split()[0] for line in said] and "EB" in [line.split()[0] for line in said]
    assert all(len(line.split()) == 1 + 2 * 5 for line in said)
    assert (place / "embedding.png").read_bytes().startswith(PNG)


@pytest.mark.slow
def test_runs_are_compared(place: Path) -> None:
    """A row each by their folders' names; evaluate's own figures; a curve where there is one."""
    pytest.importorskip("matplotlib")
    texts = ["--src", "src", "--ref", "ref", *SHORT]
    done = call("compare", "luong", "bytenet", *texts, "--curves", "c.png", "--by-length", "l.png")
    assert done.exit_code == 0, done.stderr
    assert "bytenet has no metrics.jsonl: its curve is left out" in done.stderr
    rows = done.stdout.splitlines()
    assert [row.split()[:2] for row in rows[1:3]] == [["luong", "luong"], ["bytenet", "bytenet"]]
    own = json.loads(accepted("evaluate", "bytenet", *texts, "--json"))
    cells = rows[2].split()
    assert cells[3] == f"{own['bits_per_byte']:.4f}" and cells[4] == f"{own['chrf']:.2f}"
    assert all((place / name).read_bytes().startswith(PNG) for name in ("c.png", "l.png"))


def test_runs_are_compared_for_programs(place: Path) -> None:
    """--json holds the figures of evaluate; a copy of a run differs by nothing, p = 1."""
    texts = ["--src", "src", "--ref", "ref", *SHORT]
    found = json.loads(accepted("compare", "luong", copy_of(place, "luong"), *texts, "--json"))
    own = json.loads(accepted("evaluate", "luong", *texts, "--json"))
    first, second = found["runs"]
    assert (first["run"], first["chrf_p"], first["bleu_p"]) == ("luong", None, None)
    assert (second["chrf_p"], second["bleu_p"]) == (1.0, 1.0)
    for name in ("chrf", "bleu", "exact_match", "bits_per_byte"):
        assert first[name] == second[name] == own[name]
    assert found["lines"] == own["lines"] and found["chrf_signature"] == own["chrf_signature"]


def copy_of(place: Path, run: str) -> str:
    shutil.copytree(place / run, place / f"{run}-copy", dirs_exist_ok=True)
    return f"{run}-copy"


def test_folders_of_outputs_are_made(place: Path) -> None:
    accepted("evaluate", "luong", "--src", "src", "--ref", "ref", *SHORT, "--hyp-out", "made/deep/hyp")
    assert len((place / "made" / "deep" / "hyp").read_text(encoding="utf-8").splitlines()) == 48
    accepted("convert", "luong", "-o", "new/luong.safetensors", "--precision", "int8")
    assert (place / "new" / "luong.safetensors").is_file()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize(
    "words",
    [
        "predict -m luong {ref} --src {src} --no-reference --engine torch",
        "predict -m alone {ref} --no-reference --engine torch",
        "score luong --src {src} --ref {ref} --engine torch",
        "translate luong --src {src} " + " ".join(SHORT),
        "evaluate --hyp {src} --src {src} --ref {ref} --by-length",
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
    assert re.sub(r"bytenmt [\d.]+, pipe-2", "", found) == re.sub(r"bytenmt [\d.]+, src", "", expected)


BAD = [
    ("evaluate luong --hyp src --ref ref", "luong would be ignored: --hyp scores an existing text"),
    ("evaluate --hyp src --ref ref --engine torch", "--engine would be ignored with --hyp"),
    ("evaluate --hyp src --ref ref -b 2", "-b would be ignored with --hyp"),
    ("evaluate --hyp src --ref ref --hyp-out out", "--hyp-out would be ignored with --hyp"),
    ("evaluate --hyp three --ref ref", "three has 3 lines and ref has 48"),
    ("evaluate --hyp none --ref ref", "none does not exist"),
    ("evaluate --hyp src --ref ref --by-length", "--by-length groups lines by source length: give --src"),
    ("evaluate --hyp src --ref ref --plot a.png", "give --by-length with it"),
    ("evaluate --hyp src --src src --ref ref --by-length --plot src", "src is the input too"),
    ("plot attention bytenet --line a", "bytenet has no attention weights: its architecture is bytenet"),
    ("plot attention alone --line a", "alone has no attention weights"),
    ("plot attention luong --line a -o a.pdf", "give a name that ends in .png or .html"),
    ("plot attention luong --line a --target b -b 2", "--beam-size would be ignored"),
    (f"plot attention luong --line {'a' * 301} --target b", "the line has 301 characters: expected 1 to 300"),
    ("plot attention none --line a", "none is not a run folder"),
    ("plot embedding luong -o src/e.png", "the folder src cannot be created"),
    ("plot embedding luong -o e.svg", "give a name that ends in .png"),
    ("plot embedding luong --text none", "none does not exist"),
    ("compare luong bytenet", "nothing to compare: give --src and --ref, or --curves"),
    ("compare luong bytenet --src src", "--src and --ref: give both, or neither"),
    ("compare luong luong --curves c.png", "a run is given twice"),
    ("compare bytenet --curves c.png", "bytenet has no metrics.jsonl"),
    ("compare luong --curves c.png --by-length l.png", "give --src and --ref with it"),
    ("compare luong alone --src src --ref ref", "alone is a language model"),
]


@pytest.mark.parametrize(("command", "message"), BAD)
def test_bad_input_is_one_line(place: Path, command: str, message: str) -> None:
    """Exit code 1, nothing on stdout, nothing written."""
    before = {path for path in place.rglob("*") if path.is_file()}
    done = call(*command.split())
    assert done.exit_code == 1, (done.stderr, done.exception)
    assert message in done.stderr.splitlines()[-1] and done.stdout == ""
    assert {path for path in place.rglob("*") if path.is_file()} == before


def test_a_picture_without_matplotlib_is_one_line(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is decoded; a page needs none."""
    monkeypatch.setattr(drawing.importlib.util, "find_spec", lambda name: None)
    for command in (
        "plot attention luong --line a --target b",
        "plot embedding luong",
        "compare luong --curves c.png",
        "evaluate --hyp src --src src --ref ref --by-length --plot a.png",
    ):
        done = call(*command.split())
        assert done.exit_code == 1 and "pip install 'bytenmt[plots]'" in done.stderr
    accepted("plot", "attention", "luong", "--line", "a", "--target", "b", "-o", "a.html")
