"""How the loop spent its time: over time, and in total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.workbench.report.svg import (
    Frame,
    choose_ticks,
    draw_chart,
    draw_legend,
    draw_mark,
    draw_rect,
    draw_text,
    draw_x_axis,
    format_number,
)

_COLUMNS = {800: 200, 340: 85}


def draw_timeline(
    bins: Sequence[Mapping[str, float]], seconds: float, kinds: Sequence[str], width: int
) -> str:
    """Draw a column per time slice; its colours show what the loop did."""
    columns = _merge(bins, _COLUMNS.get(width, 200))
    step = seconds * max(1, -(-len(bins) // _COLUMNS.get(width, 200)))
    rows = 1 if width > 500 else 3
    frame = Frame(width, 200 + 18 * rows, left=48, top=14 + 18 * rows)
    total = max(step * len(columns), 1e-9)
    ticks = [t for t in choose_ticks(total, 6 if width > 500 else 4) if t <= total * 1.001]
    parts = [
        *draw_legend(kinds, width, "span"),
        draw_text(frame.left - 8, frame.y(1) + 4, "100 %", "tick", "end"),
        draw_text(frame.left - 8, frame.y(0.5) + 4, "50 %", "tick", "end"),
        draw_text(frame.left - 8, frame.y(0) + 4, "0", "tick", "end"),
    ]
    for number, column in enumerate(columns):
        parts.append(_draw_column(frame, column, kinds, (number, len(columns), step)))
    parts += draw_x_axis(frame, [(t / total, format_number(t)) for t in ticks], "seconds")
    return draw_chart(frame, parts, "what the loop did over time")


def _merge(bins: Sequence[Mapping[str, float]], most: int) -> list[dict[str, float]]:
    size = max(1, -(-len(bins) // most))
    merged = []
    for start in range(0, len(bins), size):
        column: dict[str, float] = {}
        for found in bins[start : start + size]:
            for kind, seconds in found.items():
                column[kind] = column.get(kind, 0.0) + seconds
        merged.append(column)
    return merged


def _draw_column(
    frame: Frame,
    column: Mapping[str, float],
    kinds: Sequence[str],
    place: tuple[int, int, float],
) -> str:
    number, count, step = place
    x, end = frame.x(number / count), frame.x((number + 1) / count)
    base, drawn, said = 0.0, [], []
    for colour, kind in enumerate(kinds):
        share = column.get(kind, 0.0) / step
        if share <= 0:
            continue
        top = min(base + share, 1.0)
        height = frame.y(base) - frame.y(top)
        drawn.append(draw_rect(x, frame.y(top), end - x + 0.3, height, f"span-{colour}"))
        said.append(f"{kind} {share:.0%}")
        base = top
    tip = f"{number * step:.2f} to {(number + 1) * step:.2f} s: {', '.join(said) or 'nothing'}"
    return draw_mark("".join(drawn), tip)


def draw_shares(
    shares: Mapping[str, float], unit: str, width: int, path: str, coloured: bool = True
) -> str:
    """Draw parts of a whole as rows of name, bar and number, coloured like the timeline or all alike."""
    row, left = 26, 124 if width > 500 else 112
    frame = Frame(width, 12 + row * max(len(shares), 1), left=left, right=88, top=4, bottom=8)
    total = max(sum(shares.values()), 1e-9)
    top = max(shares.values(), default=1.0) or 1.0
    parts = []
    for number, (name, value) in enumerate(shares.items()):
        y = frame.top + row * number
        length = value / top * frame.inner_width
        said = f"{value:.1%}" if unit == "%" else f"{value:,.2f} {unit}"
        inside = (
            draw_text(left - 8, y + 16, name, "label", "end")
            + draw_rect(left, y + 4, length, row - 9, f"span-{number}" if coloured else "bar plain")
            + draw_text(left + length + 7, y + 16, said, "value")
        )
        tip = f"{name}: {said}" + ("" if unit == "%" else f", {value / total:.1%}")
        parts.append(draw_mark(inside, tip, f"{path}.{name}", value))
    return draw_chart(frame, parts, "shares")
