"""Text files as data sets: bytes in a memory map, and where each line lies.

There is no preprocessing: a file is scanned once, for its lines and for bytes that are not UTF-8,
and is then read in place. This file does not know batches, tensors or models.
"""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bytenmt.alphabet import ACCEPT, EOS, REJECT, UTF8_NEXT, first_invalid, repair
from bytenmt.errors import DataError
from bytenmt.scan import Bytes, Indices, Lengths, invalid_lines, scan_lines

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 2**31 - 1  # bytes: lengths are int32
N_LISTED = 10  # line numbers that a report names
OTHER_PACKINGS = {".xz", ".zst", ".bz2", ".zip", ".7z"}

# The automaton of a text: EOS passes between the characters of a hypothesis but is no text.
_TEXT_NEXT = UTF8_NEXT.copy()
_TEXT_NEXT[ACCEPT, EOS] = REJECT


@dataclass(frozen=True, eq=False)
class TextFile:
    """One text file as the data set.

    data (size,) uint8: the whole file, a memory map where it is plain.
    starts (n,) int64: where each line begins in data; below zero, line i was repaired and begins
    at ~starts[i] in side.
    lengths (n,) int32: bytes of each line without its line end, after repair.
    side (r,) uint8: the repaired lines, one behind the other.
    repaired (k,) int64: the numbers, from 1, of the repaired lines.
    """

    path: Path
    data: Bytes
    starts: Indices
    lengths: Lengths
    side: Bytes
    repaired: Indices

    @classmethod
    def open(cls, path: str | Path, errors: str = "replace") -> "TextFile":
        """Open a plain file or a `.gz`. Raises DataError for all that is no readable text file.

        errors: "replace" puts U+FFFD where a line is not UTF-8; "strict" raises DataError.
        """
        return cls.from_bytes(_read(Path(path)), Path(path), errors)

    @classmethod
    def from_bytes(cls, content: bytes | Bytes, path: str | Path, errors: str = "replace") -> "TextFile":
        """The same from memory; `path` only names it in messages."""
        if errors not in ("replace", "strict"):
            raise ValueError(f'errors is {errors!r}, expected "replace" or "strict"')
        data = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
        marked = bytes(data[:3]) == BYTE_ORDER_MARK
        words = data[: len(data) // 8 * 8].view(np.uint64)
        starts, lengths, suspicious = scan_lines(data, words, 3 if marked else 0)
        if len(data) > LONGEST_LINE:
            _refuse_endless_lines(path, starts, len(data))
        invalid = invalid_lines(data, starts, lengths, suspicious, _TEXT_NEXT)
        side = bytearray()
        for line in invalid.tolist():
            text = data[starts[line] : starts[line] + lengths[line]].tobytes()
            if errors == "strict":
                raise DataError(describe_mistake(path, line + 1, text))
            fixed = repair(text)
            starts[line], lengths[line] = ~len(side), len(fixed)
            side += fixed
        return cls(
            path=Path(path),
            data=data,
            starts=starts,
            lengths=lengths,
            side=np.frombuffer(bytes(side), np.uint8),
            repaired=invalid + 1,
        )

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, index: int) -> bytes:
        """Line `index`, from 0, without its line end."""
        start, length = int(self.starts[index]), int(self.lengths[index])
        if start < 0:
            return self.side[~start : ~start + length].tobytes()
        return self.data[start : start + length].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return (self.line(index) for index in range(len(self)))

    @property
    def n_repaired(self) -> int:
        return len(self.repaired)

    def require_lines(self) -> None:
        """Raise DataError where there is no line at all."""
        if not len(self):
            raise DataError(f"{self.path} is empty: expected a text file, one sentence a line")


def _read(path: Path) -> Bytes:
    """The bytes of a file: mapped, or unpacked into memory where its name ends in `.gz`."""
    if path.is_dir():
        raise DataError(f"{path} is a directory: give the name of a text file in it")
    if not path.exists():
        raise DataError(f"{path} does not exist: check the name of the text file")
    if not path.is_file():
        raise DataError(f"{path} is no regular file: write its text to a file and give that one")
    if path.suffix in OTHER_PACKINGS:
        raise DataError(f"{path} is packed as {path.suffix}: unpack it, or pack it as .gz")
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as file:
                return np.frombuffer(file.read(), np.uint8)
        if path.stat().st_size == 0:  # which cannot be mapped
            return np.frombuffer(b"", np.uint8)
        return np.asarray(np.memmap(path, np.uint8, "r"))
    except EOFError as error:
        raise DataError(f"{path} is cut off: the .gz ends too early; copy it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is no sound .gz file ({error}): copy or pack it again") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): check its rights") from error


def _refuse_endless_lines(path: str | Path, starts: Indices, size: int) -> None:
    spans = np.diff(starts, append=size)
    if int(spans.max()) > LONGEST_LINE:
        line = int(spans.argmax()) + 1
        raise DataError(f"{path}, line {line} has over {LONGEST_LINE} bytes: cut it into lines")


