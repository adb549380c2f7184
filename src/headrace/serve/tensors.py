"""Deliver batches as tensors, on the CPU or one ahead on a device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.serve.batch import Batch, map_nested
from headrace.serve.contents import Contents
from headrace.serve.delivery import Delivery
from headrace.serve.device import make_normalizer, map_tensors, prefetch_batches
from headrace.serve.mixing import Mixer, mix_tensors


class TensorDelivery(Delivery):
    """Turns arrays into tensors on `device`; with `converts=False`, values stay as collate_fn returned them."""

    tensors = True

    def __init__(self, device: torch.device, *, converts: bool) -> None:
        self._device, self._converts = device, converts
        self.keeps_bytes = device.type != "cpu"
        self.allocate = allocate_pinned if device.type == "cuda" else None

    def convert(
        self, batches: Iterator[Batch], contents: Contents, mixer: Mixer | None = None
    ) -> Iterator[Batch]:
        """Return batches of tensors; on a device, they are copied one ahead and normalised there."""
        if mixer is not None and self.keeps_bytes:
            batches = map(partial(_mix_labels, mixer), batches)
        if self._converts:
            batches = map(partial(to_tensors, contents=contents), batches)
        if not self.keeps_bytes:
            return batches

        def finish(batch: Batch) -> Batch:
            normalized = normalize_images(batch, contents)
            return normalized if mixer is None else mix_tensors(mixer, normalized)

        return prefetch_batches(batches, self._device, finish)

    def describe(self, contents: Contents) -> str:
        """Return a line for `print(loader)` if batches go to a device."""
        if not self.keeps_bytes:
            return ""
        floats = contents.pictures and contents.outputs[0].dtype != "uint8"
        return f"\n  batches are copied to {self._device} one ahead{', and normalised there' if floats else ''}"


def allocate_pinned(size: int) -> NDArray[np.uint8]:
    """Return memory that a GPU can copy from while the CPU goes on."""
    pinned: NDArray[np.uint8] = torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()
    return pinned


def to_tensors(batch: Batch, contents: Contents) -> Batch:
    """Return a batch with arrays as tensors: images as [B, 3, H, W], maps as [B, C, H, W], the rest as it is.

    Clips become [B, 3, T, H, W], several [B, K, 3, T, H, W]; stacked views [V, B, 3, H, W]; images of a list [3, H, W].
    """
    axes, channels = contents.axes
    has_bfloat16 = any(output.dtype == "bfloat16" for output in contents.outputs)
    maps = axes if contents.stack or contents.as_list else 4

    def convert(place: int, array: NDArray[Any]) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        if place in contents.map_at and array.ndim == maps:
            return tensor.movedim(-1, channels)
        if place not in contents.image_at or array.ndim != axes:
            return tensor
        if has_bfloat16 and array.dtype == np.uint16:
            tensor = tensor.view(torch.bfloat16)
        return tensor.movedim(-1, channels)

    values = (
        map_nested(value, lambda item: isinstance(item, np.ndarray), partial(convert, place))
        for place, value in enumerate(batch)
    )
    return batch.replace(tuple(values))


def _mix_labels(mixer: Mixer, batch: Batch) -> Batch:
    """Return a batch with soft labels, before it is copied to where its images are mixed."""
    height, width = batch[mixer.image_at].shape[1:3]
    return mixer.mix_labels(batch, (height, width))


def normalize_images(batch: Batch, contents: Contents) -> Batch:
    """Return a batch whose images in bytes are the floats that the core would have made; each view has its own."""
    if batch.finished or contents.image_at != tuple(i for i in contents.image_at if i < len(batch)):
        return batch
    values, channels = list(batch), contents.axes.channels
    for place in contents.image_at:
        views = values[place] if isinstance(values[place], tuple) else (values[place],)
        outputs = contents.outputs if len(views) == len(contents.outputs) else contents.outputs[:1]
        changed = [
            map_tensors(view, make_normalizer(output, channels))
            for view, output in zip(views, outputs * len(views))
        ]
        values[place] = tuple(changed) if isinstance(values[place], tuple) else changed[0]
    return batch.replace(tuple(values))
