"""Generate a small dataset that loads like photographs: ImageNet-like sizes, JPEG entropy and classes.

    python examples/photos.py OUT [--count 2000] [--classes 10] [--seed 0]

A picture is a part of the texture of its class, whose spectrum falls off as 1/f like the spectrum of
natural images, with its own light, a few shapes and sensor noise. The same arguments give the same
pictures.
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

WORLD = 1536  # pixels of a texture's side
QUALITY = 91


@lru_cache(maxsize=2)
def make_texture(label: int, seed: int) -> np.ndarray:
    """Return float32[WORLD, WORLD, 3]: 1/f noise with the orientation and the colours of class `label`."""
    rng = np.random.default_rng([seed, label])
    fy, fx = np.meshgrid(np.fft.fftfreq(WORLD), np.fft.rfftfreq(WORLD), indexing="ij")
    angle = math.pi * label * 0.381966
    along = fx * math.cos(angle) + fy * math.sin(angle)
    across = fy * math.cos(angle) - fx * math.sin(angle)
    radius = np.hypot(along * 0.6, across * 1.6) + 1 / WORLD
    channels = []
    for _ in range(3):
        phases = np.exp(2j * np.pi * rng.random(radius.shape))
        channels.append(np.fft.irfft2(phases * radius**-1.15, (WORLD, WORLD)))
    noise = np.stack(channels, -1)
    noise /= noise.std(axis=(0, 1))
    grey = noise.mean(-1, keepdims=True)
    colour = np.asarray(rng.uniform(70, 185, 3))
    return np.asarray(colour + 46 * grey + 14 * noise, np.float32)


def make_photo(label: int, number: int, seed: int) -> Image.Image:
    """Return photo `number` of class `label`."""
    rng = np.random.default_rng([seed, label, number])
    long, short = (int(side) for side in rng.normal((490, 385), (60, 50)).clip(240, 800))
    width, height = (long, short) if rng.random() < 0.75 else (short, long)
    top, left = rng.integers(0, WORLD - height), rng.integers(0, WORLD - width)
    pixels = make_texture(label, seed)[top : top + height, left : left + width]
    light = np.linspace(*rng.uniform(0.75, 1.25, 2), width, dtype=np.float32)[None, :, None]
    pixels = pixels * light + rng.normal(0, 7.5, (height, width, 1)).astype(np.float32)
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    for _ in range(3):
        x, y, size = rng.integers(0, width), rng.integers(0, height), rng.integers(20, 110)
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        pen.regular_polygon((int(x), int(y), int(size)), 3 + label % 6, fill=colour)
    return image


def write_class(out: Path, label: int, count: int, seed: int) -> int:
    """Write the photos of a class and return their size in bytes."""
    folder = out / f"class{label:02d}"
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for number in range(count):
        path = folder / f"photo_{number:05d}.jpg"
        make_photo(label, number, seed).save(path, quality=QUALITY, subsampling=number % 4 // 3 * 2)
        total += path.stat().st_size
    return total


def make_photos(out: Path, count: int = 2000, classes: int = 10, seed: int = 0) -> int:
    """Write `count` photos in a folder per class below `out` and return their size in bytes."""
    counts = [count // classes + (c < count % classes) for c in range(classes)]
    with ProcessPoolExecutor() as pool:
        jobs = [pool.submit(write_class, out, c, counts[c], seed) for c in range(classes)]
        return sum(job.result() for job in jobs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    size = make_photos(options.out, options.count, options.classes, options.seed)
    print(f"{options.out}: {options.count} photos, {size / options.count / 1000:.0f} KB each")


if __name__ == "__main__":
    main()
