"""Compare what two programs draw: counts of values by a chi-square test, with fixed seeds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable


def assert_same_distribution(first: Iterable[Hashable], second: Iterable[Hashable]) -> None:
    """Raise unless two samples of about the same size could come from one distribution.

    Values that come fewer than ten times are counted together. The bound is four deviations above the mean: it
    rejects one pair in ten thousand.
    """
    counts = [Counter(first), Counter(second)]
    sizes = [counter.total() for counter in counts]
    rare = {value for value in counts[0] | counts[1] if sum(c[value] for c in counts) < 10}
    tables = [Counter({"rare": sum(c[v] for v in rare)}) + without(c, rare) for c in counts]
    values = set(tables[0]) | set(tables[1])
    ratio = math.sqrt(sizes[1] / sizes[0])
    statistic = sum(
        (tables[0][value] * ratio - tables[1][value] / ratio) ** 2
        / (tables[0][value] + tables[1][value])
        for value in values
    )
    freedom = len(values) - 1
    bound = freedom + 4 * math.sqrt(2 * freedom) + 4
    assert statistic <= bound, (statistic, freedom, tables)


def without(counter: Counter[Hashable], values: set[Hashable]) -> Counter[Hashable]:
    return Counter({value: count for value, count in counter.items() if value not in values})


def bin_of(value: float, low: float, high: float, bins: int = 20) -> int:
    """Return the number of the bin that a value lies in; values outside have bins of their own."""
    return -1 if value < low else min(bins, int((value - low) / (high - low) * bins))
