"""The loaders that clips.py compares: each a function from the working folder to an iterable of (clips, labels).

Everyone has as many worker processes or threads as there are cores. `SEED` loads what the fetch benchmark of
GulpIO-benchmarks loads: clips of 18 frames, every second one, the centre of 84 x 84 pixels as float32, batch 10,
[10, 3, 18, 84, 84]. `MP4` loads what video networks train on: clips of 16 frames, every fourth one,
RandomResizedCrop(224), as bytes, batch 16. A video that is too short is continued with the last frame taken.
"""

from __future__ import annotations

import csv
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from torchvision_import import import_torchvision

WORKERS = os.cpu_count() or 1
SEED_BATCH, SEED_FRAMES, SEED_STEP, SEED_SIZE = 10, 18, 2, 84
BATCH, FRAMES, STEP, SIZE = 16, 16, 4, 224


@dataclass(frozen=True)
class ClipLoader:
    """A loader: its function of (folder, shuffle), what it reads there, the modules it imports and where they are."""

    open: Callable[[Path, bool], Any]
    data: str
    modules: tuple[str, ...]
    environment: str = ""


def load_torch(dataset: Any, batch: int, shuffle: bool) -> Any:
    from torch.utils.data import DataLoader

    options = {"num_workers": WORKERS, "persistent_workers": True}
    return DataLoader(dataset, batch, shuffle, drop_last=True, **options)


class SeedVideos:
    """A map-style dataset of the seed's clips; `read(name, count)` gives the frames `offset` to `offset + need` of one."""

    def __init__(self, listing: Path, read: Callable[[str], Any], to_tensor: Any) -> None:
        with listing.open() as file:
            self.rows = list(csv.reader(file, delimiter=";"))
        self.classes = listing.with_name("labels.csv").read_text().split()
        self.read, self.to_tensor = read, to_tensor

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        import torch

        name, label = self.rows[number]
        frames = [self.to_tensor(frame) for frame in self.read(name)]
        frames += frames[-1:] * (SEED_FRAMES - len(frames))
        return torch.stack(frames, 1), self.classes.index(label)


def draw_slice(count: int) -> slice:
    """Draw the frames of a clip as the seed does: its benchmark takes training clips, which start anywhere."""
    need = SEED_FRAMES * SEED_STEP
    offset = random.randrange(count - need) if need < count else 0
    return slice(offset, offset + need, SEED_STEP)


@cache
def make_seed_steps(from_array: bool) -> Any:
    T = import_torchvision().transforms
    steps = [T.CenterCrop(SEED_SIZE), T.ToTensor()]
    return T.Compose([T.ToPILImage(), *steps] if from_array else steps)


