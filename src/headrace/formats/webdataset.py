"""WebDataset tars: adjacent members that share a key are the fields of one sample.

The key ends at the first dot of the base name, fields are suffixes in lower case, `cls` is the label.
A path may be a tar, a folder of them, or a pattern; gzipped tars are unpacked to disk first.
Stricter than its model: a damaged archive, a key that comes twice and a `cls` that is no whole number
are errors, where WebDataset ends silently or hands out torn samples.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.errors import SourceError
from headrace.formats.class_tars import TarNames
from headrace.formats.data_files import find_files, has_suffix
from headrace.formats.keys import keep_key
from headrace.formats.limits import check_size
from headrace.formats.names import printable
from headrace.formats.plain import PlainFile
from headrace.formats.tar import Member, scan_tar
from headrace.sample import Sample, field_name, is_video_field

SUFFIXES = (".tar", ".tar.gz", ".tgz")
_UNREAD = (".tar.bz2", ".tar.lz4", ".tar.xz", ".tar.zst", ".tbz", ".tbz2", ".txz", ".tzst")
FRAMES = ".frames.json"
"""The end of the member that has the sizes of a video's frames: see docs/formats.md."""

_NAME = re.compile(r"((?:.*/|)[^./]+)\.([^/]*)", re.DOTALL)
_WHOLE_NUMBER = re.compile(rb"[+-]?[0-9]{1,18}")
_ARCHIVES = frozenset(suffix[1:] for suffix in SUFFIXES)


class Group(NamedTuple):
    """The members of one sample, by field."""

    key: str
    members: dict[str, Member]


def group_members(members: Iterator[Member], passed: list[str]) -> Iterator[Group]:
    """Adjacent members that share a key, as WebDataset groups them; names without a suffix go to `passed`.

    The `./` that `tar cf x.tar .` puts before names is no part of a key. A key that comes again later, or a field
    that comes twice, is a SourceError: read as they stand, such samples would be torn or merged.
    """
    seen: set[str] = set()
    group: Group | None = None
    for member in members:
        match = _NAME.fullmatch(_drop_dots(member.name))
        if match is None:
            passed.append(f"{member.name} (no suffix)")
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


def _drop_dots(name: str) -> str:
    while name.startswith("./"):
        name = name[2:]
    return name


def check_no_archives(path: object, fields: Iterable[str]) -> None:
    """SourceError if the members are tars themselves, as in the archive that ImageNet comes in."""
    if set(fields) <= _ARCHIVES:
        raise SourceError(
            f"{path}: holds tars; unpack each of them into a folder of its name, and take the folder above"
        )


def parse_cls(key: str, text: bytes | None) -> int | None:
    """The label in a `cls` field."""
    if text is None:
        return None
    if not _WHOLE_NUMBER.fullmatch(text.strip()):
        raise SourceError(f"{printable(key)}.cls holds {text[:40]!r}, not a whole number")
    return int(text)


def parse_frames(fields: Mapping[str, bytes]) -> dict[str, list[int]]:
    """The frame sizes of the video fields, where they are said and add up."""
    frames = {}
    for name in filter(is_video_field, fields):
        try:
            sizes = json.loads(fields.get(name + FRAMES, b""))
        except (ValueError, RecursionError):
            continue
        if (
            isinstance(sizes, list)
            and all(type(n) is int and n > 0 for n in sizes)
            and sum(sizes) == len(fields[name])
        ):
            frames[name] = sizes
    return frames


