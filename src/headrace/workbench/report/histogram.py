"""Histograms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.workbench.report.svg import (
    Frame,
    choose_ticks,
    draw_chart,
    draw_line,
    draw_mark,
    draw_rect,
    draw_text,
    draw_x_axis,
    draw_y_axis,
    format_number,
)

_BINS = 24


def draw_histogram(values: Sequence[float], unit: str, width: int) -> str:
    """Draw bars of equal width up to the 99th percentile; larger values count in the last bar."""
    data = np.asarray(values, float)
    ticks = choose_ticks(float(np.quantile(data, 0.99)) if len(data) else 1.0)
    top = ticks[-1]
    edges = np.linspace(0, top, _BINS + 1)
    counts, _ = np.histogram(np.minimum(data, top), edges)
    frame = Frame(width, 200, top=30)
    y_ticks = choose_ticks(int(counts.max()) if len(data) else 1, 4)
    parts = [
        *draw_y_axis(frame, y_ticks, "images"),
        *draw_x_axis(frame, [(t / top, format_number(t)) for t in ticks], unit),
    ]
    for number, count in enumerate(counts.tolist()):
        x, end = frame.x(edges[number] / top), frame.x(edges[number + 1] / top)
        y = frame.y(count / y_ticks[-1])
        bar = draw_rect(x + 0.5, y, end - x - 1, frame.y(0) - y, "bar plain")
        more = " and more" if number == _BINS - 1 else ""
        tip = f"{edges[number]:.3g} to {edges[number + 1]:.3g}{more} {unit}: {count} images"
        parts.append(draw_mark(bar, tip))
    if len(data):
        parts += _draw_median(frame, float(np.median(data)), top)
    return draw_chart(frame, parts, f"histogram, {unit}")


def _draw_median(frame: Frame, median: float, top: float) -> list[str]:
    x = frame.x(min(median / top, 1))
    anchor = "end" if median > 0.7 * top else "start"
    shift = -6 if anchor == "end" else 6
    return [
        draw_line(x, frame.top - 4, x, frame.y(0), "median"),
        draw_text(x + shift, frame.top + 6, f"median {format_number(median)}", "value", anchor),
    ]
