"""Loaders of other projects on the same photos, each in a process of its own, in turns.

    python benchmarks/peers.py [--folder DIR] [--repeats 4] [--rounds 3] [--warm-up 3]
                               [--only NAME ...] [--json]
    python benchmarks/peers.py --install all     # or some of the names in PACKAGES

RandomResizedCrop(224) and flip, uint8 batches of 256, two workers or threads, warm page cache;
contenders.py says how each does it, the last column of the table what it does instead.

A process before the rounds writes layouts and indexes. In a round a fresh process imports its
modules and runs the first epoch: as many images as there are photos, timed from making the loader,
with the start of its workers. It then warms up for some seconds, and after that images are counted:
the warm rate, CPU time and the ratios are of these. Rates are medians of the rounds, CPU time is
that of the process and its children while counting. A ratio is the median of the ratios within a
round.

A contender is taken from this environment if it is installed here, else from one of its own in build/peers (GulpIO2 replaces
Pillow, others bring much with them), which `--install` makes: what it does not bring itself, such as torch, it
takes from this one. What is in neither is left out and named.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

from claims import print_claim
from contenders import CONTENDERS, Batches, Contender, list_photos
from cpu import cpu_seconds

TIMEOUT = 120
HOMES = Path(__file__).resolve().parents[1] / "build" / "peers"
PACKAGES = {
    "gulpio2": "gulpio2",
    "video": "av decord torchcodec==0.12.0",
    "dali": "nvidia-dali-cuda120",
    "tensorflow": "tensorflow-cpu",
    "spdl": "spdl",
    "litdata": "litdata",
    "streaming": "mosaicml-streaming",
    "ffcv": "ffcv",
    "turboloader": "turboloader",
    "datago": "datago",
}
"""The packages of each environment."""

OURS, FOLDER, BASE = "Headrace, packed", "Headrace, image folder", "torchvision ImageFolder"
BARS: dict[str, float | None] = {BASE: 8.0, "datago, files": None}
"""Required speedup of the packed dataset over a contender; None: it does other work. Default: 1."""

Figures = dict[str, float]


def install(name: str) -> str:
    """Make an environment; return '' or why that failed. It shares our torch."""
    venv.create(HOMES / name, with_pip=True, clear=True)
    python = find_python(name)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", where], capture_output=True, text=True, check=True)
    shared = Path(packages.stdout.strip()) / "shared.pth"
    # Not as a plain path: an editable install is a .pth file there, which only addsitedir reads.
    shared.write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    fixed = HOMES / "constraints.txt"
    fixed.write_text(f"torch=={importlib.metadata.version('torch').partition('+')[0]}\n")
    command = [python, "-m", "pip", "install", "-q", "-c", fixed, *PACKAGES[name].split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else last_line(done.stderr)


def find_python(environment: str) -> Path:
    return HOMES / environment / "bin" / "python"


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it failed without a word"


def choose_python(contender: Contender) -> str | None:
    """Return an interpreter that has all modules of the contender; None if there is none."""
    homes = [find_python(contender.environment)] if contender.environment else []
    test = "import sys, importlib.util as u; sys.exit(any(u.find_spec(m) is None for m in sys.argv[1:]))"
    for python in [Path(sys.executable), *homes]:
        if python.exists():
            found = subprocess.run(
                [python, "-c", test, *contender.modules], capture_output=True, check=False
            )
            if found.returncode == 0:
                return str(python)
    return None


def run_first_epoch(contender: Contender, folder: Path) -> tuple[Batches, float]:
    """Return the batches of a contender after one epoch, and images per second until there."""
    photos, done = len(list_photos(folder)), 0
    contender.import_modules()
    start = time.perf_counter()
    batches = contender.run(folder)
    while done < photos:
        done += next(batches)
    return batches, done / (time.perf_counter() - start)


def warm_up(batches: Batches, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        next(batches)


def count(batches: Batches, images: int) -> Figures:
    """Return images per second and CPU milliseconds per image, over at least so many images."""
    done, start, cpu = 0, time.perf_counter(), cpu_seconds()
    while done < images:
        done += next(batches)
    seconds = time.perf_counter() - start
    return {"rate": done / seconds, "cpu_ms": (cpu_seconds() - cpu) * 1e3 / done}


def run_here(options: argparse.Namespace) -> Figures:
    """Return the figures of a contender in this process; none if it only writes its layout."""
    contender, folder = CONTENDERS[options.run], Path(options.folder)
    if options.prepare:
        contender.import_modules()
        next(contender.run(folder))
        return {}
    batches, first = run_first_epoch(contender, folder)
    warm_up(batches, options.warm_up)
    return {"first": first, **count(batches, options.images)}


def run_once(name: str, python: str, folder: Path, arguments: list[str]) -> Figures | str:
    """Return the figures of a contender in its own session, or why there are none."""
    command = [python, __file__, "--run", name, "--folder", str(folder), *arguments]
    environment = {**os.environ, "HEADRACE_CACHE": str(folder / "cache")}
    print(f"  {name}", file=sys.stderr, flush=True)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=errors, start_new_session=True
        )
        try:
            code = process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            return f"it did not end within {TIMEOUT} s"
        finally:  # tensorpack's processes do not end by themselves
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        errors.seek(0)
        return json.loads(last_line(out.read())) if code == 0 else last_line(errors.read())


def measure(
    folder: Path, pythons: dict[str, str], rounds: int, arguments: list[str]
) -> tuple[dict[str, list[Figures]], dict[str, str]]:
    """Return the figures of each round, and why contenders failed; those do not run again."""
    found: dict[str, list[Figures]] = {name: [] for name in pythons}
    failed: dict[str, str] = {}
    for turn in [["--prepare"], *[arguments] * rounds]:
        for name in list(found):
            figures = run_once(name, pythons[name], folder, turn)
            if isinstance(figures, str):
                failed[name] = figures
                del found[name]
            elif figures:
                found[name].append(figures)
    return found, failed


def middle(rounds: list[Figures], key: str) -> float:
    return statistics.median(figures[key] for figures in rounds)


def compare(ours: list[Figures], theirs: list[Figures], key: str = "rate") -> float:
    pairs = zip(ours, theirs, strict=True)
    return statistics.median(a[key] / b[key] for a, b in pairs)


def report(found: dict[str, list[Figures]], left_out: dict[str, str]) -> None:
    print(f"{'':28}{'images/s':>21}{'':9}{'packed is':>22}")
    titles = f"{'first epoch':>13}{'warm':>8}{'CPU ms':>9}{'by clock':>13}{'by CPU':>9}"
    print(f"{'':28}{titles}  instead")
    ours = found.get(OURS)
    for name, rounds in found.items():
        ratio = f"{'':22}"
        if ours:
            by_cpu = compare(rounds, ours, "cpu_ms")
            ratio = f"{compare(ours, rounds):>12.2f}x{by_cpu:>8.2f}x"
        rates = f"{middle(rounds, 'first'):>13.0f}{middle(rounds, 'rate'):>8.0f}"
        line = f"{name:28}{rates}{middle(rounds, 'cpu_ms'):>9.2f}{ratio}"
        print(f"{line}  {CONTENDERS[name].instead}".rstrip())
    for name, reason in left_out.items():
        print(f"{name:28} not run: {reason}")
    print()
    for name in [name for name in found if ours and name not in (OURS, FOLDER)]:
        print_claim(f"packed vs {name}", compare(ours, found[name]), BARS.get(name, 1.0))
    if FOLDER in found and BASE in found:
        print_claim(f"image folder vs {BASE}", compare(found[FOLDER], found[BASE]), 4.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", help="where to work")
    parser.add_argument("--repeats", type=int, default=4, help="copies of the 600 photos")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=2048, help="at least so many a round")
    parser.add_argument("--warm-up", type=float, default=3.0, help="seconds, not counted")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, help="these contenders")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--install", nargs="+", choices=[*PACKAGES, "all"], metavar="NAME")
    parser.add_argument("--run", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.install:
        for name in PACKAGES if "all" in options.install else options.install:
            print(f"{name}: {install(name) or 'installed'}", flush=True)
    elif options.run:
        print(f"\n{json.dumps(run_here(options))}", flush=True)
        os._exit(0)  # workers that are in the middle of a batch need not finish it
    else:
        compete(options)


def compete(options: argparse.Namespace) -> None:
    from photos import unpack_photos

    import headrace

    chosen = {name: choose_python(CONTENDERS[name]) for name in options.only or CONTENDERS}
    missing = {name: "not installed" for name, python in chosen.items() if python is None}
    pythons = {name: python for name, python in chosen.items() if python is not None}
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary)
        photos = unpack_photos(folder, options.repeats)
        headrace.pack_dataset(photos, folder / "packed", shard_size=64 << 20)
        arguments = ["--images", str(options.images), "--warm-up", str(options.warm_up)]
        found, failed = measure(folder, pythons, options.rounds, arguments)
    if options.json:
        print(json.dumps({"rounds": found, "left_out": {**missing, **failed}}))
    else:
        report(found, {**missing, **failed})


if __name__ == "__main__":
    main()
