"""What the core does to every image: a recipe, built step by step, which draws a batch and names its target.

A recipe is a plain value: recipes compare, pickle, and go to worker processes as they are. What it draws is a
pure function of seed, epoch and the numbers of the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace import plan
from headrace.plan import Stream
from headrace.recipe.randomness import Randomness
from headrace.recipe.torchvision import AsBytes, AsFloats, Form, Keep, Meaning, Several, Standardize
from headrace.recipe.transforms import (
    CenterCrop,
    ColorJitter,
    Lighting,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ThreeCrop,
    Transform,
)
from headrace.render import Color, Draws, Output, Resample, Target, Viewport
from headrace.render.draws import MAX_SIDE
from headrace.render.options import BYTES

# Eigenvectors times eigenvalues of the colours of ImageNet's training images, in levels of 255.
_PRINCIPAL_COLOURS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
) * np.array([0.2175, 0.0188, 0.0045])

Sizes = NDArray[np.int64]
Size = tuple[int, int]
_MOST_PIXELS = 2 * 89_478_485
"""The most pixels of an image that keeps its own size: Pillow refuses larger images."""

_FIELDS: dict[type[Transform], str] = {
    RandomResizedCrop: "random_crop",
    Resize: "resize",
    CenterCrop: "center_crop",
    ThreeCrop: "three_crop",
    RandomHorizontalFlip: "flip",
    ColorJitter: "jitter",
    Lighting: "lighting",
}
ORDER: tuple[type[Transform], ...] = (*_FIELDS, Normalize)
"""The order in which the core runs transforms, each at most once."""


@dataclass(frozen=True)
class Recipe:
    """The transforms that the core runs, and what an image is afterwards.

    `add` builds it a step at a time; `fit` says which size the results have, so that it can `draw`.
    """

    random_crop: RandomResizedCrop | None = None
    resize: Resize | None = None
    center_crop: CenterCrop | None = None
    three_crop: ThreeCrop | None = None
    flip: RandomHorizontalFlip | None = None
    jitter: ColorJitter | None = None
    lighting: Lighting | None = None
    output: Output = BYTES
    form: Form = "pil"
    """What a step in Python after these gets."""
    image: bool = False
    """Whether a tensor is of torchvision's own class."""
    size: Size | None = None
    """(height, width) of all results; None if each image has its own, in batches of one."""

    def add(self, meaning: Meaning) -> Recipe | str:
        """Return this with one step more, or why the core cannot run it after the others."""
        if isinstance(meaning, Several):
            return self._add_all(meaning.meanings)
        if isinstance(meaning, AsBytes):
            return replace(self, form="bytes", image=meaning.image)
        if isinstance(meaning, AsFloats):
            output = Output("float32", reciprocal=meaning.reciprocal)
            return replace(self, form="floats", output=output)
        if isinstance(meaning, Keep):
            return replace(self, image=self.image and not meaning.pure)
        if isinstance(meaning, Standardize):
            if self._is_normalized():
                return "the core normalises once"
            return replace(self, output=replace(self.output, mean=meaning.mean, std=meaning.std))
        if isinstance(meaning, Normalize) and self.form != "pil":
            return "the core normalises once"
        if isinstance(meaning, CenterCrop) and self._is_normalized():
            return "after Normalize it would fill up with zeros, and the core with black"
        if not self._fits(meaning):
            return "the core crops once and first, then flips once and changes colours once"
        return self.put(meaning)

    def _add_all(self, meanings: Sequence[Meaning]) -> Recipe | str:
        recipe = self
        for meaning in meanings:
            more = recipe.add(meaning)
            if isinstance(more, str):
                return more
            recipe = more
        return recipe

    def put(self, step: Transform) -> Recipe:
        """Return this with the step in its place, whatever came before it."""
        if isinstance(step, Normalize):
            return replace(self, form="floats", output=Output(step.dtype, step.mean, step.std))
        changes: dict[str, Transform] = {_FIELDS[type(step)]: step}
        return replace(self, **changes)  # type: ignore[arg-type]

    def _fits(self, step: Transform) -> bool:
        """Return whether the core can run the step last. Flips may follow colours: no colour depends on place."""
        before = {kind for kind, name in _FIELDS.items() if getattr(self, name) is not None}
        if isinstance(step, (RandomResizedCrop, Resize)):
            return not before
        if isinstance(step, (CenterCrop, ThreeCrop)):
            return before <= {Resize}
        if isinstance(step, ColorJitter) and Lighting in before:
            return False
        return type(step) not in before

    def _is_normalized(self) -> bool:
        return any(self.output.mean) or self.output.std != (1.0, 1.0, 1.0)

    def fit(self, common_size: Size | None, *, any_size: bool = False) -> Recipe:
        """Return this with the size that results have.

        Args:
            common_size: The size of the images if they all have the same.
            any_size: Whether images of different sizes may keep them, in batches of one.

        Raises:
            ValueError: Results of different sizes do not make a batch.
        """
        if self.random_crop is not None:
            return replace(self, size=_pair(self.random_crop.size))
        if (crop := self.center_crop or self.three_crop) is not None:
            return replace(self, size=_pair(crop.size))
        if any_size and common_size is None:
            return replace(self, size=None)
        if self.resize is not None:
            return replace(self, size=_find_resized(self.resize, common_size))
        if common_size is None:
            raise ValueError(
                "the images differ in size, or none decodes, so a batch needs a crop: "
                "transform=[RandomResizedCrop(224)], or [Resize(256), CenterCrop(224)]; or give batch_size=1"
            )
        return replace(self, size=common_size)

    @property
    def crops(self) -> int:
        """How many views of an image there are."""
        return 1 if self.three_crop is None else 3

    @property
    def resample(self) -> Resample:
        resizing = self.random_crop or self.resize
        return "bilinear" if resizing is None else resizing.interpolation

    def make_target(self, draws: Draws) -> Target:
        """Return the target of a batch."""
        size = self.size
        if size is None:
            assert draws.viewport is not None
            height, width = draws.viewport.sizes[0].tolist()  # all jobs show the same sample
            size = height, width
        return Target(size, self.output, self.resample)

    def draw(self, randomness: Randomness, heights: Sizes, widths: Sizes) -> Draws:
        """Return boxes, flips and colours of images of these sizes: a pure function of its arguments.

        There are `crops` rows per image, which differ only in the part of it that they show.
        """
        flips = None
        if self.flip is not None:
            flips = plan.random_flip(randomness.uniforms(Stream.FLIP, 1)[:, 0], self.flip.p)
        boxes, viewport = self._draw_crops(randomness, heights, widths)
        draws = Draws(boxes, viewport, flips, self._draw_color(randomness))
        return draws if self.three_crop is None else self._spread_crops(draws)

    def _spread_crops(self, draws: Draws) -> Draws:
        """Return three draws for each one, which show the beginning, the middle and the end of the longer side."""
        assert draws.viewport is not None and self.size is not None
        heights, widths = draws.viewport.sizes.T
        offsets = np.stack(plan.three_crop_offsets(heights, widths, *self.size), axis=2)
        draws = draws.repeat(3)
        assert draws.viewport is not None
        return replace(draws, viewport=replace(draws.viewport, offsets=offsets.reshape(-1, 2)))

    def _draw_crops(
        self, randomness: Randomness, heights: Sizes, widths: Sizes
    ) -> tuple[NDArray[np.int32], Viewport | None]:
        crop, zeros = self.random_crop, np.zeros_like(heights)
        if crop is not None:
            uniforms = randomness.uniforms(Stream.CROP, plan.CROP_UNIFORMS)
            ranges = {"scale": crop.scale, "ratio": crop.ratio}
            return plan.random_resized_crop(heights, widths, uniforms, **ranges), None
        whole = np.stack([zeros, zeros, widths, heights], axis=1).astype(np.int32)
        if self.size is not None and self.center_crop is None and self.three_crop is None:
            return whole, None
        new = heights, widths
        if self.resize is not None:
            new = _resize_all(self.resize, heights, widths)
        sizes = np.stack(new, axis=1)
        # An image that is too large, or too long and thin, gets no box, and is refused alone.
        possible = ((sizes >= 1) & (sizes <= MAX_SIDE)).all(axis=1, keepdims=True)
        offsets = zeros, zeros
        if self.size is not None:
            offsets = plan.center_crop_offsets(*new, *self.size)
        else:
            possible &= sizes.prod(axis=1, keepdims=True) <= _MOST_PIXELS
        boxes = np.where(possible, whole, 0).astype(np.int32)
        return boxes, Viewport(np.where(possible, sizes, 1), np.stack(offsets, axis=1))

    def _draw_color(self, randomness: Randomness) -> Color | None:
        if self.jitter is None and self.lighting is None:
            return None
        factors = order = light = None
        if self.jitter is not None:
            strengths = (self.jitter.brightness, self.jitter.contrast, self.jitter.saturation)
            ranges = tuple(plan.jitter_range(strength) for strength in strengths)
            uniforms = randomness.uniforms(Stream.JITTER, 6)
            factors = plan.jitter_factors(uniforms[:, :3], ranges).astype(np.float32)
            order = plan.jitter_order(uniforms[:, 3:]).astype(np.uint8)
        if self.lighting is not None:
            uniforms = randomness.uniforms(Stream.LIGHTING, 4)
            alphas = plan.lighting_alphas(uniforms, self.lighting.std)
            # Not a matrix product, whose rounding depends on the place of a sample among the others.
            light = (255 * alphas[:, None, :] * _PRINCIPAL_COLOURS).sum(axis=2).astype(np.float32)
        return Color(factors, order, light)


