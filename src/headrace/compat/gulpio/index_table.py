"""The frames of a dataset's shards, from their index. An image is a video of one frame."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.compat.gulpio.frame_table import FrameTable
from headrace.errors import CorruptError, SourceError
from headrace.files.pread import retry_stale
from headrace.formats.layouts.gulp import name_gap
from headrace.pack.export.fields import class_name
from headrace.read.columns import find_several, read_columns
from headrace.read.dataset import Dataset
from headrace.read.field_columns import ByteRanges
from headrace.read.table import find_pictures
from headrace.sample import is_video_field
from headrace.store.index_reader import read_index
from headrace.store.index_schema import KEY, LABEL, user_columns
from headrace.store.keys import unescape_key
from headrace.store.manifest import ShardRecord


class Ids(dict[str, int]):
    """Numbers by id. The key of a sample, in which dots are escaped, is found as well."""

    def __missing__(self, key: str) -> int:
        name = unescape_key(key) if "%" in str(key) else key
        if name == key or name not in self:
            raise KeyError(key)
        return self[name]


def read_index_tables(dataset: Dataset) -> list[FrameTable]:
    """Return a table per shard.

    Ids are the names that the keys were made from, so the ids of a packed gulp; if two samples would share
    one, the keys.
    """
    fields = _choose_fields(dataset)
    indexes = [_read_index(dataset, shard) for shard in dataset.manifest.shards]
    keys = [index[KEY].to_pylist() for index in indexes]
    names = [[unescape_key(key) if "%" in key else key for key in part] for part in keys]
    if len({name for part in names for name in part}) < sum(map(len, names)):
        names = keys
    return [_read_table(dataset, *entry, fields) for entry in zip(indexes, names, strict=True)]


def number_labels(dataset: Dataset, tables: Sequence[FrameTable]) -> dict[str, int]:
    """Return the number of each label, as in the `label2idx.json` of a gulp."""
    classes = dataset.classes or ()
    numbers = {name: k for k, name in enumerate(classes) if name != name_gap(k)}
    if not dataset.classes:
        metas = (meta for table in tables for (meta,) in table.metas if "label" in meta)
        numbers = {meta["label"]: meta["idx"] for meta in metas}
    return numbers


def _choose_fields(dataset: Dataset) -> list[str]:
    """Return the field that has the frames: the only video, or the pictures, of which a sample has one."""
    videos = [name for name in dataset.fields if is_video_field(name)]
    fields = videos or find_pictures(dataset, dataset.fields)
    if not fields or len(videos) > 1:
        raise SourceError(
            f"{dataset.origin}: its fields are {list(dataset.fields)}; one video or image is needed"
        )
    return fields


def _read_index(dataset: Dataset, shard: ShardRecord) -> pa.Table:
    return retry_stale(lambda: read_index(dataset.path, shard).combine_chunks())


def _read_table(
    dataset: Dataset, index: pa.Table, names: Sequence[str], fields: Sequence[str]
) -> FrameTable:
    present = [field for field in fields if f"{field}.offset" in index.column_names]
    videos = [field for field in present if is_video_field(field)]
    pictures = [] if videos else present
    if find_several(index, pictures).any():
        raise SourceError(f"{dataset.origin}: a sample has several of {pictures}; one is needed")
    columns = read_columns(index, pictures, image=False, shards=[len(index)])
    places = _find_frames(index, videos[0]) if videos else _find_images(columns.image)
    return FrameTable(
        rows=Ids(zip(names, range(len(names)), strict=True)),
        files=[dataset.root / name for name in columns.files],
        file=columns.file,
        starts=np.append(0, np.cumsum(places.counts)),
        frames=np.stack([places.offsets, np.zeros_like(places.offsets), places.sizes], axis=1),
        metas=IndexMetas(
            names,
            index[LABEL].to_pylist(),
            dataset.classes,
            index.select(user_columns(index.schema)),
        ),
        checksums=places.checksums,
        problems=dict.fromkeys(
            np.flatnonzero(places.counts == 0).tolist(), f"it has no {' or '.join(fields)}"
        ),
        error=CorruptError,
    )


class Places(NamedTuple):
    """The number of frames of each row; and where each frame lies, with its CRC-32C."""

    counts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    checksums: NDArray[np.uint32]


def _find_frames(index: pa.Table, field: str) -> Places:
    lists = index[f"{field}.frames"]
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    sizes = pc.list_flatten(lists).to_numpy().astype(np.int64)
    starts = pc.fill_null(index[f"{field}.offset"], 0).to_numpy()
    before = np.cumsum(sizes) - sizes
    firsts = np.append(before, 0)[np.cumsum(counts) - counts]
    offsets = before + np.repeat(starts - firsts, counts)
    checksums = pc.list_flatten(index[f"{field}.frame_crc32c"]).to_numpy()
    return Places(counts, offsets, sizes, checksums)


def _find_images(images: ByteRanges) -> Places:
    has = images.size > 0
    return Places(has.astype(np.int64), images.offset[has], images.size[has], images.checksum[has])


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
