"""Parallel corpora: pairs of text files line by line, and which of their pairs are used.

Several pairs of files make one corpus; nothing is copied, each text is read where it lies.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.config.bounds import WEIGHT
from bytenmt.data.decompress import unpack_all
from bytenmt.data.line_scan import LONGEST_LINE, Indices, Lengths, select_pairs
from bytenmt.data.text_file import TextFile, check_file
from bytenmt.errors import DataError
from bytenmt.reporter import SILENT, Reporter


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
        return self.src is not None or self.tsv is not None


class Part(NamedTuple):
    """The opened files of a corpus. src is None for a model without a source."""

    src: TextFile | None
    tgt: TextFile
    weight: float

    @property
    def texts(self) -> list[TextFile]:
        """Return source and target, or the target only."""
        return [self.tgt] if self.src is None else [self.src, self.tgt]

    @property
    def files(self) -> list[TextFile]:
        """Return one text per file: both sides, or the source alone if both are columns of one table."""
        return self.texts[:1] if self.texts[0].data is self.tgt.data else self.texts

    @property
    def name(self) -> str:
        return " and ".join(str(text.path) for text in self.files)


class LeftOut(NamedTuple):
    """Lines of a part, from 0, that are not used; one with both faults counts as empty.

    too_long, empty (k,) int64: a side is longer than its limit; a side has no bytes.
    """

    too_long: Indices
    empty: Indices


@dataclass(frozen=True, eq=False)
class ParallelCorpus:
    """The kept pairs of all parts, part after part. All parts have a source or none has.

    bounds (n_parts + 1,) int64: part p holds the kept pairs bounds[p] to bounds[p + 1].
    lines (m,) int32: the line, from 0, of each kept pair in its part (int64 where a part has 2**31).
    source_lengths, target_lengths (m,) int32: their bytes without EOS; no source: all 0.
    left_out: what is not kept, for each part.
    """

    parts: tuple[Part, ...]
    bounds: Indices
    lines: Lengths | Indices
    source_lengths: Lengths
    target_lengths: Lengths
    left_out: tuple[LeftOut, ...]
    max_source_bytes: int | None
    max_target_bytes: int | None

    @classmethod
    def open(
        cls,
        src: str | Path | None,
        tgt: str | Path,
        errors: str = "replace",
        max_source_bytes: int | None = None,
        max_target_bytes: int | None = None,
    ) -> "ParallelCorpus":
        """Open one pair of files; a limit of None is no limit. Raises DataError, see TextFile.open."""
        files = PairFiles(None if src is None else Path(src), Path(tgt))
        return cls.open_all([files], errors, max_source_bytes, max_target_bytes)

    @classmethod
    def open_all(
        cls,
        files: Sequence[PairFiles],
        errors: str = "replace",
        max_source_bytes: int | None = None,
        max_target_bytes: int | None = None,
        cache: Path | None = None,
        reporter: Reporter = SILENT,
    ) -> "ParallelCorpus":
        """Open several pairs of files as one corpus, each file in a thread of its own.

        cache: the folder that packed files are unpacked into; None unpacks into memory. reporter: receives
        the progress. Raises DataError, see TextFile.open, and if only some have a source.
        """
        jobs = [job for pair in files for job in _files_of(pair)]
        for path, _ in jobs:  # all at once: a wrong name is told before anything takes its time
            check_file(path)
        if cache is not None:
            unpack_all([path for path, _ in jobs], cache, reporter)

        def read(job: tuple[Path, bool]) -> list[TextFile]:
            path, is_table = job
            if is_table:
                return list(TextFile.open_tsv(path, errors, cache))
            return [TextFile.open(path, errors, cache)]

        with ThreadPoolExecutor(max(1, min(len(jobs), os.cpu_count() or 1))) as threads:
            texts = [text for found in threads.map(read, jobs) for text in found]
        following = iter(texts)
        parts = []
        for pair in files:
            src = next(following) if pair.has_source else None
            parts.append(Part(src, next(following), pair.weight))
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
        _check_parts(parts)
        lines: list[npt.NDArray[Any]] = []
        sources, targets, left_out = [], [], []
        for src, tgt, _ in parts:
            source_limit = LONGEST_LINE if src is None else max_source_bytes or LONGEST_LINE
            # Without a source the target stands in, for a check that cannot fail.
            source = tgt.lengths if src is None else src.lengths
            target_limit = max_target_bytes or LONGEST_LINE
            used, *faults = select_pairs(source, tgt.lengths, source_limit, target_limit, keep_empty)
            all_used = len(used) == len(tgt)  # then nothing is copied
            lines.append(used.astype(np.int32) if len(tgt) < 2**31 else used)
            targets.append(tgt.lengths if all_used else tgt.lengths[used])
            if src is None:
                sources.append(np.zeros(len(used), np.int32))
            else:
                sources.append(source if all_used else source[used])
            left_out.append(LeftOut(*faults))
        return cls(
            parts=tuple(parts),
            bounds=np.cumsum([0, *map(len, lines)], dtype=np.int64),
            lines=lines[0] if len(parts) == 1 else np.concatenate(lines),
            source_lengths=sources[0] if len(parts) == 1 else np.concatenate(sources),
            target_lengths=targets[0] if len(parts) == 1 else np.concatenate(targets),
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
        assert len(self.parts) == 1
        return self.parts[0].src

    @property
    def tgt(self) -> TextFile:
        """Return the target of a corpus of one part."""
        assert len(self.parts) == 1
        return self.parts[0].tgt

    def source(self, k: int) -> bytes:
        """Return the source of the k-th kept pair."""
        src = self._part(k).src
        assert src is not None
        return src.line(int(self.lines[k]))

    def target(self, k: int) -> bytes:
        """Return the target of the k-th kept pair."""
        return self._part(k).tgt.line(int(self.lines[k]))

    def _part(self, k: int) -> Part:
        assert 0 <= k < len(self)
        return self.parts[int(np.searchsorted(self.bounds, k, "right")) - 1]

    def require_pairs(self) -> None:
        """Raise DataError where a file is empty or no pair is left."""
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


def _files_of(pair: PairFiles) -> list[tuple[Path, bool]]:
    """Return the files to open, in order, and whether each is a table. Raises ValueError."""
    if not WEIGHT.hold(pair.weight):
        raise ValueError(f"the weight is {pair.weight}, expected {WEIGHT}")
    if pair.tsv is not None and pair.src is None and pair.tgt is None:
        return [(pair.tsv, True)]
    if pair.tsv is None and pair.tgt is not None:
        return [(path, False) for path in (pair.src, pair.tgt) if path is not None]
    raise ValueError(f"{pair}: expected either a target, with a source or without, or a table")


def _check_parts(parts: Sequence[Part]) -> None:
    """Raise ValueError or DataError if these parts cannot be one corpus."""
    if not parts:
        raise ValueError("a corpus needs at least one pair of files")
    for src, tgt, _ in parts:
        if src is not None and len(src) != len(tgt):
            raise DataError(
                f"{src.path} has {len(src)} lines and {tgt.path} has {len(tgt)}: "
                f"line i of one must translate line i of the other"
            )
    alone = [part.src is None for part in parts]
    if any(alone) and not all(alone):
        first, other = parts[alone.index(True)], parts[alone.index(False)]
        raise DataError(f"{first.name} has no source and {other.name} has: give all a source, or none")
