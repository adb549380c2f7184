"""A minute of damaged files, and resizes of all kinds, under ASan and UBSan; `make fuzz FUZZ_SECONDS=600` goes on longer."""

from __future__ import annotations

import faulthandler
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def build(folder: Path, sources: list[Path]) -> Path:
    faulthandler.cancel_dump_traceback_later()  # the time limits are here and below
    target = folder / "target"
    command = ["g++", *FLAGS, "-pthread", *map(str, sources), "-o", str(target)]
    subprocess.run(command, check=True, timeout=300)
    return target


def check(folder: Path, *command: object) -> None:
    run = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-1000:] + run.stderr[-4000:]


@needs_compiler
def test_damaged_files_never_break_the_decoder(tmp_path: Path) -> None:
    others = ("crc32c", "interleave", "simd")
    core = [*ROOT.glob("cpp/jpeg*.cpp"), *(ROOT / f"cpp/{name}.cpp" for name in others)]
    target = build(tmp_path, [ROOT / "fuzz/fuzz_jpeg.cpp", ROOT / "fuzz/mutate.cpp", *core])
    check(tmp_path, target, ROOT / "fuzz/corpus", 60)


@needs_compiler
def test_no_resize_leaves_its_memory_or_depends_on_the_instructions(tmp_path: Path) -> None:
    core = [path for path in ROOT.glob("cpp/*.cpp") if path.name != "binding.cpp"]
    target = build(tmp_path, [ROOT / "fuzz/stress_resize.cpp", *core])
    check(tmp_path, target, 1, 500)
