"""One item as frames for the network: a small JSON header, then each array's bytes as they are.

In: lists, tuples and dicts of NumPy arrays and scalars of plain dtypes, numbers, text, bytes and
None. Out: the same. Guaranteed: nothing that arrives can make the receiver run anything; every
length is checked against the bytes that are there. Pickle has no part in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

Frame: TypeAlias = "bytes | memoryview"
_DTYPE = re.compile(r"[<>|][biufcSU][0-9]{1,9}")


def encode_item(item: Any) -> list[Frame]:
    """The header and the frames. Arrays are not copied: do not change them until they are sent."""
    frames: list[Frame] = []
    tree = _encode(item, frames)
    return [json.dumps(tree, separators=(",", ":")).encode(), *frames]


def _encode(value: Any, frames: list[Frame]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        frames.append(bytes(value))
        return ["b"]
    if isinstance(value, (np.ndarray, np.generic)):
        return _encode_array(value, frames)
    if isinstance(value, dict):
        return ["d", *([_encode(k, frames), _encode(v, frames)] for k, v in value.items())]
    if isinstance(value, (list, tuple)):
        kind = "t" if isinstance(value, tuple) else "l"
        return [kind, *(_encode(entry, frames) for entry in value)]
    raise TypeError(
        f"a value of type {type(value).__name__} cannot be sent: items are lists, tuples and dicts of arrays, "
        "numbers, text and bytes"
    )


def _encode_array(value: Any, frames: list[Frame]) -> Any:
    array = np.ascontiguousarray(value)
    if not _DTYPE.fullmatch(array.dtype.str):
        raise TypeError(f"an array of dtype {array.dtype} cannot be sent: only plain numbers can")
    frames.append(array.reshape(-1).view(np.uint8).data if array.size else b"")
    kind = "a" if isinstance(value, np.ndarray) else "s"
    return [kind, array.dtype.str, list(np.shape(value))]


def decode_item(frames: Sequence[Any]) -> Any:
    """The item of frames that someone sent, or ValueError. Arrays look at the frames' memory."""
    try:
        rest = iter(frames[1:])
        item = _decode(json.loads(bytes(frames[0])), rest)
    except (TypeError, KeyError, IndexError, RecursionError, StopIteration) as error:
        raise ValueError(f"not an item: {type(error).__name__}: {error}") from error
    if next(rest, None) is not None:
        raise ValueError("not an item: more frames than its header describes")
    return item


def _decode(node: Any, frames: Iterator[Any]) -> Any:
    if not isinstance(node, list):
        return node
    kind, *rest = node
    if kind == "l":
        return [_decode(entry, frames) for entry in rest]
    if kind == "t":
        return tuple([_decode(entry, frames) for entry in rest])
    if kind == "d":
        return {_decode(key, frames): _decode(value, frames) for key, value in rest}
    if kind == "b":
        return bytes(next(frames))
    if kind in ("a", "s"):
        array = _decode_array(rest[0], rest[1], next(frames))
        return array if kind == "a" else array[()]
    raise ValueError(f"not an item: unknown kind {kind!r}")


def _decode_array(dtype: Any, shape: Any, frame: Any) -> Any:
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise ValueError(f"not an item: {dtype!r} is not a plain dtype")
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"not an item: {shape!r} is not a shape")
    if not len(frame):
        return np.zeros(shape, dtype) if 0 in shape else np.frombuffer(b"", dtype).reshape(shape)
    return np.frombuffer(frame, dtype).reshape(shape)
