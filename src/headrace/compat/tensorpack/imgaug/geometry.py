"""Augmentors of size and place. OpenCV does the resizing, as it did there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from headrace.compat.tensorpack.imgaug.augmentor import (
    Applied,
    Apply,
    AugmentorList,
    Image,
    ImageAugmentor,
    Transform,
    get_rng,
)
from headrace.errors import MissingExtraError

try:
    import cv2
except ImportError as error:
    raise MissingExtraError("cv2", "tensorpack") from error


def resize(image: Image, height: int, width: int, interp: int) -> Image:
    """Resize with OpenCV, and restore a last axis of length one, which OpenCV drops."""
    out = cv2.resize(image, (width, height), interpolation=interp)
    return out[:, :, np.newaxis] if image.ndim == 3 and out.ndim == 2 else out


def crop(image: Image, top: int, left: int, height: int, width: int) -> Image:
    """Return a view of a rectangle that must lie inside the image."""
    if top < 0 or left < 0 or top + height > image.shape[0] or left + width > image.shape[1]:
        raise ValueError(f"a crop of {height}x{width} does not fit {image.shape[:2]}")
    return image[top : top + height, left : left + width]


def crop_box(box: tuple[int, int, int, int], image: Image) -> Image:
    """Call `crop` with the rectangle first."""
    return crop(image, *box)


def as_shape(shape: int | Sequence[int]) -> tuple[int, int]:
    """Return (height, width); one number means a square."""
    if isinstance(shape, (int, np.integer)):
        return int(shape), int(shape)
    return shape[0], shape[1]


@dataclass
class Resize(ImageAugmentor):
    """Resize to (height, width)."""

    shape: int | Sequence[int]
    interp: int = cv2.INTER_LINEAR

    def draw(self, image: Image) -> Apply:
        height, width = as_shape(self.shape)
        return lambda other: resize(other, height, width, self.interp)


@dataclass
class ResizeShortestEdge(ImageAugmentor):
    """Resize the shorter edge to `size`, keeping the aspect ratio."""

    size: int
    interp: int = cv2.INTER_LINEAR

    def draw(self, image: Image) -> Apply:
        height, width = image.shape[:2]
        scale = self.size / min(height, width)
        new = (self.size, int(scale * width + 0.5))
        if height > width:
            new = (int(scale * height + 0.5), self.size)
        return lambda other: resize(other, *new, self.interp)


@dataclass
class CenterCrop(ImageAugmentor):
    """Crop the centre."""

    crop_shape: int | Sequence[int]

    def draw(self, image: Image) -> Apply:
        height, width = as_shape(self.crop_shape)
        top = (image.shape[0] - height) // 2
        left = (image.shape[1] - width) // 2
        return lambda other: crop(other, top, left, height, width)


@dataclass
class RandomCrop(ImageAugmentor):
    """Crop a rectangle at a random position."""

    crop_shape: int | Sequence[int]

    def draw(self, image: Image) -> Apply:
        height, width = as_shape(self.crop_shape)
        rng = get_rng()
        top = int(rng.integers(0, max(1, image.shape[0] - height + 1)))
        left = int(rng.integers(0, max(1, image.shape[1] - width + 1)))
        return lambda other: crop(other, top, left, height, width)


@dataclass
class GoogleNetRandomCropAndResize(ImageAugmentor):
    """A rectangle of random area and aspect, resized to a square: ten tries, else the middle."""

    crop_area_fraction: tuple[float, float] = (0.08, 1.0)
    aspect_ratio_range: tuple[float, float] = (0.75, 1.333)
    target_shape: int = 224
    interp: int = cv2.INTER_LINEAR

    def get_transform(self, image: Image) -> Transform:
        for _ in range(10):
            box = self._draw_box(*image.shape[:2])
            if box is not None:
                return Applied((partial(crop_box, box), self._resize))
        middle = ResizeShortestEdge(self.target_shape, self.interp)
        return AugmentorList([middle, CenterCrop(self.target_shape)]).get_transform(image)

    def _draw_box(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        rng = get_rng()
        area = rng.uniform(*self.crop_area_fraction) * height * width
        aspect = rng.uniform(*self.aspect_ratio_range)
        w, h = int((area * aspect) ** 0.5 + 0.5), int((area / aspect) ** 0.5 + 0.5)
        if rng.random() < 0.5:
            w, h = h, w
        if h > height or w > width:
            return None
        left, top = int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1))
        return top, left, h, w

    def _resize(self, image: Image) -> Image:
        return resize(image, self.target_shape, self.target_shape, self.interp)


@dataclass
class Flip(ImageAugmentor):
    """Mirror left to right or top to bottom with probability `prob`."""

    horiz: bool = False
    vert: bool = False
    prob: float = 0.5

    def __post_init__(self) -> None:
        if self.horiz == self.vert:
            raise ValueError("Flip needs exactly one of horiz and vert; use two Flips for both")

    def draw(self, image: Image) -> Apply:
        if get_rng().random() >= self.prob:
            return lambda same: same
        axis = 1 if self.horiz else 0
        return lambda other: np.ascontiguousarray(np.flip(other, axis))
