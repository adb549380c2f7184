"""One item as frames for the network: a small JSON header, then each array's bytes as they are.

Items are those of `item_codec`, with arrays of numbers and text. Guaranteed: nothing that arrives can
run code at the receiver; every length is checked against the bytes that arrived; pickle is not used.
The header is the tree of the item; the node of an array holds its dtype and shape.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from headrace.errors import SourceError
from headrace.flow.item_codec import Leaf, put_together, take_apart
from headrace.formats.codecs.arrays import build_array, parse_dtype

Frame: TypeAlias = "bytes | bytearray | memoryview"


def encode_item(item: Any) -> list[Frame]:
    """Return the header and the frames. Arrays are not copied: do not change them until they are sent."""
    tree, leaves = take_apart(item)
    frames = [_encode_leaf(leaf) for leaf in leaves]
    return [json.dumps(tree, separators=(",", ":")).encode(), *frames]


def _encode_leaf(leaf: Leaf) -> Frame:
    if not isinstance(leaf.value, np.ndarray):
        frame: Frame = leaf.value
        return frame
    array = np.ascontiguousarray(leaf.value)
    try:
        parse_dtype(array.dtype.str)
    except SourceError:
        raise TypeError(
            f"its field {leaf.path!r} has the dtype {array.dtype}: arrays of numbers and text are sent"
        ) from None
    leaf.node.extend([array.dtype.str, leaf.value.shape])
    return array.reshape(-1).view(np.uint8).data if array.size else b""


def decode_item(frames: Sequence[Any]) -> Any:
    """Return the item of received frames, or raise ValueError. Arrays are views of the frames."""
    if not frames:
        raise ValueError("not an item: it has no header")
    header, *parts = frames
    rest = iter(parts)

    def find(kind: str, *note: Any) -> Any:
        frame = next(rest, None)
        if frame is None:
            raise ValueError("not an item: its header describes more frames")
        if kind != "a":
            return frame
        dtype, shape = note
        return build_array(parse_dtype(dtype), shape, frame)

    try:
        item = put_together(json.loads(bytes(header)), find)
    except (RecursionError, OverflowError, MemoryError) as error:
        raise ValueError(f"not an item: {type(error).__name__}: {error}") from error
    if next(rest, None) is not None:
        raise ValueError("not an item: more frames than its header describes")
    return item
