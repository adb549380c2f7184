"""A dataset that is open for reading: samples by number, and the index as a table."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.files.pread import retry_stale
from headrace.kinds import Kind
from headrace.sample import Sample, field_name, is_image_field, is_video_field
from headrace.store.index_reader import read_index, read_indexes
from headrace.store.manifest import MANIFEST, Manifest, read_manifest
from headrace.store.rows import IndexRow, read_fields, read_row

_KEPT_SHARDS = 16
_ROW = "__row__"


def open_indexed(path: str | os.PathLike[str]) -> Dataset:
    """Open the dataset whose manifest is in the folder `path`, or is `path`. Reads only the manifest."""
    path = Path(path).absolute()  # not abspath, which takes `link/..` wrongly
    if path.name == MANIFEST:
        path = path.parent
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such dataset")
    return Dataset(path, read_manifest(path))


class Dataset(Sequence[Sample]):
    """Samples by number. Safe to use from threads, after fork and under spawn; holds no open file.

    A slice is another dataset over the same files. Opening costs nothing per sample; the index of a
    shard is read with the first of its samples.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        rows: np.ndarray | None = None,
        image: str | None = None,
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.image = image
        """The field that was chosen as the picture; None if the names of the fields decide."""
        self._rows = rows
        self.root = path / manifest.root
        """The folder that the files in the index are relative to."""
        counts = [shard.samples for shard in manifest.shards]
        self._starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._kept: dict[int, pa.Table] = {}
        self._index: pa.Table | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self.path, self.manifest, self._rows, self.image)

    def __len__(self) -> int:
        return self.manifest.samples if self._rows is None else len(self._rows)

    def __repr__(self) -> str:
        return f"Dataset({str(self.origin)!r}, {len(self)} samples, fields {list(self.fields)})"

    @property
    def classes(self) -> Sequence[str] | None:
        """Return the class names: label `k` means `classes[k]`. None if labels have no names."""
        return self.manifest.classes

    @property
    def fields(self) -> Sequence[str]:
        """Return the fields that samples may have."""
        return self.manifest.fields

    @property
    def field_kinds(self) -> Mapping[str, Kind]:
        """Return the kinds of fields and columns that have one, such as `{"mask.png": Mask()}`."""
        return self.manifest.field_kinds

    @property
    def index(self) -> pa.Table:
        """Return the index, one row per sample (see docs/reference/format.md). Read once, about 100 bytes per sample."""
        if self._index is None:
            table = self.read_index()
            self._index = table if self._rows is None else table.take(pa.array(self._rows))
        return self._index

    def read_index(self) -> pa.Table:
        """Read the index of all shards, even if this dataset is a part of them."""
        return retry_stale(lambda: read_indexes(self.path, self.manifest.shards))

    @property
    def rows(self) -> np.ndarray | None:
        """Return the row numbers in the full dataset; None for all rows."""
        return self._rows

    @property
    def origin(self) -> Path:
        """Return where the samples are: the folder of their files, or the only file if the index lies elsewhere."""
        if self.manifest.root == ".":
            return self.path
        files = {shard.data and shard.data.file for shard in self.manifest.shards}
        only = files.pop() if len(files) == 1 else None
        return self.root / only if only else self.root

    def filter(self, expression: pc.Expression) -> Dataset:
        """Return the samples whose index row fulfils a pyarrow expression.

        dataset.filter((pc.field("label") < 10) & (pc.field("jpg.width") >= 256))
        """
        table = self.index.append_column(_ROW, pa.array(self._list_rows()))
        return self._take(table.filter(expression)[_ROW].to_numpy())

    def choose_image(self, field: str) -> Dataset:
        """Return the same samples with this field as their picture, if they have several images or videos.

        Loader(dataset.choose_image("left.jpg"), 64)
        """
        field = field_name(field)
        images = [name for name in self.fields if is_image_field(name) or is_video_field(name)]
        if field not in images:
            raise ValueError(
                f"{field!r} is not an image field of {self.origin}; choose one of {images}"
            )
        return Dataset(self.path, self.manifest, self._rows, field)

    def _list_rows(self) -> np.ndarray:
        return np.arange(self.manifest.samples) if self._rows is None else self._rows

    def _take(self, rows: np.ndarray) -> Dataset:
        return Dataset(self.path, self.manifest, rows, self.image)

    @overload
    def __getitem__(self, i: int) -> Sample: ...
    @overload
    def __getitem__(self, i: slice) -> Dataset: ...
    def __getitem__(self, i: int | slice) -> Sample | Dataset:
        """Return sample `i`, read from its file, or for a slice a dataset over those samples."""
        if isinstance(i, slice):
            return self._take(self._list_rows()[i])
        try:
            i = operator.index(i)
        except TypeError:
            raise TypeError(f"{type(i).__name__}: give an integer or a slice") from None
        position = i + len(self) if i < 0 else i
        if not 0 <= position < len(self):
            raise IndexError(f"sample {i} of {len(self)}")
        number = position if self._rows is None else int(self._rows[position])
        row = self.read_row(number)
        return row.make_sample(read_fields(self.root, row, row.fields))

    def read_row(self, row: int) -> IndexRow:
        """Return what the index says about a row of the whole."""
        shard = int(np.searchsorted(self._starts, row, side="right")) - 1
        return read_row(self._shard_table(shard), row - int(self._starts[shard]))

    def read_field(self, row: int, field: str) -> bytes:
        """Return one field of a row of the whole. Raises CorruptError as reading a sample does."""
        return read_fields(self.root, self.read_row(row), [field])[field]

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    def _shard_table(self, shard: int) -> pa.Table:
        kept = self._kept
        if shard not in kept:
            # Replaced, not changed: other threads keep using theirs, and a fork leaves no lock held.
            recent = dict(list(kept.items())[-_KEPT_SHARDS + 1 :])
            self._kept = kept = {**recent, shard: self._read_shard(shard)}
        return kept[shard]

    def _read_shard(self, shard: int) -> pa.Table:
        record = self.manifest.shards[shard]
        return retry_stale(lambda: read_index(self.path, record))
