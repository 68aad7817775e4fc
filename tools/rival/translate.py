"""Translates stdin by an exported rival, through CTranslate2.

python tools/rival/translate.py runs/rival --precision int8 --beam 5 <test.en >test.de
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

from bytenmt.errors import BytenmtError, CheckpointError
from tools.extras import import_package
from tools.rival.text import PIECES, Pieces

PRECISIONS = {"int8": "int8", "fp32": "float32"}  # their names there
MOST_DECODED = 256  # pieces
EOS_PIECE = "</s>"


def folder_of(run: Path, precision: str) -> Path:
    """Return the folder of a run's exported model."""
    return run / f"ctranslate2-{precision}"


class Translator:
    """Text in, text out: subwords, CTranslate2 on one worker of so many threads, subwords joined.

    batch: lines side by side, sorted by length. length_penalty: of beams, the power of the length that a
    log-probability is divided by. most: pieces of a translation.
    """

    def __init__(
        self,
        run: Path,
        precision: str = "int8",
        beam: int = 1,
        batch: int = 32,
        threads: int = 1,
        length_penalty: float = 1.0,
        most: int = MOST_DECODED,
    ) -> None:
        folder = folder_of(run, precision)
        if not folder.is_dir():
            raise CheckpointError(
                f"{folder} is not there: tools/rival/export.py {run} --precision {precision}"
            )
        self._pieces = Pieces.load(run)
        self._engine = import_package("ctranslate2", "rival").Translator(
            str(folder), device="cpu", compute_type=PRECISIONS[precision], intra_threads=threads
        )
        self._options = {
            "beam_size": beam,
            "length_penalty": length_penalty,
            "max_batch_size": batch,
            "max_decoding_length": most,
        }
        self.bytes = (run / PIECES).stat().st_size + sum(file.stat().st_size for file in folder.iterdir())

    def pieces(self, lines: Sequence[str]) -> list[list[str]]:
        """The translations' pieces; an empty line has none."""
        names = self._pieces.names(lines)
        found = self._engine.translate_batch(
            [[*line, EOS_PIECE] for line in names if line],
            max_input_length=0,
            **self._options,
        )
        texts = iter(found)
        return [next(texts).hypotheses[0] if line else [] for line in names]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """A line for each line."""
        return self._pieces.text(self.pieces(lines))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a Translator."""
    parser.add_argument("folder", type=Path, help="of the run, exported")
    parser.add_argument("--precision", choices=PRECISIONS, default="int8")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--length-penalty", type=float, default=1.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--batch-size", type=int, default=32, help="lines (%(default)s)")
    args = parser.parse_args(arguments)
    try:
        translator = Translator(
            args.folder, args.precision, args.beam, args.batch_size, args.threads, args.length_penalty
        )
    except BytenmtError as error:
        sys.exit(f"Error: {error}")
    text = sys.stdin.buffer.read().decode(errors="replace")
    lines = text.removesuffix("\n").split("\n") if text else []
    for line in translator.translate(lines):
        sys.stdout.buffer.write(line.encode() + b"\n")


if __name__ == "__main__":
    main()