def compile_recipe(
    steps: Sequence[Transform], common_size: Size | None, *, any_size: bool = False
) -> Recipe:
    """Return the recipe of our own transforms, given in the core's order; see `Recipe.fit`.

    Raises:
        ValueError: They are in another order, or results of different sizes do not make a batch.
    """
    kinds = [type(step) for step in steps]
    if kinds != sorted(set(kinds), key=ORDER.index):
        raise ValueError(
            "transforms come once each and in this order: a crop, RandomHorizontalFlip, ColorJitter, "
            f"Lighting, Normalize; not {[kind.__name__ for kind in kinds]}"
        )
    if kinds[:1] == [RandomResizedCrop] and {Resize, CenterCrop, ThreeCrop} & set(kinds):
        raise ValueError("RandomResizedCrop gives the size: leave Resize and other crops out")
    if {CenterCrop, ThreeCrop} <= set(kinds):
        raise ValueError("CenterCrop and ThreeCrop both give the size: leave one of them out")
    recipe = Recipe()
    for step in steps:
        recipe = recipe.put(step)
    return recipe.fit(common_size, any_size=any_size)


def _pair(size: int | Size) -> Size:
    return size if isinstance(size, tuple) else (size, size)


def _find_resized(resize: Resize, common_size: Size | None) -> Size:
    if isinstance(resize.size, tuple):
        return resize.size
    if common_size is None:
        raise ValueError(
            f"Resize({resize.size}) leaves images of different sizes; give Resize((height, width)), "
            "a CenterCrop after it, or batch_size=1"
        )
    heights, widths = _resize_all(resize, *(np.array([side]) for side in common_size))
    return int(heights[0]), int(widths[0])


def _resize_all(resize: Resize, heights: Sizes, widths: Sizes) -> tuple[Sizes, Sizes]:
    if isinstance(resize.size, tuple):
        return np.full_like(heights, resize.size[0]), np.full_like(widths, resize.size[1])
    return plan.resize_shorter(heights, widths, resize.size, resize.max_size)
