"""A watched program as frozen values. Its verdict and its report are made from them alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from headrace.workbench.probe.timeline import COMPUTE, FIRST, WAIT


@dataclass(frozen=True)
class Seen:
    """A loader that the program used, or several equal ones, as when each epoch makes its own.

    workers: Processes of torch, threads of Headrace. epochs: Number of times it was iterated over.
    first_batches, first_images: Counts of the first batches of epochs, for which workers were started.
    made: Number of loaders.
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


@dataclass(frozen=True)
class System:
    """What all processes of the program took from the machine.

    delay_seconds: Time that threads were ready to run but had no core. run_delay: the same, relative to
    the time that they wanted a core. io_wait: Share of all cores' time that was idle waiting for a disk.
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
    """The loop of one rank of a distributed training: seconds, counts and worker processes."""

    rank: int
    starting: float
    waiting: float
    computing: float
    batches: int
    images: int
    workers: int

    @property
    def data_share(self) -> float:
        """Share of the loop, without first batches, that waited for data."""
        return self.waiting / max(self.waiting + self.computing, 1e-9)


@dataclass(frozen=True)
class Watched:
    """A watched program.

    spans: Seconds of its loop by kind; they add up to `wall`, except for the start of the interpreter.
    work: What loading consisted of, as shares of the time of the workers (or of the loop without workers).
    cut_short: It ended by `os._exit` or a kill, before it wrote its last record.
    workers: Largest number of worker processes at a time, over all loaders and ranks.
    ranks: All ranks of a distributed training; the loop shown is of `rank`, which waited the longest.
    error: The exception that ended it. interrupted: The user ended it.
    disk: The disk that holds the data of the first loader with a known folder.
    """

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
        """Whether it failed and was not ended by the user."""
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

    def count(self, name: str) -> int:
        """Return the sum of a count over all loaders."""
        return sum(getattr(loader, name) for loader in self.loaders)

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
        """Share of all loops that was spent starting workers and waiting for first batches."""
        return self.starting / max(self.loop, 1e-9)

    @property
    def data_share(self) -> float:
        """Share of the loop, without first batches, that waited for data."""
        return self.waiting / max(self.waiting + self.computing, 1e-9)

    @property
    def cores_used(self) -> float:
        """Average number of cores in use."""
        return self.system.cpu_seconds / max(self.wall, 1e-9)

    @property
    def cores_missed(self) -> float:
        """Average number of cores that its threads waited for."""
        return self.system.delay_seconds / max(self.wall, 1e-9)

    @property
    def attributed(self) -> float:
        """Share of the wall time that `spans` account for."""
        return sum(self.spans.values()) / max(self.wall, 1e-9)

    def to_json(self) -> dict[str, Any]:
        derived = ("data_share", "first_share", "attributed")
        return {**asdict(self), **{name: getattr(self, name) for name in derived}}
