"""A dataset that is opened for reading: samples by number, and the index as a table."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import CorruptError
from headrace.formats.pread import open_regular
from headrace.pack.index import FILE, KEY, LABEL, field_names, user_columns
from headrace.pack.index_reading import read_index, read_indexes
from headrace.pack.manifest import NAME as MANIFEST
from headrace.pack.manifest import Manifest, read_manifest
from headrace.pack.stored import read_stored, retry_stale
from headrace.sample import Sample, field_name, is_image_field

_KEPT_SHARDS = 16
_ROW = "__row__"


def open_indexed(path: str | os.PathLike[str]) -> Dataset:
    """The dataset whose manifest is in the folder `path`, or is `path`. Reads the manifest and no more."""
    path = Path(path).absolute()  # not abspath, which takes `link/..` wrongly
    if path.name == MANIFEST:
        path = path.parent
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such dataset")
    return Dataset(path, read_manifest(path))


class Dataset(Sequence[Sample]):
    """Samples by number. Safe to use from threads, after fork and under spawn; holds no open file.

    A slice is a dataset of its own over the same files. Opening costs nothing per sample; the index
    of a shard is read when the first of its samples is asked for.
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
        """The field that was chosen as the picture; None if that is left to the names of the fields."""
        self._rows = rows
        self._root = path / manifest.root
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
        """Class names: label `k` means `classes[k]`. None where labels are bare numbers."""
        return self.manifest.classes

    @property
    def fields(self) -> Sequence[str]:
        """The fields that samples may have."""
        return self.manifest.fields

    @property
    def index(self) -> pa.Table:
        """A row a sample: see docs/format.md. Read once, about 100 bytes a sample."""
        if self._index is None:
            table = self.read_index()
            self._index = table if self._rows is None else table.take(pa.array(self._rows))
        return self._index

    def read_index(self) -> pa.Table:
        """Read the index of all shards, whatever part of them this dataset is."""
        return retry_stale(lambda: read_indexes(self.path, self.manifest.shards))

    @property
    def rows(self) -> np.ndarray | None:
        """The rows of the whole that this dataset consists of; None if simply all."""
        return self._rows

    @property
    def origin(self) -> Path:
        """Where the samples are: the folder of their files, or the only file, if the index lies elsewhere."""
        if self.manifest.root == ".":
            return self.path
        files = {shard.data and shard.data.file for shard in self.manifest.shards}
        only = files.pop() if len(files) == 1 else None
        return self.root / only if only else self.root

    @property
    def root(self) -> Path:
        """The folder that the files in the index are relative to."""
        return self._root

    def filter(self, expression: pc.Expression) -> Dataset:
        """The samples whose index row fulfils a pyarrow expression.

        dataset.filter((pc.field("label") < 10) & (pc.field("jpg.width") >= 256))
        """
        rows = np.arange(self.manifest.samples) if self._rows is None else self._rows
        table = self.index.append_column(_ROW, pa.array(rows))
        return self._take(table.filter(expression)[_ROW].to_numpy())

    def choose_image(self, field: str) -> Dataset:
        """The same samples with this field as their picture, for a loader: where they have several images.

        Loader(dataset.choose_image("left.jpg"), 64)
        """
        field = field_name(field)
        if field not in self.fields or not is_image_field(field):
            images = [name for name in self.fields if is_image_field(name)]
            raise ValueError(
                f"{field!r} is no image field of {self.origin}; choose one of {images}"
            )
        return Dataset(self.path, self.manifest, self._rows, field)

    def _take(self, rows: np.ndarray) -> Dataset:
        return Dataset(self.path, self.manifest, rows, self.image)

    @overload
    def __getitem__(self, i: int) -> Sample: ...
    @overload
    def __getitem__(self, i: slice) -> Dataset: ...
    def __getitem__(self, i: int | slice) -> Sample | Dataset:
        """Sample `i`, read from its file; a slice is a dataset over those samples."""
        if isinstance(i, slice):
            rows = np.arange(self.manifest.samples) if self._rows is None else self._rows
            return self._take(rows[i])
        try:
            i = operator.index(i)
        except TypeError:
            raise TypeError(
                f"{type(i).__name__}: give the number of a sample, or a slice"
            ) from None
        position = i + len(self) if i < 0 else i
        if not 0 <= position < len(self):
            raise IndexError(f"sample {i} of {len(self)}")
        row = position if self._rows is None else int(self._rows[position])
        return self._read_sample(self._read_row(row))

    def read_key(self, row: int) -> str:
        """The key of a row of the whole."""
        key: str = self._read_row(row)[KEY][0].as_py()
        return key

    def read_field(self, row: int, field: str) -> bytes:
        """Return one field of a row of the whole. Raises CorruptError as reading a sample does."""
        (values,) = self._read_row(row).to_pylist()
        return self._read_checked([field], values)[field]

    def list_fields(self, row: int) -> list[str]:
        """The fields that a row of the whole has."""
        table = self._read_row(row)
        names = field_names(table.schema)
        return [name for name in names if table[f"{name}.offset"][0].is_valid]

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    def _read_row(self, row: int) -> pa.Table:
        shard = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._shard_table(shard).slice(row - int(self._starts[shard]), 1)

    def _shard_table(self, shard: int) -> pa.Table:
        kept = self._kept
        if shard not in kept:
            # Replaced, not changed: other threads go on with the one they have, and no lock can be
            # held by a thread that a fork leaves behind.
            recent = dict(list(kept.items())[-_KEPT_SHARDS + 1 :])
            self._kept = kept = {**recent, shard: self._read_shard(shard)}
        return kept[shard]

    def _read_shard(self, shard: int) -> pa.Table:
        record = self.manifest.shards[shard]
        return retry_stale(lambda: read_index(self.path, record))

    def _read_sample(self, row: pa.Table) -> Sample:
        (values,) = row.to_pylist()
        fields = field_names(row.schema)
        present = [f for f in fields if values[f"{f}.offset"] is not None]
        data = self._read_checked(present, values)
        columns = {name: values[name] for name in user_columns(row.schema)}
        frames = {f: values[f"{f}.frames"] for f in data if values.get(f"{f}.frames") is not None}
        return Sample(values[KEY], data, values[LABEL], columns, frames=frames)

    def _read_checked(self, fields: list[str], values: dict[str, Any]) -> dict[str, bytes]:
        try:
            return retry_stale(lambda: self._read_fields(fields, values))
        except OSError as error:
            path = self._root / values[FILE]
            raise CorruptError(f"{path}: {error.strerror}, for sample {values[KEY]!r}") from None

    def _read_fields(self, fields: list[str], values: dict[str, Any]) -> dict[str, bytes]:
        path, key = self._root / values[FILE], values[KEY]
        fd, data = open_regular(path), {}
        try:
            for field in fields:
                place = (values[f"{field}.{name}"] for name in ("offset", "size", "crc32c"))
                data[field] = read_stored(fd, *place)
        except CorruptError as error:
            raise CorruptError(f"{path}: {field} of {key!r}: {error}") from None
        finally:
            os.close(fd)
        return data
