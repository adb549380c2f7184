"""What the core has taken over of a transform so far, and what an image is after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.render import Output
from headrace.render.options import BYTES
from headrace.serve.recipe import ORDER, Recipe, compile_recipe
from headrace.serve.torchvision import AsBytes, AsFloats, Form, Keep, Meaning, Several, Standardize
from headrace.serve.transforms import (
    CenterCrop,
    ColorJitter,
    Lighting,
    Normalize,
    RandomResizedCrop,
    Resize,
    Transform,
)


@dataclass(frozen=True)
class Taken:
    """What the core has taken over so far, and what an image is then."""

    transforms: tuple[Transform, ...] = ()
    form: Form = "pil"
    image: bool = False
    """Whether a tensor is of torchvision's own class."""
    output: Output = BYTES

    def add(self, meaning: Meaning) -> Taken | str:
        """Return this with one step more, or why the core cannot do it after the others."""
        if isinstance(meaning, Several):
            return self._add_all(meaning.meanings)
        if isinstance(meaning, AsBytes):
            return replace(self, form="bytes", image=meaning.image)
        if isinstance(meaning, AsFloats):
            output = Output("float32", reciprocal=meaning.reciprocal)
            return replace(self, form="floats", output=output)
        if isinstance(meaning, Standardize):
            if self._is_normalised():
                return "the core normalises once"
            return replace(self, output=replace(self.output, mean=meaning.mean, std=meaning.std))
        if isinstance(meaning, Keep):
            return replace(self, image=self.image and not meaning.pure)
        if isinstance(meaning, Normalize):
            output = Output(meaning.dtype, meaning.mean, meaning.std)
            if self.form != "pil":
                return "the core normalises once"
            return replace(self, form="floats", output=output)
        if isinstance(meaning, CenterCrop) and self._is_normalised():
            return "after Normalize it would fill up with zeros, and the core with black"
        if not _fits(meaning, {type(taken) for taken in self.transforms}):
            return "the core crops once and first, then flips once and changes colours once"
        return replace(self, transforms=(*self.transforms, meaning))

    def _add_all(self, meanings: Sequence[Meaning]) -> Taken | str:
        taken = self
        for meaning in meanings:
            more = taken.add(meaning)
            if isinstance(more, str):
                return more
            taken = more
        return taken

    def _is_normalised(self) -> bool:
        return any(self.output.mean) or self.output.std != (1.0, 1.0, 1.0)

    def compile(self, common_size: tuple[int, int] | None, *, any_size: bool = False) -> Recipe:
        """Return the recipe. Flips go before colours, which gives the same: no colour depends on place."""
        ordered = sorted(self.transforms, key=lambda step: ORDER.index(type(step)))
        return compile_recipe(ordered, common_size, any_size=any_size)


def _fits(meaning: Transform, before: set[type]) -> bool:
    if isinstance(meaning, (RandomResizedCrop, Resize)):
        return not before
    if isinstance(meaning, CenterCrop):
        return before <= {Resize}
    if isinstance(meaning, ColorJitter) and Lighting in before:
        return False
    return type(meaning) not in before
