"""The verdict on a watched program in sentences, with their numbers."""

from __future__ import annotations

import signal

from headrace.workbench.bench.dataset_bottleneck import Finding
from headrace.workbench.probe.classify_stack import BLOCKED, PYTHON, READ, WORK_KINDS
from headrace.workbench.probe.timeline import BETWEEN, STARTUP
from headrace.workbench.watch.program_bottleneck import (
    CORE_WORK,
    Judgement,
    Limit,
    estimate_gain,
    find_limit,
    find_slow_work,
    is_crowded,
)
from headrace.workbench.watch.watched_program import Seen, Watched

_GIB = 1 << 30
_RANKS = 8  # listed at most
_CUT_SHORT = "the program ended before its last record (os._exit, or killed)"


def judge(watched: Watched, headrace_rate: float | None = None) -> Judgement:
    """Return the verdict. `headrace_rate`: measured images/s of Headrace on the same images, if known."""
    limit, slow = find_limit(watched), find_slow_work(watched)
    gain = None
    if slow in CORE_WORK and not _uses_headrace(watched):
        gain = estimate_gain(watched, headrace_rate)
    findings = [
        _about_loop(watched),
        _about_ranks(watched),
        _about_limit(watched, limit),
        _about_work(watched),
        _about_headrace(watched, slow, gain, headrace_rate),
        _about_start(watched),
        _about_end(watched),
        _about_disk(watched),
        _about_system(watched),
    ]
    return Judgement(limit, _headline(watched, limit, gain), gain, tuple(filter(None, findings)))


def _uses_headrace(watched: Watched) -> bool:
    return all(loader.kind.startswith("headrace") for loader in watched.loaders)


def _headline(watched: Watched, limit: Limit, gain: float | None) -> str:
    if limit is Limit.CRASHED:
        return f"{_describe_end(watched)} There is no verdict on a program that failed."
    if limit is Limit.UNSEEN:
        return (
            "No Headrace loader and no torch DataLoader was used: nothing is known about loading."
        )
    if limit is Limit.EMPTY and watched.cut_short:
        return f"A loader was used, but {_CUT_SHORT}: nothing is known about its speed."
    if limit is Limit.EMPTY:
        return "A loader was used but gave no batch: nothing is known about its speed."
    says = _describe_limit(watched, limit, gain)
    if not watched.ranks:
        return says
    return f"Rank {watched.rank} waited for data the longest of {len(watched.ranks)} ranks. {says}"


def _describe_limit(watched: Watched, limit: Limit, gain: float | None) -> str:
    if limit is Limit.FIRST_BATCHES:
        return f"Slow to start: {_HEADLINES[limit].format(**_numbers(watched))}"
    share = watched.data_share
    if limit is Limit.COMPUTE:
        return f"Compute-bound: the loop waited for data only {share:.1%} of the time. Faster loading gains nothing."
    says = f"Data-bound {share:.0%} of the time: {_HEADLINES[limit].format(**_numbers(watched))}"
    if gain is not None and gain > 1.1:
        says += f" Packing and Headrace would make the loop about {gain:.1f}× as fast."
    return says


def _describe_end(watched: Watched) -> str:
    """Return what ended a program that failed."""
    code = watched.exit_code
    number = -code if code < 0 else code - 128  # a shell adds 128
    says = f"The program failed after {watched.wall:.1f} s with exit code {code}"
    if number in set(signal.Signals):
        hint = ", possibly out of memory" if number == signal.SIGKILL else ""
        killed = f"was killed by {signal.Signals(number).name}{hint}"
        says = f"The program {killed}, after {watched.wall:.1f} s"
    return f"{says}: {watched.error}." if watched.error else f"{says}."


def _numbers(watched: Watched) -> dict[str, str]:
    """Return what the templates of headlines and advice fill in."""
    workers = watched.workers or sum(loader.workers for loader in watched.loaders)
    return {
        **{kind: f"{watched.work.get(kind, 0.0):.0%}" for kind in WORK_KINDS},
        "place": _find_place(watched, PYTHON),
        "blocked_place": _find_place(watched, BLOCKED),
        "workers": f"{workers}",
        "loading": "the main process alone is"
        if not workers
        else f"{workers} worker{'s are' if workers > 1 else ' is'}",
        "cores": f"{watched.system.cores:g}",
        "delay": f"{watched.system.run_delay:.0%}",
        "first": f"{watched.first_share:.0%}",
        "epochs": f"{(epochs := watched.count('epochs'))} epoch{'s' if epochs > 1 else ''}",
        "busy": f"{watched.cores_used:.1f}",
    }


