"""Encoders of bounded look-ahead: the bound, proved by gradients and by changed bytes; refused options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import invariants
import pytest
import torch
from fast_variants import by_variant
from invariants import BOUNDED, TRANSFORMER, VARIANTS, build, make
from small_runs import nine_lines

from bytenmt.architectures.base import with_wait
from bytenmt.config.schema import parse_config
from bytenmt.data.batches import Batch
from bytenmt.errors import ConfigError
from bytenmt.training import translation_objective
from bytenmt.training.losses import draw_waits
from bytenmt.training.run import train

every_bounded_model = by_variant("name", BOUNDED)
N_SOURCE, N_TARGET = 14, 15


def columns_of(name: str, memory: Any) -> list[Any]:
    """The parts of a memory that have a column for each source byte."""
    if "bytenet" in name:
        return [memory.columns]
    if "bahdanau" in name:
        return [memory.annotations, memory.keys]
    return [memory.states, memory.keys] if "luong" in name else [memory.keys, memory.values]


def waits_of(model: Any) -> range:
    """The shortest waits of a model: ByteNet, which attends to nothing, has one alone."""
    least = model.config.least_wait
    return range(least, least + (1 if "bytenet" in model.config.full_name else 5))


@every_bounded_model
def test_every_wait_equals_numpy(name: str) -> None:
    """The equations hold with attention to the columns that are complete, for short and long waits."""
    model = build(BOUNDED[name], seed=3)
    for wait in (model.config.least_wait, model.config.least_wait + 2, 40):
        invariants.check_reference(model, wait=wait)


@every_bounded_model
def test_a_column_looks_ahead_as_far_as_the_bound_and_no_further(name: str) -> None:
    """Gradients of a column reach the source byte `encoder_lookahead` after it, and none behind that."""
    model: Any = make(name)
    ahead, at = model.config.encoder_lookahead, 5
    src, src_len = invariants.some_sources([N_SOURCE])
    src[0, :-1] = torch.arange(20, 20 + N_SOURCE - 1)  # each byte once: a row of the table is a position
    for part in columns_of(name, model.encode(src, src_len)):
        model.zero_grad()
        part[0, at].sum().backward(retain_graph=True)
        touched = model.embedding.weight.grad[20 : 20 + N_SOURCE - 1].abs().amax(dim=1).nonzero()
        assert int(touched.max()) <= at + ahead
    model.zero_grad()
    sum(part[0, at].sum() for part in columns_of(name, model.encode(src, src_len))).backward()
    touched = model.embedding.weight.grad[20 : 20 + N_SOURCE - 1].abs().amax(dim=1).nonzero()
    assert int(touched.max()) == at + ahead


@pytest.mark.slow
@every_bounded_model
def test_no_output_depends_on_bytes_that_have_not_come(name: str) -> None:
    """Changing source byte j, or the length from j on, changes no prediction before byte j has come; with the
    shortest wait it does change the one after, of models that attend to every column."""
    model: Any = make(name)
    tgt = invariants.some_inputs(1, N_TARGET)
    src, src_len = invariants.some_sources([N_SOURCE])
    for wait in waits_of(model):
        expected = invariants.whole(model, src, src_len, tgt, wait)
        for j in range(wait, N_SOURCE):
            before = j - wait + 1  # predictions made when at most j bytes had come
            changed, longer, shorter = (
                src.clone(),
                invariants.some_bytes(1, N_SOURCE + 6, seed=j),
                src[:, : j + 1].clone(),
            )
            changed[0, j:-1] ^= 1
            longer[0, :j] = src[0, :j]
            longer[0, -1] = shorter[0, -1] = invariants.EOS
            for other in (changed, longer, shorter):
                other_len = torch.tensor([other.shape[1]])
                logits = invariants.whole(model, other, other_len, tgt, wait)
                invariants.assert_same(logits[:, :before], expected[:, :before], f"before byte {j} came")


@by_variant("name", [name for name in BOUNDED if "local" not in name and "location" not in name])
def test_outputs_depend_on_the_newest_byte_that_has_come(name: str) -> None:
    """The bound is not too careful: the prediction made when byte j has just come does change with it."""
    model: Any = make(name)
    tgt = invariants.some_inputs(1, N_TARGET)
    src, src_len = invariants.some_sources([N_SOURCE])
    wait = model.config.least_wait
    expected = invariants.whole(model, src, src_len, tgt, wait)
    for j in range(wait, N_SOURCE - 1):  # of a single column keys do not matter
        other = src.clone()
        other[0, j] ^= 1
        logits = invariants.whole(model, other, src_len, tgt, wait)
        at = j - wait + 1
        invariants.assert_differ(logits[:, at], expected[:, at], f"when byte {j} has come")


def test_a_sum_of_layers_reaches_the_bound() -> None:
    """A stack with a bound of its whole look-ahead is the stack without a bound."""
    tgt = invariants.some_inputs(2, 9)
    src, src_len = invariants.some_sources([9, 5])
    for name, most in (("bytenet", 6), ("convs2s", 2)):
        plain, bounded = make(name), build(VARIANTS[name] | {"encoder_lookahead": most})
        a, b = (invariants.whole(model, src, src_len, tgt) for model in (plain, bounded))
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (VARIANTS["seq2seq"], "cannot be: this decoder starts from the encoder's last state"),
        (VARIANTS["luong-local-p"], '"local-p", which needs the length of the source: set "global"'),
        (VARIANTS["luong-off"], 'attention = "off": the decoder starts from the last state'),
        (VARIANTS["luong-local-m"], "reverse_source = true, which reads the end of the source first"),
        (TRANSFORMER, "needs an architecture that supports it, not transformer"),
        (
            VARIANTS["bytenet"] | {"encoder_lookahead": 7},
            "more than the 6 bytes that this encoder looks ahead",
        ),
        (VARIANTS["convs2s-uneven"] | {"encoder_lookahead": 4}, "lower it to 3"),
        (VARIANTS["bahdanau-alone"], "encoder_lookahead would be ignored without a source"),
    ],
)
def test_options_without_a_bound_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config({"model": {"encoder_lookahead": 2} | options})
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_wait_changes_only_models_that_attend() -> None:
    """A memory whose columns are read one by one has no wait, and neither has one without a bound."""
    src, src_len = invariants.some_sources([5])
    for name in ("bytenet-bounded", "convs2s", "luong"):
        memory = make(name).encode(src, src_len)
        assert with_wait(memory, src_len) is memory


# ---- training


def test_waits_are_drawn_evenly_from_their_range() -> None:
    """Every wait of the range occurs, about as often as any other, and none outside of it."""
    torch.manual_seed(1)
    lengths = torch.tensor([3, 6, 9]).repeat(4000)
    drawn = draw_waits(lengths, 4, ())
    for length, waits in ((3, [4]), (6, [4, 5, 6]), (9, [4, 5, 6, 7, 8, 9])):
        values, counts = drawn[lengths == length].unique(return_counts=True)
        assert values.tolist() == waits
        assert float(counts.min() / counts.max()) > 0.8
    assert draw_waits(lengths, 4, (7, 8)).unique().tolist() == [7, 8]


@pytest.mark.parametrize("name", ["convs2s-bounded", "luong-bounded", "bahdanau-bounded", "bytenet-bounded"])
def test_training_reads_the_source_as_it_comes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of a batch is that of the model with the waits that were drawn."""
    model = build(BOUNDED[name] | {"dropout": 0.0})
    config = parse_config({"model": BOUNDED[name], "train": {"precision": "fp32"}})
    waits = torch.tensor([5, 9])
    monkeypatch.setattr(translation_objective, "draw_waits", lambda *_: waits)
    src, src_len = invariants.some_sources([N_SOURCE, 8])
    tgt = invariants.some_bytes(2, N_TARGET)
    lengths = torch.tensor([N_TARGET, N_TARGET])
    target = torch.cat([torch.full((2, 1), invariants.BOS, dtype=torch.uint8), tgt], dim=1)
    batch = Batch(src.numpy(), src_len.numpy(), target.numpy(), lengths.numpy())
    objective = translation_objective.TranslationObjective(model, config, torch.device("cpu"))
    found = objective.gradients([batch], 1, 1)
    expected = 0.0
    for row, wait in enumerate(waits.tolist()):
        one = slice(row, row + 1)
        logits = invariants.whole(model, src[one], src_len[one], target[one, :-1], wait)
        expected -= float(logits.log_softmax(dim=2).gather(2, tgt[one].long()[:, :, None]).sum())
    assert float(found) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"train": {"waits": [8, 4]}}, "expected the fewest and the most bytes, or []"),
        ({"train": {"waits": [8]}}, "expected the fewest and the most bytes, or []"),
    ],
)
def test_waits_that_are_no_range_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config({"model": BOUNDED["convs2s-bounded"]} | settings)
    assert reason in str(refused.value)


def test_waits_that_the_model_cannot_have_are_refused(tmp_path: Path) -> None:
    """Shorter than its first column needs, or with an encoder that reads everything at once."""
    files = nine_lines(tmp_path / "text")
    for name, reason in (("convs2s", "encoder_lookahead: set it too"), ("convs2s-bounded", "give 2 or more")):
        config = parse_config({"model": VARIANTS[name], "train": {"waits": [1, 4]}})
        with pytest.raises(ConfigError, match=re.escape(reason)):
            train(tmp_path / "run", config, files=[files], valid=files, device=torch.device("cpu"))
