"""Packing that is killed, runs out of disk or loses its source: whole later, or nothing at all."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from formats.making import make_example, write_tfrecord
from headrace.errors import PackError
from headrace.pack.shrink_images import Shrink
from headrace.work.progress import Progress
from images import encode
from trees import digests, make_folder

KILLED_AT = """
import os, signal, sys
source, destination, when = sys.argv[1], sys.argv[2], int(sys.argv[3])
import headrace
count = 0
def wrap(name):
    original = getattr(os, name)
    def wrapped(*args, **kwargs):
        global count
        count += 1
        if count == when:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)
    setattr(os, name, wrapped)
for name in ("writev", "fsync", "replace", "mkdir", "unlink", "rmdir"):
    wrap(name)
headrace.pack_dataset(source, destination, shard_size=12000, workers=1)
print(count)
"""


KILLED_AFTER = """
import os, signal, sys, headrace
source, destination, samples = sys.argv[1], sys.argv[2], int(sys.argv[3])
def kill(done):
    if done.samples >= samples:
        os.kill(os.getpid(), signal.SIGKILL)
headrace.pack_dataset(source, destination, shard_size=20000, workers=2, progress=kill)
"""


def run_killed_at(source: Path, destination: Path, when: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", KILLED_AT, str(source), str(destination), str(when)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def looks_finished(destination: Path) -> bool:
    return (destination / "headrace.json").exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], int]:
    """A source, what packing it gives, and how many times that touches the disk."""
    root = tmp_path_factory.mktemp("whole")
    source = make_folder(root / "source")
    result = run_killed_at(source, root / "whole", 0)
    assert result.returncode == 0, result.stderr
    return source, digests(root / "whole"), int(result.stdout)


@pytest.mark.parametrize("part", range(12))
def test_packing_killed_at_any_system_call_resumes_to_the_same_bytes(
    whole: tuple[Path, dict[str, str], int], tmp_path: Path, part: int
) -> None:
    source, expected, touches = whole
    for when in range(1 + part, touches + 1, 12):
        destination = tmp_path / str(when)
        assert run_killed_at(source, destination, when).returncode == -signal.SIGKILL
        if looks_finished(destination):
            assert headrace.verify_dataset(destination) == []
        headrace.pack_dataset(source, destination, shard_size=12000, workers=2)
        assert digests(destination) == expected, when


def test_packing_killed_at_random_moments_ends_with_the_same_bytes(
    tmp_path: Path,
) -> None:
    source = make_folder(tmp_path / "source", classes=4, per_class=40, size=64)
    headrace.pack_dataset(source, tmp_path / "whole", shard_size=20000)
    command = [sys.executable, "-c", KILLED_AFTER, str(source), str(tmp_path / "out")]
    for samples in sorted(random.Random(0).sample(range(1, 161), 6)):
        result = subprocess.run([*command, str(samples)], capture_output=True, check=False)
        assert result.returncode == -signal.SIGKILL, result.stderr
    summary = headrace.pack_dataset(source, tmp_path / "out", shard_size=20000)
    assert summary.resumed > 0
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def test_a_finished_pack_is_recognised_and_a_different_one_refused(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source")
    first = headrace.pack_dataset(source, tmp_path / "out")
    before = digests(tmp_path / "out")
    again = headrace.pack_dataset(source, tmp_path / "out")
    assert (again.samples, again.resumed) == (first.samples, first.shards)
    with pytest.raises(PackError, match="another source or with other options"):
        headrace.pack_dataset(source, tmp_path / "out", seed=1)
    (source / "class0" / "000.jpg").write_bytes(encode(24, 24, seed=99))
    with pytest.raises(PackError, match="another source or with other options"):
        headrace.pack_dataset(source, tmp_path / "out")
    assert digests(tmp_path / "out") == before


@pytest.mark.parametrize("shrink", [None, Shrink(longest=16)])
def test_a_file_replaced_by_an_older_one_of_its_size_is_noticed(
    tmp_path: Path, shrink: Shrink | None
) -> None:
    source = make_folder(tmp_path / "source")
    file = source / "class0" / "000.jpg"
    before = file.stat()
    headrace.pack_dataset(source, tmp_path / "out", shrink=shrink)
    other = bytearray(file.read_bytes())
    other[other.index(b"\xff\xdb") + 5] += 9  # of the quantisation: another picture
    (tmp_path / "other.jpg").write_bytes(other)
    os.utime(tmp_path / "other.jpg", ns=(before.st_atime_ns, before.st_mtime_ns - 10**9))
    os.replace(tmp_path / "other.jpg", file)
    with pytest.raises(PackError, match="class0/000.jpg changed after it was packed"):
        headrace.pack_dataset(source, tmp_path / "out", shrink=shrink)


def test_files_that_were_only_touched_count_as_unchanged(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source")
    (source / "class0" / "bad.jpg").write_bytes(b"no image")
    first = headrace.pack_dataset(source, tmp_path / "out", on_error="skip")
    for file in source.rglob("*.*"):
        file.chmod(0o600)
        os.utime(file)
    again = headrace.pack_dataset(source, tmp_path / "out", on_error="skip")
    assert (again.resumed, again.rejected) == (first.shards, first.rejected)


def test_shards_of_a_killed_pack_with_other_options_are_not_reused(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source")
    headrace.pack_dataset(source, tmp_path / "expected", shard_size=9000, seed=5)
    assert run_killed_at(source, tmp_path / "out", 30).returncode == -signal.SIGKILL
    headrace.pack_dataset(source, tmp_path / "out", shard_size=9000, seed=5)
    assert digests(tmp_path / "out") == digests(tmp_path / "expected")


def test_a_source_that_changed_since_the_kill_is_read_again(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source")
    assert run_killed_at(source, tmp_path / "out", 30).returncode == -signal.SIGKILL
    for name in ("class0/000.jpg", "class1/001.jpg", "class2/002.jpg"):
        data = bytearray((source / name).read_bytes())
        data[-4] ^= 1
        (source / name).write_bytes(data)
    headrace.pack_dataset(source, tmp_path / "out", shard_size=12000)
    headrace.pack_dataset(source, tmp_path / "expected", shard_size=12000)
    assert digests(tmp_path / "out") == digests(tmp_path / "expected")


def write_listing(source: Path, label: int) -> Path:
    """The images of a folder in one listing, all with the same label."""
    names = sorted(path.relative_to(source).as_posix() for path in source.rglob("*.*g"))
    path = source.parent / "list.csv"
    path.write_text("path,label\n" + "".join(f"{name},{label}\n" for name in names))
    return path


def stop_at_ten(done: Progress) -> None:
    if done.samples == 10:
        raise KeyboardInterrupt


def stop_half_way(source: Path, destination: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        headrace.pack_dataset(source, destination, shard_size=4000, workers=1, progress=stop_at_ten)


def test_a_shard_that_was_truncated_since_is_not_reused(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source")
    stop_half_way(source, tmp_path / "out")
    shard = tmp_path / "out/.packing/shard-000000.tar"
    shard.write_bytes(shard.read_bytes()[:-512])
    headrace.pack_dataset(source, tmp_path / "out", shard_size=4000)
    assert headrace.verify_dataset(tmp_path / "out") == []


def test_reused_shards_count_as_progress(tmp_path: Path) -> None:
    source, seen = make_folder(tmp_path / "source"), list[Progress]()
    stop_half_way(source, tmp_path / "out")
    summary = headrace.pack_dataset(source, tmp_path / "out", shard_size=4000, progress=seen.append)
    assert summary.resumed > 0
    assert seen[-1] == (15, 15, summary.source_bytes, summary.source_bytes)


def test_shards_of_a_larger_pack_that_was_stopped_are_removed(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source")
    stop_half_way(source, tmp_path / "out")
    staged = tmp_path / "out/.packing"
    (staged / "shard-000001.tar").rename(tmp_path / "out/shard-000001.tar")
    headrace.pack_dataset(source, tmp_path / "out")
    names = ["headrace.json", "shard-000000.arrow", "shard-000000.tar"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names


def test_labels_that_changed_are_noticed_in_a_finished_and_in_a_stopped_pack(
    tmp_path: Path,
) -> None:
    source = make_folder(tmp_path / "source")
    listing = write_listing(source, 1)
    with pytest.raises(KeyboardInterrupt):
        headrace.pack_dataset(
            source,
            tmp_path / "out",
            listing=listing,
            shard_size=4000,
            workers=1,
            progress=stop_at_ten,
        )
    write_listing(source, 2)
    headrace.pack_dataset(source, tmp_path / "out", listing=listing, shard_size=4000)
    labels = headrace.open_dataset(tmp_path / "out").index["label"].to_pylist()
    assert labels == [2] * 15
    write_listing(source, 3)
    with pytest.raises(PackError, match="another source"):
        headrace.pack_dataset(source, tmp_path / "out", listing=listing, shard_size=4000)


def test_a_shard_that_another_plan_replaced_is_not_reused(tmp_path: Path) -> None:
    """Killed with one seed, killed with another between a tar and its index, run with the first."""
    source = tmp_path / "source"
    for number in range(12):
        (source / "c").mkdir(parents=True, exist_ok=True)
        data = encode(16, 16, seed=number)
        (source / "c" / f"{number:02d}.jpg").write_bytes(data + bytes(2000 - len(data)))
    headrace.pack_dataset(source, tmp_path / "expected", shard_size=12_000, seed=0)

    def kill_at(seed: int, name: str, count: int) -> None:
        code = KILLED_AT.replace("workers=1", f"workers=1, seed={seed}").replace(
            '("writev", "fsync", "replace", "mkdir", "unlink", "rmdir")', f'("{name}",)'
        )
        command = [sys.executable, "-c", code, str(source), str(tmp_path / "out"), str(count)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == -signal.SIGKILL, result.stderr

    kill_at(0, "replace", 6)  # two renames and a record a shard: the second shard is done
    kill_at(1, "replace", 2)  # after the first shard's tar, before its index
    headrace.pack_dataset(source, tmp_path / "out", shard_size=12_000, seed=0)
    assert headrace.verify_dataset(tmp_path / "out") == []
    assert digests(tmp_path / "out") == digests(tmp_path / "expected")


def test_every_file_of_a_dataset_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_folder(tmp_path / "source")
    original, synced = os.fsync, set[int]()

    def note(fd: int) -> None:
        synced.add(os.fstat(fd).st_ino)
        original(fd)

    monkeypatch.setattr(os, "fsync", note)
    headrace.pack_dataset(source, tmp_path / "out", shard_size=4000)
    made = [tmp_path / "out", *(tmp_path / "out").iterdir()]
    assert [path.name for path in made if path.stat().st_ino not in synced] == []


def test_a_full_disk_is_a_clear_error_and_packing_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_folder(tmp_path / "source")
    original, calls = os.writev, 0

    def full(fd: int, parts: list[memoryview]) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(fd, parts)

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(
            PackError, match="No space left on device.*; run the same command again"
        ):
            headrace.pack_dataset(source, tmp_path / "out", shard_size=4000, workers=1)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".packing"]
    assert not list((tmp_path / "out").rglob("*.tmp"))
    summary = headrace.pack_dataset(source, tmp_path / "out", shard_size=4000, workers=1)
    assert summary.resumed >= 2
    assert headrace.verify_dataset(tmp_path / "out") == []


def test_a_file_size_limit_of_the_system_is_a_clear_error(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source")
    code = (
        "import resource, sys, headrace\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "headrace.pack_dataset(sys.argv[1], sys.argv[2])"
    )
    command = [sys.executable, "-c", code, str(source), str(tmp_path / "out")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "PackError: packing stopped: [Errno 27] File too large" in result.stderr
    assert not looks_finished(tmp_path / "out")


@pytest.mark.parametrize("change", ["vanishes", "changes"])
def test_a_source_file_that_vanishes_or_changes_meanwhile_is_named(
    tmp_path: Path, change: str
) -> None:
    source = make_folder(tmp_path / "source")
    victim = source / "class2" / "003.jpg"

    def spoil(done: Progress) -> None:
        if done.samples == 1:
            victim.unlink() if change == "vanishes" else victim.write_bytes(encode(30, 30))

    with pytest.raises(PackError, match=r"class2/003\.jpg: the file (vanished|changed)"):
        headrace.pack_dataset(
            source, tmp_path / "out", order="source", workers=1, on_error="skip", progress=spoil
        )
    assert not looks_finished(tmp_path / "out")


def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(PackError, match="not empty"):
        headrace.pack_dataset(source, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]
    with pytest.raises(PackError, match="not a folder"):
        headrace.pack_dataset(source, tmp_path / "out" / "thesis.tex")


def test_an_empty_folder_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    headrace.pack_dataset(make_folder(tmp_path / "source"), tmp_path / "out")
    assert looks_finished(tmp_path / "out")


def test_two_packers_at_once_do_not_mix(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source")
    second: list[str] = []

    def start_second(done: Progress) -> None:
        if done.samples == 1:
            with pytest.raises(PackError, match="another process is packing"):
                headrace.pack_dataset(source, tmp_path / "out")
            second.append("refused")

    headrace.pack_dataset(source, tmp_path / "out", workers=1, progress=start_second)
    assert second == ["refused"]
    assert headrace.verify_dataset(tmp_path / "out") == []


def test_an_interrupt_stops_all_workers_and_can_be_resumed(tmp_path: Path) -> None:
    source = make_folder(tmp_path / "source", per_class=30)

    def interrupt(done: Progress) -> None:
        if done.samples == 20:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        headrace.pack_dataset(source, tmp_path / "out", shard_size=4000, progress=interrupt)
    assert not looks_finished(tmp_path / "out")
    headrace.pack_dataset(source, tmp_path / "out", shard_size=4000)
    headrace.pack_dataset(source, tmp_path / "expected", shard_size=4000)
    assert digests(tmp_path / "out") == digests(tmp_path / "expected")


def test_a_container_with_another_label_is_noticed(tmp_path: Path) -> None:
    """Names, sizes and images are the same."""
    path, images = tmp_path / "a.tfrecord", [encode(8, 8), encode(8, 8, seed=1)]

    def write(*labels: int) -> None:
        examples = [{"image": image, "label": label} for image, label in zip(images, labels)]
        write_tfrecord(path, [make_example(example) for example in examples])

    write(0, 1)
    headrace.pack_dataset(path, tmp_path / "out")
    write(0, 1)
    assert headrace.pack_dataset(path, tmp_path / "out").resumed == 1
    write(1, 0)
    with pytest.raises(PackError, match="a.tfrecord/00000[01] changed after it was packed"):
        headrace.pack_dataset(path, tmp_path / "out")
