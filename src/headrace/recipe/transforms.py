"""The transforms that the native core runs, as values. Names and defaults are torchvision's.

A list begins with `RandomResizedCrop`; or with `Resize` or `RandomResize`, then `Pad`, then `CenterCrop` or
`RandomCrop` (`ThreeCrop` for clips, without `Pad`), each of which may be left out. Flips, `Sanitize`, `ColorJitter` and
`Lighting` follow in this order, then operations on pixels (`ProgramStep`) in any order, then `Normalize`, then
`RandomErasing`. Your own functions can stand before `Normalize`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal

import numpy as np

from headrace.recipe.program_step import ProgramStep
from headrace.recipe.random_colors import ColorJitter
from headrace.recipe.schedule import Schedule
from headrace.render import Output, Resample
from headrace.render.options import Triple

Sides = tuple[int, int, int, int]
Level3 = tuple[int, int, int]

IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)


def _make_tuples(step: object, *names: str) -> None:
    """Make tuples of lists, which torchvision accepts, so that steps stay values."""
    for name in names:
        value = getattr(step, name)
        if isinstance(value, list):
            object.__setattr__(step, name, tuple(value))


def _check_pixels(name: str, size: int | tuple[int, int] | Schedule) -> None:
    if isinstance(size, Schedule):
        for _, own in size.sizes:
            _check_pixels(name, own)
        return
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

    size: int | tuple[int, int] | Schedule
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

    size: int | tuple[int, int] | Schedule
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
            if isinstance(self.size, Schedule):
                raise ValueError("size is a Schedule: leave max_size out")
            if self.max_size <= self.size:
                raise ValueError(f"max_size is {self.max_size}; give more than size, {self.size}")


@dataclass(frozen=True)
class RandomResize:
    """Resize the image to a random size, with its aspect ratio.

    Two floats are factors of its height and width, between which one is drawn uniformly: `RandomResize(0.5, 2.0)`. Two
    integers are for its shorter side, as in torchvision: the smallest number of pixels, and the first that is too large.
    """

    low: int | float
    high: int | float
    interpolation: Resample = "bilinear"

    def __post_init__(self) -> None:
        _check_interpolation(self.interpolation)
        if isinstance(self.low, Integral) != isinstance(self.high, Integral):
            raise TypeError(
                f"RandomResize({self.low}, {self.high}): give two factors, such as 0.5 and 2.0, or two numbers of pixels"
            )
        if not 0 < self.low <= self.high or (self.in_pixels and self.low == self.high):
            raise ValueError(
                f"RandomResize({self.low}, {self.high}): give positive numbers, the smaller first"
            )

    @property
    def in_pixels(self) -> bool:
        """Whether the bounds are numbers of pixels."""
        return isinstance(self.low, Integral)


def _read_padding(padding: int | tuple[int, ...]) -> Sides:
    """Return the padding as (left, top, right, bottom), from the one, two or four numbers that torchvision takes."""
    sides = padding if isinstance(padding, tuple) else (padding,)
    if len(sides) not in (1, 2, 4) or not all(isinstance(side, Integral) for side in sides):
        raise ValueError(
            f"padding is {padding}; give a number of pixels, (left and right, top and bottom), or (left, top, right, bottom)"
        )
    if min(sides) < 0:
        raise ValueError(f"padding is {padding}; give no negative numbers of pixels")
    left, top, right, bottom = (*sides, *sides, *sides, *sides)[:4]
    return left, top, right, bottom


def _check_mask_fill(fill: int | None) -> None:
    if fill is not None and not isinstance(fill, Integral):
        raise ValueError(f"mask_fill is {fill!r}; give a label, or None for that of the mask")


def _read_fill(fill: int | Level3) -> Level3:
    """Return the colour of a `fill`."""
    levels = fill if isinstance(fill, tuple) else (fill, fill, fill)
    if len(levels) != 3 or not all(isinstance(v, Integral) and 0 <= v <= 255 for v in levels):
        raise ValueError(f"fill is {fill}; give a level from 0 to 255, or (red, green, blue)")
    return levels


@dataclass(frozen=True)
class Pad:
    """Add pixels of the colour `fill` around the image, and of the label `mask_fill` around masks.

    `padding` is for all sides; or (left and right, top and bottom); or (left, top, right, bottom). The default of
    `mask_fill` is the fill of the mask, 255.
    """

    padding: int | tuple[int, ...]
    fill: int | Level3 = 0
    mask_fill: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _make_tuples(self, "padding", "fill")
        _read_padding(self.padding)
        _read_fill(self.fill)
        _check_mask_fill(self.mask_fill)

    @property
    def sides(self) -> Sides:
        """The pixels that are added at the left, the top, the right and the bottom."""
        return _read_padding(self.padding)

    @property
    def color(self) -> Level3:
        """The colour that is added."""
        return _read_fill(self.fill)


@dataclass(frozen=True)
class RandomCrop:
    """Crop a random part of the image, of the given size, after `padding` of the colour `fill` is added (see `Pad`).

    With `pad_if_needed`, an image smaller than the crop is padded on both sides; without it, it is a bad sample.
    Masks are padded with `mask_fill`; the default is the fill of the mask, 255.
    """

    size: int | tuple[int, int] | Schedule
    padding: int | tuple[int, ...] | None = None
    pad_if_needed: bool = False
    fill: int | Level3 = 0
    mask_fill: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _make_tuples(self, "size", "padding", "fill")
        _check_pixels("size", self.size)
        _read_padding(self.padding or 0)
        _read_fill(self.fill)
        _check_mask_fill(self.mask_fill)

    @property
    def sides(self) -> Sides:
        """The pixels that are added at the left, the top, the right and the bottom, whatever the size of the image."""
        return _read_padding(self.padding or 0)

    @property
    def color(self) -> Level3:
        """The colour that is added."""
        return _read_fill(self.fill)


@dataclass(frozen=True)
class CenterCrop:
    """Crop the middle of the image, with black around it where the image is smaller.

    Masks have `mask_fill` there; the default is the fill of the mask, 255.
    """

    size: int | tuple[int, int] | Schedule
    mask_fill: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _make_tuples(self, "size")
        _check_pixels("size", self.size)
        _check_mask_fill(self.mask_fill)


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
class RandomVerticalFlip:
    """Turn the image upside down with probability `p`."""

    p: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ValueError(f"p is {self.p}; give a probability from 0 to 1")


@dataclass(frozen=True)
class Sanitize:
    """Drop boxes that are too small after the crop, with the labels and other columns that belong to them.

    It comes after all geometric steps. A sample without boxes stays a sample.

    Args:
        min_size: least width and height of a box, in pixels.
        min_area: least area of a box, in pixels.
    """

    min_size: float = 1.0
    min_area: float = 1.0

    def __post_init__(self) -> None:
        for name in ("min_size", "min_area"):
            if not getattr(self, name) > 0:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; give a positive number of pixels"
                )


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

    If samples have masks or other fields beside the image, the function gets all of them as keyword arguments and
    returns a dict, as albumentations does: `OnArray(A.Compose([...]))` with `fields=("image", "mask")`.
    """

    function: Callable[..., Any]

    def __call__(self, image: Any) -> Any:
        if isinstance(image, dict):
            return self.function(**{name: _as_array(value) for name, value in image.items()})
        return self.function(np.asarray(image))


@dataclass(frozen=True)
class Cover:
    """Resize the image with its aspect ratio to the smallest size that covers (height, width). For `Buckets` only."""

    size: tuple[int, int]
    interpolation: Resample = "bilinear"


def _as_array(value: Any) -> Any:
    """Return an image or a target as an array [H, W, ...]; text and the like as it is."""
    if isinstance(value, (str, bytes, list)):
        return value
    array = np.asarray(value)
    is_planar = type(value).__name__ == "Mask" and array.ndim == 3
    return np.moveaxis(array, 0, -1) if is_planar else array


Transform = (
    RandomResizedCrop
    | Resize
    | RandomResize
    | Pad
    | CenterCrop
    | RandomCrop
    | ThreeCrop
    | RandomHorizontalFlip
    | RandomVerticalFlip
    | Sanitize
    | ColorJitter
    | Lighting
    | Normalize
    | ProgramStep
)
