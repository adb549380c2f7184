"""Writes an LMDB file of tensorpack's layout, for the systems that read it. Needs the extra `lmdb`.

Keys are `00000000`, `00000001`, ... and `__keys__`. A value is the pickle of [uint8 array of the image's
bytes, label], in protocol 3 and with names that every NumPy knows; a sample of several fields is the
pickle of a dict of them and `label`.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.errors import MissingExtraError, PackError
from headrace.pack.export.fields import Classes, data_fields
from headrace.sample import Sample, is_image_field
from headrace.store.keys import printable

KEYS = b"__keys__"
_COMMIT_EVERY = 1000
_FIRST_SIZE = 1 << 30

# NumPy's pickle of a 1-D uint8 array, cut where its length and its bytes stand.
_BEFORE_LENGTH = (
    b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R(K\x01"
)
_BEFORE_BYTES = (
    b"\x85cnumpy\ndtype\nX\x02\x00\x00\x00u1K\x00K\x01\x87R"
    b"(K\x03X\x01\x00\x00\x00|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
)
_AFTER_BYTES = b"tb"


def write_lmdb(samples: Iterable[Sample], place: Path, classes: Classes) -> int:
    """Write the samples to the file `place`; return their number."""
    return write_values(map(encode_datapoint, samples), place)


def write_values(values: Iterable[bytes], place: Path) -> int:
    """Write the values to the file `place`, with their keys; return their number."""
    writer = _Writer(place)
    try:
        keys = []
        for number, value in enumerate(values):
            keys.append(b"%08d" % number)
            writer.put(keys[-1], value)
        writer.put(KEYS, pickle.dumps(keys, protocol=3))
        writer.finish()
        return len(keys)
    finally:
        writer.close()


def encode_datapoint(sample: Sample) -> bytes:
    """Return the pickle of a sample."""
    fields = data_fields(sample)
    if len(fields) == 1 and all(map(is_image_field, fields)):
        (data,) = fields.values()
        return b"\x80\x03](" + _pickle_bytes(data) + _pickle_int(sample.label) + b"e."
    if sample.frames:
        raise PackError(
            f"{printable(sample.key)}: a video has no place in tensorpack's layout; export to gulp"
        )
    content: dict[str, Any] = dict(fields)
    if sample.label is not None:
        content["label"] = sample.label
    return pickle.dumps(content, protocol=3)


def _pickle_bytes(data: bytes) -> bytes:
    """Return the pickle of a NumPy array of bytes; all versions of NumPy read this name."""
    length = b"J" + struct.pack("<i", len(data))
    raw = b"B" + struct.pack("<I", len(data)) + data
    return _BEFORE_LENGTH + length + _BEFORE_BYTES + raw + _AFTER_BYTES


def _pickle_int(value: int | None) -> bytes:
    if value is None:
        return b"N"
    raw = value.to_bytes(9, "little", signed=True)
    return b"\x8a\x09" + raw


class _Writer:
    """An environment that grows as it is filled, and keeps uncommitted entries to put them again."""

    def __init__(self, place: Path) -> None:
        try:
            import lmdb
        except ImportError:
            raise MissingExtraError("lmdb", "lmdb") from None
        self._place = place
        self._full, self._error = lmdb.MapFullError, lmdb.Error
        self._size = _FIRST_SIZE
        with self._named_errors():
            self._environment = lmdb.open(
                os.fspath(place), subdir=False, map_size=self._size, lock=False, readahead=False
            )
        self._waiting: list[tuple[bytes, bytes]] = []
        self._bytes = 0

    def put(self, key: bytes, value: bytes) -> None:
        self._waiting.append((key, value))
        self._bytes += len(value)
        if len(self._waiting) >= _COMMIT_EVERY or self._bytes >= _FIRST_SIZE // 8:
            self.commit()

    def commit(self) -> None:
        """Write what is waiting; a full map is doubled first."""
        with self._named_errors():
            while not self._put_waiting():
                self._size *= 2
                self._environment.set_mapsize(self._size)
        self._waiting, self._bytes = [], 0

    def _put_waiting(self) -> bool:
        try:
            with self._environment.begin(write=True) as transaction:
                for key, value in self._waiting:
                    transaction.put(key, value, append=True)
        except self._full:
            return False
        return True

    def finish(self) -> None:
        """Write the rest, and sync it to the disk."""
        self.commit()
        with self._named_errors():
            self._environment.sync(True)

    def close(self) -> None:
        self._environment.close()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise PackError(
                f"{self._place}: the LMDB database cannot be written: {error}"
            ) from None
