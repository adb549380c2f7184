"""Photos with masks: RandomResize, RandomCrop(512) and flips beside torchvision v2 and albumentations in a DataLoader.

    pip install -r benchmarks/requirements.txt
    python benchmarks/pairs.py [--folder DIR] [--rounds 3] [--repeats 4]

The pairs of CamVid in ../shared/data as JPEGs and PNGs of 640x480 pixels, in so many copies; warm page cache, batch 16, uint8
out, two threads or two workers. The jobs take turns as in loader.py. Below is the time of the nearest labels of one mask alone.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import random
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from claims import print_claim
from loader import measure
from photos import ARCHIVE
from PIL import Image
from torchvision_import import import_torchvision

import headrace
from headrace import _core
from headrace.transforms import RandomCrop, RandomHorizontalFlip, RandomResize

CAMVID = ARCHIVE.with_name("camvid.tar")
BATCH, CROP, SIZE = 16, 512, (640, 480)
STEPS = [RandomResize(240, 960), RandomCrop(CROP, pad_if_needed=True), RandomHorizontalFlip()]
TORCHVISION, ALBUMENTATIONS = "torchvision v2, DataLoader", "albumentations, DataLoader"


def write_pairs(folder: Path, repeats: int) -> int:
    """Write each pair `repeats` times to images/ and masks/, and all of them to a tar. Return their number."""
    if not CAMVID.exists():
        sys.exit(f"needs {CAMVID.name} in ../shared/data")
    pairs: dict[str, dict[str, bytes]] = {}
    with tarfile.open(CAMVID) as tar:
        for member in tar:
            path = Path(member.name)
            if path.suffix == ".png":
                data = tar.extractfile(member).read()  # type: ignore[union-attr]
                kind = path.parent.name
                pairs.setdefault(path.stem.removesuffix("_L"), {})[kind] = save(data, kind)
    (folder / "images").mkdir()
    (folder / "masks").mkdir()
    with tarfile.open(folder / "pairs.tar", "w") as tar:
        for copy in range(repeats):
            for name, pair in sorted(pairs.items()):
                for kind, suffix, loose in (("images", "jpg", "jpg"), ("masks", "mask.png", "png")):
                    (folder / kind / f"{name}-{copy}.{loose}").write_bytes(pair[kind])
                    info = tarfile.TarInfo(f"{name}-{copy}.{suffix}")
                    info.size = len(pair[kind])
                    tar.addfile(info, io.BytesIO(pair[kind]))
    return repeats * len(pairs)


def save(data: bytes, kind: str) -> bytes:
    """Return a picture of the benchmark's size: a photo as JPEG, a mask as PNG."""
    image, out = Image.open(io.BytesIO(data)), io.BytesIO()
    if kind == "images":
        image.convert("RGB").resize(SIZE).save(out, "JPEG", quality=90)
    else:
        image.resize(SIZE, Image.Resampling.NEAREST).save(out, "PNG")
    return out.getvalue()


def load(path: Path) -> Callable[[], int]:
    loader = headrace.Loader(
        path, BATCH, shuffle=True, fields=("image", "mask"), transform=STEPS, threads=2
    )
    return lambda: sum(len(masks) for _, masks in loader)


class Pairs:
    """A dataset of PyTorch's, over loose files."""

    def __init__(self, folder: Path, transform: Callable[[Path, Path], tuple[Any, Any]]) -> None:
        self.images = sorted((folder / "images").iterdir())
        self.masks = sorted((folder / "masks").iterdir())
        self.transform = transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        return self.transform(self.images[number], self.masks[number])


class ByTorchvision:
    def __init__(self) -> None:
        import_torchvision()
        from torchvision import tv_tensors
        from torchvision.transforms import v2 as V

        self.tv = tv_tensors
        fill = {self.tv.Mask: 255, "others": 0}
        self.compose = V.Compose(
            [
                V.RandomResize(240, 960),
                V.RandomCrop(CROP, pad_if_needed=True, fill=fill),
                V.RandomHorizontalFlip(),
            ]
        )

    def __call__(self, image: Path, mask: Path) -> tuple[Any, Any]:
        import torch

        labels = self.tv.Mask(torch.from_numpy(np.array(Image.open(mask))))
        photo, labels = self.compose(Image.open(image).convert("RGB"), labels)
        return torch.from_numpy(np.array(photo)), labels


class ByAlbumentations:
    def __init__(self) -> None:
        import albumentations as A
        import cv2

        cv2.setNumThreads(0)
        self.crop = A.Compose(
            [
                A.PadIfNeeded(CROP, CROP, border_mode=cv2.BORDER_CONSTANT, fill=0, fill_mask=255),
                A.RandomCrop(CROP, CROP),
                A.HorizontalFlip(p=0.5),
            ]
        )
        self.resize = {size: A.SmallestMaxSize(size) for size in range(240, 960)}

    def __call__(self, image: Path, mask: Path) -> tuple[Any, Any]:
        import cv2
        import torch

        photo = cv2.cvtColor(cv2.imread(str(image)), cv2.COLOR_BGR2RGB)
        labels = cv2.imread(str(mask), cv2.IMREAD_UNCHANGED)
        resized = self.resize[random.randrange(240, 960)](image=photo, mask=labels)
        done = self.crop(image=resized["image"], mask=resized["mask"])
        return torch.from_numpy(done["image"]), torch.from_numpy(done["mask"])


def load_with_workers(folder: Path, transform: Any) -> Callable[[], int]:
    import torch

    loader: Any = torch.utils.data.DataLoader(
        Pairs(folder, transform), BATCH, shuffle=True, num_workers=2, persistent_workers=True
    )
    return lambda: sum(len(masks) for _, masks in loader)


def time_nearest() -> float:
    """Return the microseconds that a mask of 500x600 labels takes to become 256x256."""
    labels = np.random.default_rng(0).integers(0, 20, (500, 600)).astype(np.uint8)
    out, times = np.empty((256, 256), np.uint8), []
    for _ in range(9):
        start = time.process_time()
        for _ in range(300):
            _core.render_labels(labels, (500, 256, 0, False), (600, 256, 0, False), 255, out)
        times.append((time.process_time() - start) / 300)
    return statistics.median(times) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", help="where to work")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary)
        count = write_pairs(folder, options.repeats)
        headrace.pack_dataset(folder / "pairs.tar", folder / "packed")
        jobs = {
            "Loader, packed": load(folder / "packed"),
            TORCHVISION: load_with_workers(folder, ByTorchvision()),
            ALBUMENTATIONS: load_with_workers(folder, ByAlbumentations()),
        }
        results = measure(jobs, options.rounds)
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}; {' '.join(sys.argv)}"
    )
    print(f"{count} pairs of {SIZE[0]}x{SIZE[1]} pixels")
    print(f"{'':28}{'pairs/s':>10}{'CPU ms':>8}{'ours':>8}")
    ours = results["Loader, packed"]
    for name, figures in results.items():
        rate, cost = statistics.median(figures.rates), statistics.median(figures.costs)
        print(f"{name:28}{rate:10.0f}{cost:8.2f}{ours.compare(figures)[0]:7.2f}x")
    for name, bar in ((TORCHVISION, 4.0), (ALBUMENTATIONS, 2.0)):
        print_claim(f"photos with masks vs {name}", ours.compare(results[name])[0], bar)
    print_claim(
        "nearest labels of 500x600 to 256x256", time_nearest(), 30, " microseconds", at_most=True
    )


if __name__ == "__main__":
    main()
