"""What `headrace doctor -- command` costs the command that it watches.

    python benchmarks/watching.py [--rounds 120] [--json]

Two programs run, the same but for the doctor around one of them: loops over generated JPEGs with a fixed piece of
computing for each batch, through a torch DataLoader with two workers and through headrace.Loader. They take turns: each does a
fifth of a second of batches when it is told to and stands still otherwise, so that what else the machine does hits both alike. The
ratio of the clocks is the median over all pairs of turns, with a 95 % interval (bootstrap); the ratio of CPU time is that of
all turns and all processes together, the doctor's own included.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from claims import print_claim
from PIL import Image

from headrace.workbench.watch.monitor import list_tree

AIM, IMAGES, WARM, STEP = 1.02, 256, 3, 100_000
TORCH = """
import sys, time, torch
from pathlib import Path
from PIL import Image
class Photos(torch.utils.data.Dataset):
    files = sorted(Path(sys.argv[1]).rglob("*.jpg"))
    def __len__(self): return 1_000_000
    def __getitem__(self, i):
        with Image.open(self.files[i % len(self.files)]) as image:
            return torch.frombuffer(bytearray(image.convert("RGB").resize((64, 64)).tobytes()), dtype=torch.uint8)
batches, turn = iter(torch.utils.data.DataLoader(Photos(), 32, num_workers=2)), 8
"""
HEADRACE = """
import sys, time, headrace
from headrace.transforms import RandomResizedCrop
loader = headrace.Loader(sys.argv[1], 32, transform=[RandomResizedCrop(64)], threads=2)
def repeat():
    while True:
        yield from loader
batches, turn = repeat(), 24
"""
LOOP = """
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(turn):
        next(batches)
        sum(range(int(sys.argv[2])))
    print(time.perf_counter() - start, flush=True)
"""
PROGRAMS = {"torch DataLoader, 2 workers": TORCH, "headrace.Loader": HEADRACE}


def make_photos(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    for number in range(IMAGES):
        path = folder / "photos" / f"class{number % 4}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (12, 16, 3), np.uint8)
        out = io.BytesIO()
        Image.fromarray(pixels).resize((480, 360)).save(out, "JPEG", quality=90)
        path.write_bytes(out.getvalue())
    return folder / "photos"


class Side:
    """A program that works on request, with the doctor or without."""

    def __init__(self, command: list[str]) -> None:
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=null, text=True, start_new_session=True
        )

    def take_turn(self) -> tuple[float, float]:
        """Return the seconds that it took, and the CPU seconds of all its processes."""
        before = self._read_cpu()
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        seconds = float(self._process.stdout.readline())
        return seconds, self._read_cpu() - before

    def _read_cpu(self) -> float:
        """Return the CPU seconds of all running processes, to the nanosecond, with ended threads."""
        total = 0.0
        for pid in list_tree(self._process.pid):
            with suppress(OSError):  # it has just ended
                total += time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(3) gives
        return total

    def close(self) -> None:
        """Kill all its processes."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def measure(code: str, folder: Path, photos: Path, rounds: int) -> dict[str, float]:
    """The ratios of the watched program to the other."""
    program = folder / "program.py"
    program.write_text(code + LOOP)
    command = [sys.executable, str(program), str(photos), str(STEP)]
    report = str(folder / "report.html")
    doctor = [sys.executable, "-m", "headrace", "doctor", "--html", report, "--", *command]
    alone, watched = sides = Side(command), Side(doctor)
    try:
        for _ in range(WARM):
            for side in sides:
                side.take_turn()
        pairs, used = [], dict.fromkeys(sides, 0.0)
        for number in range(rounds):
            order = sides if number % 2 else sides[::-1]
            taken = {side: side.take_turn() for side in order}
            pairs.append(taken[watched][0] / taken[alone][0])
            for side, (_, cpu) in taken.items():
                used[side] += cpu
    finally:
        for side in sides:
            side.close()
    low, high = bound_median(pairs)
    return {
        "clock": statistics.median(pairs),
        "low": low,
        "high": high,
        "cpu": used[watched] / used[alone],
    }


def bound_median(values: list[float], draws: int = 2000) -> tuple[float, float]:
    """Return the 95 % interval of the median (bootstrap)."""
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(values, (draws, len(values))), axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=120, help="pairs of turns")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ |= {"HEADRACE_CACHE": str(folder / "cache"), "TMPDIR": temporary}
        photos = make_photos(folder)
        ratios = {
            name: measure(code, folder, photos, options.rounds) for name, code in PROGRAMS.items()
        }
    if options.json:
        print(json.dumps({"ratios": ratios, "aim": AIM}))
        return
    print(f"{'watched / alone':32}{'clock':>8}{'from':>8}{'to':>8}{'CPU':>8}")
    for name, ratio in ratios.items():
        print(
            f"{name:32}" + "".join(f"{ratio[key]:8.3f}" for key in ("clock", "low", "high", "cpu"))
        )
    for name, ratio in ratios.items():
        # Held only if chance alone is unlikely to have hidden more.
        upper = f"time of a watched {name} (upper end of 95 %)"
        print_claim(upper, ratio["high"], AIM, at_most=True)
        print_claim(f"CPU of a watched {name}", ratio["cpu"], AIM, at_most=True)


if __name__ == "__main__":
    main()
