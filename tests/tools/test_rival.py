"""The subword rival: it learns, goes on where it stopped, and CTranslate2 translates as PyTorch does."""

from __future__ import annotations

import io
import json
import random
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

pytest.importorskip("sentencepiece", reason="the extra [rival] is not installed")
pytest.importorskip("ctranslate2", reason="the extra [rival] is not installed")


from bytenmt.data.corpus import PairFiles  # noqa: E402
from bytenmt.errors import BytenmtError, CheckpointError, DataError  # noqa: E402
from tools.rival import export, score, train, translate  # noqa: E402
from tools.rival.model import BOS, EOS, Transformer, TransformerShape, sinusoids  # noqa: E402
from tools.rival.recipe import Recipe, RunInfo, load_model  # noqa: E402
from tools.rival.text import SubwordModel, SubwordPairs, TrainingText, make_batch, read_pairs, train_pieces  # noqa: E402

pytestmark = pytest.mark.slow

SMALL = {
    "--vocabulary": 300,
    "--d-model": 32,
    "--heads": 2,
    "--layers": 1,
    "--ff": 2,
    "--dropout": 0,
    "--warmup-updates": 20,
    "--max-tokens": 400,
    "--lr": 1e-2,
    "--label-smoothing": 0.05,
}
WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht"]


def lines(n: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.sample(WORDS, draw.randint(1, 3))) for _ in range(n)]


def words(folder: Path, run: Path, *more: str) -> list[str]:
    """A command line: to copy lines."""
    for name, n in (("train", 600), ("valid", 40)):
        (folder / name).write_text("\n".join(lines(n, n)) + "\n", encoding="utf-8")
    text = [str(folder / name) for name in ("train", "train", "valid", "valid")]
    sides = zip(("--src", "--tgt", "--valid-src", "--valid-tgt"), text, strict=True)
    small = (str(word) for option in SMALL.items() for word in option)
    return [*(word for side in sides for word in side), "-o", str(run), *small, *more]


