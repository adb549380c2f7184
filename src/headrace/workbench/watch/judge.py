"""The verdict on a watched program in plain sentences, with the numbers behind them."""

from __future__ import annotations

import signal

from headrace.workbench.probe.classify import BLOCKED, PYTHON, READ
from headrace.workbench.probe.timeline import BETWEEN, STARTUP
from headrace.workbench.verdict import Finding
from headrace.workbench.watch.record import Seen, Watched
from headrace.workbench.watch.verdict import (
    CORE_WORK,
    Judgement,
    Limit,
    estimate_gain,
    find_limit,
    find_slow_work,
    is_crowded,
)

_GIB = 1 << 30
_RANKS = 8  # that are listed
_CUT_SHORT = "the program ended without its last word (os._exit, or killed)"


def judge(watched: Watched, headrace_rate: float | None = None) -> Judgement:
    """`headrace_rate`: images/s that Headrace was measured to give on the same images, if it was."""
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
        return "No Headrace loader and no torch DataLoader was used: there is nothing to say about loading."
    if limit is Limit.EMPTY and watched.cut_short:
        return f"A loader was used, but {_CUT_SHORT}: there is nothing to say about its speed."
    if limit is Limit.EMPTY:
        return "A loader was used but gave no batch: there is nothing to say about its speed."
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
    """Say what ended a program that failed."""
    code = watched.exit_code
    number = -code if code < 0 else code - 128  # a shell adds 128
    says = f"The program failed after {watched.wall:.1f} s with exit code {code}"
    if number in set(signal.Signals):
        hint = ", perhaps for want of memory" if number == signal.SIGKILL else ""
        killed = f"was killed by {signal.Signals(number).name}{hint}"
        says = f"The program {killed}, after {watched.wall:.1f} s"
    return f"{says}: {watched.error}." if watched.error else f"{says}."


def _numbers(watched: Watched) -> dict[str, str]:
    work = watched.work
    workers = watched.workers or sum(loader.workers for loader in watched.loaders)
    return {
        "read": f"{work.get('read', 0.0):.0%}",
        "decode": f"{work.get('decode', 0.0):.0%}",
        "transform": f"{work.get('transform', 0.0):.0%}",
        "python": f"{work.get('Python', 0.0):.0%}",
        "collate": f"{work.get('collate', 0.0):.0%}",
        "blocked": f"{work.get('blocked', 0.0):.0%}",
        "idle": f"{work.get('idle', 0.0):.0%}",
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
    """Where those who load did most of that."""
    pairs = (place.partition(" ")[::2] for place, _ in watched.places)
    return next((name for found, name in pairs if found == kind), "the transforms")


_HEADLINES = {
    Limit.FIRST_BATCHES: "{first} of the loop went into starting and into the first batch of {epochs}.",
    Limit.TOO_MANY_WORKERS: "{workers} workers on {cores} cores stand in each other's way.",
    Limit.TOO_FEW_WORKERS: "{loading} busy all the time while cores are idle ({busy} of {cores} in use).",
    Limit.READ: "{read} of the loading time is reading.",
    Limit.DECODE: "{decode} of the loading time is decoding.",
    Limit.TRANSFORM: "{transform} of the loading time is torchvision's transforms, and {decode} decoding.",
    Limit.PYTHON: "{python} of the loading time is Python code, most of it in {place}.",
    Limit.BLOCKED: "{blocked} of the loading time is waiting, not computing, most of it in {blocked_place}.",
    Limit.COLLATE: "{collate} of the loading time is collating: copying samples into batches.",
    Limit.HANDOVER: "the loaders are idle {idle} of the time; batches are late for another reason.",
}
_ADVICE = {
    Limit.FIRST_BATCHES: "Let it run for longer to see the loop itself; if epochs are that short, put several into one.",
    Limit.TOO_MANY_WORKERS: "Use about {cores} workers; processes waited {delay} of the time that they wanted a core.",
    Limit.TOO_FEW_WORKERS: "Use more workers, up to {cores}.",
    Limit.READ: "Pack the dataset so that reads are sequential, or move it to a faster disk; see headrace doctor PATH.",
    Limit.DECODE: "Decode less: Headrace decodes only what the crop needs, in native threads.",
    Limit.TRANSFORM: "Give them to Headrace: it decodes, resizes, flips and normalises in native threads.",
    Limit.PYTHON: "Move {place} to headrace.transforms, to whole batches, or to the accelerator.",
    Limit.BLOCKED: "Use more workers, also more than cores: they wait side by side (unless for threads of their own that "
    "compute). Or ask for many samples at once.",
    Limit.COLLATE: "Make samples smaller before they are collated: crop early, keep uint8 and convert whole batches.",
    Limit.HANDOVER: "Look at prefetch_factor, pin_memory, other Python threads of the program and single slow batches.",
}
_HEADRACE_ADVICE = {
    Limit.READ: "Pack the dataset if it is not, or move it to a faster disk; see headrace doctor PATH.",
    Limit.DECODE: "Pack smaller pictures (--resize-short), or give the loader more cores; see headrace doctor PATH.",
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
        f"rank {rank.rank} {rank.starting + rank.waiting:.1f} s ({rank.data_share:.0%} of its loop behind "
        f"first batches, {rank.workers} worker{'s' * (rank.workers != 1)})"
        for rank in slowest[:_RANKS]
    )
    more = f" and {len(slowest) - _RANKS} more, which waited less" if len(slowest) > _RANKS else ""
    return Finding(
        "ranks",
        f"Waited for data: {told}{more}. What the others wait for in a collective operation counts as computing; "
        f"the loop above is that of rank {watched.rank}.",
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
            "Headrace's workers would run the same Python, no faster: only what becomes headrace.transforms gains.",
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
    """What no gain is promised for."""
    kinds = {"Python": PYTHON, "reading": READ, "other waiting": BLOCKED}
    shares = {name: watched.work.get(kind, 0.0) for name, kind in kinds.items()}
    kept = [f"{share:.0%} of {name}" for name, share in shares.items() if share >= 0.01]
    return f" The {' and the '.join(kept)} are taken to stay." if kept else ""


def _about_start(watched: Watched) -> Finding | None:
    if not watched.loops:
        return None
    start, rest = (watched.spans[kind] for kind in (STARTUP, BETWEEN))
    says = (
        f"Outside the loop: {start:.1f} s until a loader was used, {watched.starting:.1f} s to start loading and for "
        f"the first batch of each epoch, {rest:.1f} s between and after loops."
    )
    if watched.starting < 0.1 * watched.wall or not any(map(_starts_again, watched.loaders)):
        return Finding("start", says)
    return Finding(
        "start", says, "`persistent_workers=True` starts workers once and not every epoch."
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
        f"The data lie on a network file system, {name}.",
        "Copy the dataset to a local disk before training, or pack it (headrace pack).",
    )


def _starts_again(loader: Seen) -> bool:
    """Whether one and the same loader started its workers several times."""
    torch = loader.kind.startswith("torch") and loader.workers > 0
    return torch and not loader.persistent and loader.epochs > loader.made


def _about_system(watched: Watched) -> Finding:
    system, crowded = watched.system, is_crowded(watched)
    return Finding(
        "machine",
        f"{watched.cores_used:.1f} of {system.cores:g} cores in use, and {watched.cores_missed:.1f} more waited for; "
        f"I/O wait {system.io_wait:.0%}; memory up to {system.peak_bytes / _GIB:.2f} GiB of "
        f"{system.memory_bytes / _GIB:.1f}. Watching took {watched.cost:.1%} of the CPU time.",
        "Other programs had the cores: look at what else runs (top)." if crowded else "",
    )
