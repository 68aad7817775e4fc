"""Tell how a model's cost and the paths of its signals grow with the lengths of source and target.

This is the comparison of Kalchbrenner et al. 2016 (table 1) for configured models: S source bytes, T target
bytes, c a number of layers. Costs and the decoder's field are counted; the paths follow from the encoder, the
decoder and the link between them. No model is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bytenmt.architectures.parameters import step_cost
from bytenmt.architectures.section import ModelSection, NetFacts, StructureFacts

FAR = 1 << 22  # bytes of source that no window of an attention covers


class PathLength(NamedTuple):
    """A bound on the shortest path from an input byte to a prediction, in layers, steps and attentions.

    It grows with S source bytes, T target bytes or c layers, the letters of Kalchbrenner et al. 2016.
    """

    letters: str  # "S + T", "S", "T", "c" or "1", or one of the longer texts IN_FIELD and IN_WINDOW
    number: int | None = None  # the value of c, a number of layers

    def __str__(self) -> str:
        return self.letters if self.number is None else self.letters.replace("c", f"c = {self.number}", 1)


IN_FIELD = "c in the field, else T"  # a later prediction gets of it what the decoder has carried on
IN_WINDOW = "1 in the window, else ≤ S + T"  # past it, along the encoder, or from its end on with the decoder


class Properties(NamedTuple):
    """A row of the table: a model's cost, path lengths and receptive fields."""

    nets: str  # kinds of encoder and decoder: "RNN/CNN"
    time: str  # growth of the cost with S source bytes and T target bytes: "S + T"
    resolution: bool | None  # whether the source's memory grows with its length; None without a source
    path_s: PathLength | None  # from a source byte to a prediction; None without a source
    path_t: PathLength  # from a target byte to a prediction
    source_field: str  # bytes that an output of the encoder depends on, in words; "" without a source
    target_field: str  # bytes that a prediction depends on, in words


def properties(config: ModelSection) -> Properties | None:
    """Return cost, path lengths and fields of a configured model; None if its architecture gives no facts."""
    structure = config.structure()
    if structure is None:
        return None
    return Properties(
        nets=f"{_kind(structure.encoder) if config.source else '–'}/{_kind(structure.decoder)}",
        time=_time(structure, config),
        resolution=None if not config.source else structure.link in ("column", "attention"),
        path_s=_source_path(structure, config),
        path_t=_own_path(structure.decoder, "T"),
        source_field=_field_in_words(structure.encoder, "source") if config.source else "",
        target_field=_field_in_words(structure.decoder, "target"),
    )


def _kind(net: NetFacts) -> str:
    if net.reads == "all at once":
        return "attention"
    return "RNN" if net.field is None else "CNN" if net.n_layers else "mean"


def _time(structure: StructureFacts, config: ModelSection) -> str:
    """Return the cost in terms of S and T; all encoders but self-attention cost the same for each source
    byte."""
    if step_cost(config, 2 * FAR) > step_cost(config, FAR):
        return "S² + S·T" if structure.encoder.reads == "all at once" else "S·T"
    window = config.source and structure.link == "attention"
    decoder = "cT" if structure.decoder.field is not None or window else "T"
    if not config.source:
        return decoder
    return f"{'S' if structure.encoder.field is None else 'cS'} + {decoder}"


def _own_path(net: NetFacts, letter: str) -> PathLength:
    """Return the path through a net from end to end."""
    is_recurrent = net.field is None and net.reads != "all at once"
    return PathLength(letter) if is_recurrent else PathLength("c", net.n_layers)


def _source_path(structure: StructureFacts, config: ModelSection) -> PathLength | None:
    """Return the path from a source byte through the link to a prediction."""
    encoder, decoder, link = structure.encoder, structure.decoder, structure.link
    if not config.source:
        return None
    if link == "attention":
        if step_cost(config, 2 * FAR) == step_cost(config, FAR):
            return PathLength(IN_WINDOW)
        return PathLength("c", 1 + structure.passed) if structure.passed else PathLength("1")
    source, target = _own_path(encoder, "S"), _own_path(decoder, "T")
    if link == "every step":
        return source
    if link == "start":
        return PathLength(f"{source.letters} + {target.letters}")
    if source.number is None:  # a signal may change nets at any column up to the prediction's
        return target
    return PathLength("c" if target.number else IN_FIELD, source.number + decoder.n_layers)


def _field_in_words(net: NetFacts, side: str) -> str:
    if net.field is not None:
        return f"{net.field:,} bytes"
    words = {"forwards": "all up to its own", "backwards": "all from its own on"}
    return words.get(net.reads, f"all of the {side}")


HEAD = ("model", "nets", "time", "RP", "Path_S", "Path_T", "encoder's field", "decoder's field")
LEGEND = """\
S, T: bytes of source and target; c: layers or a window, whatever the lengths. RP: what is kept of a source
grows with it. Path_S, Path_T: layers and steps between a source or target byte and a prediction that depends
on it. Fields: bytes that a column of the encoder and a prediction depend on; past its field no target byte
has a path to a prediction."""


def table(models: Sequence[tuple[str, ModelSection]]) -> str:
    """Return a text: a table of the properties of named models, a row each, and a legend."""
    rows = [HEAD, *(_row(name, properties(config)) for name, config in models)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, "", LEGEND])


def _row(name: str, row: Properties | None) -> tuple[str, ...]:
    if row is None:
        return (name, *("?" for _ in HEAD[1:]))
    kept = "–" if row.resolution is None else "yes" if row.resolution else "no"
    path_s = "–" if row.path_s is None else str(row.path_s)
    fields = (row.source_field or "–", row.target_field)
    return (name, row.nets, row.time, kept, path_s, str(row.path_t), *fields)
