"""Tables with images in a column, as Hugging Face keeps them: what the columns mean, and samples from rows.

An image column holds encoded bytes, or {bytes, path}; where the bytes are null, the path names a file beside the
table. One such column is the field `jpg`, `png`, ...; several have their column's name before it. `label` is a
column of that name, or the only class label; its names come from the features that Hugging Face notes in the
schema, or from text labels in sorted order. Other columns of numbers, text and times become columns of the index;
nested and binary columns are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import SourceError
from headrace.files.limits import check_size, current_limit
from headrace.formats.codecs.datapoint import encode_component, join_field
from headrace.formats.image_paths import read_beside, stat_beside
from headrace.formats.labels import list_classes
from headrace.sample import Sample
from headrace.store.keys import make_keys, unique_keys

_INDEX_NAMES = frozenset({"key", "label", "file"})


@dataclass(frozen=True)
class TableColumns:
    """What the columns of a table mean."""

    images: Sequence[str]
    label: str | None
    class_names: Sequence[str] | None
    columns: pa.Schema
    ignored: Sequence[str]

    @property
    def small(self) -> list[str]:
        """The columns besides the images that samples are made of."""
        return ([self.label] if self.label else []) + list(self.columns.names)


@dataclass(frozen=True)
class RowSource:
    """A base of sources whose sample `i` is row `i` of a table, which has at least the columns `meaning.small`."""

    meaning: TableColumns
    table: pa.Table
    sizes: np.ndarray
    mtimes: np.ndarray
    names: Sequence[str]
    keys: Sequence[str]
    labels: pa.ChunkedArray | None
    classes: Sequence[str] | None
    max_file_size: int = field(default_factory=current_limit, kw_only=True)

    @property
    def columns(self) -> pa.Schema:
        return self.meaning.columns

    @property
    def ignored(self) -> Sequence[str]:
        return self.meaning.ignored

    def check_cells(self, images: Iterable[pa.Scalar]) -> None:
        """Raise SourceError if the images of a row are too large to be copied into memory."""
        check_size(sum(map(measure_image, images)), self.max_file_size)

    def make_sample(self, i: int, images: Mapping[str, object], folder: Path) -> Sample:
        """Return the images of a row, those without bytes from `folder`, with its label and columns."""
        label = None if self.labels is None else self.labels[i].as_py()
        try:
            columns = {name: _take_value(self.table[name][i]) for name in self.columns.names}
        except (ValueError, OverflowError) as error:  # a time or zone that Python does not have
            raise SourceError(f"a column cannot be read: {error!s:.100}") from None
        images = {name: self._find_bytes(value, folder) for name, value in images.items()}
        return Sample(self.keys[i], _make_fields(images), label, columns)

    def _find_bytes(self, value: object, folder: Path) -> object:
        """Return the bytes of an image, None if it has none; those of a file where there is only a path."""
        if not isinstance(value, dict):
            return value
        data, path = value.get("bytes"), value.get("path")
        if data is None and isinstance(path, str) and path:
            return read_beside(folder, path, self.max_file_size)
        return data


def sort_columns(schema: pa.Schema) -> TableColumns:
    """Return what the columns mean. Raise SourceError if none can hold images."""
    features = _read_features(schema)
    possible = [f.name for f in schema if _is_bytes(f.type) or _is_struct(f.type)]
    images = [n for n in possible if features.get(n, {}).get("_type") == "Image"] or possible
    if not images:
        raise SourceError(f"no column of encoded images among {schema.names!s:.200}")
    classes = [
        n for n, f in features.items() if f.get("_type") == "ClassLabel" and n in schema.names
    ]
    label = "label" if "label" in schema.names else classes[0] if len(classes) == 1 else None
    if label is not None and not _is_label(schema.field(label).type):
        _check_left_out(schema.field(label))
        label = None
    names = features.get(label or "", {}).get("names")
    rest = [f for f in schema if f.name not in (*images, label)]
    flat = [f for f in rest if _is_flat(f.type) and f.name not in _INDEX_NAMES]
    return TableColumns(
        images=images,
        label=label,
        class_names=names if isinstance(names, list) and names else None,
        columns=pa.schema([pa.field(f.name, _index_type(f.type)) for f in flat]),
        ignored=[f"column {f.name}" for f in rest if f not in flat],
    )


def _read_features(schema: pa.Schema) -> dict[str, dict[str, Any]]:
    """Return Hugging Face's description of the columns, empty if it is missing or unreadable."""
    try:
        content = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = content["info"]["features"]
        return {name: f for name, f in features.items() if isinstance(f, dict)}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_struct(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind):
        return False
    position = kind.get_field_index("bytes")
    return position >= 0 and _is_bytes(kind.field(position).type)


def find_path_column(schema: pa.Schema, meaning: TableColumns) -> str | None:
    """Return the image column, if it is the only one and has a path beside its bytes."""
    columns = list_path_columns(schema, meaning)
    return columns[0] if columns and len(meaning.images) == 1 else None


def list_path_columns(schema: pa.Schema, meaning: TableColumns) -> list[str]:
    """Return the image columns that have a path beside their bytes."""
    kinds = {name: schema.field(name).type for name in meaning.images if name in schema.names}
    structs = {name: kind for name, kind in kinds.items() if pa.types.is_struct(kind)}
    return [name for name, kind in structs.items() if kind.get_field_index("path") >= 0]


