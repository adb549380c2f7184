"""A list of transforms, compiled: what to draw for a batch and what to ask of the native core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace import plan
from headrace.plan import Stream, draw_uniforms
from headrace.render import Color, Output, Resample, Window
from headrace.render.options import MAX_SIDE
from headrace.serve.transforms import (
    CenterCrop,
    ColorJitter,
    Lighting,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Transform,
)

# Eigenvectors times eigenvalues of the colours of ImageNet's training images, in levels of 255.
_PRINCIPAL_COLOURS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
) * np.array([0.2175, 0.0188, 0.0045])


Sizes = NDArray[np.int64]
_MOST_PIXELS = 2 * 89_478_485
"""Of a batch that has the size of its image: Pillow refuses larger images."""

ORDER: tuple[type[Transform], ...] = (
    RandomResizedCrop,
    Resize,
    CenterCrop,
    RandomHorizontalFlip,
    ColorJitter,
    Lighting,
    Normalize,
)
"""In which the core takes transforms, each once."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """What render_batch needs to know of a batch besides its bytes."""

    boxes: NDArray[np.int32]
    window: Window | None = None
    flips: NDArray[np.bool_] | None = None
    color: Color | None = None
    sizes: Sizes | None = None
    """int64[B, 2], height and width of each result, in batches of one; None if all have the size of the recipe."""

    def take(self, rows: slice) -> Drawn:
        """Return what was drawn for some of the samples."""
        return Drawn(
            self.boxes[rows],
            None if self.window is None else self.window.take(rows),
            None if self.flips is None else self.flips[rows],
            None if self.color is None else self.color.take(rows),
            None if self.sizes is None else self.sizes[rows],
        )


@dataclass(frozen=True)
class Draw:
    """The randomness of a batch: of which seed and epoch, and a number for each sample."""

    seed: int
    epoch: int
    ids: NDArray[np.int64]

    def uniforms(self, stream: Stream, count: int) -> NDArray[np.float64]:
        return draw_uniforms(self.seed, self.epoch, stream, self.ids, count)


T = TypeVar("T")
Crop = Callable[[Draw, Sizes, Sizes], Drawn]


@dataclass(frozen=True)
class Recipe:
    """What is done to every image; made by `compile_recipe`."""

    crop: Crop
    size: tuple[int, int]
    """That of all results, unless each has its own: see `Drawn.sizes`."""
    resample: Resample = "bilinear"
    flip: RandomHorizontalFlip | None = None
    jitter: ColorJitter | None = None
    lighting: Lighting | None = None
    output: Output = field(default_factory=Output)

    def draw(self, draw: Draw, heights: Sizes, widths: Sizes) -> Drawn:
        """Boxes, flips and colours of a batch: a pure function of its arguments."""
        drawn = self.crop(draw, heights, widths)
        if self.flip is not None:
            uniforms = draw.uniforms(Stream.FLIP, 1)[:, 0]
            drawn = replace(drawn, flips=plan.random_flip(uniforms, self.flip.p))
        return replace(drawn, color=self._draw_color(draw))

    def find_size(self, drawn: Drawn) -> tuple[int, int]:
        """Return height and width of a batch."""
        if drawn.sizes is None:
            return self.size
        ((height, width),) = drawn.sizes.tolist()
        return height, width

    def _draw_color(self, draw: Draw) -> Color | None:
        if self.jitter is None and self.lighting is None:
            return None
        factors = order = light = None
        if self.jitter is not None:
            strengths = (self.jitter.brightness, self.jitter.contrast, self.jitter.saturation)
            ranges = tuple(plan.jitter_range(strength) for strength in strengths)
            uniforms = draw.uniforms(Stream.JITTER, 6)
            factors = plan.jitter_factors(uniforms[:, :3], ranges).astype(np.float32)
            order = plan.jitter_order(uniforms[:, 3:]).astype(np.uint8)
        if self.lighting is not None:
            alphas = plan.lighting_alphas(draw.uniforms(Stream.LIGHTING, 4), self.lighting.std)
            # Not a matrix product, which rounds by the place of a sample among the others.
            light = (255 * alphas[:, None, :] * _PRINCIPAL_COLOURS).sum(axis=2).astype(np.float32)
        return Color(factors, order, light)


def compile_recipe(
    steps: Sequence[Transform], common_size: tuple[int, int] | None, *, any_size: bool = False
) -> Recipe:
    """Return the recipe of a list of transforms.

    Args:
        steps: transforms, each kind once, in their order.
        common_size: that of the images if they all have one.
        any_size: whether images of different sizes may stay so, in batches of one.
    """
    kinds = [type(step) for step in steps]
    if kinds != sorted(set(kinds), key=ORDER.index):
        raise ValueError(
            "transforms come once each and in this order: a crop, RandomHorizontalFlip, ColorJitter, "
            f"Lighting, Normalize; not {[kind.__name__ for kind in kinds]}"
        )
    normalize = _find(steps, Normalize)
    output = (
        Output() if normalize is None else Output(normalize.dtype, normalize.mean, normalize.std)
    )
    return replace(
        _compile_crop(steps, common_size, any_size),
        flip=_find(steps, RandomHorizontalFlip),
        jitter=_find(steps, ColorJitter),
        lighting=_find(steps, Lighting),
        output=output,
    )


def _find(steps: Sequence[Transform], kind: type[T]) -> T | None:
    return next((step for step in steps if isinstance(step, kind)), None)


def _compile_crop(
    steps: Sequence[Transform], common_size: tuple[int, int] | None, any_size: bool
) -> Recipe:
    random, resize = _find(steps, RandomResizedCrop), _find(steps, Resize)
    center = _find(steps, CenterCrop)
    if random is not None:
        if resize or center:
            raise ValueError("RandomResizedCrop gives the size: leave Resize and CenterCrop out")
        return Recipe(_random_crop(random), _pair(random.size), random.interpolation)
    resample: Resample = "bilinear" if resize is None else resize.interpolation
    if center is not None:
        return Recipe(_center_crop(resize, _pair(center.size)), _pair(center.size), resample)
    if any_size and common_size is None:
        return Recipe(_each_its_own(resize), (0, 0), resample)
    if resize is not None:
        size = _resized_size(resize, common_size)
        return Recipe(_whole, size, resample)
    if common_size is None:
        raise ValueError(
            "the images differ in size, or none decodes, so a batch needs a crop: "
            "transform=[RandomResizedCrop(224)], or [Resize(256), CenterCrop(224)]; or give batch_size=1"
        )
    return Recipe(_whole, common_size)


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return size if isinstance(size, tuple) else (size, size)


def _resized_size(resize: Resize, common_size: tuple[int, int] | None) -> tuple[int, int]:
    if isinstance(resize.size, tuple):
        return resize.size
    if common_size is None:
        raise ValueError(
            f"Resize({resize.size}) leaves images of different sizes; give Resize((height, width)), "
            "a CenterCrop after it, or batch_size=1"
        )
    height, width = (np.array([side]) for side in common_size)
    new = plan.resize_shorter(height, width, resize.size, resize.max_size)
    return int(new[0][0]), int(new[1][0])


def _resized_sizes(resize: Resize, heights: Sizes, widths: Sizes) -> tuple[Sizes, Sizes]:
    if isinstance(resize.size, tuple):
        return np.full_like(heights, resize.size[0]), np.full_like(widths, resize.size[1])
    return plan.resize_shorter(heights, widths, resize.size, resize.max_size)


def _random_crop(crop: RandomResizedCrop) -> Crop:
    def draw_boxes(draw: Draw, heights: Sizes, widths: Sizes) -> Drawn:
        uniforms = draw.uniforms(Stream.CROP, plan.CROP_UNIFORMS)
        boxes = plan.random_resized_crop(
            heights, widths, uniforms, scale=crop.scale, ratio=crop.ratio
        )
        return Drawn(boxes)

    return draw_boxes


def _whole(draw: Draw, heights: Sizes, widths: Sizes) -> Drawn:
    return Drawn(_whole_boxes(heights, widths))


def _whole_boxes(heights: Sizes, widths: Sizes) -> NDArray[np.int32]:
    zeros = np.zeros_like(heights)
    return np.stack([zeros, zeros, widths, heights], axis=1).astype(np.int32)


def _each_its_own(resize: Resize | None) -> Crop:
    """Draw whole images, each of its own size or resized by its own."""

    def draw_boxes(draw: Draw, heights: Sizes, widths: Sizes) -> Drawn:
        new = (heights, widths) if resize is None else _resized_sizes(resize, heights, widths)
        sizes = np.stack(new, axis=1)
        # What is too large or too thin gets no box, and is refused alone.
        possible = (sizes >= 1).all(axis=1, keepdims=True)
        possible &= sizes.prod(axis=1, keepdims=True) <= _MOST_PIXELS
        boxes = np.where(possible, _whole_boxes(heights, widths), 0).astype(np.int32)
        return Drawn(boxes, sizes=np.where(possible, sizes, 1))

    return draw_boxes


def _center_crop(resize: Resize | None, size: tuple[int, int]) -> Crop:
    def draw_boxes(draw: Draw, heights: Sizes, widths: Sizes) -> Drawn:
        new = heights, widths
        if resize is not None:
            new = _resized_sizes(resize, heights, widths)
        lefts, tops = plan.center_crop_offsets(*new, *size)
        sizes = np.stack(new, axis=1)
        # A picture too long and thin to be resized so gets no box, and is refused alone.
        possible = ((sizes >= 1) & (sizes <= MAX_SIDE)).all(axis=1, keepdims=True)
        boxes = np.where(possible, _whole_boxes(heights, widths), 0).astype(np.int32)
        window = Window(np.where(possible, sizes, 1), np.stack([lefts, tops], axis=1))
        return Drawn(boxes, window)

    return draw_boxes
