"""Convert a trained rival to CTranslate2, so that its speed is that of a production engine.

python tools/rival/export.py runs/rival --precision int8
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import torch
from torch import nn

from bytenmt.errors import BytenmtError
from tools.extras import import_package, tool_parser
from tools.rival.model import Transformer
from tools.rival.recipe import load_model
from tools.rival.score import PRECISIONS, export_folder
from tools.rival.text import SubwordModel


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
    part.gamma = norm.weight.detach().numpy()
    part.beta = norm.bias.detach().numpy()


def _linear(part: Any, weight: torch.Tensor, bias: torch.Tensor) -> None:
    part.weight = weight.detach().numpy()
    part.bias = bias.detach().numpy()


def _attention(
    parts: Sequence[Any], attention: nn.MultiheadAttention, sizes: Sequence[int]
) -> None:
    """Copy attention weights.

    parts: linear layers of queries, keys and values, grouped by `sizes`, and last that of the
    output.
    """
    rows = [size * attention.embed_dim for size in sizes]
    whole, all_bias = attention.in_proj_weight, attention.in_proj_bias
    assert whole is not None and all_bias is not None
    weights, biases = (torch.split(tensor, rows) for tensor in (whole, all_bias))
    for part, weight, bias in zip(parts, weights, biases, strict=False):
        _linear(part, weight, bias)
    _linear(parts[-1], attention.out_proj.weight, attention.out_proj.bias)


def export(folder: Path, precision: str) -> Path:
    """Convert a run's best weights; return the folder. Raises BytenmtError."""
    model = load_model(folder)
    pieces = SubwordModel.load(folder)
    spec = build_specification(model, pieces.vocabulary(), model.shape.heads)
    spec.validate()
    spec.optimize(quantization=PRECISIONS[precision] if precision != "fp32" else None)
    written = export_folder(folder, precision)
    shutil.rmtree(written, ignore_errors=True)
    written.mkdir()
    spec.save(str(written))
    return written


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    parser.add_argument("folder", type=Path, help="run folder")
    parser.add_argument("--precision", choices=PRECISIONS, default="int8")
    args = parser.parse_args(arguments)
    try:
        written = export(args.folder, args.precision)
    except BytenmtError as error:
        sys.exit(f"Error: {error}")
    print(f"{written}: {sum(path.stat().st_size for path in written.iterdir()) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
