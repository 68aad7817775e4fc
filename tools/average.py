"""Average the weights of several checkpoints, which is often a little better than any of them.

    python tools/average.py RUN -o mean.safetensors
    python tools/average.py one.safetensors other.safetensors -o mean.safetensors

All must hold the same model. The mean is computed in float64 and written as a weights file, which
every command accepts; configuration, facts and buffers are those of the latest update.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import msgspec
import numpy as np

from bytenmt.checkpoints.quantize import write_rounded
from bytenmt.checkpoints.weights import prepare_output, read_run, restore_weights
from bytenmt.errors import BytenmtError, CheckpointError
from tools.extras import tool_parser


def average(paths: Sequence[Path], output: Path) -> str:
    """Write the mean of the weights of runs, their best ones, and weights files; return a line.

    Raises CheckpointError.
    """
    found = [read_run(path) for path in paths]
    files = [file for file, _ in found]
    stored = [one for _, one in found]
    prepare_output(output, files)
    for file, one in zip(files, stored, strict=True):
        if one.config.model != stored[0].config.model:
            raise CheckpointError(f"{file} holds another model than {files[0]}")
    latest = max(stored, key=lambda one: one.facts.update or 0)
    updates = tuple(sorted(one.facts.update or 0 for one in stored))
    arrays = [restore_weights(one.arrays) for one in stored]
    mean = {
        name: np.mean([one[name].astype(np.float64) for one in arrays], axis=0).astype(np.float32)
        for name in arrays[0]
    }
    facts = msgspec.structs.replace(latest.facts.for_other_weights(), update=updates[-1])
    write_rounded(output, mean, latest.config, facts, "fp32")
    listed = ", ".join(map(str, updates))
    return f"{output}: the mean of {len(files)} checkpoints, of updates {listed}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="runs or weights")
    parser.add_argument("-o", "--output", type=Path, required=True, help="weights file to write")
    args = parser.parse_args(arguments)
    try:
        print(average(args.models, args.output), file=sys.stderr)
    except BytenmtError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
