"""The timeline of the probe: every moment belongs to one kind, in the totals and in the bins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.workbench.probe.timeline import BETWEEN, COMPUTE, KINDS, STARTUP, WAIT, Timeline

spans = st.lists(st.tuples(st.sampled_from(KINDS), st.floats(0, 300, allow_nan=False)), max_size=40)


@given(spans)
def test_totals_and_bins_add_up(marks: list[tuple[str, float]]) -> None:
    timeline, now = Timeline(begin=1000.0), 1000.0
    for kind, seconds in marks:
        now += seconds
        timeline.mark(kind, now)
    assert sum(timeline.totals.values()) == pytest.approx(now - 1000.0, abs=1e-6)
    for kind in KINDS:
        in_bins = sum(found.get(kind, 0.0) for found in timeline.bins)
        assert in_bins == pytest.approx(timeline.totals[kind], abs=1e-4)
    assert len(timeline.bins) <= 401
    assert all(sum(found.values()) <= timeline.width + 1e-4 for found in timeline.bins)


def test_a_loop_is_startup_then_waits_and_steps() -> None:
    timeline = Timeline(begin=0.0)
    for kind, now in [(WAIT, 2.0), (COMPUTE, 2.5), (WAIT, 3.5), (BETWEEN, 3.75), (BETWEEN, 5.0)]:
        timeline.mark(kind, now)
    assert timeline.totals[STARTUP] == 2.0
    assert timeline.totals[WAIT] == 0.75
    assert timeline.totals[COMPUTE] == 1.0
    assert timeline.totals[BETWEEN] == 1.25