def crop_array(frame: Any) -> Any:
    """Do what CenterCrop and ToTensor do, without the detour through PIL."""
    import torch

    top, left = ((side - SEED_SIZE) // 2 for side in frame.shape[:2])
    crop = frame[top : top + SEED_SIZE, left : left + SEED_SIZE]
    return torch.from_numpy(crop).permute(2, 0, 1).to(torch.float32).div_(255)


def open_loose(folder: Path, shuffle: bool) -> Any:
    """Open each frame of a clip with PIL, as the seed's data_loader_jpeg.py does."""
    from PIL import Image

    root = folder / "jester" / "frames"

    def read(name: str) -> list[Any]:
        names = sorted(os.listdir(root / name))
        return [
            Image.open(root / name / one).convert("RGB") for one in names[draw_slice(len(names))]
        ]

    videos = SeedVideos(folder / "jester" / "videos.csv", read, make_seed_steps(from_array=False))
    return load_torch(videos, SEED_BATCH, shuffle)


def open_gulp(to_tensor: Callable[[], Any], folder: Path, shuffle: bool) -> Any:
    """Slice videos of a GulpDirectory, as the seed's data_loader_gulpio.py does."""
    from gulpio2 import GulpDirectory

    gulp = GulpDirectory(str(folder / "jester-gulp"))

    def read(name: str) -> list[Any]:
        count = len(gulp.merged_meta_dict[name]["frame_info"])
        return list(gulp[name, draw_slice(count)][0])

    videos = SeedVideos(folder / "jester" / "videos.csv", read, to_tensor())
    return load_torch(videos, SEED_BATCH, shuffle)


def open_seed_headrace(folder: Path, shuffle: bool) -> Any:
    from headrace.torch import Loader
    from headrace.transforms import CenterCrop, Clip, Normalize

    steps = [
        Clip(SEED_FRAMES, step=SEED_STEP),
        CenterCrop(SEED_SIZE),
        Normalize(mean=(0, 0, 0), std=(1, 1, 1)),
    ]
    packed = folder / "jester-packed"
    return Loader(
        packed, SEED_BATCH, shuffle=shuffle, drop_last=True, transform=steps, threads=WORKERS
    )


def draw_frames(count: int) -> list[int]:
    """Draw a clip that starts anywhere it fits; a video that is too short goes on with the last frame taken."""
    span = (FRAMES - 1) * STEP + 1
    start = random.randrange(max(count - span, 0) + 1)
    taken = range(start, min(start + span, count), STEP)
    return [*taken, *[taken[-1]] * (FRAMES - len(taken))]


class Mp4Videos:
    """A map-style dataset of clips of mp4 files; `read(path)` gives uint8[T, 3, H, W]."""

    def __init__(self, root: Path, read: Callable[[str], Any]) -> None:
        self.paths = sorted(map(str, root.rglob("*.mp4")))
        import_torchvision()
        from torchvision.transforms import v2

        self.read, self.crop = read, v2.RandomResizedCrop(SIZE)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        return self.crop(self.read(self.paths[number])), 0


def open_mp4(read: Callable[[str], Any], videos: str, folder: Path, shuffle: bool) -> Any:
    return load_torch(Mp4Videos(folder / videos, read), BATCH, shuffle)


def read_pyav(path: str) -> Any:
    """Decode from the keyframe before the clip to its last frame; convert the frames of the clip alone."""
    import av
    import numpy as np
    import torch

    with av.open(path) as container:
        stream = container.streams.video[0]
        wanted = draw_frames(stream.frames)
        per_frame = 1 / (stream.average_rate * stream.time_base)
        first = stream.start_time or 0
        if wanted[0]:
            container.seek(first + round(wanted[0] * per_frame), stream=stream)
        found: dict[int, Any] = {}
        for frame in container.decode(stream):
            number = round((frame.pts - first) / per_frame)
            if number in wanted:
                found[number] = frame.to_ndarray(format="rgb24")
            if number >= wanted[-1]:
                break
    last = max(found)
    frames = np.stack([found.get(number, found[last]) for number in wanted])
    return torch.from_numpy(frames).permute(0, 3, 1, 2)


def read_decord(path: str) -> Any:
    import decord
    import torch

    reader = decord.VideoReader(path, num_threads=1)
    frames = reader.get_batch(draw_frames(len(reader))).asnumpy()
    return torch.from_numpy(frames).permute(0, 3, 1, 2)


def read_torchcodec(mode: str, path: str) -> Any:
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(path, seek_mode=mode, num_ffmpeg_threads=1)
    return decoder.get_frames_at(draw_frames(len(decoder))).data


def open_dali(folder: Path, shuffle: bool) -> Any:
    """Decode with DALI's CPU backend; every clip starts at the first frame, which spares it decoding."""
    from nvidia.dali import fn, pipeline_def

    paths = sorted(map(str, (folder / "mp4").rglob("*.mp4")))

    @pipeline_def(batch_size=BATCH, num_threads=WORKERS, device_id=None)
    def load() -> Any:
        files, labels = fn.readers.file(files=paths, random_shuffle=shuffle, initial_fill=64)
        clips = fn.decoders.video(
            files, device="cpu", sequence_length=FRAMES, stride=STEP, pad_mode="edge"
        )
        return fn.random_resized_crop(clips, size=[SIZE, SIZE]), labels

    pipeline = load()
    pipeline.build()

    def run() -> Any:
        while True:
            clips, labels = pipeline.run()
            yield clips.as_tensor(), labels

    return run()


def open_headrace(packed: str, folder: Path, shuffle: bool) -> Any:
    from headrace.torch import Loader
    from headrace.transforms import Clip, RandomResizedCrop

    steps = [Clip(FRAMES, step=STEP), RandomResizedCrop(SIZE)]
    source = folder / packed
    return Loader(source, BATCH, shuffle=shuffle, drop_last=True, transform=steps, threads=WORKERS)


LOOSE, GULP, OURS = "loose frames, PIL", "GulpIO2", "Headrace, packed"
NATIVE, SHORT = "Headrace, frames as they are", "Headrace, frames of 256 px"
TORCH = ("torch", "torchvision")

SEED = {
    OURS: ClipLoader(open_seed_headrace, "jester-packed", ("torch", "headrace")),
    GULP: ClipLoader(
        partial(open_gulp, lambda: make_seed_steps(from_array=True)),
        "jester-gulp",
        ("gulpio2", *TORCH),
        "gulpio2",
    ),
    "GulpIO2, without ToPILImage": ClipLoader(
        partial(open_gulp, lambda: crop_array), "jester-gulp", ("gulpio2", *TORCH), "gulpio2"
    ),
    LOOSE: ClipLoader(open_loose, "jester/frames", (*TORCH, "PIL")),
}
DECODERS = {
    "PyAV": (read_pyav, "av"),
    "decord": (read_decord, "decord"),
    "torchcodec, exact": (partial(read_torchcodec, "exact"), "torchcodec"),
    "torchcodec, approximate": (partial(read_torchcodec, "approximate"), "torchcodec"),
}


def list_mp4_loaders(
    ours: str, packed: str, videos: str, suffix: str = ""
) -> dict[str, ClipLoader]:
    """Return the loaders of the same videos: packed as frames, and as mp4 through each decoder."""
    loaders = {ours: ClipLoader(partial(open_headrace, packed), packed, ("torch", "headrace"))}
    for name, (read, module) in DECODERS.items():
        start = partial(open_mp4, read, videos)
        loaders[name + suffix] = ClipLoader(start, videos, (*TORCH, module), "video")
    return loaders


MP4 = {
    **list_mp4_loaders(NATIVE, "native-packed", "mp4"),
    "DALI, CPU": ClipLoader(open_dali, "mp4", ("nvidia.dali",), "dali"),
}
MP4_SHORT = list_mp4_loaders(SHORT, "short-packed", "mp4-short", ", 256 px")
