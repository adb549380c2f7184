"""How fast items move through a flow, beside tensorpack and torch, in one interleaved run.

    pip install -r benchmarks/requirements.txt
    python benchmarks/flow.py [--rounds 5] [--items 3000] [--json out.json]

Every contender runs in a process of its own, one after the other, round after round, so that
whatever else the machine does hits all alike. Start-up and warm-up are not measured. The function
is the same for all: it takes a number and returns a 224x224x3 uint8 array of its own (about 10 µs).
Two figures each: items per second by the clock, and the CPU time that an item costs in all
processes together, which other work on the machine disturbs less. The table shows medians over the
rounds; ratios are medians of the ratios within each round.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from claims import print_claim
from cpu import cpu_seconds

WORKERS = 2
WARMUP = 400
BATCH = 32
BUFFER = 200  # items in flight for all; tensorpack's own default
IMAGE = np.random.default_rng(0).integers(0, 255, (224, 224, 3), np.uint8)
BIG = 10_000_000
TOTAL: list[int] = []  # how many the flow that is being measured has
Result = tuple[float, float]


def shift(number: int) -> np.ndarray:
    return IMAGE + np.uint8(number % 7)


def rate(items: Iterable[Any], warmup: int = WARMUP, left_out: int = WARMUP) -> Result:
    """Return items per second and CPU µs per item, without warm-up and the buffered end."""
    passed = iter(items)
    for _ in range(warmup):
        next(passed)
    count = TOTAL.pop() - warmup - left_out
    cpu, began = cpu_seconds(), time.perf_counter()
    for _ in range(count):
        next(passed)
    seconds = time.perf_counter() - began
    return count / seconds, (cpu_seconds() - cpu) / count * 1e6


def run_headrace(items: int) -> Result:
    from headrace import Flow

    TOTAL.append(items)
    return rate(Flow.of(range(items)).map(shift, WORKERS, buffer=BUFFER, start="fork"))


def run_tensorpack(items: int) -> Result:
    from tensorpack import dataflow

    TOTAL.append(items)
    source = dataflow.DataFromList([[n] for n in range(items)], shuffle=False)
    ds = dataflow.MultiProcessMapDataZMQ(source, WORKERS, lambda dp: [shift(dp[0])], strict=True)
    ds.reset_state()
    return rate(ds)


def make_torch_dataset(items: int) -> Any:
    from torch.utils.data import Dataset

    class Shifted(Dataset):
        def __len__(self) -> int:
            return items

        def __getitem__(self, number: int) -> np.ndarray:
            return shift(number)

    return Shifted()


def run_torch(items: int) -> Result:
    from torch.utils.data import DataLoader

    TOTAL.append(items)
    options = {"num_workers": WORKERS, "prefetch_factor": BUFFER // WORKERS}
    return rate(DataLoader(make_torch_dataset(items), batch_size=None, **options))


def run_headrace_batched(items: int) -> Result:
    from headrace import Flow

    TOTAL.append(items // BATCH)
    flow = Flow.of(range(items)).map(shift, WORKERS, buffer=BUFFER, start="fork").batch(BATCH)
    batches, cpu = rate(flow, WARMUP // BATCH, WARMUP // BATCH)
    return batches * BATCH, cpu / BATCH


def run_torch_batched(items: int) -> Result:
    from torch.utils.data import DataLoader

    TOTAL.append(items // BATCH)
    loader = DataLoader(make_torch_dataset(items), batch_size=BATCH, num_workers=WORKERS)
    batches, cpu = rate(loader, WARMUP // BATCH, WARMUP // BATCH)
    return batches * BATCH, cpu / BATCH


def run_arrays_in(items: int) -> Result:
    """Send arrays to the workers and back: twice the bytes."""
    from headrace import Flow

    TOTAL.append(items)
    return rate(Flow.of([IMAGE] * items).map(np.copy, WORKERS, buffer=BUFFER, start="fork"))


def run_tensorpack_arrays_in(items: int) -> Result:
    from tensorpack import dataflow

    TOTAL.append(items)
    source = dataflow.DataFromList([[IMAGE]] * items, shuffle=False)
    ds = dataflow.MultiProcessMapDataZMQ(source, WORKERS, lambda dp: [np.copy(dp[0])], strict=True)
    ds.reset_state()
    return rate(ds)


def run_threads(items: int) -> Result:
    """Return the microseconds that a thread map adds to an empty function."""
    from headrace import Flow

    TOTAL.extend([10 * items] * 2)
    plain, plain_cpu = rate(Flow.of(range(10 * items)))
    mapped, cpu = rate(Flow.of(range(10 * items)).map(abs, WORKERS, "threads"))
    return (1 / mapped - 1 / plain) * 1e6, cpu - plain_cpu


def run_remote(items: int) -> Result:
    """Return GB/s over loopback TCP, from one sender with items of 10 MB."""
    from headrace import Flow

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    TOTAL.append(max(100, items // 20))
    sender = os.fork()
    if not sender:
        Flow.of([np.zeros(BIG, np.uint8)] * TOTAL[0]).send(address)
        os._exit(0)
    received, cpu = rate(Flow.receive(address), 10, 0)
    os.waitpid(sender, 0)
    return received * BIG / 1e9, cpu


CONTENDERS: dict[str, Callable[[int], Result]] = {
    "headrace": run_headrace,
    "tensorpack": run_tensorpack,
    "torch": run_torch,
    "headrace batched": run_headrace_batched,
    "torch batched": run_torch_batched,
    "headrace arrays in": run_arrays_in,
    "tensorpack arrays in": run_tensorpack_arrays_in,
    "threads": run_threads,
    "remote": run_remote,
}

ROWS = [  # what, contender, unit, compared with, wanted
    ("Flow.map, 2 processes", "headrace", "items/s", None, None),
    ("  vs tensorpack MultiProcessMapDataZMQ", "tensorpack", "items/s", "headrace", 2.0),
    ("  vs torch DataLoader, batch_size=None", "torch", "items/s", "headrace", 1.5),
    ("Flow.map.batch(32), 2 processes", "headrace batched", "items/s", None, None),
    ("  vs torch DataLoader, batch_size=32", "torch batched", "items/s", "headrace batched", None),
    ("Flow.map, arrays in and out", "headrace arrays in", "items/s", None, None),
    ("  vs tensorpack", "tensorpack arrays in", "items/s", "headrace arrays in", 2.0),
    ("thread map overhead, at most", "threads", "µs/item", None, 30.0),
    ("remote flow, loopback TCP, 10 MB items", "remote", "GB/s", None, 1.0),
]


def measure(name: str, items: int, tries: int = 3) -> Result:
    """One contender in a session of its own, of which nothing is left afterwards.

    tensorpack does not always get to its end: it is tried again, and NaN if it never does.
    """
    command = [sys.executable, "-W", "ignore", __file__, "--items", str(items), "--run", name]
    for _ in range(tries):
        with tempfile.TemporaryFile("w+") as out, open(os.devnull, "w") as null:
            process = subprocess.Popen(command, stdout=out, stderr=null, start_new_session=True)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                print(f"{name} did not end within 60 s: once more", file=sys.stderr)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            out.seek(0)
            figures = out.read().split()[-2:]
        if len(figures) == 2:
            return float(figures[0]), float(figures[1])
    return math.nan, math.nan


def report(results: dict[str, list[Result]], command: str) -> None:
    """Print one table: medians of wall and CPU time, and the ratios to ours."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{command}\n{machine}, NumPy {np.__version__}; medians of {len(results['headrace'])}\n")
    print(f"{'':42}{'':>9} {'':8}{'CPU':>9}   {'headrace is':^17}{'wanted':>8}")
    print(f"{'':42}{'':>9} {'':8}{'µs/item':>9}  {'by clock':>9} {'by CPU':>8}")
    for what, name, unit, base, wanted in ROWS:
        clock, cpu = ([pair[i] for pair in results[name]] for i in (0, 1))
        ratios = " " * 18
        if base is not None:
            by_clock = [ours[0] / theirs for ours, theirs in zip(results[base], clock)]
            by_cpu = [theirs / ours[1] for ours, theirs in zip(results[base], cpu)]
            ratios = f"{middle(by_clock):8.2f}x {middle(by_cpu):7.2f}x"
        goal = "" if wanted is None else f"{wanted:g}{'x' if base else ' ' + unit}"
        print(
            f"{what:42}{middle(clock):9.1f} {unit:8}{middle(cpu):9.1f}  {ratios}{goal:>10}".rstrip()
        )
    for what, name, unit, base, wanted in ROWS:
        if wanted is not None:
            by_clock = [pair[0] for pair in results[name]]
            if base is not None:
                what = f"moving arrays{what.replace('  vs', ' vs')}"
                by_clock = [
                    ours[0] / theirs[0] for ours, theirs in zip(results[base], results[name])
                ]
            at_most = "at most" in what
            unit = "x" if base else f" {unit}"
            print_claim(
                what.removesuffix(", at most"), middle(by_clock), wanted, unit, at_most=at_most
            )


def middle(values: list[float]) -> float:
    """Return the median of the measured values."""
    measured = [value for value in values if not math.isnan(value)]
    return statistics.median(measured) if measured else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=3000)
    parser.add_argument("--json", help="write all measurements to this file")
    parser.add_argument("--run", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        warnings.simplefilter("ignore")
        print(*CONTENDERS[options.run](options.items), flush=True)
        os._exit(0)  # tensorpack's processes do not always end by themselves
    results: dict[str, list[Result]] = {name: [] for name in CONTENDERS}
    for _ in range(options.rounds):
        for name in CONTENDERS:
            results[name].append(measure(name, options.items))
    report(results, shlex.join(["python", *sys.argv]))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
