"""Where tensorpack's DataFlows begin: made-up data, lists, generators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from headrace.compat.tensorpack.dataflow import RNGDataFlow, Shell
from headrace.flow.flow import Flow
from headrace.work.seeding import item_rng


class FakeData(Shell, RNGDataFlow):
    """`size` datapoints of random arrays, or always the same one if not `random`."""

    def __init__(
        self,
        shapes: Sequence[Sequence[int]],
        size: int = 1000,
        random: bool = True,
        dtype: Any = "float32",
        domain: Any = (0, 1),
    ) -> None:
        dtypes = dtype if isinstance(dtype, (list, tuple)) else [dtype] * len(shapes)
        domains = domain if isinstance(domain[0], (list, tuple)) else [domain] * len(shapes)
        self.shapes, self._size, self.random = shapes, size, random
        self.dtype, self.domain = dtypes, domains
        fields = [
            (tuple(s), np.dtype(d).str, r) for s, d, r in zip(shapes, dtypes, domains, strict=True)
        ]
        numbers = range(size) if random else [0] * size
        make = partial(_make_fake, fields, random)
        super().__init__(Flow.of(numbers).map(make, seed=self._source_seed))


def _make_fake(fields: list[tuple[Any, str, Any]], random: bool, number: int) -> list[Any]:
    rng = item_rng() if random else np.random.default_rng(0)
    return [(rng.random(shape) * (b - a) + a).astype(dtype) for shape, dtype, (a, b) in fields]


class DataFromList(Shell, RNGDataFlow):
    """The elements of a list, in a new order each pass if `shuffle`."""

    def __init__(self, lst: Sequence[Any], shuffle: bool = True) -> None:
        self.lst, self.shuffle = lst, shuffle
        flow = Flow.of(lst)
        super().__init__(flow.shuffle(seed=self._source_seed) if shuffle else flow)


class DataFromGenerator(Shell):
    """Yield the items of a generator (one pass), or of a function that makes one (any number)."""

    def __init__(self, gen: Any) -> None:
        self._gen = gen
        super().__init__(Flow.of(gen))


class DataFromIterable(Shell):
    """Yield the items of an iterable."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        self._itr = iterable
        super().__init__(Flow.of(iterable))
