"""What watching a program gave, as values; everything its verdict and report are made from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from headrace.workbench.probe.timeline import BETWEEN, COMPUTE, FIRST, KINDS, STARTUP, WAIT


@dataclass(frozen=True)
class Seen:
    """A loader that the program used, or several that are alike, as when each epoch makes its own.

    workers: processes of torch, threads of Headrace. epochs: how often it was iterated over. first_batches,
    first_images: those of its batches that count as the first of an epoch, for which workers were started.
    made: how many loaders these are.
    """

    kind: str
    dataset: str
    source: str | None
    workers: int
    batch_size: int
    batches: int
    images: int
    first_batches: int = 0
    first_images: int = 0
    epochs: int = 1
    made: int = 1
    persistent: bool = False
    read_seconds: float = 0.0
    render_seconds: float = 0.0


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


@dataclass(frozen=True)
class System:
    """What the program took from the machine, seen from outside.

    cpu_seconds: of all its processes. delay_seconds: that their threads were ready to run but had no core;
    run_delay: the same in parts of the time that they wanted one. io_wait: the part of the time of all cores
    that was idle with a disk to blame. peak_bytes: the most memory of all its processes together.
    """

    cores: float
    cpu_seconds: float
    delay_seconds: float
    run_delay: float
    io_wait: float
    peak_bytes: int
    most_processes: int
    memory_bytes: int


@dataclass(frozen=True)
class Rank:
    """The loop of one rank of a distributed training: its seconds, its counts, its worker processes."""

    rank: int
    starting: float
    waiting: float
    computing: float
    batches: int
    images: int
    workers: int

    @property
    def data_share(self) -> float:
        """The part of the loop behind its first batch in which it waited for data."""
        return self.waiting / max(self.waiting + self.computing, 1e-9)


@dataclass(frozen=True)
class Watched:
    """A watched program. `spans` are the seconds of its loop by kind, and sum up to `wall` but for the start
    of the interpreter; `work` is what loading consisted of, in parts of the time of those who load.
    `cut_short`: it ended without its last word, by `os._exit` or killed. `workers`: processes of all loaders and
    ranks that ran at a time. `ranks`: all of a distributed training; the loop is that of `rank`, which waited the
    longest. `error`: the exception that ended it. `interrupted`: the user ended it. `disk`: what the
    data of the first loader that tells its folder lie on."""

    command: str
    exit_code: int
    wall: float
    spans: dict[str, float]
    bin_seconds: float
    bins: tuple[dict[str, float], ...]
    loaders: tuple[Seen, ...]
    loops: int
    workers: int
    work: dict[str, float]
    places: tuple[tuple[str, float], ...]
    system: System
    cost: float
    cut_short: bool
    error: str | None = None
    interrupted: bool = False
    rank: int | None = None
    ranks: tuple[Rank, ...] = ()
    disk: str = ""

    @property
    def crashed(self) -> bool:
        """Whether it ended by a fault of its own."""
        return self.exit_code != 0 and not self.interrupted

    @property
    def starting(self) -> float:
        return self.spans[FIRST]

    @property
    def waiting(self) -> float:
        return self.spans[WAIT]

    @property
    def computing(self) -> float:
        return self.spans[COMPUTE]

    @property
    def loop(self) -> float:
        """Seconds of all loops, with their first batches."""
        return self.starting + self.waiting + self.computing

    def count(self, what: str) -> int:
        """The sum over all loaders of one of their counts."""
        return sum(getattr(loader, what) for loader in self.loaders)

    @property
    def who_loads(self) -> str:
        workers, of = self.workers, ""
        if self.rank is not None:
            workers = next(each.workers for each in self.ranks if each.rank == self.rank)
            of = f" of rank {self.rank}"
        if workers > 1:
            return f"the {workers} workers{of}"
        return f"the {'worker' if workers else 'loader'}{of}"

    @property
    def first_share(self) -> float:
        """The part of all loops in which workers were started and first batches waited for."""
        return self.starting / max(self.loop, 1e-9)

    @property
    def data_share(self) -> float:
        """The part of the loop behind its first batch in which it waited for data."""
        return self.waiting / max(self.waiting + self.computing, 1e-9)

    @property
    def cores_used(self) -> float:
        """On average over the wall time."""
        return self.system.cpu_seconds / max(self.wall, 1e-9)

    @property
    def cores_missed(self) -> float:
        """Cores that its threads were ready to use beside those, and did not get, on average."""
        return self.system.delay_seconds / max(self.wall, 1e-9)

    @property
    def attributed(self) -> float:
        """The part of the wall time that has a name."""
        return sum(self.spans.values()) / max(self.wall, 1e-9)

    def to_json(self) -> dict[str, Any]:
        derived = ("data_share", "first_share", "attributed")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}


_MOSTLY = 0.6


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The records of all processes. One that was being written when its process died is left out."""
    records = []
    for path in sorted(folder.glob("*.json")):
        try:
            records.append(json.loads(path.read_text()))
        except ValueError:
            continue
    return records


