"""Parallel corpora: pairs of text files line by line, and which of their pairs are used.

Several pairs of files make one corpus; nothing is copied, each text is read where it lies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bytenmt.config.fields import Option, Weight, check_values
from bytenmt.data.pair_files import PairFiles
from bytenmt.data.text_file import MAX_LINE_BYTES, Indices, Lengths, TextFile
from bytenmt.errors import DataError

# Zero-width characters, which str.isspace does not count, and the first bytes of all characters
# beyond ASCII that cannot be seen, among which are others.
ZERO_WIDTH = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
FIRST_BYTES = np.array([0xC2, 0xE1, 0xE2, 0xE3, 0xEF], np.uint8)


class CorpusPart(NamedTuple):
    """The opened texts of one of the corpora that a ParallelCorpus joins."""

    src: TextFile | None  # None for a model without a source
    tgt: TextFile  # of a table, both texts share the bytes of its file
    weight: float  # how often its pairs occur in an epoch

    @property
    def files(self) -> list[TextFile]:
        """One text per file on disk: (src, tgt), or src for a table of both, or tgt alone."""
        if self.src is None:
            return [self.tgt]
        if self.src.data is self.tgt.data:
            return [self.src]
        return [self.src, self.tgt]

    @property
    def name(self) -> str:
        """The paths of the part's files, joined by "and", for messages."""
        return " and ".join(str(text.path) for text in self.files)


class LeftOut(NamedTuple):
    """The line numbers, from 0, of pairs that are not used: too long or empty ones.

    A pair with both faults counts as empty.
    """

    too_long: Indices  # (k,) int64: a side is longer than its limit
    empty: Indices  # (k,) int64: a side has no bytes, or the target no visible character


