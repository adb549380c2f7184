"""The index as arrays: where the bytes of each sample lie, the size of its image, its label."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.errors import CorruptError
from headrace.read.frames import PictureRanges, VideoFrames, read_frames
from headrace.sample import is_image_field, is_video_field
from headrace.store.index_schema import FILE, KEY, LABEL, field_names

NO_LABEL = int(np.iinfo(np.int64).min)
ABSENT = -1


@dataclass(frozen=True, eq=False)
class ByteRanges:
    """For each sample: `size` bytes at `offset` of a file, with the CRC-32C `checksum` if that is known.

    A sample without such bytes has the size 0, at the offset ABSENT if it lacks a wanted field.
    """

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    checksum: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))

    def find_bytes(self, row: int) -> tuple[int, int]:
        """Return the bounds of a sample's bytes."""
        return int(self.offset[row]), int(self.offset[row] + self.size[row])

    @classmethod
    def make_empty(cls, count: int) -> ByteRanges:
        """Return the ranges of `count` samples that have no bytes."""
        return cls(np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.uint32))

    @classmethod
    def join(cls, parts: Sequence[ByteRanges]) -> ByteRanges:
        """Return the ranges of all parts, one after the other."""
        names = ("offset", "size", "checksum")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True, eq=False)
class MaskColumns:
    """Where the masks of all samples lie, and their sizes in pixels, 0 if a mask is damaged or missing."""

    ranges: ByteRanges
    height: NDArray[np.int64]
    width: NDArray[np.int64]
    is_deep: bool
    """Whether a mask has 16 bits per pixel."""

    @classmethod
    def join(cls, parts: Sequence[MaskColumns]) -> MaskColumns:
        """Return the masks of all parts, one after the other."""
        return cls(
            ByteRanges.join([part.ranges for part in parts]),
            np.concatenate([part.height for part in parts]),
            np.concatenate([part.width for part in parts]),
            any(part.is_deep for part in parts),
        )


@dataclass(frozen=True, eq=False)
class Columns:
    """One row per sample, in index order. About 80 bytes each; the index itself is not kept.

    `span` covers the wanted bytes of a sample, `fields` says where each wanted field lies. `image` is
    the sample's picture, wanted or not; `height` and `width` are 0 if it is damaged or missing.
    `orientation` is EXIF's, 1 for upright.
    `seek` says where the image's table lies in the seek file of its shard. If videos are wanted, `image` is
    the sample's video, `seek` all tables of its frames, and `frames` says more about these. `masks` are those that
    are decoded.
    """

    files: Sequence[str]
    file: NDArray[np.int64]
    span: ByteRanges
    image: ByteRanges
    seek: ByteRanges
    fields: dict[str, ByteRanges]
    height: NDArray[np.int64]
    width: NDArray[np.int64]
    label: NDArray[np.int64]
    user: dict[str, pa.ChunkedArray]
    orientation: NDArray[np.uint8]
    frames: VideoFrames | None = None
    masks: Mapping[str, MaskColumns] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.file)

    def turn_upright(self) -> Columns:
        """Return the same with the sizes that images have when they are turned as their orientation says."""
        lies = self.orientation >= 5
        return replace(
            self,
            height=np.where(lies, self.width, self.height),
            width=np.where(lies, self.height, self.width),
        )

    def find_pictures(
        self, rows: NDArray[np.int64], frames: NDArray[np.int64] | None = None
    ) -> PictureRanges:
        """Return where the images of rows lie, [B, 1]; or `frames` int64[B, J] of their videos."""
        image, seek = self.image, self.seek
        starts, tables = image.offset[rows][:, None], seek.offset[rows][:, None]
        if frames is None:
            checksums = image.checksum[rows][:, None]
            sizes = image.size[rows][:, None]
            return PictureRanges(starts, sizes, checksums, tables, seek.size[rows][:, None])
        assert self.frames is not None
        found = self.frames.locate(rows, frames)
        return found._replace(offset=starts + found.offset, seek_offset=tables + found.seek_offset)

    @property
    def anchor(self) -> ByteRanges:
        """Return the ranges that runs are cut by: the images, or the spans if no sample has an image."""
        return self.image if self.image.size.any() else self.span

    @cached_property
    def numbers(self) -> dict[str, NDArray[Any]]:
        """Return the user columns with a number or a flag for every sample; integers as int64."""
        return {name: _as_array(c) for name, c in self.user.items() if _has_numbers(c)}


