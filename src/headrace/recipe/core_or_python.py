"""Which steps of a transform run where: the core first, Python between, the core again at the end.

In: the user's transform, and the size of the images if they share one. Out: a `Pipeline`. Guaranteed: a sample
becomes what the steps make of it one after the other, given the same boxes, flips and factors; `lines` says of
every step where it runs, and of steps in Python why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.recipe.clip import IMAGES, Clip, Shape
from headrace.recipe.core_recipe import ORDER, Recipe, compile_recipe
from headrace.recipe.meanings import AsBytes, AsFloats, Form, Keep, Several, Standardize
from headrace.recipe.moving_steps import moves_pixels
from headrace.recipe.pixels import Converted
from headrace.recipe.program_step import ProgramStep
from headrace.recipe.random_erasing import RandomErasing
from headrace.recipe.torchvision import list_steps, read_step
from headrace.recipe.transforms import Normalize, ThreeCrop, Transform
from headrace.render import Output
from headrace.render.options import BYTES

Step = Callable[[Any], Any]
_NOTHING = Recipe()
_BEFORE_FLOATS: tuple[Form, ...] = ("pil", "bytes")


@dataclass(frozen=True)
class Line:
    """Where a step runs, and why there."""

    step: Any
    where: str
    why: str = ""


@dataclass(frozen=True)
class Pipeline:
    """A transform, divided. Worker processes get it as it is.

    Args:
        recipe: What the core does first. It gives bytes if Python follows. None: images of different sizes
            go to Python as they are encoded.
        entry: What the core has done for the first step in Python, which gets an image of its `form`.
        steps: What Python does then.
        last: The steps after Python. The core runs them on images that come back as bytes.
        output: What the core makes of such images.
        lines: Where each step runs.
        normalizes: Whether images that come back from Python become floats, here or on a device.
        clip: Which frames of a video all steps apply to, each frame by itself. None: samples are images.
    """

    recipe: Recipe | None
    entry: Recipe = _NOTHING
    steps: tuple[Step, ...] = ()
    last: tuple[Step, ...] = ()
    output: Output = BYTES
    lines: tuple[Line, ...] = ()
    normalizes: bool = False
    clip: Clip | None = None

    @property
    def shape(self) -> Shape:
        """What a sample consists of."""
        if self.clip is None:
            return IMAGES
        return Shape(
            self.clip.clips, 1 if self.recipe is None else self.recipe.crops, self.clip.frames
        )

    @property
    def final_output(self) -> Output:
        """What images are in the end, unless Python has made something else of them."""
        in_core = self.recipe is not None and not self.steps and not self.normalizes
        return self.recipe.output if in_core and self.recipe is not None else self.output

    @property
    def converts(self) -> bool:
        """Whether there are steps for images after Python."""
        return self.normalizes or bool(self.last)

    def pass_through_python(self) -> Pipeline:
        """Return the same for a batch that goes through Python for other views: floats are made afterwards."""
        if self.steps or self.recipe is None or self.recipe.output == BYTES:
            return self
        if self.recipe.erasing:
            raise ValueError(
                "a view with RandomErasing cannot stand beside a view with steps in Python"
            )
        output, recipe = self.recipe.output, replace(self.recipe, output=BYTES)
        return replace(self, recipe=recipe, output=output, normalizes=True)

    def leave_bytes(self) -> Pipeline:
        """Return the same without the core's conversion to floats, which a device will do."""
        recipe = None if self.recipe is None else replace(self.recipe, output=BYTES)
        return replace(self, recipe=recipe, output=BYTES)


def take_clip(transform: Any) -> tuple[Clip | None, list[Any]]:
    """Return the `Clip` that a transform begins with, if it does, and all other steps.

    Raises:
        ValueError: There is a `Clip` elsewhere.
    """
    steps = list_steps(transform)
    clip = steps.pop(0) if steps and isinstance(steps[0], Clip) else None
    if any(isinstance(step, Clip) for step in steps):
        raise ValueError(
            "Clip chooses the frames that all other steps apply to: put one Clip first"
        )
    return clip, steps


def divide_transform(
    transform: Any,
    common_size: tuple[int, int] | None,
    *,
    collates: bool = False,
    any_size: bool = False,
    follows: bool = False,
) -> Pipeline:
    """Decide which step of a transform runs where.

    Args:
        transform: A list of our transforms, a torchvision `Compose`, or any function of a PIL image. It may begin
            with a `Clip`; then it is applied to every frame.
        common_size: The size of the images if they all have the same.
        collates: Whether a function of the user's own gets the samples after all steps. Then the core runs
            nothing after Python.
        any_size: Whether each batch has the size of its image, as batches of one sample may.
        follows: Whether samples have masks, points or boxes, which must follow their images.
    """
    clip, steps = take_clip(transform)
    if clip is None and any(isinstance(step, ThreeCrop) for step in steps):
        raise ValueError("ThreeCrop gives three views of a clip: begin the transform with Clip")
    pipeline = _divide_steps(
        steps, common_size, collates=collates, any_size=any_size, follows=follows
    )
    if clip is None:
        return pipeline
    return replace(pipeline, clip=clip, lines=(Line(clip, "plan"), *pipeline.lines))


