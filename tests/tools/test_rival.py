"""The subword rival: it learns, and CTranslate2 translates as PyTorch does."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("sentencepiece", reason="the extra [rival] is not installed")
pytest.importorskip("ctranslate2", reason="the extra [rival] is not installed")

from tools.rival import export, score, train  # noqa: E402
from tools.rival.model import BOS, EOS, Transformer, TransformerShape  # noqa: E402
from tools.rival.recipe import load_model, read_metrics  # noqa: E402
from tools.rival.text import (  # noqa: E402
    SubwordModel,
    SubwordPairs,
    pad_ids,
)

pytestmark = pytest.mark.slow

SMALL = (
    "--vocabulary 300 --d-model 32 --heads 2 --layers 1 --ff 2 --dropout 0 --warmup-updates 20"
    " --max-tokens 400 --lr 1e-2 --label-smoothing 0.05"
)
WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht"]


def lines(n: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.sample(WORDS, draw.randint(1, 3))) for _ in range(n)]


def words(folder: Path, run: Path, more: str) -> list[str]:
    """A command line: to copy lines."""
    for name, n in (("train", 600), ("valid", 40)):
        (folder / name).write_text("\n".join(lines(n, n)) + "\n", encoding="utf-8")
    sides = ("src", "train"), ("tgt", "train"), ("valid-src", "valid"), ("valid-tgt", "valid")
    texts = [word for option, name in sides for word in (f"--{option}", str(folder / name))]
    return [*texts, "-o", str(run), *SMALL.split(), *more.split()]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learnt to copy, exported."""
    folder = tmp_path_factory.mktemp("rival")
    train.main(words(folder, folder / "run", "--max-updates 180"))
    for precision in score.PRECISIONS:
        export.main([str(folder / "run"), "--precision", precision])
    return folder / "run"


@torch.no_grad()
def greedy(run: Path, text: list[str], limit: int) -> list[str]:
    """Translate with PyTorch alone, from the whole prefix in every step; EOS is not piece one."""
    model = load_model(run)
    pieces = SubwordModel.load(run)
    source, real = pad_ids([np.append(ids, EOS) for ids in pieces.ids(text)])
    encoded = model.encode(source, ~real)
    target = torch.full((len(text), 1), BOS)
    for step in range(limit):
        logits = model.logits(model.decode(target, encoded, ~real)[:, -1])
        if step == 0:
            logits[:, EOS] = -torch.inf
        target = torch.cat([target, logits.argmax(1, keepdim=True)], dim=1)
    rows = [[*row[1:], EOS] for row in target.tolist()]
    return pieces.text([row[: row.index(EOS)] for row in rows])


def test_it_learns_to_copy_and_ctranslate2_does_as_pytorch(trained: Path) -> None:
    """They agree in fp32: without VNNI instructions the int8 products of CTranslate2 saturate."""
    last = read_metrics(trained)[-1]
    assert last["update"] == 180 and last["valid_bits_per_byte"] < 0.1
    text = [*lines(30, 6), "Nie gesehen: ß, 네", "acht " * 12]
    found = score.Translator(trained, "fp32", most=20).translate(text)
    assert found == greedy(trained, text, 20)
    assert sum(map(str.__eq__, found, text)) >= 27
    beams = score.Translator(trained, "fp32", beam=3, batch=4)
    assert beams.translate(["", "eins zwei", ""])[::2] == ["", ""]


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
    checked = train.bits_per_byte(
        model, SubwordPairs(sources, targets, np.array([4, 5, 2], np.int32))
    )
    assert checked == pytest.approx(nats / np.log(2) / 11, rel=1e-5)
