"""What a bench measures, as values: everything that verdicts, tables and reports are made from.

Rates are images per second, sizes bytes, unless a name says otherwise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

COLD, WARM = "storage, cold", "storage, warm"
ENTROPY, DECODE, RENDER = "entropy decode", "whole decode", "render"
PYTHON, COLLATE, COPY = "user transform", "collate", "copy to device"
PIPELINE = "pipeline"
NATIVE_KINDS = frozenset({"baseline", "grey"})
"""Kinds of images that the native core decodes; all others go through Pillow."""


_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t for 95 % and 1, 2, ... degrees of freedom."""


@dataclass(frozen=True)
class Rate:
    """Images per second: the median of several windows, with the slowest and the fastest of them.

    spread: the median of another run on the same machine lies, in 95 of 100 cases, within a factor of
    1 + spread of this one; None with a single window, which cannot tell.
    """

    median: float
    low: float
    high: float
    windows: tuple[float, ...]
    spread: float | None

    @classmethod
    def of(cls, windows: Sequence[float]) -> Rate:
        middle = statistics.median(windows)
        return cls(middle, min(windows), max(windows), tuple(windows), _find_spread(windows))


def _find_spread(windows: Sequence[float]) -> float | None:
    """From the scatter of the logarithms: rates are disturbed by factors. A median scatters √(π/2n) as a window does,
    and the difference of two medians √2 times that."""
    count = len(windows)
    if count < 2 or min(windows) <= 0:
        return None
    student = _STUDENT[min(count - 1, len(_STUDENT)) - 1]
    scatter = statistics.stdev(map(math.log, windows))
    return math.expm1(student * scatter * math.sqrt(math.pi / count))


@dataclass(frozen=True)
class Stage:
    """One stage, or the whole pipeline, measured at one number of threads.

    cpu_ms: CPU time an image of all threads. image_bytes: what an image moves through this stage.
    peak_bytes: the most memory held while it ran; None where that was not measured.
    """

    name: str
    threads: int
    rate: Rate
    cpu_ms: float
    image_bytes: float = 0.0
    peak_bytes: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Machine:
    """What the process may use. `cpu_limit` (cores) and `memory_limit` are cgroup limits, None if there are none."""

    cpu: str
    cores: int
    usable_cores: int
    cpu_limit: float | None
    memory: int
    memory_available: int
    memory_limit: int | None
    shm: int
    numa_nodes: int
    disk: str
    versions: dict[str, str]

    @property
    def capacity_cores(self) -> float:
        """Cores that can be kept busy: affinity and the cgroup limit together."""
        return min(self.usable_cores, self.cpu_limit or self.usable_cores)

    @property
    def network(self) -> str | None:
        """The network file system that the data lie on; None if they lie elsewhere."""
        kind, _, name = self.disk.partition(", ")
        return name if kind == "network" else None

    @property
    def cache_room(self) -> int:
        """Bytes that may serve as page cache."""
        return min(self.memory_available, self.memory_limit or self.memory_available)


@dataclass(frozen=True)
class Data:
    """The dataset, and of the samples that were looked at: their sizes and what decoding each cost.

    native_ms, slow_path_ms: CPU to render an image in the core, and one that goes through Pillow; 0 if none does.
    window: over how many samples Loader shuffles unless told otherwise, None for all. mixing: how well that mixes the
    classes of a batch, in parts of a global shuffle; None where there are no classes.
    """

    path: str
    samples: int
    bytes: int
    kinds: dict[str, int]
    loose: bool
    shards: int
    mean_bytes: float
    mean_short_side: float
    megapixels: tuple[float, ...]
    kilobytes: tuple[float, ...]
    decode_ms: tuple[float, ...]
    native_ms: float
    slow_path_ms: float
    window: int | None
    mixing: float | None

    @property
    def slow_share(self) -> float:
        """The part of the images that the native core leaves to Pillow."""
        slow = sum(count for kind, count in self.kinds.items() if kind not in NATIVE_KINDS)
        return slow / max(sum(self.kinds.values()), 1)


@dataclass(frozen=True)
class Setting:
    """What was run."""

    command: str
    date: str
    batch_size: int
    threads: int
    transform: str
    size: tuple[int, int]
    cold: bool
    samples_used: int


@dataclass(frozen=True)
class Bench:
    """All that one run of `headrace bench` found out. `complete` is False after Ctrl-C."""

    setting: Setting
    machine: Machine
    data: Data
    stages: tuple[Stage, ...]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    complete: bool

    def find(self, name: str, threads: int | None = None) -> Stage | None:
        """The stage at so many threads, or at the most that were measured."""
        found = [s for s in self.stages if s.name == name and threads in (None, s.threads)]
        return max(found, key=lambda stage: stage.threads, default=None)

    def named(self, name: str) -> list[Stage]:
        """The stage at every number of threads, ascending."""
        return sorted((s for s in self.stages if s.name == name), key=lambda s: s.threads)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
