"""Run the main job end to end: generate photos, pack, verify, read back, train a small model.

    python examples/demo.py [--count 2000] [--folder .demo]

Prints each step and its speed, next to the same job done from loose files. `make demo` runs it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from photos import make_photos
from PIL import Image
from rich.console import Console
from rich.table import Table

import headrace
from headrace.transforms import RandomHorizontalFlip, RandomResizedCrop

CONSOLE = Console()


def timed(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def prepare(folder: Path, count: int) -> Path:
    """Generate the photos, unless they exist."""
    source = folder / f"photos-{count}"
    if not source.exists():
        CONSOLE.print(f"generating {count} photos in {source} (once)")
        unfinished = source.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        make_photos(unfinished, count)
        unfinished.rename(source)
    return source


def drop_cache(paths: Iterable[Path]) -> None:
    """Ask the system to drop these files from its page cache."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def read_loose(source: Path) -> int:
    return sum(len(path.read_bytes()) for path in source.rglob("*.jpg"))


def read_packed(dataset: headrace.Dataset) -> int:
    return sum(
        len(jpg) for (jpegs,) in headrace.Loader(dataset, 256, fields=("jpg",)) for jpg in jpegs
    )


def crop_loose(source: Path) -> int:
    """Do what a plain Python loader does for each image: open, decode, crop, resize, flip."""
    rng, done = np.random.default_rng(0), 0
    for path in sorted(source.rglob("*.jpg"))[::8]:
        with Image.open(path) as image:
            width, height = (int(side * rng.uniform(0.3, 1)) for side in image.size)
            left, top = (
                rng.integers(image.width - width + 1),
                rng.integers(image.height - height + 1),
            )
            box = (left, top, left + width, top + height)
            np.asarray(image.convert("RGB").crop(box).resize((224, 224), Image.Resampling.BILINEAR))
        done += 1
    return done


def load_epoch(loader: Iterable[tuple[np.ndarray, np.ndarray]]) -> int:
    return sum(len(images) for images, _ in loader)


def compare(source: Path, packed: Path) -> None:
    """Return a table of the speed of each job, from loose files and from shards."""
    dataset = headrace.open_dataset(packed)
    count, size = len(dataset), sum(path.stat().st_size for path in source.rglob("*.jpg"))
    steps = [RandomResizedCrop(224), RandomHorizontalFlip()]
    loader = headrace.Loader(dataset, 256, shuffle=True, transform=steps)
    drop_cache(source.rglob("*.jpg"))
    loose_bytes = timed(lambda: read_loose(source))
    drop_cache(packed.glob("*.tar"))
    packed_bytes = timed(lambda: read_packed(dataset))
    load_epoch(loader)  # warm
    loose_crops = timed(lambda: crop_loose(source)) * 8 / len(os.sched_getaffinity(0))
    packed_crops = timed(lambda: load_epoch(loader))
    table = Table(title=f"{count} photos, {size / 1e6:.0f} MB")
    for column in ("job", "loose files", "shards", "ratio"):
        table.add_column(column, justify="left" if column == "job" else "right")
    table.add_row(
        "read every byte, cold cache",
        f"{size / loose_bytes / 1e6:.0f} MB/s",
        f"{size / packed_bytes / 1e6:.0f} MB/s",
        f"{loose_bytes / packed_bytes:.1f}×",
    )
    table.add_row(
        "random 224×224 crops, warm cache, all cores",
        f"{count / loose_crops:.0f} images/s (Pillow)",
        f"{count / packed_crops:.0f} images/s",
        f"{loose_crops / packed_crops:.1f}×",
    )
    CONSOLE.print(table)


def train(packed: Path, epochs: int = 4) -> None:
    """Train a small network on the shards; four lines are about loading."""
    try:
        import torch
    except ModuleNotFoundError:
        CONSOLE.print("torch is not installed: no training")
        return
    from headrace.torch import Loader
    from headrace.transforms import CenterCrop, Normalize, Resize

    torch.manual_seed(0)
    norm = Normalize()
    training = Loader(packed, 64, shuffle=True, transform=[RandomResizedCrop(64, (0.3, 1.0)), norm])
    testing = Loader(packed, 200, transform=[Resize(72), CenterCrop(64), norm])
    model = torch.nn.Sequential(
        *[layer for width in ((3, 16), (16, 32), (32, 64)) for layer in make_block(*width)],
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
    ).to(memory_format=torch.channels_last)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for epoch in range(epochs):
        training.set_epoch(epoch)
        losses = []
        for images, labels in training:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        CONSOLE.print(f"epoch {epoch}: loss {np.mean(losses):.3f}")
    model.eval()
    with torch.no_grad():
        right = sum(int((model(images).argmax(1) == labels).sum()) for images, labels in testing)
    stats = training.stats()
    CONSOLE.print(
        f"{right / len(testing.dataset):.1%} of the photos recognised; "
        f"the training loop waited {stats.wait_seconds / stats.seconds:.1%} of its time for data"
    )


def make_block(width_in: int, width_out: int) -> list[object]:
    import torch

    return [
        torch.nn.Conv2d(width_in, width_out, 3, stride=2, padding=1),
        torch.nn.BatchNorm2d(width_out),
        torch.nn.ReLU(),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=Path(".demo"))
    options = parser.parse_args()
    source = prepare(options.folder, options.count)
    packed = options.folder / "shards"
    shutil.rmtree(packed, ignore_errors=True)
    summary = headrace.pack_dataset(source, packed, shard_size=64 << 20)
    CONSOLE.print(
        f"packed {summary.samples} photos into {summary.shards} shards in {summary.seconds:.1f} s "
        f"({summary.source_bytes / summary.seconds / 1e6:.0f} MB/s)"
    )
    start = time.perf_counter()
    problems = headrace.verify_dataset(packed)
    seconds = time.perf_counter() - start
    CONSOLE.print(f"verified every byte in {seconds:.1f} s: {len(problems)} problems")
    compare(source, packed)
    train(packed)


if __name__ == "__main__":
    main()
