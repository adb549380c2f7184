"""Clips of videos: packed frames beside loose frames, GulpIO2, PyAV, decord, torchcodec and DALI, in one run.

    python benchmarks/peers.py --install gulpio2 video dali
    python benchmarks/clips.py [--parts seed disk mp4 loader] [--rounds 5] [--folder DIR] [--data DIR]

seed      the batch of GulpIO's own benchmark, [10, 3, 18, 84, 84] as float32, from 600 videos like Jester's: 36 to 40
          frames of 176 x 100 pixels. Warm: batches of epoch after epoch while all workers run. As the seed: from
          before iter(), so with starting the workers, to the 50th batch. Cold: the same after the page cache was
          told to drop the files (posix_fadvise)
disk      the same on an emulated slow disk (slow_disk.c: 8 ms a seek, 150 MB/s), in the order of the listing as in
          the seed's benchmark, and shuffled as in training
mp4       clips of 16 frames, every fourth one, RandomResizedCrop(224), batches of 16 as bytes, shuffled, from 60 mp4
          in four copies each: as they are, through decoders in the workers of a torch DataLoader, and packed as
          JPEG frames of quality 90
loader    the loader beside rendering the same frames alone, its memory, and how much it reads

Everyone has as many workers or threads as there are cores. The loaders take turns, each in a process of its own; times
are medians of the rounds, ratios are medians of those within a round, CPU time is that of a process and its workers.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import clip_limits
import videos
from claims import print_claim
from clip_loaders import GULP, LOOSE, MP4, NATIVE, OURS, SEED, SHORT
from clip_turns import FEW, SEED_BATCHES, SKIPPED, TIMINGS, Results, run_child
from loader import measure
from slow_storage import Disk, compile_disk, read_counts

import headrace
from headrace.workbench.bench.page_cache import drop_pages

COPIES = 4
SEED_BARS = {GULP: 5.0, LOOSE: 6.0}
MP4_BARS = {name: 8.0 for name in MP4 if name not in (NATIVE, SHORT)}
HEADER = (
    f"{'':34}{'ms/batch':>10}{'CPU ms':>9}{'MB on disk':>12}{'packed is, by clock':>21}{'by CPU':>9}"
)


def prepare(folder: Path, parts: list[str]) -> None:
    """Write the data of these parts below `folder`, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "videos").exists():
        videos.unpack_videos(folder)
    if {"seed", "disk", "loader"} & {*parts}:
        pack_frames(folder, "jester", videos.imitate_jester, videos.JESTER_QUALITY, repeats=10)
    if {"seed", "disk"} & {*parts} and not (folder / "jester-gulp").exists():
        source = headrace.open_source(folder / "jester" / "videos.csv")
        samples = (source.read(number) for number in range(len(source.names)))
        headrace.export_samples(samples, folder / "jester-gulp", to="gulp")
    if "mp4" in parts and not (folder / "mp4").exists():
        videos.copy_videos(folder / "videos", folder / "mp4", COPIES)
    if "mp4" in parts:
        pack_frames(folder, "native", videos.keep_size, 90, repeats=COPIES, keep=False)
    if {"mp4", "loader"} & {*parts}:
        pack_frames(folder, "short", videos.resize_short, 90, repeats=COPIES, keep=False)
    if "loader" in parts:
        pack_frames(folder, "long", videos.lengthen, 90, count=24, keep=False)


def pack_frames(
    folder: Path, name: str, *arguments: Any, keep: bool = True, **options: Any
) -> None:
    """Pack the videos as frames, unless they are packed; `keep` the frames as files too."""
    packed = folder / f"{name}-packed"
    if packed.exists():
        return
    print(f"  preparing {name}", file=sys.stderr, flush=True)
    listing = videos.write_frames(folder / "videos", folder / name, *arguments, **options)
    headrace.pack_dataset(listing, packed)
    if not keep:
        shutil.rmtree(folder / name)


def report(results: Results, ours: str, data: Path, loaders: dict[str, object]) -> None:
    print(HEADER)
    for name in results.rounds:
        seconds, cpu = (results.middle(name, key) * 1e3 for key in ("seconds", "cpu"))
        size = videos.measure_bytes(data / loaders[name].data) / 1e6
        ratios = [results.compare(name, ours, key) for key in ("seconds", "cpu")]
        print(f"{name:34}{seconds:10.1f}{cpu:9.1f}{size:12.1f}{ratios[0]:20.2f}x{ratios[1]:8.2f}x")
    for name, reason in results.left_out.items():
        print(f"{name:34} not run: {reason}")
    print(flush=True)


