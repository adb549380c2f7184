"""SVG as text: a frame with axes and a legend, and marks that carry their value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTHS = {"wide": 800, "narrow": 340}
"""Every chart is drawn for screens and for phones, so that its text is never scaled."""


@dataclass(frozen=True)
class Frame:
    """The area of a chart inside its margins, in pixels."""

    width: int
    height: int
    left: int = 56
    right: int = 16
    top: int = 12
    bottom: int = 40

    @property
    def inner_width(self) -> float:
        return self.width - self.left - self.right

    @property
    def inner_height(self) -> float:
        return self.height - self.top - self.bottom

    def x(self, part: float) -> float:
        return self.left + part * self.inner_width

    def y(self, part: float) -> float:
        return self.height - self.bottom - part * self.inner_height


def draw_chart(frame: Frame, parts: Sequence[str], label: str) -> str:
    """Return an SVG of its natural size; `label` is for screen readers."""
    return (
        f'<svg role="img" aria-label="{escape(label)}" width="{frame.width}" height="{frame.height}" '
        f'viewBox="0 0 {frame.width} {frame.height}">{"".join(parts)}</svg>'
    )


def draw_text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def draw_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def draw_rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    size = f'width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} class="{kind}"/>'


def draw_mark(inside: str, tip: str, path: str = "", value: float | None = None) -> str:
    """Return a mark with a tooltip. `path` and `value` say which number of the data it shows."""
    where = f' data-path="{escape(path)}" data-value="{value!r}"' if path else ""
    return f'<g class="mark" tabindex="0" data-tip="{escape(tip)}"{where}>{inside}</g>'


def choose_ticks(top: float, count: int = 5) -> list[float]:
    """Return round numbers from 0 to at least `top`."""
    if top <= 0:
        return [0.0, 1.0]
    raw = top / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    return [i * step for i in range(math.ceil(top / step - 1e-9) + 1)]


def format_number(value: float) -> str:
    """Return `12,300`, `1.5` or `0.25`: as few digits as tell ticks apart."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.3g}"


def format_short(value: float) -> str:
    """Return `12k` or `1.5M`."""
    for limit, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"


def draw_y_axis(frame: Frame, ticks: Sequence[float], unit: str) -> list[str]:
    """Draw grid lines with numbers at the left, and the unit above them."""
    top = ticks[-1]
    parts = []
    for tick in ticks:
        y = frame.y(tick / top)
        parts.append(draw_line(frame.left, y, frame.width - frame.right, y, "grid"))
        parts.append(draw_text(frame.left - 8, y + 4, format_number(tick), "tick", "end"))
    parts.append(draw_text(4, frame.top - 14, unit, "unit"))
    return parts


def draw_x_axis(frame: Frame, ticks: Sequence[tuple[float, str]], unit: str) -> list[str]:
    """Draw numbers below, at fractions of the width, and the unit under their middle."""
    base = frame.height - frame.bottom
    parts = [draw_line(frame.left, base, frame.width - frame.right, base, "axis")]
    for part, label in ticks:
        parts.append(draw_line(frame.x(part), base, frame.x(part), base + 4, "axis"))
        parts.append(draw_text(frame.x(part), base + 17, label, "tick", "middle"))
    parts.append(draw_text(frame.x(0.5), base + 34, unit, "unit", "middle"))
    return parts


def draw_legend(names: Sequence[str], width: int, kind: str) -> list[str]:
    """Draw coloured squares with their names, in as many rows as they need."""
    parts, x, y = [], 4.0, 14.0
    for number, name in enumerate(names):
        room = 36 + 7.2 * len(name)
        if x + room > width:
            x, y = 4.0, y + 18
        parts.append(draw_rect(x, y - 10, 12, 12, f"{kind}-{number}"))
        parts.append(draw_text(x + 17, y, name, "label"))
        x += room
    return parts
