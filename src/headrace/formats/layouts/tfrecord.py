"""TFRecord files of tf.train.Example with encoded images. No TensorFlow: the format is small.

A record is u64 length, u32 checksum of it, the data, u32 checksum of them (CRC-32C, masked). For the
data see `tf_example`.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace._core import crc32c
from headrace.errors import SourceError
from headrace.files.pread import open_regular
from headrace.formats.codecs.tf_example import make_example_sample, parse_example
from headrace.formats.file_patterns import find_files, find_root, name_below
from headrace.formats.folder_contents import FolderContents, is_image_name, list_folder
from headrace.formats.random_access import PlainFile, name_file
from headrace.formats.source import Located, find_bytes
from headrace.sample import Sample
from headrace.store.keys import make_key

_HEADER = 12
_LOOKED_AT = 8


def is_tfrecord(path: Path, head: bytes) -> bool:
    """Return whether a file begins with a record's length and its checksum."""
    return len(head) >= _HEADER and _check(head[:8], head[8:_HEADER])


def find_tfrecords(folder: FolderContents) -> Path | None:
    """Return the folder itself if one of the first files without the suffix of an image is a TFRecord file."""
    others = [name for name in folder.files if not is_image_name(name)]
    found = any(_has_records(folder.path / name) for name in others[:_LOOKED_AT])
    return folder.path if found and not folder.has_images else None


def _has_records(path: Path) -> bool:
    """Return whether a file has records, or may have, as it is gzipped."""
    try:
        with open(open_regular(path), "rb") as file:
            head = file.read(_HEADER)
    except OSError:
        return False
    return head[:2] == b"\x1f\x8b" or is_tfrecord(path, head)


def _check(data: bytes, expected: bytes) -> bool:
    """Check TensorFlow's masked checksum, rotated so that it stays strong on data that hold checksums."""
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked == int.from_bytes(expected, "little")


def scan_records(file: PlainFile) -> Iterator[tuple[int, int]]:
    """Yield (offset, size) of the data of every record. Lengths are checked, the data are not read yet."""
    position = 0
    with name_file(file.path), file.opened() as fd:
        while position < file.size:
            head = os.pread(fd, _HEADER, position)
            if len(head) < _HEADER or not _check(head[:8], head[8:]):
                raise SourceError(f"byte {position}: not the beginning of a record")
            size = int.from_bytes(head[:8], "little")
            if size > file.size - position - _HEADER - 4:
                raise SourceError(
                    f"byte {position}: a record of {size} bytes, the file ends before"
                )
            yield position + _HEADER, size
            position += _HEADER + size + 4


@dataclass(frozen=True)
class TFRecordSource:
    """A `PlacedSource`: sample `i` is a record, called after its file and its number there."""

    root: Path
    records: Sequence[PlainFile]
    file_of: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    names: Sequence[str]
    classes: Sequence[str] | None = None
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    ignored: Sequence[str] = ()
    mtimes: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        mtimes = np.array([file.mtime for file in self.records], np.int64)
        object.__setattr__(self, "mtimes", mtimes[self.file_of])

    @property
    def files(self) -> Mapping[str, Sequence[int]]:
        return {
            name_below(self.root, file.path): range(
                *np.searchsorted(self.file_of, [k, k + 1]).tolist()
            )
            for k, file in enumerate(self.records)
        }

    def read(self, i: int) -> Sample:
        """Return the record as a sample; its checksum is checked."""
        return self._make_sample(i, self._read_record(i))

    def _make_sample(self, i: int, record: bytes) -> Sample:
        return make_example_sample(make_key(self.names[i]), parse_example(record))

    def locate(self, i: int) -> Located:
        """Return the images of the record and its label; other features are not part of an index."""
        file = self.records[int(self.file_of[i])]
        if file.is_gzipped:
            raise SourceError(f"{file.path.name} is compressed; pack it, or unpack it first")
        record = self._read_record(i)
        whole = self._make_sample(i, record)
        fields = {name: data for name, data in whole.items() if name != "json"}
        places = {name: find_bytes(record, data) for name, data in fields.items()}
        offsets = {
            n: int(self.offsets[i]) + place for n, place in places.items() if place is not None
        }
        name = name_below(self.root, file.path)
        return Located(Sample(whole.key, fields, whole.label), name, offsets)

    def _read_record(self, i: int) -> bytes:
        file, offset = self.records[int(self.file_of[i])], int(self.offsets[i])
        raw = file.read(offset, int(self.sizes[i]) + 4)
        if not _check(raw[:-4], raw[-4:]):
            raise SourceError(f"{file.path.name}, byte {offset}: the record's checksum is wrong")
        return raw[:-4]


def open_tfrecord(path: str | os.PathLike[str]) -> TFRecordSource:
    """Open the records of a file, of the files of a pattern, or of all TFRecord files of a folder, sorted by name."""
    path = Path(path)
    paths = find_files(path, _list_records, "TFRecord files")
    others = list_folder(path).files if path.is_dir() else ()
    files, root = [PlainFile(file) for file in paths], find_root(paths)
    names: list[str] = []
    file_of, offsets, sizes = array("i"), array("q"), array("q")
    for k, file in enumerate(files):
        name = name_below(root, file.path)
        for number, (offset, size) in enumerate(scan_records(file)):
            file_of.append(k)
            offsets.append(offset)
            sizes.append(size)
            names.append(f"{name}/{number:06d}")
    if not names:
        raise SourceError(f"{path}: no records in it")
    return TFRecordSource(
        root=root,
        records=files,
        file_of=np.array(file_of),
        offsets=np.array(offsets, np.int64),
        sizes=np.array(sizes, np.int64),
        names=names,
        ignored=sorted(set(others) - {file.name for file in paths}),
    )


def _list_records(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.exists() or _has_records(path)]
