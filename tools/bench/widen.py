"""Enlarge a trained ByteNet or ConvS2S to the sizes of a larger preset, with equal outputs up to rounding.

    python tools/bench/widen.py RUN -o large.safetensors --preset large

For benchmarks: it shows the cost of a large model of trained quality on real text without training one. The
texts stay the same; speed and memory become those of the preset. In ConvS2S new channels are zero and
additional layers pass on their input. ByteNet's layer norm depends on all channels, so each channel is
repeated, as often as fits into the preset (the factor is printed); additional blocks add nothing to the
residual stream. Half and integer precisions round the larger model differently.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from bytenmt.architectures.bytenet.config import ByteNetConfig
from bytenmt.architectures.convs2s.config import ConvS2SConfig
from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import build_model
from bytenmt.atomic_file import replace_synced
from bytenmt.checkpoints.checkpoint import build
from bytenmt.checkpoints.tensor_file import Array, entry, serialise
from bytenmt.checkpoints.weights import StoredWeights, check_output, metadata, read_run, restored
from bytenmt.config.schema import PARALLEL, ModelConfig, architecture, parse_config
from bytenmt.config.tree import (
    preset_tree,
)
from bytenmt.errors import BytenmtError, ConfigError
from bytenmt.utf8 import BOS, EOS

Floats = npt.NDArray[np.float32]
Arrays = dict[str, Array]
SCHEDULE = ("n_sets", "n_encoder_sets", "n_decoder_sets", "dilations", "encoder_dilations")
CONVS2S_OPTIONS = (
    *("encoder", "encoder_dilations", "decoder_dilations", "positions"),
    *("attention_layers", "attention_scaling", "weight_norm"),
)
COMPARED_TEXT = "Zwei Männer in grünen Hemden stehen vor einem Haus.".encode()  # for the comparison of logits


def widen_model(contents: StoredWeights, preset: str) -> StoredWeights:
    """Return a run's weights in the sizes of a preset, in float32. Raises ConfigError if they do not fit."""
    config = contents.config
    arrays: Arrays = restored(contents.arrays)
    name, own = architecture(config.model), config.model
    if own.is_serial:
        raise ConfigError(f"a {name} cannot be made wider: give a run of {' or '.join(PARALLEL)}")
    target = parse_config(preset_tree(name, preset, own.source)).model
    model: ModelConfig
    if own.d_embedding > target.d_embedding:
        raise _misfit(preset, f"embeddings of {target.d_embedding}", str(own.d_embedding))
    if isinstance(own, ByteNetConfig):
        assert isinstance(target, ByteNetConfig)
        model, arrays = _bytenet(arrays, own, target, preset)
    else:
        assert isinstance(own, ConvS2SConfig) and isinstance(target, ConvS2SConfig)
        model, arrays = _convs2s(arrays, own, target, preset)
    larger = msgspec.structs.replace(config, model=model)
    return StoredWeights(arrays, larger, contents.facts, "fp32")


def _check_defaults(own: ModelConfig, names: Sequence[str]) -> None:
    """Raise ConfigError where an option that a new layer would interact with is not its default."""
    for field in msgspec.structs.fields(own):
        value = getattr(own, field.name)
        if field.name in names and value != field.default:
            raise ConfigError(f"a run with {field.name} = {value!r} cannot be made wider: give one without")


def _misfit(preset: str, has: str, needed: str) -> ConfigError:
    """Return the error for a preset that is too small or too different for the run."""
    return ConfigError(f"preset {preset} has {has}, the run {needed}: give another preset or run")


def _shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a model's parameters by name."""
    with torch.device("meta"):
        return {name: tuple(part.shape) for name, part in build_model(config).named_parameters()}


def _padded(array: Floats, shape: tuple[int, ...]) -> Floats:
    """Return the array extended with zeros to a shape."""
    out = np.zeros(shape, np.float32)
    out[tuple(map(slice, array.shape))] = array
    return out


def _bytenet(
    arrays: Arrays, own: ByteNetConfig, target: ByteNetConfig, preset: str
) -> tuple[ByteNetConfig, Arrays]:
    """Repeat every channel k times, so that the halves of x and the parts of the gates keep their order.

    Weights that read a channel are divided by k over its copies.
    """
    k = target.d_channels // own.d_channels
    if k < 1:
        raise _misfit(preset, f"{target.d_channels} channels", str(own.d_channels))
    if own.kernel_width != target.kernel_width:
        raise _misfit(preset, f"kernels of {target.kernel_width}", str(own.kernel_width))
    if own.tie_embedding:
        raise ConfigError("the run ties its output layer to its embedding: give one trained without")
    larger = msgspec.structs.replace(
        own,
        d_embedding=target.d_embedding,
        d_channels=k * own.d_channels,
        **{name: getattr(target, name) for name in SCHEDULE},
    )
    encoder = _places(own.encoder_schedule, target.encoder_schedule, preset, "encoder")
    decoder = _places(own.decoder_schedule, target.decoder_schedule, preset, "decoder")
    places = {"encoder": encoder, "decoder": decoder}
    out: Arrays = {}
    for name, shape in _shapes(larger).items():
        side, _, rest = name.partition(".blocks.")
        if rest:
            index, _, part = rest.partition(".")
            block = places[side][int(index)]
            # A new block copies the weights of another one, except its last map, which is zero.
            array = arrays[f"{side}.blocks.{block or 0}.{part}"]
            out[name] = _repeated(array, k)
            if block is None and part.startswith("expand."):
                out[name] = np.zeros(shape, np.float32)
        elif name in ("embedding.weight", "decoder.output.bias"):
            out[name] = _padded(arrays[name], shape)
        elif name.endswith("input.weight"):
            out[name] = _padded(np.repeat(arrays[name], k, axis=0), shape)
        elif name == "decoder.output.weight":
            out[name] = (np.repeat(arrays[name], k, axis=1) / k).astype(np.float32)
        else:
            out[name] = _repeated(arrays[name], k)
        assert out[name].shape == shape, name
    return larger, out


