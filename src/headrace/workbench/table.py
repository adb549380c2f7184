"""Bench and diagnosis as tables for a terminal."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.workbench.numbers import Bench, Stage
from headrace.workbench.verdict import Diagnosis, Finding


def tabulate_bench(bench: Bench) -> RenderableType:
    """Stages with rate, spread, CPU, throughput in bytes and memory; below it what was left out, and why."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0)
    table.add_column("stage", no_wrap=True)
    for name in ("threads", "images/s", "±", "from", "to", "CPU ms", "MB/s", "peak MB"):
        table.add_column(name, justify="right", no_wrap=True)
    for stage in bench.stages:
        table.add_row(stage.name, *format_stage(stage))
    notes = [f"{name}: not measured, {reason}" for name, reason in bench.skipped]
    notes += [f"{s.name}: {s.note}" for s in _first_of_each(bench.stages) if s.note]
    notes += bench.notes
    if not bench.complete:
        notes.append("interrupted: these are the windows until then")
    return Group(Text(describe_bench(bench)), table, *(Text(note) for note in notes))


def _first_of_each(stages: tuple[Stage, ...]) -> list[Stage]:
    return list({stage.name: stage for stage in reversed(stages)}.values())[::-1]


def format_stage(stage: Stage) -> list[str]:
    """The cells after the name."""
    rate = stage.rate
    return [
        f"{stage.threads}",
        f"{rate.median:,.0f}",
        format_spread(rate.spread),
        f"{rate.low:,.0f}",
        f"{rate.high:,.0f}",
        f"{stage.cpu_ms:.3f}",
        f"{rate.median * stage.image_bytes / 1e6:,.0f}",
        "" if stage.peak_bytes is None else f"{stage.peak_bytes / 1e6:,.0f}",
    ]


def format_spread(spread: float | None) -> str:
    if spread is None:
        return ""
    return ">100%" if spread > 1 else f"{spread:.0%}"


def describe_bench(bench: Bench) -> str:
    data, machine, setting = bench.data, bench.machine, bench.setting
    network = ""
    if machine.network is not None:
        network = (
            "\nThe data lie on a network file system: its speed varies with what others read. "
            "Copy the dataset to a local disk before training."
        )
    return (
        f"{data.path}: {data.samples:,} samples of {data.mean_bytes / 1e3:,.0f} kB, {setting.samples_used:,} used; "
        f"batches of {setting.batch_size}, {setting.transform}\n"
        f"{machine.cpu}, {machine.capacity_cores:g} cores, {machine.memory / (1 << 30):.0f} GiB, "
        f"disk: {machine.disk}; "
        + ", ".join(f"{name} {version}" for name, version in machine.versions.items())
        + network
    )


def tabulate_diagnosis(diagnosis: Diagnosis) -> RenderableType:
    """The verdict, the capacities against the need, and the findings with advice."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage", no_wrap=True)
    for name in ("threads", "images/s", "from", "to", "headroom"):
        table.add_column(name, justify="right")
    for row in diagnosis.capacities:
        headroom = "" if row.headroom is None else f"{row.headroom:.2f}×"
        style = "bold" if row.stage == diagnosis.first else None
        cells = (f"{row.threads}", f"{row.rate:,.0f}", f"{row.low:,.0f}", f"{row.high:,.0f}")
        table.add_row(row.stage, *cells, headroom, style=style)
    headline = Text(diagnosis.headline, style="bold")
    return Group(headline, table, *map(show_finding, diagnosis.findings))


def show_finding(finding: Finding) -> Text:
    """What it says, and the advice in bold."""
    line = Text(f"• {finding.says}")
    if finding.advice:
        line.append(f" {finding.advice}", style="bold")
    return line
