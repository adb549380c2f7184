"""The diagnosis of a bench in sentences: what was found, with its numbers, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable

from headrace.image_header import RECODABLE, describe_deep, describe_turned
from headrace.workbench.bench import results
from headrace.workbench.bench.dataset_bottleneck import (
    ENOUGH,
    Cause,
    Diagnosis,
    Finding,
    count_cores_got,
    find_bottleneck,
    find_cause,
    find_delivered,
    fits_in_memory,
    is_busy,
    list_capacities,
    pick_stage,
    slow_time_share,
    threads_needed,
)
from headrace.workbench.bench.required_rate import Need
from headrace.workbench.bench.results import Bench

_GIB = 1 << 30
_WELL_MIXED = 0.97
"""Share of the entropy of a global shuffle that is as good as one."""

_WORTH_RECODING = 1.05
"""How many times as fast rendering must become for recoding to be advised."""

_TRAINING_SHORT_SIDE = 256 / 224
"""Shorter side that training sets are commonly shrunk to, relative to the crop."""


def diagnose(bench: Bench, need: Need | None) -> Diagnosis:
    """Return what this machine delivers, compared with what is needed, and what to do.

    Raises:
        ValueError: Nothing was measured.
    """
    capacities = list_capacities(bench, need)
    if not capacities:
        raise ValueError("no stage was measured: there is nothing to diagnose; let a round finish")
    cause = find_cause(bench, need)
    findings = [rule(bench, need, cause) for rule in _RULES]
    return Diagnosis(
        cause=cause,
        headline=_headline(bench, need, cause),
        need=None if need is None else need.rate,
        bottleneck=find_bottleneck(capacities).stage,
        capacities=tuple(capacities),
        findings=tuple(filter(None, findings)),
    )


def _headline(bench: Bench, need: Need | None, cause: Cause) -> str:
    rate = find_delivered(bench)
    slowest = find_bottleneck(list_capacities(bench, need))
    stage = slowest.stage.capitalize()
    if rate is None:
        return f"{stage} delivers {slowest.rate:,.0f} images/s; the pipeline was not measured."
    if need is None:
        return f"This machine delivers {rate:,.0f} images/s; the bottleneck is {slowest.stage}."
    share = rate / need.rate
    if cause is Cause.NOTHING:
        return (
            f"Fast {'enough' if share >= ENOUGH else 'just enough'}: {rate:,.0f} images/s for a need of "
            f"{need.words}, {share:.2f} times as much. {stage} would be the next bottleneck."
        )
    return (
        f"Too slow: {rate:,.0f} images/s for a need of {need.words}. "
        f"The training would wait for data {1 - share:.0%} of the time; the limit is {_NAMES[cause]}."
    )


_NAMES = {
    Cause.STORAGE: "the storage",
    Cause.THREADS: "the number of threads",
    Cause.CPU_LIMIT: "the CPU limit of the container",
    Cause.BUSY: "other programs that use the cores",
    Cause.SLOW_PATH: "images that the native decoder does not support",
    Cause.RENDER: "the CPU time of decoding and resizing",
    Cause.PYTHON: "your Python transform",
    Cause.COPY: "the copy to the device",
}


def _about_python(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    stage = pick_stage(bench, results.PYTHON)
    if cause is not Cause.PYTHON or stage is None:
        return None
    return Finding(
        "user transform",
        f"The Python steps of the transform run at {stage.rate.median:,.0f} images/s per process and take "
        f"{stage.cpu_ms:.1f} ms of CPU per image.",
        "Replace them by headrace.transforms, which run in the native core, vectorise them over the batch, "
        "or move them to the accelerator.",
    )


def _about_threads(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    if cause is not Cause.THREADS:
        return None
    cores = int(bench.machine.capacity_cores)
    wanted = cores if need is None else threads_needed(bench, need)
    more = "" if wanted <= cores else " Even all cores are too few."
    return Finding(
        "threads",
        f"Rendering uses {bench.setting.threads} of {cores} cores.",
        f"Use threads={min(wanted, cores)}.{more}",
    )


def _about_cores(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    stage = pick_stage(bench, results.RENDER)
    if cause not in (Cause.RENDER, Cause.BUSY) or stage is None:
        return None
    threads = bench.setting.threads
    says = (
        f"Rendering takes {stage.cpu_ms:.2f} ms of CPU per image: {stage.rate.median:,.0f} images/s "
        f"with {threads} thread{'s' * (threads != 1)}."
    )
    if need is None:
        return Finding("cores", says)
    cores = stage.cpu_ms * need.rate / 1e3
    return Finding("cores", says, f"About {cores:.1f} cores without other work would be enough.")


def _about_storage(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    cold = bench.find(results.COLD)
    if cold is None:
        return None
    speed = cold.rate.median * cold.image_bytes / 1e6
    needed = 0.0 if need is None else need.rate * cold.image_bytes / 1e6
    says = (
        f"The disk ({bench.machine.disk}) delivers {speed:,.0f} MB/s from a cold cache: "
        f"{cold.rate.median:,.0f} images/s of {cold.image_bytes / 1e3:,.0f} kB."
    )
    fits = fits_in_memory(bench)
    if fits:
        says += " The dataset fits into memory, so this matters for the first epoch only."
    if speed >= needed:
        return Finding("storage", says)
    if fits and cause is not Cause.STORAGE:
        advice = f"The first epoch needs {needed:,.0f} MB/s and will be slower."
    else:
        pack = "pack it (headrace pack) to read sequentially, " if bench.data.loose else ""
        advice = (
            f"The training needs {needed:,.0f} MB/s: {pack}move it to a faster disk, shrink the images when "
            "packing (--resize-short), or give the page cache more memory."
        )
    return Finding("storage", says, advice)


def _about_network(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    if bench.machine.network is None:
        return None
    other = (
        "pack it, which turns many small requests into few large ones (headrace pack)"
        if bench.data.loose
        else "give the page cache enough memory for all of it"
    )
    return Finding(
        "network file system",
        f"The data are on a network file system, {bench.machine.network}: its speed depends on the "
        "network, on the server, and on what others read meanwhile.",
        f"Copy the dataset to a local disk before training, or {other}. Measure while all ranks read.",
    )


def _about_slow_path(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    data = bench.data
    kinds = {k: n for k, n in data.kinds.items() if k not in results.NATIVE_KINDS}
    slow_ms, native_ms = data.mean_ms(frozenset(kinds)), data.mean_ms(results.NATIVE_KINDS)
    if not slow_ms:
        return None
    listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    times = slow_ms / native_ms if native_ms else 0.0
    says = (
        f"{data.slow_share:.0%} of the images ({listed}) go through Pillow: {slow_ms:.1f} ms of CPU "
        f"each{f', {times:.1f} times a native one' if times else ''}, {slow_time_share(bench):.0%} of the rendering time."
    )
    advice = ""
    if cause is Cause.SLOW_PATH:
        advice = "Convert them to JPEG, if your training tolerates the loss, and pack again."
    return Finding("slow path", says, advice)


def _about_recoding(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    data, gain = bench.data, bench.data.recoding_gain
    if gain is None:
        return None
    kinds = [kind for kind in data.kinds if kind in RECODABLE]
    says = (
        f"{data.share_of(RECODABLE):.0%} of the files are {' and '.join(sorted(kinds))} JPEGs and take "
        f"{data.time_share(RECODABLE):.0%} of the decoding time: {data.mean_ms(RECODABLE):.2f} ms of CPU each, "
        f"{data.recoded_ms:.2f} ms as baseline."
    )
    if gain < _WORTH_RECODING:
        return Finding("kinds of JPEG", says)
    advice = f"`headrace pack --recode` would give {gain:.1f}×: it rewrites them without loss."
    return Finding("kinds of JPEG", says, advice)


def _about_depth(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    sentence = describe_deep(bench.data.kinds)
    return None if sentence is None else Finding("16 bits", f"{sentence}.")


def _about_turned(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    sentence = describe_turned(bench.data.turned)
    return None if sentence is None else Finding("orientation", f"{sentence}.")


def _about_resize(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    crop, side = max(bench.setting.size), bench.data.mean_short_side
    wanted = round(crop * _TRAINING_SHORT_SIDE)
    if cause not in (Cause.RENDER, Cause.CPU_LIMIT, Cause.STORAGE) or side < 1.4 * wanted:
        return None
    return Finding(
        "image size",
        f"The shorter side is {side:.0f} pixels on average; a crop of {crop} needs about {wanted}.",
        f"`headrace pack --resize-short {wanted}` reduces the pixels to read and decode to about "
        f"{(wanted / side) ** 2:.0%}. It changes what the network sees: check the accuracy once.",
    )


def _about_busy(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    got = count_cores_got(bench)
    if got is None or not is_busy(bench):
        return None
    wanted = min(bench.setting.threads, bench.machine.capacity_cores)
    return Finding(
        "busy machine",
        f"Rendering alone got only {got:.1f} of {wanted:g} cores while it was measured: other programs had the rest.",
        "Look for other programs (top), or measure again when the machine is quiet.",
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
        f"The samples are sorted by class. Over a window of {data.window:,} of {data.samples:,} samples a batch mixes "
        f"the classes {data.mixing:.0%} as well as a global shuffle, which costs accuracy.",
        "Pack the dataset in random order, the default of `headrace pack`, or give Loader window=None.",
    )


def _about_memory(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    machine, stage = bench.machine, pick_stage(bench, results.PIPELINE)
    room = machine.cache_room
    if stage is not None and stage.peak_bytes and stage.peak_bytes > 0.5 * room:
        window = int(0.1 * room / max(bench.data.mean_bytes, 1))
        return Finding(
            "memory",
            f"Loading held {stage.peak_bytes / _GIB:.1f} GiB; {room / _GIB:.1f} GiB are available.",
            f"Give Loader a smaller window (window={window:,} samples would take a tenth of what is available), "
            "batch or prefetch, or raise the memory limit.",
        )
    if fits_in_memory(bench) or machine.memory_limit is None:
        return None
    return Finding(
        "memory",
        f"The dataset has {bench.data.bytes / _GIB:.1f} GiB, the memory limit leaves {room / _GIB:.1f} GiB "
        "for the page cache: every epoch reads from disk.",
        f"A limit above {bench.data.bytes / 0.8 / _GIB:.1f} GiB would keep it in memory.",
    )


def _about_shm(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    (height, width), cores = bench.setting.size, bench.machine.usable_cores
    batches = bench.setting.batch_size * height * width * 3 * 4 * 2 * cores
    if bench.machine.shm >= batches:
        return None
    return Finding(
        "/dev/shm",
        f"/dev/shm has {bench.machine.shm / _GIB:.2f} GiB; a torch DataLoader with {cores} workers would put up to "
        f"{batches / _GIB:.1f} GiB there.",
        "Headrace's threads do not need it; for DataLoader workers start the container with --shm-size.",
    )


def _about_numa(bench: Bench, need: Need | None, cause: Cause) -> Finding | None:
    if bench.machine.numa_nodes < 2:
        return None
    return Finding(
        "NUMA",
        f"The machine has {bench.machine.numa_nodes} NUMA nodes.",
        "Run one process per device, bound to the node of its device: numactl --cpunodebind --membind.",
    )


_RULES: tuple[Callable[[Bench, Need | None, Cause], Finding | None], ...] = (
    _about_python,
    _about_threads,
    _about_cores,
    _about_storage,
    _about_network,
    _about_slow_path,
    _about_recoding,
    _about_depth,
    _about_turned,
    _about_resize,
    _about_busy,
    _about_cpu_limit,
    _about_shuffle,
    _about_memory,
    _about_shm,
    _about_numa,
)