def measure_rows(
    folder: Path,
    table: pa.Table,
    meaning: TableColumns,
    sizes: np.ndarray,
    mtime: int,
    find_nulls: Callable[[str], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes and mtimes of a file's rows; a row that has only a path has those of its image file.

    Args:
        folder: The folder of the file.
        table: Its columns, at least the paths of images.
        meaning: What the columns mean.
        sizes: The size of each row in the file.
        mtime: The mtime of the file.
        find_nulls: Returns whether the bytes in each row of an image column are null.
    """
    mtimes, lone = np.full(len(sizes), mtime, np.int64), np.zeros(len(sizes), np.int64)
    files = np.zeros(len(sizes), np.int64)
    for name in list_path_columns(table.schema, meaning):
        paths = pc.struct_field(table[name], "path").to_pylist()
        texts = [path if isinstance(path, str) else None for path in paths]
        states = stat_beside(folder, texts)
        if states.any():  # finding nulls may have to read the whole column
            is_path = find_nulls(name) & np.array([bool(text) for text in texts], bool)
            files += np.where(is_path, states[:, 0], 0)
            mtimes = np.maximum(mtimes, np.where(is_path, states[:, 1], 0))
            lone += is_path
    return np.where(lone == len(meaning.images), 0, sizes) + files, mtimes


class FileRows(NamedTuple):
    """The rows of one file: its stem, which names them, their columns, sizes and mtimes."""

    stem: str
    table: pa.Table
    sizes: np.ndarray
    mtimes: np.ndarray


def join_rows(
    path: Path, meaning: TableColumns, files: Sequence[FileRows], keep: Sequence[str]
) -> dict[str, Any]:
    """Return the arguments of a `RowSource` over the rows of all files, with the columns `keep`."""
    stems = [f"{file.stem}/{row:06d}" for file in files for row in range(len(file.sizes))]
    if not stems:
        raise SourceError(f"{path}: no rows in it")
    table = pa.concat_tables([file.table for file in files])
    labels, classes = number_labels(path, meaning, table)
    column = find_path_column(table.schema, meaning)
    names, keys = _name_rows(None if column is None else table[column], stems)
    return {
        "meaning": meaning,
        "table": table.select(keep),
        "sizes": np.concatenate([file.sizes for file in files]),
        "mtimes": np.concatenate([file.mtimes for file in files]),
        "names": names,
        "keys": keys,
        "labels": labels,
        "classes": classes,
    }


def _is_label(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or _is_text(kind))


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _check_left_out(column: pa.Field) -> None:
    """Raise SourceError unless a label column holds lists or nothing, which are ignored and reported."""
    if not (pa.types.is_nested(column.type) or pa.types.is_null(column.type)):
        raise SourceError(
            f"the column {column.name!r} is {column.type}: labels are integers or names; "
            "rename it if it is something else"
        )


def _is_flat(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    types = pa.types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_timestamp, _is_text)
    return any(test(kind) for test in tests)


def _index_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column in the index: text is text however it was stored."""
    is_text = pa.types.is_dictionary(kind) or _is_text(kind) or _is_nanoseconds(kind)
    return pa.string() if is_text else kind


def _is_nanoseconds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def _take_value(value: pa.Scalar) -> Any:
    """Return a value for the index. Nanoseconds become ISO text: Python's times end at microseconds."""
    return (value.cast(pa.string()) if _is_nanoseconds(value.type) else value).as_py()


def number_labels(
    path: object, meaning: TableColumns, table: pa.Table
) -> tuple[pa.ChunkedArray | None, list[str] | None]:
    """Return (integer or null per row, class names)."""
    if meaning.label is None:
        return None, None
    column = table[meaning.label]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_text(column.type):
        column = column.cast(pa.string())
        classes = list_classes(path, pc.unique(column).to_pylist())
        return pc.index_in(column, pa.array(classes, pa.string())).cast(pa.int64()), classes
    if pa.types.is_floating(column.type):  # pandas makes floats of integers with gaps
        column = pc.if_else(pc.is_nan(column), None, column)
    try:
        return column.cast(pa.int64()), list(meaning.class_names or ()) or None
    except pa.ArrowInvalid:
        raise SourceError(
            f"{path}: the column {meaning.label!r} is not made of 64-bit integers; convert it"
        ) from None


def _name_rows(images: pa.ChunkedArray | None, stems: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return (names, keys): the paths beside the images if every row has its own, or the numbered stems."""
    paths = [] if images is None else pc.struct_field(images, "path").to_pylist()
    if paths and all(isinstance(p, str) and p for p in paths):
        names = [path.lstrip("/") for path in paths]
        if len(set(names)) == len(names) and not any(
            part in ("", ".", "..") for name in names for part in name.split("/")
        ):
            return names, unique_keys(names)
    return list(stems), make_keys(stems)


def measure_image(value: pa.Scalar) -> int:
    """Return the bytes of an image that is bytes or {bytes, path}, without a copy; 0 of null."""
    if value.is_valid and pa.types.is_struct(value.type):
        value = value["bytes"]
    return value.as_buffer().size if value.is_valid else 0


def _make_fields(images: Mapping[str, object]) -> dict[str, bytes]:
    """Return the fields of a row by the bytes of its images; null images are left out."""
    fields: dict[str, bytes] = {}
    for name, data in images.items():
        if isinstance(data, bytes):
            kind, data = encode_component(data)
            if kind == "bin" and len(images) == 1:
                raise SourceError(f"{name} is not an image: it begins with {data[:8]!r}")
            fields[kind if len(images) == 1 else join_field(name, kind)] = data
    if not fields:
        raise SourceError("its images are null")
    return fields
