"""The index as arrays: where every sample lies, how large its image is, what its label is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.errors import CorruptError
from headrace.pack.index import FILE, KEY, LABEL, field_names
from headrace.sample import is_image_field

NO_LABEL = int(np.iinfo(np.int64).min)
ABSENT = -1


@dataclass(frozen=True, eq=False)
class Places:
    """Bytes of one field: `size` of them at `offset` of the sample's file, with the CRC-32C `checksum`. Where a sample
    has no such field, there are none at ABSENT, or for images at 0."""

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    checksum: NDArray[np.uint32]

    @classmethod
    def make_empty(cls, count: int) -> Places:
        """Return places of `count` samples that lack the field."""
        return cls(np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.uint32))


@dataclass(frozen=True, eq=False)
class Spans:
    """`size` bytes at `offset` of a file, for each sample."""

    offset: NDArray[np.int64]
    size: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Columns:
    """A row a sample, in index order. About 80 bytes each; the index itself is not kept.

    `span` covers what is wanted of a sample, `fields` says where each field lies. `image` is the
    sample's picture, wanted or not; `height` and `width` are 0 where it is damaged or missing. `seek` says where
    in the seek file of its shard the image's table lies.
    """

    files: Sequence[str]
    file: NDArray[np.int64]
    span: Spans
    image: Places
    seek: Spans
    fields: dict[str, Places]
    height: NDArray[np.int64]
    width: NDArray[np.int64]
    label: NDArray[np.int64]
    user: dict[str, pa.ChunkedArray]

    def __len__(self) -> int:
        return len(self.file)

    @property
    def anchor(self) -> Places | Spans:
        """What runs are cut by: the image, or what is wanted where no sample has one."""
        return self.image if self.image.size.any() else self.span

    @cached_property
    def numbers(self) -> dict[str, NDArray[Any]]:
        """The user columns that hold a number or a flag for every sample; whole numbers as int64."""
        return {name: _as_array(c) for name, c in self.user.items() if _has_numbers(c)}


def read_columns(
    index: pa.Table,
    pictures: Sequence[str],
    wanted: Sequence[str] = (),
    user: Sequence[str] = (),
    image: bool = True,
    shards: Sequence[int] = (),
) -> Columns:
    """Return the columns of an index: the first of `pictures` that a sample has, the `wanted` fields, and `user`
    columns as they are. `shards` has the number of rows of each shard."""
    if image and not pictures:
        raise CorruptError(f"no image field among {field_names(index.schema)}")
    codes = index[FILE].combine_chunks()
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.chunk(0) if codes.num_chunks else pa.array([], index[FILE].type)
    none = Places.make_empty(len(index))
    images = [_places(index, name) for name in pictures] or [none]
    first = _first_places(images)
    fields = {name: _places(index, name, ABSENT) for name in wanted}
    return Columns(
        files=codes.dictionary.to_pylist(),
        file=codes.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        span=_span([*fields.values(), *([first] if image else [])] or [none]),
        image=first,
        seek=_place_seeks(index, pictures, [place.size for place in images], shards),
        fields=fields,
        height=_first_value(index, pictures, "height"),
        width=_first_value(index, pictures, "width"),
        label=_numbers(index[LABEL], NO_LABEL),
        user={name: index[name] for name in user},
    )


def find_several(index: pa.Table, pictures: Sequence[str]) -> NDArray[np.bool_]:
    """Which samples have more than one of `pictures`."""
    counts = np.zeros(len(index), np.int64)
    for name in pictures:
        counts += index[f"{name}.offset"].is_valid().to_numpy()
    return counts > 1


def digest_keys(index: pa.Table) -> bytes:
    """Tells indexes of other samples, and of the same in another order, apart."""
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


def _places(index: pa.Table, field: str, absent: int = 0) -> Places:
    checksum: NDArray[np.uint32] = pc.fill_null(index[f"{field}.crc32c"], 0).to_numpy()
    offset, size = _numbers(index[f"{field}.offset"], absent), _numbers(index[f"{field}.size"])
    return Places(offset, size, checksum)


def _span(places: list[Places]) -> Spans:
    """From the first byte of the first field that a sample has to the last byte of the last."""
    far = np.iinfo(np.int64).max
    starts = np.min([np.where(p.size > 0, p.offset, far) for p in places], axis=0)
    ends = np.max([np.where(p.size > 0, p.offset + p.size, 0) for p in places], axis=0)
    found = ends > 0
    return Spans(np.where(found, starts, 0), np.where(found, ends - starts, 0))


def _first(values: list[NDArray[Any]], sizes: list[NDArray[np.int64]]) -> NDArray[Any]:
    """Choose, for each sample, the value of the first field whose size is not 0; else that of the last."""
    chosen = values[-1]
    for value, size in list(zip(values, sizes, strict=True))[-2::-1]:
        chosen = np.where(size > 0, value, chosen)
    return chosen


def _first_places(places: list[Places]) -> Places:
    sizes = [place.size for place in places]
    return Places(
        _first([place.offset for place in places], sizes),
        _first(sizes, sizes),
        _first([place.checksum for place in places], sizes),
    )


def _place_seeks(
    index: pa.Table,
    pictures: Sequence[str],
    sizes: list[NDArray[np.int64]],
    shards: Sequence[int],
) -> Spans:
    """Find the seek table of each picture: tables lie in the order of rows, and of fields within a row."""
    if not pictures:
        return Spans(np.zeros(len(index), np.int64), np.zeros(len(index), np.int64))
    images = sorted(name for name in field_names(index.schema) if is_image_field(name))
    lengths = {name: _numbers(index[f"{name}.seek"]) for name in images}
    totals = np.sum(list(lengths.values()), axis=0)
    rows = np.cumsum(totals) - totals
    firsts = np.cumsum([0, *shards])[:-1][np.array(shards) > 0]
    rows -= np.repeat(rows[firsts], [count for count in shards if count])
    offsets = dict[str, NDArray[np.int64]]()
    for name in images:
        offsets[name] = rows
        rows = rows + lengths[name]
    return Spans(
        _first([offsets[name] for name in pictures], sizes),
        _first([lengths[name] for name in pictures], sizes),
    )


def _first_value(index: pa.Table, pictures: Sequence[str], attribute: str) -> NDArray[np.int64]:
    values = np.zeros(len(index), np.int64)
    for name in pictures:
        values = np.where(values > 0, values, _numbers(index[f"{name}.{attribute}"]))
    return values
