"""Which steps of a transform run where: the core first, Python between, the core again at the end.

In: the user's transform and the size of the images, if they have one. Out: a `Pipeline`. Guaranteed: what it
gives for a sample is what the steps give one after the other, given the same boxes, flips and factors;
`lines` says of every step where it runs, and of those in Python why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.render import Output
from penstock.serve.recipe import Recipe, compile_recipe
from penstock.serve.torchvision import (
    AsBytes,
    AsFloats,
    Form,
    Keep,
    Meaning,
    Standardize,
    list_steps,
    read_step,
)
from penstock.serve.transforms import (
    CenterCrop,
    ColorJitter,
    Lighting,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    Transform,
)

Step = Callable[[Any], Any]
_ORDER = (
    RandomResizedCrop,
    Resize,
    CenterCrop,
    RandomHorizontalFlip,
    ColorJitter,
    Lighting,
    Normalize,
)


_BYTES = Output()


@dataclass(frozen=True)
class Taken:
    """What the core has taken over so far, and what an image is then."""

    transforms: tuple[Transform, ...] = ()
    form: Form = "pil"
    image: bool = False
    """Whether a tensor is of torchvision's own class."""
    output: Output = _BYTES

    def add(self, meaning: Meaning) -> Taken | str:
        """With one step more, or why the core cannot do it after the others."""
        if isinstance(meaning, AsBytes):
            return replace(self, form="bytes", image=meaning.image)
        if isinstance(meaning, AsFloats):
            output = Output("float32", reciprocal=meaning.reciprocal)
            return replace(self, form="floats", output=output)
        if isinstance(meaning, Standardize):
            if any(self.output.mean) or self.output.std != (1.0, 1.0, 1.0):
                return "the core normalises once"
            return replace(self, output=replace(self.output, mean=meaning.mean, std=meaning.std))
        if isinstance(meaning, Keep):
            return replace(self, image=self.image and not meaning.pure)
        if isinstance(meaning, Normalize):
            output = Output(meaning.dtype, meaning.mean, meaning.std)
            if self.form != "pil":
                return "the core normalises once"
            return replace(self, form="floats", output=output)
        if not _fits(meaning, {type(taken) for taken in self.transforms}):
            return "the core crops once and first, then flips once and changes colours once"
        return replace(self, transforms=(*self.transforms, meaning))

    def compile(self, common_size: tuple[int, int] | None) -> Recipe:
        """The recipe. Flips go before colours, which gives the same: no colour depends on place."""
        ordered = sorted(self.transforms, key=lambda step: _ORDER.index(type(step)))
        return compile_recipe(ordered, common_size)


def _fits(meaning: Transform, before: set[type]) -> bool:
    if isinstance(meaning, (RandomResizedCrop, Resize)):
        return not before
    if isinstance(meaning, CenterCrop):
        return before <= {Resize}
    if isinstance(meaning, ColorJitter) and Lighting in before:
        return False
    return type(meaning) not in before


_NOTHING = Taken()


@dataclass(frozen=True)
class Line:
    """Where a step runs, and why there."""

    step: Any
    where: str
    why: str = ""


@dataclass(frozen=True)
class Pipeline:
    """A transform, divided.

    recipe: what the core does first, giving bytes if Python follows; None where images of different sizes
        go to Python as they are encoded.
    steps: what Python does then. entry: what its first step gets.
    output: what the core makes of images that come back from Python as bytes, in place of `last`.
    """

    recipe: Recipe | None
    entry: Taken = _NOTHING
    steps: tuple[Step, ...] = ()
    last: tuple[Step, ...] = ()
    output: Output = _BYTES
    lines: tuple[Line, ...] = ()

    @property
    def final_output(self) -> Output:
        """What images are in the end, if Python has not made something else of them."""
        return self.output if self.steps or self.recipe is None else self.recipe.output

    def leave_bytes(self) -> Pipeline:
        """The same, with what the core would normalise left in bytes, for a device to do it."""
        recipe = None if self.recipe is None else replace(self.recipe, output=Output())
        return replace(self, recipe=recipe, output=Output())


