"""Translate a test text with an exported rival by CTranslate2; measure quality, speed, size.

    python tools/rival/score.py runs/rival --src test.en --ref test.de --json rival.json
    python tools/rival/score.py runs/rival --precision fp32 --src test.en -o test.hyp

Without --ref it only translates. Speed is UTF-8 bytes of output per second of whole sentences,
including subword segmentation, best of three: line by line, and in batches of 32, sorted by length.
Noise disturbs a share of the source characters, as data.noise does, in the same way in every run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout: tools import each other

from bytenmt.data.augment.noise import Letters, noisy_lines
from bytenmt.errors import BytenmtError, CheckpointError, DataError
from bytenmt.evaluation.scores import text_scores
from tools.extras import import_package, tool_parser
from tools.measurements import BATCHES, NOISE_SEED, SHARES
from tools.rival.recipe import RunInfo, read_metrics
from tools.rival.text import PIECES, SubwordModel, read_lines

PRECISIONS = {"int8": "int8", "fp32": "float32"}  # CTranslate2's names
MAX_DECODED_PIECES = 256  # maximum pieces of a translation
EOS_PIECE = "</s>"
N_ROUNDS = 3


def export_folder(run: Path, precision: str) -> Path:
    """Return the folder of a run's exported model."""
    return run / f"ctranslate2-{precision}"


class Translator:
    """Translates text with CTranslate2 on one worker with some threads.

    batch: lines of a batch, sorted by length. most: maximum pieces of a translation. Raises
    CheckpointError where the run was not exported.
    """

    def __init__(
        self,
        run: Path,
        precision: str = "int8",
        beam: int = 1,
        batch: int = 32,
        threads: int = 1,
        most: int = MAX_DECODED_PIECES,
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
        self._options = {"beam_size": beam, "max_batch_size": batch, "max_decoding_length": most}
        self.bytes = sum(file.stat().st_size for file in (run / PIECES, *folder.iterdir()))

    def pieces(self, lines: Sequence[str]) -> list[list[str]]:
        """Return the pieces of each translation; none for an empty line."""
        names = self._pieces.names(lines)
        sources = [[*line, EOS_PIECE] for line in names if line]
        texts = iter(self._engine.translate_batch(sources, max_input_length=0, **self._options))
        return [next(texts).hypotheses[0] if line else [] for line in names]

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Translate lines."""
        return self._pieces.text(self.pieces(lines))


def text_bytes_per_second(translator: Translator, lines: Sequence[str], batch: int) -> float:
    """Return the best rate of a few rounds.

    With batch 1 each line is translated alone, otherwise the translator batches all lines.
    """
    parts = [[line] for line in lines] if batch == 1 else [list(lines)]
    best = 0.0
    for _ in range(N_ROUNDS):
        started = time.perf_counter()
        texts = [text for part in parts for text in translator.translate(part)]
        seconds = time.perf_counter() - started
        best = max(best, sum(len(text.encode()) for text in texts) / seconds)
    return best


def scores(args: argparse.Namespace) -> dict[str, Any]:
    """Return all figures. Raises BytenmtError."""
    sources = read_lines(args.src)
    references = read_lines(args.ref)
    if len(sources) != len(references):
        raise DataError(
            f"{len(sources)} source and {len(references)} reference lines: expected as many"
        )
    validated = [record for record in read_metrics(args.folder) if "valid_bits_per_byte" in record]
    if not validated:
        raise DataError(f"{args.folder} has not been validated: let its training end")
    last = validated[-1]

    def translator(batch: int) -> Translator:
        return Translator(args.folder, args.precision, args.beam, batch, args.threads)

    stored = RunInfo.load(args.folder)
    whole = translator(32)
    clean = text_scores(whole.translate(sources), references)
    encoded = [line.encode() for line in sources]
    letters = Letters.from_texts(sources)
    noise = {}
    for share in args.noise:
        noisy = [line.decode() for line in noisy_lines(encoded, share, letters, NOISE_SEED)]
        noise[f"{share:g}"] = text_scores(whole.translate(noisy), references).chrf
    some = sources[: args.speed_lines]
    speed = {str(batch): text_bytes_per_second(translator(batch), some, batch) for batch in BATCHES}
    return {
        **{name: last[name] for name in ("seconds", "update", "valid_bits_per_byte")},
        **clean._asdict(),
        "chrf_by_noise": noise,
        "text_bytes_per_second_by_batch": speed,
        "megabytes": whole.bytes / 1e6,
        "parameters": stored.parameters,
        **{name: getattr(args, name) for name in ("precision", "beam", "threads")},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    parser.add_argument("folder", type=Path, help="folder of an exported run")
    parser.add_argument("--precision", choices=PRECISIONS, default="int8")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--src", type=Path, required=True, metavar="FILE")
    parser.add_argument("--ref", type=Path, metavar="FILE")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="of the translations")
    parser.add_argument("--noise", type=float, nargs="*", default=SHARES, metavar="SHARE")
    parser.add_argument("--speed-lines", type=int, default=200, help="lines to time (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    args = parser.parse_args(arguments)
    try:
        if args.output:
            whole = Translator(args.folder, args.precision, args.beam, threads=args.threads)
            texts = whole.translate(read_lines(args.src))
            args.output.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        if args.ref:
            found = json.dumps(scores(args), indent=1)
            print(found)
            if args.json:
                args.json.write_text(found + "\n", encoding="utf-8")
    except BytenmtError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
