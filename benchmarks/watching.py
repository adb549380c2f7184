"""What `penstock doctor -- command` costs the command that it watches.

    python benchmarks/watching.py [--rounds 7] [--json]

The same programs with and without the doctor, in turns: loops over generated JPEGs, through a torch DataLoader
with two workers and through penstock.Loader. Figures are the time of the loop that the program took itself, and
the CPU time of the program and its children; a ratio is the median of the ratios within a round.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from penstock.workbench.watch.run import watch_command

AIM = 1.02
IMAGES = 256
TORCH = """
import sys, time, torch
from pathlib import Path
from PIL import Image
class Photos(torch.utils.data.Dataset):
    files = sorted(Path(sys.argv[1]).rglob("*.jpg")) * 4
    def __len__(self): return len(self.files)
    def __getitem__(self, i):
        with Image.open(self.files[i]) as image:
            return torch.frombuffer(bytearray(image.convert("RGB").resize((64, 64)).tobytes()), dtype=torch.uint8)
loader = torch.utils.data.DataLoader(Photos(), 32, num_workers=2)
"""
PENSTOCK = """
import sys, time, penstock
from penstock.transforms import RandomResizedCrop
class Epochs:
    def __iter__(self):
        for epoch in range(40):
            yield from loader_
loader_ = penstock.Loader(sys.argv[1], 32, transform=[RandomResizedCrop(64)], threads=2)
loader = Epochs()
"""
LOOP = """
start = time.perf_counter()
for batch in loader:
    sum(range(20_000))
print(time.perf_counter() - start, file=open(sys.argv[2], "w"))
"""


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


def run_alone(command: list[str]) -> float:
    """Runs it; CPU seconds of it and its children."""
    pid = os.posix_spawn(command[0], command, os.environ)
    _, code, usage = os.wait4(pid, 0)
    assert code == 0
    return usage.ru_utime + usage.ru_stime


def run_watched(command: list[str]) -> float:
    return watch_command(command).system.cpu_seconds


def measure(code: str, folder: Path, photos: Path, rounds: int) -> dict[str, float]:
    """Ratios of watched to alone: of the loop's time and of CPU time."""
    program, told = folder / "program.py", folder / "seconds"
    program.write_text(code + LOOP)
    command = [sys.executable, str(program), str(photos), str(told)]
    loop, cpu = [], []

    def time_both(run: Callable[[list[str]], float]) -> tuple[float, float]:
        used = run(command)
        return float(told.read_text()), used

    for number in range(rounds):
        order = (run_alone, run_watched) if number % 2 else (run_watched, run_alone)
        found = {run: time_both(run) for run in order}
        loop.append(found[run_watched][0] / found[run_alone][0])
        cpu.append(found[run_watched][1] / found[run_alone][1])
    return {"loop": statistics.median(loop), "cpu": statistics.median(cpu)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        os.environ["PENSTOCK_CACHE"] = str(folder / "cache")
        photos = make_photos(folder)
        programs = {"torch DataLoader, 2 workers": TORCH, "penstock.Loader": PENSTOCK}
        ratios = {
            name: measure(code, folder, photos, options.rounds) for name, code in programs.items()
        }
    if options.json:
        print(json.dumps({"ratios": ratios, "aim": AIM}))
        return
    print(f"{'watched / alone':32}{'loop':>10}{'CPU':>10}{'aim':>10}")
    for name, ratio in ratios.items():
        print(f"{name:32}{ratio['loop']:>10.3f}{ratio['cpu']:>10.3f}{AIM:>10.2f}")


if __name__ == "__main__":
    main()
