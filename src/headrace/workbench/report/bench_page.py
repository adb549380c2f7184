"""The report of `headrace bench` and of `headrace doctor PATH`."""

from __future__ import annotations

from functools import partial

from headrace.workbench import numbers
from headrace.workbench.advice import diagnose
from headrace.workbench.against import NAME as TORCHVISION
from headrace.workbench.numbers import Bench, Machine, Stage
from headrace.workbench.report.capacity_chart import draw_capacities
from headrace.workbench.report.histogram import draw_histogram
from headrace.workbench.report.page import Page, Section, draw_both, make_cell, make_table
from headrace.workbench.report.thread_chart import draw_threads
from headrace.workbench.table import format_stage
from headrace.workbench.verdict import ENOUGH, Cause, Diagnosis, Finding

_LINES = (numbers.PIPELINE, numbers.RENDER, numbers.DECODE, numbers.ENTROPY, TORCHVISION)


def bench_page(bench: Bench, diagnosis: Diagnosis | None) -> Page:
    """The page; without a diagnosis, one that asks nothing of the machine."""
    found = diagnose(bench, None) if diagnosis is None else diagnosis
    notes = [Finding("note", note) for note in bench.notes]
    compared = _compare(bench)
    return Page(
        title=f"Headrace report · {bench.data.path}",
        tone=_choose_tone(found),
        headline=found.headline,
        findings=[*([compared] if compared else []), *found.findings, *notes],
        sections=[
            _show_capacities(found),
            _show_threads(bench),
            _show_images(bench),
            _show_table(bench),
        ],
        facts=[*_list_setting(bench), *list_machine(bench.machine)],
        data={"diagnosis": found.to_json(), "bench": bench.to_json()},
    )


def _choose_tone(diagnosis: Diagnosis) -> str:
    if diagnosis.need is None:
        return "plain"
    if diagnosis.cause is not Cause.NOTHING:
        return "bad"
    return "good" if min(c.headroom or 0.0 for c in diagnosis.capacities) >= ENOUGH else "tight"


def _compare(bench: Bench) -> Finding | None:
    ours, theirs = bench.find(numbers.PIPELINE), bench.find(TORCHVISION)
    if ours is None or theirs is None:
        return None
    return Finding(
        "side by side",
        f"Headrace {ours.rate.median:,.0f} images/s and {ours.cpu_ms:.2f} ms of CPU an image; torchvision's "
        f"ImageFolder and DataLoader {theirs.rate.median:,.0f} and {theirs.cpu_ms:.2f} ms, with as many workers: "
        f"{ours.rate.median / theirs.rate.median:.1f} times as fast.",
    )


def _show_capacities(diagnosis: Diagnosis) -> Section:
    lead = "Each stage alone; whiskers reach from the slowest to the fastest window."
    if diagnosis.need is not None:
        lead += " Left of the dashed line is too slow."
    draw = lambda width: draw_capacities(
        diagnosis.capacities, diagnosis.need, width, "diagnosis.capacities"
    )
    return Section("Capacity of the stages", lead, draw_both(draw))


def _show_threads(bench: Bench) -> Section:
    lead = "Median images per second; whiskers are the range of the windows."
    return Section("Throughput over threads", lead, draw_both(partial(draw_threads, bench, _LINES)))


def _show_images(bench: Bench) -> Section:
    data = bench.data
    charts = [
        ("Pixels", partial(draw_histogram, data.megapixels, "megapixels")),
        ("Encoded size", partial(draw_histogram, data.kilobytes, "kB")),
        (
            "Time to decode the whole image, one thread",
            partial(draw_histogram, data.decode_ms, "ms"),
        ),
    ]
    body = "".join(f"<h3>{title}</h3>{draw_both(draw)}" for title, draw in charts)
    lead = f"{len(data.megapixels):,} images looked at, {len(data.decode_ms):,} of them decoded."
    return Section("The images", lead, body)


def _show_table(bench: Bench) -> Section:
    header = ("stage", "threads", "images/s", "±", "from", "to", "CPU ms", "MB/s", "peak MB")
    rows = [_make_row(number, stage) for number, stage in enumerate(bench.stages)]
    skipped = " ".join(f"Not measured: {name}, {reason}." for name, reason in bench.skipped)
    whole = "" if bench.complete else "Interrupted: these are the windows until then. "
    lead = f"{whole}Median of {_count_windows(bench)} windows after a warm-up, ± what a second run may differ by. {skipped}"
    return Section("All figures", lead, make_table(header, rows))


def _count_windows(bench: Bench) -> int:
    return max((len(stage.rate.windows) for stage in bench.stages), default=0)


def _make_row(number: int, stage: Stage) -> list[str]:
    threads, median, spread, low, high, cpu, megabytes, peak = format_stage(stage)
    path = f"bench.stages.{number}"
    peak_cell = make_cell("")
    if stage.peak_bytes is not None:
        peak_cell = make_cell(peak, f"{path}.peak_bytes", stage.peak_bytes)
    spread_cell = make_cell("")
    if stage.rate.spread is not None:
        spread_cell = make_cell(spread, f"{path}.rate.spread", stage.rate.spread)
    return [
        make_cell(stage.name),
        make_cell(threads, f"{path}.threads", stage.threads),
        make_cell(median, f"{path}.rate.median", stage.rate.median),
        spread_cell,
        make_cell(low, f"{path}.rate.low", stage.rate.low),
        make_cell(high, f"{path}.rate.high", stage.rate.high),
        make_cell(cpu, f"{path}.cpu_ms", stage.cpu_ms),
        make_cell(megabytes),
        peak_cell,
    ]


def _list_setting(bench: Bench) -> list[tuple[str, str]]:
    data, setting = bench.data, bench.setting
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in data.kinds.items())
    return [
        ("command", setting.command),
        ("date", setting.date),
        ("dataset", f"{data.samples:,} samples, {data.bytes / 1e6:,.0f} MB: {kinds}"),
        ("measured", f"{setting.samples_used:,} samples, batches of {setting.batch_size}"),
        ("transform", setting.transform),
        ("cache", "dropped before each window" if setting.cold else "warm, but for storage, cold"),
    ]


def list_machine(machine: Machine) -> list[tuple[str, str]]:
    """What a reader wants to know of the machine."""
    gib = 1 << 30
    return [
        ("machine", f"{machine.cpu}, {machine.capacity_cores:g} of {machine.cores} cores usable"),
        ("memory", f"{machine.memory / gib:.0f} GiB, /dev/shm {machine.shm / gib:.0f} GiB"),
        ("disk", machine.disk),
        ("versions", ", ".join(f"{k} {v}" for k, v in machine.versions.items())),
    ]