def read_columns(
    index: pa.Table,
    pictures: Sequence[str],
    wanted: Sequence[str] = (),
    user: Sequence[str] = (),
    image: bool = True,
    shards: Sequence[int] = (),
    masks: Mapping[str, str] | None = None,
) -> Columns:
    """Return the columns of an index.

    The image of a sample is the first of `pictures` that it has. `wanted` are fields, `user` are the
    user's columns. `shards` has the number of rows of each shard. `masks` has the field of each mask by its name.
    """
    if image and not pictures:
        raise CorruptError(f"no image field among {field_names(index.schema)}")
    codes = index[FILE].combine_chunks()
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.chunk(0) if codes.num_chunks else pa.array([], index[FILE].type)
    none = ByteRanges.make_empty(len(index))
    images = [_read_ranges(index, name) for name in pictures] or [none]
    first = _first_range(images)
    fields = {name: _read_ranges(index, name, ABSENT) for name in wanted}
    labels = {name: _read_masks(index, field) for name, field in (masks or {}).items()}
    return Columns(
        files=codes.dictionary.to_pylist(),
        file=codes.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        span=_span(
            [
                *fields.values(),
                *(mask.ranges for mask in labels.values()),
                *([first] if image else []),
            ]
            or [none]
        ),
        image=first,
        seek=_find_seeks(index, pictures, [ranges.size for ranges in images], shards),
        fields=fields,
        height=_first_value(index, pictures, "height"),
        width=_first_value(index, pictures, "width"),
        label=_numbers(index[LABEL], NO_LABEL),
        user={name: index[name] for name in user},
        orientation=_read_orientations(index, pictures),
        frames=_read_frames(index, pictures),
        masks=labels,
    )


def _read_masks(index: pa.Table, name: str) -> MaskColumns:
    kinds = pc.unique(index[f"{name}.kind"].cast(pa.string())).to_pylist()
    return MaskColumns(
        _read_ranges(index, name),
        _numbers(index[f"{name}.height"]),
        _numbers(index[f"{name}.width"]),
        any(kind is not None and kind.endswith("-16") for kind in kinds),
    )


def _read_orientations(index: pa.Table, pictures: Sequence[str]) -> NDArray[np.uint8]:
    images = [name for name in pictures if is_image_field(name)]
    found = _first_value(index, images, "orientation")
    return np.maximum(found, 1).astype(np.uint8)


def _read_frames(index: pa.Table, pictures: Sequence[str]) -> VideoFrames | None:
    """Return the frames of the videos, if the pictures are videos."""
    videos = [name for name in pictures if is_video_field(name)]
    return read_frames(index, *videos) if videos else None


def find_several(index: pa.Table, pictures: Sequence[str]) -> NDArray[np.bool_]:
    """Return which samples have more than one of `pictures`."""
    counts = np.zeros(len(index), np.int64)
    for name in pictures:
        counts += index[f"{name}.offset"].is_valid().to_numpy()
    return counts > 1


