"""The results of a bench as frozen values. Diagnoses, tables and reports are made from them alone.

Rates are in images per second and sizes in bytes, unless a name says otherwise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any

from headrace.image_header import RECODABLE

COLD, WARM = "storage, cold", "storage, warm"
ENTROPY, DECODE, RENDER = "entropy decode", "whole decode", "render"
PYTHON, COLLATE, COPY = "user transform", "collate", "copy to device"
PIPELINE = "pipeline"
NATIVE_KINDS = frozenset({"baseline", "grey", "non-interleaved", "png", "png-16", "progressive"})
"""Kinds of images that the native core decodes; Pillow decodes all others."""

_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t for 95 % and 1, 2, ... degrees of freedom."""


@dataclass(frozen=True)
class Rate:
    """Images per second: the median, the slowest and the fastest of several rounds.

    spread: In 95 of 100 cases, the median of another bench on the same machine is within a factor of
    1 + spread of this one; None with a single round.
    """

    median: float
    low: float
    high: float
    rounds: tuple[float, ...]
    spread: float | None

    @classmethod
    def of(cls, rounds: Sequence[float]) -> Rate:
        middle = statistics.median(rounds)
        return cls(middle, min(rounds), max(rounds), tuple(rounds), _find_spread(rounds))


def _find_spread(rounds: Sequence[float]) -> float | None:
    """Estimate it from the logarithms, since disturbances are factors: a median scatters √(π/2n) times
    as much as a round, and the difference of two medians √2 times that."""
    count = len(rounds)
    if count < 2 or min(rounds) <= 0:
        return None
    student = _STUDENT[min(count - 1, len(_STUDENT)) - 1]
    scatter = statistics.stdev(map(math.log, rounds))
    return math.expm1(student * scatter * math.sqrt(math.pi / count))


@dataclass(frozen=True)
class Stage:
    """One stage, or the whole pipeline, measured with one number of threads.

    cpu_ms: CPU time per image, over all threads. image_bytes: bytes that this stage moves per image.
    peak_bytes: Peak memory of the process; None if it was not measured.
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
    """What the process may use. `cpu_limit` (cores) and `memory_limit` are cgroup limits, or None."""

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
        """Cores that can be kept busy, by affinity and cgroup limit."""
        return min(self.usable_cores, self.cpu_limit or self.usable_cores)

    @property
    def network(self) -> str | None:
        """The network file system that holds the data; None if they are local."""
        kind, _, name = self.disk.partition(", ")
        return name if kind == "network" else None

    @property
    def cache_room(self) -> int:
        """Bytes that the page cache may use."""
        return min(self.memory_available, self.memory_limit or self.memory_available)

    def describe_versions(self) -> str:
        """Return `Python 3.12.0, headrace 0.1.0`."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())


@dataclass(frozen=True)
class Data:
    """The dataset, with the sizes and decoding times of the samples that were measured.

    kind_ms: CPU time to render an image of each kind that was measured. recoded_ms: the same of the images that can be
    recoded, after that; None without such images.
    window: The default shuffle window of Loader in samples; None for a global shuffle. mixing: how well it mixes
    the classes of a batch, relative to a global shuffle; None without classes. turned: images that are stored turned.
    """

    path: str
    samples: int
    bytes: int
    kinds: dict[str, int]
    loose: bool
    mean_bytes: float
    mean_short_side: float
    megapixels: tuple[float, ...]
    kilobytes: tuple[float, ...]
    decode_ms: tuple[float, ...]
    kind_ms: dict[str, float]
    recoded_ms: float | None
    window: int | None
    mixing: float | None
    turned: int = 0

    @property
    def slow_share(self) -> float:
        """Share of the images that go through Pillow."""
        return self.share_of(frozenset(self.kinds) - NATIVE_KINDS)

    def share_of(self, kinds: AbstractSet[str]) -> float:
        """Share of the images that are of these kinds."""
        found = sum(count for kind, count in self.kinds.items() if kind in kinds)
        return found / max(sum(self.kinds.values()), 1)

    def mean_ms(self, kinds: AbstractSet[str]) -> float:
        """CPU time to render an image of these kinds, by how many there are of each; 0 if none was measured."""
        counts = {k: self.kinds[k] for k in self.kind_ms if k in kinds and k in self.kinds}
        total = sum(count * self.kind_ms[kind] for kind, count in counts.items())
        return total / max(sum(counts.values()), 1)

    def time_share(self, kinds: AbstractSet[str]) -> float:
        """Share of the rendering time that images of these kinds take."""
        total = self.mean_ms(frozenset(self.kinds))
        return self.share_of(kinds) * self.mean_ms(kinds) / total if total else 0.0

    @property
    def recoding_gain(self) -> float | None:
        """How many times as fast rendering would be if all images were recoded that can be; None without such images."""
        if self.recoded_ms is None:
            return None
        share, total = self.share_of(RECODABLE), self.mean_ms(frozenset(self.kinds))
        after = total + share * (self.recoded_ms - self.mean_ms(RECODABLE))
        return total / after if after > 0 else None


@dataclass(frozen=True)
class Setting:
    """How it was measured."""

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
    """All results of one `headrace bench`. `complete` is False after Ctrl-C."""

    setting: Setting
    machine: Machine
    data: Data
    stages: tuple[Stage, ...]
    skipped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    complete: bool

    def find(self, name: str, threads: int | None = None) -> Stage | None:
        """Return a stage at a number of threads; by default, at the highest that was measured."""
        found = [s for s in self.stages if s.name == name and threads in (None, s.threads)]
        return max(found, key=lambda stage: stage.threads, default=None)

    def named(self, name: str) -> list[Stage]:
        """Return a stage at every number of threads, ascending."""
        return sorted((s for s in self.stages if s.name == name), key=lambda s: s.threads)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
