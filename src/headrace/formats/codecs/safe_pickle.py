"""Pickles of plain data, read by a machine that can build nothing else.

Python's own unpickler calls what the stream tells it to call, and allocates what the stream claims.
This one knows numbers, text, bytes, lists, tuples, dicts and NumPy arrays of numbers and text;
every other opcode or global is an error that names it. No name is ever imported: the few exact
(module, name) pairs that are known are tokens whose meaning is written in `pickle_globals`. Every length is compared with
the bytes that are there, so memory stays within a small multiple of the stream; what comes out is
a tree, at most 100 deep, that does not expand far beyond the size of the stream by sharing parts.

`bytearray`, and `str` as Python 2 wrote it, come out as `bytes`.
"""

from __future__ import annotations

import codecs
import pickletools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.errors import SourceError
from headrace.formats.codecs.pickle_globals import (
    GLOBALS,
    Dtype,
    Global,
    Unbuilt,
    build_reconstructed,
    call_global,
    set_byte_order,
)

_MAX_DEPTH = 100
_MAX_DIGITS = 1000
_SHARING = 4  # how many times its own size a stream may expand to where its parts are shared
_SLACK = 10_000


class PickleError(SourceError, ValueError):
    """The stream is damaged, or holds something that is not plain data."""


def load_pickle(data: bytes | bytearray | memoryview) -> Any:
    """Return the object in the pickle `data`. Raise PickleError if it is anything but plain data."""
    machine = _Machine(data if isinstance(data, bytes) else bytes(data))
    try:
        result = machine.run()
        _check_tree(result, len(data))
    except SourceError as error:
        raise PickleError(str(error)) from None
    except IndexError:
        raise PickleError("a damaged pickle: its stack is empty where it may not be") from None
    except (struct.error, ValueError, TypeError, OverflowError) as error:
        raise PickleError(f"a damaged pickle: {error!s:.100}") from None
    return result


def _check_tree(root: object, size: int) -> None:
    """Check that a tree holds nothing but data, and not more of it than fits a stream of `size` bytes."""
    budget = _SHARING * size + _SLACK
    level = [root]
    for _ in range(_MAX_DEPTH):
        below: list[Any] = []
        for node in level:
            if type(node) in (list, tuple):
                below.extend(node)  # type: ignore[arg-type]
            elif type(node) is dict:
                below.extend(node)
                below.extend(node.values())
            elif isinstance(node, (Global, Dtype, Unbuilt)):
                raise SourceError("a pickle that holds a bare NumPy type instead of data")
            elif isinstance(node, (str, bytes)):
                budget -= len(node)
            elif isinstance(node, np.ndarray):
                budget -= node.nbytes
            if len(below) > budget:
                raise SourceError("a pickle whose parts share or hold themselves without end")
        budget -= len(below)
        if not below:
            return
        level = below
    raise SourceError(f"a pickle nested more than {_MAX_DEPTH} deep")


