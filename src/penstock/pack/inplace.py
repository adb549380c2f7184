"""Indexing tars that exist already: index and manifest are made, the tars stay as they are."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from penstock.errors import PackError, SourceError
from penstock.formats.names import printable
from penstock.formats.tar import Member, scan_tar
from penstock.pack.describe import describe_image
from penstock.pack.index import IndexBuilder
from penstock.pack.manifest import NAME as MANIFEST
from penstock.pack.manifest import FileRecord, Manifest, write_manifest
from penstock.pack.packer import count_cores
from penstock.pack.progress import ProgressCounter, Watcher
from penstock.pack.shard import ShardResult, assemble_manifest, write_index
from penstock.sample import field_name, is_image_field

_NAME = re.compile(r"((?:.*/|)[^./]+)\.([^/]*)", re.DOTALL)
_WHOLE_NUMBER = re.compile(rb"[+-]?[0-9]{1,18}")


class Group(NamedTuple):
    """The members of one sample, by field."""

    key: str
    members: dict[str, Member]


def index_tars(
    path: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    watcher: Watcher | None = None,
) -> Manifest:
    """Indexes a tar, or all tars of a folder, in WebDataset's naming; they are not rewritten.

    Index and manifest go beside them, or into the folder `out`.
    """
    tars, root = _find_tars(Path(path))
    target = Path(out) if out is not None else root
    if (target / MANIFEST).exists():
        raise PackError(f"{target / MANIFEST}: exists already; remove it to index again")
    target.mkdir(parents=True, exist_ok=True)
    sizes = [tar.stat().st_size for tar in tars]
    progress = ProgressCounter(len(tars), sum(sizes), watcher)

    def index_one(tar: Path) -> ShardResult:
        result = _index_tar(tar, target)
        progress.add(1, tar.stat().st_size)
        return result

    with ThreadPoolExecutor(workers or count_cores()) as pool:
        results = list(pool.map(index_one, tars))
    same = root.resolve() == target.resolve()
    manifest = assemble_manifest(results, root="." if same else str(root.resolve()))
    write_manifest(manifest, target / MANIFEST)
    return manifest


def _find_tars(path: Path) -> tuple[list[Path], Path]:
    if path.is_dir():
        tars = sorted(path.glob("*.tar"))
        compressed = sorted([*path.glob("*.tar.*"), *path.glob("*.tgz")])
        if not tars and compressed:
            path = compressed[0]
        elif not tars:
            raise SourceError(f"{path}: no .tar files in it")
        else:
            return tars, path
    if path.suffix != ".tar":
        raise SourceError(
            f"{path}: only plain .tar files can be read in place; unpack compressed ones first"
        )
    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    return [path], path.parent


def _index_tar(tar: Path, target: Path) -> ShardResult:
    index, digest = IndexBuilder(pa.schema([])), hashlib.sha256()
    fd = os.open(tar, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for group in group_members(scan_tar(fd)):
            _add_group(index, fd, tar.name, group)
        size = os.fstat(fd).st_size
        for start in range(0, size, 8 << 20):
            digest.update(os.pread(fd, 8 << 20, start))
    except SourceError as error:
        raise SourceError(f"{tar}: {error}") from None
    finally:
        os.close(fd)
    data = FileRecord(tar.name, size, digest.hexdigest())
    return write_index(index, target / tar.with_suffix(".arrow").name, data)


def group_members(members: Iterator[Member]) -> Iterator[Group]:
    """Adjacent members that share a key, as WebDataset groups them; names without a suffix are passed.

    A key that comes again later, or a field that comes twice, is a SourceError: read as they stand,
    such samples would be torn or merged.
    """
    seen: set[str] = set()
    group: Group | None = None
    for member in members:
        match = _NAME.fullmatch(member.name)
        if match is None:
            continue
        key, field = match[1], field_name(match[2])
        if group is None or key != group.key:
            if group is not None:
                yield group
            if key in seen:
                raise SourceError(
                    f"offset {member.offset}: the key {printable(key)} comes again; "
                    "the fields of a sample must lie together and keys be unique in a tar"
                )
            seen.add(key)
            group = Group(key, {})
        if field in group.members:
            raise SourceError(
                f"offset {member.offset}: {printable(key)} has the field {field} twice"
            )
        group.members[field] = member
    if group is not None:
        yield group


def _add_group(index: IndexBuilder, fd: int, file: str, group: Group) -> None:
    data = {field: os.pread(fd, m.size, m.offset) for field, m in group.members.items()}
    key = group.key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    index.add_sample(key, _parse_label(key, data.get("cls")), file, {})
    for field, member in group.members.items():
        try:
            image = describe_image(data[field]) if is_image_field(field) else None
        except SourceError:
            image = None  # the index says "damaged"; the tar stays as it is
        index.add_field(field, member.offset, data[field], image)


def _parse_label(key: str, text: bytes | None) -> int | None:
    if text is None:
        return None
    if not _WHOLE_NUMBER.fullmatch(text.strip()):
        raise SourceError(f"{printable(key)}.cls holds {text[:40]!r}, not a whole number")
    return int(text)
