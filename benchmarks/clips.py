"""Clips of videos: packed frames beside loose frames, GulpIO2, PyAV, decord, torchcodec and DALI, in one run.

    python benchmarks/peers.py --install gulpio2 video dali
    python benchmarks/clips.py [--parts seed disk mp4 loader pack] [--rounds 3] [--folder DIR] [--data DIR]

seed      the batch of GulpIO's own benchmark, [10, 3, 18, 84, 84] as float32, from 600 videos like Jester's: 36 to 40
          frames of 176 x 100 pixels. Warm: batches of epoch after epoch while all workers run. As the seed: from
          before iter(), so with starting the workers, to the 50th batch. Cold: the same after the page cache was
          told to drop the files (posix_fadvise)
disk      the same on an emulated slow disk (slow_disk.c: 8 ms a seek, 150 MB/s), in the order of the listing as in
          the seed's benchmark, and shuffled as in training
mp4       clips of 16 frames, every fourth one, RandomResizedCrop(224), batches of 16 as bytes, shuffled, from 60 mp4
          in four copies each: through decoders in the workers of a torch DataLoader, and packed as JPEG frames of
          quality 90. Once as they are, and once with 256 pixels on the shorter side, for both. The videos have 34 to
          85 frames, so that a clip is about all of a video; in longer ones a decoder also decodes what comes before
          the clip, back to the keyframe
loader    the loader beside rendering the same frames alone, its memory, and how much it reads
pack      packing the 60 mp4 beside GulpIO2's gulp2_video_folder (gulp_videos.py says how), all frames, quality 90

Everyone has as many workers or threads as there are cores. The loaders take turns, each in a process of its own; times
are medians of the rounds, ratios are medians of those within a round, CPU time is that of a process and its workers.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clip_limits
from claims import print_claim
from clip_loaders import GULP, LOOSE, MP4, MP4_SHORT, NATIVE, OURS, SEED, SHORT, WORKERS
from clip_turns import FEW, SEED_BATCHES, SKIPPED, TIMINGS, Results, run_child
from cpu import cpu_seconds
from loader import measure
from peers import choose_python
from slow_storage import Disk, compile_disk, read_counts

import headrace
import videos
from headrace.workbench.bench.page_cache import drop_pages

COPIES = 4
SLOW_ROUNDS = 2
SEED_BARS = {GULP: 5.0, LOOSE: 6.0}
HEADER = f"{'':34}{'ms/batch':>10}{'CPU ms':>9}{'MB on disk':>12}{'packed is, by clock':>21}{'by CPU':>9}"


def prepare(folder: Path, parts: list[str]) -> None:
    """Write the data of these parts below `folder`, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    source = make(folder / "videos", lambda _: videos.unpack_videos(folder))
    if {"seed", "disk", "loader"} & {*parts}:
        listing = folder / "jester" / "videos.csv"
        make(folder / "jester", lambda path: videos.imitate_jesters(source, path, 10))
        make(folder / "jester-packed", lambda path: headrace.pack_dataset(listing, path))
        make(folder / "jester-gulp", lambda path: export_gulp(listing, path))
    if "mp4" in parts:
        make(folder / "mp4", lambda path: videos.copy_videos(source, path, COPIES))
        small = make(folder / "small", lambda path: videos.shrink_videos(source, path, 256))
        make(folder / "mp4-short", lambda path: videos.copy_videos(small, path, COPIES))
        make(folder / "native-packed", lambda path: pack_copies(source, path, COPIES))
    if {"mp4", "loader"} & {*parts}:
        shrink = headrace.Shrink(256)
        make(folder / "short-packed", lambda path: pack_copies(source, path, COPIES, shrink=shrink))
    if "loader" in parts:
        make(
            folder / "long-packed", lambda path: pack_copies(folder / "short-packed", path, 1, 300)
        )


def make(path: Path, write: Callable[[Path], object]) -> Path:
    """Return a path, which is written first if it does not exist."""
    if not path.exists():
        print(f"  preparing {path.name}", file=sys.stderr, flush=True)
        write(path)
    return path


def export_gulp(listing: Path, folder: Path) -> None:
    source = headrace.open_source(listing)
    samples = (source.read(number) for number in range(len(source.names)))
    headrace.export_samples(samples, folder, to="gulp")


def pack_copies(source: Path, packed: Path, copies: int, least: int = 0, **options: Any) -> None:
    """Pack videos with quality 90, each `copies` times, with at least so many frames."""
    with tempfile.TemporaryDirectory(dir=packed.parent) as temporary:
        once = Path(temporary) / "once"
        if source.name.endswith("-packed"):
            once = source
        else:
            headrace.pack_dataset(source, once, quality=90, **options)
        listing = videos.copy_packed(once, Path(temporary) / "copies", copies, least)
        headrace.pack_dataset(listing, packed)