class _Machine:
    """The stack machine. `run` executes opcodes up to STOP, which must be the last byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._copied = 0

    def run(self) -> Any:
        data, end = self._data, len(self._data)
        while self._at < end:
            code = data[self._at]
            self._at += 1
            if code == _STOP:
                return self._stop(end)
            step = _STEPS.get(code)
            if step is None:
                raise SourceError(f"a pickle with the opcode {_opcode_name(code)}: it is not data")
            step(self)
        raise SourceError(f"a pickle cut off after {end} bytes")

    def _stop(self, end: int) -> Any:
        if self._at != end:
            raise SourceError(f"a pickle with {end - self._at} bytes after its end")
        if len(self._stack) != 1 or self._marks:
            raise SourceError(f"a damaged pickle: it ends with {len(self._stack)} objects")
        return self._stack[0]

    # Reading the stream

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise SourceError(
                f"a pickle that claims {size} bytes, of which {len(self._data) - self._at} are there"
            )
        start, self._at = self._at, self._at + size
        return self._data[start : self._at]

    def _number(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]

    def _line(self) -> bytes:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise SourceError("a pickle cut off inside a line")
        line = self._take(end - self._at)
        self._at += 1
        return line

    def push_sized(self, layout: str, convert: Callable[[bytes], Any]) -> None:
        """Push as many bytes as the length in `layout` says."""
        self._stack.append(convert(self._take(self._number(layout))))

    def push_number(self, layout: str) -> None:
        self._stack.append(self._number(layout))

    def push_line(self, convert: Callable[[bytes], Any]) -> None:
        self._stack.append(convert(self._line()))

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def skip_protocol(self) -> None:
        if self._number("<B") > 5:
            raise SourceError("a pickle of a protocol above 5")

    def skip_frame(self) -> None:
        size = self._number("<Q")
        if size > len(self._data) - self._at:
            raise SourceError(f"a pickle with a frame of {size} bytes, which are not there")

    # Stack and memo

    def mark(self) -> None:
        self._marks.append(len(self._stack))

    def _pop_mark(self) -> list[Any]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def drop(self) -> None:
        self._stack.pop()

    def drop_to_mark(self) -> None:
        self._pop_mark()

    def remember(self, index: int | None = None) -> None:
        index = len(self._memo) if index is None else index
        if not 0 <= index <= len(self._data):
            raise SourceError(f"a pickle of {len(self._data)} bytes with the memo index {index}")
        self._memo[index] = self._stack[-1]
        if isinstance(self._stack[-1], Unbuilt):
            self._stack[-1].memo.append(index)

    def remember_number(self, layout: str) -> None:
        self.remember(self._number(layout))

    def remember_line(self) -> None:
        self.remember(_parse_int(self._line()))

    def recall(self, index: int) -> None:
        if index not in self._memo:
            raise SourceError(f"a damaged pickle: nothing was remembered as {index}")
        self._stack.append(self._memo[index])

    def recall_number(self, layout: str) -> None:
        self.recall(self._number(layout))

    def recall_line(self) -> None:
        self.recall(_parse_int(self._line()))

    # Containers

    def make_tuple(self, size: int) -> None:
        if len(self._stack) < size:
            raise IndexError
        items = tuple(self._stack[len(self._stack) - size :])
        del self._stack[len(self._stack) - size :]
        self._stack.append(items)

    def make_tuple_from_mark(self) -> None:
        self._stack.append(tuple(self._pop_mark()))

    def make_list_from_mark(self) -> None:
        self._stack.append(self._pop_mark())

    def make_dict_from_mark(self) -> None:
        items = self._pop_mark()
        self._stack.append({})
        self._set_items(items)

    def append(self) -> None:
        item = self._stack.pop()
        self._expect(list).append(item)

    def append_from_mark(self) -> None:
        items = self._pop_mark()
        self._expect(list).extend(items)

    def set_item(self) -> None:
        items = [self._stack.pop(-2), self._stack.pop()]
        self._set_items(items)

    def set_items_from_mark(self) -> None:
        self._set_items(self._pop_mark())

    def _set_items(self, items: list[Any]) -> None:
        target = self._expect(dict)
        if len(items) % 2:
            raise SourceError("a damaged pickle: a dict with a key and no value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, (str, bytes, int, float)):
                raise SourceError(f"a pickle with a dict key of type {type(key).__name__}")
            target[key] = value

    def _expect(self, kind: type) -> Any:
        if type(self._stack[-1]) is not kind:
            raise SourceError(
                f"a damaged pickle: items for something that is not a {kind.__name__}"
            )
        return self._stack[-1]

    # Globals, and what may be done with them

    def push_global(self) -> None:
        module, name = self._line().decode(), self._line().decode()
        self._push_global(module, name)

    def push_stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._push_global(module, name)

    def _push_global(self, module: object, name: object) -> None:
        token = (
            GLOBALS.get((module, name))
            if isinstance(module, str) and isinstance(name, str)
            else None
        )
        if token is None:
            raise SourceError(f"a pickle that asks for {module!s:.80}.{name!s:.80}: it is not data")
        self._stack.append(token)

    def reduce(self) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        if not isinstance(function, Global) or type(arguments) is not tuple:
            raise SourceError("a pickle that calls something that is not a function of NumPy's")
        result = call_global(function, arguments)
        if isinstance(result, bytes):  # a copy, which a stream could ask for again and again
            self._copied += len(result)
            if self._copied > len(self._data):
                raise SourceError("a pickle that copies its bytes over and over")
        self._stack.append(result)

    def build(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if type(state) is not tuple:
            raise SourceError("a pickle that sets the state of an object: it is not data")
        if isinstance(target, Dtype):
            set_byte_order(target, state)
        elif isinstance(target, Unbuilt):
            array = build_reconstructed(state)
            self._stack[-1] = array
            for index in target.memo:
                self._memo[index] = array
        else:
            raise SourceError("a pickle that sets the state of an object: it is not data")


def _parse_int(line: bytes) -> int:
    if len(line) > _MAX_DIGITS:
        raise SourceError(f"a pickle with a number of {len(line)} digits")
    return int(line.rstrip(b"L"))


def _parse_int_or_bool(line: bytes) -> int | bool:
    return {b"00": False, b"01": True}[line] if line in (b"00", b"01") else _parse_int(line)


def _parse_long(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _parse_text(data: bytes) -> str:
    return str(data, "utf-8", "surrogatepass")


def _parse_quoted(line: bytes) -> bytes:
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
        raise SourceError("a damaged pickle: a string without quotes")
    return codecs.escape_decode(line[1:-1])[0]


_OPCODE_NAMES = {opcode.code: opcode.name for opcode in pickletools.opcodes}


def _opcode_name(code: int) -> str:
    opcode = _OPCODE_NAMES.get(chr(code))
    return f"0x{code:02x}" if opcode is None else opcode


_Step = Callable[[_Machine], None]
_STOP = ord(".")
_STEPS: dict[int, _Step] = {
    0x80: _Machine.skip_protocol,
    0x95: _Machine.skip_frame,
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),
    0x89: lambda m: m.push(False),
    ord("I"): lambda m: m.push_line(_parse_int_or_bool),
    ord("L"): lambda m: m.push_line(_parse_int),
    ord("F"): lambda m: m.push_line(float),
    ord("J"): lambda m: m.push_number("<i"),
    ord("K"): lambda m: m.push_number("<B"),
    ord("M"): lambda m: m.push_number("<H"),
    ord("G"): lambda m: m.push_number(">d"),
    0x8A: lambda m: m.push_sized("<B", _parse_long),
    0x8B: lambda m: m.push_sized("<i", _parse_long),
    ord("S"): lambda m: m.push_line(_parse_quoted),
    ord("U"): lambda m: m.push_sized("<B", bytes),
    ord("T"): lambda m: m.push_sized("<i", bytes),
    ord("C"): lambda m: m.push_sized("<B", bytes),
    ord("B"): lambda m: m.push_sized("<I", bytes),
    0x8E: lambda m: m.push_sized("<Q", bytes),
    0x96: lambda m: m.push_sized("<Q", bytes),
    ord("V"): lambda m: m.push_line(lambda line: str(line, "raw-unicode-escape")),
    0x8C: lambda m: m.push_sized("<B", _parse_text),
    ord("X"): lambda m: m.push_sized("<I", _parse_text),
    0x8D: lambda m: m.push_sized("<Q", _parse_text),
    ord("("): _Machine.mark,
    ord("0"): _Machine.drop,
    ord("1"): _Machine.drop_to_mark,
    ord("2"): lambda m: m.push(m._stack[-1]),
    ord("p"): _Machine.remember_line,
    ord("q"): lambda m: m.remember_number("<B"),
    ord("r"): lambda m: m.remember_number("<I"),
    0x94: _Machine.remember,
    ord("g"): _Machine.recall_line,
    ord("h"): lambda m: m.recall_number("<B"),
    ord("j"): lambda m: m.recall_number("<I"),
    ord(")"): lambda m: m.push(()),
    0x85: lambda m: m.make_tuple(1),
    0x86: lambda m: m.make_tuple(2),
    0x87: lambda m: m.make_tuple(3),
    ord("t"): _Machine.make_tuple_from_mark,
    ord("]"): lambda m: m.push([]),
    ord("l"): _Machine.make_list_from_mark,
    ord("a"): _Machine.append,
    ord("e"): _Machine.append_from_mark,
    ord("}"): lambda m: m.push({}),
    ord("d"): _Machine.make_dict_from_mark,
    ord("s"): _Machine.set_item,
    ord("u"): _Machine.set_items_from_mark,
    ord("c"): _Machine.push_global,
    0x93: _Machine.push_stack_global,
    ord("R"): _Machine.reduce,
    ord("b"): _Machine.build,
}
