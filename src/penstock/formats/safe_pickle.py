"""Reading pickles that someone else wrote, without running anything.

In: the bytes of one pickle. Out: NumPy arrays and scalars of plain dtypes, numbers, text, bytes,
None, lists, tuples, dicts and sets of these. Guaranteed: nothing is imported, and nothing is called
but the functions below, which check what they are given; anything else is a ValueError that names
what the pickle asked for. Arrays of objects and of records are refused.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import pickletools
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
        _refuse_extensions(data)
        return _resolve(_Unpickler(io.BytesIO(data)).load())
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

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("the pickle refers to something outside itself")


def _refuse_extensions(data: bytes | bytearray | memoryview) -> None:
    """Extension codes can bypass find_class, but only once some code of this process used them."""
    if copyreg._extension_cache:  # type: ignore[attr-defined]
        for opcode, _, _ in pickletools.genops(bytes(data)):
            if opcode.name.startswith("EXT"):
                raise pickle.UnpicklingError("the pickle uses an extension code")


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


def _make_array(data: Any, dtype: Any, shape: Any, order: Any) -> npt.NDArray[Any]:
    """What numpy.core.numeric._frombuffer does, of plain dtypes only; always writable."""
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


def _copy_bytes(data: Any = b"") -> bytearray:
    if not isinstance(data, bytes):  # a number would allocate as many bytes
        raise TypeError("a bytearray is expected to be made of bytes")
    return bytearray(data)


def _resolve(value: Any) -> Any:
    """The value with its arrays in place; every object in it is of a kind that we list."""
    if isinstance(value, _LEAVES):
        return value
    if isinstance(value, _Array) and value.array is not None:
        return value.array
    if type(value) is list:
        value[:] = map(_resolve, value)
        return value
    if type(value) in (tuple, set, frozenset):
        return type(value)(map(_resolve, value))
    if type(value) is dict:
        return {_resolve(key): _resolve(item) for key, item in value.items()}
    raise ValueError(f"the pickle holds a {type(value).__name__}, which is not plain data")


_CORE = ("numpy.core", "numpy._core")  # before NumPy 2, and since
_ALLOWED: dict[tuple[str, str], _Call] = {
    ("numpy", "dtype"): _Call(_Dtype),
    ("numpy", "ndarray"): _Call(_Array),
    ("_codecs", "encode"): _Call(_encode),
    ("builtins", "bytearray"): _Call(_copy_bytes),
    ("builtins", "complex"): _Call(complex),
    ("builtins", "set"): _Call(set),
    ("builtins", "frozenset"): _Call(frozenset),
    **{(f"{core}.numeric", "_frombuffer"): _Call(_make_array) for core in _CORE},
    **{(f"{core}.multiarray", "_reconstruct"): _Call(_Array) for core in _CORE},
    **{(f"{core}.multiarray", "scalar"): _Call(_make_scalar) for core in _CORE},
}