def _find_place(watched: Watched, kind: str) -> str:
    """Return the place where loading spent most of its time on `kind`."""
    pairs = (place.partition(" ")[::2] for place, _ in watched.places)
    return next((name for found, name in pairs if found == kind), "the transforms")


_HEADLINES = {
    Limit.FIRST_BATCHES: "{first} of the loop went into starting and into the first batch of {epochs}.",
    Limit.TOO_MANY_WORKERS: "{workers} workers on {cores} cores compete for them.",
    Limit.TOO_FEW_WORKERS: "{loading} busy all the time while cores are idle ({busy} of {cores} in use).",
    Limit.READ: "{read} of the loading time is reading.",
    Limit.DECODE: "{decode} of the loading time is decoding.",
    Limit.TRANSFORM: "{transform} of the loading time is torchvision's transforms, and {decode} decoding.",
    Limit.PYTHON: "{Python} of the loading time is Python code, most of it in {place}.",
    Limit.BLOCKED: "{blocked} of the loading time is waiting, not computing, most of it in {blocked_place}.",
    Limit.COLLATE: "{collate} of the loading time is collating: copying samples into batches.",
    Limit.HANDOVER: "the loaders are idle {idle} of the time; batches are late for another reason.",
}
_ADVICE = {
    Limit.FIRST_BATCHES: "Run it longer to see the loop itself; if epochs are that short, join several into one.",
    Limit.TOO_MANY_WORKERS: "Use about {cores} workers; processes that were ready to run waited {delay} of the time for a core.",
    Limit.TOO_FEW_WORKERS: "Use more workers, up to {cores}.",
    Limit.READ: "Pack the dataset so that reads are sequential, or move it to a faster disk; see headrace doctor PATH.",
    Limit.DECODE: "Decode less: Headrace decodes only what the crop needs, in native threads.",
    Limit.TRANSFORM: "Use Headrace: it decodes, resizes, flips and normalises in native threads.",
    Limit.PYTHON: "Move {place} to headrace.transforms, to whole batches, or to the accelerator.",
    Limit.BLOCKED: "Use more workers, also more than cores: they wait in parallel (unless they wait for their own "
    "threads). Or request many samples at once.",
    Limit.COLLATE: "Make samples smaller before they are collated: crop early, keep uint8 and convert whole batches.",
    Limit.HANDOVER: "Check prefetch_factor, pin_memory, other Python threads of the program, and single slow batches.",
}
_HEADRACE_ADVICE = {
    Limit.READ: "Pack the dataset if it is not packed, or move it to a faster disk; see headrace doctor PATH.",
    Limit.DECODE: "Pack smaller images (--resize-short), or give the loader more cores; see headrace doctor PATH.",
}


def _about_limit(watched: Watched, limit: Limit) -> Finding | None:
    if limit not in _ADVICE:
        return None
    values = _numbers(watched)
    says = _HEADLINES[limit].format(**values)
    advice = (_ADVICE | _HEADRACE_ADVICE if _uses_headrace(watched) else _ADVICE)[limit]
    return Finding("limit", says[0].upper() + says[1:], advice.format(**values))


def _about_loop(watched: Watched) -> Finding | None:
    if not watched.loaders:
        return None
    batches, images = watched.count("batches"), watched.count("images")
    says = (
        f"{batches:,} batches of {images:,} images, {images / max(watched.loop, 1e-9):,.0f} images/s: "
        f"{watched.computing / batches * 1e3:,.1f} ms of computing each"
    )
    firsts = watched.count("first_batches")
    if batches > firsts:
        says += f", {watched.waiting / (batches - firsts) * 1e3:,.1f} ms of waiting"
    if firsts:
        says += f", {watched.starting / firsts * 1e3:,.1f} ms until the first of an epoch"
    return Finding("loop", f"{says}.")


