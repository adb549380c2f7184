"""Which part of an image is shown, at what size, and how it is turned: drawn for a whole batch at once.

Every geometry is a box that is resized, of which a window is shown, with a colour where the image does not reach; and
two flips. So an image is decoded and resized only where it is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace import plan
from headrace.plan import CropMove, FlipMove, Move, ResizeMove, Stream
from headrace.recipe.randomness import Randomness
from headrace.recipe.schedule import Schedule
from headrace.recipe.transforms import (
    CenterCrop,
    Cover,
    Level3,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResize,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    ThreeCrop,
    Transform,
)
from headrace.render import Draws, Resample, Viewport
from headrace.render.draws import MAX_SIDE

Sizes = NDArray[np.int64]
Size = tuple[int, int]
Paddings = NDArray[np.int64]
"""int64[4, B]: pixels at the left, the top, the right and the bottom of each image."""
_BLACK = (0, 0, 0)
_MOST_PIXELS = 2 * 89_478_485
"""The most pixels of an image that keeps its own size: Pillow refuses larger images."""

_FIELDS: dict[type[Transform], str] = {
    RandomResizedCrop: "random_resized_crop",
    Resize: "resize",
    RandomResize: "resize",
    Pad: "pad",
    CenterCrop: "crop",
    RandomCrop: "crop",
    ThreeCrop: "crop",
    RandomHorizontalFlip: "flip",
    RandomVerticalFlip: "vertical_flip",
}
GEOMETRIC: tuple[type[Transform], ...] = tuple(_FIELDS)
"""The geometric steps, in the order in which our own are given."""


@dataclass(frozen=True)
class Geometry:
    """The geometric steps of a transform. `fit` says which size the results have, so that it can `draw`."""

    random_resized_crop: RandomResizedCrop | None = None
    resize: Resize | RandomResize | Cover | None = None
    pad: Pad | None = None
    crop: CenterCrop | RandomCrop | ThreeCrop | None = None
    flip: RandomHorizontalFlip | None = None
    vertical_flip: RandomVerticalFlip | None = None
    size: Size | None = None
    """(height, width) of all results; None if each image has its own, in batches of one."""

    def put(self, step: Transform) -> Geometry:
        """Return this with the step in its place, whatever came before it."""
        changes: dict[str, Transform] = {_FIELDS[type(step)]: step}
        return replace(self, **changes)  # type: ignore[arg-type]

    def fits(self, step: Transform) -> bool:
        """Return whether the step can come last.

        Flips may come before a random crop, of which all places are equally likely.
        """
        if getattr(self, _FIELDS[type(step)]) is not None:
            return False
        if isinstance(step, (RandomHorizontalFlip, RandomVerticalFlip)):
            return True
        if self.random_resized_crop is not None or self.crop is not None:
            return False
        if isinstance(step, (RandomResizedCrop, Resize, RandomResize)):
            return self == UNCHANGED
        if isinstance(step, (Pad, RandomCrop)):
            same_color = self.pad is None or self.pad.color == step.color
            return same_color and self._is_alike_flipped(step)
        padded = self.pad is not None and (isinstance(step, ThreeCrop) or any(self.pad.color))
        return not padded and self.flip is None and self.vertical_flip is None

    def _is_alike_flipped(self, step: Pad | RandomCrop) -> bool:
        """Return whether the flips so far might as well come after the step."""
        left, top, right, bottom = step.sides
        return (self.flip is None or left == right) and (
            self.vertical_flip is None or top == bottom
        )

    def fit(self, common_size: Size | None, *, any_size: bool = False) -> Geometry:
        """Return this with the size that results have; see `Recipe.fit`."""
        if (crop := self.random_resized_crop or self.crop) is not None:
            return replace(self, size=pair(crop.size))
        if any_size and (common_size is None or isinstance(self.resize, RandomResize)):
            return replace(self, size=None)
        if isinstance(self.resize, RandomResize):
            raise ValueError(  # noqa: TRY004 - the type is fine, its place is not
                f"{self.resize} leaves images of different sizes, so a batch needs a crop: RandomCrop(512) after it"
            )
        if isinstance(self.resize, Resize):
            common_size = _find_resized(self.resize, common_size)
        if common_size is None:
            raise ValueError(
                "the images differ in size, or none decodes, so a batch needs a crop: "
                "transform=[RandomResizedCrop(224)], or [Resize(256), CenterCrop(224)]; or give batch_size=1"
            )
        left, top, right, bottom = (0, 0, 0, 0) if self.pad is None else self.pad.sides
        height, width = common_size
        return replace(self, size=(height + top + bottom, width + left + right))

    @property
    def views(self) -> int:
        """How many views of an image there are."""
        return 3 if isinstance(self.crop, ThreeCrop) else 1

    @property
    def resample(self) -> Resample:
        """The filter of the resize."""
        resizing = self.random_resized_crop or self.resize
        return "bilinear" if resizing is None else resizing.interpolation

    @property
    def fill(self) -> Level3:
        """The colour outside of images."""
        if isinstance(self.crop, RandomCrop) and (self.pad is None):
            return self.crop.color
        return _BLACK if self.pad is None else self.pad.color

    def draw(self, randomness: Randomness, heights: Sizes, widths: Sizes) -> Draws:
        """Return boxes, viewports and flips of images of these sizes: a pure function of its arguments.

        There are `views` rows per image, which differ only in the part of it that they show.
        """
        boxes, viewport = self._draw_boxes(randomness, heights, widths)
        flips = _draw_flips(self.flip, randomness, Stream.FLIP)
        vertical = _draw_flips(self.vertical_flip, randomness, Stream.VERTICAL_FLIP)
        draws = Draws(boxes, viewport, flips, vertical_flips=vertical)
        return self._spread_crops(draws) if isinstance(self.crop, ThreeCrop) else draws

    def _spread_crops(self, draws: Draws) -> Draws:
        """Return three draws for each one, which show the beginning, the middle and the end of the longer side."""
        assert draws.viewport is not None and self.size is not None
        heights, widths = draws.viewport.sizes.T
        offsets = np.stack(plan.three_crop_offsets(heights, widths, *self.size), axis=2)
        draws = draws.repeat(3)
        assert draws.viewport is not None
        return replace(draws, viewport=replace(draws.viewport, offsets=offsets.reshape(-1, 2)))

    def list_moves(self, draws: Draws, heights: Sizes, widths: Sizes) -> list[Move]:
        """Return how points and boxes of images of these sizes move to the results of the draws.

        `ThreeCrop` has no moves: a point would be in three results.
        """
        assert not isinstance(self.crop, ThreeCrop)
        moves, sizes = self._list_resizing(draws, heights.astype(np.int64), widths.astype(np.int64))
        if draws.viewport is not None:
            more, sizes = self._list_cropping(draws.viewport, *sizes)
            moves += more
        if draws.flips is not None:
            moves.append(FlipMove("x", draws.flips, sizes[1]))
        if draws.vertical_flips is not None:
            moves.append(FlipMove("y", draws.vertical_flips, sizes[0]))
        return moves

    def _list_resizing(
        self, draws: Draws, heights: Sizes, widths: Sizes
    ) -> tuple[list[Move], tuple[Sizes, Sizes]]:
        """Return the moves that resize images, and the sizes that images have then."""
        if draws.viewport is not None:
            sizes = draws.viewport.sizes.astype(np.int64)
        else:
            sizes = np.tile(np.array(self.size, np.int64), (len(draws), 1))
        new = sizes[:, 0], sizes[:, 1]
        if self.random_resized_crop is not None:
            left, top, part_widths, part_heights = draws.boxes.T.astype(np.int64)
            crop = CropMove(left, top, part_heights, part_widths)
            return [crop, ResizeMove(part_heights, part_widths, *new)], new
        return ([] if self.resize is None else [ResizeMove(heights, widths, *new)]), new

    def _list_cropping(
        self, viewport: Viewport, heights: Sizes, widths: Sizes
    ) -> tuple[list[Move], tuple[Sizes, Sizes]]:
        """Return the moves that pad and crop resized images, and the sizes that images have then."""
        moves: list[CropMove] = []
        first, second = self._list_paddings(heights, widths)
        for sides, step in ((first, self.pad), (second, self.crop)):
            heights, widths = heights + sides[1] + sides[3], widths + sides[0] + sides[2]
            padded = sides.max(axis=0) > 0
            if isinstance(step, Pad):
                moves.append(CropMove(-sides[0], -sides[1], heights, widths))
            elif padded.any():
                moves.append(CropMove(-sides[0], -sides[1], heights, widths, padded))
        if self.crop is not None:
            offsets = viewport.offsets + (first + second)[:2].T
            moves.append(_move_crop(self.crop, offsets, heights, widths))
            heights, widths = moves[-1].height, moves[-1].width
        return [*moves], (heights, widths)

    def cover(self, size: Size, crop: RandomCrop | CenterCrop) -> Geometry:
        """Return this with images that are resized to cover `size` and cropped to it, for a bucket.

        Raises:
            ValueError: A step gives another size.
        """
        steps = (self.random_resized_crop, self.resize, self.pad, self.crop)
        if given := [step for step in steps if step is not None]:
            raise ValueError(f"buckets give the size of batches: leave {given[0]} out")
        return replace(self, resize=Cover(size), crop=crop, size=size)

    def find_sizes(self, draws: Draws) -> tuple[Sizes, Sizes]:
        """Return the (heights, widths) of the results of some draws."""
        if self.size is not None:
            heights, widths = (np.full(len(draws), side) for side in self.size)
            return heights, widths
        assert draws.viewport is not None
        left, top, right, bottom = (0, 0, 0, 0) if self.pad is None else self.pad.sides
        new_heights, new_widths = draws.viewport.sizes.T.astype(np.int64)
        return new_heights + top + bottom, new_widths + left + right

    def find_size(self, draws: Draws) -> Size:
        """Return the size of all results of some draws; if each image has its own, all draws are of the same image."""
        if self.size is not None:
            return self.size
        heights, widths = self.find_sizes(draws)
        return int(heights[0]), int(widths[0])

    def _draw_boxes(
        self, randomness: Randomness, heights: Sizes, widths: Sizes
    ) -> tuple[NDArray[np.int32], Viewport | None]:
        crop, zeros = self.random_resized_crop, np.zeros_like(heights)
        if crop is not None:
            uniforms = randomness.uniforms(Stream.CROP, plan.CROP_UNIFORMS)
            ranges = {"scale": crop.scale, "ratio": crop.ratio}
            return plan.random_resized_crop(heights, widths, uniforms, **ranges), None
        whole = np.stack([zeros, zeros, widths, heights], axis=1).astype(np.int32)
        if self.size is not None and self.crop is None and self.pad is None:
            return whole, None
        new = self._resize_all(randomness, heights, widths)
        sizes = np.stack(new, axis=1)
        # An image that is too large, too small, or too long and thin, gets no box, and is refused alone.
        possible = ((sizes >= 1) & (sizes <= MAX_SIDE)).all(axis=1)
        if self.size is None:
            possible &= sizes.prod(axis=1) <= _MOST_PIXELS
            left, top, _, _ = self._find_padding(*new)
            offsets = np.stack([-left, -top], axis=1)
        else:
            offsets, fits = self._draw_offsets(randomness, *new, self.size)
            possible &= fits
        boxes = np.where(possible[:, None], whole, 0).astype(np.int32)
        return boxes, Viewport(np.where(possible[:, None], sizes, 1), offsets)

    def _resize_all(
        self, randomness: Randomness, heights: Sizes, widths: Sizes
    ) -> tuple[Sizes, Sizes]:
        if isinstance(self.resize, Cover):
            return plan.cover_sizes(heights, widths, *self.resize.size)
        if isinstance(self.resize, RandomResize):
            uniforms = randomness.uniforms(Stream.RESIZE, 1)[:, 0]
            return _resize_randomly(self.resize, uniforms, heights, widths)
        return (
            (heights, widths)
            if self.resize is None
            else _resize_alike(self.resize, heights, widths)
        )

    def _draw_offsets(
        self, randomness: Randomness, heights: Sizes, widths: Sizes, size: Size
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return where in each resized image its window begins (left, top), and whether the image is large enough."""
        left, top, right, bottom = self._find_padding(heights, widths)
        padded = heights + top + bottom, widths + left + right
        fits = np.ones(len(heights), np.bool_)
        offsets = np.zeros_like(heights), np.zeros_like(widths)
        if isinstance(self.crop, RandomCrop):
            uniforms = randomness.uniforms(Stream.CROP, 2)
            offsets = plan.random_crop_offsets(*padded, *size, uniforms)
            fits = (padded[0] >= size[0]) & (padded[1] >= size[1])
        elif self.crop is not None:
            offsets = plan.center_crop_offsets(*padded, *size)
        return np.stack([offsets[0] - left, offsets[1] - top], axis=1), fits

    def _find_padding(self, heights: Sizes, widths: Sizes) -> tuple[Sizes, Sizes, Sizes, Sizes]:
        """Return the pixels that are added to each resized image: left, top, right, bottom."""
        first, second = self._list_paddings(heights, widths)
        left, top, right, bottom = first + second
        return left, top, right, bottom

    def _list_paddings(self, heights: Sizes, widths: Sizes) -> tuple[Paddings, Paddings]:
        """Return the pixels that `Pad` adds to each resized image, and those that `RandomCrop` adds then."""
        steps = (self.pad, self.crop)
        fixed = [step.sides if isinstance(step, (Pad, RandomCrop)) else (0,) * 4 for step in steps]
        first, second = (np.tile(np.array(sides)[:, None], len(heights)) for sides in fixed)
        if isinstance(self.crop, RandomCrop) and self.crop.pad_if_needed:
            height, width = pair(self.crop.size)
            added = first + second
            second[[0, 2]] += plan.pad_to_size(widths + added[0] + added[2], width)
            second[[1, 3]] += plan.pad_to_size(heights + added[1] + added[3], height)
        return first, second


