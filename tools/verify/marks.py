"""Put sentinels into lines and take them out again: no kept span may be lost, and none invented.

    python tools/verify/marks.py FOLDER [--model data/models/en-de]

Draws lines of all files of FOLDER whose names end in .en, .de or .ko, by a seed. Each goes the way
of a translation (LineBatch), but a made-up translator takes the place of the model: it writes the
same, capitals, or the sentinels of a sentence in reverse order. With --model the names that it does
not know are kept as well.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from bytenmt.checkpoints.facts import SourceWords
from bytenmt.decoding.interface import EngineSpec, Hypothesis
from bytenmt.decoding.loading import load_runs
from bytenmt.sentinels import SENTINELS
from bytenmt.translation.kept_spans import KeepSpec
from bytenmt.translation.line_batch import LineBatch, TranslationResult
from bytenmt.translation.settings import Settings

SUFFIXES = (".en", ".de", ".ko")


def draw_lines(folder: Path, n_lines: int, seed: int) -> list[bytes]:
    """Return n_lines lines of the files of a folder, each as likely as any other."""
    generator = random.Random(seed)
    drawn = list[bytes]()
    n_seen = 0
    for path in sorted(folder.rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        with open(path, "rb") as file:
            for line in file:
                n_seen += 1
                if len(drawn) < n_lines:
                    drawn.append(line.rstrip(b"\r\n"))
                elif (place := int(generator.random() * n_seen)) < n_lines:
                    drawn[place] = line.rstrip(b"\r\n")
    print(f"{len(drawn):,} of {n_seen:,} lines")
    return drawn


def same(source: bytes) -> bytes:
    """Return the source."""
    return source


def capitals(source: bytes) -> bytes:
    """Return the source in capitals of ASCII."""
    return source.upper()


def backwards(source: bytes) -> bytes:
    """Return the source with its sentinels in reverse order."""
    written = iter([byte for byte in source if byte in SENTINELS][::-1])
    return bytes(next(written) if byte in SENTINELS else byte for byte in source)


def faults(line: bytes, result: TranslationResult, name: str) -> Iterator[str]:
    """Yield what is wrong with a made-up translation. name: of its translator."""
    text = result.best.text
    if result.source != line or (name == "same" and text != line):
        yield "changed"
    if any(byte in SENTINELS for byte in text):
        yield "a sentinel is left"
    for chunk, hypotheses in zip(result.chunks, result.chunk_hypotheses, strict=True):
        n_sentinels = sum(byte in SENTINELS for byte in chunk.source)
        if n_sentinels != len(chunk.spans):
            yield "not one sentinel a span"
        written = hypotheses[0].text
        for span, n in Counter(span.source.encode() for span in chunk.spans).items():
            if written.count(span) < n:
                yield "lost"
        n_bytes = sum(len(span.source.encode()) for span in chunk.spans)
        if len(written) != len(chunk.source) - n_sentinels + n_bytes:
            yield "invented"


def main() -> None:
    """Count the spans and the faults of the lines of a folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder of texts")
    parser.add_argument("--lines", type=int, default=40_000, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=63, help="of the draw (%(default)s)")
    parser.add_argument("--model", type=Path, help="model whose words tell what a name is")
    arguments = parser.parse_args()
    words: SourceWords | None = None
    if arguments.model:
        words = load_runs([arguments.model], EngineSpec()).source_words
    settings = Settings(keep=KeepSpec(words=words), languages=("en",))
    lines = draw_lines(arguments.folder, arguments.lines, arguments.seed)
    counts = Counter[str]()
    for translator in (same, capitals, backwards):
        batch = LineBatch(lines, settings)
        for request in batch.requests:
            text = translator(request.source or b"")
            batch.add(request, [Hypothesis(text, -1.0, -1.0)])
        n_spans = 0
        for line, result in zip(lines, batch.results(), strict=True):
            n_spans += sum(len(chunk.spans) for chunk in result.chunks)
            found = list(faults(line, result, translator.__name__))
            counts.update(found)
            if found and sum(counts.values()) < 20:
                print(f"{translator.__name__}: {', '.join(found)}: {line!r}")
        print(f"{translator.__name__}: {n_spans:,} spans")
    print(dict(counts) or "no span lost, none invented")


if __name__ == "__main__":
    main()
