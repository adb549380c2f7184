"""The video example as users run it, with tiny videos on the CPU."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from videos import make_video, save_videos

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = f"""
import faulthandler, runpy, sys, torch
faulthandler.dump_traceback_later(90, exit=True)
torch.set_num_threads(1)
sys.argv = sys.argv[1:]
runpy.run_path({str(ROOT / "examples" / "video.py")!r}, run_name="__main__")
"""
TINY = ["--frames", "4", "--size", "16", "--views", "2", "-p", "1", "-b", "4"]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    samples = [make_video(i, 12 + i % 5, (24, 32)) for i in range(24)]
    return save_videos(tmp_path_factory.mktemp("videos") / "packed", samples)


def start(folder: Path, data: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error::UserWarning", "-c", LAUNCH, "video.py", str(data)]
    command += [*TINY, "--checkpoint", str(folder / "checkpoint.pt"), *options]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def losses(output: str) -> dict[str, str]:
    return dict(re.findall(r"Epoch: (\S+)\t.*\tLoss (\S+) ", output))


def test_it_trains_and_logs_the_line_of_the_original(shards: Path, tmp_path: Path) -> None:
    output = finish(start(tmp_path, shards, "--epochs", "1", "--flip"))
    assert "Clip(4, step=2)" in output
    line = r"Epoch: \[0\]\[4/4\]\tTime \S+ \(\S+\)\tData \S+ \(\S+\)\tLoss \S+ \(\S+\)\tPrec@1 \S+ \(\S+\)\tPrec@5"
    assert re.search(line, output)
    assert "Validation: 5 videos" in output


def test_a_gulp_directory_is_packed_first(shards: Path, tmp_path: Path) -> None:
    for part in ("train", "val"):
        samples = headrace.open_dataset(shards)
        headrace.export_samples(samples, tmp_path / "gulps" / part, to="gulp")
    output = finish(start(tmp_path, tmp_path / "gulps", "--epochs", "1"))
    assert "packing" in output and "Validation: 24 videos" in output
    assert (tmp_path / "gulps/train-shards/headrace.json").exists()


def test_killed_in_mid_epoch_and_resumed_the_losses_are_the_same(
    shards: Path, tmp_path: Path
) -> None:
    (tmp_path / "whole").mkdir()
    options = ["--epochs", "2", "--checkpoint-steps", "2"]
    expected = losses(finish(start(tmp_path / "whole", shards, *options)))
    process = start(tmp_path, shards, *options)
    assert process.stdout is not None
    first = ""
    for line in process.stdout:
        first += line
        if "[0][3/4]" in line:
            process.send_signal(signal.SIGKILL)
            break
    process.communicate()
    second = finish(start(tmp_path, shards, *options, "--resume", str(tmp_path / "checkpoint.pt")))
    assert "[0][3/4]" in second and "[0][2/4]" not in second
    assert losses(first + second) == expected and len(expected) == 8


def test_two_ranks_validate_every_video_once(shards: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [
        start(
            tmp_path,
            shards,
            *("--epochs", "1"),
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
        )
        for rank in range(2)
    ]
    output = [finish(process) for process in ranks]
    assert "Validation: 5 videos" in output[0] and output[1] == ""
