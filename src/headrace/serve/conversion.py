"""Pixels as the steps of a transform expect them: PIL images, or tensors made by the core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.render import render_batch
from headrace.serve.collate import is_picture
from headrace.serve.taken import Taken


def convert_pixels(pixels: NDArray[np.uint8], to: Taken) -> Any:
    """uint8[H, W, 3] in the form that the steps taken over leave an image in."""
    if to.form == "pil":
        return Image.fromarray(pixels)
    import torch

    height, width = pixels.shape[:2]
    planar = replace(to.output, layout="channels_first")
    box = [[0, 0, width, height]]
    images, _ = render_batch([pixels], box, (height, width), output=planar, threads=1)
    tensor = torch.from_numpy(images[0])
    if planar.dtype == "bfloat16":
        tensor = tensor.view(torch.bfloat16)
    return _as_image(tensor) if to.image else tensor


def _as_image(tensor: Any) -> Any:
    from torchvision import tv_tensors  # whoever made a ToImage has it

    return tv_tensors.Image(tensor)


@dataclass(frozen=True)
class Converted:
    """Steps between others that make floats of a picture: by the core if it is one, else by themselves."""

    steps: tuple[Callable[[Any], Any], ...]
    to: Taken

    def __call__(self, value: Any) -> Any:
        if is_picture(value):
            return convert_pixels(np.ascontiguousarray(value), self.to)
        for step in self.steps:
            value = step(value)
        return value
