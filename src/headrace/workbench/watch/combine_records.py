"""Combines the records that the probes of a program wrote into one `Watched`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from headrace.workbench.probe.timeline import BETWEEN, COMPUTE, FIRST, KINDS, STARTUP, WAIT
from headrace.workbench.watch.watched_program import Rank, Seen, System, Watched

Record = dict[str, Any]
_SUMMED = (
    "batches",
    "images",
    "first_batches",
    "first_images",
    "epochs",
    "made",
    "read_seconds",
    "render_seconds",
)
_MOSTLY = 0.6


def read_records(folder: Path) -> list[Record]:
    """Return the records of all processes, except one that a dying process left incomplete."""
    records = []
    for path in sorted(folder.glob("*.json")):
        try:
            records.append(json.loads(path.read_text()))
        except ValueError:
            continue
    return records


def correct_ends(records: Sequence[Record], last_seen: dict[int, float]) -> list[Record]:
    """Extend the life of killed processes from their last record to when they were last seen."""
    seen = dict(last_seen)
    for record in records:
        for pid, moment in record.get("children", {}).items():
            seen[int(pid)] = max(moment, seen.get(int(pid), 0.0))
    return [
        record
        if record["ended"]
        else {**record, "end": max(record["end"], seen.get(record["pid"], 0.0))}
        for record in records
    ]


def combine(
    records: Sequence[Record],
    *,
    command: str,
    exit_code: int,
    begin: float,
    end: float,
    system: System,
    interrupted: bool = False,
) -> Watched:
    """Combine the records of all processes, for the loop that waited and computed the most.

    In a distributed training, it is the loop of the rank that waited for data the longest, since the
    others wait for that rank.
    """
    loops = [record for record in records if record["loaders"]]
    ranked = _pick_ranks(loops)
    choose = _waited_seconds if ranked else _loop_seconds
    main = max(ranked or loops, key=choose, default=_make_idle(end))
    timeline = main["timeline"]
    spans = {kind: float(timeline["totals"].get(kind, 0.0)) for kind in KINDS}
    spans[STARTUP] += max(0.0, timeline["begin"] - begin)  # before the interpreter started
    spans[BETWEEN] += max(0.0, end - main["end"])  # after its last record
    workers = [record for record in records if record["worker"]]
    seen = _merge_loaders(main)
    work, places = _share_work(main, _find_workers(main, records) if ranked else workers, seen)
    cpu = sum(record["cost"] for record in records)
    return Watched(
        command=command,
        exit_code=exit_code,
        wall=end - begin,
        spans=spans,
        bin_seconds=float(timeline["width"]),
        bins=tuple(timeline["bins"]),
        loaders=seen,
        loops=len(loops),
        workers=_count_at_once(workers),
        work=work,
        places=places,
        system=system,
        cost=cpu / max(system.cpu_seconds, 1e-9),
        cut_short=not main["ended"],
        error=_find_error(records),
        interrupted=interrupted,
        rank=main["rank"] if ranked else None,
        ranks=tuple(_describe_rank(record, records) for record in ranked),
    )


def _make_idle(end: float) -> Record:
    """Return the record of a program without a loop: all its time is startup."""
    timeline = {"begin": end, "totals": {}, "width": 1.0, "bins": []}
    return {"timeline": timeline, "loaders": [], "end": end, "ended": True}


def _pick_ranks(loops: Sequence[Record]) -> list[Record]:
    """Return the loop of each rank, in order; nothing for a single process."""
    ranks: dict[int, Record] = {}
    for record in sorted(loops, key=_loop_seconds):
        if record.get("rank") is not None:
            ranks[record["rank"]] = record
    return [ranks[rank] for rank in sorted(ranks)] if len(ranks) > 1 else []


def _describe_rank(record: Record, records: Sequence[Record]) -> Rank:
    totals, seen = record["timeline"]["totals"], _merge_loaders(record)
    return Rank(
        rank=record["rank"],
        starting=float(totals[FIRST]),
        waiting=float(totals[WAIT]),
        computing=float(totals[COMPUTE]),
        batches=sum(loader.batches for loader in seen),
        images=sum(loader.images for loader in seen),
        workers=_count_at_once(_find_workers(record, records)),
    )


def _find_workers(loop: Record, records: Sequence[Record]) -> list[Record]:
    """Return the workers that the process of a loop started, directly or by a fork server."""
    by_pid = {record["pid"]: record for record in records}

    def find_owner(record: Record) -> Record | None:
        owner = by_pid.get(record["parent"])
        return owner if owner is None or owner["loaders"] else find_owner(owner)

    return [record for record in records if record["worker"] and find_owner(record) is loop]


def _find_error(records: Sequence[Record]) -> str | None:
    """Return the first exception that ended a loop, or else another process such as a launcher."""
    for record in sorted(records, key=lambda record: (not record["loaders"], record["end"])):
        if error := record.get("error"):
            rank = record.get("rank")
            return str(error) if rank is None else f"rank {rank}: {error}"
    return None


def _waited_seconds(record: Record) -> float:
    totals = record["timeline"]["totals"]
    return float(totals[WAIT] + totals[FIRST])


def _loop_seconds(record: Record) -> float:
    totals = record["timeline"]["totals"]
    return float(totals[WAIT] + totals[COMPUTE] + totals[FIRST])


def _count_at_once(workers: Sequence[Record]) -> int:
    """Return the largest number at a time: every epoch may start new workers."""
    begins = [(record["timeline"]["begin"], 1) for record in workers]
    ends = [(record["end"], -1) for record in workers]
    return max(accumulate(change for _, change in sorted(begins + ends)), default=0)


def _merge_loaders(record: Record) -> tuple[Seen, ...]:
    """Return the loaders that gave batches; equal ones, as when each epoch makes its own, as one."""
    merged: dict[tuple[Any, ...], Seen] = {}
    for seen in (Seen(**loader) for loader in record["loaders"] if loader["batches"]):
        told = asdict(seen)
        alike = tuple(value for name, value in told.items() if name not in _SUMMED)
        before = merged.get(alike)
        if before is not None:
            seen = replace(seen, **{n: getattr(before, n) + told[n] for n in _SUMMED})
        merged[alike] = seen
    return tuple(merged.values())


def _share_work(
    main: Record, workers: Sequence[Record], seen: Sequence[Seen]
) -> tuple[dict[str, float], tuple[tuple[str, float], ...]]:
    """Return shares of the loading time by kind, and the places where most of it was spent."""
    if not main["loaders"]:
        return {}, ()
    kinds: Counter[str] = Counter()
    places: Counter[str] = Counter()
    for record in workers or [main]:
        kinds.update(record["kinds"])
        places.update(record["places"])
    total = max(sum(kinds.values()), 1)
    shares = {kind: count / total for kind, count in kinds.most_common()}
    rendering = [loader for loader in seen if loader.kind.startswith("headrace")]
    if rendering and (not kinds or shares.get("idle", 0.0) > _MOSTLY):
        return _share_threads(rendering, main), ()  # its threads do the work
    return shares, tuple((place, count / total) for place, count in places.most_common(8))


def _share_threads(loaders: Sequence[Seen], main: Record) -> dict[str, float]:
    """Return the shares that Headrace's rendering thread counts itself."""
    render = sum(loader.render_seconds for loader in loaders)
    read = sum(loader.read_seconds for loader in loaders)
    total = max(_loop_seconds(main), render + read, 1e-9)
    return {
        "decode": render / total,
        "read": read / total,
        "idle": max(0.0, 1 - (render + read) / total),
    }
