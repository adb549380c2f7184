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
import sys
import tempfile
from pathlib import Path

from claims import print_claim
from clip_loaders import GULP, LOOSE, MP4, NATIVE, OURS, SEED, SHORT
from clip_turns import SEED_BATCHES, TIMINGS, Results, run_child

SEED_BARS = {GULP: 5.0, LOOSE: 6.0}
MP4_BARS = {name: 8.0 for name in MP4 if name not in (NATIVE, SHORT)}
HEADER = (
    f"{'':34}{'ms/batch':>10}{'CPU ms':>9}{'MB on disk':>12}{'packed is, by clock':>21}{'by CPU':>9}"
)


def prepare(folder: Path, parts: list[str]) -> None:
    """Write the data of these parts below `folder`, unless they are there."""
    import videos

    import headrace

    def pack(name: str, *arguments: object, **options: object) -> None:
        if not (folder / f"{name}-packed").exists():
            print(f"  preparing {name}", file=sys.stderr, flush=True)
            listing = videos.write_frames(folder / "videos", folder / name, *arguments, **options)
            headrace.pack_dataset(listing, folder / f"{name}-packed", order="source")

    if not (folder / "videos").exists():
        videos.unpack_videos(folder)
    if {"seed", "disk", "loader"} & {*parts}:
        pack("jester", videos.imitate_jester, videos.JESTER_QUALITY, repeats=10)
    if not (folder / "jester-gulp").exists():
        source = headrace.open_source(folder / "jester" / "videos.csv")
        samples = (source.read(number) for number in range(len(source.names)))
        headrace.export_samples(samples, folder / "jester-gulp", to="gulp")


def report(results: Results, ours: str, data: Path, loaders: dict[str, object]) -> None:
    from videos import measure_bytes

    print(HEADER)
    for name in results.rounds:
        seconds, cpu = (results.middle(name, key) * 1e3 for key in ("seconds", "cpu"))
        size = measure_bytes(data / loaders[name].data) / 1e6
        ratios = [results.compare(name, ours, key) for key in ("seconds", "cpu")]
        print(f"{name:34}{seconds:10.1f}{cpu:9.1f}{size:12.1f}{ratios[0]:20.2f}x{ratios[1]:8.2f}x")
    for name, reason in results.left_out.items():
        print(f"{name:34} not run: {reason}")
    print(flush=True)


def compare_seed(data: Path, rounds: int) -> None:
    from headrace.workbench.bench.page_cache import drop_pages
    from videos import list_files

    warm, as_seed, cold = (Results(list(SEED)) for _ in range(3))
    for _ in range(rounds):
        for name, loader in SEED.items():
            warm.run(name, data, "steady")
            as_seed.run(name, data, "seed")
            drop_pages(list_files(data / loader.data))
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


PARTS = {"seed": compare_seed}

if __name__ == "__main__":
    main()
