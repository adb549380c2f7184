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
from headrace.kinds import Boxes, Image, Map, Mask, Points
from headrace.read.field_columns import ByteRanges, PictureColumns, TargetColumns
from headrace.read.frames import PictureRanges, VideoFrames, read_frames
from headrace.read.requested import Requested
from headrace.sample import is_image_field, is_video_field
from headrace.store.index_schema import FILE, KEY, LABEL, field_names

NO_LABEL = int(np.iinfo(np.int64).min)
ABSENT = -1
_FAR = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, eq=False)
class Columns:
    """One row per sample, in index order. About 80 bytes each; the index itself is not kept.

    `span` covers the wanted bytes of a sample, `fields` says where each wanted field lies. `image` is
    the sample's picture, wanted or not; `height` and `width` are 0 if it is damaged or missing.
    `orientation` is EXIF's, 1 for upright.
    `seek` says where the image's table lies in the seek file of its shard. If videos are wanted, `image` is
    the sample's video, `seek` all tables of its frames, and `frames` says more about these. `pictures` are other
    images that are decoded, `targets` the fields that follow an image, and `requested` says what each name means.
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
    pictures: Mapping[str, PictureColumns] = field(default_factory=dict)
    targets: Mapping[str, TargetColumns] = field(default_factory=dict)
    requested: Requested = field(default_factory=lambda: Requested())

    def __len__(self) -> int:
        return len(self.file)

    def turn_upright(self) -> Columns:
        """Return the same with the sizes that images have when they are turned as their orientation says."""
        turned = self.picture.turn_upright()
        others = {name: picture.turn_upright() for name, picture in self.pictures.items()}
        return replace(self, height=turned.height, width=turned.width, pictures=others)

    @property
    def picture(self) -> PictureColumns:
        """The sample's picture."""
        return PictureColumns(self.image, self.seek, self.height, self.width, self.orientation)

    def find_pictures(
        self,
        rows: NDArray[np.int64],
        frames: NDArray[np.int64] | None = None,
        picture: PictureColumns | None = None,
    ) -> PictureRanges:
        """Return where the images of rows lie, [B, 1]; or `frames` int64[B, J] of their videos.

        `picture` is another image of the samples.
        """
        image, seek = (self.image, self.seek) if picture is None else (picture.image, picture.seek)
        starts, tables = image.offset[rows][:, None], seek.offset[rows][:, None]
        if frames is None:
            checksums = image.checksum[rows][:, None]
            sizes = image.size[rows][:, None]
            return PictureRanges(starts, sizes, checksums, tables, seek.size[rows][:, None])
        assert self.frames is not None
        found = self.frames.locate(rows, frames)
        return found._replace(offset=starts + found.offset, seek_offset=tables + found.seek_offset)

    def bound_seeks(self, rows: slice) -> tuple[int, int]:
        """Return the bounds of the seek tables of all images of some rows of a shard, in its seek file."""
        tables = [self.seek, *(picture.seek for picture in self.pictures.values())]
        starts, ends = [], []
        for table in tables:
            offsets, sizes = table.offset[rows], table.size[rows]
            starts.append(int(np.where(sizes > 0, offsets, _FAR).min(initial=_FAR)))
            ends.append(int((offsets + sizes).max(initial=0)))
        return min([*starts, max(ends)]), max(ends)

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
    requested: Requested | None = None,
    image: bool = True,
    shards: Sequence[int] = (),
) -> Columns:
    """Return the columns of an index.

    Args:
        index: The index.
        pictures: Fields of which the first that a sample has is its image.
        requested: What is wanted beside the image.
        image: Whether the image is wanted.
        shards: The number of rows of each shard.
    """
    if image and not pictures:
        raise CorruptError(f"no image field among {field_names(index.schema)}")
    requested = Requested() if requested is None else requested
    codes = index[FILE].combine_chunks()
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.chunk(0) if codes.num_chunks else pa.array([], index[FILE].type)
    none = ByteRanges.make_empty(len(index))
    images = [_read_ranges(index, name) for name in pictures] or [none]
    first = _first_range(images)
    others, targets, fields = _read_requested(index, requested, shards)
    wanted = [
        *fields.values(),
        *(target.ranges for target in targets.values()),
        *(picture.image for picture in others.values()),
        *([first] if image else []),
    ]
    return Columns(
        files=codes.dictionary.to_pylist(),
        file=codes.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        span=_span(wanted or [none]),
        image=first,
        seek=_find_seeks(index, pictures, [ranges.size for ranges in images], shards),
        fields=fields,
        height=_first_value(index, pictures, "height"),
        width=_first_value(index, pictures, "width"),
        label=_numbers(index[LABEL], NO_LABEL),
        user={name: index[column] for name, column in requested.columns.items()},
        orientation=_read_orientations(index, pictures),
        frames=_read_frames(index, pictures),
        pictures=others,
        targets=targets,
        requested=requested,
    )


def _read_requested(
    index: pa.Table, requested: Requested, shards: Sequence[int]
) -> tuple[dict[str, PictureColumns], dict[str, TargetColumns], dict[str, ByteRanges]]:
    """Return what is wanted beside the picture: other images, fields that follow an image, and other fields."""
    pictures, targets, fields = {}, {}, {}
    for name, place in requested.fields.items():
        kind = requested.kinds.get(name)
        if isinstance(kind, Image):
            pictures[name] = _read_picture(index, place, shards)
        elif isinstance(kind, (Mask, Map, Points, Boxes)):
            targets[name] = _read_target(index, place)
        else:
            fields[name] = _read_ranges(index, place, ABSENT)
    return pictures, targets, fields


def _read_picture(index: pa.Table, name: str, shards: Sequence[int]) -> PictureColumns:
    ranges = _read_ranges(index, name)
    return PictureColumns(
        ranges,
        _find_seeks(index, [name], [ranges.size], shards),
        _first_value(index, [name], "height"),
        _first_value(index, [name], "width"),
        _read_orientations(index, [name]),
    )


def _read_target(index: pa.Table, name: str) -> TargetColumns:
    ranges = _read_ranges(index, name)
    if f"{name}.kind" not in index.column_names:
        nothing = np.zeros(len(index), np.int64)
        return TargetColumns(ranges, nothing, nothing, frozenset())
    kinds = pc.unique(index[f"{name}.kind"].cast(pa.string())).to_pylist()
    return TargetColumns(
        ranges,
        _numbers(index[f"{name}.height"]),
        _numbers(index[f"{name}.width"]),
        frozenset(kind for kind in kinds if kind is not None),
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
    totals = np.sum([np.zeros(len(index), np.int64), *lengths.values()], axis=0)
    rows = np.cumsum(totals) - totals
    firsts = np.cumsum([0, *shards])[:-1][np.array(shards) > 0]
    rows -= np.repeat(rows[firsts], [count for count in shards if count])
    lengths |= {name: np.zeros_like(totals) for name in pictures if name not in lengths}
    offsets = {name: np.zeros_like(totals) for name in pictures}  # arrays have no tables
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
