"""tensorpack's image augmentors: those of its ResNet examples and their close relatives.

An augmentor draws its random choices for an image (`get_transform`) and applies them
(`augment`). Inside a flow the choices come from the item's own generator, so they are the same
with any number of threads or processes. Images are HWC; OpenCV does the resizing, as it did there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.errors import MissingExtraError
from penstock.run.seeding import item_rng

try:
    import cv2
except ImportError as error:
    raise MissingExtraError("cv2", "tensorpack") from error

Image: TypeAlias = npt.NDArray[Any]
Apply: TypeAlias = Callable[[Image], Image]
_own = np.random.default_rng()


def get_rng() -> np.random.Generator:
    """The generator of the item in work, or one of this process outside a flow."""
    try:
        return item_rng()
    except RuntimeError:
        return _own


@dataclass(frozen=True)
class Transform:
    """Choices that were made: applying them again gives the same."""

    apply: tuple[Apply, ...]

    def apply_image(self, image: Image) -> Image:
        """The image with all choices applied in turn."""
        for apply in self.apply:
            image = apply(image)
        return image


class ImageAugmentor:
    """One step. Subclasses define `draw(image)`: the function to apply to it and its like."""

    def draw(self, image: Image) -> Apply:
        raise NotImplementedError

    def get_transform(self, image: Image) -> Transform:
        """Draw the choices for this image without applying them."""
        return Transform((self.draw(image),))

    def augment(self, image: Image) -> Image:
        """Draw and apply."""
        return self.get_transform(image).apply_image(image)


class AugmentorList(ImageAugmentor):
    """Several augmentors in turn; each sees what the one before made."""

    def __init__(self, augmentors: ImageAugmentor | Sequence[ImageAugmentor]) -> None:
        self.augmentors = [augmentors] if isinstance(augmentors, ImageAugmentor) else augmentors

    def get_transform(self, image: Image) -> Transform:
        applied: list[Apply] = []
        for augmentor in self.augmentors:
            transform = augmentor.get_transform(image)
            image = transform.apply_image(image)
            applied += transform.apply
        return Transform(tuple(applied))

    def augment(self, image: Image) -> Image:
        for augmentor in self.augmentors:
            image = augmentor.augment(image)
        return image


@dataclass
class Identity(ImageAugmentor):
    """Nothing."""

    def draw(self, image: Image) -> Apply:
        return lambda same: same


@dataclass
class MapImage(ImageAugmentor):
    """Any function of an image."""

    func: Apply

    def draw(self, image: Image) -> Apply:
        return self.func


@dataclass
class RandomApplyAug(ImageAugmentor):
    """`aug` with probability `prob`."""

    aug: ImageAugmentor
    prob: float

    def get_transform(self, image: Image) -> Transform:
        if get_rng().random() < self.prob:
            return self.aug.get_transform(image)
        return Transform(())


@dataclass
class RandomChooseAug(ImageAugmentor):
    """One of several: [augmentor, …] or [(augmentor, probability), …]."""

    aug_lists: Sequence[Any]

    def get_transform(self, image: Image) -> Transform:
        pairs = [entry if isinstance(entry, tuple) else (entry, 1.0) for entry in self.aug_lists]
        weights = np.array([weight for _, weight in pairs], float)
        chosen: ImageAugmentor = pairs[get_rng().choice(len(pairs), p=weights / weights.sum())][0]
        return chosen.get_transform(image)


@dataclass
class RandomOrderAug(ImageAugmentor):
    """All of several, in random order."""

    aug_lists: Sequence[ImageAugmentor]

    def get_transform(self, image: Image) -> Transform:
        order = get_rng().permutation(len(self.aug_lists))
        return AugmentorList([self.aug_lists[i] for i in order]).get_transform(image)


# Geometry


def resize(image: Image, height: int, width: int, interp: int) -> Image:
    """OpenCV's resize, which drops a last axis of one: that is put back."""
    out = cv2.resize(image, (width, height), interpolation=interp)
    return out[:, :, np.newaxis] if image.ndim == 3 and out.ndim == 2 else out


