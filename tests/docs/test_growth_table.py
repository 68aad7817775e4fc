"""The table "How cost and paths grow" of docs/for-researchers.md is what the programs count.

Tests architectures/*/program.py (write_program) and ModelSection.receptive_field.
"""

import re

import pytest
from guide_pages import ROOT

from bytenmt.architectures.model_program import ModelProgram
from bytenmt.architectures.parameters import model_program
from bytenmt.architectures.transformer.config import TransformerConfig
from bytenmt.config.schema import load_config
from bytenmt.program.instructions import ATTENTIONS, Field, Op, Program

PAGE = ROOT / "bytenmt/docs/for-researchers.md"
HEADING = "## How cost and paths grow"
RECURRENT = (Op.GRU_STEP, Op.LSTM_STEP)


def table() -> list[list[str]]:
    """The cells of each row: a model as `bytenmt info` takes it, then what is said of it."""
    section = PAGE.read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, flags=re.M)
    return [[model, *cells.split(" | ")] for model, cells in rows]


def net(program: Program) -> str:
    if len(program.select(*RECURRENT)):
        return "RNN"
    return "CNN"


def time(program: ModelProgram) -> str:
    """How the products of a sentence grow with S and T."""
    attentions = program.step.select(*ATTENTIONS)
    if len(attentions) and not attentions[:, Field.S].all():
        return "S·T"
    source = "S"
    if net(program.encode) == "CNN":
        source = "cS"
    if len(attentions) or net(program.step) == "CNN":
        return f"{source} + cT"
    return f"{source} + T"


def source_path(program: ModelProgram) -> str:
    """Layers and steps from a byte of the source to a prediction."""
    attentions = program.step.select(*ATTENTIONS)
    n_layers = len(program.encode.select(Op.WINDOW)) + len(program.step.select(Op.RING, *RECURRENT))
    if len(attentions) and attentions[:, Field.S].all():
        return "1 in the window, else ≤ S + T"
    if len(attentions):
        return "1"
    if net(program.step) == "CNN":
        return f"c = {n_layers}"
    if net(program.encode) == "CNN":
        return f"c = {n_layers} in the field, else T"
    if program.items:  # a column stands over each position
        return "T"
    if program.fixed:
        return "S"
    return "S + T"


def target_path(program: ModelProgram) -> str:
    if program.states:
        return "T"
    return f"c = {len(program.rings)}"


def source_field(program: ModelProgram) -> str:
    """Bytes of the source that an output of the encoder depends on."""
    windows = program.encode.select(Op.WINDOW)
    if len(windows):
        return f"{1 + ((windows[:, Field.M] - 1) * windows[:, Field.K]).sum():,} bytes"
    if len(program.encode.select(Op.TURN)):
        return "all of the source"
    if program.source.reverse:
        return "all from its own on"
    return "all up to its own"


def target_field(program: ModelProgram) -> str:
    if program.states:
        return "all up to its own"
    return f"{1 + sum(ring.capacity - 1 for ring in program.rings):,} bytes"


@pytest.mark.parametrize("row", table(), ids=lambda row: row[0])
def test_a_row_is_what_the_program_counts(row: list[str]) -> None:
    arch, *settings = row[0].replace("--set ", "").split()
    config = load_config(arch, "tiny", settings).model
    if isinstance(config, TransformerConfig):  # which has no program
        kind, growth, keeps, source = "attention/attention", "S² + S·T", "yes", "all of the source"
        paths = [f"c = {1 + config.encoder_depth}", f"c = {config.decoder_depth}"]
        assert row[1:] == [kind, growth, keeps, *paths, source, f"{config.receptive_field} bytes"]
        return
    program = model_program(config)
    assert program is not None
    assert row[1:] == [
        f"{net(program.encode)}/{net(program.step)}",
        time(program),
        "yes" if program.items else "no",
        source_path(program),
        target_path(program),
        source_field(program),
        target_field(program),
    ]
    if config.receptive_field is not None:
        assert row[-1] == f"{config.receptive_field:,} bytes"


def test_all_architectures_are_in_the_table() -> None:
    assert len(table()) == 11 and len({row[0].split()[0] for row in table()}) == 6
