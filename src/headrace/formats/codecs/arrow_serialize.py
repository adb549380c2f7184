"""What pyarrow.serialize wrote, which no pyarrow since 12 can read: plain data out of its blobs.

A blob is a header of counts (8 bytes up to pyarrow 0.11, 16 since), an Arrow stream of one batch with
one dense-union column, and the arrays as tensor messages, each at a multiple of 64 bytes. A union's
type code is the position of its child. What a child stands for, and what None is, differ by era:

  0.11, 0.12    a list, tuple, dict or set is a struct with one field of that name; arrays are called
                `tensor` or `ndarray`, buffers `buffer`; None is a null of the union
  0.13 to 0.17  the name of a child is its type number, without one for None; None is a null of the union
  1.0 to 11     every union begins with the child `0` of nulls, for None; the other numbers are one higher

Objects of the user's own, which pyarrow would unpickle, are refused by name.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import SourceError
from headrace.formats.codecs.arrays import build_array, parse_dtype
from headrace.formats.codecs.arrow_message import Column, Field, Tensor, read_column, read_tensor

_DICT = "11"
_TENSORS = frozenset({"tensor", "ndarray", "14", "15"})
_REFUSED = {"buffer": "a buffer", "9": "a date", "13": "a set", "16": "a buffer"}
_REFUSED |= dict.fromkeys(("17", "18", "19", "20"), "a sparse tensor")
_MAX_TENSORS = 10_000
_PAIR = ["keys", "vals"]
_SHARING = 4  # how many times its own size a blob may expand to


def load_arrow(data: bytes) -> Any:
    """Return the object in the blob; lists and tuples both become lists."""
    start = 16 if _has_new_header(data) else 8
    column, end = read_column(data, start)
    counts = sum(struct.unpack_from(f"<{start // 4}i", data))
    if not 0 <= counts <= _MAX_TENSORS:
        raise SourceError(f"a pyarrow blob with {counts} tensors")
    return _Decoder(data, end, counts, _SHARING * len(data)).value(column, 0)


def _has_new_header(data: bytes) -> bool:
    """Tell by the schema message, which begins with its marker or its length right after the header."""
    if len(data) < 32:
        raise SourceError(f"a pyarrow blob of {len(data)} bytes")
    first, second = struct.unpack_from("<ii", data, 16)
    if first == -1 and second > 0:
        return True
    at8 = struct.unpack_from("<i", data, 8)[0]
    # Old streams: a length, then the root offset of the message, which is small. At 16 bytes into
    # an old blob lie other parts of the schema, so the length at 8 decides.
    return not 8 <= at8 <= len(data) - 12


@dataclass
class _Decoder:
    data: bytes
    end: int
    count: int
    budget: int
    tensors: list[Tensor] = field(default_factory=list)

    def value(self, column: Column, i: int, type_: str = "") -> Any:
        """Return value `i` of a column; indices are bounded here, whatever the offsets say.

        `type_` is what a union says of its child, in the numbers of pyarrow 1.0.
        """
        self._spend(1)
        if not 0 <= i < column.length:
            raise SourceError(f"a damaged pyarrow blob: value {i} of {column.length}")
        if type_ in _REFUSED:
            raise SourceError(f"a pyarrow blob with {_REFUSED[type_]}: it is not read")
        if column.validity and not _bit(column.validity, i):
            return None
        kind = column.field.kind
        if kind == "union":
            return self._union(column, i)
        if "list" in kind:
            return self._list(column, i, type_)
        if kind == "struct":
            return self._struct(column, i)
        if kind == "int" and type_ in _TENSORS:
            return self._array(_number(column, i))
        leaf = _leaf(column, i)
        if isinstance(leaf, (bytes, str)):
            self._spend(len(leaf))
        return leaf

    def _spend(self, amount: int) -> None:
        self.budget -= amount
        if self.budget < 0:
            raise SourceError("a pyarrow blob whose parts repeat without end")

    def _union(self, column: Column, i: int) -> Any:
        code = _integer(column.buffers[0], 1, i)
        offset = _integer(column.buffers[1], 4, i)
        if not 0 <= code < len(column.children):
            raise SourceError(f"a damaged pyarrow blob: type {code} of {len(column.children)}")
        return self.value(column.children[code], offset, _find_type(column.field, code))

    def _list(self, column: Column, i: int, type_: str) -> Any:
        width = 8 if column.field.kind == "large list" else 4
        start, stop = (_integer(column.buffers[0], width, k) for k in (i, i + 1))
        child = column.children[0]
        if not 0 <= start <= stop <= child.length:
            raise SourceError(f"a damaged pyarrow blob: items {start} to {stop} of {child.length}")
        if child.field.kind == "struct" and (type_ == _DICT or _names(child) == _PAIR):
            return self._dict(child, range(start, stop))
        return [self.value(child, k) for k in range(start, stop)]

    def _dict(self, pairs: Column, rows: range) -> dict[Any, Any]:
        if len(pairs.children) != 2:
            raise SourceError(f"a damaged pyarrow blob: a dict of {len(pairs.children)} parts")
        keys, values = pairs.children
        result: dict[Any, Any] = {}
        for row in rows:
            key = self.value(keys, row)
            if not isinstance(key, (str, bytes, int)) or key in result:
                raise SourceError(f"a pyarrow blob with the dict key {key!r:.60}, or with it twice")
            result[key] = self.value(values, row)
        if "_pytype_" in result or b"_pytype_" in result:
            what = result.get("_pytype_", result.get(b"_pytype_"))
            raise SourceError(f"a pyarrow blob with an object of type {what!r:.60}: it is not data")
        return result

    def _struct(self, column: Column, i: int) -> Any:
        """Read what old blobs wrap: a list, tuple or dict is the only field of a struct."""
        names = _names(column)
        if names not in (["list"], ["tuple"], ["dict"]):
            raise SourceError(f"a pyarrow blob with a {'/'.join(names)!s:.40}: it is not read")
        return self.value(column.children[0], i)

    def _array(self, index: int) -> Any:
        if not 0 <= index < self.count:
            raise SourceError(f"a damaged pyarrow blob: array {index} of {self.count}")
        while len(self.tensors) <= index:
            start = _after_stream(self.data, self.end) if not self.tensors else self.end
            tensor, self.end = read_tensor(self.data, -(-start // 64) * 64)
            self.tensors.append(tensor)
        tensor = self.tensors[index]
        self._spend(len(tensor.data))
        return build_array(parse_dtype(tensor.code), tensor.shape, _exact(tensor))


def _find_type(union: Field, code: int) -> str:
    """Return what child `code` of a union stands for: its name, with numbers as pyarrow 1.0 has them."""
    first, name = union.children[0], union.children[code].name
    has_none = (first.name, first.kind) == ("0", "null")
    return name if has_none or not name.isdecimal() else str(int(name) + 1)


def _names(column: Column) -> list[str]:
    return [child.field.name for child in column.children]


def _exact(tensor: Tensor) -> bytes:
    """Return the data without the padding after it."""
    size = parse_dtype(tensor.code).itemsize
    for n in tensor.shape:
        size *= max(n, 0)
    return tensor.data[:size]


def _after_stream(data: bytes, end: int) -> int:
    """Skip the end-of-stream mark: a length of 0, after the marker of newer Arrow."""
    if data[end : end + 4] == b"\xff\xff\xff\xff":
        end += 4
    return end + 4 if data[end : end + 4] == bytes(4) else end


def _integer(buffer: bytes, width: int, i: int, signed: bool = True) -> int:
    if i < 0 or (i + 1) * width > len(buffer):
        raise SourceError("a damaged pyarrow blob: a buffer is too short")
    return int.from_bytes(buffer[i * width : (i + 1) * width], "little", signed=signed)


def _bit(buffer: bytes, i: int) -> bool:
    return bool(_integer(buffer, 1, i // 8, signed=False) >> i % 8 & 1)


def _number(column: Column, i: int) -> int:
    return _integer(column.buffers[0], column.field.width, i, column.field.signed)


def _leaf(column: Column, i: int) -> Any:
    kind = column.field.kind
    if kind == "null":
        return None
    if kind == "int":
        return _number(column, i)
    if kind == "float":
        width = column.field.width
        raw = _integer(column.buffers[0], width, i, signed=False).to_bytes(width, "little")
        return struct.unpack({2: "<e", 4: "<f", 8: "<d"}[width], raw)[0]
    if kind == "bool":
        return _bit(column.buffers[0], i)
    width = 8 if kind.startswith("large") else 4
    start, stop = (_integer(column.buffers[0], width, k) for k in (i, i + 1))
    if not 0 <= start <= stop <= len(column.buffers[1]):
        raise SourceError(f"a damaged pyarrow blob: bytes {start} to {stop}")
    raw = column.buffers[1][start:stop]
    return raw if "binary" in kind else raw.decode("utf-8", "surrogateescape")
