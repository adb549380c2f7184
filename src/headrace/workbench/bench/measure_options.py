"""The options of `headrace bench` and `headrace doctor PATH` as a value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.recipe.transforms import RandomHorizontalFlip, RandomResizedCrop
from headrace.work.cores import count_cores


@dataclass(frozen=True)
class Options:
    """How to measure. `transform` is anything that Loader takes; by default a crop of `size` and a flip.

    `image` is the field to decode if samples have several images.
    """

    batch_size: int = 256
    threads: Sequence[int] | None = None
    size: int = 224
    transform: Any = None
    image: str | None = None
    samples: int = 4096
    rounds: int = 5
    seconds: float = 0.5
    cold: bool = False
    command: str = ""

    def __post_init__(self) -> None:
        for name in ("batch_size", "size", "samples", "rounds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if not 0 < self.seconds < math.inf:
            raise ValueError(f"seconds is {self.seconds:g}; it must be above 0 and finite")
        if self.threads is not None and (not self.threads or min(self.threads) < 1):
            raise ValueError(f"threads are {list(self.threads)}; give numbers of at least 1")

    def steps(self) -> Any:
        """Return the transform to measure."""
        if self.transform is None:
            return [RandomResizedCrop(self.size), RandomHorizontalFlip()]
        return self.transform

    def thread_counts(self) -> list[int]:
        return sorted(set(self.threads or choose_threads(count_cores())))


def choose_threads(cores: int) -> list[int]:
    """Return 1, 2, 4, ... and all cores."""
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    return sorted({*counts, cores})
