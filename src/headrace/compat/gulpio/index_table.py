"""The frames of a dataset's shards, from their index. An image is a video of one frame."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.compat.gulpio.frame_table import FrameTable
from headrace.errors import CorruptError, SourceError
from headrace.files.pread import retry_stale
from headrace.formats.layouts.gulp import name_gap
from headrace.pack.export.fields import class_name
from headrace.read.dataset import Dataset
from headrace.read.table import find_pictures
from headrace.sample import is_video_field
from headrace.store.index_reader import read_index
from headrace.store.index_schema import FILE, KEY, LABEL, user_columns
from headrace.store.keys import unescape_key
from headrace.store.manifest import ShardRecord


class Ids(dict[str, int]):
    """Numbers by id. The key of a sample, in which dots are escaped, is found as well."""

    def __missing__(self, key: str) -> int:
        name = unescape_key(key)
        if name not in self:
            raise KeyError(key)
        return self[name]


def read_index_tables(dataset: Dataset) -> list[FrameTable]:
    """Return a table per shard.

    Ids are the names that the keys were made from, so the ids of a packed gulp; if two samples would share
    one, the keys.
    """
    field = _choose_field(dataset)
    indexes = [_read_index(dataset, shard) for shard in dataset.manifest.shards]
    keys = [index[KEY].to_pylist() for index in indexes]
    names = [[unescape_key(key) if "%" in key else key for key in part] for part in keys]
    if len({name for part in names for name in part}) < sum(map(len, names)):
        names = keys
    return [_read_table(dataset, *entry, field) for entry in zip(indexes, names, strict=True)]


def number_labels(dataset: Dataset, tables: Sequence[FrameTable]) -> dict[str, int]:
    """Return the number of each label, as in the `label2idx.json` of a gulp."""
    classes = dataset.classes or ()
    numbers = {name: k for k, name in enumerate(classes) if name != name_gap(k)}
    if not dataset.classes:
        metas = (meta for table in tables for (meta,) in table.metas if "label" in meta)
        numbers = {meta["label"]: meta["idx"] for meta in metas}
    return numbers


def _choose_field(dataset: Dataset) -> str:
    """Return the field that has the frames: the only video, or the only picture."""
    videos = [name for name in dataset.fields if is_video_field(name)]
    fields = videos or find_pictures(dataset, dataset.fields)
    if len(fields) != 1:
        raise SourceError(
            f"{dataset.origin}: its fields are {list(dataset.fields)}; one video or one image is needed"
        )
    return fields[0]


def _read_index(dataset: Dataset, shard: ShardRecord) -> pa.Table:
    return retry_stale(lambda: read_index(dataset.path, shard).combine_chunks())


def _read_table(dataset: Dataset, index: pa.Table, names: Sequence[str], field: str) -> FrameTable:
    if not len(index) or f"{field}.offset" not in index.column_names:
        counts, offsets, sizes, sums = _no_frames(len(index))
    elif is_video_field(field):
        counts, offsets, sizes, sums = _find_frames(index, field)
    else:
        counts, offsets, sizes, sums = _find_images(index, field)
    files = [chunk for chunk in index[FILE].chunks if len(chunk)]
    columns = index.select(user_columns(index.schema))
    return FrameTable(
        rows=Ids(zip(names, range(len(names)), strict=True)),
        files=[dataset.root / name for name in files[0].dictionary.to_pylist()] if files else [],
        file=files[0].indices.to_numpy().astype(np.int64) if files else np.zeros(0, np.int64),
        starts=np.append(0, np.cumsum(counts)),
        frames=np.stack([offsets, np.zeros_like(offsets), sizes], axis=1),
        metas=IndexMetas(names, index[LABEL].to_pylist(), dataset.classes, columns),
        checksums=sums,
        problems={row: f"it has no {field}" for row in np.flatnonzero(counts == 0).tolist()},
        error=CorruptError,
    )


Places = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]
"""Frames per row; and the offset, size and CRC-32C of each frame."""


def _no_frames(rows: int) -> Places:
    none = np.zeros(0, np.int64)
    return np.zeros(rows, np.int64), none, none, none.astype(np.uint32)


def _find_frames(index: pa.Table, field: str) -> Places:
    lists = index[f"{field}.frames"]
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    sizes = pc.list_flatten(lists).to_numpy().astype(np.int64)
    starts = pc.fill_null(index[f"{field}.offset"], 0).to_numpy()
    before = np.cumsum(sizes) - sizes
    firsts = np.append(before, 0)[np.cumsum(counts) - counts]
    offsets = before + np.repeat(starts - firsts, counts)
    return counts, offsets, sizes, pc.list_flatten(index[f"{field}.frame_crc32c"]).to_numpy()


def _find_images(index: pa.Table, field: str) -> Places:
    columns = (index[f"{field}.{name}"] for name in ("offset", "size", "crc32c"))
    offsets, sizes, sums = (column.drop_null().to_numpy() for column in columns)
    return index[f"{field}.offset"].is_valid().to_numpy().astype(np.int64), offsets, sizes, sums


@dataclass(frozen=True, eq=False)
class IndexMetas(Sequence[list[dict[str, Any]]]):
    """The metadata of each row, as a gulp has them: its label and number, its columns, its id."""

    names: Sequence[str]
    labels: Sequence[int | None]
    classes: Sequence[str] | None
    columns: pa.Table

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, row: int) -> list[dict[str, Any]]: ...
    @overload
    def __getitem__(self, row: slice) -> list[list[dict[str, Any]]]: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(len(self))[row]]
        label = self.labels[row]
        known: dict[str, Any] = {"id": self.names[row]}
        if label is not None:
            known |= {"label": class_name(label, self.classes), "idx": label}
        return [{**self._read_columns(row), **known}]

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        return (self[row] for row in range(len(self)))

    def _read_columns(self, row: int) -> dict[str, Any]:
        """Return the columns of a row; what a gulp had beside its labels is in the column `meta`, as JSON."""
        if not self.columns.num_columns:
            return {}
        (columns,) = self.columns.slice(row, 1).to_pylist()
        if "meta" not in columns:
            return dict(columns)
        text = columns.pop("meta")
        try:
            before = json.loads(text or "{}")
        except (TypeError, ValueError, RecursionError):
            before = None
        return {**columns, **before} if isinstance(before, dict) else {**columns, "meta": text}
