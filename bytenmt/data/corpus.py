"""Parallel corpora: pairs of text files line by line, and which of their pairs are used.

Several pairs of files make one corpus; nothing is copied, each text is read where it lies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bytenmt.config.fields import Option, Weight, check
from bytenmt.data.text_file import LONGEST_LINE, Indices, Lengths, TextFile, check_file
from bytenmt.errors import DataError

SPACES = np.frombuffer(b" \t\v\f\r", np.uint8)


class PairFiles(NamedTuple):
    """The files of a corpus: two files, a target only (src None), or a table `source TAB target` (tsv).

    weight: how often its pairs occur in an epoch; 0.5: half of them, drawn anew.
    """

    src: Path | None = None
    tgt: Path | None = None
    tsv: Path | None = None
    weight: float = 1.0

    @property
    def has_source(self) -> bool:
        """Return whether there is a source file, or a table."""
        return self.src is not None or self.tsv is not None


class Part(NamedTuple):
    """The opened files of a corpus. src is None for a model without a source."""

    src: TextFile | None
    tgt: TextFile
    weight: float

    @property
    def files(self) -> list[TextFile]:
        """Return one text per file: both sides, or the source alone if both are columns of one table."""
        if self.src is None:
            return [self.tgt]
        return [self.src] if self.src.data is self.tgt.data else [self.src, self.tgt]

    @property
    def name(self) -> str:
        return " and ".join(str(text.path) for text in self.files)


class LeftOut(NamedTuple):
    """Lines of a part, from 0, that are not used; one with both faults counts as empty.

    too_long, empty (k,) int64: a side is longer than its limit; a side has no bytes, or the target has white
    space alone.
    """

    too_long: Indices
    empty: Indices


@dataclass(frozen=True, eq=False)
class ParallelCorpus:
    """The kept pairs of all parts, part after part. All parts have a source or none has.

    bounds (n_parts + 1,) int64: part p holds the kept pairs bounds[p] to bounds[p + 1].
    lines (m,) int32: the line, from 0, of each kept pair in its part.
    source_lengths, target_lengths (m,) int32: their bytes without EOS; no source: all 0.
    left_out: what is not kept, for each part.
    changed: pairs that stand in the place of those in the texts, by their numbers.
    """

    parts: tuple[Part, ...]
    bounds: Indices
    lines: Lengths
    source_lengths: Lengths
    target_lengths: Lengths
    left_out: tuple[LeftOut, ...]
    max_source_bytes: int | None
    max_target_bytes: int | None
    changed: Mapping[int, tuple[bytes, bytes]] = field(default_factory=dict)

    @classmethod
    def open_all(
        cls,
        files: Sequence[PairFiles],
        errors: str = "replace",
        max_source_bytes: int | None = None,
        max_target_bytes: int | None = None,
    ) -> "ParallelCorpus":
        """Open several pairs of files as one corpus.

        Raises DataError, see TextFile.open, and if only some have a source.
        """
        for pair in files:  # all at once: a wrong name is told before anything takes its time
            check({"weight": pair.weight}, {"weight": Option("weight", Weight, 1.0, "")})
            for path in filter(None, pair[:3]):
                check_file(path)
        parts = []
        for src, tgt, tsv, weight in files:
            if tsv is not None:
                parts.append(Part(*TextFile.open(tsv, errors).split(), weight))
            elif tgt is not None:
                source = None if src is None else TextFile.open(src, errors)
                parts.append(Part(source, TextFile.open(tgt, errors), weight))
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
        """Pair two texts. Raises DataError where their line counts differ.

        keep_empty: keep pairs with an empty side too, for scoring line by line.
        """
        return cls._from_parts([Part(src, tgt, 1.0)], max_source_bytes, max_target_bytes, keep_empty)

    @classmethod
    def _from_parts(
        cls,
        parts: Sequence[Part],
        max_source_bytes: int | None,
        max_target_bytes: int | None,
        keep_empty: bool = False,
    ) -> "ParallelCorpus":
        if len({src is None for src, _, _ in parts}) != 1:
            names = ", ".join(part.name for part in parts)
            raise DataError(f"{names}: a corpus needs files, all with a source or all without one")
        lines, sources, targets, left_out = [], [], [], []
        for src, tgt, _ in parts:
            if src is not None and len(src) != len(tgt):
                raise DataError(
                    f"{src.path} has {len(src)} lines and {tgt.path} has {len(tgt)}: "
                    f"line i of one must translate line i of the other"
                )
            source_lengths = np.zeros(len(tgt), np.int32) if src is None else src.lengths
            is_empty = np.zeros(len(tgt), np.bool_)
            if not keep_empty:
                is_empty = tgt.lengths == 0 if src is None else (src.lengths == 0) | (tgt.lengths == 0)
                is_empty[_white_lines(tgt)] = True
            is_long = source_lengths > (max_source_bytes or LONGEST_LINE)
            is_long |= tgt.lengths > (max_target_bytes or LONGEST_LINE)
            used = np.flatnonzero(~(is_empty | is_long))
            all_used = len(used) == len(tgt)  # then nothing is copied
            lines.append(used.astype(np.int32))
            sources.append(source_lengths if all_used else source_lengths[used])
            targets.append(tgt.lengths if all_used else tgt.lengths[used])
            left_out.append(LeftOut(np.flatnonzero(is_long & ~is_empty), np.flatnonzero(is_empty)))
        return cls(
            parts=tuple(parts),
            bounds=np.cumsum([0, *map(len, lines)], dtype=np.int64),
            lines=_joined(lines),
            source_lengths=_joined(sources),
            target_lengths=_joined(targets),
            left_out=tuple(left_out),
            max_source_bytes=max_source_bytes,
            max_target_bytes=max_target_bytes,
        )

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def has_source(self) -> bool:
        return self.parts[0].src is not None

    @property
    def src(self) -> TextFile | None:
        """Return the source of a corpus of one part."""
        (part,) = self.parts
        return part.src

    @property
    def tgt(self) -> TextFile:
        """Return the target of a corpus of one part."""
        (part,) = self.parts
        return part.tgt

    def source(self, k: int) -> bytes:
        """Return the source of the k-th kept pair."""
        if k in self.changed:
            return self.changed[k][0]
        src = self._part(k).src
        assert src is not None
        return src.line(int(self.lines[k]))

    def target(self, k: int) -> bytes:
        """Return the target of the k-th kept pair."""
        if k in self.changed:
            return self.changed[k][1]
        return self._part(k).tgt.line(int(self.lines[k]))

    def _part(self, k: int) -> Part:
        return self.parts[int(np.searchsorted(self.bounds, k, "right")) - 1]

    def require_pairs(self) -> None:
        """Raise DataError where a file is empty or in another encoding, or no pair is left."""
        for part in self.parts:
            for text in part.files:
                text.require_lines()
        if not len(self):
            n_empty = sum(len(out.empty) for out in self.left_out)
            n_long = sum(len(out.too_long) for out in self.left_out)
            raise DataError(
                f"{self.parts[-1].tgt.path}: no pair is left of {n_empty + n_long} lines ({n_empty} empty,"
                f" {n_long} too long): check the text, or raise max_source_bytes and max_target_bytes"
            )


def _joined(arrays: Sequence[Lengths]) -> Lengths:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _white_lines(text: TextFile) -> Indices:
    """Return the lines, from 0, of white space alone."""
    candidates = np.flatnonzero(text.lengths > 0)
    candidates = candidates[np.isin(text.data[text.starts[candidates]], SPACES)]
    white = [line for line in candidates.tolist() if text.line(line).decode().isspace()]
    return np.array(white, np.int64)