def crop(image: Image, top: int, left: int, height: int, width: int) -> Image:
    """A view of a rectangle that must lie inside the image."""
    if top < 0 or left < 0 or top + height > image.shape[0] or left + width > image.shape[1]:
        raise ValueError(f"a crop of {height}x{width} does not fit {image.shape[:2]}")
    return image[top : top + height, left : left + width]


def crop_box(box: tuple[int, int, int, int], image: Image) -> Image:
    """`crop` with the rectangle first."""
    return crop(image, *box)


def as_shape(shape: int | Sequence[int]) -> tuple[int, int]:
    """(height, width); one number is a square."""
    if isinstance(shape, (int, np.integer)):
        return int(shape), int(shape)
    return shape[0], shape[1]


@dataclass
class Resize(ImageAugmentor):
    """To a (height, width)."""

    shape: int | Sequence[int]
    interp: int = cv2.INTER_LINEAR

    def draw(self, image: Image) -> Apply:
        height, width = as_shape(self.shape)
        return lambda other: resize(other, height, width, self.interp)


@dataclass
class ResizeShortestEdge(ImageAugmentor):
    """Until the shorter edge has `size`, keeping the aspect ratio."""

    size: int
    interp: int = cv2.INTER_LINEAR

    def draw(self, image: Image) -> Apply:
        height, width = image.shape[:2]
        scale = self.size / min(height, width)
        new = (self.size, int(scale * width + 0.5))
        if height > width:
            new = (int(scale * height + 0.5), self.size)
        return lambda other: resize(other, *new, self.interp)


@dataclass
class CenterCrop(ImageAugmentor):
    """The middle."""

    crop_shape: int | Sequence[int]

    def draw(self, image: Image) -> Apply:
        height, width = as_shape(self.crop_shape)
        top = (image.shape[0] - height) // 2
        left = (image.shape[1] - width) // 2
        return lambda other: crop(other, top, left, height, width)


@dataclass
class RandomCrop(ImageAugmentor):
    """A rectangle anywhere."""

    crop_shape: int | Sequence[int]

    def draw(self, image: Image) -> Apply:
        height, width = as_shape(self.crop_shape)
        rng = get_rng()
        top = int(rng.integers(0, max(1, image.shape[0] - height + 1)))
        left = int(rng.integers(0, max(1, image.shape[1] - width + 1)))
        return lambda other: crop(other, top, left, height, width)


@dataclass
class GoogleNetRandomCropAndResize(ImageAugmentor):
    """A rectangle of random area and aspect, resized to a square: ten tries, else the middle."""

    crop_area_fraction: tuple[float, float] = (0.08, 1.0)
    aspect_ratio_range: tuple[float, float] = (0.75, 1.333)
    target_shape: int = 224
    interp: int = cv2.INTER_LINEAR

    def get_transform(self, image: Image) -> Transform:
        for _ in range(10):
            box = self._draw_box(*image.shape[:2])
            if box is not None:
                return Transform((partial(crop_box, box), self._resize))
        middle = ResizeShortestEdge(self.target_shape, self.interp)
        return AugmentorList([middle, CenterCrop(self.target_shape)]).get_transform(image)

    def _draw_box(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        rng = get_rng()
        area = rng.uniform(*self.crop_area_fraction) * height * width
        aspect = rng.uniform(*self.aspect_ratio_range)
        w, h = int((area * aspect) ** 0.5 + 0.5), int((area / aspect) ** 0.5 + 0.5)
        if rng.random() < 0.5:
            w, h = h, w
        if h > height or w > width:
            return None
        left, top = int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1))
        return top, left, h, w

    def _resize(self, image: Image) -> Image:
        return resize(image, self.target_shape, self.target_shape, self.interp)


