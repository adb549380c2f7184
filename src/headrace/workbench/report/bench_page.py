"""The report of `headrace bench` and of `headrace doctor PATH`."""

from __future__ import annotations

from functools import partial

from headrace.workbench.bench import results
from headrace.workbench.bench.bench_table import COLUMNS, format_stage
from headrace.workbench.bench.dataset_advice import diagnose
from headrace.workbench.bench.dataset_bottleneck import ENOUGH, Cause, Diagnosis, Finding
from headrace.workbench.bench.results import Bench, Stage
from headrace.workbench.report.capacity_chart import draw_capacities
from headrace.workbench.report.histogram import draw_histogram
from headrace.workbench.report.page import Page, Section, draw_both, make_cell, make_table
from headrace.workbench.report.thread_chart import draw_threads

_LINES = (results.PIPELINE, results.RENDER, results.DECODE, results.ENTROPY)
_FIELDS = (
    "threads",
    "rate.median",
    "rate.spread",
    "rate.low",
    "rate.high",
    "cpu_ms",
    "",
    "peak_bytes",
)
"""The fields of a Stage that the cells of `format_stage` show; "" for a derived number."""


def bench_page(bench: Bench, diagnosis: Diagnosis | None) -> Page:
    """Return the page; without a diagnosis, one that compares with no need."""
    found = diagnose(bench, None) if diagnosis is None else diagnosis
    notes = [Finding("note", note) for note in bench.notes]
    return Page(
        title=f"Headrace report · {bench.data.path}",
        tone=_choose_tone(found),
        headline=found.headline,
        findings=[*found.findings, *notes],
        sections=[
            _show_capacities(found),
            _show_threads(bench),
            _show_images(bench),
            _show_table(bench),
        ],
        facts=_list_facts(bench),
        data={"diagnosis": found.to_json(), "bench": bench.to_json()},
    )


def _choose_tone(diagnosis: Diagnosis) -> str:
    if diagnosis.need is None:
        return "plain"
    if diagnosis.cause is not Cause.NOTHING:
        return "bad"
    return "good" if min(c.headroom or 0.0 for c in diagnosis.capacities) >= ENOUGH else "tight"


def _show_capacities(diagnosis: Diagnosis) -> Section:
    lead = "Each stage alone; whiskers reach from the slowest to the fastest round."
    if diagnosis.need is not None:
        lead += " Stages left of the dashed line are too slow."
    draw = partial(draw_capacities, diagnosis.capacities, diagnosis.need, "diagnosis.capacities")
    return Section("Capacity of the stages", lead, draw_both(draw))


def _show_threads(bench: Bench) -> Section:
    lead = "Median images per second; whiskers are the range of the rounds."
    return Section("Throughput over threads", lead, draw_both(partial(draw_threads, bench, _LINES)))


def _show_images(bench: Bench) -> Section:
    data = bench.data
    charts = [
        ("Pixels", data.megapixels, "megapixels"),
        ("Encoded size", data.kilobytes, "kB"),
        ("Time to decode the whole image, one thread", data.decode_ms, "ms"),
    ]
    body = "".join(
        f"<h3>{title}</h3>{draw_both(partial(draw_histogram, values, unit))}"
        for title, values, unit in charts
    )
    lead = f"{len(data.megapixels):,} images, {len(data.decode_ms):,} of them decoded."
    return Section("The images", lead, body)


def _show_table(bench: Bench) -> Section:
    rows = [_make_row(f"bench.stages.{number}", stage) for number, stage in enumerate(bench.stages)]
    skipped = " ".join(f"Not measured: {name}, {reason}." for name, reason in bench.skipped)
    whole = "" if bench.complete else "Interrupted: only the rounds until then were measured. "
    rounds = max((len(stage.rate.rounds) for stage in bench.stages), default=0)
    lead = f"{whole}Median of {rounds} rounds after a warm-up, ± the expected difference to a second bench. {skipped}"
    return Section("All figures", lead, make_table(COLUMNS, rows))


def _make_row(path: str, stage: Stage) -> list[str]:
    cells = [make_cell(stage.name)]
    for text, field in zip(format_stage(stage), _FIELDS, strict=True):
        owner = stage.rate if field.startswith("rate.") else stage
        value = getattr(owner, field.removeprefix("rate."), None)
        cells.append(make_cell(text, "" if value is None else f"{path}.{field}", value))
    return cells


def _list_facts(bench: Bench) -> list[tuple[str, str]]:
    data, setting, machine, gib = bench.data, bench.setting, bench.machine, 1 << 30
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in data.kinds.items())
    return [
        ("command", setting.command),
        ("date", setting.date),
        ("dataset", f"{data.samples:,} samples, {data.bytes / 1e6:,.0f} MB: {kinds}"),
        ("measured", f"{setting.samples_used:,} samples, batches of {setting.batch_size}"),
        ("transform", setting.transform),
        (
            "cache",
            "dropped before each round" if setting.cold else "warm, except for storage, cold",
        ),
        ("machine", f"{machine.cpu}, {machine.capacity_cores:g} of {machine.cores} cores usable"),
        ("memory", f"{machine.memory / gib:.0f} GiB, /dev/shm {machine.shm / gib:.0f} GiB"),
        ("disk", machine.disk),
        ("versions", machine.describe_versions()),
    ]
