"""Observes a process and its children through /proc: CPU, memory, waiting for cores and disks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.workbench.watch.watched_program import System

PERIOD = 0.5
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Monitor:
    """Samples the process tree below `pid` with every call of `look`."""

    pid: int
    ran: dict[int, float] = field(default_factory=dict)
    delay: dict[int, float] = field(default_factory=dict)
    seen: dict[int, float] = field(default_factory=dict)  # time of the last sample
    peak: int = 0
    most: int = 0
    begin: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self.begin = read_io_wait()

    def look(self) -> None:
        memory = count = 0
        for pid in list_tree(self.pid):
            try:
                self.ran[pid], self.delay[pid] = read_schedule(pid)
                memory += read_own_memory(pid)
            except (OSError, ValueError, IndexError):
                continue  # it ended meanwhile
            self.seen[pid] = time.monotonic()
            count += 1
        self.peak, self.most = max(self.peak, memory), max(self.most, count)

    def sum_up(self, cores: float, memory_bytes: int, children_cpu: float) -> System:
        """Return the totals. `children_cpu`: CPU seconds by getrusage after the end, which are more exact."""
        waiting, total = (now - then for now, then in zip(read_io_wait(), self.begin, strict=True))
        ran, delay = sum(self.ran.values()), sum(self.delay.values())
        return System(
            cores=cores,
            cpu_seconds=max(children_cpu, ran),
            delay_seconds=delay,
            run_delay=delay / max(delay + ran, 1e-9),
            io_wait=waiting / max(total, 1e-9),
            peak_bytes=self.peak,
            most_processes=self.most,
            memory_bytes=memory_bytes,
        )


def list_tree(pid: int) -> Iterator[int]:
    """Yield the process and its descendants."""
    yield pid
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = path.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from list_tree(int(child))


def read_cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def read_tree_cpu(pid: int) -> float:
    """Return the CPU seconds of a process and its running descendants."""
    seconds = 0.0
    for one in list_tree(pid):
        with suppress(OSError):  # it ended meanwhile
            seconds += read_cpu_seconds(one)
    return seconds


def read_schedule(pid: int) -> tuple[float, float]:
    """Return the seconds that threads of a process ran, and that they waited for a core."""
    threads = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(t[0]) for t in threads) / 1e9, sum(int(t[1]) for t in threads) / 1e9


def read_own_memory(pid: int) -> int:
    """Return the memory of a process in bytes, without shared pages."""
    _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def read_io_wait() -> tuple[float, float]:
    """Return the seconds that cores waited for a disk, and all seconds of all cores."""
    with open("/proc/stat") as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    return ticks[4] / _TICK, sum(ticks) / _TICK