def printable_key(key: str) -> str:
    """The key with bytes that are not UTF-8 written as `\\xff`, as an index can only hold text."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class WebDatasetSource:
    """A `Source` over tars. Members are kept as numbers, about 20 bytes each, besides the keys.

    Sample `i` has the members `starts[i]` to `starts[i + 1]`, each a row of (field, offset, size).
    """

    tars: Sequence[PlainFile]
    names: Sequence[str]
    tar_of: np.ndarray
    starts: np.ndarray
    members: np.ndarray
    fields: Sequence[str]
    tar_names: Sequence[TarNames]
    classes: Sequence[str] | None = None
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    ignored: Sequence[str] = ()
    sizes: np.ndarray = field(init=False)
    mtimes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        before = np.concatenate([[0], np.cumsum(self.members[:, 2])])
        mtimes = np.array([tar.mtime for tar in self.tars], np.int64)[self.tar_of]
        object.__setattr__(self, "sizes", before[self.starts[1:]] - before[self.starts[:-1]])
        object.__setattr__(self, "mtimes", mtimes)

    def read(self, i: int) -> Sample:
        """The members of a sample, `cls` being its label as well."""
        tar = self.tars[int(self.tar_of[i])]
        check_size(int(self.sizes[i]), tar.max_file_size)
        rows = self.members[self.starts[i] : self.starts[i + 1]].tolist()
        fields = {self.fields[number]: tar.read(offset, size) for number, offset, size in rows}
        frames = parse_frames(fields)
        for name in frames:
            del fields[name + FRAMES]
        key = keep_key(printable_key(self.names[i]))
        return Sample(key, fields, parse_cls(key, fields.get("cls")), frames=frames)


def open_webdataset(path: str | os.PathLike[str]) -> WebDatasetSource:
    """The samples of all tars that `path` stands for, in the order of the tars' names or the pattern."""
    paths = find_tars(path)
    tars, names, tar_of, starts = [], [], array("i"), array("q", [0])
    tar_names = [TarNames(tar.name) for tar in paths]
    members, numbers = array("q"), dict[str, int]()
    seen: set[str] = set()
    ignored: list[str] = []
    for k, tar_path in enumerate(paths):
        tar = PlainFile(tar_path)
        tars.append(tar)
        passed: list[str] = []
        for group in _scan(tar, passed):
            if group.key in seen:
                raise SourceError(
                    f"{tar_path}: the key {printable(group.key)} is in another tar too"
                )
            seen.add(group.key)
            names.append(group.key)
            tar_of.append(k)
            tar_names[k].add(group.key, group.members)
            for name, member in group.members.items():
                members.extend((numbers.setdefault(name, len(numbers)), member.offset, member.size))
            starts.append(len(members) // 3)
        ignored += [f"{tar_path.name}/{name}" for name in passed]
    if not names:
        raise SourceError(f"{path}: no samples in its {len(tars)} tars")
    check_no_archives(path, numbers)
    return WebDatasetSource(
        tars=tars,
        names=names,
        tar_of=np.array(tar_of),
        starts=np.array(starts),
        members=np.array(members, np.int64).reshape(-1, 3),
        fields=list(numbers),
        tar_names=tar_names,
        ignored=ignored,
    )


def _scan(tar: PlainFile, passed: list[str]) -> Iterator[Group]:
    fd = tar.open()
    try:
        yield from group_members(scan_tar(fd, passed), passed)
    except SourceError as error:
        raise SourceError(f"{tar.path}: {error}") from None
    except OSError as error:
        raise SourceError(f"{tar.path}: {error.strerror}") from None
    finally:
        os.close(fd)


def is_tar_name(name: str) -> bool:
    """Whether a file is called a tar, even one that is compressed in a way that `find_tars` refuses."""
    return has_suffix(name, SUFFIXES + _UNREAD)


def find_tars(path: str | os.PathLike[str]) -> list[Path]:
    """The tars that a path, a folder or a pattern stands for."""
    tars = find_files(Path(path), _list_tars, ".tar files")
    for tar in tars:
        if not tar.is_file():
            raise SourceError(f"{tar}: no such file")
    _check_all_read(tars)
    return tars


def _list_tars(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if is_tar_name(path.name)]


def _check_all_read(tars: Sequence[Path]) -> None:
    unread = [str(tar) for tar in tars if has_suffix(tar.name, _UNREAD)]
    if unread:
        raise SourceError(
            f"{', '.join(map(printable, unread[:5]))}: such compressed tars are not read; "
            "unpack them to .tar or .tar.gz, or name the tars that are wanted, as in x-{000..127}.tar"
        )
