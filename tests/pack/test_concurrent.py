"""Several processes at one destination: one makes the dataset, the others are told or find it done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.errors import PackError
from headrace.work.progress import Progress
from trees import digests, make_folder, without_locks

RACE = """
import os, sys, traceback
import headrace
verb, source, folder, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

def race(out):
    '''Do it over and over until it is done, so that the ends of one meet all steps of another.'''
    while True:
        try:
            if verb == "pack":
                headrace.pack_dataset(source, out, shard_size=4000, workers=1)
            else:
                headrace.index_dataset(source, out=out, workers=1)
            return
        except headrace.PackError as error:
            if "exists already; remove it" in str(error):
                return
            if not str(error).endswith((": another process is packing into it", ": another process is indexing into it")):
                raise

for number in range(rounds):
    start, go = os.pipe()
    children = []
    for _ in range(3):
        if not (child := os.fork()):
            os.close(go)
            os.read(start, 1)
            try:
                race(f"{folder}/{number}")
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    os.close(start)
    os.close(go)  # all of them read the end at once
    if any(os.waitpid(child, 0)[1] for child in children):
        sys.exit(1)
"""


@pytest.mark.parametrize("verb", ["pack", "index"])
def test_of_three_packers_one_packs_and_the_others_fail_or_find_the_dataset(
    tmp_path: Path, verb: str
) -> None:
    source = make_folder(tmp_path / "source", classes=2, per_class=2)
    headrace.pack_dataset(source, tmp_path / "whole", shard_size=4000)
    command = [sys.executable, "-c", RACE, verb, str(source), str(tmp_path / "out"), "40"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for number in range(40):
        out = tmp_path / "out" / str(number)
        if verb == "pack":
            assert digests(out) == digests(tmp_path / "whole")
            assert not (out / ".packing").exists()
        else:
            assert len(headrace.open_dataset(out)) == 4


def test_a_dataset_that_another_process_finishes_meanwhile_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one ends after the first look at the destination, and before the lock is taken."""
    source, out = make_folder(tmp_path / "source"), tmp_path / "out"
    from headrace.pack import staging

    original = staging._check_destination

    def finish_first(destination: Path) -> None:
        monkeypatch.setattr(staging, "_check_destination", original)
        headrace.pack_dataset(source, out)

    monkeypatch.setattr(staging, "_check_destination", finish_first)
    assert headrace.pack_dataset(source, out).resumed == 1
    assert headrace.verify_dataset(out) == []
    assert not (out / ".packing").exists()


def test_packing_works_with_a_warning_on_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fcntl.flock", without_locks)
    headrace.pack_dataset(make_folder(tmp_path / "source"), tmp_path / "out")
    assert headrace.verify_dataset(tmp_path / "out") == []
    said = (
        "out: this file system has no locks (flock), so that other processes packing into the same"
    )
    assert said in caplog.text


def test_a_folder_that_is_being_indexed_is_not_indexed_by_another(tmp_path: Path) -> None:
    source, second = make_folder(tmp_path / "source"), list[str]()

    def start_second(done: Progress) -> None:
        with pytest.raises(PackError, match="another process is indexing into it"):
            headrace.index_dataset(source, out=tmp_path / "out")
        second.append("refused")

    headrace.index_dataset(source, out=tmp_path / "out", progress=start_second)
    assert second and headrace.verify_dataset(tmp_path / "out") == []


def test_a_destination_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="cannot be made"):
        headrace.pack_dataset(make_folder(tmp_path / "source"), "/proc/nothing/here")
