"""The ImageNet example as users run it, with tiny images on the CPU."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import headrace
from trees import make_folder

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
# torchvision's operators have no CPU build here; what each rank is given is written down; one that hangs says where.
LAUNCH = f"""
import faulthandler, json, os, runpy, sys, torch
faulthandler.dump_traceback_later(90, exit=True)
torch.set_num_threads(1)
for name in ("nms", "qnms"):
    torch.library.define(f"torchvision::{{name}}", "(Tensor a, Tensor b, float c) -> Tensor")
import headrace.torch
class Recorded(headrace.torch.Loader):
    def __iter__(self):
        for batch in super().__iter__():
            entry = [str(self.dataset.path.name), batch.epoch, batch.step, batch.rows[batch.valid].tolist()]
            with open(os.environ["SEEN"] + os.environ.get("RANK", "0"), "a") as file:
                file.write(json.dumps(entry) + "\\n")
            yield batch
headrace.torch.Loader = Recorded
sys.argv = sys.argv[1:]
runpy.run_path({str(ROOT / "examples" / "imagenet.py")!r}, run_name="__main__")
"""
TINY = ["--image-size", "32", "--classes", "4", "-p", "1", "--lr", "0.01", "-b", "8"]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("imagenet")
    make_folder(root / "folders" / "train", classes=4, per_class=13, size=40)
    make_folder(root / "folders" / "val", classes=4, per_class=3, size=40)
    for part in ("train", "val"):
        headrace.pack_dataset(root / "folders" / part, root / "shards" / part)
    return root


def start(folder: Path, data: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error::UserWarning", "-c", LAUNCH, "imagenet.py", str(data)]
    command += [*TINY, "--checkpoint", str(folder / "checkpoint.pt"), *options]
    variables = {**os.environ, "SEEN": str(folder / "seen"), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def losses(output: str) -> dict[str, str]:
    return dict(re.findall(r"Epoch: (\S+) .* Loss (\S+) ", output))


def seen(folder: Path, rank: int) -> list[list[object]]:
    return [json.loads(line) for line in (folder / f"seen{rank}").read_text().splitlines()]


def test_it_trains_from_a_plain_folder_and_logs_the_familiar_line(
    shards: Path, tmp_path: Path
) -> None:
    output = finish(start(tmp_path, shards / "folders", "--epochs", "1", "--amp", "bf16"))
    assert "RandomResizedCrop" in output and "core" in output
    line = r"Epoch: \[0\]\[6/6\] +Time \S+ \(\S+\) +Data \S+ \(\S+\) +Loss \S+ \(\S+\) +Error@1 \S+ \(\S+\) Error@5"
    assert re.search(line, output)
    assert "Validation: 12 images" in output


@pytest.mark.parametrize("recipe", ["v2", "deit", "a3"])
def test_published_recipes_run_in_the_core_and_mix(
    shards: Path, tmp_path: Path, recipe: str
) -> None:
    if recipe != "v2" and find_spec("timm") is None:
        pytest.skip("needs timm")
    options = ["--epochs", "1", "-b", "32", "--repeat", "2", "--recipe", recipe]
    output = finish(start(tmp_path, shards / "shards", *options))
    assert "Python" not in output and "core, on finished batches" in output
    assert ("TrivialAugmentWide" if recipe == "v2" else "RandAugment(n=2") in output
    assert ("RandomErasing" in output) == (recipe != "a3")
    assert "Validation: 12 images" in output
    assert all(float(loss) > 0 for loss in losses(output).values()) and losses(output)


def test_killed_in_mid_epoch_and_resumed_the_losses_are_the_same(
    shards: Path, tmp_path: Path
) -> None:
    (tmp_path / "whole").mkdir()
    options = ["--epochs", "2", "--checkpoint-steps", "2"]
    expected = losses(finish(start(tmp_path / "whole", shards / "shards", *options)))
    process = start(tmp_path, shards / "shards", *options)
    assert process.stdout is not None
    first = ""
    for line in process.stdout:
        first += line
        if "[0][5/6]" in line:
            process.send_signal(signal.SIGKILL)
            break
    process.communicate()
    checkpoint = ["--resume", str(tmp_path / "checkpoint.pt")]
    second = finish(start(tmp_path, shards / "shards", *options, *checkpoint))
    assert "[0][5/6]" in second and "[0][4/6]" not in second
    assert losses(second).items() <= losses(first + second).items()
    assert losses(first + second) == expected and len(expected) == 12


def test_two_ranks_see_each_sample_of_an_epoch_once(shards: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [
        start(
            tmp_path,
            shards / "shards",
            *("--epochs", "1"),
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
        )
        for rank in range(2)
    ]
    outputs = [finish(process) for process in ranks]
    assert "Validation: 12 images" in outputs[0] and "Epoch" not in outputs[1]
    both = seen(tmp_path, 0) + seen(tmp_path, 1)
    for part, count in (("train", 48), ("val", 12)):
        rows = [row for name, _, _, batch in both if name == part for row in batch]  # type: ignore[attr-defined]
        assert len(rows) == len(set(rows)) == count
    steps = [[entry[:3] for entry in seen(tmp_path, rank)] for rank in range(2)]
    assert steps[0] == steps[1]
