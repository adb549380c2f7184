"""What a step of a transform means for the core: one of our own transforms, or a conversion of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.recipe.transforms import Transform
from headrace.render.options import Triple

Form = Literal["pil", "bytes", "floats"]
"""Form of an image between two steps: a PIL image, or a tensor of uint8 or of float32."""


@dataclass(frozen=True)
class AsBytes:
    """A PIL image becomes a uint8 tensor; with `image`, torchvision's own class of it."""

    image: bool = False


@dataclass(frozen=True)
class AsFloats:
    """Bytes become floats from 0 to 1: divided by 255, or multiplied by its reciprocal."""

    reciprocal: bool


@dataclass(frozen=True)
class Standardize:
    """Floats become (x - mean) / std."""

    mean: Triple
    std: Triple


@dataclass(frozen=True)
class Keep:
    """Pixels stay as they are; with `pure`, torchvision's own class becomes torch's."""

    pure: bool = False


@dataclass(frozen=True)
class MaskType:
    """Masks become this type; images stay as they are."""

    dtype: str


Conversion = AsBytes | AsFloats | Standardize | Keep | MaskType


@dataclass(frozen=True)
class Several:
    """Several steps in one, such as the presets of torchvision's weights."""

    meanings: tuple[Transform | Conversion, ...]


Meaning = Transform | Conversion | Several
