"""Transforms that need Python, in two workers: Headrace beside torch's DataLoader with the same transform.

    python benchmarks/python_transform.py [--repeats 4] [--batch 64] [--rounds 3]

Both read the same image folder (the sample photos, repeated), warm, and give the same kind of batch. What
the core can do of a transform runs in the core; the rest is the same Python in both. Rounds are interleaved,
the best of each is shown.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from claims import print_claim
from photos import unpack_photos
from torchvision_import import import_torchvision

import headrace.torch


def posterize(image: Any) -> Any:
    """Change a PIL image as a user's function would."""
    from PIL import ImageFilter, ImageOps

    return ImageOps.posterize(image, 5).filter(ImageFilter.BoxBlur(1))


def make_transforms() -> dict[str, Any]:
    T = import_torchvision().transforms
    normalize = T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    crop = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()]
    tensor = [T.ToTensor(), normalize]
    return {
        "crop, flip, own function": T.Compose([*crop, posterize, *tensor]),
        "crop, flip, AugMix": T.Compose([*crop, T.AugMix(), *tensor]),
        "crop, flip, AugMix, RandomErasing": T.Compose(
            [*crop, T.AugMix(), *tensor, T.RandomErasing()]
        ),
        "RandomCrop that reflects (nothing for the core)": T.Compose(
            [T.RandomCrop(224, pad_if_needed=True, padding_mode="symmetric"), *crop[1:], *tensor]
        ),
    }


def make_loaders(folder: Path, transform: Any, batch: int) -> dict[str, Iterable[Any]]:
    import torch

    dataset = import_torchvision().datasets.ImageFolder(str(folder), transform)
    return {
        "DataLoader": torch.utils.data.DataLoader(dataset, batch, shuffle=True, num_workers=2),
        "Headrace": headrace.torch.Loader(
            folder, batch, shuffle=True, transform=transform, num_workers=2
        ),
    }


def measure(loader: Iterable[Any]) -> float:
    """Return images per second over an epoch after its first batch, without starting workers."""
    batches = iter(loader)
    next(batches)
    start = time.perf_counter()
    count = sum(len(labels) for _, labels in batches)
    return count / (time.perf_counter() - start)


def best_of(rounds: int, loaders: dict[str, Any], run: Callable[[Any], float]) -> dict[str, float]:
    best = dict.fromkeys(loaders, 0.0)
    for _ in range(rounds):
        for name, loader in loaders.items():
            best[name] = max(best[name], run(loader))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="copies of the 600 photos")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    print(f"{'two workers, images/s':42} {'DataLoader':>10} {'Headrace':>10} {'ratio':>6}")
    ratios: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        photos = unpack_photos(Path(folder), options.repeats)
        for name, transform in make_transforms().items():
            loaders = make_loaders(photos, transform, options.batch)
            rates = best_of(options.rounds, loaders, measure)
            ratio = rates["Headrace"] / rates["DataLoader"]
            print(
                f"{name:42} {rates['DataLoader']:10.0f} {rates['Headrace']:10.0f} {ratio:5.2f}x",
                flush=True,
            )
            ratios[name] = ratio
    for name, ratio in ratios.items():
        print_claim(f"Python in workers ({name}) vs DataLoader", ratio, 1.0)


if __name__ == "__main__":
    main()
