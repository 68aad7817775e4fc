"""The sections of the recurrent architectures: their sizes and options, with defaults and bounds.

Knows no other section, and no tensors; the convolutional two stand in convolutional_sections.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Literal

from msgspec import Meta, Struct

Dropout = Annotated[float, Meta(ge=0.0, lt=1.0)]
# Bounds of a model's sizes, far beyond what anybody trains: a configuration may come from a stranger, and
# what is counted or built from it must end.
Width = Annotated[int, Meta(ge=1, le=1 << 16)]
Layers = Annotated[int, Meta(ge=1, le=256)]
OwnLayers = Annotated[int, Meta(ge=0, le=256)]  # of one side; 0: as many as are given for both
Reset = Literal["before", "after"]  # the product with the state before
OwnReset = Literal["shared", "before", "after"]  # of one side; shared: as is given for both
NGRAM_ROWS = 1 << 13  # of each table of n-grams, unless told otherwise
LOCAL_WINDOW = 50  # bytes to either side: the paper's ten words are five or six times as many bytes


def _refuse(useless: bool, given: Mapping[str, bool], why: str) -> None:
    """Raise ValueError for the first option that is given where nothing would heed it."""
    for name in (name for name, is_given in given.items() if is_given and useless):
        raise ValueError(f"{name} {why}: leave it out")


class Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the configuration: immutable, no unknown keys."""


class ModelSection(Section, frozen=True, kw_only=True, tag_field="arch"):
    """What all architectures have; `tag` is the name of each."""

    d_embedding: Width
    source: bool = True  # false: a byte language model, without an encoder and without attention
    dropout: Dropout = 0.1
    tie_embedding: bool = False  # the output layer uses the byte embedding's table
    # Tables of hashed byte n-grams, added to the byte embedding: the n of each, growing; []: none.
    ngrams: tuple[Annotated[int, Meta(ge=2, le=8)], ...] = ()
    ngram_rows: Annotated[int, Meta(ge=0, le=1 << 20)] = 0  # of each table, a power of two; 0: 8192
    ngram_dropout: Dropout = 0.0  # chance that a look-up (an n at a position) reads zero in training
    ngram_case: Literal["kept", "folded"] = "kept"  # folded: A to Z are hashed as a to z

    def __post_init__(self) -> None:
        self._check_ngrams()

    def _check_ngrams(self) -> None:
        """Raise ValueError for options of n-gram tables that do not go together."""
        if any(n >= after for n, after in pairwise(self.ngrams)):
            raise ValueError(f"ngrams = {list(self.ngrams)}: expected growing numbers from 2 to 8, each once")
        rows = self.ngram_rows
        if rows & (rows - 1) or 0 < rows < 8:
            raise ValueError(f"ngram_rows = {rows}: expected a power of two, 8 or more (or 0: {NGRAM_ROWS})")
        given = {"ngram_rows": rows > 0, "ngram_dropout": self.ngram_dropout > 0}
        given["ngram_case"] = self.ngram_case != "kept"
        _refuse(not self.ngrams, given, "would be ignored without ngrams")

    @property
    def ngram_reach(self) -> int:
        """Bytes before a byte that its embedding depends on: one less than the longest n-gram has."""
        return max(self.ngrams, default=1) - 1

    @property
    def n_ngram_rows(self) -> int:
        """Rows of each table of n-grams."""
        return self.ngram_rows or NGRAM_ROWS


class _Stacked(ModelSection, frozen=True, kw_only=True):
    """What the two with recurrent layers above each other have."""

    d_hidden: Width
    n_layers: Layers = 1  # of both sides, where they have no number of their own
    n_encoder_layers: OwnLayers = 0
    n_decoder_layers: OwnLayers = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.source and self.n_encoder_layers:
            raise ValueError("n_encoder_layers would be ignored without a source: leave it out")

    @property
    def encoder_depth(self) -> int:
        """Layers of the encoder; 0 without a source."""
        return (self.n_encoder_layers or self.n_layers) if self.source else 0

    @property
    def decoder_depth(self) -> int:
        """Layers of the decoder."""
        return self.n_decoder_layers or self.n_layers

    @property
    def starts_from(self) -> tuple[int, ...]:
        """The layer of the encoder from whose last state each of the decoder's starts: the two stacks stand
        top to top, and a layer below the encoder's lowest starts from that one. Empty without a source."""
        below = self.encoder_depth - self.decoder_depth
        return tuple(max(0, layer + below) for layer in range(self.decoder_depth)) if self.source else ()


