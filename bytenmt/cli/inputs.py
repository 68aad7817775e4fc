"""Open the texts and choose the device of a command, and check them before the work starts."""

from __future__ import annotations

import io
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

from bytenmt.cli.line_filter import Filter
from bytenmt.cli.progress import Console
from bytenmt.decoding.interface import Hypothesis
from bytenmt.decoding.line_batch import TranslationResult
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError, DataError

if TYPE_CHECKING:
    import torch

    from bytenmt.config.facts import TextFact
    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.data.text_file import Bytes, TextFile


def torch_device(name: str, threads: int | None) -> torch.device:
    """Return the device to run on (that of this process under torchrun) and set the number of CPU threads."""
    import torch

    from bytenmt.distributed import local_device, pick_device

    if threads is not None:
        torch.set_num_threads(threads)
    return local_device(pick_device(name))


def check_source(run: Path, has_source: bool, src: Path | None) -> None:
    """Raise BytenmtError if a source is missing or would be ignored. has_source: whether the run has one."""
    if has_source and src is None:
        raise BytenmtError(f"{run} is a translation model: give the source text by --src")
    if src is not None and not has_source:
        raise BytenmtError(f"{run} is a language model: leave out --src")


def check_pairs(run: Path, has_source: bool, src: Path | None) -> None:
    """Raise BytenmtError if the run has no source, or the source is missing: scoring of pairs needs both."""
    if not has_source:
        raise BytenmtError(f"{run} is a language model: evaluate it with `bytenmt predict`")
    check_source(run, has_source, src)


def text_file(path: Path, errors: str) -> TextFile:
    """Open a text file, or a named pipe, which is read to its end. Raises DataError as `checked` does."""
    from bytenmt.data.text_file import TextFile

    return checked(TextFile.open(path, errors))


def checked(text: TextFile) -> TextFile:
    """Return a text; warn where lines were repaired. Raises DataError for no lines or another encoding."""
    from bytenmt.data.text_file import repair_warning

    text.require_lines()
    if len(text.repaired):
        Console().warn(repair_warning(text.path, len(text.repaired), len(text)))
    return text


def training_text(texts: Sequence[TextFact]) -> list[Bytes]:
    """Return the texts that a language model learnt. Raises DataError if none is known or one changed."""
    from bytenmt.data.text_file import read_bytes

    if not texts:
        raise DataError("the run does not record its training text")
    found = [read_bytes(Path(text.path)) for text in texts]
    for text, data in zip(texts, found, strict=True):
        if len(data) != text.bytes:
            raise DataError(f"the training text {text.path} has changed")
    return found


def to_translate(path: Path, errors: str) -> TextFile | BufferedReader:
    """Open a text file with at least one line, or a named pipe as a stream of lines. Raises DataError."""
    # A pipe, such as a shell's <(command): its lines are translated as they come.
    return open(path, "rb") if path.is_fifo() else text_file(path, errors)


def all_pairs(src: Path | None, tgt: Path, errors: str) -> ParallelCorpus:
    """Open two texts as a corpus of all their lines; empty and long lines are scored too."""
    from bytenmt.data.corpus import ParallelCorpus

    source = None if src is None else text_file(src, errors)
    target = text_file(tgt, errors)
    return ParallelCorpus.from_texts(source, target, keep_empty=True)


def hypotheses(translator: Translator, corpus: ParallelCorpus) -> list[Hypothesis]:
    """Return the best translation of every source line; in a group only the leading process gets them."""
    assert corpus.src is not None
    if translator.group is not None and not translator.group.is_leader:
        translator.follow()
        return []
    best: list[Hypothesis] = []

    def keep(results: Sequence[TranslationResult], first: int, seconds: Sequence[float]) -> bytes:
        best.extend(result.best for result in results)
        return b""

    Filter(translator, io.BytesIO(), keep).file(corpus.src)
    return best
