"""What happens to the resized bytes on their way into the batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

MAX_SIDE = 1 << 26  # a picture of 1 x 65,500 whose shorter side becomes 1,024
Triple = tuple[float, float, float]
Dtype = Literal["uint8", "float32", "float16", "bfloat16"]
Layout = Literal["channels_last", "channels_first"]
Depth16 = Literal["clip", "scale"]
"""What becomes of the levels of grey images with 16 bits per pixel; see `render_batch`."""

# NumPy has no bfloat16: its bits come as uint16, for `torch.Tensor.view(torch.bfloat16)`.
_ELEMENTS = {"uint8": "uint8", "float32": "float32", "float16": "float16", "bfloat16": "uint16"}


def check_depth16(depth16: Depth16) -> Depth16:
    """Return the argument. Raises ValueError if it is neither `clip` nor `scale`."""
    if depth16 not in ("clip", "scale"):
        raise ValueError(f"depth16 is {depth16!r}; give 'clip' or 'scale'")
    return depth16


@dataclass(frozen=True, eq=False)
class Color:
    """Changes of colour, drawn by the caller, a row a sample, applied in the order of the fields.

    jitter: float32[B, 3], the factors of brightness, contrast and saturation, each as Pillow's
        `ImageEnhance` (and so torchvision's `ColorJitter` on PIL images) applies it; 1 changes nothing.
    order: uint8[B, 3], permutations of 0, 1, 2: in which order the three are applied.
        Brightness, contrast, saturation if not given.
    lighting: float32[B, 3], levels (of 255) added to red, green and blue, as AlexNet's PCA noise
        does; the sum is rounded to the nearest level, ties to even, and clipped.
    """

    jitter: NDArray[np.float32] | None = None
    order: NDArray[np.uint8] | None = None
    lighting: NDArray[np.float32] | None = None

    def take(self, rows: slice) -> Color:
        """That of some of the samples."""
        return Color(
            None if self.jitter is None else self.jitter[rows],
            None if self.order is None else self.order[rows],
            None if self.lighting is None else self.lighting[rows],
        )


@dataclass(frozen=True, eq=False)
class Window:
    """The part of each resized picture that is wanted, where that is not all of it.

    The box is resized to `sizes` int[B, 2] (height, width); of that, what lies from `offsets` int[B, 2]
    (left, top) on is taken, with black where it reaches outside. So torchvision's Resize and CenterCrop
    come out exactly, without resizing what is cut off.
    """

    sizes: NDArray[np.integer[Any]]
    offsets: NDArray[np.integer[Any]]

    def take(self, rows: slice) -> Window:
        """That of some of the samples."""
        return Window(self.sizes[rows], self.offsets[rows])

    def rows(self, count: int) -> NDArray[np.int32]:
        """int32[B, 4] as (width, height, left, top), checked."""
        sizes, offsets = np.asarray(self.sizes), np.asarray(self.offsets)
        for name, array in (("sizes", sizes), ("offsets", offsets)):
            if array.shape != (count, 2) or (count and array.dtype.kind not in "iu"):
                raise ValueError(
                    f"window.{name} must be int[{count}, 2], not {array.dtype}{list(array.shape)}"
                )
        if count and (sizes.min() < 1 or sizes.max() > MAX_SIDE):
            raise ValueError(f"window.sizes must be from 1 to {MAX_SIDE} pixels")
        offsets = np.clip(offsets, -MAX_SIDE, MAX_SIDE)
        return np.ascontiguousarray(np.hstack([sizes[:, ::-1], offsets]), np.int32)


@dataclass(frozen=True)
class Output:
    """What the elements of a batch are, and how they lie in memory.

    Bytes stay as they are; floats are `(x / 255 - mean) / std`, computed in float32 as torchvision's
    ToTensor and Normalize do, then rounded to the nearest float16 or bfloat16. `channels_last` is
    [B, H, W, 3], `channels_first` is [B, 3, H, W], both without gaps. `reciprocal` multiplies by 1 / 255,
    as torchvision's v2.ToDtype does, which is another float for half of the levels.
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
        """That of a batch of `count` pictures of `size` (height, width)."""
        return (count, 3, *size) if self.planar else (count, *size, 3)

    def table(self) -> NDArray[Any] | None:
        """[3, 256]: what each byte of each channel becomes; None if it stays where and what it is."""
        if self.dtype == "uint8" and not self.planar:
            return None
        return _make_table(self.dtype, self.mean, self.std, self.reciprocal)


def _read_triple(name: str, values: Any) -> tuple[float, ...]:
    """Three numbers, of whatever kind: tuple, list, array, tensor."""
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
    """Levels of 255 as float32 in [0, 1]."""
    floats = levels.astype(np.float32)
    return floats * np.float32(1 / 255) if reciprocal else floats / np.float32(255)


def round_to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of the nearest bfloat16, ties to even. `values` are finite."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