UNCHANGED = Geometry()


def pair(size: int | Size | Schedule) -> Size:
    """Return (height, width) of a size, of which an epoch was chosen."""
    assert not isinstance(size, Schedule)
    return size if isinstance(size, tuple) else (size, size)


def _draw_flips(
    step: RandomHorizontalFlip | RandomVerticalFlip | None, randomness: Randomness, stream: Stream
) -> NDArray[np.bool_] | None:
    return None if step is None else plan.random_flip(randomness.uniforms(stream, 1)[:, 0], step.p)


def _move_crop(
    crop: CenterCrop | RandomCrop | ThreeCrop,
    offsets: NDArray[np.int64],
    heights: Sizes,
    widths: Sizes,
) -> CropMove:
    """Return the move of a crop of padded images; `offsets` int64[B, 2] (left, top) are where it begins."""
    height, width = pair(crop.size)
    size = np.full_like(heights, height), np.full_like(widths, width)
    if isinstance(crop, RandomCrop):
        larger = (heights > height) | (widths > width)
        return CropMove(offsets[:, 0], offsets[:, 1], *size, larger)
    # As torchvision, which rounds halves to even also where an image is smaller than the crop: if 3, 7, 11 … pixels
    # are missing, targets move by a pixel more than the image.
    left, top = (
        np.rint(spare / 2).astype(np.int64) for spare in (widths - width, heights - height)
    )
    return CropMove(left, top, *size)


