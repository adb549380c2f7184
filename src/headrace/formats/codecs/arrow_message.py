"""Arrow IPC messages, read by hand: the schema, one record batch and tensors of an untrusted stream.

Damaged streams have crashed Arrow's own reader, which trusts offsets inside buffers. Here a stream
is bytes with numbers in it: each is compared with what is there before it is used, and nothing is
built but slices of the input. Knows the types that pyarrow.serialize wrote, no more.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from headrace.errors import SourceError

_SCHEMA, _BATCH, _TENSOR = 1, 3, 4
_MAX_FIELDS, _MAX_DEPTH = 1000, 50
_TYPES = {
    1: "null", 2: "int", 3: "float", 4: "binary", 5: "text", 6: "bool", 12: "list", 13: "struct",
    14: "union", 19: "large binary", 20: "large text", 21: "large list",
}  # fmt: skip
_DATE = 8
_VERSION_5 = 4  # of the metadata: unions have no validity bitmap any more


@dataclass(frozen=True)
class Field:
    """A field of the schema. `width` is the size of a number in bytes, `signed` whether it has a sign."""

    name: str
    kind: str
    children: tuple[Field, ...] = ()
    width: int = 0
    signed: bool = True

    @property
    def buffers(self) -> int:
        """How many buffers it has besides a validity bitmap."""
        counts = {"null": 0, "struct": 0, "union": 2, "list": 1, "large list": 1}
        return counts.get(self.kind, 1 if self.kind in ("int", "float", "bool") else 2)


class Message(NamedTuple):
    """A message: what its header is, where that lies in `metadata`, and the body after it."""

    kind: int
    version: int
    metadata: bytes
    header: int
    body: bytes
    end: int


class Column(NamedTuple):
    """A field with its data: how many values, and its buffers.

    `validity` is the bitmap of the values that are not null; it is empty where none is null.
    """

    field: Field
    length: int
    validity: bytes
    buffers: tuple[bytes, ...]
    children: tuple[Column, ...]


class Tensor(NamedTuple):
    """A dense tensor in C order."""

    code: str
    shape: tuple[int, ...]
    data: bytes


def read_column(data: bytes, start: int) -> tuple[Column, int]:
    """Return the first column of the stream at `start`, and where its record batch ends."""
    message = _read_message(data, start)
    if message.kind != _SCHEMA:
        raise SourceError("an Arrow stream that does not begin with a schema")
    fields = _read_schema(message.metadata, message.header)
    batch = _read_message(data, message.end)
    if batch.kind != _BATCH or len(fields) != 1:
        raise SourceError("an Arrow stream that is not one batch of one column")
    return _bind(fields, batch), batch.end


def read_tensor(data: bytes, start: int) -> tuple[Tensor, int]:
    """Return the tensor message at `start`, and where it ends."""
    message = _read_message(data, start)
    if message.kind != _TENSOR:
        raise SourceError("an Arrow message that is not a tensor")
    table = FlatTable(message.metadata, message.header)
    kind = _TYPES.get(table.number(0, "<B"), "")
    width, signed = _number_type(kind, table.table(1))
    dims = table.tables(2)
    shape = tuple(dim.number(0, "<q") for dim in dims)
    strides = table.structs(3, "<q")
    _check_strides(shape, [s for (s,) in strides], width)
    place = table.inline(4, "<qq")
    letter = {"int": "i" if signed else "u", "float": "f"}[kind]
    return Tensor(f"<{letter}{width}", shape, _slice(message.body, place)), message.end


def _check_strides(shape: tuple[int, ...], strides: list[int], width: int) -> None:
    expected: list[int] = []
    step = width
    for size in reversed(shape):
        expected.insert(0, step)
        step *= max(size, 1)
    if strides and 0 not in shape and strides != expected:
        raise SourceError(f"an Arrow tensor of shape {shape!r:.60} with strides {strides!r:.60}")


class FlatTable:
    """A FlatBuffers table. Fields that are absent read as 0, None or nothing."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._at = data, position
        self._slots = position - self._read(position, "<i")
        self._slots_size = self._read(self._slots, "<H")

    def _read(self, position: int, layout: str) -> int:
        if not 0 <= position <= len(self._data) - struct.calcsize(layout):
            raise SourceError("a damaged Arrow message: it points outside itself")
        value: int = struct.unpack_from(layout, self._data, position)[0]
        return value

    def _place(self, field: int) -> int | None:
        slot = 4 + 2 * field
        if slot + 2 > self._slots_size:
            return None
        offset = self._read(self._slots + slot, "<H")
        return self._at + offset if offset else None

    def number(self, field: int, layout: str) -> int:
        place = self._place(field)
        return 0 if place is None else self._read(place, layout)

    def table(self, field: int) -> FlatTable | None:
        place = self._place(field)
        return None if place is None else FlatTable(self._data, place + self._read(place, "<I"))

    def position(self, field: int) -> int:
        """Return where the table of `field` begins."""
        place = self._place(field)
        if place is None:
            raise SourceError("a damaged Arrow message: a part is missing")
        return place + self._read(place, "<I")

    def inline(self, field: int, layout: str) -> tuple[int, ...]:
        """Return a struct that lies in the table itself."""
        place = self._place(field)
        if place is None or not 0 <= place <= len(self._data) - struct.calcsize(layout):
            raise SourceError("a damaged Arrow message: a part is missing")
        return struct.unpack_from(layout, self._data, place)

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        place = self._place(field)
        if place is None:
            return 0, 0
        start = place + self._read(place, "<I")
        count = self._read(start, "<I")
        if count * width > len(self._data) - start - 4:
            raise SourceError(f"a damaged Arrow message: {count} items, which are not there")
        return start + 4, count

    def structs(self, field: int, layout: str) -> list[tuple[int, ...]]:
        width = struct.calcsize(layout)
        start, count = self._vector(field, width)
        return list(struct.iter_unpack(layout, self._data[start : start + count * width]))

    def tables(self, field: int) -> list[FlatTable]:
        start, count = self._vector(field, 4)
        if count > _MAX_FIELDS:
            raise SourceError(f"an Arrow schema with {count} fields")
        places = range(start, start + 4 * count, 4)
        return [FlatTable(self._data, place + self._read(place, "<I")) for place in places]

    def text(self, field: int) -> str:
        start, count = self._vector(field, 1)
        return self._data[start : start + count].decode("utf-8", "replace")


