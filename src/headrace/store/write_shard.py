"""Writes shards: `shard-000000.tar`, its seek tables and its index; and the manifest of all of them."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from headrace.kinds import Kind
from headrace.store.durable import named_if_full, temporary_name, write_durable
from headrace.store.field_kinds import FoundKinds, join_kinds
from headrace.store.index_schema import Described, IndexBuilder, encode_index, field_names
from headrace.store.manifest import FileRecord, Manifest, ShardRecord
from headrace.store.tar import END, member_header, padding
from headrace.store.tar_members import shard_fields

_FLUSH = 4 << 20
_MAX_PARTS = 1000  # below IOV_MAX


@dataclass(frozen=True)
class ShardResult:
    """A complete shard on disk."""

    record: ShardRecord
    fields: list[str]
    kinds: dict[str, int]
    field_kinds: FoundKinds


def shard_name(number: int) -> str:
    """Return the name of a shard's data file."""
    return f"shard-{number:06d}.tar"


class _HashedFile:
    """A new file, written in large pieces and hashed on the way."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._parts: list[bytes] = []
        self._waiting = 0
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        self._parts.append(data)
        self._waiting += len(data)
        self.size += len(data)
        if self._waiting >= _FLUSH or len(self._parts) >= _MAX_PARTS:
            self._flush()

    def _flush(self) -> None:
        for part in self._parts:
            self._hash.update(part)
        parts = [memoryview(part) for part in self._parts if part]
        while parts:
            written = os.writev(self._fd, parts)
            while parts and written >= len(parts[0]):
                written -= len(parts.pop(0))
            if written:
                parts[0] = parts[0][written:]
        self._parts, self._waiting = [], 0

    def finish(self) -> str:
        """Sync the file and return its SHA-256."""
        self._flush()
        os.fsync(self._fd)
        return self._hash.hexdigest()

    def close(self) -> None:
        os.close(self._fd)


def write_shard(
    samples: Iterable[Described], path: Path, columns: pa.Schema | None
) -> ShardResult | None:
    """Write the samples to the tar `path`, with seek tables and index beside it; None without samples.

    The data file comes first: a shard exists when its index does.
    """
    temporary, index = temporary_name(path), IndexBuilder(columns)
    file = _HashedFile(temporary)
    try:
        with named_if_full(path):
            for described in samples:
                _write_sample(file, index, path.name, described)
            file.write(END)
            digest = file.finish() if len(index) else ""
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        file.close()
    if not len(index):
        temporary.unlink()
        return None
    os.replace(temporary, path)
    encoded = encode_shard(index, path.stem, FileRecord(path.name, file.size, digest))
    for name, content in encoded.files.items():
        write_durable(path.with_name(name), content)  # the index last: with it, the shard exists
    return encoded.result


def _write_sample(file: _HashedFile, index: IndexBuilder, name: str, described: Described) -> None:
    sample = described.sample
    index.add_described(described, name)
    for field, data in shard_fields(sample).items():
        suffix = sample.suffixes.get(field, field)
        file.write(member_header(f"{sample.key}.{suffix}", len(data)))
        index.add_field(field, file.size, data, described.notes.get(field))
        file.write(data)
        file.write(padding(len(data)))


class EncodedShard(NamedTuple):
    """The files to write beside the data of a shard, in this order: contents by file name."""

    files: dict[str, bytes]
    result: ShardResult


def encode_shard(index: IndexBuilder, stem: str, data: FileRecord | None) -> EncodedShard:
    """Encode the seek tables and the index of the data file `data` (None: of loose files).

    Their files are `stem` with the suffixes `.seek`, if there are tables, and `.arrow`.
    """
    table, seeks = index.finish(), index.join_seeks()
    encoded = encode_index(table)
    files = {f"{stem}.seek": seeks} if seeks else {}
    files[f"{stem}.arrow"] = encoded
    record = ShardRecord(
        samples=len(index),
        index=_record(f"{stem}.arrow", encoded),
        seek=_record(f"{stem}.seek", seeks) if seeks else None,
        data=data,
    )
    fields = field_names(table.schema)
    return EncodedShard(files, ShardResult(record, fields, index.kinds, index.field_kinds))


def _record(name: str, content: bytes) -> FileRecord:
    return FileRecord(name, len(content), hashlib.sha256(content).hexdigest())


def assemble_manifest(
    results: Sequence[ShardResult],
    *,
    classes: Sequence[str] | None = None,
    root: str = ".",
    recipe: Mapping[str, Any] | None = None,
    field_kinds: Mapping[str, Kind] | None = None,
) -> Manifest:
    """Return the manifest of a dataset that consists of these shards.

    `field_kinds` are those that the source states, in place of those that were recognised.
    """
    kinds: Counter[str] = Counter()
    found: dict[str, Kind | None] = {}
    for result in results:
        kinds.update(result.kinds)
        join_kinds(found, result.field_kinds)
    found |= field_kinds or {}
    records = [result.record for result in results]
    return Manifest(
        samples=sum(record.samples for record in records),
        bytes=sum(record.data.bytes for record in records if record.data),
        fields=sorted({name for result in results for name in result.fields}),
        kinds=dict(sorted(kinds.items())),
        classes=None if classes is None else list(classes),
        shards=records,
        root=root,
        recipe=recipe or {},
        field_kinds={name: kind for name, kind in sorted(found.items()) if kind is not None},
    )
