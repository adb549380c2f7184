"""A sample in Python: its images and what follows them, decoded and converted to what transforms expect.

Images are PIL images, or tensors if the core or a step has made tensors of them. Masks, maps, points and boxes are
torchvision's `tv_tensors` if the program uses torchvision, else NumPy arrays; maps are `Mask`s, since v2 has no other
type that only geometry touches.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PILImage

from headrace.errors import DecodeError
from headrace.image_header import read_orientation
from headrace.kinds import Boxes, Image, Kind, Map, Mask, Points
from headrace.recipe.core_or_python import Pipeline
from headrace.recipe.pixels import Converted, convert_pixels
from headrace.render import decode_jpeg
from headrace.render.arrays import convert_to_rgb, is_array, read_array, read_pixels
from headrace.render.decode import decode_labels, turn_upright
from headrace.render.options import Depth16

BLACK = np.zeros((256, 256, 3), np.uint8)


class BadImage(Exception):
    """A field of a sample does not decode, so the transform has not failed."""


@dataclass(frozen=True)
class SampleSteps:
    """Decodes the fields of a sample and applies the steps of one view in Python.

    Args:
        kinds: The kinds of the fields that go through the steps, by their names.
        owners: The image that each of the others follows.
        per_box: The columns of boxes, which go through the steps too, and the boxes that they belong to.
        depth16: How images with 16 bits per pixel become bytes.
        orient: Whether images are turned upright.
        wraps: Whether targets are torchvision's `tv_tensors`.
        unwraps: Whether they become arrays again after the steps, whatever they were in between.
    """

    kinds: Mapping[str, Kind]
    owners: Mapping[str, str] = field(default_factory=dict)
    per_box: Mapping[str, str] = field(default_factory=dict)
    depth16: Depth16 = "clip"
    orient: bool = False
    wraps: bool = False
    unwraps: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of boxes."""
        return tuple(self.per_box)

    @property
    def is_alone(self) -> bool:
        """Whether a sample is one image, which steps get as it is. All others are dicts."""
        return len(self.kinds) == 1 and not self.columns

    def transform(self, pipeline: Pipeline, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a sample after the steps of a pipeline. Raise BadImage if one does not decode."""
        sample = self._convert(pipeline, values)
        images = [name for name, kind in self.kinds.items() if isinstance(kind, Image)]
        for step in pipeline.steps:
            if isinstance(step, Converted) or self.is_alone:
                sample |= {name: step(sample[name]) for name in images}
            else:
                sample = self._check(step, step(sample))
        if self.unwraps and not self.is_alone:
            sample |= {n: _unwrap(sample[n]) for n in sample if n not in images}
        return sample

    def make_black(self, pipeline: Pipeline) -> dict[str, Any]:
        """Return what the steps make of a sample of black images, where a batch has no good sample."""
        values: dict[str, Any] = {}
        for name, kind in self.kinds.items():
            if isinstance(kind, Image):
                values[name] = BLACK
            elif isinstance(kind, Mask):
                values[name] = np.full(BLACK.shape[:2], kind.fill % 256, kind.dtype or np.uint8)
            elif isinstance(kind, Map):
                channels = (2,) if kind.scale == "xy" else ()
                values[name] = np.zeros((*BLACK.shape[:2], *channels), np.float32)
            else:
                values[name] = np.zeros((0, 4 if isinstance(kind, Boxes) else 2), np.float32)
        values |= {name: np.zeros(0, np.int64) for name in self.columns}
        return self.transform(pipeline, values)

    def _check(self, step: Any, sample: Any) -> dict[str, Any]:
        if not isinstance(sample, dict) or not sample.keys() >= {*self.kinds, *self.columns}:
            found = list(sample) if isinstance(sample, dict) else type(sample).__name__
            raise TypeError(
                f"{step!r:.200} returned {found!s:.200}; it gets a dict of {[*self.kinds, *self.columns]}, and must "
                "return one"
            )
        for name, boxes in self.per_box.items():
            if len(sample[name]) != len(sample[boxes]):
                raise ValueError(
                    f"{step!r:.200} left {len(sample[boxes])} {boxes} and {len(sample[name])} {name}: it must drop both "
                    "alike; v2.SanitizeBoundingBoxes takes a labels_getter for that"
                )
        return sample

    def _convert(self, pipeline: Pipeline, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields as the first step gets them."""
        pixels = {
            name: self._decode_pixels(name, kind, values[name])
            for name, kind in self.kinds.items()
            if isinstance(kind, Image)
        }
        sample: dict[str, Any] = {}
        for name, kind in self.kinds.items():
            if isinstance(kind, Image):
                sample[name] = convert_pixels(pixels[name], pipeline.entry)
            else:
                size = pixels[self.owners[name]].shape[:2]
                target = _decode_target(name, kind, values[name])
                sample[name] = _wrap(kind, target, size) if self.wraps else target
        columns = {name: values[name] for name in self.columns}
        if self.wraps:
            columns = {name: _as_tensor(value) for name, value in columns.items()}
        return sample | columns

    def _decode_pixels(self, name: str, kind: Image, value: Any) -> NDArray[np.uint8]:
        if isinstance(value, np.ndarray):
            return value
        try:
            if is_array(value):
                return convert_to_rgb(read_pixels(value), kind.channels)
            pixels = decode_jpeg(value, self.depth16)
        except DecodeError as error:
            raise BadImage(str(error) if self.is_alone else f"{name}: {error}") from None
        return turn_upright(pixels, read_orientation(value)) if self.orient else pixels


def _decode_target(name: str, kind: Kind, value: Any) -> Any:
    """Return a target as an array; masks and maps may still be encoded."""
    if not isinstance(value, bytes):
        return value
    try:
        if isinstance(kind, Mask):
            labels = decode_labels(value, rgb_ids=kind.rgb_ids)
            return labels if kind.dtype is None else labels.astype(kind.dtype)
        if is_array(value):
            return np.ascontiguousarray(read_array(value), np.float32)
        with PILImage.open(io.BytesIO(value)) as image:
            divisor = kind.divisor if isinstance(kind, Map) else 1.0
            levels = np.asarray(image, np.float32) / np.float32(divisor)
        if levels.ndim != 2:
            raise DecodeError(f"the map has {levels.shape[-1]} channels; an image of one is needed")
        return levels
    except DecodeError as error:
        raise BadImage(f"{name}: {error}") from None
    except Exception as error:  # noqa: BLE001 - Pillow raises nearly everything for bad data
        raise BadImage(f"{name}: it does not decode: {error}") from None


def _wrap(kind: Kind, array: NDArray[Any], size: tuple[int, ...]) -> Any:
    """Return a target as torchvision's own type, for an image of this size."""
    import torch
    from torchvision import tv_tensors

    if array.dtype == np.uint16:
        array = array.astype(np.int32)  # torch does little with uint16
    tensor = torch.from_numpy(np.array(array))  # a copy, which steps may change
    if isinstance(kind, Points):
        return tv_tensors.KeyPoints(tensor, canvas_size=size)
    if isinstance(kind, Boxes):
        return tv_tensors.BoundingBoxes(tensor, format="XYXY", canvas_size=size)
    return tv_tensors.Mask(tensor.movedim(-1, 0) if tensor.ndim == 3 else tensor)


def _unwrap(value: Any) -> Any:
    """Return a target as an array again, maps as [H, W, C]."""
    if isinstance(value, np.ndarray) or not hasattr(value, "numpy"):
        return value
    array = value.numpy()
    is_planar = type(value).__name__ == "Mask" and array.ndim == 3
    return np.ascontiguousarray(np.moveaxis(array, 0, -1)) if is_planar else array


def _as_tensor(values: Any) -> Any:
    """Return the values per box so that v2 can choose among them."""
    if not isinstance(values, np.ndarray):
        return values
    import torch

    return torch.from_numpy(np.array(values))
