"""Translate a column of batches of rows, for jobs of Ray or Spark.

A row that cannot be translated gets a null and an error message; it never ends a job.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bytenmt.datasets.recipe import TranslatorSpec
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.decoding.settings import Settings
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError, SettingError, printable
from bytenmt.utf8 import first_invalid, repair

BATCH_BYTES = 1 << 18  # of text that is translated together
LINE_ENDS = re.compile(rb"([\r\n]+)")
ERROR = "_error"  # suffix of the column with error messages

_loaded: dict[bytes, Translator] = {}  # of this process, by their recipes: a Spark task unpickles its own


class RowError(NamedTuple):
    """The reason why a row has no translation: it holds no text, or its translation failed.

    message: the reason, for the user.
    """

    message: str


def text_and_error(row: str | RowError) -> tuple[str | None, str | None]:
    """Return the two columns of a row: its translation and its error message, of which one is None."""
    return (None, row.message) if isinstance(row, RowError) else (row, None)


class Translate:
    """Add to batches of rows a column of translations, and one, NAME_error, of error messages.

    On Ray Data each actor makes one, with an engine of its own. Two actors for two cores, which leave room
    for what reads and writes:

        import ray
        from bytenmt.datasets import Translate

        rows = ray.data.read_parquet("in").map_batches(
            Translate,
            fn_constructor_args=["runs/mine"],
            fn_constructor_kwargs={"column": "text", "beam": 4},
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=2),
            num_cpus=0.75,
        )
        rows.write_parquet("out")

    On Spark it goes to the executors as it is and loads its engine there, once a Python process:

        from bytenmt.datasets import Translate

        rows = spark.read.parquet("in")
        schema = rows.schema.add("translation", "string").add("translation_error", "string")
        rows.mapInArrow(Translate("runs/mine").batches, schema).write.parquet("out")

    runs: folders or weights files, under names that every machine knows. column: of the texts, str or bytes;
    to: of the translations. A text of several lines is translated line by line, its line ends stay. errors:
    invalid UTF-8 becomes U+FFFD ("replace"), or is the failure of its row ("strict"). threads: of the CPU,
    for each engine. settings, engine, device, precision, reverse: as of Translator.load. Raises
    SettingError here, and what loading raises where the first batch is translated.
    """

    def __init__(
        self,
        *runs: str | Path,
        column: str = "text",
        to: str = "translation",
        errors: str = "replace",
        engine: str = AUTO,
        device: str = AUTO,
        precision: str = AUTO,
        threads: int | None = 1,
        reverse: str | Path | None = None,
        **settings: Any,
    ) -> None:
        if not runs:
            raise SettingError("no run: give a run folder or a weights file")
        if errors not in ("replace", "strict"):
            raise SettingError(f"errors is {errors!r}, expected 'replace' or 'strict'")
        if to == column:
            raise SettingError(f"the translations would replace the column {column}: give another name")
        try:
            spec = EngineSpec(engine, device, precision, threads, reverse)
        except ValueError as error:
            raise SettingError(str(error)) from None
        checked = Settings.from_dict(settings)  # what it refuses is told now, not on another machine
        if reverse is not None:
            checked.check_ranks_hypotheses()
        self.recipe = TranslatorSpec(tuple(map(str, runs)), spec, settings)
        self.column, self.to, self.errors = column, to, errors

    def __call__(self, batch: Any) -> Any:
        """Return a batch with two more columns: an Arrow table or record batch, or a dict of NumPy arrays."""
        if isinstance(batch, Mapping):
            return self._of_arrays(batch)
        import pyarrow as pa

        results = [text_and_error(row) for row in self.rows(texts_of(batch, self.column))]
        texts = pa.array([text for text, _ in results], pa.string())
        errors = pa.array([error for _, error in results], pa.string())
        self._check(batch.schema.names)
        return batch.append_column(self.to, texts).append_column(self.to + ERROR, errors)

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Translate an iterator of batches, for Spark's mapInArrow."""
        return map(self, batches)

    def _of_arrays(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        import numpy as np

        self._check(list(batch))
        rows = self.rows([_checked(value) for value in batch[self.column].tolist()])
        results = [text_and_error(row) for row in rows]
        texts = np.array([text for text, _ in results], dtype=object)
        errors = np.array([error for _, error in results], dtype=object)
        return {**batch, self.to: texts, self.to + ERROR: errors}

    def _check(self, names: Sequence[str]) -> None:
        """Raise SettingError if the column is missing or an output column is there already."""
        check_columns(names, self.column, self.to, "the rows")

    def rows(self, texts: Sequence[bytes | RowError], first: int = 0) -> list[str | RowError]:
        """Translate texts; return the translation or the error of each.

        first: the number of the first line, for sampling.
        """
        translator = self.load()
        results: list[str | RowError | None] = []
        waiting: list[tuple[int, list[bytes]]] = []
        n_bytes = 0
        for text in texts:
            read = readable(text, self.errors)
            if isinstance(read, RowError):
                results.append(read)
                continue
            if n_bytes + len(read) > BATCH_BYTES:
                first += _translate_waiting(results, waiting, translator, first)
                n_bytes = 0
            waiting.append((len(results), LINE_ENDS.split(read)))
            results.append(None)
            n_bytes += len(read)
        _translate_waiting(results, waiting, translator, first)
        return [one for one in results if one is not None]

    def load(self) -> Translator:
        """Return the translator of this process; it is loaded once. Raises BytenmtError."""
        key = pickle.dumps(self.recipe)
        if key not in _loaded:
            _loaded[key] = self.recipe.load()
        return _loaded[key]


def texts_of(batch: Any, column: str) -> list[bytes | RowError]:
    """Return the texts of an Arrow table or record batch. Raises SettingError without such a column."""
    import pyarrow as pa

    if column not in batch.schema.names:
        raise missing(column, batch.schema.names, "the rows")
    values = batch.column(column)
    kind = check_type(values.type, column)
    if values.type != kind:
        values = values.cast(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):  # what is not UTF-8 is its row's affair
        values = values.cast(pa.binary() if pa.types.is_string(kind) else pa.large_binary())
    return [RowError("no text") if value is None else value for value in values.to_pylist()]


def check_type(kind: Any, column: str) -> Any:
    """Return the type of a column's values, string for nulls. Raises SettingError if they are no texts."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return pa.string()
    texts = pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary
    if not any(is_kind(kind) for is_kind in texts):
        raise SettingError(f"the column {column} is of type {kind}, expected text")
    return kind


def check_columns(names: Sequence[str], column: str, to: str, where: object) -> None:
    """Raise SettingError if the input column is missing or an output column is there already."""
    if column not in names:
        raise missing(column, names, where)
    for name in (to, to + ERROR):
        if name in names:
            raise SettingError(
                f"{where}: a column {name} exists already: give another name for the translations"
            )


def missing(column: str, names: Sequence[str], where: object) -> SettingError:
    told = ", ".join(map(str, names[:20])) or "none"
    return SettingError(f"{where}: no column {column}, expected one of {told}")


def _checked(value: Any) -> bytes | RowError:
    """Return a value of a NumPy array as a text."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return value
    nothing = value is None or isinstance(value, float)  # NaN, as pandas has it
    return RowError("no text" if nothing else f"no text but {type(value).__name__}")


def readable(text: bytes | RowError, errors: str) -> bytes | RowError:
    """Return the text as valid UTF-8, or why it cannot be used."""
    if isinstance(text, RowError):
        return text
    at = first_invalid(text)
    if at < 0:
        return text
    return repair(text) if errors == "replace" else RowError(f"not UTF-8: byte {at} is 0x{text[at]:02X}")


def _translate_waiting(
    results: list[str | RowError | None],
    waiting: list[tuple[int, list[bytes]]],
    translator: Translator,
    first: int,
) -> int:
    """Translate the waiting rows, store their results, and return the number of lines."""
    rows = [row for _, row in waiting]
    for (index, _), result in zip(waiting, _translate_rows(rows, translator, first), strict=True):
        results[index] = result
    waiting.clear()
    return _n_lines(rows)


def _n_lines(rows: Sequence[list[bytes]]) -> int:
    return sum(len(row[::2]) for row in rows)


def _translate_rows(rows: Sequence[list[bytes]], translator: Translator, first: int) -> list[str | RowError]:
    """Translate rows, each a list of lines and separators.

    If that raises an exception, each half is tried alone, down to the row that causes it.
    """
    try:
        results = iter(translator.translate_lines([line for row in rows for line in row[::2]], first))
        return [
            b"".join(
                part if index % 2 else next(results).best.text for index, part in enumerate(row)
            ).decode()
            for row in rows
        ]
    except Exception as error:
        if len(rows) < 2:
            name = "" if isinstance(error, BytenmtError) else f"{type(error).__name__}: "
            return [RowError(printable(f"{name}{error}"))]
        half = len(rows) // 2
        rest = first + _n_lines(rows[:half])
        first_half = _translate_rows(rows[:half], translator, first)
        return first_half + _translate_rows(rows[half:], translator, rest)
