"""GulpIO's transforms of frames, NumPy arrays [H, W, 3] or [H, W].

Transforms whose name ends in `Video` take a list of frames and draw once for all of them, from `random`.
Lists are not changed; crops are views of their frames.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import MissingExtraError

__all__ = [
    "CenterCrop",
    "Compose",
    "ComposeVideo",
    "JitterCrop",
    "JitterCropVideo",
    "Normalize",
    "RandHorFlipVideo",
    "RandVerFlipVideo",
    "RandomCrop",
    "RandomCropVideo",
    "Scale",
    "UnitNorm",
]

Frame = NDArray[Any]
_BILINEAR = 1  # cv2.INTER_LINEAR
_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}  # cv2.BORDER_...


class Compose:
    """Apply transforms one after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img


class ComposeVideo:
    """Apply transforms of frames to every frame, and after them transforms of the list.

    ComposeVideo([Scale(96)], [RandomCropVideo(84), RandHorFlipVideo()])
    """

    def __init__(
        self,
        img_transforms: Sequence[Callable[[Any], Any]] = (),
        video_transforms: Sequence[Callable[[Any], Any]] = (),
    ) -> None:
        self.img_transforms, self.video_transforms = img_transforms, video_transforms

    def __call__(self, imgs: Sequence[Any]) -> Any:
        each = Compose(self.img_transforms)
        return Compose(self.video_transforms)([each(img) for img in imgs])


class RandHorFlipVideo:
    """Mirror all frames left to right, or none, each with a probability of one half."""

    def __call__(self, imgs: Sequence[Frame]) -> list[Frame]:
        if random.random() < 0.5:
            return [np.ascontiguousarray(img[:, ::-1]) for img in imgs]
        return list(imgs)


class RandVerFlipVideo:
    """Turn all frames upside down, or none, each with a probability of one half."""

    def __call__(self, imgs: Sequence[Frame]) -> list[Frame]:
        if random.random() < 0.5:
            return [np.ascontiguousarray(img[::-1]) for img in imgs]
        return list(imgs)


class Normalize:
    """Return (x - mean) / (std + 1e-8) of an array with channels last, whose levels are not scaled before."""

    def __init__(self, mean: Any, std: Any) -> None:
        self.mean, self.std = np.array(mean), np.array(std)

    def __call__(self, tensor: Frame) -> Frame:
        result: Frame = (tensor - self.mean) / (self.std + 1e-8)
        return result


class UnitNorm:
    """Normalize by the mean and the standard deviation of the array itself."""

    def __call__(self, tensor: Frame) -> Frame:
        result: Frame = (tensor - tensor.mean()) / (tensor.std() + 1e-8)
        return result


class Scale:
    """Resize by OpenCV, bilinear, which does not smooth before it shrinks.

    Args:
        size: The shorter side; or (width, height).
        interpolation: A constant of OpenCV.
    """

    def __init__(self, size: int | Sequence[int], interpolation: int = _BILINEAR) -> None:
        self.size, self.interpolation = size, interpolation

    def __call__(self, img: Frame) -> Frame:
        height, width = img.shape[:2]
        if isinstance(self.size, int):
            shorter = min(height, width)
            target = int(self.size * width / shorter), int(self.size * height / shorter)
        else:
            target = self.size[0], self.size[1]
        return img if target == (width, height) else _resize(img, target, self.interpolation)


def _resize(img: Frame, size: tuple[int, int], interpolation: int) -> Frame:
    try:
        import cv2
    except ImportError:
        raise MissingExtraError("cv2", "gulpio") from None
    result: Frame = cv2.resize(img, size, interpolation=interpolation)
    return result


class CenterCrop:
    """Take the middle of a frame. A smaller one is enlarged first, until it is large enough.

    Args:
        size: The side, or (height, width).
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = _read_size(size)

    def __call__(self, img: Frame) -> Frame:
        height, width = self.size
        if img.shape[0] < height or img.shape[1] < width:
            scale = max(height / img.shape[0], width / img.shape[1])
            larger = (max(int(img.shape[1] * scale), width), max(int(img.shape[0] * scale), height))
            img = _resize(img, larger, _BILINEAR)
        left, top = round((img.shape[1] - width) / 2), round((img.shape[0] - height) / 2)
        return img[top : top + height, left : left + width]


class RandomCropVideo:
    """Take a random part, the same of all frames.

    Args:
        size: The side, or (height, width).
        padding: Pixels added on each side before, which the crop may reach; or (left, top, right, bottom).
        pad_method: A border constant of OpenCV. Default: black.
    """

    def __init__(
        self, size: int | Sequence[int], padding: int | Sequence[int] = 0, pad_method: int = 0
    ) -> None:
        self.size, self.padding, self.pad_method = _read_size(size), padding, pad_method

    def __call__(self, imgs: Sequence[Frame]) -> list[Frame]:
        return _crop_alike(imgs, *self.size, self.padding, self.pad_method)


class RandomCrop(RandomCropVideo):
    """Take a random part of one frame; the arguments are those of `RandomCropVideo`."""

    def __call__(self, imgs: Any) -> Any:
        return super().__call__([imgs])[0]


class JitterCropVideo:
    """Take a random part of random size, the same of all frames. Width and height are drawn independently.

    Args:
        sample_sizes: The sides to choose from.
        padding: Pixels added on each side before; or (left, top, right, bottom).
    """

    def __init__(
        self,
        sample_sizes: Sequence[int] = (256, 224, 192, 168),
        padding: int | Sequence[int] = 0,
    ) -> None:
        self.sample_sizes, self.padding = sample_sizes, padding

    def __call__(self, imgs: Sequence[Frame]) -> list[Frame]:
        width, height = (random.choice(self.sample_sizes) for _ in range(2))
        return _crop_alike(imgs, height, width, self.padding, 0)


class JitterCrop(JitterCropVideo):
    """Take a random part of random size of one frame; the arguments are those of `JitterCropVideo`."""

    def __call__(self, imgs: Any) -> Any:
        return super().__call__([imgs])[0]


def _read_size(size: int | Sequence[int]) -> tuple[int, int]:
    return (size[0], size[1]) if isinstance(size, Sequence) else (int(size), int(size))


def _crop_alike(
    imgs: Sequence[Frame], height: int, width: int, padding: int | Sequence[int], method: int
) -> list[Frame]:
    """Return the same random part of all frames, which are padded first."""
    imgs = [_pad(img, padding, method) for img in imgs]
    below, right = (side - part for side, part in zip(imgs[0].shape, (height, width)))
    if below < 0 or right < 0:
        raise ValueError(
            f"a crop of {width}×{height} does not fit into frames of {imgs[0].shape[1]}×{imgs[0].shape[0]}"
        )
    left, top = random.randint(0, right), random.randint(0, below)
    return [img[top : top + height, left : left + width] for img in imgs]


def _pad(img: Frame, padding: int | Sequence[int], method: int) -> Frame:
    left, top, right, bottom = [padding] * 4 if isinstance(padding, int) else padding
    if not any((left, top, right, bottom)):
        return img
    sides = [(top, bottom), (left, right), (0, 0)][: img.ndim]
    mode: Any = _BORDERS[method]
    return np.pad(img, sides, mode)
