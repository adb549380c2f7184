"""A bench as text: cells of a table, a description and notes, for the terminal and for the report."""

from __future__ import annotations

from headrace.workbench.bench.results import Bench, Data, Stage

COLUMNS = ("stage", "threads", "images/s", "±", "from", "to", "CPU ms", "MB/s", "peak MB")


def format_stage(stage: Stage) -> list[str]:
    """Return the cells of a stage after its name."""
    rate = stage.rate
    spread = "" if rate.spread is None else f"{rate.spread:.0%}"
    return [
        f"{stage.threads}",
        f"{rate.median:,.0f}",
        ">100%" if (rate.spread or 0.0) > 1 else spread,
        f"{rate.low:,.0f}",
        f"{rate.high:,.0f}",
        f"{stage.cpu_ms:.3f}",
        f"{rate.median * stage.image_bytes / 1e6:,.0f}",
        "" if stage.peak_bytes is None else f"{stage.peak_bytes / 1e6:,.0f}",
    ]


KIND_COLUMNS = ("kind of image", "images", "CPU ms", "of the time")


def list_kinds(data: Data) -> list[list[str]]:
    """Return a row for each kind of image that was measured: what rendering costs, by `KIND_COLUMNS`."""
    return [
        [kind, f"{data.kinds.get(kind, 0):,}", f"{ms:.3f}", f"{data.time_share({kind}):.0%}"]
        for kind, ms in data.kind_ms.items()
    ]


def list_notes(bench: Bench) -> list[str]:
    """Return what was not measured and why, and what to know about the stages."""
    notes = [f"{name}: not measured, {reason}" for name, reason in bench.skipped]
    notes += dict.fromkeys(f"{stage.name}: {stage.note}" for stage in bench.stages if stage.note)
    notes += bench.notes
    if not bench.complete:
        notes.append("interrupted: only the rounds until then were measured")
    return notes


def describe_bench(bench: Bench) -> str:
    """Return two lines on the dataset and the machine, and a warning if the data are remote."""
    data, machine, setting = bench.data, bench.machine, bench.setting
    network = ""
    if machine.network is not None:
        network = (
            "\nThe data are on a network file system: its speed varies with what others read. "
            "Copy the dataset to a local disk before training."
        )
    return (
        f"{data.path}: {data.samples:,} samples of {data.mean_bytes / 1e3:,.0f} kB, "
        f"{setting.samples_used:,} used; batches of {setting.batch_size}, {setting.transform}\n"
        f"{machine.cpu}, {machine.capacity_cores:g} cores, {machine.memory / (1 << 30):.0f} GiB, "
        f"disk: {machine.disk}; {machine.describe_versions()}{network}"
    )
