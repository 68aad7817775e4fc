"""Translate simultaneously with a wait-k Transformer, and print quality and latency for each wait.

    python tools/rival/simultaneous.py runs/rival --wait 1,2,4,8 --src test.de --ref test.en -o results.jsonl

The run was trained with --waits. Wait-k counts subword pieces; a source word counts as read when its first
piece has come, which favours the rival: the pieces of a word are known only when the word has ended. Latency
and quality are computed by the code of `bytenmt evaluate --simultaneous`. Decoding is greedy, in PyTorch.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

import numpy as np

from bytenmt.errors import BytenmtError
from bytenmt.evaluation.latency import SimultaneousLine, mean_latency
from bytenmt.evaluation.scores import text_scores
from tools.rival.model import EOS, Transformer, decode_greedily
from tools.rival.recipe import RunInfo, load_model
from tools.rival.text import SubwordModel, pad_ids, read_lines
from tools.rival.translate import MOST_DECODED

BATCH = 32  # lines


def translate_lines(
    model: Transformer, pieces: SubwordModel, lines: Sequence[str], wait: int
) -> list[SimultaneousLine]:
    """Translate lines with wait-k in pieces. wait 0: each line when it has ended."""
    order = sorted(range(len(lines)), key=lambda i: len(lines[i]))
    found: dict[int, SimultaneousLine] = {}
    for start in range(0, len(lines), BATCH):
        rows = order[start : start + BATCH]
        some = [lines[i] for i in rows]
        sources = pieces.ids(some)
        padded, real = pad_ids([np.append(ids, EOS) for ids in sources])
        limit = min(MOST_DECODED, 2 * padded.shape[1] + 20)
        outputs, _ = decode_greedily(model, padded, ~real, limit, wait)
        for i, line, ends, output in zip(rows, some, pieces.ends(some), outputs, strict=True):
            found[i] = line_with_reads(line, ends, pieces, output, wait)
    return [found[i] for i in range(len(lines))]


def line_with_reads(
    line: str, ends: Sequence[int], pieces: SubwordModel, output: Sequence[int], wait: int
) -> SimultaneousLine:
    """Return a translated line with the source characters that had come at each of its characters.

    ends: the characters of the line up to the end of each of its pieces. output: the ids of the translation.
    """
    texts = pieces.text([output[: i + 1] for i in range(len(output))])
    reads: list[int] = []
    for i, text in enumerate(texts):
        n_read = wait + i if wait else len(ends)
        came = ends[min(n_read, len(ends)) - 1] if ends else 0
        reads += [came] * (len(text) - len(reads))
    final = texts[-1] if texts else ""
    return SimultaneousLine(line, final, reads[: len(final)], [final])


def measure(
    model: Transformer, pieces: SubwordModel, wait: int, sources: Sequence[str], references: Sequence[str]
) -> dict[str, Any]:
    """Return the scores of a wait: chrF, BLEU, and the latencies in words."""
    lines = translate_lines(model, pieces, sources, wait)
    quality = text_scores([line.translation for line in lines], references)
    latency = mean_latency(lines, references, in_words=True)
    found = {} if latency is None else latency._asdict()
    return {"wait": wait, "chrf": quality.chrf, "bleu": quality.bleu, **found}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of a run")
    parser.add_argument("--wait", default="1,2,3,4,6,8,0", help="pieces; 0: the whole line (%(default)s)")
    parser.add_argument("--src", type=Path, required=True, metavar="FILE")
    parser.add_argument("--ref", type=Path, required=True, metavar="FILE")
    parser.add_argument("-n", "--lines", type=int, default=0, help="only the first; 0: all")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="also write the rows here, as JSON")
    args = parser.parse_args(arguments)
    try:
        if not RunInfo.load(args.folder).recipe.waits:
            raise BytenmtError(f"{args.folder} was trained to read whole lines: train with --waits")
        model, pieces = load_model(args.folder), SubwordModel.load(args.folder)
        sources, references = (read_lines(path)[: args.lines or None] for path in (args.src, args.ref))
        rows = []
        for wait in map(int, args.wait.split(",")):
            rows.append(measure(model, pieces, wait, sources, references))
            print("  ".join(f"{name} {value:.3f}" for name, value in rows[-1].items()), flush=True)
    except BytenmtError as error:
        sys.exit(f"Error: {error}")
    if args.output:
        args.output.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
