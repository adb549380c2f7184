"""GulpDirectory in the workers of torch's DataLoader, used as GulpIO-benchmarks uses it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from headrace.compat.gulpio import GulpDirectory, GulpVideoDataset
from headrace.compat.gulpio.decode_frames import count_threads


class Clips(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    """Clips of 18 frames, every second one, cropped to 84 pixels: float32[3, 18, 84, 84] and a label."""

    def __init__(self, root: Path, is_val: bool) -> None:
        self.directory = GulpDirectory(root)
        self.meta = self.directory.merged_meta_dict
        self.ids = sorted(self.meta)
        self.is_val = is_val

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[Any, str]:
        count = len(self.meta[self.ids[index]]["frame_info"])
        start = 0 if self.is_val or count <= 36 else np.random.randint(0, count - 36)
        frames, meta = self.directory[self.ids[index], slice(start, start + 36, 2)]
        frames.extend([frames[-1]] * (18 - len(frames)))
        clip = np.stack([frame[8:92, 46:130] for frame in frames])
        return torch.from_numpy(clip).permute(3, 0, 1, 2).float() / 255, meta["label"]


def load(dataset: Any, **options: Any) -> list[Any]:
    return list(torch.utils.data.DataLoader(dataset, 10, **options))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_load_the_clips_that_one_process_loads(videos: Path, method: str) -> None:
    dataset = Clips(videos, is_val=True)
    wanted = load(dataset)  # opens the files, which forked workers then share
    found = load(dataset, num_workers=2, multiprocessing_context=method)
    assert found[0][0].shape == (10, 3, 18, 84, 84)
    for (clips, labels), (others, same) in zip(wanted, found, strict=True):
        assert torch.equal(clips, others) and labels == same


def test_random_clips_have_the_shape_of_the_benchmark(videos: Path) -> None:
    batches = load(Clips(videos, is_val=False), num_workers=2, multiprocessing_context="fork")
    assert batches[0][0].size() == torch.Size([10, 3, 18, 84, 84])


def test_gulp_and_packed_give_the_same_clips(gulp: Path, packed_gulp: Path) -> None:
    one, other = Clips(gulp, is_val=True), Clips(packed_gulp, is_val=True)
    assert all(torch.equal(one[i][0], other[i][0]) for i in range(len(one)))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_video_dataset_crosses_to_workers(gulp: Path, method: str) -> None:
    dataset = GulpVideoDataset(gulp, 4, 2, is_val=True)
    batches = load(dataset, num_workers=1, multiprocessing_context=method)
    assert [tuple(clips.shape) for clips, _ in batches] == [
        (10, 4, 100, 176, 3),
        (2, 4, 100, 176, 3),
    ]
    assert torch.cat([targets for _, targets in batches]).tolist() == [
        dataset[i][1] for i in range(len(dataset))
    ]


class Threads:
    """A dataset that says how many threads decode in its process."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return count_threads()


def test_workers_divide_the_cores() -> None:
    cores = len(os.sched_getaffinity(0))
    assert count_threads() == cores
    (found,) = load(Threads(), num_workers=2, multiprocessing_context="fork")
    assert found.tolist() == [max(1, cores // 2)] * 4
