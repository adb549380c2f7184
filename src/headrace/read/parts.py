"""One dataset or several, one after the other, as a single table of rows for the loader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.pack.index import KEY, field_names, user_columns
from headrace.read.columns import (
    Columns,
    Places,
    Spans,
    digest_keys,
    find_several,
    read_columns,
)
from headrace.read.dataset import Dataset
from headrace.read.layout import Part
from headrace.sample import is_image_field, picture_fields


class Table:
    """Rows of all datasets; those of dataset *d* are `bounds[d]` to `bounds[d + 1]` - 1.

    `keys` is a digest of all keys in their order, and of the images that were chosen. `pictures` names the fields
    that are decoded where there are other images beside them. `kinds` counts the pictures of each kind.
    """

    def __init__(self, datasets: Sequence[Dataset], fields: Sequence[str], *, image: bool) -> None:
        self._datasets = list(datasets)
        counts = [dataset.manifest.samples for dataset in datasets]
        self.bounds = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self.keys = b""
        self.pictures: set[str] = set()
        self.kinds: Counter[str] = Counter()
        self.parts: list[Part] = []
        columns = []
        for dataset, start in zip(datasets, self.bounds[:-1].tolist(), strict=True):
            index = dataset.read_index()
            images = [name for name in field_names(index.schema) if is_image_field(name)]
            pictures = find_pictures(dataset, images)
            if image:
                _check_pictures(dataset, index, pictures)
            chosen = [] if pictures == picture_fields(images) else pictures
            self.keys += digest_keys(index) + "".join(chosen).encode()
            if pictures != images:
                self.pictures.update(pictures)
            self.kinds += _count_kinds(index, pictures, dataset.rows)
            self.parts += _parts_of(dataset, start)
            columns.append(_read(dataset, index, pictures, fields, image))
        self.columns = _concatenate(datasets, columns)

    def name_row(self, row: int) -> str:
        """The key of a row."""
        dataset, row = self._find(row)
        return dataset.read_key(row)

    def describe_absence(self, row: int) -> str | None:
        """That a row has no picture, not even a damaged one; None if it has."""
        dataset, row = self._find(row)
        fields = dataset.list_fields(row)
        if set(find_pictures(dataset, dataset.fields)) & set(fields):
            return None
        return f"has no {dataset.image or 'image'}; its fields are {', '.join(fields)}"

    def list_columns(self, row: int) -> list[str]:
        """The user's columns in the dataset of a row."""
        return user_columns(self._find(row)[0].read_index().schema)

    def _find(self, row: int) -> tuple[Dataset, int]:
        """The dataset of a row, and its number there."""
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
    """Those of the fields that may be the picture of a sample: the chosen one, or those told by their names."""
    if dataset.image is None:
        return picture_fields(fields)
    return [name for name in fields if name == dataset.image]


def _check_pictures(dataset: Dataset, index: pa.Table, pictures: Sequence[str]) -> None:
    """ValueError if a sample has several images of which none is preferred."""
    if len(pictures) < 2:
        return
    several = find_several(index, pictures)
    rows = np.flatnonzero(several) if dataset.rows is None else dataset.rows[several[dataset.rows]]
    if len(rows):
        (sample,) = index.slice(int(rows[0]), 1).to_pylist()
        found = [name for name in pictures if sample[f"{name}.offset"] is not None]
        raise ValueError(
            f"{dataset.origin}: {sample[KEY]!r} has several images, {', '.join(found)}; say which one is to be loaded "
            "with open_dataset(path).choose_image(field), or a command with --image"
        )


def _read(
    dataset: Dataset, index: pa.Table, pictures: Sequence[str], fields: Sequence[str], image: bool
) -> Columns:
    wanted = [name for name in fields if f"{name}.offset" in index.column_names]
    user = [name for name in fields if name in index.column_names]
    missing = set(fields) - set(wanted) - set(user)
    if missing:
        raise ValueError(
            f"{dataset.origin} has no {sorted(missing)}: it has the fields {list(dataset.fields)} "
            f"and the columns {index.column_names}"
        )
    shards = [shard.samples for shard in dataset.manifest.shards]
    return read_columns(index, pictures, wanted, user, image, shards)


def _parts_of(dataset: Dataset, start: int) -> list[Part]:
    parts = []
    for shard in dataset.manifest.shards:
        seek = None if shard.seek is None else dataset.path / Path(shard.seek.file)
        stop = start + shard.samples
        if shard.samples:
            parts.append(Part(start, stop, dataset.root, seek, loose=shard.data is None))
        start = stop
    return parts


def _concatenate(datasets: Sequence[Dataset], parts: list[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    files: list[str] = []
    shifted = []
    for part in parts:
        shifted.append(replace(part, file=part.file + len(files)))
        files.extend(part.files)
    first = parts[0]
    return Columns(
        files=files,
        file=np.concatenate([part.file for part in shifted]),
        span=_join_spans([part.span for part in parts]),
        image=_join([part.image for part in parts]),
        seek=_join_spans([part.seek for part in parts]),
        fields={name: _join([part.fields[name] for part in parts]) for name in first.fields},
        height=np.concatenate([part.height for part in parts]),
        width=np.concatenate([part.width for part in parts]),
        label=np.concatenate([part.label for part in parts]),
        user={
            name: _join_columns(datasets, name, [part.user[name] for part in parts])
            for name in first.user
        },
    )


def _join_columns(
    datasets: Sequence[Dataset], name: str, columns: list[pa.ChunkedArray]
) -> pa.ChunkedArray:
    """The values of all datasets as one type, which whole numbers and floats have and text and numbers have not."""
    tables = [pa.table({name: column}) for column in columns]
    try:
        return pa.concat_tables(tables, promote_options="permissive")[name]
    except pa.ArrowException:
        types = [f"{c.type} in {d.origin}" for d, c in zip(datasets, columns, strict=True)]
        raise ValueError(
            f"the values of {name!r} have no type in common: {', '.join(types)}; leave it out of fields, or pack a "
            "dataset again with values like those of the others"
        ) from None


def _join(places: list[Places]) -> Places:
    return Places(
        np.concatenate([p.offset for p in places]),
        np.concatenate([p.size for p in places]),
        np.concatenate([p.checksum for p in places]),
    )


def _join_spans(spans: list[Spans]) -> Spans:
    return Spans(np.concatenate([s.offset for s in spans]), np.concatenate([s.size for s in spans]))
