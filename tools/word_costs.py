r"""Print what words cost a model, by how often they occur in the training text.

    python tools/word_costs.py MODEL … --src corpora/tatoeba-eng-deu/dev.en \
      --ref corpora/tatoeba-eng-deu/dev.de --train corpora/tatoeba-eng-deu/train.de

Bits per byte hide where a model loses, as rare words have more bytes. For each class of words of the
reference, by occurrences in the training text of the target language, the table has the mean nats of a word
(the sum of -log p of its bytes and of the byte behind it, with all bytes before them given), and the share of
words of which each of these bytes is the likeliest one.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout: tools import each other

import numpy as np

from bytenmt.data.text_file import TextFile
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.decoding.loading import load_runs
from bytenmt.errors import BytenmtError
from bytenmt.utf8 import EOS

CLASSES = (1000, 50, 5, 0)  # the least number of occurrences
WORD = re.compile(r"\w+")


def word_costs(
    run: Path, sources: Sequence[bytes], references: Sequence[bytes], occurrences: Counter[str]
) -> list[tuple[int, float, float]]:
    """Return of each class the number of words, the mean nats of a word and the share of words predicted.

    occurrences: of the words in the training text.
    """
    reader = load_runs([run], EngineSpec("numba", "cpu", AUTO, 1)).reader()
    readings = reader.texts(sources, [reference + bytes([EOS]) for reference in references])
    nats: dict[int, list[float]] = {least: [] for least in CLASSES}
    predicted: dict[int, list[bool]] = {least: [] for least in CLASSES}
    for reference, reading in zip(references, readings, strict=True):
        text = reference.decode()
        for match in WORD.finditer(text):
            begin, end = (len(text[:place].encode()) for place in match.span())
            least = next(least for least in CLASSES if occurrences[match[0]] >= least)
            nats[least].append(-float(reading.log_p[begin : end + 1].sum()))
            predicted[least].append(not reading.rank[begin : end + 1].any())
    return [
        (len(nats[least]), float(np.mean(nats[least])), float(np.mean(predicted[least]))) for least in CLASSES
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, nargs="+")
    for name, what in (("src", "source"), ("ref", "reference"), ("train", "training text, target side")):
        parser.add_argument(f"--{name}", type=Path, required=True, help=what)
    args = parser.parse_args()
    try:
        sources, references = list(TextFile.open(args.src)), list(TextFile.open(args.ref))
        occurrences = Counter(
            word for line in TextFile.open(args.train) for word in WORD.findall(line.decode())
        )
        tables = {run: word_costs(run, sources, references, occurrences) for run in args.run}
    except BytenmtError as error:
        sys.exit(str(error))
    print("| | " + " | ".join(f"{least:,} and more" for least in CLASSES) + " |")
    print("|---" * (len(CLASSES) + 1) + "|")
    print("| words | " + " | ".join(f"{n:,}" for n, _, _ in next(iter(tables.values()))) + " |")
    for run, table in tables.items():
        print(f"| {run} | " + " | ".join(f"{nats:.2f}, {share:.1%}" for _, nats, share in table) + " |")


if __name__ == "__main__":
    main()
