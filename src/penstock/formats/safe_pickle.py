"""Reading pickles that someone else wrote, without running anything.

In: the bytes of one pickle. Out: NumPy arrays and scalars of plain dtypes, numbers, text, bytes,
None, lists, tuples, dicts and sets of these. Guaranteed: nothing is imported, and nothing is called
but the functions below, which check what they are given; no more memory is asked for than the
pickle itself is long, times a small factor; anything else is a ValueError that says what the pickle
asked for. Arrays of objects and of records are refused.

Three walls, one behind the other: `_check_opcodes` goes over the opcodes before anything happens
and refuses those that plain data never needs (persistent ids, extension codes, classes made by
opcode) and sizes past the end; `find_class` knows exact names and imports none; `_resolve` lets only
listed types out.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

_PLAIN_DTYPE = re.compile(r"[<>|=]?[biufcSU][0-9]{1,9}")
_LEAVES = (type(None), bool, int, float, complex, str, bytes, bytearray, np.ndarray, np.generic)


def load_pickle(data: bytes | bytearray | memoryview) -> Any:
    """The value of a pickle, or ValueError if it holds more than plain data."""
    try:
        data = bytes(data)
        _check_opcodes(data)
        return _resolve(_Unpickler(io.BytesIO(data)).load(), {})
    except pickle.UnpicklingError as error:
        raise ValueError(str(error)) from error
    except ValueError:
        raise
    except Exception as error:  # hostile bytes fail in every possible way
        raise ValueError(f"not a pickle of plain data: {type(error).__name__}: {error}") from error


class _Unpickler(pickle.Unpickler):
    """Knows a handful of exact (module, name) pairs, and looks nothing else up."""

    def find_class(self, module: str, name: str) -> Any:
        found = _ALLOWED.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(
                f"the pickle asks for {module}.{name}; only arrays, numbers, text, bytes, lists, "
                "tuples, dicts and sets are read"
            )
        return found


def _check_opcodes(data: bytes) -> None:
    """Refuse opcodes outside plain data, and sizes and memo indices that the bytes cannot fill."""
    place, end = 0, len(data)
    while place < end:
        opcode = data[place]
        place += 1
        if opcode == _STOP:
            return
        size = _ARGUMENT.get(opcode)
        if size is not None:
            place += size
        elif opcode in _COUNTED:
            width = _COUNTED[opcode]
            place += width + int.from_bytes(data[place : place + width], "little")
        elif opcode == _LONG_BINPUT and int.from_bytes(data[place : place + 4], "little") <= end:
            place += 4
        elif opcode in _LINES:
            place = _skip_lines(data, place, opcode)
        else:
            raise pickle.UnpicklingError(f"the pickle uses opcode {opcode:#04x} at {place - 1}")
    raise pickle.UnpicklingError("the pickle ends before it is complete")


def _skip_lines(data: bytes, place: int, opcode: int) -> int:
    for _ in range(_LINES[opcode]):
        newline = data.find(b"\n", place)
        if newline < 0:
            raise pickle.UnpicklingError("the pickle ends in the middle of a line")
        if opcode == _PUT and not 0 <= int(data[place:newline]) <= len(data):
            raise pickle.UnpicklingError("the pickle's memo is larger than the pickle")
        place = newline + 1
    return place


_STOP, _PUT, _LONG_BINPUT = b"."[0], b"p"[0], b"r"[0]
_ARGUMENT = {  # bytes after the opcode
    **dict.fromkeys(b"(012NRb}ea])tdlsu\x85\x86\x87\x88\x89\x8f\x90\x91\x93\x94", 0),
    **dict.fromkeys(b"Kqh\x80", 1),
    **dict.fromkeys(b"M", 2),
    **dict.fromkeys(b"Jj", 4),
    **dict.fromkeys(b"G\x95", 8),
}
_COUNTED = {  # width of the count after the opcode, which as many bytes follow
    **dict.fromkeys(b"UC\x8a\x8c", 1),
    **dict.fromkeys(b"TBX\x8b", 4),
    **dict.fromkeys(b"\x8d\x8e\x96", 8),
}
_LINES = {**dict.fromkeys(b"ILFSVpg", 1), b"c"[0]: 2}  # lines of text after the opcode


class _Call:
    """A function that a pickle may call; a pickle that sets its attributes is refused."""

    __slots__ = ("_fn",)

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn

    def __call__(self, *args: Any) -> Any:
        return self._fn(*args)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("the pickle changes a function")


class _Dtype:
    """A dtype while its pickle is being read: NumPy gives the byte order as its state."""

    __slots__ = ("dtype",)

    def __init__(self, text: Any, align: object = False, copy: object = False) -> None:
        text = text.decode("ascii") if isinstance(text, bytes) else text
        if not isinstance(text, str) or not _PLAIN_DTYPE.fullmatch(text):
            raise ValueError(f"an array of dtype {text!r} is not plain data")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        _, order, subarray, names, fields = state[:5]
        if subarray is not None or names is not None or fields is not None:
            raise ValueError("an array of records is not plain data")
        if order in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """An array while its pickle is being read: protocols 0 to 4 give its contents as its state."""

    __slots__ = ("array",)

    def __init__(self, kind: object, shape: object, code: object) -> None:
        self.array: npt.NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        self.array = _make_array(data, dtype, shape, "F" if fortran else "C")


def _make_array(
    data: Any, dtype: Any, shape: Any, order: Any, axes: Any = None
) -> npt.NDArray[Any]:
    """What numpy.core.numeric._frombuffer does, of plain dtypes only; always writable."""
    if order == "K":  # since NumPy 2.2: C order, then the axes put where they belong
        return _make_array(data, dtype, shape, "C").transpose(axes)
    if not (isinstance(data, (bytes, bytearray)) and isinstance(dtype, _Dtype)):
        raise TypeError("the contents of an array are not bytes of a plain dtype")
    if not isinstance(shape, tuple) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"{shape!r} is not the shape of an array")
    if order not in ("C", "F"):
        raise ValueError(f"{order!r} is not the order of an array")
    if not data:  # np.frombuffer refuses an empty buffer
        return np.zeros(0, dtype.dtype).reshape(shape, order=order)
    array = np.frombuffer(data, dtype.dtype).reshape(shape, order=order)
    return array if array.flags.writeable else array.copy(order=order)


def _make_scalar(dtype: Any, data: Any) -> Any:
    return _make_array(data, dtype, (), "C")[()]


def _encode(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise ValueError("bytes are expected as latin1 text")
    return text.encode("latin1")


def _make_bytearray(data: Any = b"", encoding: Any = "latin-1") -> bytearray:
    if not isinstance(data, (bytes, str)) or encoding != "latin-1":  # a number would be a size
        raise TypeError("a bytearray is expected to be made of bytes")
    return bytearray(data if isinstance(data, bytes) else data.encode("latin-1"))


def _make_empty_bytes() -> bytes:
    return b""


def _resolve(value: Any, done: dict[int, Any]) -> Any:
    """The value with its arrays in place, each object once however often it is referred to."""
    if isinstance(value, _LEAVES):
        return value
    if id(value) not in done:
        done[id(value)] = value  # a list that holds itself meets itself here
        done[id(value)] = _resolve_new(value, done)
    return done[id(value)]


def _resolve_new(value: Any, done: dict[int, Any]) -> Any:
    if isinstance(value, _Array) and value.array is not None:
        return value.array
    if type(value) is list:
        value[:] = [_resolve(item, done) for item in value]
        return value
    if type(value) in (tuple, set, frozenset):
        return type(value)([_resolve(item, done) for item in value])
    if type(value) is dict:
        return {_resolve(key, done): _resolve(item, done) for key, item in value.items()}
    raise ValueError(f"the pickle holds a {type(value).__name__}, which is not plain data")


_BUILTINS = ("builtins", "__builtin__")  # protocols 3 and up, and those before
_CORE = ("numpy.core", "numpy._core")  # before NumPy 2, and since
_ALLOWED: dict[tuple[str, str], _Call] = {
    ("numpy", "dtype"): _Call(_Dtype),
    ("numpy", "ndarray"): _Call(_Array),
    ("_codecs", "encode"): _Call(_encode),
    **{(module, "bytearray"): _Call(_make_bytearray) for module in _BUILTINS},
    **{(module, "bytes"): _Call(_make_empty_bytes) for module in _BUILTINS},
    **{(module, "complex"): _Call(complex) for module in _BUILTINS},
    **{(module, "set"): _Call(set) for module in _BUILTINS},
    **{(module, "frozenset"): _Call(frozenset) for module in _BUILTINS},
    **{(f"{core}.numeric", "_frombuffer"): _Call(_make_array) for core in _CORE},
    **{(f"{core}.multiarray", "_reconstruct"): _Call(_Array) for core in _CORE},
    **{(f"{core}.multiarray", "scalar"): _Call(_make_scalar) for core in _CORE},
}
