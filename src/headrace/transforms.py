"""What a loader can do to images: `Loader(..., transform=[RandomResizedCrop(224), RandomHorizontalFlip()])`."""

from headrace.serve.transforms import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    CenterCrop,
    ColorJitter,
    Lighting,
    Normalize,
    OnArray,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "CenterCrop",
    "ColorJitter",
    "Lighting",
    "Normalize",
    "OnArray",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
]
