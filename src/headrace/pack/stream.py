"""Packing samples as they come, in their order, when nobody knows how many there will be.

Guaranteed, as by `packer`: until the manifest is written nothing is visible but the hidden workshop
folder; an error or Ctrl-C leaves nothing, a kill leaves no dataset that opens, and the next attempt
clears up after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import index
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.errors import PackError, SourceError
from headrace.formats.datapoint import parse_label
from headrace.formats.keys import keep_key
from headrace.formats.names import printable
from headrace.formats.tar import BLOCK
from headrace.pack import workshop as ws
from headrace.pack.describe import Described, describe_image, describe_video, shard_fields
from headrace.pack.durable import as_pack_error
from headrace.pack.index import check_column_names
from headrace.pack.manifest import NAME as MANIFEST
from headrace.pack.manifest import write_manifest
from headrace.pack.shard import ShardResult, assemble_manifest, shard_name, write_shard
from headrace.pack.tar import END
from headrace.sample import Sample, field_name, is_image_field, is_video_field


def pack_samples(
    samples: Iterable[Sample],
    destination: Path,
    shard_size: int,
    classes: Sequence[str] | None = None,
) -> int:
    """Packs the samples into a new dataset; how many there were.

    An image that is damaged is kept as it is, and marked in the index.
    """
    shard_size = index(shard_size)
    if shard_size < 1:
        raise ValueError(f"shard_size is {shard_size}; it must be at least one byte")
    if (destination / MANIFEST).exists():
        raise _taken(destination)
    failing = as_pack_error("packing", "nothing was written", below=destination)
    with failing, ws.open_workshop(destination) as workshop:
        if workshop is None:
            raise _taken(destination)
        try:
            ws.clear_stale(workshop, 0)
            results = list(_write_shards(samples, workshop, shard_size))
            if not results:
                raise PackError(f"{destination}: not made, since there were no samples")
        except BaseException:
            ws.abandon_workshop(workshop)
            raise
        # Whoever interrupts from here on leaves a workshop without a manifest, or a whole dataset.
        recipe = {"shard_size": shard_size, "order": "source"}
        manifest = assemble_manifest(results, classes=classes, recipe=recipe)
        ws.publish(workshop, results)
        write_manifest(manifest, destination / MANIFEST)
        ws.remove_workshop(workshop)
    return manifest.samples


def _taken(destination: Path) -> PackError:
    return PackError(f"{destination}: already holds a dataset; choose another folder")


def _write_shards(
    samples: Iterable[Sample], workshop: Path, shard_size: int
) -> Iterator[ShardResult]:
    described, place = _Checker().check(samples), _Cutter(shard_size)
    for number, shard in groupby(described, place):
        result = write_shard(shard, workshop / shard_name(number), None)
        assert result is not None, "a group has at least one sample"
        yield result


class _Cutter:
    """The number of the shard that a sample goes to, sample after sample."""

    def __init__(self, shard_size: int) -> None:
        self._limit = shard_size - len(END)
        self._number = self._used = 0

    def __call__(self, described: Described) -> int:
        fields = shard_fields(described.sample).values()
        size = sum(BLOCK - (-len(data) // BLOCK) * BLOCK for data in fields)
        if self._used and self._used + size > self._limit:
            self._number, self._used = self._number + 1, 0
        self._used += size
        return self._number


class _Checker:
    """What makes samples a dataset: keys that are paths and unique, whole labels, columns of one type each."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._types: dict[str, pa.DataType] = {}

    def check(self, samples: Iterable[Sample]) -> Iterator[Described]:
        for position, sample in enumerate(samples):
            try:
                self._check_names(sample)
                parse_label(sample.label)
                self._check_columns(sample)
                described = _describe(sample)
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
    """SourceError if an index cannot hold the column."""
    try:
        return pa.field(name, pa.array([value]).type).type
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise SourceError(f"its column {name!r} does not fit into an index: {error}") from None


def _describe(sample: Sample) -> Described:
    images = {}
    for name, data in sample.items():
        if is_image_field(name):
            with suppress(SourceError):  # damaged: marked in the index
                images[name] = describe_image(data)
        elif is_video_field(name):
            images[name] = describe_video(data, sample.frames.get(name, ()))
    return Described(sample, images)
