"""Clips of a gulp: the batches that the loader of GulpIO-benchmarks makes of the same files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headrace import Sample, export_samples, open_dataset, pack_dataset
from headrace.transforms import CenterCrop, Clip, Normalize
from images import encode
from videos import join_frames, save_videos

torch = pytest.importorskip("torch")

from headrace.torch import Loader

CLASSES = ["Swiping Left", "No gesture", "Thumb Up", "Doing other things"]  # not sorted
CLIP, STEP, SIZE = 18, 2, 84


def make_gulp(folder: Path, count: int) -> list[Sample]:
    """A gulp of `count` videos of 1 to 50 frames, and of the names of its classes a file."""
    pictures = [encode(100, 176, seed=k) for k in range(60)]
    rng = np.random.default_rng(0)
    samples = []
    for number in range(count):
        first, length = int(rng.integers(10)), int(rng.integers(1, 51))
        label = int(rng.integers(len(CLASSES)))
        samples.append(join_frames(str(number), pictures[first : first + length], label))
    packed = save_videos(folder / "first", samples, classes=CLASSES)
    export_samples(open_dataset(packed), folder / "gulp", to="gulp", classes=CLASSES)
    (folder / "labels.csv").write_text("\n".join(CLASSES) + "\n")
    return samples


@cache
def decode(picture: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture)))


def read_as_the_original(gulp: Path, samples: list[Sample]) -> Iterator[tuple[np.ndarray, int]]:
    """For each video, the frames 0, 2, 4, ... up to 34, repeating the last one, and the row of its label."""
    videos, content = {}, {}
    for meta in gulp.glob("gulp/*.gmeta"):
        name = meta.name.replace("meta", "data", 1).replace(".gmeta", ".gulp")
        data = meta.with_name(name).read_bytes()
        for key, video in json.loads(meta.read_text()).items():
            videos[key], content[key] = video, data
    with open(gulp / "labels.csv") as file:
        numbers = {row[0]: number for number, row in enumerate(csv.reader(file))}
    for sample in samples:
        video, frames = videos[sample.key], []
        data = content[sample.key]
        for start, padding, size in video["frame_info"][: CLIP * STEP : STEP]:
            frames.append(decode(data[start : start + size - padding])[8:92, 46:130])
        frames += [frames[-1]] * (CLIP - len(frames))
        yield np.stack(frames), numbers[video["meta_data"][0]["label"]]


def test_fifty_batches_are_those_of_the_original_loader(tmp_path: Path) -> None:
    samples = make_gulp(tmp_path, 500)
    names = (tmp_path / "labels.csv").read_text().splitlines()
    pack_dataset(tmp_path / "gulp", tmp_path / "packed", order="source", classes=names)
    keys = {sample.key: n for n, sample in enumerate(open_dataset(tmp_path / "packed"))}
    order = sorted(samples, key=lambda sample: keys[sample.key])
    expected = read_as_the_original(tmp_path, order)
    unit = Normalize((0, 0, 0), (1, 1, 1))  # ToTensor
    steps = [Clip(CLIP, STEP, at="start"), CenterCrop(SIZE), unit]
    batches = 0
    for clips, labels in Loader(tmp_path / "packed", 10, transform=steps):
        assert clips.shape == (10, 3, CLIP, SIZE, SIZE)
        for clip, label in zip(clips, labels, strict=True):
            frames, number = next(expected)
            tensor = torch.from_numpy(frames).permute(3, 0, 1, 2).float().div(255)
            assert torch.equal(clip, tensor) and label == number
        batches += 1
    assert batches == 50