def _about_ranks(watched: Watched) -> Finding | None:
    if not watched.ranks:
        return None
    slowest = sorted(watched.ranks, key=lambda rank: -(rank.starting + rank.waiting))
    told = ", ".join(
        f"rank {rank.rank} {rank.starting + rank.waiting:.1f} s ({rank.data_share:.0%} of its loop after "
        f"first batches, {rank.workers} worker{'s' * (rank.workers != 1)})"
        for rank in slowest[:_RANKS]
    )
    more = f" and {len(slowest) - _RANKS} more, which waited less" if len(slowest) > _RANKS else ""
    return Finding(
        "ranks",
        f"Waited for data: {told}{more}. Waiting in a collective operation counts as computing; "
        f"the loop above is rank {watched.rank}'s.",
    )


def _about_work(watched: Watched) -> Finding | None:
    if not watched.work:
        return None
    parts = ", ".join(f"{share:.0%} {kind}" for kind, share in watched.work.items())
    place = ""
    if watched.places:
        kind, _, name = watched.places[0][0].partition(" ")
        place = f" The busiest place is {name} ({kind}, {watched.places[0][1]:.0%})."
    return Finding("work", f"The time of {watched.who_loads}: {parts}.{place}")


def _about_headrace(
    watched: Watched, slow: Limit | None, gain: float | None, rate: float | None
) -> Finding | None:
    if slow is Limit.PYTHON and not _uses_headrace(watched):
        return Finding(
            "Headrace",
            "Headrace's workers would run the same Python at the same speed; only headrace.transforms are faster.",
        )
    if gain is None or rate is None:
        return None
    return Finding(
        "Headrace",
        f"On the same images Headrace renders {rate:,.0f} images/s on this machine (measured with its default "
        f"transforms, RandomResizedCrop and flip).{_tell_kept(watched)}",
        f"The loop would be about {gain:.1f}× as fast.",
    )


def _tell_kept(watched: Watched) -> str:
    """Return a sentence on what Headrace would not make faster."""
    kinds = {"Python": PYTHON, "reading": READ, "other waiting": BLOCKED}
    shares = {name: watched.work.get(kind, 0.0) for name, kind in kinds.items()}
    kept = [f"{share:.0%} of {name}" for name, share in shares.items() if share >= 0.01]
    return f" The {' and the '.join(kept)} are assumed to stay." if kept else ""


def _about_start(watched: Watched) -> Finding | None:
    if not watched.loops:
        return None
    start, rest = (watched.spans[kind] for kind in (STARTUP, BETWEEN))
    says = (
        f"Outside the loop: {start:.1f} s until a loader was used, {watched.starting:.1f} s to start workers and "
        f"load the first batch of each epoch, {rest:.1f} s between and after loops."
    )
    if watched.starting < 0.1 * watched.wall or not any(map(_starts_again, watched.loaders)):
        return Finding("start", says)
    return Finding(
        "start", says, "`persistent_workers=True` starts workers once instead of every epoch."
    )


def _about_end(watched: Watched) -> Finding | None:
    if not watched.cut_short:
        return None
    says = f"{_CUT_SHORT[0].upper()}{_CUT_SHORT[1:]}: its last seconds count as after the loop."
    return Finding("end", says)


def _about_disk(watched: Watched) -> Finding | None:
    if not watched.disk.startswith("network"):
        return None
    name = watched.disk.partition(", ")[2]
    return Finding(
        "network file system",
        f"The data are on a network file system, {name}.",
        "Copy the dataset to a local disk before training, or pack it (headrace pack).",
    )


def _starts_again(loader: Seen) -> bool:
    """Return whether a single loader started its workers several times."""
    torch = loader.kind.startswith("torch") and loader.workers > 0
    return torch and not loader.persistent and loader.epochs > loader.made


def _about_system(watched: Watched) -> Finding:
    system, crowded = watched.system, is_crowded(watched)
    return Finding(
        "machine",
        f"{watched.cores_used:.1f} of {system.cores:g} cores in use, threads waited for {watched.cores_missed:.1f} more; "
        f"I/O wait {system.io_wait:.0%}; memory up to {system.peak_bytes / _GIB:.2f} GiB of "
        f"{system.memory_bytes / _GIB:.1f}. Watching took {watched.cost:.1%} of the CPU time.",
        "Other programs had the cores: look for them (top)." if crowded else "",
    )
