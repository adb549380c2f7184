"""Runs every benchmark of this folder, one after the other, and writes what they print to docs/benchmarks.md.

    make bench                                   # installs what they compare with, then runs this
    python benchmarks/run_all.py [--only NAME ...] [--quick] [--out FILE]

A benchmark whose requirements or data are not there is left out, with the reason in its place. `--quick` runs
one round of each: good to see that they work, not for figures to quote.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NOT_BENCHMARKS = {"run_all", "photos"}
ORDER = ["decode", "render", "read", "pack", "loader", "peers", "flow", "watching"]
"""From the core outwards; what is not named here comes after it, by name."""

PACKAGES = [
    "penstock", "numpy", "Pillow", "torch", "torchvision", "webdataset", "tensorpack", "gulpio2",
    "opencv-python-headless", "simplejpeg", "lmdb", "ffcv", "nvidia-dali-cuda120", "tensorflow-cpu",
    "spdl", "litdata", "mosaicml-streaming",
]  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a benchmark printed, or why it did not run."""

    name: str
    command: str
    about: str
    output: str
    problem: str
    seconds: float


def find_benchmarks(only: list[str] | None) -> list[str]:
    names = {path.stem for path in HERE.glob("*.py")} - NOT_BENCHMARKS
    if unknown := set(only or ()) - names:
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; there are {sorted(names)}")
    listed = [name for name in ORDER if name in names]
    return [name for name in listed + sorted(names - set(listed)) if not only or name in only]


def run_benchmark(name: str, quick: bool) -> Result:
    script = HERE / f"{name}.py"
    text = script.read_text()
    arguments = ["--rounds", "1"] if quick and '"--rounds"' in text else []
    command = ["python", f"benchmarks/{name}.py", *arguments]
    print(f"$ {' '.join(command)}", file=sys.stderr, flush=True)
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    problem = "" if done.returncode == 0 else explain(done.stderr)
    about = text.split('"""')[1].strip().splitlines()[0]
    seconds = time.monotonic() - start
    return Result(name, " ".join(command), about, done.stdout.rstrip(), problem, seconds)


def explain(stderr: str) -> str:
    """The last line of a traceback, or of what a script said before it gave up."""
    lines = [line for line in stderr.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "it failed without a word"


def describe_machine() -> str:
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    cores = len(os.sched_getaffinity(0))
    return f"{cpu}, {cores} cores, {memory:.0f} GiB, Linux {platform.release()}"


def list_versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def write_page(results: list[Result], quick: bool, load: float) -> str:
    """The page, from what was printed; nothing in it was typed by hand."""
    parts = [
        "# Benchmarks",
        (
            "Written by `make bench`; do not edit. Every figure is printed by a script in `benchmarks/`, in the run "
            "below, on one machine, one script after the other. Ratios travel between machines, rates do not."
        ),
        (
            f"- machine: {describe_machine()}\n- versions: {list_versions()}\n"
            f"- load average before the run: {load:.1f}\n"
            f"- date: {time.strftime('%Y-%m-%d', time.gmtime())}"
        ),
    ]
    if quick:
        parts.append("**One round each (`--quick`): a check that they run, not figures to quote.**")
    for result in results:
        parts.append(
            f"## {result.name}\n\n{result.about}\n\n`{result.command}` ({result.seconds:.0f} s)"
        )
        if result.problem:
            parts.append(f"Not run: {result.problem}")
        if result.output:
            parts.append(f"```\n{result.output}\n```")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", help="names of benchmarks, without .py")
    parser.add_argument("--quick", action="store_true", help="one round of each")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks.md")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    results: list[Result] = []
    try:
        for name in find_benchmarks(options.only):
            results.append(run_benchmark(name, options.quick))
    except KeyboardInterrupt:
        print("interrupted: the page has what was run until then", file=sys.stderr)
    options.out.write_text(write_page(results, options.quick, load))
    failed = [result.name for result in results if result.problem]
    print(f"{options.out}: {len(results) - len(failed)} run, not run: {failed or 'none'}")


if __name__ == "__main__":
    main()