def report(results: Results, ours: str, data: Path, loaders: dict[str, object]) -> None:
    print(HEADER)
    for name in [name for name in loaders if name in results.rounds]:
        seconds, cpu = (results.middle(name, key) * 1e3 for key in ("seconds", "cpu"))
        size = videos.measure_bytes(data / loaders[name].data) / 1e6
        ratios = [results.compare(name, ours, key) for key in ("seconds", "cpu")]
        print(f"{name:34}{seconds:10.1f}{cpu:9.1f}{size:12.1f}{ratios[0]:20.2f}x{ratios[1]:8.2f}x")
    for name in [name for name in loaders if name in results.left_out]:
        print(f"{name:34} not run: {results.left_out[name]}")
    print(flush=True)


def compare_seed(data: Path, options: argparse.Namespace) -> None:
    warm, as_seed, cold = (Results(list(SEED)) for _ in range(3))
    for _ in range(options.rounds):
        for name, loader in SEED.items():
            warm.run(name, data, "steady", seconds=options.seconds)
            as_seed.run(name, data, "seed")
            drop_pages(videos.list_files(data / loader.data))
            cold.run(name, data, "seed")
    for title, results in (
        ("warm, all workers running", warm),
        (f"warm, {SEED_BATCHES} batches as the seed times them", as_seed),
        (f"cold, {SEED_BATCHES} batches as the seed times them", cold),
    ):
        print(f"the seed's batch: {title}")
        report(results, OURS, data, SEED)
    for name, bar in SEED_BARS.items():
        if name in warm.rounds:
            print_claim(f"the seed's batch, warm, packed vs {name}", warm.compare(name, OURS), bar)
            by_cpu = warm.compare(name, OURS, "cpu")
            print_claim(f"the seed's batch, warm, packed vs {name}, by CPU", by_cpu, bar)
            print_claim(f"the seed's batch, cold, packed vs {name}", cold.compare(name, OURS), None)


def compare_on_disk(data: Path, options: argparse.Namespace) -> None:
    """Compare on the slow disk: 50 batches as the seed times them; of loose frames, some between others."""
    library, ratios = compile_disk(data), {}
    print(
        f"the seed's batch on a slow disk: {1e3 * Disk.seek:g} ms a seek, {Disk.rate / 1e6:g} MB/s"
    )
    print(f"{'':52}{'ms/batch':>10}{'seeks/batch':>13}{'MB/batch':>10}{'packed is':>12}")
    for inodes, shuffle in ((False, False), (True, False), (True, True)):
        disk = "data and inodes" if inodes else "data only"
        order = "shuffled" if shuffle else "in order"
        ours = 0.0
        for name in (OURS, GULP, LOOSE):
            found = run_on_disk(name, data, library, inodes=inodes, shuffle=shuffle)
            title = f"{name}, {order}, {disk}"
            if isinstance(found, str):
                print(f"{title:52} not run: {found}")
                continue
            seconds, seeks, size = found
            ours = ours or seconds
            ratios[name, order, disk] = seconds / ours
            print(
                f"{title:52}{seconds * 1e3:10.0f}{seeks:13.1f}{size / 1e6:10.2f}{seconds / ours:11.1f}x",
                flush=True,
            )
    print()
    for (name, order, disk), ratio in ratios.items():
        if name != OURS:
            bar = 12.0 if name == LOOSE else None
            print_claim(
                f"the seed's batch, slow disk, {disk}, {order}, packed vs {name}", ratio, bar
            )


def run_on_disk(
    name: str, data: Path, library: Path, *, inodes: bool, shuffle: bool
) -> tuple[float, float, float] | str:
    """Return seconds, seeks and bytes per batch; or why there are none."""
    results, state = Results([name]), data / "disk-state"
    timing, batches = ("few", FEW + SKIPPED) if name == LOOSE else ("seed", SEED_BATCHES)
    environment = Disk().describe(library, state, data / SEED[name].data, inodes=inodes)
    results.run(name, data, timing, shuffle=shuffle, environment=environment)
    if name in results.left_out:
        return results.left_out[name]
    seeks, size = read_counts(state)
    return results.middle(name, "seconds"), seeks / batches, size / batches


def compare_mp4(data: Path, options: argparse.Namespace) -> None:
    loaders = {**MP4, **MP4_SHORT}
    results = Results(list(loaders))
    for _ in range(options.rounds):
        for name in loaders:
            results.run(name, data, "steady", shuffle=True, seconds=options.seconds)
    print("clips of 16 x 4 frames, RandomResizedCrop(224), batches of 16, warm")
    for ours, group in ((NATIVE, MP4), (SHORT, MP4_SHORT)):
        report(results, ours, data, group)
    for ours, group in ((NATIVE, MP4), (SHORT, MP4_SHORT)):
        for name in [name for name in group if name in results.rounds and name != ours]:
            what = f"16 x 4 clips, packed vs {name}"
            print_claim(what, results.compare(name, ours), 8.0)
            print_claim(f"{what}, by CPU", results.compare(name, ours, "cpu"), 8.0)


