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
import numpy.typing as npt

from bytenmt.alphabet import ACCEPT, EOS, REJECT, UTF8_NEXT, first_invalid, njit, repair
from bytenmt.errors import DataError

Bytes = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 2**31 - 1  # bytes: lengths are int32
N_LISTED = 10  # line numbers that a report names
OTHER_PACKINGS = {".xz", ".zst", ".bz2", ".zip", ".7z"}

# The automaton of a text: EOS passes between the characters of a hypothesis but is no text.
_TEXT_NEXT = UTF8_NEXT.copy()
_TEXT_NEXT[ACCEPT, EOS] = REJECT

# The scan works in chunks that stay in the innermost cache: one look for non-ASCII bytes, one for
# UTF-8 mistakes where there are any, one for line ends, one read of memory for all three.
CHUNK = 4096  # bytes, a multiple of 8
EVERY_BYTE_01 = np.uint64(0x0101010101010101)
EVERY_BYTE_7F = np.uint64(0x7F7F7F7F7F7F7F7F)
EVERY_BYTE_80 = np.uint64(0x8080808080808080)
EVERY_BYTE_NEWLINE = np.uint64(0x0A0A0A0A0A0A0A0A)
ONE = np.uint64(1)
SEVEN = np.uint64(7)
TOP_BYTE = np.uint64(56)


@njit
def _any_bit(words: npt.NDArray[np.uint64], bits: np.uint64) -> bool:
    """Whether any of the words has any of the bits."""
    seen = np.uint64(0)
    for k in range(len(words)):
        seen |= words[k]
    return bool(seen & bits)


@njit
def _mark_mistakes(
    third: Bytes, second: Bytes, previous: Bytes, current: Bytes, out: Bytes
) -> None:
    """Set out[i] where current[i] cannot follow the three bytes before it in UTF-8.

    The four inputs are one text, each a byte further on. Written without branches, so that the
    compiler makes vectors of it: a byte must be a continuation exactly where a lead byte asks for
    one, and four leads narrow the range of the byte after them (alphabet.py tells which).
    """
    for i in range(len(out)):
        byte, before = current[i], previous[i]
        expected = (before >= 0xC0) | (second[i] >= 0xE0) | (third[i] >= 0xF0)
        wrong = ((byte & 0xC0) == 0x80) ^ expected
        wrong |= ((byte & 0xFE) == 0xC0) | (byte >= 0xF5)
        wrong |= (before == 0xE0) & (byte < 0xA0)
        wrong |= (before == 0xED) & (byte >= 0xA0)
        wrong |= (before == 0xF0) & (byte < 0x90)
        wrong |= (before == 0xF4) & (byte >= 0x90)
        out[i] |= wrong


@njit
def _length(data: Bytes, start: int, newline: int) -> int:
    """Bytes of the line that begins at `start` and whose newline stands at `newline`."""
    if newline > start and data[newline - 1] == 0x0D:
        return newline - 1 - start
    return newline - start