def describe_mistake(path: str | Path, number: int, text: bytes) -> str:
    """What to tell the user of a line, number from 1, that is not UTF-8."""
    offset = first_invalid(text)
    return (
        f"{path}, line {number}, byte offset {offset}: 0x{text[offset]:02X} is not valid UTF-8 "
        f"there: convert the file to UTF-8, or use --errors replace"
    )


@dataclass(frozen=True, eq=False)
class ParallelCorpus:
    """Two text files line by line, or one alone (src is None) for a model without a source.

    pairs (m,) int64: indices, from 0, of the lines that are kept.
    source_lengths, target_lengths (m,) int32: their bytes without EOS; no source: all 0.
    too_long, empty (k,) int64: numbers, from 1, of the lines left out because a side is longer
    than its limit or has no bytes; a line with both faults counts as empty.
    """

    src: TextFile | None
    tgt: TextFile
    max_source_bytes: int | None
    max_target_bytes: int | None
    pairs: Indices
    source_lengths: Lengths
    target_lengths: Lengths
    too_long: Indices
    empty: Indices

    @classmethod
    def open(
        cls,
        src_path: str | Path | None,
        tgt_path: str | Path,
        errors: str = "replace",
        max_source_bytes: int | None = None,
        max_target_bytes: int | None = None,
    ) -> "ParallelCorpus":
        """Open both files; a limit of None is none. Raises DataError, see TextFile.open."""
        src = None if src_path is None else TextFile.open(src_path, errors)
        tgt = TextFile.open(tgt_path, errors)
        return cls.from_texts(src, tgt, max_source_bytes, max_target_bytes)

    @classmethod
    def from_texts(
        cls,
        src: TextFile | None,
        tgt: TextFile,
        max_source_bytes: int | None = None,
        max_target_bytes: int | None = None,
        keep_empty: bool = False,
    ) -> "ParallelCorpus":
        """Pair two texts. Raises DataError where their line counts differ.

        keep_empty: keep pairs with an empty side too, for scoring line by line.
        """
        if src is not None and len(src) != len(tgt):
            raise DataError(
                f"{src.path} has {len(src)} lines and {tgt.path} has {len(tgt)}: "
                f"line i of one must translate line i of the other"
            )
        empty = tgt.lengths == 0
        too_long = tgt.lengths > (max_target_bytes or LONGEST_LINE)
        if src is not None:
            empty |= src.lengths == 0
            too_long |= src.lengths > (max_source_bytes or LONGEST_LINE)
        if keep_empty:
            empty[:] = False
        pairs = np.flatnonzero(~(empty | too_long)).astype(np.int64)
        no_lengths = np.zeros(len(pairs), np.int32)
        return cls(
            src=src,
            tgt=tgt,
            max_source_bytes=max_source_bytes,
            max_target_bytes=max_target_bytes,
            pairs=pairs,
            source_lengths=no_lengths if src is None else src.lengths[pairs],
            target_lengths=tgt.lengths[pairs],
            too_long=np.flatnonzero(too_long & ~empty) + 1,
            empty=np.flatnonzero(empty) + 1,
        )

    def __len__(self) -> int:
        return len(self.pairs)

    def require_pairs(self) -> None:
        """Raise DataError where a file is empty or no pair is left."""
        for text in (self.src, self.tgt):
            if text is not None:
                text.require_lines()
        if not len(self):
            raise DataError(
                f"{self.tgt.path}: of {len(self.tgt)} lines none is left "
                f"({len(self.empty)} empty, {len(self.too_long)} too long): "
                f"check the text, or raise max_source_bytes and max_target_bytes"
            )

    def report(self) -> list[str]:
        """What the corpus holds and what was left out or repaired, a line each."""
        texts = [text for text in (self.src, self.tgt) if text is not None]
        source, target = self.source_lengths, self.target_lengths
        lines = [f"{' and '.join(str(text.path) for text in texts)}: {len(self):,} pairs"]
        if self.src is not None:
            lines.append(f"source: {_describe_lengths(source)}")
        lines.append(f"target: {_describe_lengths(target)}")
        if len(self.too_long):
            limits = f"longer than {self.max_source_bytes} source or {self.max_target_bytes} target"
            if self.src is None:
                limits = f"longer than {self.max_target_bytes} target"
            lines.append(f"left out, {limits} bytes: {_list_lines(self.too_long)}")
        if len(self.empty):
            lines.append(f"left out, empty: {_list_lines(self.empty)}")
        for text in texts:
            if text.n_repaired:
                lines.append(f"repaired, not UTF-8 in {text.path}: {_list_lines(text.repaired)}")
        return lines


def _describe_lengths(lengths: Lengths) -> str:
    longest = int(lengths.max(initial=0))
    return f"{int(lengths.sum(dtype=np.int64)):,} bytes, longest line {longest:,}"


def _list_lines(numbers: Indices) -> str:
    """How many lines, and the numbers of the first of them: "2 (lines 4, 17)"."""
    named = ", ".join(str(number) for number in numbers[:N_LISTED].tolist())
    more = f" and {len(numbers) - N_LISTED:,} more" if len(numbers) > N_LISTED else ""
    return f"{len(numbers):,} (line{'s' if len(numbers) > 1 else ''} {named}{more})"
