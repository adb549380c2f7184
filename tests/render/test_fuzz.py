"""A minute of damaged files under ASan and UBSan; `make fuzz FUZZ_SECONDS=600` goes on longer."""

from __future__ import annotations

import faulthandler
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_damaged_files_never_break_the_decoder(tmp_path: Path) -> None:
    faulthandler.cancel_dump_traceback_later()  # the time limits are below
    others = ("crc32c", "interleave", "simd")
    core = [*ROOT.glob("cpp/jpeg*.cpp"), *(ROOT / f"cpp/{name}.cpp" for name in others)]
    sources = [ROOT / "fuzz/fuzz_jpeg.cpp", ROOT / "fuzz/mutate.cpp", *core]
    target = tmp_path / "fuzz_jpeg"
    subprocess.run(["g++", *FLAGS, *map(str, sources), "-o", str(target)], check=True, timeout=300)
    command = [str(target), str(ROOT / "fuzz/corpus"), "60"]
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr[-4000:]