def _read_message(data: bytes, start: int) -> Message:
    """Return the message at `start`, which may have the marker of Arrow 0.15 and later."""
    if start + 8 > len(data):
        raise SourceError("a damaged Arrow stream: it ends before a message")
    first, second = struct.unpack_from("<ii", data, start)
    size, start = (second, start + 8) if first == -1 else (first, start + 4)
    if not 8 <= size <= len(data) - start:
        raise SourceError(f"a damaged Arrow stream: a message of {size} bytes")
    metadata = data[start : start + size]
    table = FlatTable(metadata, int.from_bytes(metadata[:4], "little"))
    length = table.number(3, "<q")
    body = start + size
    if not 0 <= length <= len(data) - body:
        raise SourceError(f"a damaged Arrow stream: a body of {length} bytes, which are not there")
    return Message(
        kind=table.number(1, "<B"),
        version=table.number(0, "<h"),
        metadata=metadata,
        header=table.position(2),
        body=data[body : body + length],
        end=body + length,
    )


@lru_cache(maxsize=256)
def _read_schema(metadata: bytes, header: int) -> tuple[Field, ...]:
    """Return the fields. They are cached: the samples of a dataset mostly have the same schema to the byte."""
    budget = iter(range(_MAX_FIELDS))
    table = FlatTable(metadata, header)
    if table.number(0, "<h"):
        raise SourceError("an Arrow stream in big-endian order")
    return tuple(_read_field(field, budget, 0) for field in table.tables(1))


