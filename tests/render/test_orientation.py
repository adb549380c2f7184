"""Pictures that are stored turned or mirrored: rendered as if Pillow's exif_transpose came first."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from headrace.render import Draws, Jobs, RenderRequest, Status, Target, Viewport
from images import encode

ORIENTATIONS = range(1, 9)
KINDS: list[dict[str, Any]] = [
    {"subsampling": "4:2:0"},
    {"subsampling": "4:4:4"},
    {"mode": "L"},
    {"progressive": True},
    {"format": "PNG"},
]


def make_picture(orientation: int, size: tuple[int, int], **kind: Any) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(*size, seed=orientation, exif=exif, **kind)


def open_upright(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    return ImageOps.exif_transpose(image).convert("RGB")


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_crops_are_those_of_the_upright_picture(orientation: int, kind: dict[str, Any]) -> None:
    data = make_picture(orientation, (75, 101), **kind)
    upright = open_upright(data)
    rng = np.random.default_rng(orientation)
    width, height = upright.size
    boxes = [[0, 0, width, height]]
    for _ in range(20):
        w, h = int(rng.integers(1, width + 1)), int(rng.integers(1, height + 1))
        boxes.append([int(rng.integers(width - w + 1)), int(rng.integers(height - h + 1)), w, h])
    flips = rng.random(len(boxes)) < 0.5
    jobs = Jobs(
        [data] * len(boxes),
        Draws(np.array(boxes), flips=flips),
        orientations=np.full(len(boxes), orientation, np.uint8),
    )
    out, status = RenderRequest(jobs, Target((20, 24))).render()
    assert not status.any()
    for (left, top, w, h), flip, found in zip(boxes, flips, out, strict=True):
        image = upright.crop((left, top, left + w, top + h))
        expected = np.asarray(image.resize((24, 20), Image.Resampling.BILINEAR))
        assert np.array_equal(found, expected[:, ::-1] if flip else expected)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_viewports_and_decoded_pixels_are_upright_too(orientation: int) -> None:
    data = make_picture(orientation, (33, 70), format="PNG")
    upright = open_upright(data)
    width, height = upright.size
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    view = Viewport(np.array([[height, width]]), np.array([[3, -2]]))
    draws = Draws(np.array([[0, 0, width, height]]), viewport=view)
    turned = np.array([orientation], np.uint8)
    out, status = RenderRequest(Jobs([pixels], draws, orientations=turned), Target((9, 9))).render()
    expected = np.zeros((9, 9, 3), np.uint8)
    expected[2:] = np.asarray(upright)[:7, 3:12]
    assert not status.any() and np.array_equal(out[0], expected)


def test_a_box_must_lie_in_the_upright_picture() -> None:
    data = make_picture(6, (20, 30))
    turned = np.array([6, 1], np.uint8)
    draws = Draws(np.array([[0, 0, 20, 30]] * 2))
    _, status = RenderRequest(Jobs([data] * 2, draws, orientations=turned), Target((4, 4))).render()
    assert status.tolist() == [Status.OK, Status.BAD_BOX]


@pytest.mark.parametrize("orientation", [0, 9, 255])
def test_there_are_eight_orientations(orientation: int) -> None:
    draws, turned = Draws(np.array([[0, 0, 1, 1]])), np.array([orientation], np.uint8)
    with pytest.raises(ValueError, match="orientations: each from 1 to 8"):
        RenderRequest(Jobs([b""], draws, orientations=turned), Target((4, 4))).render()
