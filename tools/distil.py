"""Sequence-level knowledge distillation (Kim and Rush 2016): write sources with the teachers' translations.

    python tools/distil.py RUN... --src train.ko -o distilled.tsv -- --threads 1 --precision int8

Arguments after -- are passed to `bytenmt translate`. After an interruption, the same command resumes. Pairs
whose source contains a tab or whose translation is empty are left out. At the end the command that trains a
student is printed.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout: tools import each other

from bytenmt.atomic_file import replacing
from bytenmt.data.text_file import TextFile
from bytenmt.errors import BytenmtError

ROOT = Path(__file__).resolve().parents[1]
TAB = b"\t"


def translate(runs: Sequence[Path], source: Path, output: Path, beam: int, more: Sequence[str]) -> None:
    """Translate a file with an ensemble of runs, resuming where an earlier call was stopped.

    Raises BytenmtError where the command fails; it has printed the cause.
    """
    command = [sys.executable, "-m", "bytenmt", "translate", *map(str, runs), "-i", str(source)]
    command += ["-o", str(output), "-b", str(beam), *more, "--resume"]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    if done.returncode:
        raise BytenmtError(f"bytenmt translate ended with {done.returncode}: fix the error and start again")


def write_pairs(source: Path, translations: Path, output: Path) -> tuple[int, int]:
    """Write lines `source TAB translation`; return the numbers of lines written and left out.

    Raises BytenmtError where the files differ in their number of lines.
    """
    sources, targets = TextFile.open(source), TextFile.open(translations)
    if len(sources) != len(targets):
        raise BytenmtError(
            f"{source} has {len(sources)} lines and {translations} {len(targets)}: delete the latter"
        )
    n_written = 0
    with replacing(output) as file:
        for own, target in zip(sources, targets, strict=True):
            if own and target and TAB not in own and TAB not in target:
                file.write(own + TAB + target + b"\n")
                n_written += 1
    return n_written, len(sources) - n_written


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description="Write training pairs for a student model: sources with the teachers' translations."
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the teachers, used as an ensemble")
    parser.add_argument("--src", type=Path, required=True, help="source text, usually that of the training")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="file of the pairs, source TAB target"
    )
    parser.add_argument("-b", "--beam", type=int, default=5, help="beam size, 5 by default")
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    cut = command_line.index("--") if "--" in command_line else len(command_line)
    options = parser.parse_args(command_line[:cut])
    translations = options.output.with_name(f"{options.output.name}.translations")
    try:
        if not translations.exists():
            translate(options.runs, options.src, translations, options.beam, command_line[cut + 1 :])
        n_written, n_left_out = write_pairs(options.src, translations, options.output)
        translations.unlink()
    except (BytenmtError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{options.output}: {n_written:,} pairs, {n_left_out:,} left out", file=sys.stderr)
    pairs = shlex.quote(str(options.output))
    print(
        f"bytenmt train -o runs/student --arch luong --preset tiny --tsv {pairs} --valid-src … --valid-tgt …"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