@dataclass
class Flip(ImageAugmentor):
    """Mirror left to right or top to bottom with probability `prob`."""

    horiz: bool = False
    vert: bool = False
    prob: float = 0.5

    def __post_init__(self) -> None:
        if self.horiz == self.vert:
            raise ValueError("Flip needs exactly one of horiz and vert; use two Flips for both")

    def draw(self, image: Image) -> Apply:
        if get_rng().random() >= self.prob:
            return lambda same: same
        axis = 1 if self.horiz else 0
        return lambda other: np.ascontiguousarray(np.flip(other, axis))


# Colour


def finish(image: Image, dtype: np.dtype[Any], clip: bool) -> Image:
    """Back to the dtype that came in, within 0 and 255 if asked or if it is uint8."""
    return (np.clip(image, 0, 255) if clip or dtype == np.uint8 else image).astype(dtype)


@dataclass
class Brightness(ImageAugmentor):
    """Add a number from [-delta, delta]."""

    delta: float
    clip: bool = True

    def draw(self, image: Image) -> Apply:
        added = np.float32(get_rng().uniform(-self.delta, self.delta))
        return lambda other: finish(other.astype("float32") + added, other.dtype, self.clip)


@dataclass
class BrightnessScale(ImageAugmentor):
    """Multiply by a number from `range`."""

    range: tuple[float, float]
    clip: bool = True

    def draw(self, image: Image) -> Apply:
        factor = np.float32(get_rng().uniform(*self.range))
        return lambda other: finish(other.astype("float32") * factor, other.dtype, self.clip)


@dataclass
class Contrast(ImageAugmentor):
    """(x - mean) * factor + mean, with the mean of each channel, or of the grey image if `rgb` is set."""

    factor_range: tuple[float, float]
    rgb: bool | None = None
    clip: bool = True

    def draw(self, image: Image) -> Apply:
        factor = get_rng().uniform(*self.factor_range)
        return lambda other: self._apply(other, factor)

    def _apply(self, image: Image, factor: float) -> Image:
        if image.ndim == 3 and self.rgb is None:
            mean = image.mean(axis=(0, 1), keepdims=True)
        elif image.ndim == 3:
            mean = to_grey(image.astype("float32"), bool(self.rgb)).mean()
        else:
            mean = image.mean()
        return finish(image * factor + mean * (1 - factor), image.dtype, self.clip)


@dataclass
class Saturation(ImageAugmentor):
    """Towards or away from grey by up to `alpha`."""

    alpha: float = 0.4
    rgb: bool = True
    clip: bool = True

    def draw(self, image: Image) -> Apply:
        factor = 1 + get_rng().uniform(-self.alpha, self.alpha)
        return lambda other: self._apply(other, factor)

    def _apply(self, image: Image, factor: float) -> Image:
        grey = to_grey(image, self.rgb)[:, :, np.newaxis]
        return finish(image * factor + grey * (1 - factor), image.dtype, self.clip)


def to_grey(image: Image, rgb: bool) -> Image:
    """One channel, by OpenCV's weights."""
    grey: Image = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY if rgb else cv2.COLOR_BGR2GRAY)
    return grey


@dataclass
class Lighting(ImageAugmentor):
    """AlexNet's colour noise along the eigenvectors of the colours."""

    std: float
    eigval: Sequence[float] = field(default_factory=list)
    eigvec: Sequence[Sequence[float]] = field(default_factory=list)
    clip: bool = True

    def draw(self, image: Image) -> Apply:
        noise = (get_rng().standard_normal(3) * self.std).astype("float32")
        shift = np.asarray(self.eigvec, "float32") @ (noise * np.asarray(self.eigval, "float32"))
        return lambda other: finish(other + shift, other.dtype, self.clip)


@dataclass
class ToUint8(ImageAugmentor):
    """Clip to 0 to 255 and convert."""

    def draw(self, image: Image) -> Apply:
        return lambda other: np.clip(other, 0, 255).astype(np.uint8)


@dataclass
class ToFloat32(ImageAugmentor):
    """Convert."""

    def draw(self, image: Image) -> Apply:
        return lambda other: other.astype(np.float32)
