"""TFRecord files of tf.train.Example with encoded images. No TensorFlow: the format is small.

A record is u64 length, u32 checksum of it, the data, u32 checksum of them (CRC-32C, masked). The data
are a protobuf message, a map of names to lists of bytes, floats or integers. A byte string that
begins like an image is a field (`jpg`, ...; with its name before it where there are several), one that
is not UTF-8 a field `<name>.bin`; of a list of them each has its number too (`views.0.jpg`). The
label is `image/class/label`, `label` or `image/label`; all else goes into the field `json`.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock._core import crc32c
from penstock.errors import SourceError
from penstock.formats.data_files import find_root, is_pattern, match_files, name_below
from penstock.formats.datapoint import join_field, make_fields, parse_label
from penstock.formats.keys import make_key
from penstock.formats.lmdb import find_bytes
from penstock.formats.plain import PlainFile
from penstock.formats.sniff import sniff_image
from penstock.formats.source import Located
from penstock.formats.splits import check_one_split
from penstock.sample import Sample

_HEADER = 12
_LABELS = ("image/class/label", "label", "image/label")
_MAX_FEATURES = 10_000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def is_tfrecord(path: Path) -> bool:
    """Whether a file begins with a record's length and the checksum of it."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEADER)
    except OSError:
        return False
    return len(head) == _HEADER and _check(head[:8], head[8:])


def _check(data: bytes, expected: bytes) -> bool:
    """TensorFlow's masked checksum, rotated so that one of data with checksums in it stays strong."""
    crc = crc32c(data)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked == int.from_bytes(expected, "little")


def scan_records(file: PlainFile) -> Iterator[tuple[int, int]]:
    """(offset, size) of the data of every record. Lengths are checked, the data not yet read."""
    fd = file.open()
    try:
        position = 0
        while position < file.size:
            head = os.pread(fd, _HEADER, position)
            if len(head) < _HEADER or not _check(head[:8], head[8:]):
                raise SourceError(f"{file.path}: byte {position}: not the beginning of a record")
            size = int.from_bytes(head[:8], "little")
            if size > file.size - position - _HEADER - 4:
                raise SourceError(
                    f"{file.path}: byte {position}: a record of {size} bytes, the file ends before"
                )
            yield position + _HEADER, size
            position += _HEADER + size + 4
    finally:
        os.close(fd)


def parse_example(data: bytes) -> dict[str, list[Any]]:
    """The features of a tf.train.Example by name. SourceError if it is none."""
    features: dict[str, list[Any]] = {}
    for number, message in _read_message(data):
        if number != 1 or not isinstance(message, bytes):
            continue
        for entry_number, entry in _read_message(message):
            if entry_number != 1 or not isinstance(entry, bytes):
                continue
            parts = dict(_read_message(entry))
            name, value = parts.get(1), parts.get(2, b"")
            if not isinstance(name, bytes) or not isinstance(value, bytes):
                raise SourceError("not a tf.train.Example: a feature without a name")
            features[name.decode("utf-8", "backslashreplace")] = _parse_feature(value)
            if len(features) > _MAX_FEATURES:
                raise SourceError(f"a tf.train.Example with more than {_MAX_FEATURES} features")
    return features


