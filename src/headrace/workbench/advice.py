"""The verdict on a bench in plain sentences, each with the numbers behind it."""

from __future__ import annotations

from collections.abc import Callable

from headrace.formats.header import describe_deep
from headrace.workbench import numbers
from headrace.workbench.need import Need
from headrace.workbench.numbers import Bench
from headrace.workbench.verdict import (
    ENOUGH,
    Cause,
    Diagnosis,
    Finding,
    cores_needed,
    count_cores_got,
    find_cause,
    find_delivered,
    find_first,
    fits_in_memory,
    is_busy,
    list_capacities,
    pick_stage,
    slow_time_share,
    threads_needed,
)

_GIB = 1 << 30
_WELL_MIXED = 0.97
"""Part of the entropy of a global shuffle from which nobody can tell the difference."""

_TRAINING_SHORT_SIDE = 256 / 224
"""Shorter side, in parts of the crop, that training sets are commonly shrunk to."""


def diagnose(bench: Bench, need: Need | None) -> Diagnosis:
    """What this machine can deliver against what is needed, and what to do."""
    capacities = list_capacities(bench, need)
    if not capacities:
        raise ValueError("nothing was measured: there is no verdict")
    cause = find_cause(bench, need)
    rules: list[Callable[[Bench, Need | None, Cause], Finding | None]] = [
        _about_cause,
        _about_storage,
        _about_network,
        _about_slow_path,
        _about_depth,
        _about_resize,
        _about_busy,
        _about_cpu_limit,
        _about_shuffle,
        _about_memory,
        _about_shm,
        _about_numa,
    ]
    findings = [finding for rule in rules if (finding := rule(bench, need, cause)) is not None]
    return Diagnosis(
        cause=cause,
        headline=_headline(bench, need, cause),
        need=None if need is None else need.rate,
        first=find_first(capacities).stage,
        capacities=tuple(capacities),
        findings=tuple(findings),
    )


