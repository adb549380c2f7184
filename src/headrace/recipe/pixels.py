"""Convert pixels to what the steps of a transform expect: PIL images, or tensors made by the core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.recipe.core_recipe import Recipe
from headrace.render import render_batch


def convert_pixels(pixels: NDArray[np.uint8], recipe: Recipe) -> Any:
    """Return uint8[H, W, 3] in the form that a step after this recipe gets."""
    if recipe.form == "pil":
        return Image.fromarray(pixels)
    import torch

    height, width = pixels.shape[:2]
    planar = replace(recipe.output, layout="channels_first")
    box = [[0, 0, width, height]]
    images, _ = render_batch([pixels], box, (height, width), output=planar, threads=1)
    tensor = torch.from_numpy(images[0])
    if planar.dtype == "bfloat16":
        tensor = tensor.view(torch.bfloat16)
    return _as_image(tensor) if recipe.image else tensor


def _as_image(tensor: Any) -> Any:
    from torchvision import tv_tensors  # installed: the user has made a ToImage

    return tv_tensors.Image(tensor)


@dataclass(frozen=True)
class Converted:
    """Steps that make floats of a picture: the core does it, or for other values the steps themselves."""

    steps: tuple[Callable[[Any], Any], ...]
    recipe: Recipe

    def __call__(self, value: Any) -> Any:
        if is_picture(value):
            return convert_pixels(np.ascontiguousarray(value), self.recipe)
        for step in self.steps:
            value = step(value)
        return value


def is_picture(value: Any) -> bool:
    """Return whether it is an RGB image in bytes, PIL or array, which the core can continue with."""
    if isinstance(value, Image.Image):
        return value.mode == "RGB"
    return (
        type(value) is np.ndarray
        and value.dtype == np.uint8
        and value.ndim == 3
        and value.shape[2] == 3
    )
