"""The plan of an epoch of a million to a billion samples: time and memory, one rank of eight.

    python benchmarks/scale.py [--window 16384] [--batch 256]

Shards of 2,500 samples and 256 MiB, as `headrace pack` makes them of photos of 100 KB; nothing is read. Each size runs in a
process of its own: planning, the first step, a step in the middle of a new plan, finding what a resumed reader holds
there, and the mean over consecutive steps. Memory is the peak above that of the imports.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from claims import print_claim

SIZES = (10**6, 10**7, 10**8, 10**9)
PLAN = """
import json, resource, sys, time
import numpy as np
from headrace.plan import Shuffle, Split, cut_runs, plan_epoch
samples, window, batch = map(int, sys.argv[1:])
shards = samples // 2500
rows, sizes = np.full(shards, 2500), np.full(shards, 256 << 20)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def timed(function, *arguments):
    before = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - before
before = peak()
make = lambda: plan_epoch(cut_runs(rows, sizes), Split(batch, 3, 8), shuffle=Shuffle(0, window))
plan, planned = timed(make)
_, first = timed(plan.step, 0)
_, steady = timed(lambda: [plan.step(t) for t in range(1, 401)])
del plan
other = make()
middle = len(other) // 2
_, found = timed(other.step, middle)
_, resumed = timed(other.count_units_before, middle)
print(json.dumps({"plan": planned, "first": first, "steady": steady / 400, "middle": found,
                  "resume": resumed, "memory": peak() - before}))
"""
HEADER = """\
      samples     plan  first step  middle step   resume  a step   memory
                     s          ms           ms       ms      us       MB"""


def measure(samples: int, options: argparse.Namespace) -> dict[str, float]:
    numbers = [str(value) for value in (samples, options.window, options.batch)]
    command = [sys.executable, "-c", PLAN, *numbers]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(
        f"{samples:13,} {found['plan']:8.2f} {found['first'] * 1e3:11.1f} {found['middle'] * 1e3:12.1f} "
        f"{found['resume'] * 1e3:8.1f} {found['steady'] * 1e6:7.0f} {found['memory']:8.0f}",
        flush=True,
    )
    return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--window", type=int, default=16_384)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    print(f"python {' '.join(sys.argv)}\n{HEADER}")
    results = [measure(samples, options) for samples in SIZES]
    steady = results[-1]["steady"] / results[0]["steady"]
    print_claim("a step of 10^9 samples vs one of 10^6", steady, 2.0, "x", at_most=True)
    print_claim(
        "memory of the plan of 10^9 samples", results[-1]["memory"], 400.0, " MB", at_most=True
    )


if __name__ == "__main__":
    main()
