"""evaluate and plot as a user meets them: what they print and write."""

import json
import math
import os
import re
import shutil
import threading
from pathlib import Path

import pytest
from command_line import accepted, invoke

from bytenmt.evaluation.scores import text_metrics

PNG = b"\x89PNG\r\n\x1a\n"
SHORT = "--engine torch --max-len-a 0.1 --max-len-b 5"
TEXTS = "--src src --ref tgt"


def test_a_text_that_is_there_is_scored_as_a_models_own(place: Path) -> None:
    """The scores of a kept translation, without the model; as lines and as JSON the same."""
    own = accepted(f"evaluate run {TEXTS} {SHORT}")
    accepted(f"translate run -i src -o made/deep/hyp {SHORT}")
    shutil.rmtree(place / "run")
    again = accepted("evaluate --hyp made/deep/hyp --ref tgt")
    assert again.splitlines()[:3] == own.splitlines()[:3] and "bits per byte" not in again
    found = json.loads(accepted("evaluate --hyp made/deep/hyp --ref tgt --json"))
    (system,) = found["systems"]
    assert f"chrF {system['chrf']:.2f}  {found['chrf_signature']}" == own.splitlines()[0]
    assert f"BLEU {system['bleu']:.2f}  {found['bleu_signature']}" == own.splitlines()[1]
    assert found["lines"] == 4 and "bits_per_byte" not in system
    perfect = json.loads(accepted("evaluate --hyp tgt --ref tgt --json"))
    assert perfect["systems"][0]["exact_match"] == 100


@pytest.mark.slow
def test_systems_are_compared(place: Path) -> None:
    pytest.importorskip("matplotlib")
    shutil.copytree(place / "run", place / "copy")
    command = f"evaluate run bytenet copy {TEXTS} --hyp src {SHORT}"
    done = invoke(f"{command} --curves c.png --json")
    assert done.exit_code == 0, done.stderr
    assert "bytenet has no metrics.jsonl: its curve is left out" in done.stderr
    assert (place / "c.png").read_bytes().startswith(PNG)
    found = json.loads(done.stdout)
    assert [system["system"] for system in found["systems"]] == ["run", "bytenet", "copy", "src"]
    assert not found["seeds"]  # copy is a run of the same seed
    (own,) = json.loads(accepted(f"evaluate bytenet {TEXTS} {SHORT} --json"))["systems"]
    assert found["systems"][1] == own | {
        f"{name}_{kind}": found["systems"][1][f"{name}_{kind}"]
        for name in text_metrics()
        for kind in ("ci", "p")
    }
    assert (found["systems"][2]["chrf_p"], found["systems"][2]["bleu_p"]) == (1.0, 1.0)


def test_the_log_probability_of_every_line(place: Path) -> None:
    rows = accepted(f"evaluate run {TEXTS} --log-probabilities --engine torch").splitlines()
    texts = (place / "tgt").read_bytes().splitlines()
    numbers = [[float(number) for number in row.split("\t")] for row in rows]
    for (nats, bits), text in zip(numbers, texts, strict=True):
        expected = -nats / math.log(2) / len(text) if text else math.inf
        assert nats < 0 and bits == pytest.approx(expected, abs=1e-5)
    bits = -sum(nats for nats, _ in numbers) / math.log(2) / sum(map(len, texts))
    assert f"bits per byte: {bits:.4f}\n" in accepted(f"evaluate run {TEXTS} {SHORT}")
    both = accepted(f"evaluate run bytenet {TEXTS} --log-probabilities --engine torch")
    assert [row.split("\t")[:2] for row in both.splitlines()] == [row.split("\t") for row in rows]
    assert {row.count("\t") for row in both.splitlines()} == {3}


@pytest.mark.slow
def test_figures_are_drawn(place: Path) -> None:
    pytest.importorskip("matplotlib")
    (place / "line").write_text("하나 둘\n", encoding="utf-8")
    text = accepted("plot", "convs2s", "--line", "하나 둘", "-o", "a.png")
    assert text == accepted("translate", "convs2s", "-i", "line", "-b", "1")
    assert (place / "a.png").read_bytes().startswith(PNG)
    accepted("plot -m run --line two")
    assert (place / "attention.png").read_bytes().startswith(PNG)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize(
    "words",
    [
        "predict no_source {tgt} --no-reference --engine torch",
        "evaluate run --src {src} --ref {tgt} --engine torch --log-probabilities",
        f"translate run --src {{src}} {SHORT}",
        "evaluate --hyp {src} --src {src} --ref {tgt}",
    ],
)
def test_texts_may_be_pipes(place: Path, words: str) -> None:
    """A text may be a pipe, such as a shell's <(command). Messages are the same as for files, and
    each pipe is read once."""
    expected = accepted(words.format(src="src", tgt="tgt"))
    used = []
    writers = []
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


def test_no_curve_is_there(place: Path) -> None:
    done = invoke("evaluate bytenet --curves c.png")
    assert done.exit_code == 1 and "no model has metrics.jsonl" in done.stderr.splitlines()[-1]
    assert not (place / "c.png").exists()


def test_a_picture_without_matplotlib_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'bytenmt[plots]'" in invoke("plot run --line a").stderr
    assert "pip install 'bytenmt[plots]'" in invoke("evaluate run --curves c.png").stderr
