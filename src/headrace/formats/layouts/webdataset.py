"""WebDataset tars: adjacent members that share a key are the fields of one sample.

The key ends at the first dot of the base name, fields are suffixes in lower case, `cls` is the label.
A path may be a tar, a folder of them, or a pattern; gzipped tars are unpacked to disk first.
A damaged archive, a key that comes twice and a `cls` that is not an integer are errors here, where WebDataset
ends silently or returns torn samples.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.errors import SourceError
from headrace.files.limits import check_size
from headrace.formats.check_class_folders import check_no_images
from headrace.formats.check_class_tars import TarNames, check_no_classes
from headrace.formats.file_patterns import find_files, find_root, name_below
from headrace.formats.folder_contents import FolderContents, has_suffix
from headrace.formats.random_access import PlainFile, name_file
from headrace.formats.source import Located, Part, Place, PlacedSource
from headrace.sample import Sample, field_name, is_video_field
from headrace.store.index_schema import check_file_names
from headrace.store.keys import keep_key, printable, some_names
from headrace.store.tar import Member, scan_tar
from headrace.store.tar_members import FRAMES

_log = logging.getLogger("headrace")
SUFFIXES = (".tar", ".tar.gz", ".tgz")
_UNREAD = (".tar.bz2", ".tar.lz4", ".tar.xz", ".tar.zst", ".tbz", ".tbz2", ".txz", ".tzst")

_NAME = re.compile(r"((?:.*/|)[^./]+)\.([^/]*)", re.DOTALL)
_INTEGER = re.compile(rb"[+-]?[0-9]{1,18}")
_ARCHIVES = frozenset(suffix[1:] for suffix in SUFFIXES)


class Group(NamedTuple):
    """The members of one sample, by field."""

    key: str
    members: dict[str, Member]


def group_members(members: Iterator[Member], passed: list[str]) -> Iterator[Group]:
    """Group adjacent members that share a key, as WebDataset does; names without a suffix go to `passed`.

    The `./` that `tar cf x.tar .` puts before names does not belong to a key. A key that comes again later, or a
    field that comes twice, is a SourceError: such samples would be torn or merged.
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


def _parse_cls(key: str, text: bytes | None) -> int | None:
    """Return the label in a `cls` field."""
    if text is None:
        return None
    if not _INTEGER.fullmatch(text.strip()):
        raise SourceError(f"{printable(key)}.cls holds {text[:40]!r}, not an integer")
    return int(text)


class _Frames(NamedTuple):
    """Frame sizes, rates and times of the video fields of a sample, as `Sample` has them."""

    frames: dict[str, list[int]]
    fps: dict[str, float]
    times: dict[str, list[float]]


def _parse_frames(fields: Mapping[str, bytes]) -> _Frames:
    """Return what is said about the frames of the video fields, where it is given and adds up."""
    found = _Frames({}, {}, {})
    for name in filter(is_video_field, fields):
        try:
            said = json.loads(fields.get(name + FRAMES, b""))
        except (ValueError, RecursionError):
            continue
        said = said if isinstance(said, dict) else {"sizes": said}
        sizes: Any = said.get("sizes")
        fps: Any = said.get("fps")
        times: Any = said.get("times")
        if not _is_list(sizes, int) or min(sizes, default=0) < 1 or sum(sizes) != len(fields[name]):
            continue
        found.frames[name] = sizes
        if type(fps) in (int, float) and 0 < fps < math.inf:
            found.fps[name] = float(fps)
        if _is_list(times, int, float) and len(times) == len(sizes) and _increase(times):
            found.times[name] = [float(time) for time in times]
    return found


def _is_list(value: Any, *kinds: type) -> bool:
    return isinstance(value, list) and all(type(item) in kinds for item in value)


def _increase(times: Sequence[float]) -> bool:
    """Return whether times begin at 0 and never decrease, up to a finite one."""
    return times[0] == 0 and times[-1] < math.inf and all(a <= b for a, b in pairwise(times))


def _printable_key(key: str) -> str:
    """Return the key with bytes that are not UTF-8 written as `\\xff`, as an index can only hold text."""
    return key.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _read_sample(
    tar: PlainFile, fd: int, key: str, members: Sequence[tuple[str, int, int]]
) -> Sample:
    """Read a sample by (field, offset, size) of its members; `cls` is its label as well."""
    check_size(sum(size for _, _, size in members), tar.max_file_size)
    fields = {name: tar.read_from(fd, offset, size) for name, offset, size in members}
    key = keep_key(_printable_key(key))
    return Sample(key, fields, _parse_cls(key, fields.get("cls")), {}, {}, *_parse_frames(fields))


class TarScan:
    """One pass over a tar, and what its names tell afterwards."""

    def __init__(self, tar: PlainFile) -> None:
        self.tar = tar
        self.keys: list[str] = []
        self.fields: dict[str, None] = {}
        self.names = TarNames(tar.path.name)
        self.passed: list[str] = []

    def groups(self, fd: int) -> Iterator[Group]:
        """Yield the samples of the tar, open as `fd`."""
        with name_file(self.tar.path):
            for group in group_members(scan_tar(fd, self.passed), self.passed):
                self.keys.append(group.key)
                self.fields |= dict.fromkeys(group.members)
                self.names.add(group.key, group.members)
                yield group


