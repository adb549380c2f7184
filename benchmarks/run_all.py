"""Runs every benchmark of this folder, one after the other, and writes what they print to docs/reference/benchmarks.md.

    make bench                                   # installs what they compare with, then runs this
    python benchmarks/run_all.py [--only NAME ...] [--quick] [--out FILE]

A benchmark that fails, or whose requirements or data are not there, is listed with the reason. `--only` runs some, and
leaves the rest of the page as it is. `--quick` runs one round of each: good to see that they work, not for figures to quote.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from claims import read_claims

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TIMEOUT = 2400
QUICK = {
    "render": "--rounds 1 --count 50",
    "kinds": "--rounds 1 --count 20",
    "png": "--rounds 1 --count 10",
    "read": "--rounds 1",
    "pack": "--rounds 1",
    "formats": "--rounds 1 --repeats 1",
    "loader": "--rounds 1",
    "mixed": "--rounds 1 --repeats 1",
    "pairs": "--rounds 1 --repeats 1",
    "views": "--rounds 1 --repeats 1",
    "recipes": "--rounds 1 --repeats 1 --samples 256",
    "giants": "--rounds 1 --repeats 2",
    "first_batch": "--rounds 1 --rows 20000",
    "peers": "--rounds 1 --repeats 1 --images 512 --warm-up 1",
    "python_transform": "--rounds 1 --repeats 1",
    "slow_storage": "--repeats 2",
    "clips": "--rounds 1 --seconds 1",
    "flow": "--rounds 1",
    "shuffle_quality": "--samples 100000 --classes 100 --windows 1024",
    "scale": "",
    "index_scale": "--rows 100000",
    "killed_workers": "--times 5",
    "watching": "--rounds 2",
}
"""The benchmarks in the order of the page, and the options of a quick run."""

LEFT_OUT = {"convergence": "trains twelve networks, which takes some ten minutes"}

PACKAGES = [
    "headrace",
    "numpy",
    "Pillow",
    "torch",
    "torchvision",
    "timm",
    "webdataset",
    "tensorpack",
    "opencv-python-headless",
    "simplejpeg",
    "lmdb",
    "av",
]


def run_benchmark(name: str, quick: bool) -> str:
    """Return the section of a benchmark: its output, and why it failed if it did."""
    about = (HERE / f"{name}.py").read_text().split('"""')[1].strip().splitlines()[0]
    command = ["python", f"benchmarks/{name}.py", *(QUICK.get(name, "").split() if quick else [])]
    print(f"$ {' '.join(command)}", file=sys.stderr, flush=True)
    start, load = time.monotonic(), os.getloadavg()[0]
    process = subprocess.Popen(
        [sys.executable, *command[1:]],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=TIMEOUT)
        problem = "" if process.returncode == 0 else explain(errors)
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace")  # bytes, also of a text stream
        problem = f"it did not end within {TIMEOUT} s"
    finally:
        end_session(process)
    seconds = time.monotonic() - start
    print(f"  {seconds:.0f} s {problem}", file=sys.stderr, flush=True)
    loads = f"load average {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    parts = [about, f"`{' '.join(command)}` ({seconds:.0f} s, {today()}, {loads})"]
    parts += [f"Failed: {problem}"] if problem else []
    parts += [f"```\n{output.rstrip()}\n```"] if output.rstrip() else []
    return "\n\n".join(parts)


def today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def end_session(process: subprocess.Popen[str]) -> None:
    """End the benchmark and its children if they still run."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def explain(stderr: str) -> str:
    """Return the last line of a traceback or of the output."""
    lines = [line for line in stderr.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "it failed without a word"


def describe_machine() -> str:
    from headrace.workbench.bench.machine import read_machine

    machine = read_machine(ROOT)
    return (
        f"{machine.cpu}, {machine.capacity_cores:g} cores, {machine.memory / (1 << 30):.0f} GiB, "
        f"disk: {machine.disk}, Linux {platform.release()}"
    )


def list_versions() -> str:
    """Return the versions in this environment and in those of build/peers."""
    found = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    from peers import HOMES
    from peers import PACKAGES as PEERS

    for home, names in PEERS.items():
        paths = list(map(str, HOMES.glob(f"{home}/lib/python*/site-packages")))
        for name in names.split():
            for one in importlib.metadata.distributions(name=name, path=paths):
                found.append(f"{name} {one.version}")
    return ", ".join(found)


def write_head(quick: bool, load: float) -> str:
    head = (
        "# Benchmarks\n\nWritten by `make bench`; do not edit. Every figure is printed by a script in `benchmarks/`, "
        "run on this machine on the day beside it, one script at a time; `make bench BENCH='--only NAME'` runs one "
        "again. Ratios travel between machines, rates do not.\n\n"
        f"- machine: {describe_machine()}\n- versions: {list_versions()}\n"
        f"- load average before the run: {load:.1f}\n- date: {today()}"
    )
    if quick:
        head += "\n\n**One round each (`--quick`): a check that they run, not figures to quote.**"
    return head


def read_page(path: Path) -> tuple[str, dict[str, str]]:
    """Return the head and the sections of an older page, without the summary."""
    head, _, *parts = path.read_text().rstrip("\n").split("\n\n## ")
    return head, dict(part.split("\n\n", 1) for part in parts)


def write_page(head: str, sections: dict[str, str]) -> str:
    """Return the page, made only from what was printed."""
    left_out = {
        name: f"Not part of `make bench`: it {reason}. `make bench BENCH='--only {name}'`"
        for name, reason in LEFT_OUT.items()
    }
    ordered = {name: sections[name] for name in [*QUICK, *LEFT_OUT] if name in sections}
    shown = {"Summary": summarise(ordered), **left_out, **ordered}
    names = ["Summary", *QUICK, *LEFT_OUT]
    parts = [f"## {name}\n\n{shown[name]}" for name in names if name in shown]
    return "\n\n".join([head, *parts]) + "\n"


def summarise(sections: dict[str, str]) -> str:
    """Return a table with a line for every claim and every failed benchmark."""
    lines = ["| claim | bar | measured | | command |", "|---|---|---|---|---|"]
    for name, text in sections.items():
        command = re.search(r"^`(.+)` \(", text, re.MULTILINE)
        for claim in read_claims(text):
            word = "" if claim.word == "told" else claim.word
            bar = claim.bar.replace("none", "")
            lines.append(f"| {claim.what} | {bar} | {claim.measured} | {word} | `{command[1]}` |")
        if problem := find_problem(text):
            problem = problem.replace("|", "\\|")
            lines.append(f"| {name} | | | failed: {problem} | `{command[1]}` |")
    return "\n".join(lines)


def find_problem(section: str) -> str:
    found = re.search(r"^Failed: (.+)$", section, re.MULTILINE)
    return found[1] if found else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[*QUICK, *LEFT_OUT], metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="one round of each")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "reference" / "benchmarks.md")
    options = parser.parse_args()
    head, sections = write_head(options.quick, os.getloadavg()[0]), {}
    if options.only and options.out.exists():
        head, sections = read_page(options.out)
    try:
        for name in options.only or QUICK:
            sections[name] = run_benchmark(name, options.quick)
    except KeyboardInterrupt:
        print("interrupted: the page has what was run until then", file=sys.stderr)
    options.out.write_text(write_page(head, sections))
    failed = [name for name, text in sections.items() if find_problem(text)]
    print(f"{options.out}: {len(sections) - len(failed)} run, failed: {failed or 'none'}")


if __name__ == "__main__":
    main()
