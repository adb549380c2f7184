"""Throughput over the number of threads: a line per stage, with the range of its rounds."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.workbench.bench.results import Bench, Stage
from headrace.workbench.report.svg import (
    Frame,
    choose_ticks,
    draw_chart,
    draw_legend,
    draw_line,
    draw_mark,
    draw_x_axis,
    draw_y_axis,
)


def draw_threads(bench: Bench, names: Sequence[str], width: int) -> str:
    """Draw a line for each named stage, with a legend above."""
    lines = {name: found for name in names if (found := bench.named(name))}
    stages = [stage for found in lines.values() for stage in found]
    counts = sorted({stage.threads for stage in stages})
    most = max(counts, default=1)
    top = max((stage.rate.high for stage in stages), default=1.0)
    rows = 2 if width < 500 else 1
    frame = Frame(width, 250 + 18 * rows, left=62, top=34 + 18 * rows)
    ticks = choose_ticks(top)
    parts = [
        *draw_y_axis(frame, ticks, "images/s"),
        *draw_x_axis(frame, [(_place(t, most), f"{t}") for t in counts], "threads"),
        *draw_legend(list(lines), width, "dot series"),
    ]
    for number, (name, found) in enumerate(lines.items()):
        parts += _draw_stage(frame, bench, name, found, (number, most, ticks[-1]))
    return draw_chart(frame, parts, "throughput over the number of threads")


def _place(threads: int, most: int) -> float:
    return 0.06 + 0.88 * (threads - 1) / max(most - 1, 1)


def _draw_stage(
    frame: Frame, bench: Bench, name: str, stages: list[Stage], scale: tuple[int, int, float]
) -> list[str]:
    number, most, top = scale
    points = [(frame.x(_place(s.threads, most)), frame.y(s.rate.median / top)) for s in stages]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [f'<polyline points="{drawn}" class="line series-{number}"/>']
    for (x, y), stage in zip(points, stages, strict=True):
        low, high = frame.y(stage.rate.low / top), frame.y(stage.rate.high / top)
        whisker = draw_line(x, low, x, high, f"whisker series-{number}")
        dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="dot series-{number}"/>'
        tip = (
            f"{name}, {stage.threads} threads: {stage.rate.median:,.0f} images/s "
            f"({stage.rate.low:,.0f} to {stage.rate.high:,.0f}), {stage.cpu_ms:.2f} ms of CPU per image"
        )
        path = f"bench.stages.{bench.stages.index(stage)}.rate.median"
        parts.append(draw_mark(whisker + dot, tip, path, stage.rate.median))
    return parts
