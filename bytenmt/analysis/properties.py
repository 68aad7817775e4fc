"""Tell how a model's cost and the paths of its signals grow with the lengths of source and target.

This is the comparison of Kalchbrenner et al. 2016 (table 1) for configured models: S source bytes, T target
bytes, c a number of layers. Costs and the decoder's field are counted; the paths follow from the encoder, the
decoder and the link between them. No model is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from bytenmt.config.schema import (
    BahdanauConfig,
    ByteNetConfig,
    ConvS2SConfig,
    LuongConfig,
    ModelConfig,
    Seq2SeqConfig,
    architecture,
)
from bytenmt.storage.needs import receptive_field, step_cost

FAR = 1 << 22  # bytes of source that no window of an attention covers

# What the decoder gets of the source: a vector it starts from, one it also reads at every step, the encoder's
# column of its own position, or a sum over columns.
Link = Literal["start", "every step", "column", "attention"]


class Net(NamedTuple):
    """An encoder or a decoder. n_layers: its depth, 0 for a mean without weights; field: bytes that a column
    depends on at most, None for a recurrent net; reads: the direction of a recurrent net.
    """

    n_layers: int
    field: int | None
    reads: Literal["forwards", "backwards", "both ways"] = "forwards"


class Nets(NamedTuple):
    """Encoder, decoder and their link; without a source there is neither encoder nor link.

    passed: convolutional layers that a source byte passes beside an attention on the shortest way: those of
    the encoder if its embedding is no value, and those of the decoder above its last attention.
    """

    encoder: Net | None
    decoder: Net
    link: Link | None
    passed: int = 0


class Path(NamedTuple):
    """The layers, steps and attentions between an input byte and a prediction on the shortest way, at most.

    letters: as in the paper, a key of GROWTH or one of IN_FIELD and IN_WINDOW; number: c if it is layers
    only.
    """

    letters: str
    number: int | None = None

    def __str__(self) -> str:
        return self.letters if self.number is None else self.letters.replace("c", f"c = {self.number}", 1)


IN_FIELD = "c in the field, else T"  # a later prediction gets of it what the decoder has carried on
IN_WINDOW = "1 in the window, else ≤ S + T"  # past it, along the encoder, or from its end on with the decoder
# How a path grows with S and T, to within a constant; a way past a field or a window is not told here.
GROWTH: Mapping[str, Callable[[int, int], int]] = {
    "S + T": lambda s, t: s + t,
    "S": lambda s, t: s,
    "T": lambda s, t: t,
    "c": lambda s, t: 0,
    "1": lambda s, t: 0,
}


class Properties(NamedTuple):
    """A row of the table; path_s and resolution are None without a source.

    resolution: whether the memory of the source grows with it ("resolution preserving"). source_field,
    target_field: bytes that a column of the encoder and a prediction depend on, in words.
    """

    nets: str
    time: str
    resolution: bool | None
    path_s: Path | None
    path_t: Path
    source_field: str
    target_field: str


def properties(config: ModelConfig) -> Properties | None:
    """Return the properties of a configured model; None if its architecture is not one of the five."""
    if architecture(config) not in NETS:
        return None
    nets = NETS[architecture(config)](config)
    return Properties(
        nets=f"{_kind(nets.encoder)}/{_kind(nets.decoder)}",
        time=_time(nets, config),
        resolution=None if nets.link is None else nets.link in ("column", "attention"),
        path_s=_source_path(nets, config),
        path_t=_own_path(nets.decoder, "T"),
        source_field="" if nets.encoder is None else _told(nets.encoder, "source"),
        target_field=_told(nets.decoder, "target"),
    )


def _seq2seq(config: Seq2SeqConfig) -> Nets:
    link: Link = "every step" if config.context == "every_step" else "start"
    return _nets(config, _stacked(config), Net(config.decoder_depth, None), link)


def _bahdanau(config: BahdanauConfig) -> Nets:
    return _nets(config, Net(config.n_encoder_layers, None, "both ways"), Net(1, None), "attention")


def _luong(config: LuongConfig) -> Nets:
    attends = step_cost(config, FAR) > step_cost(config, 0)
    link: Link = "attention" if attends else "start"
    return _nets(config, _stacked(config), Net(config.decoder_depth, None), link)


def _stacked(config: Seq2SeqConfig | LuongConfig) -> Net:
    """Return the encoder of seq2seq and Luong models; reversed, it still reads EOS last."""
    return Net(config.encoder_depth, None, "backwards" if config.reverse_source else "forwards")


def _bytenet(config: ByteNetConfig) -> Nets:
    schedule = config.encoder_schedule  # no blocks in a recurrent net
    reach = (config.kernel_width - 1) * sum(schedule) + config.ngram_reach
    field = 1 + reach if schedule else None
    encoder = Net(len(schedule) or config.n_encoder_sets or config.n_sets, field)
    n_layers = len(config.decoder_schedule) or config.n_decoder_sets or config.n_sets
    return _nets(config, encoder, Net(n_layers, receptive_field(config)), "column")


def _convs2s(config: ConvS2SConfig) -> Nets:
    pooling = ((config.d_embedding, config.pooling_width, 1),)
    keys = pooling if config.encoder == "pooling" else config.encoder_stack
    stacks = [keys, config.value_stack] if config.encoder == "conv" else [keys]
    # Each convolution looks half of its reach to the left, and of an odd one the longer half to the right.
    reaches = [[(width - 1) * dilation for _, width, dilation in stack] for stack in stacks]
    left = max(sum(reach // 2 for reach in stack) for stack in reaches)
    right = max(sum(reach - reach // 2 for reach in stack) for stack in reaches)
    n_layers = 0 if config.encoder == "pooling" else max(map(len, stacks))
    below = min(map(len, stacks)) if config.encoder == "conv" else 0  # others have values of the embedding
    decoder = Net(len(config.decoder_layers), receptive_field(config))
    above = config.attends[::-1].index(True) if config.source else 0
    field = left + 1 + right + config.ngram_reach
    return _nets(config, Net(n_layers, field), decoder, "attention", below + above)


NETS: Mapping[str, Callable[[Any], Nets]] = {
    "seq2seq": _seq2seq,
    "bahdanau": _bahdanau,
    "luong": _luong,
    "bytenet": _bytenet,
    "convs2s": _convs2s,
}


def _nets(config: ModelConfig, encoder: Net, decoder: Net, link: Link, passed: int = 0) -> Nets:
    return Nets(encoder, decoder, link, passed) if config.source else Nets(None, decoder, None)


def _kind(net: Net | None) -> str:
    if net is None:
        return "–"
    return "RNN" if net.field is None else "CNN" if net.n_layers else "mean"


def _time(nets: Nets, config: ModelConfig) -> str:
    """Return the cost in terms of S and T; every encoder here costs the same for each source byte."""
    if step_cost(config, 2 * FAR) > step_cost(config, FAR):
        return "S·T"
    window = nets.link == "attention"
    decoder = "cT" if nets.decoder.field is not None or window else "T"
    if nets.encoder is None:
        return decoder
    return f"{'S' if nets.encoder.field is None else 'cS'} + {decoder}"


def _own_path(net: Net, letter: str) -> Path:
    """Return the path through a net from end to end."""
    return Path(letter) if net.field is None else Path("c", net.n_layers)


def _source_path(nets: Nets, config: ModelConfig) -> Path | None:
    """Return the path from a source byte through the link to a prediction."""
    encoder, decoder, link = nets.encoder, nets.decoder, nets.link
    if encoder is None or link is None:
        return None
    if link == "attention":
        if step_cost(config, 2 * FAR) == step_cost(config, FAR):
            return Path(IN_WINDOW)
        return Path("c", 1 + nets.passed) if nets.passed else Path("1")
    source, target = _own_path(encoder, "S"), _own_path(decoder, "T")
    if link == "every step":
        return source
    if link == "start":
        return Path(f"{source.letters} + {target.letters}")
    if source.number is None:  # a signal may change nets at any column up to the prediction's
        return target
    return Path("c" if target.number else IN_FIELD, source.number + decoder.n_layers)


def _told(net: Net, side: str) -> str:
    if net.field is not None:
        return f"{net.field:,} bytes"
    told = {"forwards": "all up to its own", "backwards": "all from its own on"}
    return told.get(net.reads, f"all of the {side}")


HEAD = ("model", "nets", "time", "RP", "Path_S", "Path_T", "encoder's field", "decoder's field")
LEGEND = """\
S, T: bytes of source and target; c: layers or a window, whatever the lengths. RP: what is kept of a source
grows with it. Path_S, Path_T: layers and steps between a source or target byte and a prediction that depends
on it. Fields: bytes that a column of the encoder and a prediction depend on; past its field no target byte
has a path to a prediction."""


def table(models: Sequence[tuple[str, ModelConfig]]) -> str:
    """Return the table of named models, a row each, with an explanation of the letters."""
    rows = [HEAD, *(_row(name, properties(config)) for name, config in models)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, "", LEGEND])


def _row(name: str, found: Properties | None) -> tuple[str, ...]:
    if found is None:
        return (name, *("?" for _ in HEAD[1:]))
    kept = "–" if found.resolution is None else "yes" if found.resolution else "no"
    path_s = "–" if found.path_s is None else str(found.path_s)
    fields = (found.source_field or "–", found.target_field)
    return (name, found.nets, found.time, kept, path_s, str(found.path_t), *fields)
