"""A dataset of mixed kinds (60 % baseline JPEG, 30 % progressive, 10 % PNG) beside torchvision, as it is and recoded.

    python benchmarks/mixed.py [--folder DIR] [--rounds 3] [--repeats 3]

The same 600 photos in every epoch, each in so many files, warm page cache, batch 256, RandomResizedCrop(224) + flip, uint8
out, two threads or two workers. The jobs take turns as in loader.py.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

from claims import print_claim
from loader import load, load_with_torchvision, measure
from photos import unpack_photos
from PIL import Image, ImageFile

import headrace

TORCHVISION = "torchvision ImageFolder"


def mix_kinds(root: Path) -> dict[str, int]:
    """Save six of ten photos as they are, three as progressive JPEGs and one as PNG. Return the bytes of each kind."""
    sizes = {"baseline": 0, "progressive": 0, "png": 0}
    for number, path in enumerate(sorted(root.rglob("*.*"))):
        data, kind = path.read_bytes(), "baseline"
        if number % 10 in (2, 5, 8):
            data, kind = save(data, "JPEG", quality="keep", progressive=True), "progressive"
        elif number % 10 == 9:
            data, kind = save(data, "PNG"), "png"
            path.unlink()
            path = path.with_suffix(".png")
        path.write_bytes(data)
        sizes[kind] += len(data)
    return sizes


def save(photo: bytes, format: str, **options: object) -> bytes:
    out = io.BytesIO()
    image = Image.open(io.BytesIO(photo))
    if format == "PNG" and image.mode != "L":
        image = image.convert("RGB")
    image.save(out, format, **options)
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", help="where to work")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    ImageFile.MAXBLOCK = 1 << 24  # Pillow fails to write files that need more than its buffer
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        os.environ["HEADRACE_CACHE"] = str(Path(temporary) / "cache")
        source = unpack_photos(Path(temporary), repeats=options.repeats)
        sizes = mix_kinds(source)
        plain, recoded = Path(temporary) / "packed", Path(temporary) / "recoded"
        headrace.pack_dataset(source, plain)
        headrace.pack_dataset(source, recoded, recode=True)
        jobs = {
            "Loader, packed": load(plain),
            "Loader, packed --recode": load(recoded),
            TORCHVISION: load_with_torchvision(source),
        }
        results = measure(jobs, options.rounds)
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}; {' '.join(sys.argv)}"
    )
    print(", ".join(f"{kind} {size / 1e6:.0f} MB" for kind, size in sizes.items()))
    print(f"{'':26}{'images/s':>10}{'CPU ms':>8}{'x torchvision':>15}")
    slowest = results[TORCHVISION]
    for name, figures in results.items():
        rate, cost = statistics.median(figures.rates), statistics.median(figures.costs)
        print(f"{name:26}{rate:10.0f}{cost:8.2f}{figures.compare(slowest)[0]:15.1f}")
    for name, bar in (("Loader, packed", 3.5), ("Loader, packed --recode", 6.0)):
        times = results[name].compare(slowest)[0]
        print_claim(f"mixed kinds, {name} vs {TORCHVISION}", times, bar)


if __name__ == "__main__":
    main()
