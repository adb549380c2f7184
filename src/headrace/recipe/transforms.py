"""The transforms that the native core runs, as values. Names and defaults are torchvision's.

A list of them has at most one crop (`RandomResizedCrop`, or `Resize` and/or `CenterCrop` or `ThreeCrop`), then
flips and colours in the order below, and `Normalize` last. Your own functions can stand before `Normalize`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.plan import jitter_range
from headrace.render import Output, Resample
from headrace.render.options import Triple

Strength = float | tuple[float, float]

IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)


def _make_tuples(step: object, *names: str) -> None:
    """Make tuples of lists, which torchvision accepts, so that steps stay values."""
    for name in names:
        value = getattr(step, name)
        if isinstance(value, list):
            object.__setattr__(step, name, tuple(value))


def _check_pixels(name: str, size: int | tuple[int, int]) -> None:
    sides = size if isinstance(size, tuple) else (size,)
    if not all(isinstance(side, Integral) for side in sides):
        raise TypeError(f"{name} is {size}; give an integer number of pixels, or (height, width)")
    if (isinstance(size, tuple) and len(sides) != 2) or any(side < 1 for side in sides):
        raise ValueError(f"{name} is {size}; give a number of pixels, or (height, width)")


def _check_interpolation(interpolation: str) -> None:
    if interpolation not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolation is {interpolation!r}; give 'bilinear' or 'bicubic'")


@dataclass(frozen=True)
class RandomResizedCrop:
    """Crop a random part of the image, resized to `size`.

    Its share of the area is drawn from `scale`, its aspect ratio from `ratio`.
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: Resample = "bilinear"

    def __post_init__(self) -> None:
        _make_tuples(self, "size", "scale", "ratio")
        _check_pixels("size", self.size)
        _check_interpolation(self.interpolation)


@dataclass(frozen=True)
class Resize:
    """Resize the image: its shorter side to `size`, the longer at most to `max_size`; or to (height, width)."""

    size: int | tuple[int, int]
    interpolation: Resample = "bilinear"
    max_size: int | None = None

    def __post_init__(self) -> None:
        _make_tuples(self, "size")
        _check_pixels("size", self.size)
        _check_interpolation(self.interpolation)
        if self.max_size is not None:
            _check_pixels("max_size", self.max_size)
            if isinstance(self.size, tuple):
                raise ValueError(f"size is {self.size}, both sides: leave max_size out")
            if self.max_size <= self.size:
                raise ValueError(f"max_size is {self.max_size}; give more than size, {self.size}")


@dataclass(frozen=True)
class CenterCrop:
    """Crop the middle of the image, with black around it where the image is smaller."""

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        _make_tuples(self, "size")
        _check_pixels("size", self.size)


@dataclass(frozen=True)
class ThreeCrop:
    """Crop the beginning, the middle and the end of the longer side: three views of each clip, for testing.

    It follows `Clip` and a `Resize` of the shorter side. A batch of K clips has 3 K views, those of a clip one after
    the other: uint8[B, 3 * K, T, H, W, 3].
    """

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        _make_tuples(self, "size")
        _check_pixels("size", self.size)


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """Mirror the image with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ValueError(f"p is {self.p}; give a probability from 0 to 1")


@dataclass(frozen=True)
class ColorJitter:
    """Multiply brightness, contrast and saturation by random factors, in random order, as on PIL images."""

    brightness: Strength = 0.0
    contrast: Strength = 0.0
    saturation: Strength = 0.0

    def __post_init__(self) -> None:
        _make_tuples(self, "brightness", "contrast", "saturation")
        for strength in (self.brightness, self.contrast, self.saturation):
            jitter_range(strength)


@dataclass(frozen=True)
class Lighting:
    """Add AlexNet's colour noise: random amounts of ImageNet's principal colours, normal with deviation `std`."""

    std: float = 0.1

    def __post_init__(self) -> None:
        if self.std < 0:
            raise ValueError(f"std is {self.std}; give 0 or more")


@dataclass(frozen=True)
class Normalize:
    """Make floats (x / 255 - mean) / std: ToTensor and Normalize in one.

    NumPy has no bfloat16: `headrace.Loader` gives its bits as uint16, `headrace.torch.Loader` a bfloat16 tensor.
    """

    mean: Triple = IMAGENET_MEAN
    std: Triple = IMAGENET_STD
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        checked = Output(self.dtype, self.mean, self.std)
        object.__setattr__(self, "mean", checked.mean)
        object.__setattr__(self, "std", checked.std)


@dataclass(frozen=True)
class OnArray:
    """Call a function of your own with an array, uint8[H, W, 3], instead of a PIL image.

    transform=[RandomResizedCrop(224), OnArray(lambda pixels: augment(image=pixels)["image"]), Normalize()]
    """

    function: Callable[[NDArray[np.uint8]], Any]

    def __call__(self, image: Any) -> Any:
        return self.function(np.asarray(image))


Transform = (
    RandomResizedCrop
    | Resize
    | CenterCrop
    | ThreeCrop
    | RandomHorizontalFlip
    | ColorJitter
    | Lighting
    | Normalize
)
