"""What the elements of a batch are, and how images become bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Triple = tuple[float, float, float]
Dtype = Literal["uint8", "float32", "float16", "bfloat16"]
Layout = Literal["channels_last", "channels_first"]
Resample = Literal["bilinear", "bicubic"]
Depth16 = Literal["clip", "scale"]
"""How grey images with 16 bits per pixel become bytes; see `render_batch`."""
Channels = Literal["bgr", "rgb"]
"""Order of the channels of images that are arrays, as .npy files have them; OpenCV's is `bgr`."""

# NumPy has no bfloat16: its bits come as uint16, for `torch.Tensor.view(torch.bfloat16)`.
_ELEMENTS = {"uint8": "uint8", "float32": "float32", "float16": "float16", "bfloat16": "uint16"}


def check_depth16(depth16: Depth16) -> Depth16:
    """Return the argument. Raise ValueError if it is neither `clip` nor `scale`."""
    if depth16 not in ("clip", "scale"):
        raise ValueError(f"depth16 is {depth16!r}; give 'clip' or 'scale'")
    return depth16


def check_resample(resample: Resample) -> None:
    """Raise ValueError if it is neither `bilinear` nor `bicubic`."""
    if resample not in ("bilinear", "bicubic"):
        raise ValueError(f"resample must be 'bilinear' or 'bicubic', not {resample!r}")


@dataclass(frozen=True)
class Output:
    """What the elements of a batch are, and how they lie in memory.

    Bytes stay as they are. Floats are `(x / 255 - mean) / std`, computed in float32 as torchvision's
    ToTensor and Normalize do, then rounded to the nearest float16 or bfloat16. `channels_last` is
    [B, H, W, 3], `channels_first` is [B, 3, H, W], both without gaps. `reciprocal` multiplies by 1 / 255,
    as torchvision's v2.ToDtype does, which gives another float for half of the levels.
    """

    dtype: Dtype = "uint8"
    mean: Triple = (0.0, 0.0, 0.0)
    std: Triple = (1.0, 1.0, 1.0)
    layout: Layout = "channels_last"
    reciprocal: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in _ELEMENTS:
            raise ValueError(f"dtype must be one of {', '.join(_ELEMENTS)}, not {self.dtype!r}")
        if self.layout not in ("channels_last", "channels_first"):
            raise ValueError(
                f"layout must be 'channels_last' or 'channels_first', not {self.layout!r}"
            )
        for name in ("mean", "std"):
            object.__setattr__(self, name, _read_triple(name, getattr(self, name)))
        if 0.0 in self.std:
            raise ValueError(f"std must not be zero, but is {self.std}")
        if self.dtype == "uint8" and (any(self.mean) or self.std != (1.0, 1.0, 1.0)):
            raise ValueError("mean and std need a float dtype, not uint8")

    @property
    def element(self) -> np.dtype[Any]:
        """The NumPy dtype of the batch; uint16 stands for bfloat16."""
        return np.dtype(_ELEMENTS[self.dtype])

    @property
    def planar(self) -> bool:
        return self.layout == "channels_first"

    def shape(self, count: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return the shape of a batch of `count` pictures of `size` (height, width)."""
        return (count, 3, *size) if self.planar else (count, *size, 3)

    def table(self) -> NDArray[Any] | None:
        """Return [3, 256], the element for each byte of each channel; None if bytes stay as they are."""
        if self.dtype == "uint8" and not self.planar:
            return None
        return _make_table(self.dtype, self.mean, self.std, self.reciprocal)


def _read_triple(name: str, values: Any) -> tuple[float, ...]:
    """Return three numbers, given as a tuple, list, array or tensor."""
    try:
        triple = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        triple = ()
    if len(triple) != 3 or not np.all(np.isfinite(triple)):
        raise ValueError(f"{name} must be three finite numbers, not {values!r}")
    return triple


BYTES = Output()


@lru_cache(maxsize=16)
def _make_table(dtype: Dtype, mean: Triple, std: Triple, reciprocal: bool) -> NDArray[Any]:
    levels = np.arange(256, dtype=np.uint8)
    if dtype == "uint8":
        return np.broadcast_to(levels, (3, 256)).copy()
    unit = scale_levels(levels, reciprocal)
    means, stds = np.array([mean, std], np.float32)[:, :, None]
    table: NDArray[Any] = (unit - means) / stds
    if dtype == "bfloat16":
        return round_to_bfloat16(table)
    with np.errstate(over="ignore"):
        return table.astype(_ELEMENTS[dtype])


def scale_levels(levels: NDArray[np.uint8], reciprocal: bool) -> NDArray[np.float32]:
    """Return levels of 255 as float32 in [0, 1]."""
    floats = levels.astype(np.float32)
    return floats * np.float32(1 / 255) if reciprocal else floats / np.float32(255)


def round_to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the bits of the nearest bfloat16, ties to even. `values` are finite."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