@dataclass(frozen=True, eq=False)
class ParallelCorpus:
    """The m sentence pairs of one or more corpora that are used, numbered part after part.

    Empty and too long pairs are left out. All parts have a source or none has.
    """

    parts: tuple[CorpusPart, ...]
    bounds: Indices  # (n_parts + 1,) int64: part p holds the pairs bounds[p] to bounds[p + 1] - 1
    lines: Lengths  # (m,) int32: the line, from 0, of each pair in the files of its part
    source_lengths: Lengths  # (m,) int32: bytes without EOS; without a source all 0
    target_lengths: Lengths  # (m,) int32: bytes without EOS
    left_out: tuple[LeftOut, ...]  # of each part
    max_source_bytes: int | None  # None: no limit
    max_target_bytes: int | None
    # pairs (source, target) by number, from an augmentation, that replace those of the files
    changed: Mapping[int, tuple[bytes, bytes]] = field(default_factory=dict)

    @classmethod
    def open_all(
        cls,
        files: Sequence[PairFiles],
        max_source_bytes: int | None = None,
        max_target_bytes: int | None = None,
    ) -> "ParallelCorpus":
        """Open several pairs of files as one corpus.

        Pairs with a side longer than its limit in bytes are left out; None means no limit. Raises
        DataError for a file that cannot be read, unequal numbers of lines, or if only some have a
        source.
        """
        parts = []
        for pair in files:
            check_values({"weight": pair.weight}, {"weight": Option("weight", Weight, 1.0, "")})
            if pair.tsv is not None:
                parts.append(CorpusPart(*TextFile.open(pair.tsv).split(), pair.weight))
            elif pair.tgt is not None:
                source = None if pair.src is None else TextFile.open(pair.src)
                parts.append(CorpusPart(source, TextFile.open(pair.tgt), pair.weight))
        return cls._from_parts(parts, max_source_bytes, max_target_bytes)

    @classmethod
    def from_texts(
        cls,
        src: TextFile | None,
        tgt: TextFile,
        max_source_bytes: int | None = None,
        max_target_bytes: int | None = None,
        keep_empty: bool = False,
    ) -> "ParallelCorpus":
        """Pair line i of one text with line i of the other.

        src: None for no source; max_…_bytes: pairs with a longer side are left out, None for no
        limit; keep_empty: keep pairs with an empty side, too, for scoring line by line. Raises
        DataError where the line counts differ.
        """
        return cls._from_parts(
            [CorpusPart(src, tgt, 1.0)], max_source_bytes, max_target_bytes, keep_empty
        )

    @classmethod
    def _from_parts(
        cls,
        parts: Sequence[CorpusPart],
        max_source_bytes: int | None,
        max_target_bytes: int | None,
        keep_empty: bool = False,
    ) -> "ParallelCorpus":
        if len({src is None for src, _, _ in parts}) != 1:
            names = ", ".join(part.name for part in parts)
            raise DataError(f"{names}: a corpus needs files, all with a source or all without one")
        lines = []
        sources = []
        targets = []
        left_out = []
        for src, tgt, _ in parts:
            source_lengths = _source_lengths(src, tgt)
            is_empty = np.zeros(len(tgt), np.bool_)
            if not keep_empty:
                is_empty = tgt.lengths == 0
                if src is not None:
                    is_empty |= source_lengths == 0
                is_empty[_white_lines(tgt)] = True
            is_long = source_lengths > (max_source_bytes or MAX_LINE_BYTES)
            is_long |= tgt.lengths > (max_target_bytes or MAX_LINE_BYTES)
            used = np.flatnonzero(~(is_empty | is_long))
            lines.append(used.astype(np.int32))
            is_whole = len(used) == len(tgt)  # then nothing is copied
            sources.append(source_lengths if is_whole else source_lengths[used])
            targets.append(tgt.lengths if is_whole else tgt.lengths[used])
            left_out.append(LeftOut(np.flatnonzero(is_long & ~is_empty), np.flatnonzero(is_empty)))
        return cls(
            parts=tuple(parts),
            bounds=np.cumsum([0, *map(len, lines)], dtype=np.int64),
            lines=_concatenate(lines),
            source_lengths=_concatenate(sources),
            target_lengths=_concatenate(targets),
            left_out=tuple(left_out),
            max_source_bytes=max_source_bytes,
            max_target_bytes=max_target_bytes,
        )

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def has_source(self) -> bool:
        """True if the pairs have sources."""
        return self.parts[0].src is not None

    @property
    def src(self) -> TextFile | None:
        """The source text, None without sources. Raises ValueError for a corpus of many parts."""
        (part,) = self.parts
        return part.src

    @property
    def tgt(self) -> TextFile:
        """The target text. Raises ValueError for a corpus of many parts (pairs of files)."""
        (part,) = self.parts
        return part.tgt

    def source(self, k: int) -> bytes:
        """Return the source of pair k, from 0, in UTF-8; the corpus must have a source."""
        if k in self.changed:
            return self.changed[k][0]
        src = self._part(k).src
        assert src is not None
        return src.line(int(self.lines[k]))

    def target(self, k: int) -> bytes:
        """Return the target of pair k, from 0, in UTF-8."""
        if k in self.changed:
            return self.changed[k][1]
        return self._part(k).tgt.line(int(self.lines[k]))

    def _part(self, k: int) -> CorpusPart:
        return self.parts[int(np.searchsorted(self.bounds, k, "right")) - 1]

    def require_pairs(self) -> None:
        """Raise DataError if a file is empty or seems not to be UTF-8, or no pair is left."""
        for part in self.parts:
            for text in part.files:
                text.check_content()
        if not len(self):
            n_empty = sum(len(out.empty) for out in self.left_out)
            n_long = sum(len(out.too_long) for out in self.left_out)
            raise DataError(
                f"{self.parts[-1].tgt.path}: no pair is left of {n_empty + n_long} lines"
                f" ({n_empty} empty, {n_long} too long): check the text, or raise"
                " max_source_bytes and max_target_bytes"
            )


def _source_lengths(src: TextFile | None, tgt: TextFile) -> Lengths:
    """Return the bytes of each source, 0 without a source. Raises DataError for unequal counts."""
    if src is None:
        return np.zeros(len(tgt), np.int32)
    if len(src) != len(tgt):
        raise DataError(
            f"{src.path} has {len(src)} lines and {tgt.path} has {len(tgt)}: "
            f"line i of one must translate line i of the other"
        )
    return src.lengths


def _concatenate(arrays: Sequence[Lengths]) -> Lengths:
    """Return arrays one after another; a single one is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _white_lines(text: TextFile) -> Indices:
    """Return the lines, from 0, without a visible character: white space and zero-width ones."""
    candidates = np.flatnonzero(text.lengths > 0)
    first_bytes = text.data[text.starts[candidates]]
    candidates = candidates[(first_bytes <= ord(" ")) | np.isin(first_bytes, FIRST_BYTES)]
    white = [line for line in candidates.tolist() if not has_visible(text.line(line).decode())]
    return np.array(white, np.int64)


def has_visible(line: str) -> bool:
    """Return whether a line has a character that is neither white space nor of zero width."""
    return any(not letter.isspace() and letter not in ZERO_WIDTH for letter in line)
