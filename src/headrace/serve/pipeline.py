"""Which steps of a transform run where: the core first, Python between, the core again at the end.

In: the user's transform and the size of the images, if they have one. Out: a `Pipeline`. Guaranteed: what it
gives for a sample is what the steps give one after the other, given the same boxes, flips and factors;
`lines` says of every step where it runs, and of those in Python why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.render import Output
from headrace.serve.conversion import Converted
from headrace.serve.recipe import ORDER, Recipe, compile_recipe
from headrace.serve.taken import Taken
from headrace.serve.torchvision import (
    AsBytes,
    AsFloats,
    Form,
    Keep,
    Several,
    Standardize,
    list_steps,
    read_step,
)
from headrace.serve.transforms import Normalize, Transform

Step = Callable[[Any], Any]
_NOTHING = Taken()
_BEFORE_FLOATS: tuple[Form, ...] = ("pil", "bytes")


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
    output: Output = Taken.output
    lines: tuple[Line, ...] = ()
    normalizes: bool = False
    """Whether images that come back from Python are to be made floats, here or on a device."""

    @property
    def final_output(self) -> Output:
        """What images are in the end, if Python has not made something else of them."""
        return self.output if self.steps or self.recipe is None else self.recipe.output

    @property
    def converts(self) -> bool:
        """Whether there are steps for images after Python."""
        return self.normalizes or bool(self.last)

    def leave_bytes(self) -> Pipeline:
        """The same, with what the core would normalise left in bytes, for a device to do it."""
        recipe = None if self.recipe is None else replace(self.recipe, output=Output())
        return replace(self, recipe=recipe, output=Output())


def divide_transform(
    transform: Any,
    common_size: tuple[int, int] | None,
    *,
    collates: bool = False,
    any_size: bool = False,
) -> Pipeline:
    """Decide what runs where.

    Args:
        common_size: that of the images if they all have one.
        collates: whether a function of the user's own gets the samples after all steps: then none runs in the core
            after Python.
        any_size: whether each batch has the size of its image, as batches of one sample may.
    """
    steps = list_steps(transform)
    _check_kinds(steps)
    _check_normalize(steps)
    if all(isinstance(step, Transform) for step in steps) and not collates:
        recipe = compile_recipe(steps, common_size, any_size=any_size)
        return Pipeline(recipe, lines=_core_lines(steps, "core"))
    taken, count, why = _take_first(steps)
    if count == len(steps) and not collates:
        recipe = replace(taken.compile(common_size, any_size=any_size), output=taken.output)
        return Pipeline(recipe, lines=_core_lines(steps, "core"))
    own = any(isinstance(step, Transform) for step in steps[:count])
    first, taken, count, why = _compile_first(
        steps, taken, count, why, common_size, any_size=any_size and own
    )
    output, start = (Output(), len(steps)) if collates else _take_last(steps, count + 1)
    between = tuple(steps[count:start])
    _check_callable(between)
    joined = _join_conversions(between)
    lines = (
        *_core_lines(steps[:count], "core"),
        *_python_lines(joined, why),
        *_core_lines(steps[start:], "core, last"),
    )
    last = tuple(step for step in steps[start:] if not isinstance(step, Normalize))
    return Pipeline(first, taken, joined, last, output, lines, output.dtype != "uint8")


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
    steps: list[Any],
    taken: Taken,
    count: int,
    why: str,
    common_size: tuple[int, int] | None,
    *,
    any_size: bool,
) -> tuple[Recipe | None, Taken, int, str]:
    """The recipe of the beginning; none of it where it would leave images of different sizes."""
    try:
        return taken.compile(common_size, any_size=any_size), taken, count, why
    except ValueError:
        if common_size is not None or any(isinstance(step, Transform) for step in steps[:count]):
            raise  # our own steps run in the core or nowhere
        if 0 < count < len(steps):
            name = type(steps[count]).__name__
            why = f"without {name} images differ in size, and that is not for the core: {why}"
        elif count:
            why = "images differ in size"
        return None, Taken(), 0, why


def _take_last(steps: list[Any], first: int) -> tuple[Output, int]:
    """What the core can do at the end with images of bytes, and where that begins, from `first` on."""
    for start in range(first, len(steps)):
        taken, count = _take_conversions(steps[start:])
        if start + count == len(steps):
            return taken.output, start
    return Output(), len(steps)


def _take_conversions(steps: Sequence[Any]) -> tuple[Taken, int]:
    """How many steps from the first on only convert PIL images, and what they are then."""
    taken = Taken()
    for count, step in enumerate(steps):
        meaning = read_step(step, taken.form)
        if not isinstance(meaning, (AsBytes, AsFloats, Standardize, Keep, Normalize)):
            return taken, count
        more = taken.add(meaning)
        if isinstance(more, str):
            return taken, count
        taken = more
    return taken, len(steps)


def _join_conversions(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The same steps, those that make floats of pictures joined into one that the core does."""
    joined: list[Step] = []
    place = 0
    while place < len(steps):
        taken, count = _take_conversions(steps[place:])
        if taken.form == "floats":
            joined.append(Converted(steps[place : place + count], taken))
        else:
            count = 1
            joined.append(steps[place])
        place += count
    return tuple(joined)


def _python_lines(steps: tuple[Step, ...], why: str) -> Iterator[Line]:
    for place, step in enumerate(steps):
        if isinstance(step, Converted):
            yield from (Line(part, "core, worker") for part in step.steps)
        else:
            yield Line(step, "Python", "it comes after a step in Python" if place else why)


def _check_kinds(steps: list[Any]) -> None:
    """Refuses classes derived from our own, since the core would not do what they change."""
    for step in steps:
        if isinstance(step, Transform) and type(step) not in ORDER:
            raise TypeError(
                f"{type(step).__name__} is derived from a transform that the core does, whatever it changes: give a "
                "function of your own instead"
            )


def _check_normalize(steps: list[Any]) -> None:
    """Refuses our own Normalize right after steps that make tensors of images, which it does itself."""
    tensors = None
    for step in steps:
        if isinstance(step, Normalize) and tensors is not None:
            raise ValueError(
                f"{step!r} makes floats of images by itself: leave {tensors!r} before it out, or give torchvision's "
                "Normalize"
            )
        meanings = [read_step(step, form) for form in _BEFORE_FLOATS]
        if any(isinstance(meaning, (AsBytes, AsFloats, Several)) for meaning in meanings):
            tensors = step
        elif all(isinstance(meaning, str) for meaning in meanings):
            tensors = None  # somebody's own: it may give images again


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
    return tuple(Line(step, where) for step in steps)