class Seq2SeqConfig(_Stacked, frozen=True, kw_only=True, tag="seq2seq"):
    """GRU or LSTM encoder-decoder (Cho et al. 2014, Sutskever et al. 2014)."""

    cell: Literal["gru", "lstm"] = "gru"
    context: Literal["start", "every_step"] = "start"
    gru_reset: Reset = "before"  # of both sides, where they have none of their own
    encoder_reset: OwnReset = "shared"
    decoder_reset: OwnReset = "shared"
    reset_context: bool = False  # the decoder's reset gate acts on the context as well: r * (U h + C c)
    read_out_kind: Literal["auto", "linear", "maxout"] = "auto"  # auto: maxout with context = "every_step"
    reverse_source: bool = True
    init: Literal["scaled", "paper"] = "scaled"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.source and self.context == "every_step":
            raise ValueError('context = "every_step" shows a source at every step: without one set "start"')
        if not self.source and self.encoder_reset != "shared":
            raise ValueError("encoder_reset would be ignored without a source: leave it out")
        if self.cell == "lstm":
            own = {"encoder_reset": self.encoder_reset, "decoder_reset": self.decoder_reset}
            resets = {"gru_reset": self.gru_reset != "before"}
            resets |= {name: value != "shared" for name, value in own.items()}
            for name in (name for name, given in resets.items() if given):
                raise ValueError(f'{name} would be ignored with cell = "lstm": leave it out')
        if self.reset_context and self.context != "every_step":
            raise ValueError('reset_context = true resets what context = "every_step" shows: set that too')
        if self.reset_context and (self.cell == "lstm" or self.resets[1] == "before"):
            needed = 'cell = "gru"' if self.cell == "lstm" else 'decoder_reset = "after"'
            raise ValueError(f"reset_context = true resets after the product: set {needed} with it")
        if self.d_hidden == 1 and self.has_maxout:
            raise ValueError(
                'd_hidden = 1 leaves nothing to read out with context = "every_step" or'
                ' read_out_kind = "maxout": set 2 or more'
            )

    @property
    def resets(self) -> tuple[Reset, Reset]:
        """Where the reset stands in the encoder's and in the decoder's gated recurrent units."""
        encoder, decoder = (
            self.gru_reset if own == "shared" else own for own in (self.encoder_reset, self.decoder_reset)
        )
        return encoder, decoder

    @property
    def has_maxout(self) -> bool:
        """Whether the read-out takes the larger of each pair of units."""
        return self.read_out_kind == "maxout" or (
            self.read_out_kind == "auto" and self.context == "every_step"
        )

    @property
    def n_states(self) -> int:
        """Vectors of d_hidden numbers that the decoder hands on: a layer's h, and its c in an LSTM."""
        return self.decoder_depth * (2 if self.cell == "lstm" else 1)


class BahdanauConfig(ModelSection, frozen=True, kw_only=True, tag="bahdanau"):
    """Additive attention (Bahdanau et al. 2015)."""

    d_hidden: Width
    d_attention: Width
    d_maxout: Width
    n_encoder_layers: Layers = 1  # each both ways; the decoder has one
    read_out: Literal["previous", "current"] = "previous"  # the state that the read-out sees
    init: Literal["scaled", "paper"] = "scaled"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.source and self.n_encoder_layers > 1:
            raise ValueError("n_encoder_layers would be ignored without a source: leave it out")


class LuongConfig(_Stacked, frozen=True, kw_only=True, tag="luong"):
    """Stacked LSTM with attention and input feeding (Luong et al. 2015)."""

    n_layers: Layers = 2
    # Over the whole source; over a window around a position that moves on with the target (m), or that is
    # predicted (p); or none: the encoder's last states are all that the decoder knows.
    attention: Literal["global", "local-m", "local-p", "off"] = "global"
    # Of the decoder's state and one of the encoder's; location is of the decoder's state alone.
    score: Literal["dot", "general", "concat", "location"] = "general"
    n_locations: Annotated[int, Meta(ge=0, le=1 << 16)] = 0  # location: source bytes with a score, EOS one
    location_softmax: Literal["once", "twice"] = "once"  # twice: the score is a softmax already
    attention_window: Annotated[int, Meta(ge=0, le=1 << 20)] = 0  # local: bytes to either side; 0: 50
    # Local: weights or scores times a Gaussian around the position. after: the softmax, so that they do not
    # add up to 1; inside: the scores; auto: after in local-p, none in local-m.
    gaussian: Literal["auto", "after", "inside"] = "auto"
    input_feeding: bool = True
    reverse_source: bool = False
    init: Literal["scaled", "paper"] = "scaled"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.source and self.input_feeding:
            raise ValueError("input_feeding is of the attention's outcome: without a source set it to false")
        off, by_location = self.attention == "off", self.score == "location"
        if off and self.input_feeding:
            raise ValueError(
                'input_feeding is of the attention\'s outcome: with attention = "off" set it to false'
            )
        attention, score = f'attention = "{self.attention}"', f'score = "{self.score}"'
        given = {attention: self.attention != "global", score: by_location}
        _refuse(not self.source, given, "would be ignored without a source")
        _refuse(off, {score: self.score != "general"}, f"would be ignored with {attention}")
        given = {"n_locations": self.n_locations > 0, "location_softmax": self.location_softmax != "once"}
        _refuse(not by_location, given, f'is of score = "location", not of {score}')
        given = {"attention_window": self.attention_window > 0, "gaussian": self.gaussian != "auto"}
        _refuse(not self.local, given, f"is of local attention, not of {attention}")
        if by_location and not self.n_locations:
            raise ValueError(
                'score = "location" has a weight for each place of a source: set n_locations to the bytes of'
                " the longest, its end counted"
            )

    @property
    def attends(self) -> bool:
        """Whether there is any attention."""
        return self.source and self.attention != "off"

    @property
    def local(self) -> bool:
        return self.attention in ("local-m", "local-p")

    @property
    def by_place(self) -> bool:
        """Whether it matters to attention where in the source a byte stands."""
        return self.local or self.score == "location"

    @property
    def window(self) -> int:
        """D, in bytes to either side; 0: the whole source."""
        return (self.attention_window or LOCAL_WINDOW) if self.local else 0

    @property
    def bell(self) -> Literal["none", "after", "inside"]:
        """Where the Gaussian is."""
        if self.gaussian == "auto":
            return "after" if self.attention == "local-p" else "none"
        return self.gaussian
