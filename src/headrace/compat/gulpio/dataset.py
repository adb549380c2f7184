"""GulpIO's datasets for DataLoader: clips of videos, and images."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.compat.gulpio.fileio import GulpDirectory
from headrace.errors import SourceError

__all__ = ["GulpImageDataset", "GulpVideoDataset"]


class GulpVideoDataset:
    """A dataset whose sample `i` is (clip, number of the label).

    A clip that is shorter than `num_frames` is filled up with its last frame. (GulpIO counts frames before
    taking every `step_size`-th, and returns clips of other lengths.)

    Args:
        data_path: A gulp folder or a packed dataset, as for `GulpDirectory`.
        num_frames: Frames in a clip. -1: every `step_size`-th frame of the video.
        step_size: Distance of two frames of a clip in the video.
        is_val: Whether clips begin with the first frame. Otherwise the start is random, by `np.random`.
        transform: Applied to the list of frames, for example a `ComposeVideo`.
        target_transform: Applied to the number of the label.
        stack: Whether frames are stacked into one array [T, H, W, 3]. Otherwise they are a list.
        random_offset: False: clips begin with the first frame in any case.
    """

    def __init__(
        self,
        data_path: str | os.PathLike[str],
        num_frames: int,
        step_size: int,
        is_val: bool,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        stack: bool = True,
        random_offset: bool = True,
    ) -> None:
        self.gd = GulpDirectory(data_path)
        self.data_path, self.num_chunks = data_path, self.gd.num_chunks
        self.ids, self.label2idx = list(self.gd.chunk_lookup), self.gd.label2idx
        self.classes = list(self.label2idx)
        self.num_frames, self.step_size, self.is_val = num_frames, step_size, is_val
        self.transform_video, self.target_transform = transform, target_transform
        self.stack, self.random_offset = stack, random_offset

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        id_ = self.ids[index]
        info = self.gd.merged_meta_dict[id_]
        target: Any = find_target(self.gd, id_, info)
        frames: Any = self.gd[id_, self._choose_clip(len(info["frame_info"]))][0]
        frames += frames[-1:] * (self.num_frames - len(frames))
        if self.transform_video is not None:
            frames = self.transform_video(frames)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return np.stack(frames) if self.stack else frames, target

    def _choose_clip(self, count: int) -> slice:
        needed = self.num_frames * self.step_size if self.num_frames > -1 else count
        offset = 0
        if needed < count and self.random_offset and not self.is_val:
            # Intentional: GulpIO's draw, which excludes the last start; the same seed gives the same clips.
            offset = np.random.randint(0, count - needed)
        return slice(offset, needed + offset, self.step_size)


class GulpImageDataset:
    """A dataset whose sample `i` is (image, number of the label). Every id has one frame.

    Args:
        data_path: A gulp folder or a packed dataset, as for `GulpDirectory`.
        is_val: Kept as an attribute.
        transform: Applied to each image, uint8[H, W, 3].
        target_transform: Applied to the number of the label. (GulpIO ignores it.)
    """

    def __init__(
        self,
        data_path: str | os.PathLike[str],
        is_val: bool = False,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.gd = GulpDirectory(data_path)
        self.data_path, self.num_chunks = data_path, self.gd.num_chunks
        self.ids, self.label2idx = list(self.gd.chunk_lookup), self.gd.label2idx
        self.classes = list(self.label2idx)
        self.transform, self.target_transform, self.is_val = transform, target_transform, is_val

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        id_ = self.ids[index]
        info = self.gd.merged_meta_dict[id_]
        if len(info["frame_info"]) > 1:
            raise SourceError(
                f"{self.data_path}: {id_!r} has {len(info['frame_info'])} frames; use GulpVideoDataset"
            )
        target: Any = find_target(self.gd, id_, info)
        image = self.gd[id_][0][0]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target


def find_target(directory: GulpDirectory, id_: str, info: dict[str, Any]) -> int:
    """Return the number of the label of an id, by `label2idx.json` or the classes of the dataset."""
    label = next((meta.get("label") for meta in info["meta_data"]), None)
    if label is None or str(label) not in directory.label2idx:
        raise SourceError(
            f"{directory.output_dir}: {id_!r} has the label {label!r:.60}, which has no number"
        )
    return directory.label2idx[str(label)]
