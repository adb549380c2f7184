"""Arrow files with images in a column, as Hugging Face's `save_to_disk` writes them (see `columnar`).

Streams and files in Arrow's IPC format, mapped into memory: opening reads the offsets of the rows, and
reading touches a row's bytes and no more. Compressed ones are unpacked into memory, up to the limit of a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import SourceChangedError, SourceError
from headrace.formats.arrow_unpacked import measure_unpacked
from headrace.formats.beside import add_files, check_beside, find_beside
from headrace.formats.columnar import (
    Layout,
    RowSource,
    find_layout,
    find_path_column,
    list_path_columns,
    list_paths,
    name_rows,
    number_labels,
)
from headrace.formats.data_files import find_files, find_stems, has_suffix
from headrace.formats.limits import blame_file, check_size, read_file
from headrace.formats.pread import open_regular
from headrace.sample import Sample

DATASET_DICT = "dataset_dict.json"  # of a folder of splits
_LOOKED_AT = 8
_STATE = "state.json"  # in which `save_to_disk` names its files


@dataclass(frozen=True)
class ArrowSource(RowSource):
    """A `Source`: sample `i` is row `i` of all files together."""

    states: Sequence[tuple[Path, int, int]]
    ends: np.ndarray

    def read(self, i: int) -> Sample:
        """The images of a row, and what its other columns say."""
        path, size, mtime = self.states[int(np.searchsorted(self.ends, i, side="right"))]
        with blame_file(path):
            info = os.stat(path)
        # A mapped file that became shorter would end the process when it is touched.
        if (info.st_size, info.st_mtime_ns) != (size, mtime):
            raise SourceChangedError(f"{path}: changed after it was opened")
        images = {name: self.table[name][i] for name in self.layout.images}
        self.check_cells(images.values())
        try:
            values = {name: value.as_py() for name, value in images.items()}
        except UnicodeDecodeError:  # in the name of a field beside the bytes
            raise SourceError(f"{path}: a name in it is not UTF-8") from None
        return self.make_sample(i, values, path.parent)


def open_arrow(path: str | os.PathLike[str]) -> ArrowSource:
    """The rows of an Arrow file, of those that a pattern names, or of a folder.

    A folder's files are those that its `state.json` names, or else all `.arrow` files but the caches
    of `datasets`, in the order of their names.
    """
    path = Path(path)
    files = _find_files(path)
    tables, states, stems = [], [], []
    for file, stem in zip(files, find_stems(files), strict=True):
        tables.append(_map_table(file))
        info = file.stat()
        states.append((file, info.st_size, info.st_mtime_ns))
        stems += [f"{stem}/{row:06d}" for row in range(tables[-1].num_rows)]
    if any(not table.schema.equals(tables[0].schema) for table in tables):
        raise SourceError(f"{path}: its files have different columns")
    table = pa.concat_tables(tables)
    if not table.num_rows:
        raise SourceError(f"{path}: no rows in it")
    try:
        layout = find_layout(table.schema)
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    labels, classes = number_labels(path, layout, table)
    paths = find_path_column(table.schema, layout)
    if paths is not None:
        _check_paths(path, files[0].parent, table[paths])
    names, keys = name_rows(None if paths is None else table[paths], stems)
    size = sum(state[1] for state in states) // table.num_rows + 1
    parts = [_measure_rows(*pair, layout, size) for pair in zip(states, tables, strict=True)]
    return ArrowSource(
        layout=layout,
        states=states,
        ends=np.cumsum([part.num_rows for part in tables]),
        table=table,
        sizes=np.concatenate([sizes for sizes, _ in parts]),
        mtimes=np.concatenate([mtimes for _, mtimes in parts]),
        names=names,
        keys=keys,
        labels=labels,
        classes=classes,
    )


def _measure_rows(
    state: tuple[Path, int, int], table: pa.Table, layout: Layout, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return sizes and mtimes of a file's rows, which take `size` bytes on average unless they have only a path."""
    path, _, mtime = state
    found = [
        find_beside(path.parent, list_paths(table[name]), partial(_find_nulls, table[name]))
        for name in list_path_columns(table.schema, layout)
    ]
    sizes = np.full(table.num_rows, size, np.int64)
    mtimes = np.full(table.num_rows, mtime, np.int64)
    return add_files(sizes, mtimes, found, len(layout.images))


def _find_nulls(images: pa.ChunkedArray) -> np.ndarray:
    nulls: np.ndarray = pc.is_null(pc.struct_field(images, "bytes")).to_numpy()
    return nulls


def _check_paths(path: Path, folder: Path, images: pa.ChunkedArray) -> None:
    """Raise SourceError once, not for every row, where there are only paths and no files."""
    if pc.struct_field(images, "bytes").null_count == len(images):
        found = pc.struct_field(images.slice(0, _LOOKED_AT), "path").to_pylist()
        check_beside(path, [(folder, name) for name in found if name])


def _find_files(path: Path) -> list[Path]:
    if (path / DATASET_DICT).is_file():
        path = _find_split(path)
    if (path / _STATE).is_file() and (names := _read_state(path / _STATE)):
        return [path / name for name in names]
    return find_files(path, _list_arrow_files, ".arrow files")


def _find_split(path: Path) -> Path:
    """The folder of the only split that `DatasetDict.save_to_disk` wrote. SourceError if there are several."""
    splits = sorted(state.parent for state in path.glob(f"*/{_STATE}"))
    if not splits:
        raise SourceError(f"{path}: no folder of a split, with a {_STATE}, in it")
    if len(splits) > 1:
        raise SourceError(f"{path}: several splits: give one of {', '.join(map(str, splits))}")
    return splits[0]


def _list_arrow_files(folder: Path) -> Iterator[Path]:
    arrows = (path for path in folder.iterdir() if has_suffix(path.name, ".arrow"))
    return (path for path in arrows if not path.name.startswith("cache-"))


def _read_state(path: Path) -> list[str]:
    """The data files that a `state.json` names, if it does."""
    try:
        state = json.loads(read_file(path))
        names = [entry["filename"] for entry in state.get("_data_files") or ()]
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{path}: not as `save_to_disk` writes it: {error!r:.100}") from None
    for name in names:
        if (
            not isinstance(name, str)
            or Path(name).name != name
            or not (path.parent / name).is_file()
        ):
            raise SourceError(f"{path}: names the file {name!r:.100}, which is not beside it")
    if state.get("_indices_data_files"):
        raise SourceError(
            f"{path}: its rows are picked by a table of indices; save it again after flatten_indices()"
        )
    return names


def _map_table(path: Path) -> pa.Table:
    """The table in a file, which is checked so that no offset in it leads outside its buffers."""
    try:
        os.close(open_regular(path))  # Arrow would wait for a pipe
        source = pa.memory_map(os.fspath(path))
        check_size(measure_unpacked(source))
        source.seek(0)
        try:
            reader = pa.ipc.open_stream(source)
        except pa.ArrowInvalid:
            source.seek(0)
            reader = pa.ipc.open_file(source)
        table = reader.read_all()
        table.validate(full=True)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error!s:.200}") from None
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    except (pa.ArrowException, ValueError) as error:
        raise SourceError(f"{path}: not a readable Arrow file: {error!s:.200}") from None
    return table
