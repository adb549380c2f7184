"""The manifest `headrace.json` lists the parts of a dataset. It is written last and read first.

A dataset exists when its manifest does. Everything in it is checked when it is read, its own checksum
first, so that the rest of the code may trust a `Manifest`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from headrace.errors import CorruptError
from headrace.files.pread import open_regular
from headrace.kinds import Kind
from headrace.store.durable import write_durable
from headrace.store.field_kinds import read_kinds, write_kinds
from headrace.store.keys import is_below
from headrace.work.cancellable import until_cancelled

MANIFEST = "headrace.json"
PACKING = ".packing"
"""The folder where a packer keeps its shards until all of them are done."""
VERSION = 4
_MAX_BYTES = 256 << 20  # a billion samples in 256 MiB shards stay below it
_MAX_COUNT = 1 << 53
_PIECE = 8 << 20


@dataclass(frozen=True)
class FileRecord:
    """A file of the dataset. The name of an index is relative to the manifest, of data to `root`."""

    file: str
    bytes: int
    sha256: str | None = None


def record_file(path: Path, name: str) -> FileRecord:
    """Read a file and return its record under this name."""
    digest, size = hashlib.sha256(), 0
    with os.fdopen(open_regular(path), "rb", buffering=0) as file:
        for piece in until_cancelled(iter(lambda: file.read(_PIECE), b"")):
            digest.update(piece)
            size += len(piece)
    return FileRecord(name, size, digest.hexdigest())


@dataclass(frozen=True)
class ShardRecord:
    """A shard: its index, its seek tables if it has any, and its data file (None: loose files)."""

    samples: int
    index: FileRecord
    seek: FileRecord | None
    data: FileRecord | None

    @property
    def derived(self) -> list[FileRecord]:
        """Return the files beside the manifest that were made from the data."""
        return [self.index] if self.seek is None else [self.index, self.seek]


@dataclass(frozen=True)
class Manifest:
    """See docs/reference/format.md for the meaning of each entry."""

    samples: int
    bytes: int
    fields: Sequence[str]
    kinds: Mapping[str, int]
    classes: Sequence[str] | None
    shards: Sequence[ShardRecord]
    root: str = "."
    recipe: Mapping[str, Any] = field(default_factory=dict)
    field_kinds: Mapping[str, Kind] = field(default_factory=dict)


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write the manifest atomically: before, there is no dataset; after, there is a complete one."""
    content = _list_entries(manifest)
    content["sha256"] = find_checksum(content)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    # A class folder whose name is not UTF-8 has lone surrogates: \udcXX is how JSON writes them.
    write_durable(path, text.encode("utf-8", "backslashreplace") + b"\n")


def digest_manifest(manifest: Manifest) -> str:
    """Return a digest of all entries, and so of the files whose SHA-256 the manifest has."""
    return find_checksum(_list_entries(manifest))


def find_checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all entries but `sha256`, as ASCII JSON with sorted keys and no spaces."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _list_entries(manifest: Manifest) -> dict[str, Any]:
    entries = asdict(manifest) | {"field_kinds": write_kinds(manifest.field_kinds)}
    return {"format": "headrace", "version": VERSION, **entries}


