"""How long packing takes, next to `tar cf` plus `sha256sum` over the same files.

    python benchmarks/pack.py [--folder DIR] [--rounds 5]

600 photos, 12 times, from a warm page cache. The rounds alternate, so that a noisy machine disturbs both
alike; the ratio is that of the medians. Packing syncs its files to disk before it says that they are
there, tar does not; the row with `sync` shows tar with the same promise.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from claims import print_claim
from photos import unpack_photos
from turns import time_turns

import headrace


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", help="where to work; a fast disk or a memory file system")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = Path(temporary)
        source = unpack_photos(folder, repeats=12)

        def tar_and_hash(sync: bool = False) -> None:
            subprocess.run(["tar", "cf", folder / "all.tar", "-C", source, "."], check=True)
            if sync:
                subprocess.run(["sync", folder / "all.tar"], check=True)
            hash_all = "find . -type f -print0 | xargs -0 sha256sum > /dev/null"
            subprocess.run(["sh", "-c", hash_all], cwd=source, check=True)
            (folder / "all.tar").unlink()

        def pack() -> None:
            headrace.pack_dataset(source, folder / "packed")
            shutil.rmtree(folder / "packed")

        tar_and_hash()
        jobs = {
            "tar + sha256sum": tar_and_hash,
            "tar + sync + sha256sum": lambda: tar_and_hash(sync=True),
            "headrace pack": pack,
        }
        medians = time_turns(jobs, options.rounds)
    if options.json:
        print(json.dumps(medians))
        return
    base = medians["tar + sha256sum"]
    print(f"{'7,200 photos, 784 MB':26}{'seconds':>9}{'ratio':>8}")
    for name, seconds in medians.items():
        print(f"{name:26}{seconds:9.2f}{seconds / base:8.2f}")
    print_claim("packing vs tar + sha256sum, time", medians["headrace pack"] / base, None)


if __name__ == "__main__":
    main()
