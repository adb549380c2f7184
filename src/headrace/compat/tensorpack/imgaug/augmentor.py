"""What an augmentor is: it draws its random choices for an image and applies them.

Inside a flow the choices come from the item's own generator, so they are the same with any number
of threads or processes. Images are HWC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.work.seeding import item_rng

Image: TypeAlias = npt.NDArray[Any]
Apply: TypeAlias = Callable[[Image], Image]
_own = np.random.default_rng()


def get_rng() -> np.random.Generator:
    """Return the generator of the current item, or one of this process outside a flow."""
    try:
        return item_rng()
    except RuntimeError:
        return _own


class Transform:
    """Choices that were made: applying them again gives the same. Subclasses define `apply_image`."""

    def _init(self, params: Mapping[str, Any]) -> None:
        keep_params(self, params)

    def apply_image(self, image: Image) -> Image:
        raise NotImplementedError(f"{type(self).__name__} must define apply_image")


@dataclass(frozen=True)
class Applied(Transform):
    """Functions of an image, in turn."""

    functions: tuple[Apply, ...]

    def apply_image(self, image: Image) -> Image:
        for apply in self.functions:
            image = apply(image)
        return image


class ImageAugmentor:
    """One step. Subclasses define `draw(image)`: the function to apply to it and its like.

    Those written for tensorpack define `get_transform(image)`, which returns an object with
    `apply_image`, or else `_get_augment_params(image)` and `_augment(image, params)`.
    """

    def __init__(self) -> None:
        self.reset_state()

    def _init(self, params: Mapping[str, Any]) -> None:
        """Turn the arguments of a constructor into attributes, for `self._init(locals())`."""
        keep_params(self, params)

    def reset_state(self) -> None:
        """Do nothing: the generator belongs to the current item."""

    @property
    def rng(self) -> np.random.RandomState:
        """The generator of the current item, as the RandomState that tensorpack has."""
        return np.random.RandomState(get_rng().bit_generator)

    def _rand_range(self, low: float = 1.0, high: float | None = None, size: Any = ()) -> Any:
        """Draw a uniform float32 between `low` and `high`, or 0 and `low`."""
        low, high = (0, low) if high is None else (low, high)
        return np.asarray(self.rng.uniform(low, high, size), "float32")[()]

    def _get_augment_params(self, image: Image) -> Any:
        return None

    def _augment(self, image: Image, params: Any) -> Image:
        raise NotImplementedError(f"{type(self).__name__} must define get_transform or _augment")

    def draw(self, image: Image) -> Apply:
        params = self._get_augment_params(image)
        return lambda other: self._augment(other, params)

    def get_transform(self, image: Image) -> Transform:
        """Draw the choices for this image without applying them."""
        return Applied((self.draw(image),))

    def augment(self, image: Image) -> Image:
        """Draw and apply."""
        return self.get_transform(image).apply_image(image)

    def augment_return_params(self, image: Image) -> tuple[Image, Transform]:
        """Draw and apply; return the choices as well."""
        transform = self.get_transform(image)
        return transform.apply_image(image), transform

    def augment_with_params(self, image: Image, transform: Transform) -> Image:
        """Apply choices that were drawn before."""
        return transform.apply_image(image)


Augmentor = PhotometricAugmentor = ImageAugmentor  # tensorpack's other names


def keep_params(owner: object, params: Mapping[str, Any]) -> None:
    """Set attributes from the `locals()` of a constructor."""
    for name, value in params.items():
        if name != "self" and not name.startswith("_"):
            setattr(owner, name, value)


class AugmentorList(ImageAugmentor):
    """Several augmentors in turn; each sees what the one before made."""

    def __init__(self, augmentors: ImageAugmentor | Sequence[ImageAugmentor]) -> None:
        self.augmentors = [augmentors] if isinstance(augmentors, ImageAugmentor) else augmentors
        super().__init__()

    def reset_state(self) -> None:
        for augmentor in self.augmentors:
            augmentor.reset_state()

    def get_transform(self, image: Image) -> Transform:
        applied: list[Apply] = []
        for augmentor in self.augmentors:
            transform = augmentor.get_transform(image)
            image = transform.apply_image(image)
            applied.append(transform.apply_image)
        return Applied(tuple(applied))

    def augment(self, image: Image) -> Image:
        for augmentor in self.augmentors:
            image = augmentor.augment(image)
        return image


@dataclass
class Identity(ImageAugmentor):
    """Return the image unchanged."""

    def draw(self, image: Image) -> Apply:
        return lambda same: same


@dataclass
class MapImage(ImageAugmentor):
    """Any function of an image."""

    func: Apply

    def draw(self, image: Image) -> Apply:
        return self.func
