"""The table in a CSV, TSV or JSON Lines file, with values as they are written there.

Text becomes numbers only where that loses nothing: `00012`, `NA`, `0x0F` and dates stay text. In a CSV
an empty text is null and nothing else is; JSON has types of its own, which are kept.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from headrace.errors import SourceError
from headrace.files.limits import read_file
from headrace.files.pread import open_regular
from headrace.formats.codecs.strict_json import parse_json

_INTEGER = r"^(0|-?[1-9][0-9]*)$"
_ODD = r"^(-?inf|nan)$"
# Integers among floats have at most 15 digits, all of which a float keeps.
_FLOAT = r"^-?(0|[1-9][0-9]{0,14}|(0|[1-9][0-9]*)(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))$"
_LIMIT = 1 << 63
_MAX_ROW = 16 << 20
_FIRST_ROWS = 8
_FIRST_CHARACTERS = 1 << 20  # a line may be of any length


def read_csv(path: Path, delimiter: str, paths: Sequence[str] = ()) -> pa.Table:
    """Read the table of a CSV file, in which the first column of `paths` that is there stays text.

    Raises:
        SourceError: The file is damaged, or not UTF-8.
    """
    raw = _parse_csv(path, delimiter)
    path_column = _find_first(paths, raw.column_names)
    columns, wrong = [], []
    for name, column in zip(raw.column_names, raw.columns, strict=True):
        try:
            text = column.cast(pa.string())
            columns.append(text if name == path_column else _find_numbers(text))
        except pa.ArrowInvalid:
            wrong.append(name)
    if wrong:
        raise SourceError(f"{path}: the columns {wrong} are not all UTF-8; save the file as UTF-8")
    return pa.table(columns, raw.column_names)


def _find_first(wanted: Sequence[str], names: Sequence[str]) -> str | None:
    return next((name for name in wanted if name in names), None)


def _parse_csv(path: Path, delimiter: str) -> pa.Table:
    """Return all cells as bytes. A row of our own is read behind the last: an open quote would swallow it."""
    data = read_file(path)
    if b"\0" in data:
        raise SourceError(f"{path}: it has zero bytes, as UTF-16 does; save the file as UTF-8")
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    read = pyarrow.csv.ReadOptions(block_size=_MAX_ROW)
    try:
        with pyarrow.csv.open_csv(_feed(data), read_options=read, parse_options=parse) as reader:
            names = reader.schema.names
        _check_separator(path, delimiter, names)
        last = delimiter.join("." * len(names)).encode()
        raw = pyarrow.csv.read_csv(
            _feed(data, b"\n", last, b"\n"),
            read_options=read,
            parse_options=parse,
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        straddles = "straddling" in str(error)  # what Arrow says of a row longer than a block
        too_long = f"a row of more than {_MAX_ROW >> 20} MiB, or a quote that is never closed"
        raise SourceError(f"{path}: {too_long if straddles else error}") from None
    cell = raw.columns[-1][-1].as_py()
    if cell != b".":
        line = data.count(b"\n") - cell.count(b"\n", 0, -len(last) - 2) + 1
        raise SourceError(f"{path}, line {line}: a quote that is never closed")
    return raw.slice(0, raw.num_rows - 1)


def _check_separator(path: Path, delimiter: str, names: list[str]) -> None:
    """Raise SourceError if a heading of several columns was read as one."""
    found = next((mark for mark in ";\t," if mark in names[0]), None)
    if len(names) == 1 and found:
        wanted = "tabs" if delimiter == "\t" else "commas"
        raise SourceError(
            f"{path}: its columns are separated by {found!r}; save it with {wanted}, and one called path"
        )


def _feed(*parts: bytes) -> pa.BufferReader:
    """Return bytes that Arrow owns: releasing Python's own bytes while Python is ending would crash its threads."""
    stream = pa.BufferOutputStream()
    for part in parts:
        stream.write(part)
    return pa.BufferReader(stream.getvalue())


def _find_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text as integers or floats, if all of it is written so."""
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column))])
    if _all_match(column, _INTEGER):
        try:
            return column.cast(pa.int64())
        except pa.ArrowInvalid:  # beyond 64 bits
            return column
    odd = pc.match_substring_regex(column, _ODD)  # among numbers alone these are floats
    if _all_match(column.filter(pc.invert(odd)), _FLOAT):
        floats = column.cast(pa.float64())
        return floats if pc.all(pc.equal(pc.is_finite(floats), pc.invert(odd))).as_py() else column
    return column


def _all_match(column: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(column, pattern)).as_py())


def read_json_lines(path: Path, paths: Sequence[str] = ()) -> pa.Table:
    """Read the table of a file with a JSON object a line; what a line does not have is null.

    The first column of `paths` that is there becomes text.

    Raises:
        SourceError: The file is damaged, or a column has no type.
    """
    rows = []
    try:
        with io.TextIOWrapper(io.BytesIO(read_file(path)), encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    rows.append(_parse_line(path, number, line))
    except UnicodeDecodeError:
        raise SourceError(f"{path}: not all UTF-8; save the file as UTF-8") from None
    names = list(dict.fromkeys(name for row in rows for name in row))
    path_column = _find_first(paths, names)
    columns = []
    for name in names:
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise SourceError(f"{path}: the name {name!r} is not text: it has half a character")
        try:
            values = [row.get(name) for row in rows]
            columns.append(pa.array(_write_paths(path, values) if name == path_column else values))
        except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
            raise SourceError(
                f"{path}: the values of {name!r} have no common type: {error!s:.200}"
            ) from None
    return pa.table(columns, names)


def _write_paths(path: Path, values: Sequence[object]) -> list[str | None]:
    """Return paths as text. A float is refused: 2.0 and 2.00 would be the same path."""
    for row, value in enumerate(values):
        if value is not None and type(value) not in (str, int):
            raise SourceError(
                f"{path}, row {row + 1}: the path {value!r:.80} is neither text nor an integer; write it as text"
            )
    return [None if value is None else str(value) for value in values]


def _parse_line(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = parse_json(line, _parse_integer)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}, line {number}: {error!s:.200}") from None
    if not isinstance(row, dict):
        raise SourceError(f"{path}, line {number}: it is a {type(row).__name__}, not an object")
    return row


def _parse_integer(digits: str) -> int:
    number = int(digits) if len(digits) < 25 else _LIMIT
    if not -_LIMIT <= number < _LIMIT:
        raise ValueError(f"{digits:.40} does not fit into 64 bits; write it as text")
    return number


def read_first_rows(path: Path) -> list[Any]:
    """Return the first rows of a CSV, TSV or JSON Lines file, as far as they can be read."""
    rows: list[Any] = []
    try:
        with open(open_regular(path), encoding="utf-8-sig", errors="replace", newline="") as file:
            lines = file.read(_FIRST_CHARACTERS).splitlines()
        rows.extend(islice(_parse_rows(path.suffix.lower(), lines), _FIRST_ROWS))
    except (OSError, ValueError, RecursionError, csv.Error):  # the last line may be cut
        pass
    return rows


def _parse_rows(suffix: str, lines: list[str]) -> Iterator[Any]:
    if suffix in (".csv", ".tsv"):
        return csv.DictReader(lines, delimiter="\t" if suffix == ".tsv" else ",")
    return (json.loads(line) for line in lines if line.strip())
