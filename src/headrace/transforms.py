"""The transforms that the core runs: `Loader(..., transform=[RandomResizedCrop(224), RandomHorizontalFlip()])`."""

from headrace.recipe.buckets import Buckets
from headrace.recipe.clip import Clip
from headrace.recipe.mixing import CutMix, MixChoice, MixUp
from headrace.recipe.transforms import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    CenterCrop,
    ColorJitter,
    Lighting,
    Normalize,
    OnArray,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResize,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    Sanitize,
    ThreeCrop,
)
from headrace.recipe.views import Views

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Buckets",
    "CenterCrop",
    "Clip",
    "ColorJitter",
    "CutMix",
    "Lighting",
    "MixChoice",
    "MixUp",
    "Normalize",
    "OnArray",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResize",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "Sanitize",
    "ThreeCrop",
    "Views",
]
