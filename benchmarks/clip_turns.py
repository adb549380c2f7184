"""Runs the loaders of clip_loaders.py, each in a process of its own, in turns.

`steady` counts batches per second between a warm-up of some seconds and the end, over epoch after epoch, with all
workers running. `seed` times as the seed does: from before iter(), so with starting the workers, to the last of
50 batches. `few` counts some batches between others, for a disk on which 50 would take minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from clip_loaders import (
    BATCH,
    FRAMES,
    MP4,
    MP4_SHORT,
    SEED,
    SEED_BATCH,
    SEED_FRAMES,
    SEED_SIZE,
    SIZE,
)
from peers import choose_python, last_line

LOADERS = {**SEED, **MP4, **MP4_SHORT}
SEED_BATCHES, FEW, SKIPPED = 50, 6, 4
TIMEOUT = 300

Figures = dict[str, float]


def check_shape(name: str, clips: Any) -> None:
    shape = tuple(clips.shape() if callable(clips.shape) else clips.shape)
    if name in SEED:
        expected = [(SEED_BATCH, 3, SEED_FRAMES, SEED_SIZE, SEED_SIZE)]
    else:
        layouts = (3, FRAMES, SIZE, SIZE), (FRAMES, 3, SIZE, SIZE), (FRAMES, SIZE, SIZE, 3)
        expected = [(BATCH, *rest) for rest in layouts]
    assert shape in expected, f"{name} gives {shape}, not {expected}"


def repeat(loader: Any) -> Iterator[Any]:
    while True:
        for clips, _ in loader:
            yield clips


class Stopwatch:
    """Seconds and CPU seconds per batch, since it was made."""

    def __init__(self) -> None:
        from cpu import cpu_seconds

        self._cpu_seconds = cpu_seconds
        self._begin = time.perf_counter(), cpu_seconds()

    def read(self, batches: int) -> Figures:
        seconds = time.perf_counter() - self._begin[0]
        cpu = self._cpu_seconds() - self._begin[1]
        return {"seconds": seconds / batches, "cpu": cpu / batches}


def time_steady(name: str, loader: Any, seconds: float) -> Figures:
    batches, warm = repeat(loader), time.perf_counter() + seconds / 2
    check_shape(name, next(batches))
    while time.perf_counter() < warm:
        next(batches)
    watch, done, end = Stopwatch(), 0, time.perf_counter() + seconds
    while time.perf_counter() < end or done < FEW:
        next(batches)
        done += 1
    return watch.read(done)


def time_as_seed(_name: str, loader: Any, _seconds: float) -> Figures:
    watch = Stopwatch()
    done = sum(1 for _ in islice(loader, SEED_BATCHES))
    return watch.read(done)


def time_few(_name: str, loader: Any, _seconds: float) -> Figures:
    batches = iter(loader)
    sum(1 for _ in islice(batches, SKIPPED))
    watch = Stopwatch()
    return watch.read(sum(1 for _ in islice(batches, FEW)))


TIMINGS = {"steady": time_steady, "seed": time_as_seed, "few": time_few}


def run_child(options: argparse.Namespace) -> None:
    """Time a loader in this process, and print its figures."""
    loader = LOADERS[options.run].open(options.data, options.shuffle)
    figures = TIMINGS[options.timing](options.run, loader, options.seconds)
    print(f"\n{json.dumps(figures)}", flush=True)
    os._exit(0)  # workers that are in the middle of a batch need not finish it


def run_once(
    name: str,
    python: str,
    data: Path,
    timing: str,
    *,
    shuffle: bool = False,
    seconds: float = 3,
    environment: dict[str, str] | None = None,
) -> Figures | str:
    """Return the figures of a loader in its own session, or why there are none."""
    command = [python, str(Path(__file__).with_name("clips.py")), "--run", name]
    command += ["--data", str(data), "--timing", timing, "--seconds", str(seconds)]
    command += ["--shuffle"] if shuffle else []
    print(f"  {name}, {timing}", file=sys.stderr, flush=True)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            env={**os.environ, **(environment or {})},
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )
        try:
            code = process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            return f"it did not end within {TIMEOUT} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        errors.seek(0)
        if code == 0:
            return json.loads(last_line(out.read()))
        return re.sub(
            r"^\[.*?\] ", "", last_line(errors.read())
        )  # DALI begins with a line of its source


class Results:
    """The figures of loaders in each round, and why some have none."""

    def __init__(self, names: list[str]) -> None:
        pythons = {name: choose_python(LOADERS[name]) for name in names}
        self.pythons = {name: python for name, python in pythons.items() if python}
        self.left_out = {name: "not installed" for name in names if not pythons[name]}
        self.rounds: dict[str, list[Figures]] = {name: [] for name in self.pythons}

    def run(self, name: str, *arguments: Any, **options: Any) -> None:
        """Run a loader once more, unless it has failed before."""
        if name in self.left_out:
            return
        figures = run_once(name, self.pythons[name], *arguments, **options)
        if isinstance(figures, str):
            self.left_out[name] = figures
            del self.rounds[name]
        else:
            self.rounds[name].append(figures)

    def middle(self, name: str, key: str) -> float:
        return statistics.median(figures[key] for figures in self.rounds[name])

    def compare(self, name: str, ours: str, key: str = "seconds") -> float:
        """Return how many times as long as ours a loader takes: the median of the ratios within a round."""
        pairs = zip(self.rounds[name], self.rounds[ours], strict=True)
        return statistics.median(theirs[key] / our[key] for theirs, our in pairs)
