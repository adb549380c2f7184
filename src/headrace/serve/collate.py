"""Collate what transforms return, one value per sample, into one value of the batch.

It works like torch's `default_collate`, with two differences: PIL images are stacked too, as uint8[B, H, W, 3],
and without torch everything stays NumPy. Batches reuse the memory of batches that are gone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.recipe.pixels import is_picture
from headrace.serve.batch import map_nested
from headrace.serve.batch_memory import BatchMemory


def stack_pictures(values: Sequence[Any], *, arrays: bool) -> NDArray[np.uint8] | None:
    """Return uint8[B, H, W, 3]; None unless all are pictures of one size, PIL images or, with `arrays`, arrays."""
    if not values or not all(map(is_picture, values)):
        return None
    if not arrays and any(isinstance(value, np.ndarray) for value in values):
        return None
    pixels = [np.asarray(value) for value in values]
    if any(array.shape != pixels[0].shape for array in pixels):
        return None
    return _stack(pixels)


def collate(values: Sequence[Any], *, tensors: bool) -> Any:
    """Return one value of the batch; with `tensors`, numbers and arrays become tensors."""
    first = values[0]
    if isinstance(first, Image.Image):
        return _stack([np.asarray(value) for value in values])
    if isinstance(first, (str, bytes)):
        return list(values)
    if isinstance(first, Mapping):
        return {key: collate([value[key] for value in values], tensors=tensors) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(collate(column, tensors=tensors) for column in zip(*values)))
    if isinstance(first, (tuple, list)):
        return tuple(collate(column, tensors=tensors) for column in zip(*values))
    if type(first).__module__.partition(".")[0] in ("torch", "torchvision"):
        return _stack_tensors(values)
    return _stack_arrays(values, tensors)


def is_array(value: Any) -> bool:
    """Return whether it is a NumPy array or a tensor."""
    return isinstance(value, np.ndarray) or type(value).__module__.partition(".")[0] == "torch"


def fold_clips(values: Any, lead: tuple[int, ...]) -> Any:
    """Return collated pictures [B * J, ...] as samples [B, *lead, ...]; tensors [C, H, W] as [B, C, T, H, W]."""
    if not lead:
        return values

    def fold(array: Any) -> Any:
        folded = array.reshape(-1, *lead, *array.shape[1:])
        if isinstance(array, np.ndarray) or array.ndim != 4:
            return folded
        return folded.movedim(len(lead), len(lead) + 1)

    return map_nested(values, is_array, fold)


def _stack(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Stack into the memory of batches that are gone."""
    dtype = np.result_type(*arrays)
    if dtype.hasobject or any(array.shape != arrays[0].shape for array in arrays):
        return np.stack(arrays)  # which explains what is wrong
    return np.stack(
        arrays, out=_find_memory(os.getpid()).take((len(arrays), *arrays[0].shape), dtype)
    )


@lru_cache(maxsize=1)
def _find_memory(pid: int) -> BatchMemory:
    """Return the memory of this process: after a fork, the parent's lock may be held for ever."""
    return BatchMemory()


def _stack_tensors(values: Sequence[Any]) -> Any:
    import torch

    tensors = [value.as_subclass(torch.Tensor) for value in values]
    try:
        arrays = [tensor.numpy() for tensor in tensors]
    except (RuntimeError, TypeError):  # on a device, with a gradient, bfloat16, ...
        return torch.stack(tensors)
    return torch.from_numpy(_stack(arrays))


def _stack_arrays(values: Sequence[Any], tensors: bool) -> Any:
    if not isinstance(values[0], (int, float, np.generic, np.ndarray)):
        return list(values)
    array = _stack([np.asarray(value) for value in values])
    if not tensors:
        return array
    import torch

    return torch.from_numpy(array)
