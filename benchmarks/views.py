"""Several views of each image, as DINO and SimCLR take them, beside torchvision's crops in a DataLoader.

    python benchmarks/views.py [--folder DIR] [--rounds 3] [--repeats 2]

DINO takes 2 views of 224 pixels and scale 0.4 to 1, and 8 of 96 pixels and scale 0.05 to 0.4; SimCLR takes 2 of 224 pixels and
scale 0.08 to 1. Crops and flips only, bilinear, uint8 out. 600 photos, each in so many files, warm page cache, batch 64, two threads or two
workers. In the DataLoader a photo is decoded once with PIL, and then cropped for each view, as DINO's own code does. The jobs take
turns as in loader.py; CPU time is that of the process and its children.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from claims import print_claim
from loader import Figures, measure
from photos import unpack_photos
from torchvision_import import import_torchvision

import headrace
from headrace.transforms import RandomHorizontalFlip, RandomResizedCrop, Views

BATCH = 64
Recipe = list[tuple[int, tuple[float, float]]]
RECIPES: dict[str, Recipe] = {
    "DINO, 2 x 224 + 8 x 96": [(224, (0.4, 1.0))] * 2 + [(96, (0.05, 0.4))] * 8,
    "SimCLR, 2 x 224": [(224, (0.08, 1.0))] * 2,
}
BARS = {"DINO, 2 x 224 + 8 x 96": 6.0, "SimCLR, 2 x 224": 5.0}
LOADER, TORCHVISION = "Loader, packed", "torchvision, DataLoader"


def load(path: Path, recipe: Recipe) -> Callable[[], int]:
    views = [
        [RandomResizedCrop(size, scale=scale), RandomHorizontalFlip()] for size, scale in recipe
    ]
    loader = headrace.Loader(path, BATCH, shuffle=True, transform=Views(*views), threads=2)
    return lambda: sum(len(labels) for _, labels in loader)


class Crops:
    """Makes all crops of one PIL image, as DINO's DataAugmentationDINO does."""

    def __init__(self, recipe: Recipe) -> None:
        T = import_torchvision().transforms
        self.transforms = [
            T.Compose(
                [T.RandomResizedCrop(size, scale=scale), T.RandomHorizontalFlip(), np.asarray]
            )
            for size, scale in recipe
        ]

    def __call__(self, image: Any) -> list[Any]:
        return [transform(image) for transform in self.transforms]


def collate(samples: list[tuple[list[Any], int]]) -> tuple[list[Any], Any]:
    import torch

    views = zip(*(crops for crops, _ in samples), strict=True)
    labels = torch.tensor([label for _, label in samples])
    return [torch.from_numpy(np.stack(view)) for view in views], labels


def load_with_torchvision(path: Path, recipe: Recipe) -> Callable[[], int]:
    import torch

    dataset = import_torchvision().datasets.ImageFolder(str(path), Crops(recipe))
    loader: Any = torch.utils.data.DataLoader(
        dataset, BATCH, shuffle=True, num_workers=2, collate_fn=collate, persistent_workers=True
    )
    return lambda: sum(len(labels) for _, labels in loader)


def print_figures(name: str, results: dict[str, Figures]) -> None:
    for job, figures in results.items():
        rate, cost = statistics.median(figures.rates), statistics.median(figures.costs)
        faster, cheaper = results[LOADER].compare(figures)
        print(
            f"{f'{name}: {job}':50}{rate:10.0f}{cost:8.2f}{faster:7.2f}x{1 / cheaper:7.2f}x",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", help="where to work")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}; {' '.join(sys.argv)}"
    )
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        source, packed = unpack_photos(Path(temporary), options.repeats), Path(temporary) / "packed"
        headrace.pack_dataset(source, packed)
        print(f"{len(headrace.open_dataset(packed))} photos")
        print(f"{'':50}{'images/s':>10}{'CPU ms':>8}{'ours':>8}{'CPU':>8}")
        for name, recipe in RECIPES.items():
            jobs = {
                LOADER: load(packed, recipe),
                TORCHVISION: load_with_torchvision(source, recipe),
            }
            results = measure(jobs, options.rounds)
            print_figures(name, results)
            ratios[name] = results[LOADER].compare(results[TORCHVISION])[0]
    for name, ratio in ratios.items():
        print_claim(f"views of {name} vs {TORCHVISION}", ratio, BARS[name])


if __name__ == "__main__":
    main()
