"""The table of properties: what it claims of each model, counted and probed on small ones of all variants."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from fast_variants import by_variant
from invariants import VARIANTS, WITH_SOURCE, AnyModel, build, encode, some_inputs, some_sources
from path_probe import longest_paths, seen_by_column, seen_by_prediction
from torch.utils.flop_counter import FlopCounterMode

from bytenmt.architectures.parameters import step_cost
from bytenmt.architectures.registry import BUILT_IN
from bytenmt.cli.main import main
from bytenmt.evaluation.properties import IN_FIELD, IN_WINDOW, properties

LENGTHS = ((4, 4), (7, 4), (4, 7))
# How a path grows with S and T, to within a constant, by its letters.
GROWTH: dict[str, Callable[[int, int], int]] = {
    "S + T": lambda s, t: s + t,
    "S": lambda s, t: s,
    "T": lambda s, t: t,
    "c": lambda s, t: 0,
    "1": lambda s, t: 0,
}
NO_SOURCE = torch.zeros(1, 0, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)


def of_dot(matrix: Any, vector: Any, *rest: Any, **more: Any) -> int:
    """A matrix times a vector, which PyTorch's counter leaves out."""
    return 2 * int(torch.tensor(matrix).prod())


def products(model: AnyModel, s: int, t: int) -> int:
    """Multiply-adds of a sentence's encoding and of t decode steps, a byte each."""
    src, src_len = some_sources([s]) if model.config.source else NO_SOURCE  # type: ignore[union-attr]
    tgt = some_inputs(1, t)
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mv: of_dot})
    with torch.no_grad(), counter:
        memory = encode(model, src, src_len)
        state = model.start(memory)
        for column in tgt.split(1, dim=1):
            _, state = model(column, memory, state)
    return counter.get_total_flops() // 2


# Self-attention is computed in blocks, which also compute what is masked, and layers are passed by sums that
# the probe of paths does not know: of the Transformer the fields alone are measured. N-grams are looked up.
MEASURED = [name for name in VARIANTS if not name.startswith("transformer") and "ngrams" not in name]


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_operations_grow_as_claimed(name: str) -> None:
    """With both lengths doubled and doubled again: linear in each alone; in their product as well where S·T
    is claimed, and nowhere else; by as much as step_cost tells."""
    model = build(VARIANTS[name])
    claimed = properties(model.config)  # type: ignore[arg-type]
    assert claimed is not None
    in_t = [products(model, 6, t) for t in (2, 4, 8)]
    assert in_t[2] - in_t[1] == 2 * (in_t[1] - in_t[0]) > 0
    if name not in WITH_SOURCE:
        assert "S" not in claimed.time
        return
    # It is linear where all places are taken; ByteNet's |t^| is rounded up.
    seen = max(20 if "bytenet" in name else 10, VARIANTS[name].get("n_locations", 0))
    in_s = [products(model, s, 2) for s in (seen, 2 * seen, 4 * seen)]
    columns = abs(in_s[2] - in_s[1] - 2 * (in_s[1] - in_s[0]))
    assert columns <= 0.05 * (in_s[2] - in_s[1])
    if claimed.path_s is not None and claimed.path_s.letters == IN_WINDOW:
        assert claimed.time != "S·T"
        return  # this form of the model computes what lies outside as well, and throws it away
    together = products(model, 4 * seen, 4) - in_s[2] - in_t[1] + in_t[0]
    assert together == 2 * (step_cost(model.config, 4 * seen) - step_cost(model.config, 6))
    assert (together > 0) == (claimed.time == "S·T")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MEASURED if name in WITH_SOURCE])
def test_paths_are_as_long_as_claimed(name: str) -> None:
    """Longer lengths make the longest shortest way longer as the letters say; c is its length."""
    model = build(VARIANTS[name], scale=0.2)  # of 0.4 some weights of an attention are below all rounding
    claimed = properties(model.config)  # type: ignore[arg-type]
    assert claimed is not None and claimed.path_s is not None
    found = [longest_paths(model, s, t) for s, t in LENGTHS]
    for side, path in enumerate((claimed.path_s, claimed.path_t)):
        if path.letters in (IN_WINDOW, IN_FIELD):
            continue  # beyond them a way is longer
        if path.number is not None:
            assert {lengths_of[side] for lengths_of in found} == {path.number}
        constants = {
            lengths_of[side] - GROWTH[path.letters](s, t)
            for lengths_of, (s, t) in zip(found, LENGTHS, strict=True)
        }
        assert len(constants) == 1, f"{path.letters}: {found}"
        if path.letters == "1":  # beside it a recurrent encoder's own layers, which the letters leave out
            config: Any = model.config
            depth = getattr(config, "encoder_depth", 0) or getattr(config, "n_encoder_layers", 1)
            layers = depth if claimed.nets.startswith("RNN") else 0
            assert constants == {1 + layers}


@by_variant("name", VARIANTS)
def test_fields_are_as_wide_as_claimed(name: str) -> None:
    """Both nets': the bytes with a gradient are so many, around a column and up to a prediction; those of an
    n-gram, which is looked up, have none, and are claimed besides."""
    reach = max(VARIANTS[name].get("ngrams", [1])) - 1
    plain = {key: value for key, value in VARIANTS[name].items() if not key.startswith("ngram")}
    model = build(plain)
    nets, full = (build(one).config.structure() for one in (plain, VARIANTS[name]))
    for net, wider in ((nets.encoder, full.encoder), (nets.decoder, full.decoder)):
        if net.field is not None:
            assert wider.field == net.field + reach
    width = (nets.decoder.field or 12) + 5
    seen = seen_by_prediction(model, width)
    assert (seen[0], seen[-1]) == (0 if nets.decoder.field is None else 5, width - 1)
    if not model.config.source:
        return
    width = 2 * (nets.encoder.field or 5) + 3
    at = width // 2
    seen = seen_by_column(model, width, at)
    if nets.encoder.field is not None:
        assert at in seen and seen[-1] - seen[0] + 1 == nets.encoder.field
    elif nets.encoder.reads in ("both ways", "all at once"):
        assert seen == list(range(width))
    elif nets.encoder.reads == "forwards":
        assert seen == list(range(at + 1))
    else:  # in the order of the text, or in that in which it is read
        assert seen[0] in (at, width - 2 - at) and seen == list(range(seen[0], width - 1))


def test_the_table_is_of_the_configured_models(tmp_path: Any) -> None:
    """All by default; others by name or from a run; what is not known of an option is not told."""
    said = CliRunner().invoke(main, ["info", "--properties"]).stdout.splitlines()
    assert [line.split()[0] for line in said[1:7]] == [*BUILT_IN]
    assert [re.split("  +", line)[2] for line in said[2:5]] == ["S·T", "S·T", "cS + cT"]
    paper = CliRunner().invoke(main, ["info", "--properties", "--preset", "paper", "bytenet"]).stdout
    assert re.split("  +", paper.splitlines()[1]) == [
        *("bytenet", "CNN/CNN", "cS + cT", "yes", "c = 60", "c = 30", "373 bytes", "373 bytes")
    ]
    for words in (["info"], ["info", "luong", "bytenet"]):
        assert CliRunner().invoke(main, words).exit_code in (1, 2)