def records(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learnt to copy, exported."""
    folder = tmp_path_factory.mktemp("rival")
    train.main(words(folder, folder / "run", "--max-updates", "180"))
    for precision in translate.PRECISIONS:
        export.main([str(folder / "run"), "--precision", precision])
    return folder / "run"


def test_it_learns_to_copy(trained: Path) -> None:
    last = records(trained)[-1]
    assert last["update"] == 180 and last["valid_bits_per_byte"] < 0.1
    text = lines(30, 5)
    # In fp32: without VNNI instructions the int8 products of CTranslate2 saturate.
    assert sum(map(str.__eq__, translate.Translator(trained, "fp32").translate(text), text)) >= 27


def test_ctranslate2_translates_as_pytorch_does(trained: Path) -> None:
    text = [*lines(30, 6), "Nie gesehen: ß, 네", "acht " * 12]
    assert export.check(trained, "fp32", text, 20) == []
    beams = translate.Translator(trained, "fp32", beam=3, batch=4)
    assert beams.translate(["", "eins zwei", ""])[::2] == ["", ""]


def test_every_weight_has_its_place_in_ctranslate2(trained: Path, tmp_path: Path) -> None:
    """Norms and biases, too, which training has hardly moved from 1 and 0."""
    shutil.copytree(trained, run := tmp_path / "run")
    stored = RunInfo.load(run)
    recipe = stored.recipe._replace(layers=2, decoder_layers=3)
    (run / "config.json").write_text(stored._replace(recipe=recipe).to_json(), encoding="utf-8")
    torch.manual_seed(1)
    model = Transformer(recipe.shape(stored.n_pieces))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter))
    save_file(model.state_dict(), run / "best.safetensors")
    export.export(run, "fp32")
    assert export.check(run, "fp32", lines(20, 9), 20) == []


def test_a_check_tells_lines_apart(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check depends on what the export writes: a changed bias gives different lines."""
    with torch.no_grad():
        model = load_model(trained)
        model.decoder.norm.bias.add_(torch.linspace(-2, 2, 32))
    monkeypatch.setattr(export, "load_model", lambda _: model)
    checked = export.check(trained, "fp32", lines(20, 7), 20)
    assert checked and all(one.ours != one.theirs and one.margin > 0 for one in checked)


def test_a_resumed_run_ends_as_one_that_was_not_stopped(tmp_path: Path) -> None:
    """Resuming counted updates is exact to the bit, including random numbers and the order of pairs."""
    ends = []
    for run, parts in (("whole", [[]]), ("parts", [["stopped"], ["--resume"]])):
        for part in parts:
            limits = ["--max-updates", "24", "--dropout", "0.1", "--optimizer", "muon"]
            arguments = words(tmp_path, tmp_path / run, *limits, *(p for p in part if p == "--resume"))
            if part == ["stopped"]:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(train, "lr_factor", stopping_at(11, train.lr_factor))
                    train.main(arguments)
                assert records(tmp_path / run)[-1]["update"] == 11
            else:
                train.main(arguments)
        ends.append((records(tmp_path / run)[-1], load_model(tmp_path / run).state_dict()))
    (whole, weights), (parts_end, others) = ends
    assert whole["update"] == 24 and whole["valid_bits_per_byte"] == parts_end["valid_bits_per_byte"]
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def test_augmented_pairs_are_those_of_bytenmt(tmp_path: Path) -> None:
    """Every epoch's lines, mixed by weight, are what bytenmt's batches hold; a resumed run sees the same."""
    (tmp_path / "a").write_text("Anna ist groß\nAb 12 hier\n" * 20, encoding="utf-8")
    (tmp_path / "b").write_text("Nein\n", encoding="utf-8")
    a, b = tmp_path / "a", tmp_path / "b"
    files = [PairFiles(a, a), PairFiles(b, b, weight=5.0)]
    shares = {"upper_case": 0.3, "lower_case": 0.3, "empty_source": 0.2, "noise": 0.1}
    text = TrainingText(files, Recipe(**shares).data(), seed=3)
    sources, targets = text.lines(4)
    assert len(sources) == len(targets) == 45 and not text.is_fixed
    assert TrainingText(files, Recipe(**shares).data(), seed=3).lines(4) == (sources, targets)
    assert text.lines(5) != (sources, targets)
    assert {"ANNA IST GROSS", "anna ist groß", "Anna ist groß"} <= set(targets) and "" in sources
    assert sum(target.upper() == "NEIN" for target in targets) >= 3
    plain = TrainingText([PairFiles(a, a)], Recipe().data(), seed=3)
    assert plain.is_fixed and plain.lines(0)[0] == ["Anna ist groß", "Ab 12 hier"] * 20


def test_an_augmented_run_goes_on_as_one_that_was_not_stopped(tmp_path: Path) -> None:
    """Over the end of an epoch, whose lines are then found anew."""
    more = ["--max-updates", "60", "--lower-case", "0.5", "--noise", "0.1", "--weight", "0.3"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train.main(words(tmp_path, whole, *more))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "lr_factor", stopping_at(41, train.lr_factor))
        train.main(words(tmp_path, parts, *more))
    assert records(parts)[-1]["update"] == 41 and records(parts)[-1]["epoch"] > 0
    train.main(words(tmp_path, parts, *more, "--resume"))
    one, other = records(whole)[-1], records(parts)[-1]
    assert one["epoch"] == other["epoch"] and one["valid_bits_per_byte"] == other["valid_bits_per_byte"]


def stopping_at(update: int, factor):
    """A schedule during whose call for an update the program gets a signal."""
    import signal

    def checked(settings, progress):
        if progress.update == update - 1:
            signal.raise_signal(signal.SIGTERM)
        return factor(settings, progress)

    return checked


def test_what_stands_in_a_folder_is_not_overwritten(trained: Path, tmp_path: Path) -> None:
    for more, told in (([], "--resume"), (["--resume", "--lr", "1"], "another recipe")):
        with pytest.raises(SystemExit, match=told):
            train.main(words(tmp_path, trained, "--max-updates", "300", *more))
    with pytest.raises(CheckpointError, match="no rival's run"):
        RunInfo.load(tmp_path)


def test_bits_per_byte_against_a_loop() -> None:
    torch.manual_seed(1)
    model = Transformer(TransformerShape(9, 8, 16, 1, 1, 2, 0.0)).eval()
    sides = [[3, 4, 5], [6], []], [[7, 8], [3, 3, 4], [5]]
    sources, targets = ([np.array(ids, np.int32) for ids in side] for side in sides)
    nats = 0.0
    with torch.no_grad():
        for s, t in zip(*sides, strict=True):  # one pair at a time, nothing padded
            source = torch.tensor([[*s, EOS]])
            none = torch.zeros_like(source, dtype=torch.bool)
            out = model.decode(torch.tensor([[BOS, *t]]), model.encode(source, none), none)
            table = model.logits(out)[0].double().log_softmax(dim=1)
            nats -= sum(float(table[i, k]) for i, k in enumerate([*t, EOS]))
    checked = train.bits_per_byte(model, SubwordPairs(sources, targets, np.array([4, 5, 2], np.int32)))
    assert checked == pytest.approx(nats / np.log(2) / 11, rel=1e-5)


def test_a_target_does_not_see_what_comes_later() -> None:
    model = Transformer(TransformerShape(9, 8, 16, 1, 2, 2, 0.0)).eval()
    source, padding = torch.tensor([[3, EOS]]), torch.zeros(1, 2, dtype=torch.bool)
    encoded = model.encode(source, padding)
    some, other = (model.decode(torch.tensor([[BOS, 3, last]]), encoded, padding) for last in (4, 5))
    assert torch.equal(some[:, :2], other[:, :2]) and not torch.equal(some[:, 2], other[:, 2])
    assert not torch.equal(
        model.encoder.layers[0].linear1.weight, Transformer(model.shape).encoder.layers[0].linear1.weight
    )
    first, second = (layer.linear1.weight for layer in model.decoder.layers)
    assert not torch.equal(first, second)  # PyTorch's stacks begin as copies of one layer


def test_positions() -> None:
    """CTranslate2's: from 1 on, sines before cosines, the lowest frequency 1/10,000."""
    checked = sinusoids(3, 6).double().numpy()
    for i in range(3):
        for k, frequency in enumerate((1, 0.01, 0.0001)):
            assert checked[i, k] == pytest.approx(np.sin((i + 1) * frequency), abs=1e-6)
            assert checked[i, 3 + k] == pytest.approx(np.cos((i + 1) * frequency), abs=1e-6)


def test_text_comes_back_from_its_pieces() -> None:
    pieces = SubwordModel(train_pieces(lines(300, 1), 300, "bpe"))
    text = ["eins zwei", "Ünbekannt: 네!", ""]
    assert pieces.text(pieces.ids(text)) == pieces.text(pieces.names(text)) == text
    assert len(pieces) == len(pieces.vocabulary()) <= 300
    pairs = read_pairs(["eins", "zwei " * 40], ["fünf", "x"], pieces, 20)
    assert len(pairs.sources) == 1 and pairs.target_bytes.tolist() == [5]
    assert make_batch(pairs, [0]).target_in[0, 0] == BOS and make_batch(pairs, [0]).target_out[0, -1] == EOS
    with pytest.raises(DataError, match="1 source and 2 target lines"):
        read_pairs(["a"], ["b", "c"], pieces, 20)
    with pytest.raises(BytenmtError, match="no unigram of 100 pieces"):
        train_pieces(["abc"], 100, "unigram")


def test_scores_of_a_run(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("\n".join(lines(20, 8)) + "\n", encoding="utf-8")
    text = str(tmp_path / "text")
    score.main(
        [
            str(trained),
            "--src",
            text,
            "--ref",
            text,
            "--noise",
            "0",
            "--speed-lines",
            "4",
            "--precision",
            "fp32",
        ]
    )
    checked = json.loads(capsys.readouterr().out)
    assert checked["updates"] == 180 and checked["cpu_minutes"] > 0
    assert checked["chrf_by_noise"] == {"0": checked["chrf"]} and checked["chrf"] > 90
    assert set(checked["text_bytes_per_second_by_batch"]) == {"1", "32"} and checked["megabytes"] > 0


def test_a_filter(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"zwei\n\neins\n")))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    translate.main([str(trained)])
    assert out.getvalue().count(b"\n") == 3
    with pytest.raises(SystemExit, match="export.py"):
        translate.main([str(trained.parent)])