@njit
def _find_lines(
    data: Bytes,
    words: npt.NDArray[np.uint64],
    begin: int,
    stop: int,
    n_lines: int,
    start: int,
    starts: Indices,
    lengths: Lengths,
) -> tuple[int, int]:
    """Add the lines whose newline lies in bytes begin to stop; `begin` is a multiple of 8.

    Returns the number of lines and where the next one starts. words is data, 8 bytes each.
    """
    for k in range(begin // 8, stop // 8):
        # The high bit of each byte that is a newline; no carry reaches the byte beside it.
        x = words[k] ^ EVERY_BYTE_NEWLINE
        hits = ~(((x & EVERY_BYTE_7F) + EVERY_BYTE_7F) | x | EVERY_BYTE_7F)
        while hits:
            below = ((hits & (~hits + ONE)) >> SEVEN) - ONE  # ones below the lowest hit
            offset = np.int64(((below & EVERY_BYTE_01) * EVERY_BYTE_01) >> TOP_BYTE)
            newline = 8 * k + int(offset)
            starts[n_lines], lengths[n_lines] = start, _length(data, start, newline)
            n_lines, start = n_lines + 1, newline + 1
            hits &= hits - ONE
    for newline in range(stop // 8 * 8, stop):
        if data[newline] == 0x0A:
            starts[n_lines], lengths[n_lines] = start, _length(data, start, newline)
            n_lines, start = n_lines + 1, newline + 1
    return n_lines, start


@njit
def _scan(
    data: Bytes, words: npt.NDArray[np.uint64], first: int
) -> tuple[Indices, Lengths, npt.NDArray[np.bool_]]:
    """Find all lines, and the chunks that may hold a UTF-8 mistake.

    data (size,) uint8; words (size // 8,) uint64, the same memory; first: where line 1 begins.
    Returns starts (n,) int64, lengths (n,) int32 and suspicious (size // CHUNK + 1,) bool: the
    first chunk and what follows the last whole one always are, because there a character would
    have to be followed over the edge of the data.
    """
    size = len(data)
    n_chunks = size // CHUNK
    suspicious = np.zeros(n_chunks + 1, np.bool_)
    suspicious[0] = suspicious[n_chunks] = True
    mistakes = np.empty(CHUNK, np.uint8)
    # Room that is never written to is never given memory by the operating system.
    starts = np.empty(2 * CHUNK + size // 32, np.int64)
    lengths = np.empty(2 * CHUNK + size // 32, np.int32)
    n_lines, start = 0, first
    was_ascii = False
    for chunk in range(n_chunks + 1):
        begin = chunk * CHUNK
        stop = min(begin + CHUNK, size)
        if n_lines + CHUNK >= len(starts):  # every byte of a chunk may end a line
            starts = np.concatenate((starts, np.empty_like(starts)))
            lengths = np.concatenate((lengths, np.empty_like(lengths)))
        # A chunk of ASCII is innocent unless the one before may have left a character open.
        is_ascii = not _any_bit(words[begin // 8 : stop // 8], EVERY_BYTE_80)
        if 0 < chunk < n_chunks and not (is_ascii and was_ascii):
            mistakes[:] = 0
            third, second = data[begin - 3 : stop - 3], data[begin - 2 : stop - 2]
            _mark_mistakes(third, second, data[begin - 1 : stop - 1], data[begin:stop], mistakes)
            suspicious[chunk] = _any_bit(mistakes.view(np.uint64), EVERY_BYTE_01)
        was_ascii = is_ascii
        n_lines, start = _find_lines(data, words, begin, stop, n_lines, start, starts, lengths)
    if start < size:  # the last line has no newline
        starts[n_lines], lengths[n_lines] = start, size - start
        n_lines += 1
    return starts[:n_lines], lengths[:n_lines], suspicious


@njit
def _invalid_lines(
    data: Bytes,
    starts: Indices,
    lengths: Lengths,
    suspicious: npt.NDArray[np.bool_],
    following: npt.NDArray[np.uint8],
) -> Indices:
    """Indices of the lines that are not UTF-8: those in suspicious chunks, byte by byte."""
    invalid = np.zeros(len(starts), np.bool_)
    for line in range(len(starts)):
        start, end = starts[line], starts[line] + lengths[line]
        is_suspicious = False
        # The byte after the line counts: it is where a character that is cut off shows.
        for chunk in range(start // CHUNK, end // CHUNK + 1):
            is_suspicious |= suspicious[chunk]
        if is_suspicious:
            state = ACCEPT
            for place in range(start, end):
                state = following[state, data[place]]
            invalid[line] = state != ACCEPT
    return np.flatnonzero(invalid)


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
    def from_bytes(
        cls, content: bytes | Bytes, path: str | Path, errors: str = "replace"
    ) -> "TextFile":
        """The same from memory; `path` only names it in messages."""
        if errors not in ("replace", "strict"):
            raise ValueError(f'errors is {errors!r}, expected "replace" or "strict"')
        data = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content
        marked = bytes(data[:3]) == BYTE_ORDER_MARK
        words = data[: len(data) // 8 * 8].view(np.uint64)
        starts, lengths, suspicious = _scan(data, words, 3 if marked else 0)
        if len(data) > LONGEST_LINE:
            _refuse_endless_lines(path, starts, len(data))
        invalid = _invalid_lines(data, starts, lengths, suspicious, _TEXT_NEXT)
        side = bytearray()
        for line in invalid.tolist():
            text = data[starts[line] : starts[line] + lengths[line]].tobytes()
            if errors == "strict":
                raise DataError(_describe_mistake(path, line + 1, text))
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


def _describe_mistake(path: str | Path, number: int, text: bytes) -> str:
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
    ) -> "ParallelCorpus":
        """Pair two texts. Raises DataError where their line counts differ."""
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
