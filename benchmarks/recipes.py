"""Today's training recipes in the core, beside torchvision and timm in a DataLoader.

    python benchmarks/recipes.py [--folder DIR] [--rounds 3] [--repeats 4] [--samples 600]

- crop and flip: RandomResizedCrop(224), flip, Normalize.
- torchvision v2: its newer reference, 176 pixels, TrivialAugmentWide, RandomErasing(0.1), MixUp(0.2) or CutMix(1.0).
- DeiT: timm's create_transform, 224 pixels, bicubic, rand-m9-mstd0.5-inc1, erasing 0.25 of noise, mixup 0.8 or cutmix 1.0.
- SimCLR: two views of 224 pixels, jitter with hue, grayscale, Pillow's blur.

float32 out in all. 600 photos, each in so many files, warm page cache, batch 128, two threads or two workers. Both sides take the same
objects of torchvision or timm, but for mixing and for the blur, a class of one's own there. In the DataLoader, batches are mixed by the
collate_fn, in the workers; an epoch there takes `--samples` photos, ours all of them. The jobs take turns as in loader.py; CPU time is that
of the process and its children.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claims import print_claim
from loader import Figures, measure
from photos import unpack_photos
from torchvision_import import import_torchvision

import headrace
from headrace.transforms import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    CutMix,
    MixChoice,
    MixUp,
    PillowBlur,
    Views,
)

BATCH, CLASSES = 128, 1000
PLAIN, REFERENCE, DEIT, SIMCLR = "crop and flip", "torchvision v2", "DeiT", "SimCLR"
SMALL = "crop and flip, 176"
FASTER, SHARE = 8.0, 0.55


@dataclass(frozen=True)
class Recipe:
    """The transform of each side, and what makes batches of samples in the DataLoader."""

    ours: Any
    theirs: Callable[[Any], Any] | None
    collate: Callable[[list[Any]], Any] | None = None


class Blur:
    """Blurs a PIL image as MoCo and SimCLR do, half of the time."""

    def __call__(self, image: Any) -> Any:
        from PIL import ImageFilter

        if random.random() < 0.5:
            return image
        return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(0.1, 2.0)))


class Again:
    """Tries another time where timm asks Pillow for a posterisation to 0 bits, which newer versions refuse.

    One image of 700 has it, since the magnitude 9 deviates up to 10.
    """

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.transform = transform

    def __call__(self, image: Any) -> Any:
        try:
            return self.transform(image)
        except ValueError:
            return self(image)


class Twice:
    """Makes two views of an image."""

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.transform = transform

    def __call__(self, image: Any) -> list[Any]:
        return [self.transform(image), self.transform(image)]


class Mixing:
    """Makes a batch and mixes it."""

    def __init__(self, mix: Callable[[Any, Any], Any]) -> None:
        self.mix = mix

    def __call__(self, samples: list[Any]) -> Any:
        from torch.utils.data import default_collate

        return self.mix(*default_collate(samples))


def make_plain(size: int = 224) -> Recipe:
    T = import_torchvision().transforms
    steps = [T.RandomResizedCrop(size), T.RandomHorizontalFlip(), *make_floats()]
    return Recipe(T.Compose(steps), T.Compose(steps))


def make_floats() -> list[Any]:
    T = import_torchvision().transforms
    return [T.ToTensor(), T.Normalize(IMAGENET_MEAN, IMAGENET_STD)]


def make_reference() -> Recipe:
    T = import_torchvision().transforms
    from torchvision.transforms import v2

    policy = T.TrivialAugmentWide(interpolation=T.InterpolationMode.BILINEAR)
    steps = [T.RandomResizedCrop(176), T.RandomHorizontalFlip(), policy, *make_floats()]
    steps.append(T.RandomErasing(0.1))
    mixes = [v2.MixUp(alpha=0.2, num_classes=CLASSES), v2.CutMix(alpha=1.0, num_classes=CLASSES)]
    ours = MixChoice([MixUp(0.2, CLASSES), CutMix(1.0, CLASSES)])
    return Recipe([*steps, ours], T.Compose(steps), Mixing(v2.RandomChoice(mixes)))


def make_deit() -> Recipe:
    from timm.data import Mixup, create_transform

    transform = create_transform(
        224,
        is_training=True,
        auto_augment="rand-m9-mstd0.5-inc1",
        interpolation="bicubic",
        re_prob=0.25,
        re_mode="pixel",
    )
    mixup = Mixup(0.8, 1.0, label_smoothing=0.1, num_classes=CLASSES)
    ours = MixChoice([MixUp(0.8, CLASSES, 0.1), CutMix(1.0, CLASSES, 0.1)])
    return Recipe([*transform.transforms, ours], Again(transform), Mixing(mixup))


def make_simclr() -> Recipe:
    T = import_torchvision().transforms
    jitter = T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8)
    steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), jitter, T.RandomGrayscale(0.2)]
    blur = T.RandomApply([PillowBlur((0.1, 2.0))], p=0.5)
    ours = Views(T.Compose([*steps, blur, *make_floats()]), count=2)
    return Recipe(ours, Twice(T.Compose([*steps, Blur(), *make_floats()])))


def load(path: Path, recipe: Recipe) -> Callable[[], int]:
    loader = headrace.Loader(path, BATCH, shuffle=True, transform=recipe.ours, threads=2)
    if "Python" in str(loader):
        sys.exit(f"not all of it runs in the core:\n{loader}")
    return lambda: sum(len(labels) for _, labels in loader)


def load_with_torch(path: Path, recipe: Recipe, samples: int) -> Callable[[], int]:
    from torch.utils.data import DataLoader, RandomSampler

    dataset = import_torchvision().datasets.ImageFolder(str(path), recipe.theirs)
    loader: Any = DataLoader(
        dataset,
        BATCH,
        sampler=RandomSampler(dataset, num_samples=samples),
        num_workers=2,
        collate_fn=recipe.collate,
        persistent_workers=True,
    )
    return lambda: sum(len(labels) for _, labels in loader)


def make_recipes() -> dict[str, Recipe]:
    recipes = {PLAIN: make_plain(), REFERENCE: make_reference()}
    try:
        recipes[DEIT] = make_deit()
    except ModuleNotFoundError:
        print("without timm, which is not installed")
    return {**recipes, SIMCLR: make_simclr(), SMALL: Recipe(make_plain(176).ours, None)}


def make_jobs(
    recipes: dict[str, Recipe], source: Path, packed: Path, samples: int
) -> dict[str, Callable[[], int]]:
    """Return a job a side and recipe; those of the two sides alternate."""
    jobs = {}
    for name, recipe in recipes.items():
        jobs[f"{name}: Loader"] = load(packed, recipe)
        if recipe.theirs is not None:
            jobs[f"{name}: DataLoader"] = load_with_torch(source, recipe, samples)
    return jobs


def print_figures(results: dict[str, Figures]) -> None:
    print(f"{'':36}{'images/s':>10}{'CPU ms':>8}{'ours':>8}{'CPU':>8}")
    for job, figures in results.items():
        rate, cost = statistics.median(figures.rates), statistics.median(figures.costs)
        faster, cheaper = results[f"{job.split(': ')[0]}: Loader"].compare(figures)
        print(f"{job:36}{rate:10.0f}{cost:8.2f}{faster:7.2f}x{1 / cheaper:7.2f}x")


def print_claims(results: dict[str, Figures], names: list[str]) -> None:
    ours = {name: results[f"{name}: Loader"] for name in names}
    for name in names:
        if f"{name}: DataLoader" in results:
            ratio = ours[name].compare(results[f"{name}: DataLoader"])[0]
            print_claim(
                f"recipe of {name} vs {'timm' if name == DEIT else 'torchvision'}", ratio, FASTER
            )
    for name in (REFERENCE, DEIT):
        if name in ours:
            share, cpu = ours[name].compare(ours[PLAIN])
            print_claim(f"recipe of {name} vs our own {PLAIN}", share, SHARE)
            print_claim(f"CPU of the recipe of {name} vs our own {PLAIN}", cpu, None)
    small = ours[REFERENCE].compare(ours[SMALL])[0]
    print_claim(f"recipe of {REFERENCE} vs our own {SMALL}", small, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", help="where to work")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--samples", type=int, default=600)
    options = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}; {' '.join(sys.argv)}"
    )
    recipes = make_recipes()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        source, packed = unpack_photos(Path(temporary), options.repeats), Path(temporary) / "packed"
        headrace.pack_dataset(source, packed)
        print(f"{len(headrace.open_dataset(packed))} photos")
        results = measure(make_jobs(recipes, source, packed, options.samples), options.rounds)
    print_figures(results)
    print_claims(results, list(recipes))


if __name__ == "__main__":
    main()
