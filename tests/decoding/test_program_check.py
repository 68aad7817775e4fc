"""A module and a program of which only one was edited are refused instead of computing two models.

Tests of decoding.program_check.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from invariants import SELF_ATTENTIVE, make
from small_runs import CPU, config, write_pairs
from torch.nn import functional as F
from variants import VARIANTS

from bytenmt.architectures.bytenet.model import ResidualBlock
from bytenmt.architectures.luong.model import Luong
from bytenmt.decoding.cpu.loading import _CHECKED
from bytenmt.decoding.program_check import check_program
from bytenmt.errors import BytenmtError
from bytenmt.layers.attention import AdditiveScore
from bytenmt.training.run import train
from bytenmt.translation.translator import Translator

Patch = pytest.MonkeyPatch
REFUSED = (
    r"^bytenet: its module .* -[\d.]+, its program .* -[\d.]+ .*: use --engine torch or change"
)
LIMITS = ["train.max_updates=2", "train.max_tokens=200", "train.valid_lines=2"]


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in SELF_ATTENTIVE])
def test_what_computes_the_same_passes(name: str) -> None:
    model = make(name).float().train()
    check_program(model, model.config)
    assert model.training


def edit_bytenet(monkeypatch: Patch) -> None:
    """The edit of an issue: GELU in place of ReLU, in the module alone."""
    monkeypatch.setattr(
        ResidualBlock, "_after", lambda self, _, h: self.expand(F.gelu(self.norm_out(h)))
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two updates of an unedited ByteNet."""
    folder = tmp_path_factory.mktemp("trained")
    train(folder / "run", config("bytenet", *LIMITS), **write_pairs(folder, n_words=2), device=CPU)
    return folder / "run"


def test_training_refuses_at_its_start_and_at_a_resumption(
    run: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    texts = write_pairs(run.parent, n_words=2)
    edit_bytenet(monkeypatch)
    with pytest.raises(BytenmtError, match=REFUSED) as refusal:
        train(tmp_path / "new", config("bytenet", *LIMITS), **texts, device=CPU)
    assert "\n" not in str(refusal.value)
    longer = config("bytenet", *LIMITS, "train.max_updates=3")
    with pytest.raises(BytenmtError, match=REFUSED):
        train(run, longer, **texts, device=CPU, resume=True)


def test_a_translator_refuses_all_engines_but_pytorch(run: Path, monkeypatch: Patch) -> None:
    edit_bytenet(monkeypatch)
    _CHECKED.clear()
    with pytest.raises(BytenmtError, match=REFUSED):
        Translator.load(run, engine="numba")
    assert Translator.load(run, engine="torch", max_len_b=3).translate(["a"])
    monkeypatch.undo()
    assert Translator.load(run, engine="numba", max_len_b=3).translate(["a"])


@pytest.mark.parametrize("factor", [0.0, -1.0, 1 / 12**0.5])
@pytest.mark.parametrize("arch", ["luong", "bahdanau"])
def test_an_edit_of_scores_is_refused_at_the_start(
    arch: str, factor: float, tmp_path: Path, texts: dict[str, Any], monkeypatch: Patch
) -> None:
    """At first weights attention is nearly uniform, whatever its scores are; they are zero, of the
    other sign, or divided by the root of their width."""
    edited: Any = {"luong": Luong, "bahdanau": AdditiveScore}[arch]
    name = {"luong": "_scores", "bahdanau": "stepper"}[arch]
    original = getattr(edited, name)

    def scores(self: Any, *arguments: Any) -> Any:
        score = original(self, *arguments)
        return lambda query: factor * score(query)

    monkeypatch.setattr(edited, name, scores)
    with pytest.raises(BytenmtError, match=f"^{arch}: its module .* change program"):
        train(tmp_path / "run", config(arch, *LIMITS), **texts, device=CPU)
    assert not [*(tmp_path / "run").glob("*.safetensors")]


def test_weights_of_zero_hide_no_edit(monkeypatch: Patch) -> None:
    """W_c of Luong's h~ may begin at 0: then no score matters until it has learnt."""
    model = make("luong").float()
    torch.nn.init.zeros_(model.get_parameter("decoder.combine.weight"))
    before = {name: part.clone() for name, part in model.named_parameters()}
    check_program(model, model.config)
    assert all(torch.equal(part, before[name]) for name, part in model.named_parameters())
    scores_of = Luong._scores
    monkeypatch.setattr(
        Luong, "_scores", lambda self, keys: lambda query: 5 * scores_of(self, keys)(query)
    )
    with pytest.raises(BytenmtError, match="^luong: its module .* change program"):
        check_program(model, model.config)