def _repeated(array: Floats, k: int) -> Floats:
    """Repeat the values of a vector or the outputs of a matrix k times; spread its inputs over k copies."""
    out = np.repeat(array, k, axis=0)
    return out if array.ndim == 1 else (np.repeat(out, k, axis=-1) / k).astype(np.float32)


def _places(own: Sequence[int], target: Sequence[int], preset: str, side: str) -> list[int | None]:
    """Return for each target dilation the index of the run's block at that place, or None for a new block.

    Raises ConfigError where the run's blocks do not fit in their order.
    """
    found: list[int | None] = []
    n_placed = 0
    for dilation in target:
        fits = n_placed < len(own) and own[n_placed] == dilation
        found.append(n_placed if fits else None)
        n_placed += fits
    if n_placed < len(own):
        raise _misfit(preset, f"{side} dilations {list(target)}", str(list(own)))
    return found


def _convs2s(
    arrays: Arrays, own: ConvS2SConfig, target: ConvS2SConfig, preset: str
) -> tuple[ConvS2SConfig, Arrays]:
    """Pad the channels with zeros, and add layers whose outputs are zero.

    Such a layer multiplies its input by sqrt(1/2); the map after the last layer is scaled to compensate.
    """
    _check_defaults(own, CONVS2S_OPTIONS)
    larger = msgspec.structs.replace(
        own,
        d_embedding=target.d_embedding,
        encoder_layers=target.encoder_layers,
        decoder_layers=target.decoder_layers,
    )
    layers = {"encoder": (own.encoder_layers, target.encoder_layers)}
    layers |= {"decoder": (own.decoder_layers, target.decoder_layers)}
    for side, (run, new) in layers.items():
        if len(set(run)) > 1:
            raise ConfigError(f"the run's {side} layers differ in width or kernel: give one whose are alike")
        if len(run) > len(new) or run and (run[0][0] > new[0][0] or run[0][1] != new[0][1]):
            has, needed = (f"{len(c)} {side} layers of {list(c[0])}" for c in (new, run))
            raise _misfit(preset, has, needed)
    out: Arrays = {}
    for name, shape in _shapes(larger).items():
        side, _, rest = name.partition(".layers.")
        index, _, part = rest.partition(".")
        n_own = len(layers[side][0]) if rest else 0
        more = bool(rest) and int(index) >= n_own
        array = arrays[f"{side}.layers.{int(index) % n_own}.{part}" if rest else name]
        if part.startswith("convolution."):  # the halves of the gated linear unit
            halves = array.reshape(2, -1, *array.shape[1:])
            out[name] = _padded(halves, (2, shape[0] // 2, *shape[1:])).reshape(shape)
        else:
            out[name] = _padded(array, shape)
        if name.endswith(".v"):
            # Weight norm divides by the norm of v: rows of zeros get any direction, as their g is 0.
            rows = out[name].reshape(len(out[name]), -1)
            rows[~rows.any(axis=1), 0] = 1
        elif more:
            out[name][...] = 0
    for name, (run, new) in zip(("encoder.output", "decoder.last"), layers.values(), strict=True):
        if run:
            out[f"{name}.weight.g"] *= np.float32(2 ** ((len(new) - len(run)) / 2))
    return larger, out


@torch.no_grad()
def difference(before: StoredWeights, after: StoredWeights, path: Path) -> float:
    """Return the largest difference between the logits of both models along a text."""
    found = []
    for contents in (before, after):
        model = build(contents, path).eval()
        src = torch.tensor(
            [[*COMPARED_TEXT, EOS][: None if contents.config.model.source else 0]], dtype=torch.uint8
        )
        memory = model.encode(src, torch.tensor([src.shape[1]]))
        found.append(
            model(torch.tensor([[BOS, *COMPARED_TEXT]], dtype=torch.uint8), memory, model.start(memory))[0]
        )
    return float((found[0] - found[1]).abs().max())


def size(contents: StoredWeights) -> str:
    """Describe the size of a model in words."""
    model = contents.config.model
    if isinstance(model, ByteNetConfig):
        return f"{len(model.decoder_schedule)} blocks of {model.d_channels} channels"
    assert isinstance(model, ConvS2SConfig)
    return f"{len(model.decoder_layers)} layers of {model.decoder_layers[0][0]} channels"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description="Enlarge a trained convolutional model to the sizes of a larger preset."
    )
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--preset", choices=tuple(PRESETS), required=True)
    options = parser.parse_args(arguments)
    try:
        check_output(options.output, [options.run])
        file, contents = read_run(options.run)
        larger = widen_model(contents, options.preset)
        largest = difference(contents, larger, file)
        file_metadata = metadata(larger.config, larger.facts, "weights")
        entries = {name: entry(array) for name, array in larger.arrays.items()}
        replace_synced(options.output, serialise(entries, file_metadata))
    except BytenmtError as error:
        sys.exit(f"Error: {error}")
    except OSError as error:
        sys.exit(f"Error: cannot write {options.output}: {error.strerror}")
    print(
        f"{options.output}: {size(larger)} for {size(contents)}, logits up to {largest:.1e} apart",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
