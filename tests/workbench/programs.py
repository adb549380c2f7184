"""A training program for the doctor to watch: `python programs.py CASE`. It times its own waits for comparison."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

STEP = 0.005


def work(seconds: float) -> None:
    """Keep the main thread busy, as a training step does."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(200))


def read_slowly() -> None:
    """Read random numbers like a slow disk, in a system call that releases the GIL."""
    with open("/dev/urandom", "rb", buffering=0) as device:
        device.read(6 << 20)


def transform_slowly() -> None:
    """Transform slowly in pure Python."""
    total = 0
    for number in range(120_000):
        total += number % 7


class Samples:
    """Twice the sum of nothing: only what loading costs matters."""

    def __init__(self, count: int, cost: object) -> None:
        self.count, self.cost = count, cost

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> float:
        if callable(self.cost):
            self.cost()
        return float(number)


def make_torch(case: str) -> Iterable[object]:
    from torch.utils.data import DataLoader

    workers, count, cost = {
        "slow disk": (2, 80, read_slowly),
        "slow Python": (2, 320, transform_slowly),
        "slow step": (1, 192, None),
        "too many workers": (8, 640, transform_slowly),
        "no workers": (0, 160, transform_slowly),
    }[case]
    return DataLoader(Samples(count, cost), batch_size=8, num_workers=workers)  # type: ignore[arg-type]


def make_headrace(path: str, size: int) -> Iterable[object]:
    from headrace import Loader
    from headrace.transforms import RandomResizedCrop

    return Loader(path, 4, transform=[RandomResizedCrop(size)], threads=1)


def main() -> None:
    case = sys.argv[1]
    if case.startswith("headrace"):
        loader = make_headrace(sys.argv[2], 2000 if "slow render" in case else 32)
    else:
        loader = make_torch(case)
    step = 0.15 if "slow step" in case else STEP
    waited = computed = 0.0
    last = time.perf_counter()
    for _ in loader:
        now = time.perf_counter()
        waited += now - last
        work(step)
        last = time.perf_counter()
        computed += last - now
    Path("own.json").write_text(json.dumps({"waited": waited, "computed": computed}))


if __name__ == "__main__":
    main()
