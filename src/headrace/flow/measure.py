"""How fast a flow is, and which of its stages is the slow one.

A flow is measured as the tutorials tell one to do by hand: first its source alone, then with the
first stage, then with the second, … The stage at which the rate falls is the one to look at.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from headrace.arguments import check_count
from headrace.flow.stage import Items, Length
from headrace.work.progress import Progress, ProgressCallback


@dataclass(frozen=True)
class StageSpeed:
    """The rate of one stage with everything before it, in items of its own."""

    stage: str
    items: int
    seconds: float
    bytes: int
    warmed_up: bool

    @property
    def items_per_second(self) -> float:
        """Items (batches, after `batch`) per second."""
        return self.items / self.seconds if self.seconds else 0.0

    @property
    def megabytes_per_second(self) -> float:
        """10^6 bytes of arrays, bytes and text per second."""
        return self.bytes / 1e6 / self.seconds if self.seconds else 0.0

    @property
    def microseconds_per_item(self) -> float:
        """Time per item."""
        return self.seconds / self.items * 1e6 if self.items else 0.0


@dataclass(frozen=True)
class Speed:
    """What `Flow.speed` found: a row per stage, the whole flow last. Prints as a table."""

    stages: tuple[StageSpeed, ...]

    @property
    def items_per_second(self) -> float:
        """The rate of the whole flow."""
        return self.stages[-1].items_per_second

    @property
    def megabytes_per_second(self) -> float:
        """10^6 bytes per second of the whole flow."""
        return self.stages[-1].megabytes_per_second

    def __str__(self) -> str:
        width = max(len("up to and with"), *(len(row.stage) for row in self.stages))
        lines = [
            f"{'up to and with':{width}}  {'items/s':>10}  {'MB/s':>10}  {'µs/item':>10}  items"
        ]
        for row in self.stages:
            note = "" if row.warmed_up else "  (ended within the warm-up, which is counted)"
            lines.append(
                f"{row.stage:{width}}  {row.items_per_second:10.1f}  {row.megabytes_per_second:10.1f}"
                f"  {row.microseconds_per_item:10.1f}  {row.items}{note}"
            )
        return "\n".join(lines)

    __repr__ = __str__


def measure_stages(
    flows: Sequence[tuple[str, Iterable[Any]]],
    size: int,
    warmup: int,
    progress: ProgressCallback | None = None,
) -> Speed:
    """Measure `size` items of each flow after `warmup` items that do not count."""
    size, warmup = check_count("size", size, 1), check_count("warmup", warmup, 0)
    return Speed(tuple(_measure(name, flow, size, warmup, progress) for name, flow in flows))


def _measure(
    name: str, flow: Iterable[Any], size: int, warmup: int, progress: ProgressCallback | None
) -> StageSpeed:
    passing: Any = iter(flow)  # the passes of a flow are generators
    with closing(report_items(passing, size + warmup, progress)) as items:
        began = time.perf_counter()
        warm = [count_bytes(item) for item in islice(items, warmup)]
        warmed_up = len(warm) == warmup
        count, total = (0, 0) if warmed_up else (len(warm), sum(warm))
        if warmed_up:
            began = time.perf_counter()
        for item in islice(items, size):
            count += 1
            total += count_bytes(item)
        seconds = time.perf_counter() - began
    return StageSpeed(name, count, seconds, total, warmed_up)


def report_items(items: Items, total: Length, progress: ProgressCallback | None) -> Items:
    """Return the items, each of them reported to `progress` as a sample, without its bytes."""
    return items if progress is None else _report_each(items, total, progress)


def _report_each(items: Items, total: Length, progress: ProgressCallback) -> Items:
    whole = None if total is None or total == math.inf else int(total)
    with closing(items):
        for count, item in enumerate(items, 1):
            progress(Progress(count, whole, 0, None))
            yield item


def count_bytes(item: Any) -> int:
    """The bytes of the arrays, byte strings and text in an item; numbers count 8."""
    if isinstance(item, (np.ndarray, np.generic)) or hasattr(item, "nbytes"):
        return int(item.nbytes)
    if isinstance(item, dict):
        return sum(map(count_bytes, item.values()))
    if isinstance(item, (list, tuple)):
        return sum(map(count_bytes, item))
    if isinstance(item, (bytes, bytearray, str)):
        return len(item)
    return 8
