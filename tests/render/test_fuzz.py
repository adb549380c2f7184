"""Damaged files, resizes and programs of all kinds, under ASan and UBSan.

Some seconds in `make test`, some minutes in `make test-slow`; `make fuzz FUZZ_SECONDS=3600` goes on as long as you like."""

from __future__ import annotations

import faulthandler
import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

from stored import ROOT

pytestmark = pytest.mark.skipif(
    not (shutil.which("g++") and shutil.which("make")), reason="needs g++ and make"
)


def build(name: str) -> Path:
    """Build a target of the Makefile, or wait for another process that builds it."""
    faulthandler.cancel_dump_traceback_later()  # the time limits are here and below
    target = ROOT / "build/fuzz" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        command = ["make", "--silent", "-j2", target.relative_to(ROOT).as_posix()]
        subprocess.run(command, cwd=ROOT, check=True, timeout=600)
    return target


def check(folder: Path, timeout: float, *command: object) -> None:
    result = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-1000:] + result.stderr[-4000:]


@pytest.mark.parametrize("seconds", [5, pytest.param(150, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize(("kind", "corpus"), [("jpeg", "corpus"), ("png", "corpus_png")])
def test_damaged_files_never_break_the_decoder(
    tmp_path: Path, kind: str, corpus: str, seconds: int
) -> None:
    check(tmp_path, seconds + 60, build(kind), ROOT / "fuzz" / corpus, seconds, seconds)


@pytest.mark.parametrize("rounds", [500, pytest.param(60_000, marks=pytest.mark.fuzz)])
def test_a_resize_stays_in_its_memory_and_does_not_depend_on_the_instructions(
    tmp_path: Path, rounds: int
) -> None:
    check(tmp_path, 600, build("resize"), 1, rounds)


@pytest.mark.parametrize("rounds", [500, pytest.param(60_000, marks=pytest.mark.fuzz)])
def test_a_program_stays_in_its_memory_and_does_not_depend_on_the_instructions(
    tmp_path: Path, rounds: int
) -> None:
    check(tmp_path, 600, build("program"), 1, rounds)
