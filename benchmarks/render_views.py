"""Several views of an image: decoded each by itself, always once for all, and by the rule that chooses.

    python benchmarks/render_views.py [--photos TAR] [--count 300] [--rounds 7]

DINO takes 2 views of 224 pixels and scale 0.4 to 1, and 8 of 96 pixels and scale 0.05 to 0.4; SimCLR takes 2 of 224 pixels and
scale 0.08 to 1; 4 views of 48 pixels and scale 0.01 to 0.1 have little in common. "Apart" is a request for each view. All take turns on the same photos. CPU time is that of one thread;
images/s is wall-clock time on two. Figures are medians of the rounds, a ratio is the median of the ratios within a round.
"""

from __future__ import annotations

import argparse
import io
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from claims import print_claim
from photos import ARCHIVE, draw_box, read_photos
from PIL import Image

from headrace import _core
from headrace.render import Draws, Jobs, RenderRequest, Target, View, build_seek

Scale = tuple[float, float]
RECIPES: dict[str, list[tuple[int, Scale]]] = {
    "DINO, 2 x 224 + 8 x 96": [(224, (0.4, 1.0))] * 2 + [(96, (0.05, 0.4))] * 8,
    "SimCLR, 2 x 224": [(224, (0.08, 1.0))] * 2,
    "4 x 48": [(48, (0.01, 0.1))] * 4,
}
WAYS = ("never", "always", "auto")
Key = tuple[str, str, str]  # recipe, kind of photo, way


def recode(photo: bytes) -> bytes:
    """Return a photo as a progressive JPEG."""
    out = io.BytesIO()
    Image.open(io.BytesIO(photo)).convert("RGB").save(out, "JPEG", quality=90, progressive=True)
    return out.getvalue()


class Work:
    """Photos of one kind, and the views of a recipe, with memory of their own."""

    def __init__(self, photos: list[bytes], seeks: list[bytes] | None, recipe: list[Any]) -> None:
        rng = np.random.default_rng(0)
        sizes = [Image.open(io.BytesIO(photo)).size for photo in photos]
        self.photos, self.seeks = photos, seeks
        self.views = []
        for side, scale in recipe:
            boxes = [draw_box(rng, *size, scale) for size in sizes]
            draws = Draws(boxes, flips=rng.random(len(photos)) < 0.5)
            out = np.empty((len(photos), side, side, 3), np.uint8)
            self.views.append(View(draws, Target((side, side), out=out)))

    def render(self, way: str, threads: int) -> None:
        requests = [self.views] if way != "apart" else [[view] for view in self.views]
        _core.set_sharing("auto" if way == "apart" else way)
        for views in requests:
            jobs = Jobs(self.photos, views[0].draws, self.seeks)
            request = RenderRequest(jobs, views[0].target, views[1:])
            _core.Request(request).render(threads)
            assert not any(status.any() for _, status in request.results)
        _core.set_sharing("auto")


def measure(work: Work, threads: int, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    """Return the milliseconds per image of every way, a list with each round, after one to warm up."""
    times: dict[str, list[float]] = {way: [] for way in ("apart", *WAYS)}
    for number in range(rounds + 1):
        for way, found in times.items():
            start = clock()
            work.render(way, threads)
            if number:
                found.append((clock() - start) * 1e3 / len(work.photos))
    return times


def compare(times: dict[str, list[float]], slow: str, fast: str) -> float:
    return statistics.median(a / b for a, b in zip(times[slow], times[fast], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--photos", type=Path, default=ARCHIVE, help="a tar of JPEGs")
    parser.add_argument("--count", type=int, default=300, help="how many of them")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    photos = read_photos(options.photos, options.count)
    kinds = {
        "seek tables": (photos, [build_seek(photo) for photo in photos]),
        "no tables": (photos, None),
        "progressive": ([recode(photo) for photo in photos[: len(photos) // 3]], None),
    }
    print(f"$ python {' '.join(sys.argv)}")
    print(f"{len(photos)} photos; {platform.machine()}, Python {platform.python_version()}\n")
    names = ("apart", *WAYS)
    head = "".join(f"{name:>8}" for name in names)
    print(f"{'':38}{'CPU ms per image':^32}{'images/s':^32}\n{'':38}{head}{head}")
    gains: dict[str, float] = {}
    for recipe, views in RECIPES.items():
        for kind, given in kinds.items():
            work = Work(*given, views)
            cpu = measure(work, 1, options.rounds, time.process_time)
            wall = measure(work, 2, options.rounds, time.perf_counter)
            costs = "".join(f"{statistics.median(cpu[way]):8.3f}" for way in names)
            rates = "".join(f"{1e3 / statistics.median(wall[way]):8.0f}" for way in names)
            print(f"{recipe + ', ' + kind:38}{costs}{rates}", flush=True)
            best = min(("never", "always"), key=lambda way: statistics.median(cpu[way]))
            gains[f"{recipe}, {kind}: the rule vs apart"] = compare(cpu, "apart", "auto")
            gains[f"{recipe}, {kind}: the rule vs the better of both"] = compare(cpu, best, "auto")
    print()
    for name, gain in gains.items():
        print_claim(name, gain, 0.97 if "better" in name else 1.0)


if __name__ == "__main__":
    main()