def compare_packing(data: Path, options: argparse.Namespace) -> None:
    """Pack the 60 mp4 with all frames, size and quality as they are, beside gulping them."""
    gulp = Path(__file__).with_name("gulp_videos.py")
    source, out, workers = str(data / "videos"), str(data / "out"), str(WORKERS)
    python = choose_python(SEED[GULP])
    commands = {
        "headrace pack": [sys.executable, "-m", "headrace", "pack", source, out],
        "gulp2_video_folder": [python, str(gulp), source, out, workers],
    }
    if python is None or shutil.which("ffmpeg") is None:
        print("gulp2_video_folder: not run, GulpIO2 or ffmpeg is not installed")
        del commands["gulp2_video_folder"]
    found: dict[str, list[list[float]]] = {name: [] for name in commands}
    for _ in range(min(options.rounds, SLOW_ROUNDS)):
        for name, command in commands.items():
            start, cpu = time.perf_counter(), cpu_seconds()
            subprocess.run(command, check=True, capture_output=True)
            figures = [time.perf_counter() - start, cpu_seconds() - cpu]
            found[name].append([*figures, videos.measure_bytes(Path(out)) / 1e6])
            shutil.rmtree(out)
    print(f"{'packing 60 mp4, quality 90':34}{'seconds':>10}{'CPU s':>9}{'MB':>9}")
    for name, turns in found.items():
        seconds, cpu, size = map(statistics.median, zip(*turns, strict=True))
        print(f"{name:34}{seconds:10.1f}{cpu:9.1f}{size:9.1f}")
    print()
    if len(found) == 2:
        ratios = [
            [theirs / ours for ours, theirs in zip(*pair, strict=True)]
            for pair in zip(*found.values(), strict=True)
        ]
        seconds, cpu, size = map(statistics.median, zip(*ratios, strict=True))
        print_claim("packing 60 mp4 vs gulp2_video_folder", seconds, 1.0)
        print_claim("packing 60 mp4 vs gulp2_video_folder, by CPU", cpu, 1.0)
        print_claim("bytes of 60 packed mp4 vs gulped", 1 / size, 1.0, at_most=True)


def compare_limits(data: Path, options: argparse.Namespace) -> None:
    workloads = {
        "the seed's batch": clip_limits.make_seed_loader,
        "16 x 4 clips of 256 px": clip_limits.make_loader,
    }
    print(
        f"{'':34}{'clips/s':>10}{'CPU ms':>9}{'render alone':>14}{'CPU ms':>9}{'x render':>10}{'CPU x':>7}"
    )
    shares = {}
    for name, make_loader in workloads.items():
        loader = make_loader(data)
        jobs = {"alone": clip_limits.render_alone(loader), "loader": clip_limits.load(loader)}
        found = measure(jobs, 2 * options.rounds + 1)
        shares[name] = found["loader"].compare(found["alone"])
        ours, alone = (
            [statistics.median(values) for values in (found[job].rates, found[job].costs)]
            for job in ("loader", "alone")
        )
        print(
            f"{name:34}{ours[0]:10.0f}{ours[1]:9.2f}{alone[0]:14.0f}{alone[1]:9.2f}"
            f"{shares[name][0]:10.2f}{shares[name][1]:7.2f}"
        )
        loader.close()
    print()
    for name, (share, cpu) in shares.items():
        print_claim(f"Loader vs rendering alone, {name}", share, 0.9)
        print_claim(f"CPU of the Loader vs rendering alone, {name}", cpu, None)
    for name, what in {"short": "60 frames", "long": "300 frames"}.items():
        alone = clip_limits.measure_alone(data, name)
        print_claim(
            f"peak memory, 16 x 4 clips of {what}", alone["peak_mb"], 600, " MB", at_most=True
        )
        print_claim(f"bytes read vs the spans of clips of {what}", alone["read"], 1.3, at_most=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", help="where to work")
    parser.add_argument("--data", type=Path, help="folder to write the data to once, and keep")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=3, help="time to count batches for")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--timing", choices=TIMINGS, help=argparse.SUPPRESS)
    parser.add_argument("--shuffle", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run_child(options)
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        data = options.data or Path(temporary)
        os.environ["HEADRACE_CACHE"] = str(data / "cache")
        prepare(data, options.parts)
        print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
        for part in options.parts:
            print(f"\n{part}: load average {os.getloadavg()[0]:.1f}", flush=True)
            PARTS[part](data, options)


PARTS = {
    "seed": compare_seed,
    "disk": compare_on_disk,
    "mp4": compare_mp4,
    "loader": compare_limits,
    "pack": compare_packing,
}

if __name__ == "__main__":
    main()
