"""A process and its children seen from outside, through /proc: CPU, memory, waiting for cores and disks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headrace.workbench.watch.record import System

PERIOD = 0.5
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Monitor:
    """Looks at the tree below `pid` whenever `look` is called; sums up at the end."""

    pid: int
    ran: dict[int, float] = field(default_factory=dict)
    delay: dict[int, float] = field(default_factory=dict)
    seen: dict[int, float] = field(default_factory=dict)  # when each was there last
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
                continue  # it ended while it was looked at
            self.seen[pid] = time.monotonic()
            count += 1
        self.peak, self.most = max(self.peak, memory), max(self.most, count)

    def sum_up(self, cores: float, memory_bytes: int, children_cpu: float) -> System:
        """`children_cpu` is what the system says at the end of the command, which is more exact."""
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
    """The process and all below it, as they are now."""
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
    """CPU seconds of a process and of all below it that still run."""
    seconds = 0.0
    for one in list_tree(pid):
        with suppress(OSError):  # it ended while it was looked at
            seconds += read_cpu_seconds(one)
    return seconds


def read_schedule(pid: int) -> tuple[float, float]:
    """Seconds that the threads of a process have run, and seconds that they were ready to run and had no core."""
    threads = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(t[0]) for t in threads) / 1e9, sum(int(t[1]) for t in threads) / 1e9


def read_own_memory(pid: int) -> int:
    """Bytes in memory that are the process's own: shared pages would be counted once for each."""
    _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def read_io_wait() -> tuple[float, float]:
    """Seconds that the cores were idle with a disk to blame, of all seconds of all cores."""
    with open("/proc/stat") as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    return ticks[4] / _TICK, sum(ticks) / _TICK
