"""How well windows mix classes, from made-up labels."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.plan import Runs
from headrace.workbench.bench.shuffle_quality import measure_mixing

SORTED = np.repeat(np.arange(100), 100)
PACKED = np.random.default_rng(0).permutation(SORTED)
RUNS = Runs.of_bounds(np.arange(0, 10_001, 50))


@pytest.mark.parametrize("labels", [SORTED, PACKED])
def test_a_global_shuffle_mixes_like_chance(labels: np.ndarray) -> None:
    assert measure_mixing(labels, RUNS, None, 64) == pytest.approx(1, abs=0.01)


def test_a_small_window_mixes_a_pack_and_not_a_sorted_source() -> None:
    assert measure_mixing(PACKED, RUNS, 200, 64) == pytest.approx(1, abs=0.02)
    found = measure_mixing(SORTED, RUNS, 200, 64)
    assert found is not None and found < 0.7


def test_one_class_cannot_be_mixed() -> None:
    assert (
        measure_mixing(np.zeros(1000, np.int64), Runs.of_bounds(np.array([0, 1000])), 200, 64)
        is None
    )
