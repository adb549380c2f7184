"""The few functions and types that a pickle of plain data may name, and what each of them does.

They are tokens: nothing is looked up by a name from a file, and a call is carried out only with
arguments as NumPy and Python write them.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from headrace.errors import SourceError
from headrace.formats.codecs.arrays import build_array, build_scalar, parse_dtype


class Global(Enum):
    RECONSTRUCT = "numpy.core.multiarray._reconstruct"
    SCALAR = "numpy.core.multiarray.scalar"
    FROMBUFFER = "numpy.core.numeric._frombuffer"
    NDARRAY = "numpy.ndarray"
    DTYPE = "numpy.dtype"
    ENCODE = "_codecs.encode"
    BYTES = "builtins.bytes"
    BYTEARRAY = "builtins.bytearray"
    COMPLEX = "builtins.complex"


GLOBALS = {
    ("numpy.core.multiarray", "_reconstruct"): Global.RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): Global.RECONSTRUCT,
    ("numpy.core.multiarray", "scalar"): Global.SCALAR,
    ("numpy._core.multiarray", "scalar"): Global.SCALAR,
    ("numpy.core.numeric", "_frombuffer"): Global.FROMBUFFER,
    ("numpy._core.numeric", "_frombuffer"): Global.FROMBUFFER,
    ("numpy", "ndarray"): Global.NDARRAY,
    ("numpy", "dtype"): Global.DTYPE,
    ("_codecs", "encode"): Global.ENCODE,  # how Python 3 writes bytes in protocols 0 to 2
    ("builtins", "bytes"): Global.BYTES,  # of empty bytes, in the same protocols
    ("__builtin__", "bytes"): Global.BYTES,
    ("builtins", "bytearray"): Global.BYTEARRAY,
    ("__builtin__", "bytearray"): Global.BYTEARRAY,
    ("builtins", "complex"): Global.COMPLEX,
    ("__builtin__", "complex"): Global.COMPLEX,
}


class Dtype:
    """`numpy.dtype(code)`, whose byte order comes later by BUILD."""

    def __init__(self, code: str) -> None:
        self.code, self.order = code, ""

    def resolve(self) -> np.dtype:
        return parse_dtype(self.order + self.code)


class Unbuilt:
    """The empty array of `_reconstruct`, until BUILD gives it a content."""

    def __init__(self) -> None:
        self.memo: list[int] = []


def call_global(function: Global, arguments: tuple[Any, ...]) -> Any:
    match function, arguments:
        case Global.DTYPE, (str() | bytes() as code, *_):
            return Dtype(code if isinstance(code, str) else code.decode("latin-1"))
        case Global.RECONSTRUCT, (Global.NDARRAY, (0,), b"b" | "b"):
            return Unbuilt()
        case Global.FROMBUFFER, (bytes() as data, Dtype() as dtype, tuple() as shape, *order):
            return _from_buffer(build_array(dtype.resolve(), shape, data), order)
        case Global.SCALAR, (Dtype() as dtype, bytes() as data):
            return build_scalar(dtype.resolve(), data)
        case Global.ENCODE, (str() as text, "latin1" | "latin-1"):
            return text.encode("latin-1")
        case Global.COMPLEX, (float() as real, float() as imaginary):
            return complex(real, imaginary)
        case Global.BYTES | Global.BYTEARRAY, ():
            return b""
        case Global.BYTEARRAY, (bytes() as data,):
            return data
        case Global.BYTEARRAY, (str() as text, "latin-1" | "latin1"):
            return text.encode("latin-1")
    raise SourceError(f"a pickle that calls {function.value} with arguments NumPy never writes")


def _from_buffer(array: np.ndarray, order: list[Any]) -> np.ndarray:
    """Build an array from one of NumPy's contiguous layouts: C, Fortran, or K with the order of its axes."""
    match order:
        case ["C"]:
            return array
        case ["F"]:
            return array.ravel().reshape(array.shape, order="F")
        case ["C" | "K", tuple() as axes] if sorted(axes) == list(range(array.ndim)):
            return array.transpose(axes)
        case ["C" | "F" as letter, None]:
            return _from_buffer(array, [letter])
    raise SourceError(f"a pickle with an array in the order {order!r:.40}")


def set_byte_order(dtype: Dtype, state: tuple[Any, ...]) -> None:
    """Apply the state (version, byte order, subtype, names, fields, item size, alignment, flags, ...)."""
    order = state[1].decode("latin-1") if isinstance(state[1], bytes) else state[1]
    if order not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
        raise SourceError("a pickle with a structured array type; only numbers and text are read")
    dtype.order = order


def build_reconstructed(state: tuple[Any, ...]) -> np.ndarray:
    match state:
        case (
            int(),
            tuple() as shape,
            Dtype() as dtype,
            bool() | int() as fortran,
            bytes() as data,
        ):
            return build_array(dtype.resolve(), shape, data, fortran=bool(fortran))
    raise SourceError("a pickle with an array of objects, or one that NumPy never writes")
