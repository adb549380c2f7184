"""Boxes that mark objects: convert them to (left, top, right, bottom), and find those worth keeping.

The arithmetic is torchvision's on float32 boxes, so that the results are equal to the last bit.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float32]
"""float32[P, 4]."""


def to_xyxy(boxes: Boxes, form: Literal["xyxy", "xywh", "cxcywh"]) -> Boxes:
    """Return boxes as (left, top, right, bottom).

    Args:
        boxes: float32[P, 4].
        form: what their numbers are: `xyxy`, `xywh` (left, top, width, height) or `cxcywh` (centre, width, height).
    """
    if form not in ("xyxy", "xywh", "cxcywh"):
        raise ValueError(f"format is {form!r}: give 'xyxy', 'xywh' or 'cxcywh'")
    first, second = boxes[:, :2], boxes[:, 2:]
    if form == "xyxy":
        return boxes
    with np.errstate(over="ignore", invalid="ignore"):
        begin = first - second / np.float32(2) if form == "cxcywh" else first
        return np.concatenate([begin, second + begin], axis=1)


def keep_boxes(
    boxes: Boxes,
    samples: NDArray[np.int64],
    heights: NDArray[np.int64],
    widths: NDArray[np.int64],
    min_size: float = 1.0,
    min_area: float = 1.0,
) -> NDArray[np.bool_]:
    """Return which boxes torchvision's `SanitizeBoundingBoxes` keeps.

    Args:
        boxes: float32[P, 4] (left, top, right, bottom).
        samples: int64[P], the sample that each box belongs to.
        heights: int64[B], heights of the images.
        widths: int64[B], widths of the images.
        min_size: least width and height of a box, in pixels.
        min_area: least area of a box, in pixels.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        sides = boxes[:, 2:] - boxes[:, :2]
        large = (sides >= np.float32(min_size)).all(axis=1)
        large &= sides[:, 0] * sides[:, 1] >= np.float32(min_area)
    limits = np.stack([widths, heights], axis=1).astype(np.float32)[samples]
    inside = (boxes >= 0).all(axis=1) & (boxes <= np.tile(limits, 2)).all(axis=1)
    kept: NDArray[np.bool_] = large & inside
    return kept
