"""Arrow files with images in a column, as Hugging Face's `save_to_disk` writes them (see `image_tables`).

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
from headrace.files.limits import blame_file, check_size, read_file
from headrace.files.pread import open_regular
from headrace.formats.codecs.arrow_unpacked import measure_unpacked
from headrace.formats.file_patterns import find_files, find_stems
from headrace.formats.folder_contents import FolderContents, has_suffix
from headrace.formats.image_paths import check_beside
from headrace.formats.image_tables import (
    FileRows,
    RowSource,
    find_path_column,
    join_rows,
    measure_rows,
    sort_columns,
)
from headrace.formats.random_access import name_file
from headrace.sample import Sample
from headrace.store.manifest import MANIFEST

_DATASET_DICT = "dataset_dict.json"  # of a folder of splits
_LOOKED_AT = 8
_STATE = "state.json"  # in which `save_to_disk` names its files


@dataclass(frozen=True)
class ArrowSource(RowSource):
    """A `Source`: sample `i` is row `i` of all files together."""

    states: Sequence[tuple[Path, int, int]]
    ends: np.ndarray

    def read(self, i: int) -> Sample:
        """Return the images of a row, with its label and columns."""
        path, size, mtime = self.states[int(np.searchsorted(self.ends, i, side="right"))]
        with blame_file(path):
            info = os.stat(path)
        # A mapped file that became shorter would end the process when it is touched.
        if (info.st_size, info.st_mtime_ns) != (size, mtime):
            raise SourceChangedError(f"{path}: changed after it was opened")
        images = {name: self.table[name][i] for name in self.meaning.images}
        self.check_cells(images.values())
        try:
            values = {name: value.as_py() for name, value in images.items()}
        except UnicodeDecodeError:  # in the name of a field beside the bytes
            raise SourceError(f"{path}: a name in it is not UTF-8") from None
        return self.make_sample(i, values, path.parent)


def is_arrow(path: Path, head: bytes) -> bool:
    """Return whether a file begins as Arrow's files do, or as its streams do and is called one."""
    return head[:6] == b"ARROW1" or (head[:4] == b"\xff" * 4 and has_suffix(path.name, ".arrow"))


def find_arrow(folder: FolderContents) -> Path | None:
    """Return the folder itself if it has Arrow files that are not an index, or is one of splits."""
    is_index = MANIFEST in folder.files
    has_arrow = any(has_suffix(name, ".arrow") for name in folder.files) and not is_index
    found = (has_arrow or _DATASET_DICT in folder.files) and not folder.has_images
    return folder.path if found else None


def open_arrow(path: str | os.PathLike[str]) -> ArrowSource:
    """Open the rows of an Arrow file, of the files that a pattern names, or of a folder.

    A folder's files are those that its `state.json` names; without one, all `.arrow` files but the caches
    of `datasets`, in the order of their names.
    """
    path = Path(path)
    files = _find_files(path)
    tables = [_map_table(file) for file in files]
    if any(not table.schema.equals(tables[0].schema) for table in tables):
        raise SourceError(f"{path}: its files have different columns")
    with name_file(path):
        meaning = sort_columns(tables[0].schema)
    infos = [file.stat() for file in files]
    total = sum(table.num_rows for table in tables)
    size = sum(info.st_size for info in infos) // max(1, total) + 1
    parts = []
    for file, stem, table, info in zip(files, find_stems(files), tables, infos, strict=True):
        sizes = np.full(table.num_rows, size, np.int64)
        find_nulls = partial(_find_nulls, table)
        measured = measure_rows(file.parent, table, meaning, sizes, info.st_mtime_ns, find_nulls)
        parts.append(FileRows(stem, table, *measured))
    joined = join_rows(path, meaning, parts, tables[0].column_names)
    if paths := find_path_column(tables[0].schema, meaning):
        _check_paths(path, files[0].parent, joined["table"][paths])
    return ArrowSource(
        **joined,
        states=[(f, i.st_size, i.st_mtime_ns) for f, i in zip(files, infos, strict=True)],
        ends=np.cumsum([table.num_rows for table in tables]),
    )


def _find_nulls(table: pa.Table, column: str) -> np.ndarray:
    nulls: np.ndarray = pc.is_null(pc.struct_field(table[column], "bytes")).to_numpy()
    return nulls


def _check_paths(path: Path, folder: Path, images: pa.ChunkedArray) -> None:
    """Raise SourceError once, not for every row, where there are only paths and no files."""
    if pc.struct_field(images, "bytes").null_count == len(images):
        found = pc.struct_field(images.slice(0, _LOOKED_AT), "path").to_pylist()
        check_beside(path, [(folder, name) for name in found if name])


def _find_files(path: Path) -> list[Path]:
    if (path / _DATASET_DICT).is_file():
        path = _find_split(path)
    if (path / _STATE).is_file() and (names := _read_state(path / _STATE)):
        return [path / name for name in names]
    return find_files(path, _list_arrow_files, ".arrow files")


def _find_split(path: Path) -> Path:
    """Return the folder of the only split that `DatasetDict.save_to_disk` wrote."""
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
    """Return the data files that a `state.json` names, if it does."""
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
    """Map the table in a file, checked so that no offset in it leads outside its buffers."""
    try:
        with name_file(path):
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
    except (pa.ArrowException, ValueError) as error:
        raise SourceError(f"{path}: not a readable Arrow file: {error!s:.200}") from None
    return table