def _read_message(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a protobuf message; sub-messages and packed lists are bytes."""
    position = 0
    while position < len(data):
        tag, position = _read_varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _read_varint(data, position)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, position = _read_varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise SourceError(f"not a protobuf message: wire type {kind}")
        if size > len(data) - position:
            raise SourceError(f"a protobuf message that claims {size} bytes, which are not there")
        yield tag >> 3, data[position : position + size]
        position += size


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise SourceError("a protobuf message cut off inside a number")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, position
    raise SourceError("a protobuf message with a number of more than 64 bits")


def _parse_feature(data: bytes) -> list[Any]:
    """The values of a Feature: oneof bytes_list = 1, float_list = 2, int64_list = 3."""
    values: list[Any] = []
    for number, listed in _read_message(data):
        if not isinstance(listed, bytes) or number not in (1, 2, 3):
            raise SourceError(f"not a tf.train.Feature: it has a field {number}")
        for _, value in _read_message(listed):
            if number == 1:
                values.append(value)
            elif number == 2 and isinstance(value, bytes) and len(value) % 4 == 0:
                values.extend(struct.unpack(f"<{len(value) // 4}f", value))
            elif number == 3:
                values.extend(_signed(n) for n in _integers(value))
            else:
                raise SourceError("a damaged tf.train.Feature")
    return values


def _integers(value: int | bytes) -> Iterator[int]:
    if isinstance(value, int):
        yield value
        return
    position = 0
    while position < len(value):
        number, position = _read_varint(value, position)
        yield number


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def make_example_sample(key: str, features: Mapping[str, list[Any]]) -> Sample:
    """The sample that an Example stands for."""
    binary: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for name, values in features.items():
        if any(map(_is_binary, values)):
            several = {f"{name}.{k}": value for k, value in enumerate(values)}
            binary |= {name: values[0]} if len(values) == 1 else several
        else:
            plain[name] = [_as_text(v) for v in values] if len(values) != 1 else _as_text(values[0])
    images = {name: data for name, data in binary.items() if sniff_image(data)}
    if not images:
        raise SourceError(f"no encoded image among its features {sorted(features)!s:.200}")
    other = {name: data for name, data in binary.items() if name not in images}
    single = {n: v for n, v in {**plain, **other}.items() if not isinstance(v, list)}
    labels = [name for name in _LABELS if name in single]
    whole = [name for name in labels if isinstance(single[name], int)]
    label = next(iter(whole or labels), None)  # where there is no whole number, an error
    number = None if label is None else parse_label(single[label])
    plain.pop(label or "", None)
    return Sample(key, _join_fields(make_fields({**images, **plain}), other), number)


def _join_fields(fields: dict[str, bytes], other: Mapping[str, bytes]) -> dict[str, bytes]:
    """The fields with the byte strings that are neither images nor text."""
    for name, data in other.items():
        field = join_field(f"{name}.bin", "bin")
        if field in fields:
            raise SourceError(f"two features are both called {field!r}")
        fields[field] = data
    return fields


def _is_binary(value: Any) -> bool:
    """Whether it is an image, or bytes that are no text."""
    if not isinstance(value, bytes) or sniff_image(value):
        return isinstance(value, bytes)
    try:
        value.decode()
    except UnicodeDecodeError:
        return True
    return False


def _as_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


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
        """The record, its checksum checked, as a sample."""
        return self._make_sample(i, self._read_record(i))

    def _make_sample(self, i: int, record: bytes) -> Sample:
        return make_example_sample(make_key(self.names[i]), parse_example(record))

    def locate(self, i: int) -> Located:
        """The images of the record and its label; other features are not part of an index."""
        file = self.records[int(self.file_of[i])]
        if file.is_packed:
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
    """The records of a file, of those that a pattern names, or of all TFRecord files of a folder, sorted by name."""
    files, ignored = _find_files(Path(path))
    root = find_root([file.path for file in files])
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
        ignored=ignored,
    )


def _find_files(path: Path) -> tuple[list[PlainFile], list[str]]:
    """(the TFRecord files, names of the other files in a folder)."""
    if is_pattern(path):
        return [PlainFile(file) for file in match_files(path)], []
    if not path.is_dir():
        return [PlainFile(path)], []
    files, ignored = [], []
    for candidate in sorted(p for p in path.iterdir() if p.name[0] != "." and p.is_file()):
        file = PlainFile(candidate)
        if file.is_packed or is_tfrecord(candidate):
            files.append(file)
        else:
            ignored.append(candidate.name)
    if not files:
        raise SourceError(f"{path}: no TFRecord files in it")
    check_one_split(path, [file.path for file in files])
    return files, ignored
