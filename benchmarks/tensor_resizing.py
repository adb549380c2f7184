"""How far torchvision's resizing of tensors is from its resizing of PIL images, and what keeping to it costs.

    python benchmarks/tensor_resizing.py [--photos 200]

For each kind of resizing: the share of levels that differ, the share that differs by more than one, and the largest
difference. Then the rate of a loader whose transform makes tensors first, so that resizing stays in Python, beside the
same steps with the crop first, which run in the core.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from photos import draw_box, unpack_photos
from PIL import Image
from torchvision_import import import_torchvision

import headrace.torch


def compare(
    photos: list[Any], change: Callable[[Any, int], Any], tensor: Callable[..., Any]
) -> str:
    """Return the differences between `change` of tensors and of PIL images."""
    differences = []
    for number, photo in enumerate(photos):
        on_pil = np.asarray(tensor(change(photo, number)), np.int16)
        on_tensor = np.asarray(change(tensor(photo), number), np.int16)
        differences.append(np.abs(on_pil - on_tensor).ravel())
    levels = np.concatenate(differences)
    shares = 100 * (levels > 0).mean(), 100 * (levels > 1).mean()
    return f"{shares[0]:6.2f} %  {shares[1]:9.5f} %  {levels.max():3d}"


def print_differences(photos: list[Any]) -> None:
    T = import_torchvision().transforms
    from torchvision.transforms.v2 import functional as v2

    rng = random.Random(0)
    boxes = [draw_box(rng, *photo.size) for photo in photos]

    def resize(functional: Any, mode: Any, image: Any, number: int) -> Any:
        return functional.resize(image, [256], mode, antialias=True)

    def crop(functional: Any, mode: Any, image: Any, number: int) -> Any:
        left, top, width, height = boxes[number]
        box = (top, left, height, width)
        return functional.resized_crop(image, *box, [224, 224], mode, antialias=True)

    print(f"{'tensors beside PIL images':40} differ    by more than 1   most")
    for name, mode in (
        ("bilinear", T.InterpolationMode.BILINEAR),
        ("bicubic", T.InterpolationMode.BICUBIC),
    ):
        for version, functional in (("v1", T.functional), ("v2", v2)):
            for kind in (resize, crop):
                found = compare(photos, partial(kind, functional, mode), T.functional.pil_to_tensor)
                print(f"{version} {kind.__name__} {name}".ljust(40), found, flush=True)


def print_rates(folder: Path) -> None:
    import torch

    import_torchvision()
    from torchvision.transforms import v2 as V

    crop = [V.RandomResizedCrop(224, antialias=True), V.RandomHorizontalFlip()]
    floats = [
        V.ToDtype(torch.float32, scale=True),
        V.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
    ]
    for name, steps in (
        ("ToImage first, in Python", [V.ToImage(), *crop, *floats]),
        ("crop first, in the core", [*crop, V.ToImage(), *floats]),
    ):
        loader = headrace.torch.Loader(
            folder, 64, shuffle=True, transform=V.Compose(steps), num_workers=2
        )
        rates = []
        for _ in range(3):
            begin = time.perf_counter()
            count = sum(len(labels) for _, labels in loader)
            rates.append(count / (time.perf_counter() - begin))
        print(f"{name:40} {max(rates):6.0f} images/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--photos", type=int, default=200, help="photos to compare; default 200")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = unpack_photos(Path(folder))
        paths = sorted(path for path in root.rglob("*") if path.is_file())[: options.photos]
        print_differences([Image.open(path).convert("RGB") for path in paths])
        print_rates(root)


if __name__ == "__main__":
    main()
