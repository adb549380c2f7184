"""GulpIO's and GulpIO2's `GulpDirectory`, datasets and transforms, over gulp folders and packed datasets.

    from headrace.compat.gulpio import GulpDirectory                     # was: from gulpio import GulpDirectory
    from headrace.compat.gulpio.dataset import GulpVideoDataset          # was: from gulpio.dataset import ...
    from headrace.compat.gulpio.transforms import ComposeVideo, Scale    # was: from gulpio.transforms import ...

Needs neither GulpIO nor, except for resizing, OpenCV. Unlike the originals: thread-safe, and safe after a fork; data
files stay open; frames are decoded on several threads, to the pixels of Pillow and OpenCV. Gulps are not
written here: `headrace pack` and `headrace export --to gulp` do that.
"""

from headrace.compat.gulpio.dataset import GulpImageDataset, GulpVideoDataset
from headrace.compat.gulpio.fileio import GulpChunk, GulpDirectory
from headrace.compat.gulpio.transforms import (
    CenterCrop,
    Compose,
    ComposeVideo,
    JitterCrop,
    JitterCropVideo,
    Normalize,
    RandHorFlipVideo,
    RandomCrop,
    RandomCropVideo,
    RandVerFlipVideo,
    Scale,
    UnitNorm,
)

__all__ = [
    "CenterCrop",
    "Compose",
    "ComposeVideo",
    "GulpChunk",
    "GulpDirectory",
    "GulpImageDataset",
    "GulpVideoDataset",
    "JitterCrop",
    "JitterCropVideo",
    "Normalize",
    "RandHorFlipVideo",
    "RandVerFlipVideo",
    "RandomCrop",
    "RandomCropVideo",
    "Scale",
    "UnitNorm",
]
