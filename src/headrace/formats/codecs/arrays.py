"""NumPy arrays from parts that a file names: type, shape and bytes, none of them believed."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headrace.errors import SourceError

_CODE = re.compile(r"[<>|=]?(?:b1|[iu][1248]|f(?:2|4|8|16)|c(?:8|16|32)|[SU][0-9]{1,6})")
_MAX_EMPTY = 1 << 24
_MAX_DIMENSIONS = 32


def parse_dtype(code: object) -> np.dtype:
    """Return the type that a code such as `|u1` names: numbers and fixed-length text, never objects."""
    if isinstance(code, bytes):
        code = code.decode("latin-1")
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise SourceError(f"an array of type {code!r:.60}; only numbers and text are read")
    return np.dtype(code)


def build_array(
    dtype: np.dtype, shape: Sequence[object], data: bytes, *, fortran: bool = False
) -> np.ndarray:
    """Return an array over `data`, not copied and not writable. The bytes must fit the shape exactly."""
    sizes = _check_shape(dtype, shape, len(data))
    if not data:  # of empty text there may be many, and NumPy takes memory for one character each
        if math.prod(sizes) > _MAX_EMPTY:
            raise SourceError(f"an array of shape {tuple(sizes)!r:.80} of nothing")
        return np.zeros(sizes, dtype)
    return np.frombuffer(data, dtype).reshape(sizes, order="F" if fortran else "C")


def _check_shape(dtype: np.dtype, shape: Sequence[object], size: int) -> list[int]:
    """Return the shape of an array of `size` bytes. Raise SourceError if it is not one, or does not fit."""
    sizes = [n for n in shape if isinstance(n, int) and not isinstance(n, bool) and n >= 0]
    if len(sizes) != len(shape) or len(sizes) > _MAX_DIMENSIONS:
        raise SourceError(f"an array of shape {shape!r:.80}")
    if math.prod(sizes) * dtype.itemsize != size:
        raise SourceError(
            f"an array of shape {tuple(sizes)!r:.80} and type {dtype.str} in {size} bytes"
        )
    return sizes


def build_scalar(dtype: np.dtype, data: bytes) -> np.generic:
    """Return the one number or text in `data`."""
    if not dtype.itemsize and not any(data):  # NumPy gives empty text the bytes of one character
        empty: np.generic = dtype.type()
        return empty
    scalar: np.generic = build_array(dtype, (1,), data)[0]
    return scalar


def encode_npy(array: np.ndarray) -> bytes:
    """Return the array as a `.npy` file."""
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), allow_pickle=False)
    return out.getvalue()


class NpyHeader(NamedTuple):
    """What a `.npy` file says about its array, and the offset at which its bytes begin."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    start: int


def read_npy_header(data: bytes) -> NpyHeader:
    """Return the header of a `.npy` file. Raise SourceError if it is damaged, or does not fit its size."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read_header(file)
    except (ValueError, KeyError, EOFError, OSError) as error:
        raise SourceError(f"not a readable .npy: {error!s:.100}") from None
    if dtype.hasobject:
        raise SourceError(f"a .npy of dtype {dtype!s:.60}: it is not data")
    _check_shape(dtype, shape, len(data) - file.tell())
    return NpyHeader(tuple(shape), fortran, dtype, file.tell())


def decode_npy(data: bytes) -> np.ndarray:
    """Return a copy of the array in a `.npy` file. Raise SourceError if it is damaged or holds objects."""
    shape, fortran, dtype, start = read_npy_header(data)
    return build_array(dtype, shape, data[start:], fortran=fortran).copy(order="K")