def _read_field(table: FlatTable, budget: Iterator[int], depth: int) -> Field:
    code = table.number(2, "<B")
    kind = _TYPES.get(code)
    if next(budget, None) is None or depth > _MAX_DEPTH:
        raise SourceError("an Arrow schema with too many fields")
    if kind is None or table.table(4) is not None:
        what = "a date" if code == _DATE else f"an Arrow field of type {code}"
        raise SourceError(f"a pyarrow blob with {what}: it is not read")
    width, signed = _number_type(kind, table.table(3)) if kind in ("int", "float") else (0, True)
    if kind == "union":
        mode = table.table(3)
        if mode is None or mode.number(0, "<h") != 1:
            raise SourceError("an Arrow union that is not dense")
    children = tuple(_read_field(child, budget, depth + 1) for child in table.tables(5))
    if "list" in kind and len(children) != 1:
        raise SourceError(f"an Arrow list with {len(children)} children")
    return Field(table.text(0), kind, children, width, signed)


def _number_type(kind: str, table: FlatTable | None) -> tuple[int, bool]:
    """Return (width in bytes, signed) of an integer or floating-point type."""
    if table is None or kind not in ("int", "float"):
        raise SourceError("an Arrow number without a type")
    if kind == "float":
        return {0: 2, 1: 4, 2: 8}.get(table.number(0, "<h"), 8), True
    bits = table.number(0, "<i")
    if bits not in (8, 16, 32, 64):
        raise SourceError(f"an Arrow integer of {bits} bits")
    return bits // 8, bool(table.number(1, "<B"))


def _bind(fields: tuple[Field, ...], batch: Message) -> Column:
    """Give the lengths and buffers of a batch to the fields, in depth-first order."""
    table = FlatTable(batch.metadata, batch.header)
    if table.table(3) is not None:
        raise SourceError("a compressed Arrow batch, which pyarrow.serialize never wrote")
    lengths = table.structs(1, "<qq")
    places = table.structs(2, "<qq")
    old = batch.version < _VERSION_5
    expected, nulls = _count_buffers(fields[0], old)
    # Arrow before 0.15 wrote an empty bitmap for nulls too.
    null_bitmap = len(places) == expected + nulls and nulls > 0
    parts = _Parts(iter(lengths), iter(places), batch.body, old, null_bitmap)
    column = parts.take(fields[0])
    if column.length != 1:
        raise SourceError(f"an Arrow batch of {column.length} rows")
    return column


def _count_buffers(field: Field, old: bool) -> tuple[int, int]:
    bitmap = field.kind != "null" and (field.kind != "union" or old)
    count, nulls = field.buffers + bitmap, int(field.kind == "null")
    for child in field.children:
        more, more_nulls = _count_buffers(child, old)
        count, nulls = count + more, nulls + more_nulls
    return count, nulls


@dataclass
class _Parts:
    lengths: Iterator[tuple[int, ...]]
    places: Iterator[tuple[int, ...]]
    body: bytes
    old: bool
    null_bitmap: bool

    def take(self, field: Field) -> Column:
        length, nulls = next(self.lengths, (-1, 0))
        if length < 0:
            raise SourceError("a damaged Arrow batch: a field without a length")
        if field.kind == "null":
            bitmap = self.null_bitmap
        else:
            bitmap = field.kind != "union" or self.old
        validity = self._buffer() if bitmap else b""
        if nulls and not validity and field.kind != "null":
            raise SourceError(f"a damaged Arrow batch: {nulls} nulls, but no bitmap of them")
        buffers = tuple(self._buffer() for _ in range(field.buffers))
        children = tuple(self.take(child) for child in field.children)
        return Column(field, length, validity, buffers, children)

    def _buffer(self) -> bytes:
        place = next(self.places, None)
        if place is None:
            raise SourceError("a damaged Arrow batch: a field without its buffers")
        return _slice(self.body, place)


def _slice(body: bytes, place: tuple[int, ...]) -> bytes:
    offset, length = place
    if offset < 0 or length < 0 or offset + length > len(body):
        raise SourceError(f"a damaged Arrow message: {length} bytes at {offset} of {len(body)}")
    return body[offset : offset + length]
