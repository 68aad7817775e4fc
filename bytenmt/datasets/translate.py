"""Translate a column of batches of rows, for jobs of Ray or Spark."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from bytenmt.errors import SettingError
from bytenmt.translation.translator import Translator
from bytenmt.utf8 import repair

LINE_ENDS = re.compile(rb"([\r\n]+)")


class Translate:
    """Add a column of translations to batches of rows, which are Arrow tables or record batches.

    Made once by each actor of Ray Data, or each task of Spark (docs/datasets.md has whole
    programs):

        rows.map_batches(Translate, fn_constructor_args=["runs/mine"], batch_format="pyarrow", …)

    runs: run folders or weights files, several for an ensemble, by paths that are valid on every
    machine. column: name of the column of texts, strings or bytes; to: name of the new column of
    translations. A text of several lines is translated line by line, and its line ends stay; a null
    stays null; invalid UTF-8 becomes U+FFFD. threads: CPU threads of the engine. options: keyword
    arguments of Translator.load, such as beam.
    """

    def __init__(
        self,
        *runs: str | Path,
        column: str = "text",
        to: str = "translation",
        threads: int | None = 1,
        **options: Any,
    ) -> None:
        self.column = column
        self.to = to
        self._translator = Translator.load(*runs, threads=threads, **options)

    def __call__(self, batch: Any) -> Any:
        """Return an Arrow batch with the column `to` appended. Raises SettingError."""
        import pyarrow as pa

        if isinstance(batch, dict):
            cure = 'give map_batches batch_format="pyarrow"'
            raise SettingError(f"the batches are not Arrow tables: {cure}")
        self._check_columns(batch.schema.names)
        values = batch.column(self.column)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        try:
            texts = values.cast(pa.large_binary()).to_pylist()
        except pa.ArrowNotImplementedError:
            message = f"the column {self.column} has the type {values.type}: expected texts"
            raise SettingError(message) from None
        return batch.append_column(self.to, pa.array(self.translate(texts), pa.string()))

    def _check_columns(self, names: Collection[str]) -> None:
        if self.column not in names or self.to in names:
            found = f"the columns are {', '.join(names)}"
            raise SettingError(f"{found}: expected a column {self.column} and none named {self.to}")

    def translate(self, texts: Sequence[bytes | None]) -> list[str | None]:
        """Return the translation of each text, None for None; each line is translated on its own.

        texts: UTF-8, in which invalid bytes become U+FFFD.
        """
        # Lines, and the line ends between them.
        rows = [LINE_ENDS.split(repair(text)) if text is not None else [] for text in texts]
        lines = [line for row in rows for line in row[::2]]
        results = iter(self._translator.translate_lines(lines))
        for row in rows:
            row[::2] = [next(results).best.text for _ in row[::2]]
        return [b"".join(row).decode() if row else None for row in rows]
