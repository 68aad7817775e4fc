"""Data sets in parquet: a block is a part of a row group. pyarrow is imported where it is used."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bytenmt.datasets.translate import ERROR, RowError, check_type, text_and_error, texts_of
from bytenmt.errors import DataError

MIN_ROW_BYTES = 16  # that a row counts for: a dictionary may store one text for many rows


class Parquet:
    """The format parquet, see formats.DatasetFormat. All columns keep their types."""

    suffixes: tuple[str, ...] = (".parquet", ".pq")
    suffix = ".parquet"

    def columns(self, path: Path, column: str) -> list[str]:
        schema = _file(path).schema_arrow
        if column in schema.names:
            check_type(schema.field(column).type, column)
        names: list[str] = schema.names
        return names

    def spans(self, path: Path, column: str, block_bytes: int) -> Iterator[tuple[int, int, int, int]]:
        """A row group is cut evenly, by the bytes that its texts take before they are compressed."""
        metadata = _file(path).metadata
        for group in range(metadata.num_row_groups):
            of = metadata.row_group(group)
            chunks = (of.column(at) for at in range(of.num_columns))
            n_bytes = sum(one.total_uncompressed_size for one in chunks if one.path_in_schema == column)
            n_blocks = max(1, -(-max(n_bytes, of.num_rows * MIN_ROW_BYTES) // block_bytes))
            for at in range(n_blocks):
                begin, end = of.num_rows * at // n_blocks, of.num_rows * (at + 1) // n_blocks
                if begin < end:
                    yield begin, end, group, end - begin

    def read(self, path: Path, begin: int, end: int, base: int) -> bytes:
        import pyarrow as pa

        table = _file(path).read_row_group(base).slice(begin, end - begin)
        stream = io.BytesIO()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        return stream.getvalue()

    def texts(self, data: bytes, column: str, errors: str) -> list[bytes | RowError]:
        return texts_of(_table(data), column)

    def write(self, data: bytes, column: str, to: str, results: Sequence[str | RowError]) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = _table(data)
        columns = zip((to, to + ERROR), zip(*map(text_and_error, results), strict=True), strict=True)
        for name, values in columns:
            table = table.append_column(name, pa.array(values, pa.string()))
        file = io.BytesIO()
        pq.write_table(table, file)
        return file.getvalue()


def _file(path: Path) -> Any:
    """Raises DataError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path} is not a Parquet file: {error}") from None


def _table(data: bytes) -> Any:
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all()
