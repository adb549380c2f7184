"""One or several datasets, one after the other, as a single table of rows for the loader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.read.columns import Columns, digest_keys, find_several, read_columns
from headrace.read.dataset import Dataset
from headrace.read.field_columns import ByteRanges, PictureColumns, TargetColumns
from headrace.read.frames import VideoFrames
from headrace.read.requested import Kinds, Requested, find_requested
from headrace.read.run_layout import Part
from headrace.sample import is_image_field, is_video_field, picture_fields
from headrace.store.index_schema import field_names, user_columns
from headrace.store.rows import read_row


class Table:
    """The rows of all datasets: dataset *d* has the rows `bounds[d]` to `bounds[d + 1]` - 1.

    `keys` is a digest of all keys in their order, and of the chosen images. `pictures` names the fields
    that are decoded if there are other images beside them. `kinds` counts the pictures of each kind.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        fields: Sequence[str],
        *,
        image: bool,
        video: bool = False,
        orient: bool = False,
        kinds: Kinds | None = None,
    ) -> None:
        """Read the rows of datasets.

        Args:
            datasets: Open datasets.
            fields: Fields and columns that are wanted beside the picture.
            image: Whether the picture is wanted.
            video: Whether the picture is a video.
            orient: Whether images are turned upright: their sizes are those that they have then.
            kinds: Kinds of fields, in place of those in the manifests.
        """
        self._datasets, self._video = list(datasets), video
        counts = [dataset.manifest.samples for dataset in datasets]
        self.bounds = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self.keys = b""
        self.pictures: set[str] = set()
        self.kinds: Counter[str] = Counter()
        self.parts: list[Part] = []
        columns = []
        for dataset, start in zip(datasets, self.bounds[:-1].tolist(), strict=True):
            index = dataset.read_index()
            names = field_names(index.schema)
            images = list(filter(is_video_field if video else is_image_field, names))
            pictures = find_videos(dataset, images) if video else find_pictures(dataset, images)
            requested = find_requested(dataset, index.schema, fields, kinds or {})
            first = None if image else next(iter(requested.images), None)
            if first is not None:
                pictures = [requested.fields[first]]
            if image:
                _check_kind(dataset, names, video)
                _check_pictures(dataset, index, pictures)
            chosen = [] if not video and pictures == picture_fields(images) else pictures
            self.keys += digest_keys(index) + "".join(chosen).encode()
            if pictures != images:
                self.pictures.update(pictures)
            self.kinds += _count_kinds(index, pictures, dataset.rows)
            shards = [shard.samples for shard in dataset.manifest.shards]
            wanted = image or first is not None
            columns.append(read_columns(index, pictures, requested, wanted, shards))
            self.parts += _parts_of(dataset, start, columns[-1])
        whole = _concatenate(datasets, columns)
        self.columns = whole.turn_upright() if orient else whole

    def name_row(self, row: int) -> str:
        """Return the key of a row."""
        dataset, row = self._find(row)
        return dataset.read_row(row).key

    def describe_absence(self, row: int) -> str | None:
        """Say that a row has no picture, not even a damaged one; None if it has one."""
        dataset, row = self._find(row)
        fields = dataset.read_row(row).fields
        find = find_videos if self._video else find_pictures
        if set(find(dataset, dataset.fields)) & set(fields):
            return None
        name = dataset.image or ("video" if self._video else "image")
        return f"has no {name}; its fields are {', '.join(fields)}"

    def list_columns(self, row: int) -> list[str]:
        """Return the user's columns in the dataset of a row."""
        return user_columns(self._find(row)[0].read_index().schema)

    def _find(self, row: int) -> tuple[Dataset, int]:
        """Return the dataset of a row, and its number in that dataset."""
        number = int(np.searchsorted(self.bounds, row, side="right")) - 1
        return self._datasets[number], row - int(self.bounds[number])


def _count_kinds(index: pa.Table, pictures: Sequence[str], rows: np.ndarray | None) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for name in pictures:
        column = index[f"{name}.kind"]
        column = column if rows is None else column.take(pa.array(rows))
        for entry in column.value_counts().to_pylist():
            if entry["values"] is not None:
                kinds[entry["values"]] += entry["counts"]
    return kinds


def find_pictures(dataset: Dataset, fields: Sequence[str]) -> list[str]:
    """Return the fields that may be the picture of a sample: the chosen one, or by their names."""
    if dataset.image is None:
        return picture_fields(fields)
    return [name for name in fields if name == dataset.image]


def find_videos(dataset: Dataset, fields: Sequence[str]) -> list[str]:
    """Return the fields that may be the video of a sample: the chosen one, or all."""
    return [n for n in fields if is_video_field(n) and dataset.image in (None, n)]


