"""MessagePack as tensorpack wrote it, with NumPy arrays in msgpack-numpy's maps. Plain data only.

A decoder of our own, as the format is small: every length is compared with the bytes that are
there, nesting is bounded, extension types and arrays of objects (which carry pickles) are refused.
Text is `str`, binary is `bytes`; a NumPy array or scalar comes out as one.
"""

from __future__ import annotations

import struct
from typing import Any

from headrace.errors import SourceError
from headrace.formats.codecs.arrays import build_array, build_scalar, parse_dtype

_MAX_DEPTH = 100
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d",
    0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_BINARY = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I"}
_TEXT = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_ARRAY = {0xDC: ">H", 0xDD: ">I"}
_MAP = {0xDE: ">H", 0xDF: ">I"}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def load_msgpack(data: bytes) -> Any:
    """Return the object in `data`. Raise SourceError if it is damaged or anything but plain data."""
    reader = _Reader(data)
    result = reader.read(0)
    if reader.at != len(data):
        raise SourceError(f"a msgpack object with {len(data) - reader.at} bytes after its end")
    return result


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def read(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise SourceError(f"a msgpack object nested more than {_MAX_DEPTH} deep")
        code = self._take(1)[0]
        if code < 0x80 or code >= 0xE0:
            return code if code < 0x80 else code - 256
        if code < 0x90:
            return self._read_map(code & 0x0F, depth)
        if code < 0xA0:
            return self._read_array(code & 0x0F, depth)
        if code < 0xC0:
            return self._read_text(code & 0x1F)
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            return self._number(_NUMBERS[code])
        if code in _BINARY:
            return self._take(self._number(_BINARY[code]))
        if code in _TEXT:
            return self._read_text(self._number(_TEXT[code]))
        if code in _ARRAY:
            return self._read_array(self._number(_ARRAY[code]), depth)
        if code in _MAP:
            return self._read_map(self._number(_MAP[code]), depth)
        raise SourceError(f"a msgpack object with an extension type (0x{code:02x}): it is not data")

    def _take(self, size: int) -> bytes:
        left = len(self._data) - self.at
        if size > left:
            raise SourceError(
                f"a msgpack object that claims {size} bytes, of which {left} are there"
            )
        self.at += size
        return self._data[self.at - size : self.at]

    def _number(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]

    def _read_text(self, size: int) -> str:
        return self._take(size).decode("utf-8", "surrogateescape")

    def _check_count(self, count: int) -> None:
        if count > len(self._data) - self.at:
            raise SourceError(f"a msgpack object that claims {count} items, which are not there")

    def _read_array(self, count: int, depth: int) -> list[Any]:
        self._check_count(count)
        return [self.read(depth + 1) for _ in range(count)]

    def _read_map(self, count: int, depth: int) -> Any:
        self._check_count(count)
        result: dict[Any, Any] = {}
        for _ in range(count):
            key = self.read(depth + 1)
            if not isinstance(key, (str, bytes, int, float)) or key in result:
                raise SourceError(f"a msgpack map with the key {key!r:.60}, or with it twice")
            result[key] = self.read(depth + 1)
        return _decode_numpy(result) if b"nd" in result or "nd" in result else result


def _decode_numpy(fields: dict[Any, Any]) -> Any:
    """Decode what msgpack-numpy wrote as a map: {nd, type, kind, shape, data}, or {nd, type, data}."""
    named = {k.decode("latin-1") if isinstance(k, bytes) else k: v for k, v in fields.items()}
    kind, data = named.get("kind", b""), named.get("data")
    if kind not in (b"", ""):
        raise SourceError(f"a msgpack array of kind {kind!r:.20}: objects and records are not read")
    if not isinstance(data, bytes):
        raise SourceError("a msgpack array without data")
    dtype = parse_dtype(named.get("type"))
    if named["nd"] is False:
        return build_scalar(dtype, data)
    shape = named.get("shape")
    if named["nd"] is not True or not isinstance(shape, list):
        raise SourceError("a msgpack array without a shape")
    return build_array(dtype, shape, data)