def _find_resized(resize: Resize, common_size: Size | None) -> Size:
    assert not isinstance(resize.size, Schedule)
    if isinstance(resize.size, tuple):
        return resize.size
    if common_size is None:
        raise ValueError(
            f"Resize({resize.size}) leaves images of different sizes; give Resize((height, width)), "
            "a CenterCrop after it, or batch_size=1"
        )
    heights, widths = _resize_alike(resize, *(np.array([side]) for side in common_size))
    return int(heights[0]), int(widths[0])


def _resize_alike(resize: Resize, heights: Sizes, widths: Sizes) -> tuple[Sizes, Sizes]:
    assert not isinstance(resize.size, Schedule)
    if isinstance(resize.size, tuple):
        return np.full_like(heights, resize.size[0]), np.full_like(widths, resize.size[1])
    return plan.resize_shorter(heights, widths, resize.size, resize.max_size)


def _resize_randomly(
    resize: RandomResize, uniforms: NDArray[np.float64], heights: Sizes, widths: Sizes
) -> tuple[Sizes, Sizes]:
    if resize.in_pixels:
        low, high = int(resize.low), int(resize.high)
        sizes = low + np.floor(uniforms * (high - low)).astype(np.int64)
        return plan.resize_shorter(heights, widths, sizes)
    factors = resize.low + (resize.high - resize.low) * uniforms
    return plan.scale_sizes(heights, widths, factors)