def correct_ends(
    records: Sequence[dict[str, Any]], last_seen: dict[int, float]
) -> list[dict[str, Any]]:
    """Let processes that were killed have lived until they were seen last, and not only until they wrote last."""
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
    records: Sequence[dict[str, Any]],
    *,
    command: str,
    exit_code: int,
    begin: float,
    end: float,
    system: System,
    interrupted: bool = False,
) -> Watched:
    """One value from the records of all processes, for the loop that waited and computed the most.

    Of a distributed training it is the loop of the rank that waited for data the longest: the others wait for it.
    """
    loops = [record for record in records if record["loaders"]]
    empty: dict[str, Any] = {
        "begin": begin,
        "totals": dict.fromkeys(KINDS, 0.0),
        "width": 1.0,
        "bins": [],
    }
    ranked = _pick_ranks(loops)
    main = max(ranked or loops, key=_waited_seconds if ranked else _loop_seconds, default=None)
    timeline = empty if main is None else main["timeline"]
    spans = {kind: float(timeline["totals"].get(kind, 0.0)) for kind in KINDS}
    if main is None:
        spans[STARTUP] = end - begin
    else:  # before the interpreter was there, and after it had told its last
        spans[STARTUP] += max(0.0, timeline["begin"] - begin)
        spans[BETWEEN] += max(0.0, end - main["end"])
    workers = [record for record in records if record["worker"]]
    own = _find_workers(main, records) if ranked and main is not None else workers
    seen = () if main is None else _merge_loaders(main)
    work, places = _share_work(main, own, seen)
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
        cut_short=main is not None and not main["ended"],
        error=_find_error(records),
        interrupted=interrupted,
        rank=main["rank"] if ranked and main is not None else None,
        ranks=tuple(_describe_rank(record, records) for record in ranked),
    )


def _pick_ranks(loops: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The loop of each rank, in their order; none if there are no several."""
    ranks: dict[int, dict[str, Any]] = {}
    for record in sorted(loops, key=_loop_seconds):
        if record.get("rank") is not None:
            ranks[record["rank"]] = record
    return [ranks[rank] for rank in sorted(ranks)] if len(ranks) > 1 else []


def _describe_rank(record: dict[str, Any], records: Sequence[dict[str, Any]]) -> Rank:
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


def _find_workers(loop: dict[str, Any], records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The workers that the process of a loop started, itself or by a fork server."""
    by_pid = {record["pid"]: record for record in records}

    def find_owner(record: dict[str, Any]) -> dict[str, Any] | None:
        owner = by_pid.get(record["parent"])
        return owner if owner is None or owner["loaders"] else find_owner(owner)

    return [record for record in records if record["worker"] and find_owner(record) is loop]


def _find_error(records: Sequence[dict[str, Any]]) -> str | None:
    """The first exception that ended a loop; else one that ended another process, as of a launcher."""
    for record in sorted(records, key=lambda record: (not record["loaders"], record["end"])):
        if error := record.get("error"):
            rank = record.get("rank")
            return str(error) if rank is None else f"rank {rank}: {error}"
    return None


def _waited_seconds(record: dict[str, Any]) -> float:
    totals = record["timeline"]["totals"]
    return float(totals[WAIT] + totals[FIRST])


def _loop_seconds(record: dict[str, Any]) -> float:
    totals = record["timeline"]["totals"]
    return float(totals[WAIT] + totals[COMPUTE] + totals[FIRST])


def _count_at_once(workers: Sequence[dict[str, Any]]) -> int:
    """The most of them that ran at a time: an epoch may start workers of its own."""
    begins = [(record["timeline"]["begin"], 1) for record in workers]
    ends = [(record["end"], -1) for record in workers]
    return max(accumulate(change for _, change in sorted(begins + ends)), default=0)


def _merge_loaders(record: dict[str, Any]) -> tuple[Seen, ...]:
    """The loaders that gave batches; those that are alike, as when each epoch makes its own, as one."""
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
    main: dict[str, Any] | None, workers: Sequence[dict[str, Any]], seen: Sequence[Seen]
) -> tuple[dict[str, float], tuple[tuple[str, float], ...]]:
    """(parts of the time of those who load, by kind; the places where most of it was spent)."""
    if main is None:
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
        return _share_threads(rendering, main), ()  # its threads are what there is to look at
    return shares, tuple((place, count / total) for place, count in places.most_common(8))


def _share_threads(loaders: Sequence[Seen], main: dict[str, Any]) -> dict[str, float]:
    """Headrace's rendering thread keeps books itself: rendering, waiting for bytes, and waiting for room."""
    render = sum(loader.render_seconds for loader in loaders)
    read = sum(loader.read_seconds for loader in loaders)
    total = max(_loop_seconds(main), render + read, 1e-9)
    return {
        "decode": render / total,
        "read": read / total,
        "idle": max(0.0, 1 - (render + read) / total),
    }