def _check_scans(path: object, scans: Sequence[TarScan], refuse_classes: bool) -> None:
    """Raise SourceError if tars that were scanned do not make a WebDataset."""
    seen: set[str] = set()
    for scan in scans:
        if twice := next((key for key in scan.keys if key in seen), None):
            raise SourceError(f"{scan.tar.path}: the key {printable(twice)} is in another tar too")
        seen.update(scan.keys)
    if not seen:
        raise SourceError(f"{path}: no samples in its {len(scans)} tars")
    if all(field in _ARCHIVES for scan in scans for field in scan.fields):  # as ImageNet comes
        raise SourceError(
            f"{path}: holds tars; unpack each of them into a folder of its name, and take the folder above"
        )
    if refuse_classes:
        check_no_classes(path, [scan.names for scan in scans])


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
        """Return the members of a sample. The sizes of frames are not a field of their own."""
        rows = self.members[self.starts[i] : self.starts[i + 1]].tolist()
        members = [(self.fields[number], offset, size) for number, offset, size in rows]
        tar = self.tars[int(self.tar_of[i])]
        with tar.opened() as fd:
            sample = _read_sample(tar, fd, self.names[i], members)
        notes = {name + FRAMES for name in sample.frames}
        fields = {name: data for name, data in sample.items() if name not in notes}
        return replace(sample, fields=fields)


def open_webdataset(
    path: str | os.PathLike[str], *, refuse_classes: bool = False
) -> WebDatasetSource:
    """Scan all tars that `path` stands for, in the order of their names or of the pattern.

    Args:
        path: A tar, a folder of tars, or a pattern.
        refuse_classes: Whether tars or folders that seem to be classes of unlabelled images are an error.
    """
    scans = [TarScan(PlainFile(tar)) for tar in find_tars(path)]
    starts, members, numbers = array("q", [0]), array("q"), dict[str, int]()
    for scan in scans:
        with scan.tar.opened() as fd:
            for _, group in scan.groups(fd):
                for name, (_, offset, size) in group.items():
                    members.extend((numbers.setdefault(name, len(numbers)), offset, size))
                starts.append(len(members) // 3)
    _check_scans(path, scans, refuse_classes)
    return WebDatasetSource(
        tars=[scan.tar for scan in scans],
        names=[key for scan in scans for key in scan.keys],
        tar_of=np.repeat(np.arange(len(scans)), [len(scan.keys) for scan in scans]),
        starts=np.array(starts),
        members=np.array(members, np.int64).reshape(-1, 3),
        fields=list(numbers),
        ignored=[f"{scan.tar.path.name}/{name}" for scan in scans for name in scan.passed],
    )


def place_tars(path: str | os.PathLike[str], *, refuse_classes: bool = False) -> PlacedSource:
    """Return how to index the tars that `path` stands for in place: each is scanned while it is indexed.

    Raises:
        SourceError: There are no tars, or one of them is compressed.
    """
    paths = find_tars(path)
    root, scans = find_root(paths), dict[str, TarScan]()
    for path_of_tar in paths:
        tar = PlainFile(path_of_tar) if path_of_tar.suffix == ".tar" else None
        if tar is None or tar.is_gzipped:
            raise SourceError(
                f"{path_of_tar}: only plain .tar files can be read in place; unpack compressed ones first"
            )
        scans[name_below(root, path_of_tar)] = TarScan(tar)
    check_file_names(scans)
    return PlacedSource(
        root=root,
        parts=[
            Part(name.removesuffix(".tar"), name, scan.tar.size, partial(_scan_places, name, scan))
            for name, scan in scans.items()
        ],
        samples=None,
        keeps_damaged=True,
        check=partial(_check_scans, path, list(scans.values()), refuse_classes),
    )


def _scan_places(name: str, scan: TarScan) -> Iterator[Place]:
    with scan.tar.opened() as fd:
        for group in scan.groups(fd):
            size = sum(member.size for member in group.members.values())
            locate = partial(_locate, name, scan.tar, fd, group)
            yield Place(_printable_key(group.key), size, locate)
    with scan.tar.opened():  # raises SourceChangedError if it is not the same file any more
        pass
    if scan.passed:
        _log.warning(
            "%s: %d members are not files, or have no suffix, and are not in the index: %s",
            scan.tar.path,
            len(scan.passed),
            some_names(scan.passed),
        )


def _locate(file: str, tar: PlainFile, fd: int, group: Group) -> Located:
    members = [(name, member.offset, member.size) for name, member in group.members.items()]
    with name_file(file):
        sample = _read_sample(tar, fd, group.key, members)
    return Located(sample, file, {name: offset for name, offset, _ in members})


def is_tar(path: Path, head: bytes) -> bool:
    """Return whether a file is a tar, or is called one."""
    return head[257:262] == b"ustar" or _is_tar_name(path.name)


def _is_tar_name(name: str) -> bool:
    """Return whether a file is called a tar, even one that is compressed in a way that `find_tars` refuses."""
    return has_suffix(name, SUFFIXES + _UNREAD)


def find_tar_folder(folder: FolderContents) -> Path | None:
    """Return the folder itself if it has tars, except those that its folders of images came in."""
    tars = [name for name in folder.files if _is_tar_name(name)]
    if tars and folder.has_images:
        stems = {name: Path(name).stem for name in tars}
        tars = [n for n, s in stems.items() if not {s, Path(s).stem} & set(folder.folders)]
    if not tars:
        return None
    check_no_images(folder, tars, "--format webdataset")
    return folder.path


def find_tars(path: str | os.PathLike[str]) -> list[Path]:
    """Return the tars that a path, a folder or a pattern stands for."""
    tars = find_files(Path(path), _list_tars, ".tar files")
    for tar in tars:
        if not tar.is_file():
            raise SourceError(f"{tar}: no such file")
    unread = [str(tar) for tar in tars if has_suffix(tar.name, _UNREAD)]
    if unread:
        raise SourceError(
            f"{', '.join(map(printable, unread[:5]))}: such compressed tars are not read; "
            "unpack them to .tar or .tar.gz, or name the tars that are wanted, as in x-{000..127}.tar"
        )
    return tars


def _list_tars(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _is_tar_name(path.name)]