def find_dataset(path: Path) -> Path | None:
    """Return the folder of a dataset from the path of the folder or of its manifest."""
    if path.name == MANIFEST:
        return path.parent
    return path if os.path.isfile(path / MANIFEST) else None


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a dataset. CorruptError if it is not one of ours or contradicts itself."""
    path = folder / MANIFEST
    try:
        content = json.loads(_read_bounded(path), parse_constant=_refuse)
    except (FileNotFoundError, NotADirectoryError):
        raise CorruptError(
            describe_unfinished(folder)
            or f"{path}: no manifest; this is not a packed or indexed dataset"
        ) from None
    except (ValueError, RecursionError, OSError) as error:
        raise CorruptError(f"{path}: not a readable manifest: {error}") from None
    try:
        return _parse(content)
    except (CorruptError, RecursionError) as error:
        raise CorruptError(f"{path}: {error}") from None


def describe_unfinished(folder: Path) -> str | None:
    """Say that packing into `folder` was not finished, and how to resume; None otherwise."""
    if not os.path.isdir(folder / PACKING) or os.path.exists(folder / MANIFEST):
        return None
    place = shlex.quote(str(folder))
    return (
        f"{folder}: no manifest, since packing was not finished or is still running; run "
        f"`headrace pack SRC {place}` again to resume it"
    )


def _read_bounded(path: Path) -> bytes:
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MAX_BYTES:
            raise CorruptError(f"{path}: {size} bytes is too large for a manifest")
        return file.read(size)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _parse(content: object) -> Manifest:
    top = _expect(content, dict, "the manifest")
    if top.get("format") != "headrace":
        raise CorruptError(f"its format is {str(top.get('format'))[:40]!r}, not 'headrace'")
    if top.get("version") != VERSION:
        raise CorruptError(
            f"version {top.get('version')!r}; this Headrace reads version {VERSION}: pack or index the source again"
        )
    if top.get("sha256") != find_checksum(top):
        raise CorruptError(
            "it was changed after it was written: its checksum does not match its entries; "
            "restore it, or pack or index again"
        )
    _expect_entries(top, [*_names(Manifest), "format", "version", "sha256"], "the manifest")
    shards = [parse_shard(s) for s in _expect(top["shards"], list, "shards")]
    manifest = Manifest(
        samples=_count(top["samples"], "samples"),
        bytes=_count(top["bytes"], "bytes"),
        fields=_strings(top["fields"], "fields"),
        kinds={k: _count(v, f"kinds.{k}") for k, v in _expect(top["kinds"], dict, "kinds").items()},
        classes=None if top["classes"] is None else _strings(top["classes"], "classes"),
        shards=shards,
        root=_expect(top["root"], str, "root"),
        recipe=_expect(top["recipe"], dict, "recipe"),
        field_kinds=read_kinds(top["field_kinds"]),
    )
    if not shards:
        raise CorruptError("it lists no shards")
    total = sum(shard.samples for shard in shards)
    if total != manifest.samples:
        raise CorruptError(f"{manifest.samples} samples, but its shards have {total}")
    names = [r.file for s in shards for r in (*s.derived, s.data) if r is not None]
    if len(set(names)) != len(names):
        raise CorruptError("a file is listed twice")
    return manifest


def parse_shard(content: object) -> ShardRecord:
    """Return the record of a shard from its JSON. CorruptError if anything in it is wrong."""
    shard = _expect_entries(content, _names(ShardRecord), "a shard")
    seek, data = shard["seek"], shard["data"]
    return ShardRecord(
        samples=_count(shard["samples"], "samples of a shard"),
        index=_parse_hashed(shard["index"]),
        seek=None if seek is None else _parse_hashed(seek),
        data=None if data is None else _parse_file(data),
    )


def _parse_hashed(content: object) -> FileRecord:
    record = _parse_file(content)
    if record.sha256 is None:
        raise CorruptError(f"{record.file} has no SHA-256")
    return record


def _parse_file(content: object) -> FileRecord:
    record = _expect_entries(content, _names(FileRecord), "a file of a shard")
    name = _expect(record["file"], str, "a file name")
    if not is_below(name):
        raise CorruptError(f"the file {name[:80]!r} is not below the dataset")
    digest = record["sha256"]
    digest = None if digest is None else _expect(digest, str, f"sha256 of {name}")
    return FileRecord(name, _count(record["bytes"], f"bytes of {name}"), digest)


def _expect(value: Any, kind: type | Callable[..., Any], what: str) -> Any:
    if not isinstance(value, kind):  # type: ignore[arg-type]
        raise CorruptError(
            f"{what} is {type(value).__name__}, not {getattr(kind, '__name__', kind)}"
        )
    return value


def _names(record: type) -> list[str]:
    return [entry.name for entry in fields(record)]


def _expect_entries(value: Any, names: Sequence[str], what: str) -> Any:
    """Return an object that has exactly these entries."""
    found = set(_expect(value, dict, what))
    if unlike := sorted(found.symmetric_difference(names)):
        lacks = "lacks" if unlike[0] in names else "has the unknown entry"
        raise CorruptError(f"{what} {lacks} {unlike[0][:40]!r}")
    return value


def _count(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MAX_COUNT:
        raise CorruptError(f"{what} is {str(value)[:40]}, not a count")
    return value


def _strings(value: object, what: str) -> list[str]:
    return [_expect(item, str, f"an entry of {what}") for item in _expect(value, list, what)]
