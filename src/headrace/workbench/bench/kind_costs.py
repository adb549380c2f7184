"""What rendering costs by kind of image, and what it would cost after recoding."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.image_header import RECODABLE, read_header
from headrace.pack.recode_images import recode_image
from headrace.render import build_seek, render_batch
from headrace.workbench.bench.stage_jobs import Workload

_MOST = 24
"""Images of a kind that are measured."""
_SIZE = (224, 224)


@dataclass(frozen=True)
class KindCosts:
    """CPU milliseconds to render an image of each kind; and of the images that can be recoded, after that."""

    kind_ms: dict[str, float]
    recoded_ms: float | None


def measure_kinds(load: Workload, rounds: int = 3) -> KindCosts:
    """Measure each kind among the samples in memory, in one thread."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, image in enumerate(load.held.images):
        places[read_header(image).kind].append(place)
    times = {
        kind: _time_render(load, found[:_MOST], rounds) for kind, found in sorted(places.items())
    }
    slow = [place for kind in sorted(RECODABLE & places.keys()) for place in places[kind][:_MOST]]
    return KindCosts(times, _time_recoded(load, slow, rounds))


def _time_recoded(load: Workload, places: list[int], rounds: int) -> float | None:
    """Return the time of images when they are recoded; None if no image can be."""
    held = load.held
    images, seeks, recodable = list(held.images), list(held.seeks), []
    for place in places:
        if (found := recode_image(images[place])) is not None:
            images[place] = found[1]
            seeks[place] = build_seek(found[1])
            recodable.append(place)
    if not recodable:
        return None
    recoded = replace(load, held=replace(held, images=images, seeks=seeks))
    return _time_render(recoded, recodable, rounds)


def _time_render(load: Workload, places: list[int], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        before = time.process_time()
        load.render(1, places)
        times.append(time.process_time() - before)
    return min(times) * 1e3 / len(places)


def measure_recoding(images: Sequence[bytes]) -> float | None:
    """Return how many times as fast some images are rendered once they are recoded; None if none can be.

    Each is cropped in the middle, to half of its width and height, and resized.
    """
    ratios = []
    for image in images:
        if (found := recode_image(image)) is None:
            continue
        _, height, width = read_header(image)
        box = np.array([[width // 4, height // 4, max(width // 2, 1), max(height // 2, 1)]])
        before = _time_one(image, b"", box)
        ratios.append(before / _time_one(found[1], build_seek(found[1]), box))
    return statistics.median(ratios) if ratios else None


def _time_one(image: bytes, seek: bytes, box: np.ndarray) -> float:
    times = []
    for _ in range(3):
        start = time.thread_time()
        render_batch([image], box, _SIZE, seeks=[seek], threads=1)
        times.append(time.thread_time() - start)
    return max(min(times), 1e-6)
