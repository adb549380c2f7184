"""Kills a worker at a random moment, a hundred times: how long until the training loop is told, and what is left.

    python benchmarks/killed_workers.py [--times 100]

Ends with an error unless every kill is a WorkerError within a second that leaves no process, no thread, no
descriptor and no shared memory.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from claims import print_claim
from PIL import Image

import headrace


def make_folder(root: Path) -> Path:
    rng = np.random.default_rng(0)
    for number in range(600):
        path = root / f"class{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (48, 48, 3), np.uint8)).save(path)
    return root


def blur(image: Any) -> Any:
    """Run Python for a few milliseconds."""
    return [image := image.rotate(7) for _ in range(40)][-1].resize((24, 24))


def count_left() -> tuple[int, int, int, int]:
    """Count processes, threads, descriptors and names in shared memory."""
    gc.collect()
    names = len(list(Path("/dev/shm").iterdir())) if Path("/dev/shm").is_dir() else 0
    descriptors = len(os.listdir("/proc/self/fd"))
    return len(multiprocessing.active_children()), threading.active_count(), descriptors, names


def kill_once(folder: Path, moment: float, number: int) -> float:
    """Return the seconds from the kill to the error."""
    loader = headrace.Loader(folder, 4, transform=blur, num_workers=2)
    batches = iter(loader)
    next(batches)
    victim = multiprocessing.active_children()[number % 2].pid
    assert victim is not None
    killed: list[float] = []

    def kill() -> None:
        killed.append(time.perf_counter())
        os.kill(victim, signal.SIGKILL)

    timer = threading.Timer(moment, kill)
    timer.start()
    try:
        for _ in batches:
            pass
        sys.exit("the epoch ended before the kill: it has to be longer")
    except headrace.WorkerError as error:
        told = time.perf_counter()
        assert "killed by SIGKILL" in str(error), error
    finally:
        timer.join()
    return told - killed[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=100)
    options = parser.parse_args()
    moments = random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        os.environ["HEADRACE_CACHE"] = str(Path(place) / "cache")
        folder = make_folder(Path(place) / "images")
        kill_once(folder, 0.01, 0)  # whatever Python itself sets up once
        before = count_left()
        waits = [kill_once(folder, moments.uniform(0, 0.15), n) for n in range(options.times)]
        left = [after - had for after, had in zip(count_left(), before)]
    late = sum(wait > 1 for wait in waits)
    print(f"{len(waits)} kills, {len(waits)} errors, {late} of them later than a second")
    print(
        f"slowest {1e3 * max(waits):.0f} ms, median {1e3 * sorted(waits)[len(waits) // 2]:.0f} ms"
    )
    print("left: {} processes, {} threads, {} descriptors, {} names in shared memory".format(*left))
    print_claim("slowest word of a killed worker", max(waits), 1.0, " s", at_most=True)
    print_claim("left behind by killed workers", sum(left), 0, " things", at_most=True)
    sys.exit(1 if late or any(more > 0 for more in left) else 0)


if __name__ == "__main__":
    main()
