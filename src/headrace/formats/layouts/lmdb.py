"""LMDB databases of tensorpack, sequential-imagenet-dataloader, Efficient-PyTorch and their forks.

A value is a datapoint (see `datapoint`) written by pickle, msgpack-numpy or pyarrow.serialize, each told
by its first byte; or an encoded image as it is (LSUN). Keys that are all integers are read in
their order, others in the order of the database. `__keys__` and `__len__` are tables of contents
that are often wrong: the database itself is what counts, and `ignored` says where they disagree.

The file is read by `lmdb_pages`, without liblmdb.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import SourceError
from headrace.files.limits import check_size, current_limit
from headrace.files.pread import open_regular, open_unchanged
from headrace.formats.check_class_folders import check_no_images
from headrace.formats.codecs.arrow_serialize import load_arrow
from headrace.formats.codecs.datapoint import make_sample
from headrace.formats.codecs.image_signature import sniff_image
from headrace.formats.codecs.lmdb_pages import (
    MAGIC,
    Entry,
    read_page_size,
    read_value,
    scan_lmdb,
)
from headrace.formats.codecs.safe_msgpack import load_msgpack
from headrace.formats.codecs.safe_pickle import load_pickle
from headrace.formats.folder_contents import FolderContents, has_suffix
from headrace.formats.random_access import name_file
from headrace.formats.source import Located, find_bytes
from headrace.sample import Sample
from headrace.store.keys import make_keys

DATA_FILE = "data.mdb"
_CONTENTS = (b"__keys__", b"__len__")
_NO_COLUMNS = pa.schema([])


def is_lmdb(path: Path, head: bytes) -> bool:
    """Return whether a file is an LMDB database, or is at least called one."""
    return head[16:20] == MAGIC.to_bytes(4, "little") or has_suffix(path.name, (".lmdb", ".mdb"))


def find_lmdb(folder: FolderContents) -> Path | None:
    """Return the folder itself if it is a database, or the only database in it."""
    if DATA_FILE in folder.files:
        return folder.path
    names = list_databases(folder)
    if not names:
        return None
    ways = " or ".join(f"the path {folder.path / name}" for name in names)
    check_no_images(folder, names, ways)
    return folder.only(names, "databases")


def list_databases(folder: FolderContents) -> list[str]:
    """Return the names of the databases in a folder, files or folders."""
    return [n for n in sorted((*folder.files, *folder.folders)) if has_suffix(n, ".lmdb")]


@dataclass(frozen=True)
class Database:
    """An LMDB file that was scanned once: every entry, and the state of the file at that time.

    Entries are kept as numbers, 17 bytes each, besides their keys.
    """

    path: Path
    page_size: int
    keys: Sequence[bytes]
    offsets: np.ndarray
    sizes: np.ndarray
    large: np.ndarray
    contents: Mapping[bytes, Entry]
    size: int
    mtime: int
    max_file_size: int = field(default_factory=current_limit)

    def __len__(self) -> int:
        return len(self.keys)

    def entry(self, i: int) -> Entry:
        """Return entry `i` in the order of the keys."""
        return Entry(self.keys[i], int(self.offsets[i]), int(self.sizes[i]), bool(self.large[i]))

    @contextmanager
    def open(self) -> Iterator[int]:
        """Yield a descriptor of the file, checked to be as it was when it was scanned."""
        fd = open_unchanged(self.path, self.size, self.mtime)
        try:
            yield fd
        finally:
            os.close(fd)

    def read(self, entry: Entry) -> bytes:
        """Return the value of an entry."""
        check_size(entry.size, self.max_file_size)
        with name_file(self.path), self.open() as fd:
            return read_value(fd, entry, self.page_size)


def open_database(path: str | os.PathLike[str]) -> Database:
    """Scan the tree of the file `path`, or of `data.mdb` in the folder `path`."""
    path = Path(path)
    path = path / DATA_FILE if path.is_dir() else path
    with name_file(path), open(open_regular(path), "rb") as file:
        fd = file.fileno()
        info = os.fstat(fd)
        page_size = read_page_size(fd)
        keys, columns, contents = _collect(scan_lmdb(fd))
    return Database(path, page_size, keys, *columns, contents, info.st_size, info.st_mtime_ns)


def _collect(
    entries: Iterator[Entry],
) -> tuple[list[bytes], tuple[np.ndarray, np.ndarray, np.ndarray], dict[bytes, Entry]]:
    """Return (keys, columns of offset, size and large) of the samples, and the tables of contents."""
    keys, contents = [], {}
    offsets, sizes, large = array("q"), array("q"), array("b")
    for entry in entries:
        if entry.key in _CONTENTS:
            contents[entry.key] = entry
            continue
        keys.append(entry.key)
        offsets.append(entry.offset)
        sizes.append(entry.size)
        large.append(entry.large)
    columns = (np.array(offsets, np.int64), np.array(sizes, np.int64), np.array(large, np.bool_))
    return keys, columns, contents


def decode_value(value: bytes) -> Any:
    """Return the object in a value, whichever of the serializers wrote it."""
    if not value:
        raise SourceError("the value is empty")
    if sniff_image(value) is not None:
        return value
    return _find_serializer(value)(value)


def _find_serializer(value: bytes) -> Callable[[bytes], Any]:
    first = value[0]
    if first == 0x80 or first in b"(]}cIl.":
        return load_pickle
    if 0x81 <= first <= 0x9F or 0xDC <= first <= 0xDF:
        return load_msgpack
    if len(value) >= 32 and value[1:4] == bytes(3):
        return load_arrow
    raise SourceError(f"neither a pickle, msgpack nor pyarrow: it begins with {value[:8]!r}")


@dataclass(frozen=True)
class LmdbSource:
    """A `PlacedSource`: sample `i` is entry `order[i]` of the database, called by its key."""

    database: Database
    order: np.ndarray
    ignored: Sequence[str] = ()
    classes: Sequence[str] | None = None
    columns: pa.Schema = _NO_COLUMNS
    names: Sequence[str] = field(init=False)
    keys: Sequence[str] = field(init=False)
    sizes: np.ndarray = field(init=False)
    mtimes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        keys = self.database.keys
        names = [keys[i].decode("utf-8", "surrogateescape") for i in self.order]
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "keys", make_keys(names))
        object.__setattr__(self, "sizes", self.database.sizes[self.order])
        object.__setattr__(self, "mtimes", np.full(len(names), self.database.mtime))

    @property
    def root(self) -> Path:
        return self.database.path.parent

    @property
    def files(self) -> Mapping[str, Sequence[int]]:
        rows = np.argsort(self.database.offsets[self.order], kind="stable")
        return {self.database.path.name: rows.tolist()}

    def read(self, i: int) -> Sample:
        """Return the value, decoded into a sample."""
        return make_sample(self.keys[i], decode_value(self.database.read(self._entry(i))))

    def _entry(self, i: int) -> Entry:
        return self.database.entry(int(self.order[i]))

    def locate(self, i: int) -> Located:
        """Return the sample, if every field is an encoded image that lies contiguous in its value."""
        entry = self._entry(i)
        value = self.database.read(entry)
        sample = make_sample(self.keys[i], decode_value(value))
        offsets = {}
        for name, data in sample.items():
            place = find_bytes(value, data)
            if place is None:
                raise SourceError(f"{name} is not stored as the bytes of a file; pack it instead")
            offsets[name] = entry.offset + place
        return Located(sample, self.database.path.name, offsets)


def open_lmdb(path: str | os.PathLike[str]) -> LmdbSource:
    """Open the samples of the database at `path`, a file or a folder with `data.mdb`."""
    database = open_database(path)
    if not len(database):
        raise SourceError(f"{database.path}: a database without samples")
    order = np.arange(len(database))
    if all(key.isdigit() and len(key) < 19 for key in database.keys):
        numbers = np.array([int(key) for key in database.keys], np.int64)
        order = np.argsort(numbers, kind="stable")
    return LmdbSource(database, order, _compare_contents(database))


def _compare_contents(database: Database) -> list[str]:
    """Return what `__keys__` and `__len__` say that is wrong."""
    notes = []
    for key, entry in database.contents.items():
        compare = _compare_keys if key == b"__keys__" else _compare_length
        try:
            wrong = compare(database, decode_value(database.read(entry)))
        except SourceError as error:
            wrong = str(error)
        if wrong:
            notes.append(f"{key.decode()}: {wrong}")
    return notes


def _compare_length(database: Database, content: object) -> str | None:
    count = len(database)
    return None if content == count else f"says {content!r:.30}, there are {count} samples"


def _compare_keys(database: Database, content: object) -> str | None:
    if not isinstance(content, (list, tuple)):
        return f"a {type(content).__name__}, not a list"
    keys = (key.encode() if isinstance(key, str) else key for key in content)
    listed, present = {key for key in keys if isinstance(key, bytes)}, set(database.keys)
    parts = (
        (len(listed - present), "names {} keys that are not there"),
        (len(present - listed), "leaves out {} samples that are there"),
        (len(content) - len(listed), "has {} entries twice or that are not keys"),
    )
    return "; ".join(text.format(count) for count, text in parts if count) or None
