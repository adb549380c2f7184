"""tensorpack's image augmentors: those of its ResNet examples and their close relatives."""

from headrace.compat.tensorpack.imgaug.augmentor import (
    Augmentor,
    AugmentorList,
    Identity,
    ImageAugmentor,
    MapImage,
    PhotometricAugmentor,
    Transform,
)
from headrace.compat.tensorpack.imgaug.choices import (
    RandomApplyAug,
    RandomChooseAug,
    RandomOrderAug,
)
from headrace.compat.tensorpack.imgaug.color import (
    Brightness,
    BrightnessScale,
    Contrast,
    Lighting,
    Saturation,
    ToFloat32,
    ToUint8,
)
from headrace.compat.tensorpack.imgaug.geometry import (
    CenterCrop,
    Flip,
    GoogleNetRandomCropAndResize,
    RandomCrop,
    Resize,
    ResizeShortestEdge,
)

__all__ = [
    "Augmentor",
    "AugmentorList",
    "Brightness",
    "BrightnessScale",
    "CenterCrop",
    "Contrast",
    "Flip",
    "GoogleNetRandomCropAndResize",
    "Identity",
    "ImageAugmentor",
    "Lighting",
    "MapImage",
    "PhotometricAugmentor",
    "RandomApplyAug",
    "RandomChooseAug",
    "RandomCrop",
    "RandomOrderAug",
    "Resize",
    "ResizeShortestEdge",
    "Saturation",
    "ToFloat32",
    "ToUint8",
    "Transform",
]
