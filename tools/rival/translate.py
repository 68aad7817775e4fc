"""Translate stdin with an exported rival, through CTranslate2.

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
from tools.rival.text import PIECES, SubwordModel

PRECISIONS = {"int8": "int8", "fp32": "float32"}  # CTranslate2's names
MOST_DECODED = 256  # maximum pieces of a translation
EOS_PIECE = "</s>"


def export_folder(run: Path, precision: str) -> Path:
    """Return the folder of a run's exported model."""
    return run / f"ctranslate2-{precision}"


class Translator:
    """Translates text with CTranslate2 on one worker with some threads.

    batch: lines of a batch, sorted by length. length_penalty: exponent of the length by which
    log-probabilities are divided. most: maximum pieces of a translation. Raises CheckpointError where the run
    was not exported.
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
        folder = export_folder(run, precision)
        if not folder.is_dir():
            raise CheckpointError(
                f"{folder} is not there: tools/rival/export.py {run} --precision {precision}"
            )
        self._pieces = SubwordModel.load(run)
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
        """Return the pieces of each translation; none for an empty line."""
        names = self._pieces.names(lines)
        found = self._engine.translate_batch(
            [[*line, EOS_PIECE] for line in names if line],
            max_input_length=0,
            **self._options,
        )
        texts = iter(found)
        return [next(texts).hypotheses[0] if line else [] for line in names]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translate lines."""
        return self._pieces.text(self.pieces(lines))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a Translator."""
    parser.add_argument("folder", type=Path, help="folder of an exported run")
    parser.add_argument("--precision", choices=PRECISIONS, default="int8")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--length-penalty", type=float, default=1.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--batch-size", type=int, default=32, help="lines of a batch (%(default)s)")
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
