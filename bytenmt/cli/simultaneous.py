"""translate --simultaneous and evaluate --simultaneous."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterator, Sequence
from io import BufferedReader
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from bytenmt.cli.console import say
from bytenmt.cli.line_filter import STANDARD_INPUT
from bytenmt.cli.progress import progress
from bytenmt.decoding.simultaneous import LineSession
from bytenmt.decoding.translator import Translator
from bytenmt.errors import DataError
from bytenmt.utf8 import describe_byte

if TYPE_CHECKING:
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.evaluation.latency import Latency
    from bytenmt.evaluation.scores import TextScores


def translate_as_it_comes(
    translator: Translator,
    wait: int,
    input: BufferedReader,
    output: BinaryIO,
    errors: str,
    name: str = STANDARD_INPUT,
) -> None:
    """Write the translation of each line while the line is still being read.

    wait: see Translator.open. errors: for invalid UTF-8, "replace" or "strict", which raises DataError with
    name, line and byte offset once what stands before is written.
    """
    session = LineSession(translator.open(wait), translator.languages, translator.max_source_bytes)
    has_line, number = False, 1

    def finish() -> None:
        if session.n_cuts:
            say(
                f"bytenmt: {name}, line {number} is over the {translator.max_source_bytes} bytes of"
                f" --max-source-bytes: translated in parts"
            )
        output.write(session.finish().encode() + b"\n")

    for text in _decoded(input, errors, name):
        *ended, rest = text.split("\n")
        for line in ended:
            output.write(session.feed(line).encode())
            finish()
            number += 1
        if ended:
            has_line = False
        if rest:
            has_line = True
            output.write(session.feed(rest).encode())
        output.flush()
    if has_line:
        finish()
        output.flush()


def _decoded(input: BufferedReader, errors: str, name: str) -> Iterator[str]:
    """Yield the text of a stream as it arrives, in whole characters, each line end as a line feed."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors)
    kept = ""  # a carriage return, until it is known whether a line feed follows
    number, n_bytes = 1, 0  # of the line that is being read
    while True:
        data = input.read1()
        mistake = None
        try:
            text = decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            mistake = error
            text = error.object[: error.start].decode()
        line = text[text.rfind("\n") + 1 :]
        number += text.count("\n")
        n_bytes = len(line.encode()) + (0 if "\n" in text else n_bytes)
        text = kept + text
        kept = "\r" if data and not mistake and text.endswith("\r") else ""
        text = text.removesuffix("\r") if kept else text
        if text:
            yield text.replace("\r\n", "\n")
        if mistake is not None:
            raise DataError(describe_byte(name, number, n_bytes, mistake.object[mistake.start]))
        if not data:
            return


class SimultaneousResult(NamedTuple):
    """Quality and latency of the translations of a corpus with one wait.

    in_words, in_characters: latency by unit; None if no line can be scored. erasure: normalised erasure.
    """

    wait: int
    scores: TextScores
    in_words: Latency | None
    in_characters: Latency | None
    erasure: float


def measure(
    translator: Translator, wait: int, corpus: ParallelCorpus, tokenize: str, log: BinaryIO | None
) -> SimultaneousResult:
    """Translate a corpus with one wait and score it. log: gets a record of every line, see log_record."""
    from bytenmt.evaluation import latency
    from bytenmt.evaluation.scores import text_scores

    assert corpus.src is not None
    references = [line.decode() for line in corpus.tgt]
    lines = []
    with progress(len(references), " lines") as (bar, _):
        for source in corpus.src:
            lines.append(latency.translate_line(translator, wait, source.decode()))
            bar.advance(1)
    for index, (line, reference) in enumerate(zip(lines, references, strict=True) if log else ()):
        record = {"wait": wait, **latency.log_record(index, line, reference)}
        assert log is not None
        log.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    return SimultaneousResult(
        wait,
        text_scores([line.translation for line in lines], references, tokenize),
        latency.mean_latency(lines, references, in_words=True),
        latency.mean_latency(lines, references, in_words=False),
        latency.normalised_erasure(lines),
    )


def table(measured: Sequence[SimultaneousResult]) -> Iterator[str]:
    """Yield a head and a line for each wait: latency in words, average lagging in characters, quality."""
    yield "  wait      AL    LAAL     AP     DAL  AL char.     NE   BLEU   chrF"
    for one in measured:
        al, laal, ap, dal = one.in_words or (math.nan,) * 4
        characters = one.in_characters.al if one.in_characters else math.nan
        yield (
            f"{one.wait:>6}  {al:6.2f}  {laal:6.2f}  {ap:5.2f}  {dal:6.2f}  {characters:8.1f}  "
            f"{one.erasure:5.2f}  {one.scores.bleu:5.1f}  {one.scores.chrf:5.1f}"
        )


def as_json(measured: Sequence[SimultaneousResult]) -> list[dict[str, Any]]:
    """Return the scores as JSON values."""
    return [
        {
            "wait": one.wait,
            "normalised_erasure": one.erasure,
            "chrf": one.scores.chrf,
            "bleu": one.scores.bleu,
        }
        | {
            unit: None if scores is None else scores._asdict()
            for unit, scores in (("words", one.in_words), ("characters", one.in_characters))
        }
        for one in measured
    ]
