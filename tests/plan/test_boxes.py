"""Boxes are converted and judged as by torchvision, to the last bit."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headrace.plan import keep_boxes, to_xyxy

torch = pytest.importorskip("torch")

FLOATS = st.floats(-100, 200, width=32) | st.integers(-3, 60).map(float)
BOXES = st.integers(0, 8).flatmap(lambda count: arrays(np.float32, (count, 4), elements=FLOATS))


@given(BOXES, st.sampled_from(["xyxy", "xywh", "cxcywh"]))
def test_formats_are_converted_as_by_torchvision(
    torchvision: ModuleType, boxes: np.ndarray, form: Any
) -> None:
    convert = torchvision.transforms.v2.functional.convert_bounding_box_format
    expected = convert(torch.from_numpy(boxes.copy()), old_format=form, new_format="xyxy")
    converted = to_xyxy(boxes, form)
    assert converted.dtype == np.float32
    np.testing.assert_array_equal(converted, expected.numpy())


@given(BOXES, st.integers(1, 60), st.integers(1, 60), st.floats(1, 9), st.floats(1, 90))
def test_boxes_are_kept_as_by_sanitize_bounding_boxes(
    torchvision: ModuleType,
    boxes: np.ndarray,
    height: int,
    width: int,
    min_size: float,
    min_area: float,
) -> None:
    sanitize = torchvision.transforms.v2.functional.sanitize_bounding_boxes
    size = {"canvas_size": (height, width), "min_size": min_size, "min_area": min_area}
    _, expected = sanitize(torch.from_numpy(boxes), format="xyxy", **size)
    samples = np.ones(len(boxes), np.int64)
    sizes = np.array([1000, height]), np.array([1000, width])
    kept = keep_boxes(boxes, samples, *sizes, min_size, min_area)
    assert kept.tolist() == expected.tolist()


def test_by_default_a_box_of_a_pixel_is_kept_and_a_smaller_one_is_not() -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 0.5], [5, 5, 4, 4], [0, 0, 11, 5]], np.float32)
    kept = keep_boxes(boxes, np.zeros(4, np.int64), np.array([10]), np.array([10]))
    assert kept.tolist() == [True, False, False, False]


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(ValueError, match=r"format is 'yxyx': give 'xyxy', 'xywh' or 'cxcywh'"):
        to_xyxy(np.zeros((1, 4), np.float32), "yxyx")  # type: ignore[arg-type]
