"""Test /explain: bits and alignment of the characters of a translation."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
import torch
from made_up_engine import make_run

from bytenmt.checkpoints.checkpoint import load_run
from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.loading import load_runs
from bytenmt.serve.explain import MAX_BYTES, Explainer
from bytenmt.serve.languages import Direction
from bytenmt.serve.limits import Refusal
from bytenmt.utf8 import BOS, EOS

KO_EN, EN_DE = Direction("ko", "en"), Direction("en", "de")


def bits_byte_by_byte(run: Path, source: bytes, text: bytes) -> list[float]:
    """-log2 p of each byte, the model asked for one at a time."""
    model = load_run(run, torch.device("cpu")).model
    src = torch.tensor([[*source, EOS]], dtype=torch.uint8)
    found, last = [], BOS
    with torch.no_grad():
        state = model.start(memory := model.encode(src, torch.tensor([len(source) + 1])))
        for byte in text:
            logits, state = model(torch.tensor([[last]], dtype=torch.uint8), memory, state)
            found.append(-math.log2(math.exp(float(logits[0, 0].double().log_softmax(0)[byte]))))
            last = byte
    return found


def explainer(*runs: tuple[Direction, Path]) -> Explainer:
    """Make an explainer of runs, with the server's engine."""
    spec = EngineSpec("numba", "cpu", "int8", 1)
    return Explainer({direction: load_runs([run], spec) for direction, run in runs})


def test_a_character_costs_what_its_bytes_cost(tmp_path: Path) -> None:
    """Bits agree with the requested precision, up to rounding to hundredths."""
    run = make_run(tmp_path / "run", "bahdanau")
    source, text = "오후 3시", "aé뷁"
    told = explainer((KO_EN, run)).explain(KO_EN, source, text)
    one, *rest = bits_byte_by_byte(run, source.encode(), text.encode())
    assert told["bits"] == pytest.approx([one, sum(rest[:2]), sum(rest[2:])], rel=0.01)
    assert len(told["alignment"]) == 3
    assert all(0 <= begin < end <= len(source) for begin, end in told["alignment"])
    assert explainer((KO_EN, run)).explain(KO_EN, source, "") == {"bits": [], "alignment": None}


def test_each_is_answered_its_own(tmp_path: Path) -> None:
    """Also after one has left in the middle; without attention there is no alignment, and a line can be too
    long."""
    explain = explainer(
        (KO_EN, make_run(tmp_path / "a", "luong")), (EN_DE, make_run(tmp_path / "b", "seq2seq", seed=1))
    )

    async def ask() -> None:
        leaver = asyncio.ensure_future(explain(KO_EN, "가나", "leaves"))
        await asyncio.sleep(0)
        leaver.cancel()
        one, two = await asyncio.gather(explain(KO_EN, "가나", "ab"), explain(EN_DE, "ab", "가"))
        assert (len(one["bits"]), len(one["alignment"])) == (2, 2)
        assert (len(two["bits"]), two["alignment"]) == (1, None)
        with pytest.raises(Refusal, match="at most"):
            await explain(KO_EN, "a", "b" * (MAX_BYTES + 1))
        assert await explain(KO_EN, "가나", "ab") == one

    asyncio.run(ask())
