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
from bytenmt.errors import BytenmtError

if TYPE_CHECKING:
    import torch

    from bytenmt.data.corpus import ParallelCorpus
    from bytenmt.data.text_file import TextFile

HELD = 1 << 26  # bytes of a packed text to translate that are in memory at most


def torch_device(name: str, threads: int | None) -> torch.device:
    """Return the device to run on (that of this process under torchrun) and set the number of CPU threads."""
    import torch

    from bytenmt.data.device import pick_device
    from bytenmt.distributed import local_device

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
    """Open a text file with at least one line; a named pipe is read once."""
    from bytenmt.data.text_file import TextFile

    text = TextFile.open(path, errors, reporter=Console(), pipe=True)
    text.require_lines()
    return text


def to_translate(path: Path, errors: str) -> TextFile | BufferedReader:
    """Open a text file with at least one line, or a stream of its lines. Raises DataError.

    A stream is returned for a named pipe, and for a packed file of more than HELD bytes, which may be larger
    than the memory and is unpacked twice.
    """
    from bytenmt.data.decompress import is_packed, reader, unpacked
    from bytenmt.data.text_file import TextFile, check_file

    if path.is_fifo():  # as a shell's <(command): its lines are translated as they come
        return open(path, "rb")
    if not is_packed(path):
        return text_file(path, errors)
    check_file(path)
    held, n_bytes = bytearray(), 0
    for piece in unpacked(path):
        n_bytes += len(piece)
        if n_bytes <= HELD:
            held += piece
        else:
            held.clear()
    if n_bytes > HELD:
        return reader(path)
    text = TextFile.from_bytes(bytes(held), path, errors)
    text.require_lines()
    return text


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
