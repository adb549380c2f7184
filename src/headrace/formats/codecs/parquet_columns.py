"""Columns of a Parquet file, read so that memory stays within the limit of a file.

A value that repeats is stored once and read as often as it comes, so that a kilobyte may expand to gigabytes.
No value is larger than its row group, which bounds how many rows are read at a time. (The metadata of a column
would say more, but a damaged one ends the process: pyarrow does not catch what the C++ library throws there.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.errors import SourceError
from headrace.files.limits import check_size, current_limit
from headrace.files.pread import open_regular

_ROWS = 4096
_ROWS_PER_BYTE = 16  # of a file: runs of nulls take next to nothing, images do not


def open_parquet_file(path: Path) -> pq.ParquetFile:
    """Open a regular file as Parquet, to be read by pieces. SourceError if it claims rows without end."""
    fd = open_regular(path)  # Arrow would wait for a pipe
    size = os.fstat(fd).st_size
    os.close(fd)
    file = pq.ParquetFile(path, buffer_size=1 << 20)
    if file.metadata.num_rows > size * _ROWS_PER_BYTE:
        file.close()
        raise SourceError(f"claims {file.metadata.num_rows} rows in {size} bytes")
    return file


def read_rows(
    file: pq.ParquetFile, group: int, columns: Sequence[str], limit: int, most: int = _ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield columns of a row group by at most `most` rows, which have no more than `limit` bytes, or by single rows."""
    size = int(file.metadata.row_group(group).total_byte_size)
    count = max(1, min(most, limit // max(1, size)))
    yield from file.iter_batches(count, row_groups=[group], columns=list(columns))


def read_columns(file: pq.ParquetFile, columns: Sequence[str], limit: int) -> pa.Table:
    """Return columns of all rows. SourceError if they take more than `limit` bytes, or are not all there."""
    count = file.metadata.num_rows
    if not columns or not count:
        return file.read(columns=list(columns))
    batches, size = [], 0
    for group in range(file.metadata.num_row_groups):
        for batch in read_rows(file, group, columns, limit):
            size += batch.nbytes
            check_size(size, limit)
            batches.append(batch)
    if sum(batch.num_rows for batch in batches) != count:
        raise SourceError(f"its row groups do not have the {count} rows that it claims")
    table = pa.Table.from_batches(batches).combine_chunks()
    table.validate(full=True)  # Arrow does not look at text before
    return table


def find_nulls(file: pq.ParquetFile, column: str) -> np.ndarray:
    """Return whether the bytes of each row in an image column are null; those of a damaged row group are not."""
    parts = []
    for group in range(file.metadata.num_row_groups):
        nulls = np.zeros(file.metadata.row_group(group).num_rows, bool)
        try:
            batches = read_rows(file, group, [f"{column}.bytes"], current_limit())
            found = [pc.is_null(pc.struct_field(b.column(column), "bytes")) for b in batches]
            nulls[:] = np.concatenate([part.to_numpy(zero_copy_only=False) for part in found])
        except (pa.ArrowException, OSError, ValueError):
            pass  # an error of its samples, when they are read
        parts.append(nulls)
    return np.concatenate(parts)
