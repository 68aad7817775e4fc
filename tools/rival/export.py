"""Convert a trained rival to CTranslate2, so that its speed is that of a production engine.

    python tools/rival/export.py runs/rival --precision int8
    python tools/rival/export.py runs/rival --precision fp32 --check test.en --lines 200

--check translates lines greedily with the converted model and with PyTorch (without incremental decoding),
and prints how many are equal, and for each that differs the margin of PyTorch's choice at the first
difference. As engines add numbers in different orders, differences with a tiny margin are allowed. int8 is a
different model, for which only the count is meaningful.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import numpy as np
import torch
from torch import nn

from bytenmt.errors import BytenmtError
from tools.extras import import_package
from tools.rival.model import EOS, Transformer, decode_greedily
from tools.rival.recipe import load_model
from tools.rival.text import SubwordModel, pad_ids, read_lines
from tools.rival.translate import MOST_DECODED, PRECISIONS, Translator, export_folder

CLOSE = 1e-3  # nats: tolerance for another order of additions


def build_specification(model: Transformer, vocabulary: Sequence[str], heads: int) -> Any:
    """Return the model as a CTranslate2 specification: the same weights under other names."""
    stacks = len(model.encoder.layers), len(model.decoder.layers)
    spec = import_package("ctranslate2", "rival").specs.TransformerSpec.from_config(stacks, heads)
    table = model.embedding.weight.detach().numpy()
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = table
    spec.decoder.projection.weight = table
    for side, stack in ((spec.encoder, model.encoder), (spec.decoder, model.decoder)):
        _norm(side.layer_norm, stack.norm)
        for part, layer in zip(side.layer, stack.layers, strict=True):
            _norm(part.self_attention.layer_norm, layer.norm1)
            _attention(part.self_attention.linear, layer.self_attn, [3])
            _linear(part.ffn.linear_0, layer.linear1.weight, layer.linear1.bias)
            _linear(part.ffn.linear_1, layer.linear2.weight, layer.linear2.bias)
            _norm(part.ffn.layer_norm, layer.norm2 if side is spec.encoder else layer.norm3)
            if side is spec.decoder:
                _norm(part.attention.layer_norm, layer.norm2)
                _attention(part.attention.linear, layer.multihead_attn, [1, 2])
    spec.register_source_vocabulary(list(vocabulary))
    spec.register_target_vocabulary(list(vocabulary))
    return spec


def _norm(part: Any, norm: Any) -> None:
    part.gamma, part.beta = norm.weight.detach().numpy(), norm.bias.detach().numpy()


def _linear(part: Any, weight: torch.Tensor, bias: torch.Tensor) -> None:
    part.weight, part.bias = weight.detach().numpy(), bias.detach().numpy()


def _attention(parts: Sequence[Any], attention: nn.MultiheadAttention, sizes: Sequence[int]) -> None:
    """Copy attention weights.

    parts: linear layers of queries, keys and values, grouped by `sizes`, and last that of the output.
    """
    rows = [size * attention.embed_dim for size in sizes]
    assert attention.in_proj_weight is not None and attention.in_proj_bias is not None
    weights, biases = (torch.split(t, rows) for t in (attention.in_proj_weight, attention.in_proj_bias))
    for part, weight, bias in zip(parts, weights, biases, strict=False):
        _linear(part, weight, bias)
    _linear(parts[-1], attention.out_proj.weight, attention.out_proj.bias)


def export(folder: Path, precision: str) -> Path:
    """Convert a run's best weights; return the folder. Raises BytenmtError."""
    model, pieces = load_model(folder), SubwordModel.load(folder)
    spec = build_specification(model, pieces.vocabulary(), model.shape.heads)
    spec.validate()
    spec.optimize(quantization=PRECISIONS[precision] if precision != "fp32" else None)
    written = export_folder(folder, precision)
    shutil.rmtree(written, ignore_errors=True)
    written.mkdir()
    spec.save(str(written))
    return written


class Difference(NamedTuple):
    """A line that the two engines translate differently.

    line: its number; ours, theirs: texts of PyTorch and CTranslate2; margin: lead of PyTorch's choice at the
    first difference, in nats.
    """

    line: int
    ours: str
    theirs: str
    margin: float


def check(folder: Path, precision: str, lines: Sequence[str], most: int = MOST_DECODED) -> list[Difference]:
    """Return the lines with different greedy translations. most: maximum pieces of a translation."""
    model, pieces = load_model(folder), SubwordModel.load(folder)
    exported = Translator(folder, precision, most=most).pieces(lines)
    vocabulary, found = pieces.vocabulary(), []
    for begin in range(0, len(lines), 32):
        some = lines[begin : begin + 32]
        source, real = pad_ids([np.append(ids, EOS) for ids in pieces.ids(some)])
        rows, margins = decode_greedily(model, source, ~real, most)
        for i, row in enumerate(rows):
            own, other = [vocabulary[k] for k in row], exported[begin + i]
            if own != other:
                pairs = enumerate(zip(own, other, strict=False))
                at = next((k for k, (a, b) in pairs if a != b), min(len(own), len(other)))
                ours, theirs = pieces.text([own, other])
                found.append(Difference(begin + i + 1, ours, theirs, float(margins[i, at])))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="run folder")
    parser.add_argument("--precision", choices=PRECISIONS, default="int8")
    parser.add_argument("--check", type=Path, metavar="FILE", help="text to translate with both engines")
    parser.add_argument("--lines", type=int, default=200, help="number of first lines to check (%(default)s)")
    args = parser.parse_args(arguments)
    try:
        written = export(args.folder, args.precision)
        size = sum(path.stat().st_size for path in written.iterdir())
        print(f"{written}: {size / 1e6:.2f} MB")
        if args.check:
            lines = read_lines(args.check)[: args.lines]
            found = check(args.folder, args.precision, lines)
            print(f"{len(lines) - len(found)} of {len(lines)} lines equal PyTorch's")
            for one in found:
                print(f"line {one.line}, {one.margin:.2g} nats ahead:\n  {one.ours}\n  {one.theirs}")
            if args.precision == "fp32" and any(one.margin > CLOSE for one in found):
                sys.exit("Error: translations differ by more than rounding: the export is wrong")
    except BytenmtError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
