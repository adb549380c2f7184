"""Deliver batches as tensors, on the CPU or one ahead on a device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headrace.recipe.clip import Shape
from headrace.render import Output
from headrace.serve.batch import Batch, map_nested
from headrace.serve.delivery import Delivery
from headrace.serve.device import find_channels, prefetch_to_device


class TensorDelivery(Delivery):
    """Turns arrays into tensors on `device`; with `converts=False`, values stay as collate_fn returned them."""

    tensors = True

    def __init__(self, device: torch.device, *, converts: bool) -> None:
        self._device, self._converts = device, converts
        self.keeps_bytes = device.type != "cpu"
        self.allocate = allocate_pinned if device.type == "cuda" else None

    def convert(self, batches: Iterator[Batch], output: Output, shape: Shape) -> Iterator[Batch]:
        """Return batches of tensors; on a device, they are copied one ahead and normalised there."""
        if self._converts:
            axes = 4 + len(shape.lead)
            batches = map(partial(to_tensors, dtype=output.dtype, axes=axes), batches)
        if not self.keeps_bytes:
            return batches
        return prefetch_to_device(batches, self._device, normalize=output)

    def describe(self, output: Output) -> str:
        """Return a line for `print(loader)` if batches go to a device."""
        if not self.keeps_bytes:
            return ""
        normalised = "" if output.dtype == "uint8" else ", and normalised there"
        return f"\n  batches are copied to {self._device} one ahead{normalised}"


def allocate_pinned(size: int) -> NDArray[np.uint8]:
    """Return memory that a GPU can copy from while the CPU goes on."""
    pinned: NDArray[np.uint8] = torch.empty(size, dtype=torch.uint8, pin_memory=True).numpy()
    return pinned


def to_tensors(value: Any, dtype: str, axes: int = 4) -> Any:
    """Return the same structure with arrays as tensors, and pictures as [B, 3, H, W].

    Pictures have so many axes, and nothing else has. Clips become [B, 3, T, H, W], several [B, K, 3, T, H, W].
    """

    def convert(array: NDArray[Any]) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        if array.ndim != axes:
            return tensor
        if dtype == "bfloat16" and array.dtype == np.uint16:
            tensor = tensor.view(torch.bfloat16)
        return tensor.movedim(-1, find_channels(axes))

    return map_nested(value, lambda item: isinstance(item, np.ndarray), convert)
