"""Transforms for the tests, at the top of a module so that they cross to processes started by spawn."""

from __future__ import annotations

import os
import random
import signal
import sys
from typing import Any

import numpy as np


def shrink(image: Any) -> Any:
    return image.resize((8, 8))


def draw_numbers(image: Any) -> np.ndarray:
    """One number of each global generator that is there."""
    numbers = [random.random(), np.random.random()]
    torch = sys.modules.get("torch")
    return np.array(numbers if torch is None else [*numbers, float(torch.rand(1).double())])


def draw_pixels(image: Any) -> np.ndarray:
    """Something of the image and of randomness."""
    return np.asarray(shrink(image)).astype(np.float64) + random.random() + np.random.random()


def fail_on_small(image: Any) -> Any:
    if image.width < 40:
        raise ValueError(f"too narrow: {image.width}")
    return shrink(image)


def die(image: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def spin(image: Any) -> Any:
    """Slow, without sleeping."""
    for _ in range(300_000):
        pass
    return shrink(image)


def gather(samples: list[Any]) -> dict[str, Any]:
    return {
        "sizes": [image.size for image, _ in samples],
        "labels": [label for _, label in samples],
    }


def pair(samples: list[Any]) -> tuple[Any, ...]:
    return np.stack([np.asarray(image) for image, _ in samples]), [label for _, label in samples]


def two_views(image: Any) -> tuple[Any, Any]:
    return shrink(image), {"mean": np.asarray(image).mean()}
