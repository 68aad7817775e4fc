"""A process beside the server that tells of a line and its translation which source character each character
is of, and how surprising it was: one teacher-forced pass of the PyTorch models.

A line of JSON in, [source, text, the direction's number], a line out. The server that starts it imports no
PyTorch; this does. Run as `python -m bytenmt.serve.explaining JSON`, of the runs of each direction.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch

from bytenmt.config.schema import tells_alignment
from bytenmt.evaluation.alignment import Aligner
from bytenmt.models.base import normalised, of_bytes
from bytenmt.storage.checkpoint import load_run
from bytenmt.utf8 import BOS, EOS

CPU = torch.device("cpu")


class Direction:
    """The models that decide together."""

    def __init__(self, runs: list[str]) -> None:
        loaded = [load_run(Path(run), CPU) for run in runs]
        self._models = [one.model for one in loaded]
        attentive: list[Any] = [one.model for one in loaded if tells_alignment(one.config.model)]
        self._aligner = Aligner(attentive, CPU) if attentive else None

    def told(self, source: str, text: str) -> dict[str, Any]:
        """bits: of each character; alignment: of each, the source characters that it is most of, begin and
        end; None without attention."""
        line, found = source.encode(), text.encode()
        links = self._aligner.links([[(line, found, b"")]])[0] if self._aligner else []
        alignment = [link.source_chars for link in links] or None
        return {"bits": self._bits(line, found, text), "alignment": alignment}

    def _bits(self, line: bytes, found: bytes, text: str) -> list[float]:
        """-log2 of the probability of each character of the text: the sum of its bytes'."""
        if not found:
            return []
        src = torch.tensor([[*line, EOS]], dtype=torch.uint8)
        read = torch.tensor([[BOS, *found[:-1]]], dtype=torch.uint8)
        each = []
        with torch.no_grad():
            for model in self._models:
                memory = model.encode(src, torch.tensor([src.shape[1]]))
                logits, _ = model(read, memory, model.start(memory))
                each.append(of_bytes(normalised(logits), torch.tensor([[*found]], dtype=torch.uint8))[0])
        log_p = torch.stack(each).logsumexp(dim=0) - math.log(len(each))
        bits = (-log_p / math.log(2)).tolist()
        told, at = [], 0
        for character in text:
            end = at + len(character.encode())
            told.append(round(sum(bits[at:end]), 4))
            at = end
        return told


def main() -> None:
    """Until standard input ends."""
    torch.set_num_threads(1)
    directions = [Direction(runs) for runs in json.loads(sys.argv[1])]
    for asked in sys.stdin:
        source, text, number = json.loads(asked)
        print(json.dumps(directions[number].told(source, text)), flush=True)


if __name__ == "__main__":
    main()