def _divide_steps(
    steps: list[Any],
    common_size: tuple[int, int] | None,
    *,
    collates: bool,
    any_size: bool,
    follows: bool,
) -> Pipeline:
    _check_kinds(steps)
    _check_normalize(steps)
    if all(isinstance(step, Transform) for step in steps) and not collates:
        recipe = compile_recipe(steps, common_size, any_size=any_size)
        if follows:
            _check_moves(recipe)
        return Pipeline(recipe, lines=_core_lines(steps, "core"))
    entry, count, why = _take_first(steps, follows=follows)
    if count == len(steps) and not collates:
        recipe = entry.fit(common_size, any_size=any_size)
        return Pipeline(recipe, lines=_core_lines(steps, "core"))
    own = any(isinstance(step, Transform) for step in steps[:count])
    try:
        first: Recipe | None = replace(
            entry.fit(common_size, any_size=any_size and own), output=BYTES
        )
    except ValueError:
        if own:
            raise  # our own steps run in the core or nowhere
        why = _explain_sizes(steps, count, why)
        first, entry, count = None, _NOTHING, 0
    output, start = (BYTES, len(steps)) if collates else _take_last(steps, count + 1)
    between = tuple(steps[count:start])
    _check_callable(between)
    joined = _join_conversions(between)
    lines = (
        *_core_lines(steps[:count], "core"),
        *_python_lines(joined, why),
        *_core_lines(steps[start:], "core, last"),
    )
    last = tuple(step for step in steps[start:] if not isinstance(step, Normalize))
    return Pipeline(first, entry, joined, last, output, lines, output.dtype != "uint8")


def _take_first(steps: list[Any], *, follows: bool) -> tuple[Recipe, int, str]:
    """Return the longest beginning that the core can run, its length, and why it ends there.

    With `follows`, masks and the like must follow their images.
    """
    recipe, before = Recipe(), [Recipe()]
    for count, step in enumerate(steps):
        meaning = read_step(step, recipe.form)
        if isinstance(meaning, Normalize) and not _are_last(steps[count + 1 :]):
            meaning = "Normalize comes last"
        more = meaning if isinstance(meaning, str) else recipe.add(meaning)
        if follows and not isinstance(more, str) and any(map(moves_pixels, more.program)):
            more = "the core would move images alone, without what belongs to them"
        if isinstance(more, str):
            # What was erased in floats cannot go through Python, which gets bytes.
            first = next((n for n, done in enumerate(before) if done.erasing), count + 1) - 1
            return before[first], first, more if first == count else "a step in Python follows"
        recipe = more
        before.append(recipe)
    return recipe, len(steps), ""


def _check_moves(recipe: Recipe) -> None:
    """Raise ValueError if an operation moves pixels of images that something has to follow."""
    if moving := [step for step in recipe.program if moves_pixels(step)]:
        raise ValueError(
            f"{moving[0]} would move images alone, without their masks, points or boxes: put flips before other operations, "
            "and leave other steps that move pixels out, or give torchvision's v2 steps, which run in Python"
        )


def _are_last(steps: list[Any]) -> bool:
    """Return whether only RandomErasing follows, which works on floats."""
    return all(isinstance(read_step(step, "floats"), RandomErasing) for step in steps)


def _explain_sizes(steps: list[Any], count: int, why: str) -> str:
    """Return why the first `count` steps do not run in the core, which would leave images of different sizes."""
    if 0 < count < len(steps):
        name = type(steps[count]).__name__
        return f"without {name} images differ in size, and that is not for the core: {why}"
    return "images differ in size" if count else why


def _take_last(steps: list[Any], first: int) -> tuple[Output, int]:
    """Return what the core makes of images of bytes at the end, and where its steps begin, from `first` on."""
    for start in range(first, len(steps)):
        recipe, count = _take_conversions(steps[start:])
        if start + count == len(steps):
            return recipe.output, start
    return BYTES, len(steps)


def _take_conversions(steps: Sequence[Any]) -> tuple[Recipe, int]:
    """Return the recipe of the first steps that only convert PIL images, and how many they are."""
    recipe = Recipe()
    for count, step in enumerate(steps):
        meaning = read_step(step, recipe.form)
        if not isinstance(meaning, (AsBytes, AsFloats, Standardize, Keep, Normalize)):
            return recipe, count
        more = recipe.add(meaning)
        if isinstance(more, str):
            return recipe, count
        recipe = more
    return recipe, len(steps)


def _join_conversions(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the same steps, where successive steps that make floats of pictures are one that the core does."""
    joined: list[Step] = []
    place = 0
    while place < len(steps):
        recipe, count = _take_conversions(steps[place:])
        if recipe.form == "floats":
            joined.append(Converted(steps[place : place + count], recipe))
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
    """Refuse classes derived from our own: the core would ignore what they change."""
    for step in steps:
        own = isinstance(step, Transform) and not isinstance(step, ProgramStep)
        if own and type(step) not in ORDER:
            raise TypeError(
                f"{type(step).__name__} is derived from a transform that the core does, so its changes would be "
                "ignored: give a function of your own instead"
            )


def _check_normalize(steps: list[Any]) -> None:
    """Refuse our own Normalize after steps that make tensors of images, which it does itself."""
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
            tensors = None  # a step of the user's own may return images again


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
