"""What the core does to every image: a recipe, built step by step, which draws a batch and names its target.

A recipe is a plain value: recipes compare, pickle, and go to worker processes as they are. What it draws is a
pure function of seed, epoch and the numbers of the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from headrace import plan
from headrace.plan import Stream
from headrace.recipe.geometry import GEOMETRIC, UNCHANGED, Geometry, Size, Sizes
from headrace.recipe.meanings import (
    AsBytes,
    AsFloats,
    Form,
    Keep,
    MaskType,
    Meaning,
    Several,
    Standardize,
)
from headrace.recipe.program_step import ProgramStep, draw_steps
from headrace.recipe.random_colors import ColorJitter
from headrace.recipe.random_erasing import RandomErasing
from headrace.recipe.random_moves import RandomFlip
from headrace.recipe.randomness import Randomness
from headrace.recipe.transforms import (
    CenterCrop,
    Lighting,
    Normalize,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResize,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    Sanitize,
    ThreeCrop,
    Transform,
)
from headrace.render import Color, Draws, Output, Program, Target
from headrace.render.options import BYTES

# Eigenvectors times eigenvalues of the colours of ImageNet's training images, in levels of 255.
_PRINCIPAL_COLOURS = np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]]
) * np.array([0.2175, 0.0188, 0.0045])

_OTHERS: dict[type[Transform], str] = {
    Sanitize: "sanitize",
    ColorJitter: "jitter",
    Lighting: "lighting",
}
ORDER: tuple[type[Transform], ...] = (*GEOMETRIC, *_OTHERS, Normalize)
"""The order in which the core runs transforms, each at most once."""
_SIZING = (Resize, RandomResize, Pad, CenterCrop, RandomCrop, ThreeCrop)


@dataclass(frozen=True)
class Recipe:
    """The transforms that the core runs, and what an image is afterwards.

    `add` builds it a step at a time; `fit` says which size the results have, so that it can `draw`.
    """

    geometry: Geometry = UNCHANGED
    sanitize: Sanitize | None = None
    jitter: ColorJitter | None = None
    lighting: Lighting | None = None
    program: tuple[ProgramStep, ...] = ()
    """Operations on pixels, after all of the above."""
    erasing: tuple[RandomErasing, ...] = ()
    """What is erased in the finished output."""
    output: Output = BYTES
    mask_dtype: str | None = None
    """The type that masks are converted to; None for that of their kind."""
    form: Form = "pil"
    """What a step in Python after these gets."""
    image: bool = False
    """Whether a tensor is of torchvision's own class."""

    def add(self, meaning: Meaning) -> Recipe | str:
        """Return this with one step more, or why the core cannot run it after the others."""
        if isinstance(meaning, Several):
            return self._add_all(meaning.meanings)
        if self.erasing and not isinstance(meaning, (RandomErasing, Keep, MaskType)):
            return "RandomErasing comes last in the core"
        if isinstance(meaning, ProgramStep) and not self._takes_jitter(meaning):
            return self._add_operations(meaning)
        if isinstance(meaning, AsBytes):
            return replace(self, form="bytes", image=meaning.image)
        if isinstance(meaning, MaskType):
            return replace(self, mask_dtype=meaning.dtype)
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
        if isinstance(meaning, (CenterCrop, Pad, RandomCrop)) and self._is_normalized():
            return "after Normalize it would fill up with zeros, and the core with black"
        if (flip := self._find_flip(meaning)) is not None:
            return self._add_operations(flip)
        if not self._fits(meaning):
            return "the core resizes, pads and crops once and first, then flips once and changes colours once"
        return self.put(meaning)

    def _add_operations(self, step: ProgramStep) -> Recipe | str:
        if isinstance(step, RandomErasing) and not step.pixels:
            if self.form != "floats" and not step.fits_bytes:
                return f"its value {step.value!r} is not for bytes: put it after Normalize"
            return replace(self, erasing=(*self.erasing, step))
        if self.form != "pil" and not isinstance(step, RandomFlip):
            return "the core changes pixels before it makes tensors of them"
        return replace(self, program=(*self.program, step))

    def _takes_jitter(self, step: ProgramStep) -> bool:
        """Return whether a step is a jitter that comes before all other operations, and changes no hue."""
        free = not self.program and self.jitter is None and self.lighting is None
        return type(step) is ColorJitter and free and not step.turns_hue

    def _find_flip(self, step: Transform) -> RandomFlip | None:
        """Return a flip as a step of the program, if it comes after other operations."""
        if not self.program:
            return None
        if isinstance(step, RandomHorizontalFlip):
            return RandomFlip(step.p)
        return RandomFlip(step.p, rows=True) if isinstance(step, RandomVerticalFlip) else None

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
        if isinstance(step, GEOMETRIC):
            return replace(self, geometry=self.geometry.put(step))
        changes: dict[str, Transform] = {_OTHERS[type(step)]: step}
        return replace(self, **changes)  # type: ignore[arg-type]

    def _fits(self, step: Transform) -> bool:
        """Return whether the core can run the step last. Flips may follow colours: no colour depends on place."""
        colored = self.jitter is not None or self.lighting is not None
        if isinstance(step, GEOMETRIC):
            flips = isinstance(step, (RandomHorizontalFlip, RandomVerticalFlip))
            fits = self.geometry.fits(step) and (flips or not colored)
            return fits and not self.program and self.sanitize is None and self._pads_alike(step)
        if isinstance(step, Normalize):
            return True
        if isinstance(step, Sanitize):
            return self.sanitize is None
        return (
            not self.program
            and self.lighting is None
            and getattr(self, _OTHERS[type(step)]) is None
        )

    def _pads_alike(self, step: Transform) -> bool:
        """Return whether a crop fills masks with the same label as Pad does."""
        pad = self.geometry.pad
        if pad is None or not isinstance(step, (CenterCrop, RandomCrop)):
            return True
        return pad.mask_fill == step.mask_fill

    @property
    def mask_fill(self) -> int | None:
        """The label outside of masks; None for that of their kind."""
        for step in (self.geometry.pad, self.geometry.crop):
            if isinstance(step, (Pad, CenterCrop, RandomCrop)):
                return step.mask_fill
        return None

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
        return replace(self, geometry=self.geometry.fit(common_size, any_size=any_size))

    def cover(self, size: Size, crop: Literal["center", "random"]) -> Recipe:
        """Return this for a bucket: images cover `size`, and are cropped to it. See `Geometry.cover`."""
        step = RandomCrop(size) if crop == "random" else CenterCrop(size)
        return replace(self, geometry=self.geometry.cover(size, step))

    @property
    def size(self) -> Size | None:
        """(height, width) of all results; None if each image has its own, in batches of one."""
        return self.geometry.size

    @property
    def crops(self) -> int:
        """How many views of an image there are."""
        return self.geometry.views

    def make_target(self, draws: Draws) -> Target:
        """Return the target of a batch."""
        size = self.geometry.find_size(draws)
        return Target(size, self.output, self.geometry.resample, fill=self.geometry.fill)

    def draw(self, randomness: Randomness, heights: Sizes, widths: Sizes) -> Draws:
        """Return boxes, flips and colours of images of these sizes: a pure function of its arguments.

        There are `crops` rows per image, which differ only in the part of it that they show.
        """
        draws = self.geometry.draw(randomness, heights, widths)
        color, program = self._draw_color(randomness), self._draw_program(randomness, draws)
        if color is None and program is None:
            return draws
        rows = np.repeat(np.arange(len(heights)), self.crops)
        return replace(
            draws,
            color=None if color is None else color.take(rows),
            program=None if program is None else program.take(rows),
        )

    def _draw_program(self, randomness: Randomness, draws: Draws) -> Program | None:
        """Return the operations on each image, of which the crops have the same."""
        steps = (*self.program, *self.erasing)
        if not steps:
            return None
        heights, widths = (sides[:: self.crops] for sides in self.geometry.find_sizes(draws))
        return Program(*draw_steps(steps, randomness, heights, widths).arrays())

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
    first = next((n for n, step in enumerate(steps) if _begins_program(step)), len(steps))
    rest, steps = steps[first:], steps[:first]
    kinds = [type(step) for step in steps]
    if kinds != sorted(set(kinds), key=ORDER.index):
        raise ValueError(
            "transforms come once each and in this order: a crop, RandomHorizontalFlip, RandomVerticalFlip, "
            f"Sanitize, ColorJitter, Lighting, Normalize; not {[kind.__name__ for kind in kinds]}"
        )
    if kinds[:1] == [RandomResizedCrop] and {*_SIZING} & set(kinds):
        raise ValueError("RandomResizedCrop gives the size: leave Resize, Pad and other crops out")
    crops = [kind.__name__ for kind in (CenterCrop, RandomCrop, ThreeCrop) if kind in kinds]
    if len(crops) > 1:
        raise ValueError(f"{' and '.join(crops)} both give the size: leave one of them out")
    if {Resize, RandomResize} <= set(kinds):
        raise ValueError("Resize and RandomResize both give the size: leave one of them out")
    recipe = Recipe()
    for step in steps:
        if isinstance(step, GEOMETRIC) and not recipe.geometry.fits(step):
            raise ValueError(_explain_padding(step))
        if not recipe._pads_alike(step):
            raise ValueError(f"{step} and {recipe.geometry.pad}: give both the same mask_fill")
        recipe = recipe.put(step)
    for step in rest:
        more = recipe.add(step)
        if isinstance(more, str):
            raise ValueError(  # noqa: TRY004 - the type is fine, its place is not
                f"{step} after {', '.join(type(s).__name__ for s in steps)}: {more}"
            )
        recipe, steps = more, [*steps, step]
    return recipe.fit(common_size, any_size=any_size)


def _begins_program(step: Transform) -> bool:
    """Return whether a step is one of operations on pixels, after which others may come in any order."""
    return isinstance(step, ProgramStep) and not (type(step) is ColorJitter and not step.turns_hue)


def _explain_padding(step: Transform) -> str:
    """Say why a step cannot follow Pad."""
    if isinstance(step, ThreeCrop):
        return "ThreeCrop takes images as they are: leave Pad out"
    if isinstance(step, CenterCrop):
        return f"{step} fills up with black, and Pad with another colour: give Pad the fill 0"
    return f"{step} pads with another colour than Pad: give both the same fill"
