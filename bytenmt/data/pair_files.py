"""The names of the files of a parallel corpus. Opens no files."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from bytenmt.config.fields import Weight


class PairFiles(Struct, frozen=True, omit_defaults=True):
    """The files of a corpus: src and tgt, tgt alone for a model without a source, or tsv alone."""

    src: Path | None = None  # the sources, one a line
    tgt: Path | None = None  # the targets, one a line
    tsv: Path | None = None  # a table of lines `source TAB target`
    weight: Weight = 1.0  # how often its pairs occur in an epoch; 0.5: a random half of them

    @property
    def has_source(self) -> bool:
        """True if there are sources: a file of them, or a table."""
        return self.src is not None or self.tsv is not None

    def without_folders(self) -> PairFiles:
        """Return a copy whose paths are the names of the files alone, without their folders."""
        src, tgt, tsv = (
            None if path is None else Path(path.name) for path in (self.src, self.tgt, self.tsv)
        )
        return PairFiles(src, tgt, tsv, self.weight)
