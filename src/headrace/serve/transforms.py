"""What a loader can do to images in the native core, as values. Names and defaults are torchvision's.

A list of them is a recipe: at most one crop (`RandomResizedCrop`, or `Resize` and/or `CenterCrop`), then flips
and colours in the order below, `Normalize` last. Functions of your own may stand before `Normalize`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.plan import jitter_range
from headrace.render import Output

Interpolation = Literal["bilinear", "bicubic"]
Strength = float | tuple[float, float]
Triple = tuple[float, float, float]

IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)


def _make_tuples(step: object, *names: str) -> None:
    """Lists are taken as torchvision takes them; as tuples, steps stay values."""
    for name in names:
        value = getattr(step, name)
        if isinstance(value, list):
            object.__setattr__(step, name, tuple(value))


def _check_pixels(name: str, size: int | tuple[int, int]) -> None:
    sides = size if isinstance(size, tuple) else (size,)
    if not all(isinstance(side, Integral) for side in sides):
        raise TypeError(f"{name} is {size}; give a whole number of pixels, or (height, width)")
    if (isinstance(size, tuple) and len(sides) != 2) or any(side < 1 for side in sides):
        raise ValueError(f"{name} is {size}; give a number of pixels, or (height, width)")


def _check_interpolation(interpolation: str) -> None:
    if interpolation not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolation is {interpolation!r}; give 'bilinear' or 'bicubic'")


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of the image, between `scale` of its area and with an aspect in `ratio`."""

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: Interpolation = "bilinear"

    def __post_init__(self) -> None:
        _make_tuples(self, "size", "scale", "ratio")
        _check_pixels("size", self.size)
        _check_interpolation(self.interpolation)


@dataclass(frozen=True)
class Resize:
    """The whole image: its shorter side to `size`, the longer at most to `max_size`; or all of it to (height, width)."""

    size: int | tuple[int, int]
    interpolation: Interpolation = "bilinear"
    max_size: int | None = None

    def __post_init__(self) -> None:
        _make_tuples(self, "size")
        _check_pixels("size", self.size)
        _check_interpolation(self.interpolation)
        if self.max_size is not None:
            _check_pixels("max_size", self.max_size)
            if isinstance(self.size, tuple):
                raise ValueError(f"size is {self.size}, all of it: leave max_size out")
            if self.max_size <= self.size:
                raise ValueError(f"max_size is {self.max_size}; it must be above size, {self.size}")


@dataclass(frozen=True)
class CenterCrop:
    """The middle of the image, with black around it where it is smaller."""

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        _make_tuples(self, "size")
        _check_pixels("size", self.size)


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """Mirrored with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ValueError(f"p is {self.p}; a probability is from 0 to 1")


@dataclass(frozen=True)
class ColorJitter:
    """Brightness, contrast and saturation times random factors, in random order, as on PIL images."""

    brightness: Strength = 0.0
    contrast: Strength = 0.0
    saturation: Strength = 0.0

    def __post_init__(self) -> None:
        _make_tuples(self, "brightness", "contrast", "saturation")
        for strength in (self.brightness, self.contrast, self.saturation):
            jitter_range(strength)


@dataclass(frozen=True)
class Lighting:
    """AlexNet's colour noise: random amounts, normal with deviation `std`, of ImageNet's principal colours."""

    std: float = 0.1

    def __post_init__(self) -> None:
        if self.std < 0:
            raise ValueError(f"std is {self.std}; it must not be negative")


@dataclass(frozen=True)
class Normalize:
    """(x / 255 - mean) / std as floats: ToTensor and Normalize in one.

    NumPy has no bfloat16: `headrace.Loader` gives its bits as uint16, `headrace.torch.Loader` a tensor of it.
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
    """A function of your own that wants an array, uint8[H, W, 3], in place of a PIL image.

    transform=[RandomResizedCrop(224), OnArray(lambda pixels: augment(image=pixels)["image"]), Normalize()]
    """

    function: Callable[[NDArray[np.uint8]], Any]

    def __call__(self, image: Any) -> Any:
        return self.function(np.asarray(image))


Transform = (
    RandomResizedCrop
    | Resize
    | CenterCrop
    | RandomHorizontalFlip
    | ColorJitter
    | Lighting
    | Normalize
)
