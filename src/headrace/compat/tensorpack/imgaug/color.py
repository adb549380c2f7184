"""Augmentors of colour and dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.compat.tensorpack.imgaug.augmentor import Apply, Image, ImageAugmentor, get_rng
from headrace.errors import MissingExtraError

try:
    import cv2
except ImportError as error:
    raise MissingExtraError("cv2", "tensorpack") from error


def finish(image: Image, dtype: np.dtype[Any], clip: bool) -> Image:
    """Convert back to the input's dtype, clipped to 0..255 if asked or if it is uint8."""
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
    """Blend towards or away from grey by up to `alpha`."""

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
    """Return one channel, by OpenCV's weights."""
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
        if image.shape[2:] != (3,):
            raise ValueError(f"Lighting needs an image of three channels, not {image.shape}")
        noise = (get_rng().standard_normal(3) * self.std).astype("float32")
        shift = np.asarray(self.eigvec, "float32") @ (noise * np.asarray(self.eigval, "float32"))
        return lambda other: finish(other + shift, other.dtype, self.clip)


@dataclass
class ToUint8(ImageAugmentor):
    """Clip to 0..255 and convert to uint8."""

    def draw(self, image: Image) -> Apply:
        return lambda other: np.clip(other, 0, 255).astype(np.uint8)


@dataclass
class ToFloat32(ImageAugmentor):
    """Convert to float32."""

    def draw(self, image: Image) -> Apply:
        return lambda other: other.astype(np.float32)