def divide_transform(
    transform: Any, common_size: tuple[int, int] | None, *, collates: bool = False
) -> Pipeline:
    """What runs where. `common_size` is that of the images if they all have one.

    With `collates`, a function of the user's own gets the samples after all steps: then none runs in
    the core after Python.
    """
    steps = list_steps(transform)
    if all(isinstance(step, Transform) for step in steps) and not collates:
        recipe = compile_recipe(steps, common_size)
        return Pipeline(recipe, lines=_core_lines(steps, "core"))
    taken, count, why = _take_first(steps)
    if count == len(steps) and not collates:
        recipe = replace(taken.compile(common_size), output=taken.output)
        return Pipeline(recipe, lines=_core_lines(steps, "core"))
    first, taken, count, why = _compile_first(taken, count, why, common_size)
    output, start = (Output(), len(steps)) if collates else _take_last(steps, count + 1)
    between = tuple(steps[count:start])
    _check_callable(between)
    lines = (
        *_core_lines(steps[:count], "core"),
        *(Line(step, "Python", why) for step in between[:1]),
        *(Line(step, "Python", "it comes after a step in Python") for step in between[1:]),
        *_core_lines(steps[start:], "core, last"),
    )
    last = tuple(step for step in steps[start:] if not isinstance(step, Normalize))
    return Pipeline(first, taken, between, last, output, lines)


def _take_first(steps: list[Any]) -> tuple[Taken, int, str]:
    """The longest beginning that the core can do, its length, and why it ends there."""
    taken = Taken()
    for count, step in enumerate(steps):
        meaning = read_step(step, taken.form)
        if isinstance(meaning, Normalize) and count + 1 < len(steps):
            meaning = "Normalize comes last"
        more = meaning if isinstance(meaning, str) else taken.add(meaning)
        if isinstance(more, str):
            return taken, count, more
        taken = more
    return taken, len(steps), ""


def _compile_first(
    taken: Taken, count: int, why: str, common_size: tuple[int, int] | None
) -> tuple[Recipe | None, Taken, int, str]:
    """The recipe of the beginning; none of it where it would leave images of different sizes."""
    try:
        return taken.compile(common_size), taken, count, why
    except ValueError:
        if common_size is not None:
            raise
        return (
            None,
            Taken(),
            0,
            why if count == 0 else "images differ in size after what the core can do",
        )


def _take_last(steps: list[Any], first: int) -> tuple[Output, int]:
    """What the core can do at the end with images of bytes, and where that begins, from `first` on."""
    for start in range(first, len(steps)):
        taken: Taken | str = Taken()
        for step in steps[start:]:
            assert isinstance(taken, Taken)
            meaning = read_step(step, taken.form)
            allowed = isinstance(meaning, (AsBytes, AsFloats, Standardize, Keep, Normalize))
            taken = taken.add(meaning) if allowed and not isinstance(meaning, str) else "not last"
            if isinstance(taken, str):
                break
        if isinstance(taken, Taken):
            return taken.output, start
    return Output(), len(steps)


def _check_callable(steps: tuple[Any, ...]) -> None:
    for step in steps:
        if isinstance(step, Transform):
            raise ValueError(  # noqa: TRY004 - the type is fine, its place is not
                f"{step!r} runs in the core, before all Python: put it at the beginning"
                + (", or at the end" if isinstance(step, Normalize) else "")
            )
        if not callable(step):
            raise TypeError(f"{step!r} in transform is not callable")


def _core_lines(steps: list[Any], where: str) -> tuple[Line, ...]:
    """Lines of steps in the core; where torchvision would resize a tensor, they say that we do as PIL does."""
    lines: list[Line] = []
    form: Form = "pil"
    for step in steps:
        meaning = read_step(step, form)
        resizes = isinstance(meaning, (RandomResizedCrop, Resize)) and form == "bytes"
        lines.append(Line(step, where, "as on PIL images" if resizes else ""))
        form = "bytes" if isinstance(meaning, AsBytes) else form
    return tuple(lines)
