"""The capacity of each stage on a logarithmic scale, with a line for the need."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from headrace.workbench.bench.dataset_bottleneck import ENOUGH, Capacity
from headrace.workbench.report.svg import (
    Frame,
    draw_chart,
    draw_line,
    draw_mark,
    draw_rect,
    draw_text,
    format_number,
    format_short,
)

_ROW = 34


def draw_capacities(
    capacities: Sequence[Capacity], need: float | None, path: str, width: int
) -> str:
    """Draw a bar per stage, with a whisker from its slowest to its fastest round."""
    left = 132 if width > 500 else 96
    height = 46 + _ROW * len(capacities) + 24
    frame = Frame(width, height, left=left, right=64, top=28, bottom=42)
    rates = [c.rate for c in capacities] + ([need] if need else [])
    low = math.floor(math.log10(max(min(rates), 1)) - 0.05)
    high = math.ceil(math.log10(max([c.high for c in capacities] + rates)) + 0.02)

    def place(rate: float) -> float:
        part = (math.log10(max(rate, 10.0**low)) - low) / max(high - low, 1)
        return frame.x(min(max(part, 0.0), 1.0))

    parts = _draw_decades(frame, low, high)
    for row, capacity in enumerate(capacities):
        parts.append(_draw_bar(frame, row, capacity, place, f"{path}.{row}.rate"))
    if need is not None:
        x = place(need)
        parts.append(draw_line(x, frame.top - 8, x, frame.height - frame.bottom, "need"))
        anchor = "end" if x > frame.width * 0.6 else "start"
        parts.append(
            draw_text(x, frame.top - 13, f"need {format_number(need)}/s", "need-label", anchor)
        )
    for row, capacity in enumerate(capacities):  # last, so that their halo is above the line
        parts.append(_draw_value(frame, row, capacity, place))
    return draw_chart(frame, parts, "capacity of each stage against the need")


def _draw_decades(frame: Frame, low: int, high: int) -> list[str]:
    base, parts = frame.height - frame.bottom, []
    for power in range(low, high + 1):
        x = frame.x((power - low) / max(high - low, 1))
        parts.append(draw_line(x, frame.top - 4, x, base, "grid"))
        parts.append(draw_text(x, base + 16, format_short(10.0**power), "tick", "middle"))
    parts.append(draw_text(frame.x(0.5), base + 34, "images/s (powers of ten)", "unit", "middle"))
    return parts


def _draw_bar(
    frame: Frame, row: int, capacity: Capacity, place: Callable[[float], float], path: str
) -> str:
    y = frame.top + _ROW * row + 4
    end = place(capacity.rate)
    bar = draw_rect(frame.left, y, end - frame.left, _ROW - 14, f"bar {rate_kind(capacity)}")
    middle = y + (_ROW - 14) / 2
    whisker = draw_line(place(capacity.low), middle, place(capacity.high), middle, "whisker")
    name = draw_text(frame.left - 8, middle + 4, capacity.stage, "label", "end")
    room = "" if capacity.headroom is None else f", {capacity.headroom:.2f} times the need"
    tip = (
        f"{capacity.stage}, {capacity.threads} threads: {capacity.rate:,.0f} images/s "
        f"({capacity.low:,.0f} to {capacity.high:,.0f}){room}"
    )
    return draw_mark(bar + whisker + name, tip, path, capacity.rate)


def _draw_value(frame: Frame, row: int, capacity: Capacity, place: Callable[[float], float]) -> str:
    x = max(place(capacity.rate), place(capacity.high)) + 7
    y = frame.top + _ROW * row + 4 + (_ROW - 14) / 2 + 4
    return draw_text(x, y, format_number(capacity.rate), "value")


def rate_kind(capacity: Capacity) -> str:
    """Return the colour: too slow, tight, good, or plain without a need."""
    if capacity.headroom is None:
        return "plain"
    if capacity.headroom < 1:
        return "bad"
    return "tight" if capacity.headroom < ENOUGH else "good"