def compare_seed(data: Path, rounds: int) -> None:
    warm, as_seed, cold = (Results(list(SEED)) for _ in range(3))
    for _ in range(rounds):
        for name, loader in SEED.items():
            warm.run(name, data, "steady")
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


def compare_on_disk(data: Path, rounds: int) -> None:
    """Compare on the slow disk: 50 batches as the seed times them; of loose frames, some between others."""
    library, ratios = compile_disk(data), {}
    print(f"the seed's batch on a slow disk: {1e3 * Disk.seek:g} ms a seek, {Disk.rate / 1e6:g} MB/s")
    print(f"{'':52}{'ms/batch':>10}{'seeks/batch':>13}{'MB/batch':>10}{'packed is':>12}")
    for inodes, shuffle in ((False, False), (True, False), (False, True), (True, True)):
        disk = "data and inodes" if inodes else "data only"
        order = "shuffled" if shuffle else "in order"
        ours = 0.0
        for name in (OURS, GULP, LOOSE):
            found = run_on_disk(name, data, library, rounds, inodes=inodes, shuffle=shuffle)
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
    name: str, data: Path, library: Path, rounds: int, *, inodes: bool, shuffle: bool
) -> tuple[float, float, float] | str:
    """Return seconds, seeks and bytes per batch, of the quickest round; or why there are none."""
    results, counts, state = Results([name]), [], data / "disk-state"
    timing, batches = ("few", FEW + SKIPPED) if name == LOOSE else ("seed", SEED_BATCHES)
    root = data / SEED[name].data
    for _ in range(rounds):
        environment = Disk().describe(library, state, root, inodes=inodes)
        results.run(name, data, timing, shuffle=shuffle, environment=environment)
        if name in results.left_out:
            return results.left_out[name]
        counts.append(read_counts(state))
    seconds, (seeks, size) = min(
        zip([figures["seconds"] for figures in results.rounds[name]], counts, strict=True)
    )
    return seconds, seeks / batches, size / batches


def compare_mp4(data: Path, rounds: int) -> None:
    results = Results(list(MP4))
    for _ in range(rounds):
        for name in MP4:
            results.run(name, data, "steady", shuffle=True)
    print("clips of 16 x 4 frames, RandomResizedCrop(224), batches of 16, warm")
    report(results, NATIVE, data, MP4)
    for name, bar in MP4_BARS.items():
        if name in results.rounds:
            for ours in (NATIVE, SHORT):
                print_claim(f"16 x 4 clips, {ours} vs {name}", results.compare(name, ours), bar)
                by_cpu = results.compare(name, ours, "cpu")
                print_claim(f"16 x 4 clips, {ours} vs {name}, by CPU", by_cpu, bar)


def compare_limits(data: Path, rounds: int) -> None:
    workloads = {
        "the seed's batch": clip_limits.make_seed_loader,
        "16 x 4 clips of 256 px": clip_limits.make_loader,
        "16 x 4 clips of 300 frames": lambda data: clip_limits.make_loader(data, "long"),
    }
    print(f"{'':34}{'clips/s':>10}{'CPU ms':>9}{'render alone':>14}{'CPU ms':>9}{'x render':>10}")
    shares = {}
    for name, make in workloads.items():
        loader = make(data)
        jobs = {"alone": clip_limits.render_alone(loader), "loader": clip_limits.load(loader)}
        found = measure(jobs, 2 * rounds + 1)
        shares[name], _ = found["loader"].compare(found["alone"])
        values = [
            statistics.median(values)
            for job in ("loader", "alone")
            for values in (found[job].rates, found[job].costs)
        ]
        print(
            f"{name:34}{values[0]:10.0f}{values[1]:9.2f}{values[2]:14.0f}{values[3]:9.2f}{shares[name]:10.2f}"
        )
        loader.close()
    print()
    for name, share in shares.items():
        print_claim(f"Loader vs rendering alone, {name}", share, 0.9)
    for name, what in {"short": "60 frames", "long": "300 frames"}.items():
        alone = clip_limits.measure_alone(data, name)
        print_claim(
            f"peak memory, 16 x 4 clips of {what}", alone["peak_mb"], 600, " MB", at_most=True
        )
        print_claim(
            f"bytes read vs the spans of clips of {what}", alone["read"], 1.3, at_most=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", help="where to work")
    parser.add_argument("--data", type=Path, help="folder to write the data to once, and keep")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=4, help="time to count batches for")
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
            PARTS[part](data, options.rounds)


PARTS = {"seed": compare_seed, "disk": compare_on_disk, "mp4": compare_mp4, "loader": compare_limits}

if __name__ == "__main__":
    main()