def _check_kind(dataset: Dataset, fields: Sequence[str], video: bool) -> None:
    """Raise ValueError if clips of images are wanted, or images of videos."""
    videos = [name for name in fields if is_video_field(name)]
    if video and not videos:
        raise ValueError(
            f"{dataset.origin} has no videos, its fields are {list(fields)}: leave Clip out, or pack videos"
        )
    if video and len(find_videos(dataset, videos)) != 1:
        raise ValueError(
            f"{dataset.origin} has several videos, {', '.join(videos)}; choose one with "
            "open_dataset(path).choose_image(field)"
        )
    if not video and videos and not any(map(is_image_field, fields)):
        raise ValueError(
            f"{dataset.origin} holds videos ({', '.join(videos)}): begin the transform with "
            "headrace.transforms.Clip(frames)"
        )


def _check_pictures(dataset: Dataset, index: pa.Table, pictures: Sequence[str]) -> None:
    """Raise ValueError if a sample has several images of which none is preferred."""
    if len(pictures) < 2:
        return
    several = find_several(index, pictures)
    rows = np.flatnonzero(several) if dataset.rows is None else dataset.rows[several[dataset.rows]]
    if len(rows):
        row = read_row(index, int(rows[0]))
        found = [name for name in pictures if name in row.fields]
        raise ValueError(
            f"{dataset.origin}: {row.key!r} has several images, {', '.join(found)}; choose one "
            "with open_dataset(path).choose_image(field), or --image"
        )


def _parts_of(dataset: Dataset, start: int, columns: Columns) -> list[Part]:
    parts, first = [], 0
    for shard in dataset.manifest.shards:
        seek = None if shard.seek is None else dataset.path / Path(shard.seek.file)
        rows = slice(first, first + shard.samples)
        if shard.samples:
            loose = shard.data is None
            size = int(columns.anchor.size[rows].sum()) if shard.data is None else shard.data.bytes
            place = start + rows.start, start + rows.stop
            parts.append(Part(*place, size, dataset.root, seek, loose=loose))
        first = rows.stop
    return parts


def _concatenate(datasets: Sequence[Dataset], parts: list[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    _check_kinds(datasets, parts)
    files: list[str] = []
    shifted = []
    for part in parts:
        shifted.append(replace(part, file=part.file + len(files)))
        files.extend(part.files)
    first = parts[0]
    return Columns(
        files=files,
        file=np.concatenate([part.file for part in shifted]),
        span=ByteRanges.join([part.span for part in parts]),
        image=ByteRanges.join([part.image for part in parts]),
        seek=ByteRanges.join([part.seek for part in parts]),
        fields={
            name: ByteRanges.join([part.fields[name] for part in parts]) for name in first.fields
        },
        height=np.concatenate([part.height for part in parts]),
        width=np.concatenate([part.width for part in parts]),
        label=np.concatenate([part.label for part in parts]),
        orientation=np.concatenate([part.orientation for part in parts]),
        user={
            name: _join_columns(datasets, name, [part.user[name] for part in parts])
            for name in first.user
        },
        frames=_join_frames(parts),
        pictures={
            name: PictureColumns.join([part.pictures[name] for part in parts])
            for name in first.pictures
        },
        targets={
            name: TargetColumns.join([part.targets[name] for part in parts])
            for name in first.targets
        },
        requested=first.requested,
    )


def _check_kinds(datasets: Sequence[Dataset], parts: list[Columns]) -> None:
    """Raise ValueError if a name means one kind in one dataset, and another, or none, in another dataset."""
    first = parts[0].requested
    for dataset, part in zip(datasets, parts, strict=True):
        other = part.requested
        for name in {**first.kinds, **other.kinds}:
            meanings = [_describe_kind(name, first), _describe_kind(name, other)]
            if meanings[0] != meanings[1]:
                raise ValueError(
                    f"{name!r} is {meanings[0]} in {datasets[0].origin}, but {meanings[1]} in {dataset.origin}: say what "
                    "it is with kinds, or leave it out of fields"
                )


def _describe_kind(name: str, requested: Requested) -> str:
    """Return the kind of a field or column, and where it is stored."""
    kind = requested.kinds.get(name)
    what = "of no kind" if kind is None else str(kind)
    return f"{what} ({'a field' if name in requested.fields else 'a column'})"


def _join_frames(parts: list[Columns]) -> VideoFrames | None:
    frames = [part.frames for part in parts if part.frames is not None]
    return VideoFrames.join(frames) if frames else None


def _join_columns(
    datasets: Sequence[Dataset], name: str, columns: list[pa.ChunkedArray]
) -> pa.ChunkedArray:
    """Return the values of all datasets as one type: integers and floats have one in common, text and numbers do not."""
    tables = [pa.table({name: column}) for column in columns]
    try:
        return pa.concat_tables(tables, promote_options="permissive")[name]
    except pa.ArrowException:
        types = [f"{c.type} in {d.origin}" for d, c in zip(datasets, columns, strict=True)]
        raise ValueError(
            f"the values of {name!r} have no common type: {', '.join(types)}; leave it out of fields, or pack "
            "one dataset again with values of the same type"
        ) from None
