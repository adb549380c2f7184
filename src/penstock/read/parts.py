"""One data set or several, one after the other, as a single table of rows for the loader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.read.columns import Columns, Places, digest_keys, read_columns
from penstock.read.dataset import Dataset
from penstock.read.layout import Part


class Table:
    """Rows of all data sets; those of data set *d* are `bounds[d]` to `bounds[d + 1]` - 1.

    `keys` is a digest of all keys in their order.
    """

    def __init__(self, datasets: Sequence[Dataset], fields: Sequence[str], *, image: bool) -> None:
        self._datasets = list(datasets)
        counts = [dataset.manifest.samples for dataset in datasets]
        self.bounds = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        indexes = [dataset.read_index() for dataset in datasets]
        self.keys = b"".join(map(digest_keys, indexes))
        self.columns = _concatenate(
            [
                _read(dataset, index, fields, image)
                for dataset, index in zip(datasets, indexes, strict=True)
            ]
        )
        self.parts = [
            part
            for dataset, start in zip(datasets, self.bounds[:-1].tolist(), strict=True)
            for part in _parts_of(dataset, start)
        ]

    def name_row(self, row: int) -> str:
        """The key of a row."""
        number = int(np.searchsorted(self.bounds, row, side="right")) - 1
        dataset = self._datasets[number]
        return dataset.read_key(row - int(self.bounds[number]))


def _read(dataset: Dataset, index: pa.Table, fields: Sequence[str], image: bool) -> Columns:
    wanted = [name for name in fields if f"{name}.offset" in index.column_names]
    user = [name for name in fields if name in index.column_names]
    missing = set(fields) - set(wanted) - set(user)
    if missing:
        raise ValueError(
            f"{dataset.path} has no {sorted(missing)}: it has the fields {list(dataset.fields)} "
            f"and the columns {index.column_names}"
        )
    return read_columns(index, wanted, user, image)


def _parts_of(dataset: Dataset, start: int) -> list[Part]:
    parts = []
    for shard in dataset.manifest.shards:
        index = dataset.path / Path(shard.index.file)
        stop = start + shard.samples
        if shard.samples:
            parts.append(Part(start, stop, dataset.root, index, loose=shard.data is None))
        start = stop
    return parts


def _concatenate(parts: list[Columns]) -> Columns:
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
        span=_join([part.span for part in parts]),
        image=_join([part.image for part in parts]),
        fields={name: _join([part.fields[name] for part in parts]) for name in first.fields},
        height=np.concatenate([part.height for part in parts]),
        width=np.concatenate([part.width for part in parts]),
        label=np.concatenate([part.label for part in parts]),
        user={
            name: pa.chunked_array([c for part in parts for c in part.user[name].chunks])
            for name in first.user
        },
    )


def _join(places: list[Places]) -> Places:
    return Places(
        np.concatenate([p.offset for p in places]), np.concatenate([p.size for p in places])
    )
