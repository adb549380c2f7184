"""Packs a stream of samples of unknown length, in its order.

Guaranteed, as by `packer`: until the manifest is written, nothing is visible but the hidden staging
folder. An error or Ctrl-C leaves nothing; a kill leaves no dataset that opens, and the next attempt
cleans up after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.arguments import check_count
from headrace.errors import PackError, SourceError
from headrace.formats.codecs.datapoint import parse_label
from headrace.pack import staging
from headrace.pack.describe_images import describe_sample
from headrace.sample import Sample, field_name
from headrace.store.durable import as_pack_error
from headrace.store.index_schema import Described, check_column_names
from headrace.store.keys import keep_key, printable
from headrace.store.manifest import MANIFEST
from headrace.store.tar import BLOCK, END, padded
from headrace.store.tar_members import shard_fields
from headrace.store.write_shard import ShardResult, assemble_manifest, shard_name, write_shard


def pack_samples(
    samples: Iterable[Sample],
    destination: Path,
    shard_size: int,
    classes: Sequence[str] | None = None,
) -> int:
    """Pack the samples into a new dataset and return their number.

    A damaged image is kept unchanged, and marked in the index.
    """
    shard_size = check_count("shard_size", shard_size, 1)
    if (destination / MANIFEST).exists():
        raise _taken(destination)
    failing = as_pack_error("packing", "nothing was written", below=destination)
    with failing, staging.open_staging(destination) as staged:
        if staged is None:
            raise _taken(destination)
        try:
            staging.clear_stale(staged, 0)
            results = list(_write_shards(samples, staged, shard_size))
            if not results:
                raise PackError(f"{destination}: not made, since there were no samples")
        except BaseException:
            staging.abandon_staging(staged)
            raise
        # From here on, Ctrl-C leaves a staging folder without a manifest, or a complete dataset.
        recipe = {"shard_size": shard_size, "order": "source"}
        manifest = assemble_manifest(results, classes=classes, recipe=recipe)
        staging.publish(staged, manifest)
    return manifest.samples


def _taken(destination: Path) -> PackError:
    return PackError(f"{destination}: already holds a dataset; choose another folder")


def _write_shards(
    samples: Iterable[Sample], staged: Path, shard_size: int
) -> Iterator[ShardResult]:
    described, place = _Checker().check(samples), _Cutter(shard_size)
    for number, shard in groupby(described, place):
        result = write_shard(shard, staged / shard_name(number), None)
        assert result is not None, "a group has at least one sample"
        yield result


class _Cutter:
    """Return the number of the shard that each sample goes to, called sample by sample."""

    def __init__(self, shard_size: int) -> None:
        self._limit = shard_size - len(END)
        self._number = self._used = 0

    def __call__(self, described: Described) -> int:
        fields = shard_fields(described.sample).values()
        size = sum(BLOCK + padded(len(data)) for data in fields)
        if self._used and self._used + size > self._limit:
            self._number, self._used = self._number + 1, 0
        self._used += size
        return self._number


class _Checker:
    """Checks that keys are unique paths, labels are integers, and each column has one type."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._types: dict[str, pa.DataType] = {}

    def check(self, samples: Iterable[Sample]) -> Iterator[Described]:
        for position, sample in enumerate(samples):
            try:
                self._check_names(sample)
                parse_label(sample.label)
                self._check_columns(sample)
                described = describe_sample(sample, keep_damaged=True)
            except SourceError as error:
                name = f"sample {position} ({printable(sample.key)})"
                raise PackError(f"{name} cannot be packed: {error}") from error
            yield described

    def _check_names(self, sample: Sample) -> None:
        if sample.key in self._keys:
            raise SourceError("another one has the same key")
        self._keys.add(sample.key)
        if (key := keep_key(sample.key)) != sample.key:
            raise SourceError(f"a tar would not give its key back; name it {key!r}")
        if not sample.fields:
            raise SourceError("it has no fields")
        for name in sample:
            if field_name(name) != name or "/" in name or not name.isprintable():
                raise SourceError(f"the field {name!r} is not named like a file suffix")

    def _check_columns(self, sample: Sample) -> None:
        for name, value in sample.columns.items():
            kind = _column_type(name, value)
            known = self._types.setdefault(name, kind)
            if pa.types.is_null(known):
                self._types[name] = kind
            elif kind != known and not pa.types.is_null(kind):
                raise SourceError(f"its column {name!r} is {kind}, those before are {known}")
        check_column_names(sample.columns)


def _column_type(name: str, value: Any) -> pa.DataType:
    """Return the type of a column. SourceError if an index cannot hold it."""
    try:
        return pa.field(name, pa.array([value]).type).type
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise SourceError(f"its column {name!r} does not fit into an index: {error}") from None
