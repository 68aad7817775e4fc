"""The sections of the convolutional architectures: their sizes and options, with defaults and bounds.

Says which options do not go together; knows no other section, and no tensors.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from bytenmt.config.model_sections import Layers, ModelSection, OwnLayers, Width

Kernel = Annotated[int, Meta(ge=1, le=1 << 10)]
Dilation = Annotated[int, Meta(ge=1, le=1 << 12)]
MOST_LAYERS = 256  # of a stack of convolutions
LONGEST_FIELD = 1 << 14  # bytes before it that a convolutional prediction depends on: each is kept
ConvLayer = tuple[Width, Kernel]  # channels, kernel width
ConvLayers = Annotated[tuple[ConvLayer, ...], Meta(max_length=MOST_LAYERS)]
Dilations = Annotated[tuple[Dilation, ...], Meta(max_length=MOST_LAYERS)]
AttentionLayers = Annotated[
    tuple[Annotated[int, Meta(ge=0, lt=MOST_LAYERS)], ...], Meta(max_length=MOST_LAYERS)
]
LARGEST_TABLE = 1 << 25  # numbers of a table that no weights file holds


class ByteNetConfig(ModelSection, frozen=True, kw_only=True, tag="bytenet"):
    """Dilated convolutions stacked on the encoder (Kalchbrenner et al. 2016)."""

    d_channels: Width  # the paper's d: inside a block; 2d between blocks
    n_sets: Layers  # of both sides, where they have no number of their own
    n_encoder_sets: OwnLayers = 0
    n_decoder_sets: OwnLayers = 0
    # Layers of gated recurrent units, 2d wide and as many as there would be sets, in place of the blocks.
    recurrent: Literal["none", "decoder", "both"] = "none"
    dilations: Dilations = (1, 2, 4, 8, 16)  # []: where no net is convolutional
    encoder_dilations: Dilations = ()  # []: dilations
    kernel_width: Kernel = 3
    block: Literal["relu", "multiplicative"] = "relu"
    # "fit": a and b are found in the training pairs, and stand below in the run's own configuration.
    unfolding: Literal["given", "fit"] = "given"
    unfolding_factor: Annotated[float, Meta(gt=0.0, le=16.0)] = 1.2  # a of |t^| = a|s| + b
    unfolding_offset: Annotated[int, Meta(ge=0, le=1 << 12)] = 0  # b, in bytes
    # How the encoder's column joins the decoder's input: d channels beside d, or 2d added to 2d.
    stacking: Literal["concat", "add"] = "concat"
    # Times which the columns are as large when training starts; part of the first weights alone.
    encoder_scale: Annotated[float, Meta(gt=0.0, le=100.0)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.source:
            ignored = {
                "n_encoder_sets": self.n_encoder_sets,
                "encoder_dilations": self.encoder_dilations,
                "unfolding": self.unfolding != "given",
                "stacking": self.stacking != "concat",
                "encoder_scale": self.encoder_scale != 1,
            }
            for name in (name for name, given in ignored.items() if given):
                raise ValueError(f"{name} would be ignored without a source: leave it out")
        self._check_recurrent()
        for side, schedule in (("encoder", self.encoder_schedule), ("decoder", self.decoder_schedule)):
            if len(schedule) > MOST_LAYERS:
                raise ValueError(
                    f"n_sets times the dilations are {len(schedule)} blocks in the {side}:"
                    f" expected {MOST_LAYERS} or fewer"
                )
            _check_field((self.kernel_width - 1) * sum(schedule))

    def _check_recurrent(self) -> None:
        """Raise ValueError for options of convolutions where no net has some."""
        if self.recurrent == "both" and not self.source:
            raise ValueError('recurrent = "both" has but a decoder without a source: set "decoder"')
        if self.recurrent == "none" or self.recurrent == "decoder" and self.source:
            if not self.dilations:
                raise ValueError("dilations is empty: give one or more")
            return
        where = f'with recurrent = "{self.recurrent}"' + ("" if self.source else " and without a source")
        if self.dilations:
            raise ValueError(f"dilations would be ignored {where}: set it to []")
        for name, told, default in (
            ("encoder_dilations", "[]", ()),
            ("kernel_width", "3", 3),
            ("block", '"relu"', "relu"),
        ):
            if getattr(self, name) != default:
                raise ValueError(f"{name} would be ignored {where}: set it to {told}")

    @property
    def encoder_recurrence(self) -> int:
        """Recurrent layers of the encoder."""
        return (self.n_encoder_sets or self.n_sets) if self.recurrent == "both" else 0

    @property
    def decoder_recurrence(self) -> int:
        """Recurrent layers of the decoder."""
        return 0 if self.recurrent == "none" else self.n_decoder_sets or self.n_sets

    @property
    def encoder_schedule(self) -> tuple[int, ...]:
        """The dilation of each block of the encoder; empty without a source, and where it is recurrent."""
        n_sets = (self.n_encoder_sets or self.n_sets) if self.source and self.recurrent != "both" else 0
        return (self.encoder_dilations or self.dilations) * n_sets

    @property
    def decoder_schedule(self) -> tuple[int, ...]:
        """The dilation of each block of the decoder; empty where it is recurrent."""
        return () if self.recurrent != "none" else self.dilations * (self.n_decoder_sets or self.n_sets)

    @property
    def d_column(self) -> int:
        """Channels of an encoder column."""
        return self.d_channels * (2 if self.stacking == "add" else 1)

    @property
    def d_read(self) -> int:
        """Channels of what the decoder reads of a byte, 2d together with the column that stands beside it."""
        return self.d_channels * (1 if self.source and self.stacking == "concat" else 2)


class ConvS2SConfig(ModelSection, frozen=True, kw_only=True, tag="convs2s"):
    """Gated convolutions with attention in the decoder's layers (Gehring et al. 2017), and the encoders of
    Gehring et al. 2016 in place of the gated one."""

    encoder_layers: ConvLayers = ()  # of "conv" those that make the keys
    decoder_layers: Annotated[ConvLayers, Meta(min_length=1)]
    encoder_dilations: Dilations = ()  # one a layer of encoder_layers; []: none is dilated
    decoder_dilations: Dilations = ()  # one a layer of decoder_layers; []: none is dilated
    # "pooling": the mean of each byte's neighbours, without weights; "conv": two stacks of tanh layers, one
    # that makes keys and one that makes values.
    encoder: Literal["gated", "pooling", "conv"] = "gated"
    value_layers: ConvLayers = ()  # of "conv", those that make the values
    pooling_width: Kernel = 5  # bytes that "pooling" takes the mean of
    positions: Literal["learned", "sinusoidal", "off"] = "learned"
    n_positions: Annotated[int, Meta(ge=0, le=1 << 20)] = (
        4096  # rows of the position tables, the last one shared by all beyond; 0: none
    )
    # The layers of the decoder that attend, the lowest one is 0; []: all of them.
    attention_layers: AttentionLayers = ()
    attention_scaling: Literal["sqrt", "none"] = "sqrt"  # times the root of the source's bytes
    weight_norm: bool = True  # weights as direction and length, everywhere but in tables

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.source:
            self._check_encoder()
        elif self.encoder_layers:
            raise ValueError("encoder_layers would be ignored without a source: set it to []")
        for name, ignored in self._ignored().items():
            if ignored is not None:
                raise ValueError(f"{name} would be ignored {ignored}: leave it out")
        for side, layers in (("encoder", self.encoder_layers), ("decoder", self.decoder_layers)):
            dilations = self.encoder_dilations if side == "encoder" else self.decoder_dilations
            if dilations and len(dilations) != len(layers):
                raise ValueError(
                    f"{side}_dilations has {len(dilations)} numbers for {len(layers)} {side}_layers:"
                    " give one a layer, or [] for none"
                )
        self._check_attention()
        if self.positions == "sinusoidal" and not self.n_positions:
            raise ValueError('n_positions = 0 leaves no row for positions = "sinusoidal": raise it')
        if self.positions == "sinusoidal" and self.n_positions * self.d_embedding > LARGEST_TABLE:
            raise ValueError(
                f"n_positions times d_embedding is over {LARGEST_TABLE:,}: lower one of them,"
                ' positions = "sinusoidal" are computed in advance'
            )
        _check_field(sum((k - 1) * r for _, k, r in self.decoder_stack))
        if self.encoder_dilations:
            _check_field(sum((k - 1) * r for _, k, r in self.encoder_stack))

    def _check_encoder(self) -> None:
        """Raise ValueError where an encoder lacks its layers, or has some that it would ignore."""
        if self.encoder == "pooling":
            if self.encoder_layers:
                raise ValueError('encoder_layers would be ignored with encoder = "pooling": set it to []')
            return
        if not self.encoder_layers:
            raise ValueError("encoder_layers is empty: give a layer or more")
        if self.encoder == "conv" and not self.value_layers:
            raise ValueError('value_layers is empty: encoder = "conv" needs a layer or more')

    def _ignored(self) -> dict[str, str | None]:
        """Where options would be ignored that are given, by their names; None of others."""
        alone = None if self.source else "without a source"
        elsewhere = alone or f'with encoder = "{self.encoder}"'
        return {
            "encoder": alone if self.encoder != "gated" else None,
            "attention_layers": alone if self.attention_layers else None,
            "attention_scaling": alone if self.attention_scaling != "sqrt" else None,
            "value_layers": elsewhere if self.value_layers and self.encoder != "conv" else None,
            "pooling_width": elsewhere if self.pooling_width != 5 and self.encoder != "pooling" else None,
            "encoder_dilations": elsewhere if self.encoder_dilations and not self.encoder_layers else None,
        }

    def _check_attention(self) -> None:
        """Raise ValueError for layers that are not there, or not in order."""
        for one in self.attention_layers:
            if one >= len(self.decoder_layers):
                raise ValueError(
                    f"attention_layers has {one}, but decoder_layers are 0 to {len(self.decoder_layers) - 1}"
                )
        if list(self.attention_layers) != sorted(set(self.attention_layers)):
            raise ValueError("attention_layers: expected each layer once, the lowest first")

    @property
    def encoder_stack(self) -> tuple[tuple[int, int, int], ...]:
        """Channels, kernel width and dilation of each layer of the encoder, or of its keys."""
        return _stack(self.encoder_layers, self.encoder_dilations)

    @property
    def value_stack(self) -> tuple[tuple[int, int, int], ...]:
        """The same of the layers that make the values."""
        return _stack(self.value_layers, ())

    @property
    def decoder_stack(self) -> tuple[tuple[int, int, int], ...]:
        """The same of the decoder."""
        return _stack(self.decoder_layers, self.decoder_dilations)

    @property
    def attends(self) -> tuple[bool, ...]:
        """Of each layer of the decoder, whether it attends."""
        chosen = self.attention_layers or range(len(self.decoder_layers))
        return tuple(self.source and one in chosen for one in range(len(self.decoder_layers)))

    @property
    def position_kind(self) -> Literal["learned", "sinusoidal", "off"]:
        """Of the positions, a table without rows taken for none."""
        return self.positions if self.n_positions else "off"


def _stack(layers: tuple[ConvLayer, ...], dilations: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """Each layer together with its dilation."""
    each = dilations or (1,) * len(layers)
    return tuple((width, kernel, dilation) for (width, kernel), dilation in zip(layers, each, strict=True))


def _check_field(reach: int) -> None:
    """Raise ValueError where so many bytes before a prediction would have to be kept."""
    if reach > LONGEST_FIELD:
        raise ValueError(
            f"the receptive field is {reach + 1:,} bytes: expected {LONGEST_FIELD + 1:,} or fewer"
        )
