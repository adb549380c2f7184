"""What limits the loader of clips: the same frames rendered alone, its memory, and the bytes that it reads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from clip_loaders import BATCH, FRAMES, SEED_BATCH, SEED_FRAMES, SEED_SIZE, SEED_STEP, SIZE, STEP
from clip_loaders import WORKERS as THREADS

import headrace
from headrace.render import RenderRequest
from headrace.serve.epochs import Position
from headrace.transforms import CenterCrop, Clip, Normalize, RandomResizedCrop

SEED_STEPS = [
    Clip(SEED_FRAMES, step=SEED_STEP),
    CenterCrop(SEED_SIZE),
    Normalize(mean=(0, 0, 0), std=(1, 1, 1)),
]
STEPS = [Clip(FRAMES, step=STEP), RandomResizedCrop(SIZE)]


def make_seed_loader(data: Path) -> headrace.Loader:
    packed = data / "jester-packed"
    return headrace.Loader(packed, SEED_BATCH, shuffle=True, transform=SEED_STEPS, threads=THREADS)


def make_loader(data: Path, name: str = "short") -> headrace.Loader:
    packed = data / f"{name}-packed"
    return headrace.Loader(packed, BATCH, shuffle=True, transform=STEPS, threads=THREADS)


def render_alone(loader: headrace.Loader) -> Callable[[], int]:
    """Return a job that renders the clips of an epoch from memory into reused memory, and returns how many."""
    plan = loader._epochs.plan(Position(0, 0))
    renderer = loader._producer.make_renderer(loader, loader._epochs, 0, plan)
    reading, kept, batches = renderer.reading, {}, []
    steps = [plan.step(number) for number in range(len(plan))]
    for number, (step, drawn) in enumerate(zip(steps, renderer.draw(steps), strict=True)):
        units = reading.list_units(number, step.rows)
        for unit in units:
            if unit not in kept:
                kept[unit] = reading.read(unit, lambda size: np.empty(size, np.uint8))
        found = {unit: kept[unit] for unit in units}
        batches.append(renderer.prepare(number, step, drawn, found).jobs)
    targets = [renderer.recipe.make_target(jobs.draws) for jobs in batches]
    largest = max(map(len, batches))
    first = targets[0]
    out = np.empty(first.output.shape(largest, first.size), first.output.element)

    def run() -> int:
        for jobs, target in zip(batches, targets, strict=True):
            RenderRequest(jobs, replace(target, out=out[: len(jobs)], threads=THREADS)).render()
        return sum(len(step.rows) for step in steps)

    return run


def load(loader: headrace.Loader) -> Callable[[], int]:
    def run() -> int:
        loader.set_epoch(0)
        return sum(len(clips) for clips, _ in loader)

    return run


ALONE = """
import json, re, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np
from clip_limits import make_loader

def read_chars():
    return int(re.search(r"rchar: (\\d+)", open("/proc/self/io").read())[1])

loader = make_loader(Path(sys.argv[2]), sys.argv[3])
frames, spans, before = loader._epochs.layout.columns.frames, 0, read_chars()
for batch in loader:
    for row, clip in zip(batch.rows.tolist(), batch.clips):
        first = int(frames.bounds[row])
        spans += int(frames.sizes[first + clip[0] : first + clip[-1] + 1].sum())
read = read_chars() - before
peak = re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())  # unlike ru_maxrss, not inherited
print(json.dumps({"read": read / spans, "peak_mb": int(peak[1]) / 1024}))
"""


def measure_alone(data: Path, name: str) -> dict[str, float]:
    """Return what a process that loads one epoch reads, relative to the bytes of the spans of its clips; and its peak MB.

    What it reads is counted by the system (rchar), from the first request on: frames and seek tables.
    """
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", ALONE, here, str(data), name]
    return json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    )