def _headline(bench: Bench, need: Need | None, cause: Cause) -> str:
    rate = find_delivered(bench)
    first = find_first(list_capacities(bench, need))
    if rate is None:
        stage = first.stage.capitalize()
        return f"{stage} gives {first.rate:,.0f} images/s; the pipeline was not measured."
    if need is None:
        return f"This machine delivers {rate:,.0f} images/s; {first.stage} gives out first."
    share = rate / need.rate
    if cause is Cause.NOTHING:
        room = "enough" if share >= ENOUGH else "just enough"
        return (
            f"Fast {room}: {rate:,.0f} images/s for a need of {need.words}, {share:.2f} times as much. "
            f"{first.stage.capitalize()} would give out first."
        )
    return (
        f"Too slow: {rate:,.0f} images/s for a need of {need.words}. "
        f"The training would wait for data {1 - share:.0%} of the time; the limit is {_NAMES[cause]}."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


_NAMES = {
    Cause.STORAGE: "the storage",
    Cause.THREADS: "the number of threads",
    Cause.CPU_LIMIT: "the CPU limit of the container",
    Cause.BUSY: "that other programs use the cores",
    Cause.SLOW_PATH: "images that the native decoder leaves to Pillow",
    Cause.RENDER: "the CPU time of decoding and resizing",
    Cause.PYTHON: "the user's Python transform",
    Cause.COPY: "the copy to the device",
}


def _about_cause(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    if cause is Cause.THREADS:
        return _about_threads(bench, need)
    if cause is Cause.PYTHON:
        stage = pick_stage(bench, numbers.PYTHON)
        assert stage is not None
        return Finding(
            "user transform",
            f"The Python steps of the transform do {stage.rate.median:,.0f} images/s in a process and cost "
            f"{stage.cpu_ms:.1f} ms of CPU an image.",
            "Replace it by one of headrace.transforms, which run in the native core, vectorise it over the "
            "batch, or move it to the accelerator.",
        )
    if cause in (Cause.RENDER, Cause.BUSY):
        return _about_cores(bench, need)
    return None


def _about_threads(bench: Bench, need: Need | None) -> Finding:
    cores = int(bench.machine.capacity_cores)
    wanted = cores if need is None else min(cores, threads_needed(bench, need))
    enough = need is None or threads_needed(bench, need) <= cores
    more = "" if enough else " That is all there are, and still too few."
    return Finding(
        "threads",
        f"{bench.setting.threads} of {cores} cores are used for rendering.",
        f"Use threads={wanted}.{more}",
    )


def _about_cores(bench: Bench, need: Need | None) -> Finding | None:
    stage = pick_stage(bench, numbers.RENDER)
    if stage is None:
        return None
    says = (
        f"Rendering takes {stage.cpu_ms:.2f} ms of CPU an image: {stage.rate.median:,.0f} images/s "
        f"with {_count(bench.setting.threads, 'thread')}."
    )
    if need is None:
        return Finding("cores", says)
    wanted = cores_needed(stage.cpu_ms, need)
    return Finding("cores", says, f"About {wanted:.1f} cores without other work would do.")


def _about_storage(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    cold = bench.find(numbers.COLD)
    if cold is None:
        return None
    speed = cold.rate.median * cold.image_bytes / 1e6
    says = (
        f"The disk ({bench.machine.disk}) gives {speed:,.0f} MB/s from a cold cache: {cold.rate.median:,.0f} "
        f"images/s of {cold.image_bytes / 1e3:,.0f} kB."
    )
    fits = fits_in_memory(bench)
    if fits:
        says += " The dataset fits into memory, so this holds for the first epoch only."
    if need is None or cold.rate.median >= need.rate:
        return Finding("storage", says)
    needed = need.rate * cold.image_bytes / 1e6
    if fits and cause is not Cause.STORAGE:
        return Finding(
            "storage", says, f"The first epoch needs {needed:,.0f} MB/s and will be slower."
        )
    pack = "Pack it (headrace pack), which makes the reads sequential; " if bench.data.loose else ""
    advice = (
        f"{needed:,.0f} MB/s are needed. {pack}move it to a faster disk, shrink the images when packing "
        "(--resize-short), or give the page cache more memory."
    )
    return Finding("storage", says, advice[0].upper() + advice[1:])


def _about_network(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    if bench.machine.network is None:
        return None
    pack = (
        "pack it, which turns many small requests into few large ones (headrace pack)"
        if bench.data.loose
        else "give the page cache memory for all of it"
    )
    return Finding(
        "network file system",
        f"The data lie on a network file system, {bench.machine.network}: how fast they are read depends on the "
        "network, on the server, and on what others read meanwhile.",
        f"Copy the dataset to a local disk before training, or {pack}. Measure while all ranks read.",
    )


def _about_slow_path(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    data = bench.data
    if not data.slow_share or not data.slow_path_ms:
        return None
    kinds = {k: n for k, n in data.kinds.items() if k not in numbers.NATIVE_KINDS}
    listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    ratio = (
        f", {data.slow_path_ms / data.native_ms:.1f} times a native one" if data.native_ms else ""
    )
    says = (
        f"{data.slow_share:.0%} of the images ({listed}) go through Pillow: {data.slow_path_ms:.1f} ms of CPU "
        f"each{ratio}, {slow_time_share(bench):.0%} of the rendering time."
    )
    advice = ""
    if "progressive" in kinds:
        advice = (
            "`jpegtran -copy all` makes a progressive JPEG baseline without loss; then pack again."
        )
    elif cause is Cause.SLOW_PATH:
        advice = "Convert them to JPEG, if the loss is none for your training, and pack again."
    return Finding("slow path", says, advice)


def _about_depth(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    sentence = describe_deep(bench.data.kinds)
    return None if sentence is None else Finding("16 bits", f"{sentence}.")


def _about_resize(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    wanted = round(max(bench.setting.size) * _TRAINING_SHORT_SIDE)
    side = bench.data.mean_short_side
    if cause not in (Cause.RENDER, Cause.CPU_LIMIT, Cause.STORAGE) or side < 1.4 * wanted:
        return None
    return Finding(
        "image size",
        f"The shorter side is {side:.0f} pixels on average; a crop of {max(bench.setting.size)} needs about {wanted}.",
        f"`headrace pack --resize-short {wanted}` leaves about {(wanted / side) ** 2:.0%} of the pixels to "
        "read and decode. It changes what the network sees: check the accuracy once.",
    )


def _about_busy(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    got = count_cores_got(bench)
    if got is None or not is_busy(bench):
        return None
    wanted = min(bench.setting.threads, bench.machine.capacity_cores)
    return Finding(
        "busy machine",
        f"Rendering alone got only {got:.1f} of {wanted:g} cores while it was measured: other programs had the rest.",
        "Look at what else runs (top), or measure again when the machine is quiet.",
    )


def _about_cpu_limit(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    limit, cores = bench.machine.cpu_limit, bench.machine.usable_cores
    if limit is None or limit >= cores:
        return None
    return Finding(
        "CPU limit",
        f"The container may use {limit:g} of {cores} cores (cgroup cpu quota).",
        f"Ask for more, and set threads={max(1, int(limit))}: more threads than that are throttled.",
    )


def _about_shuffle(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    data = bench.data
    if data.mixing is None or data.window is None or data.mixing >= _WELL_MIXED:
        return None
    return Finding(
        "shuffle",
        f"The samples lie sorted by class. Over a window of {data.window:,} of {data.samples:,} samples a batch mixes "
        f"the classes {data.mixing:.0%} as well as a global shuffle, which costs accuracy.",
        "Pack the dataset in random order, the default of `headrace pack`, or give Loader window=None.",
    )


def _about_memory(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    machine, stage = bench.machine, pick_stage(bench, numbers.PIPELINE)
    room = machine.cache_room
    if stage is not None and stage.peak_bytes and stage.peak_bytes > 0.5 * room:
        return Finding(
            "memory",
            f"Loading held {stage.peak_bytes / _GIB:.1f} GiB of the {room / _GIB:.1f} GiB that are left.",
            f"Give Loader a smaller window ({_count_window(bench)}), batch or prefetch, or raise the memory limit.",
        )
    if fits_in_memory(bench) or machine.memory_limit is None:
        return None
    return Finding(
        "memory",
        f"The dataset has {bench.data.bytes / _GIB:.1f} GiB, the memory limit leaves {room / _GIB:.1f} GiB "
        "for the page cache: every epoch reads from disk.",
        f"A limit above {bench.data.bytes / 0.8 / _GIB:.1f} GiB would keep it in memory.",
    )


def _count_window(bench: Bench) -> str:
    """A window that fits into a tenth of the memory that is left."""
    samples = int(0.1 * bench.machine.cache_room / max(bench.data.mean_bytes, 1))
    return f"window={samples:,} samples would hold a tenth of it"


def _about_shm(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    height, width = bench.setting.size
    batches = bench.setting.batch_size * height * width * 3 * 4 * 2 * bench.machine.usable_cores
    if bench.machine.shm >= batches:
        return None
    return Finding(
        "/dev/shm",
        f"/dev/shm has {bench.machine.shm / _GIB:.2f} GiB; a torch DataLoader with {bench.machine.usable_cores} "
        f"workers would put up to {batches / _GIB:.1f} GiB there.",
        "Headrace's own threads do not need it; for DataLoader workers start the container with --shm-size.",
    )


def _about_numa(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    nodes = bench.machine.numa_nodes
    if nodes < 2:
        return None
    return Finding(
        "NUMA",
        f"The machine has {nodes} NUMA nodes.",
        "Run one process a device, each bound to the node of its device: numactl --cpunodebind --membind.",
    )
