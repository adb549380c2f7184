"""Augmentors that apply others by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.compat.tensorpack.imgaug.augmentor import (
    Applied,
    AugmentorList,
    Image,
    ImageAugmentor,
    Transform,
    get_rng,
)


@dataclass
class RandomApplyAug(ImageAugmentor):
    """`aug` with probability `prob`."""

    aug: ImageAugmentor
    prob: float

    def get_transform(self, image: Image) -> Transform:
        if get_rng().random() < self.prob:
            return self.aug.get_transform(image)
        return Applied(())


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
