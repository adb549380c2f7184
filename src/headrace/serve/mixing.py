"""Mix the images of finished batches with each other, on the CPU or on a device."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace._core import mix_images
from headrace.plan import EpochPlan, Split, find_rings
from headrace.recipe.mixing import DrawnMix, MixChoice, draw_mix, smooth_labels
from headrace.serve.batch import Batch


@dataclass(frozen=True, eq=False)
class Mixer:
    """Mixes the batches of an epoch: a pure function of its steps.

    Args:
        mixing: What is drawn.
        plan: The plan of the epoch.
        seed: The seed of the loader.
        epoch: The number of the epoch.
        classes: The number of classes.
        image_at: The place of the images in a batch.
        label_at: The place of the labels.
        threads: The most threads to use.
    """

    mixing: MixChoice
    plan: EpochPlan
    seed: int
    epoch: int
    classes: int
    image_at: int
    label_at: int
    threads: int

    def __post_init__(self) -> None:
        check_lanes(self.mixing, self.plan.split, self.plan.lanes)

    def __call__(self, batch: Batch) -> Batch:
        """Return a batch of arrays [B, H, W, 3] mixed in place, with soft labels."""
        images: NDArray[np.float32] = batch[self.image_at]
        height, width, channels = images.shape[1:]
        drawn, rings = self.draw(batch, (height, width))
        if drawn is not None and rings:
            parts = _list_parts(drawn, height, width, channels)
            keep, rest = (drawn.share, 1 - drawn.share) if drawn.box is None else (0.0, 1.0)
            mix_images(images.reshape(len(images), -1), rings, parts, keep, rest, self.threads)
        return self.mix_labels(batch, (height, width))

    def mix_labels(self, batch: Batch, size: tuple[int, int]) -> Batch:
        """Return a batch with soft labels, mixed as its images of this (height, width) are."""
        values, smoothing = list(batch), self.mixing.choices[0].smoothing
        labels = smooth_labels(values[self.label_at], self.classes, smoothing)
        drawn, rings = self.draw(batch, size)
        if drawn is not None and rings:
            whole = np.array([[0, self.classes]], np.int64)
            mix_images(labels, rings, whole, drawn.share, 1 - drawn.share, 1)
        values[self.label_at] = labels
        return batch.replace(tuple(values))

    def draw(self, batch: Batch, size: tuple[int, int]) -> tuple[DrawnMix | None, list[list[int]]]:
        """Return how a batch of images of this (height, width) is mixed, and which entries in rings."""
        drawn = draw_mix(self.mixing, self.seed, self.epoch, batch.step, size)
        return drawn, [] if drawn is None else self._find_rings(batch)

    def _find_rings(self, batch: Batch) -> list[list[int]]:
        """Return which entries of a batch are mixed: each with the next of its ring.

        Copies of a sample, as `repeat` makes them, are not mixed with each other: each is mixed with copies of the same
        number. A substitute for a bad sample, which comes in its own place as well, is not mixed.
        """
        step, repeat = self.plan.step(batch.step), self.plan.split.repeat
        order = np.argsort(step.draws)
        places = order[np.searchsorted(step.draws, batch.draws, sorter=order)]
        lanes = self.plan.find_lanes(batch.step)[places]
        once = np.zeros(len(places), np.bool_)
        once[np.unique(places, return_index=True)[1]] = True
        return find_rings(lanes * repeat + places % repeat, batch.valid & once)


def check_lanes(mixing: MixChoice, split: Split, lanes: int) -> None:
    """Raise ValueError unless each step has two samples of each lane."""
    if split.distinct_batch >= 2 * lanes:
        return
    name = type(mixing.choices[0]).__name__
    raise ValueError(
        f"{name} mixes samples of one lane, and a step of {split.global_batch} has one sample of each of {lanes} lanes: "
        f"give a batch_size of which all ranks together have {2 * lanes * split.repeat} samples or more"
    )


def _list_parts(drawn: DrawnMix, height: int, width: int, channels: int) -> NDArray[np.int64]:
    """Return (offset, size) of the elements of an image [height, width, channels] that are mixed."""
    if drawn.box is None:
        return np.array([[0, math.prod((height, width, channels))]], np.int64)
    left, top, right, bottom = drawn.box
    rows = np.arange(top, bottom, dtype=np.int64)
    sizes = np.full(len(rows), (right - left) * channels)
    return np.stack([(rows * width + left) * channels, sizes], axis=1)


def mix_tensors(mixer: Mixer, batch: Batch) -> Batch:
    """Return a batch of tensors [B, 3, H, W] on any device whose images are mixed as `Mixer` does it."""
    import torch

    values: list[Any] = list(batch)
    images = values[mixer.image_at]
    drawn, rings = mixer.draw(batch, (images.shape[2], images.shape[3]))
    if drawn is None or not rings:
        return batch
    partners = np.arange(len(batch.rows))
    for ring in rings:
        partners[ring] = np.roll(ring, -1)
    index = torch.from_numpy(partners).to(images.device)
    mixed = torch.from_numpy(partners != np.arange(len(partners))).to(images.device)
    values[mixer.image_at] = _mix_images(images, index, mixed, drawn)
    return batch.replace(tuple(values))


def _mix_images(images: Any, index: Any, mixed: Any, drawn: DrawnMix) -> Any:
    import torch

    others = images[index]
    if drawn.box is None:
        keep = torch.where(mixed, drawn.share, 1.0).to(images.dtype)[:, None, None, None]
        return others * (1 - keep) + images * keep
    left, top, right, bottom = drawn.box
    result = images.clone()
    result[..., top:bottom, left:right] = others[..., top:bottom, left:right]
    return result