def digest_keys(index: pa.Table) -> bytes:
    """Return a digest of the keys in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for chunk in index[KEY].chunks:
        if len(chunk):
            _, bounds, text = chunk.buffers()
            ends = np.frombuffer(bounds, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
            digest.update(np.diff(ends).data)
            digest.update(memoryview(text)[ends[0] : ends[-1]])
    return digest.digest()


def _has_numbers(column: pa.ChunkedArray) -> bool:
    kind = column.type
    fits = pa.types.is_integer(kind) and kind != pa.uint64()
    is_number = fits or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return bool(is_number) and column.null_count == 0


def _as_array(column: pa.ChunkedArray) -> NDArray[Any]:
    array: NDArray[Any] = column.to_numpy()
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


def _numbers(column: Any, missing: int = 0) -> NDArray[np.int64]:
    values: NDArray[np.int64] = pc.fill_null(column, missing).to_numpy().astype(np.int64)
    return values


def _read_ranges(index: pa.Table, name: str, absent: int = 0) -> ByteRanges:
    checksum: NDArray[np.uint32] = pc.fill_null(index[f"{name}.crc32c"], 0).to_numpy()
    offset, size = _numbers(index[f"{name}.offset"], absent), _numbers(index[f"{name}.size"])
    return ByteRanges(offset, size, checksum)


def _span(fields: list[ByteRanges]) -> ByteRanges:
    """Return the bytes from the first field of each sample to its last field."""
    far = np.iinfo(np.int64).max
    starts = np.min([np.where(f.size > 0, f.offset, far) for f in fields], axis=0)
    ends = np.max([np.where(f.size > 0, f.offset + f.size, 0) for f in fields], axis=0)
    found = ends > 0
    return ByteRanges(np.where(found, starts, 0), np.where(found, ends - starts, 0))


def _first(values: list[NDArray[Any]], sizes: list[NDArray[np.int64]]) -> NDArray[Any]:
    """Choose, for each sample, the value of the first field whose size is not 0, or of the last field."""
    chosen = values[-1]
    for value, size in list(zip(values, sizes, strict=True))[-2::-1]:
        chosen = np.where(size > 0, value, chosen)
    return chosen


def _first_range(fields: list[ByteRanges]) -> ByteRanges:
    sizes = [field.size for field in fields]
    return ByteRanges(
        _first([field.offset for field in fields], sizes),
        _first(sizes, sizes),
        _first([field.checksum for field in fields], sizes),
    )


def _find_seeks(
    index: pa.Table, pictures: Sequence[str], sizes: list[NDArray[np.int64]], shards: Sequence[int]
) -> ByteRanges:
    """Find the seek table of each picture: tables lie in the order of rows, and of fields within a row."""
    if not pictures:
        return ByteRanges(np.zeros(len(index), np.int64), np.zeros(len(index), np.int64))
    images = sorted(n for n in field_names(index.schema) if is_image_field(n) or is_video_field(n))
    lengths = {name: _measure_tables(index, name) for name in images}
    totals = np.sum(list(lengths.values()), axis=0)
    rows = np.cumsum(totals) - totals
    firsts = np.cumsum([0, *shards])[:-1][np.array(shards) > 0]
    rows -= np.repeat(rows[firsts], [count for count in shards if count])
    offsets = dict[str, NDArray[np.int64]]()
    for name in images:
        offsets[name] = rows
        rows = rows + lengths[name]
    return ByteRanges(
        _first([offsets[name] for name in pictures], sizes),
        _first([lengths[name] for name in pictures], sizes),
    )


def _measure_tables(index: pa.Table, name: str) -> NDArray[np.int64]:
    """Return the bytes of each row's seek tables for an image or video field."""
    if is_image_field(name):
        return _numbers(index[f"{name}.seek"])
    tables = index[f"{name}.frame_seek"]
    counts = _numbers(pc.list_value_length(tables))
    totals = np.append(0, np.cumsum(pc.list_flatten(tables).to_numpy(), dtype=np.int64))
    ends = np.cumsum(counts)
    lengths: NDArray[np.int64] = totals[ends] - totals[ends - counts]
    return lengths


def _first_value(index: pa.Table, pictures: Sequence[str], attribute: str) -> NDArray[np.int64]:
    values = np.zeros(len(index), np.int64)
    for name in pictures:
        values = np.where(values > 0, values, _numbers(index[f"{name}.{attribute}"]))
    return values
