"""ILSVRC12 as tensorpack reads it: [BGR image, label] or [file name, label].

Labels follow the sorted synset folders, which is the order of caffe's synsets.txt. Nothing is
downloaded: lists that folders cannot tell (a flat `val/`) are read from `val.txt` in `meta_dir` or
beside the images, a line "file label" each.
"""

from __future__ import annotations

import os
from typing import Any

from headrace.compat.tensorpack.dataflow import RNGDataFlow, Shell
from headrace.compat.tensorpack.image import read_image
from headrace.errors import SourceError
from headrace.flow.flow import Flow


class ILSVRC12Files(Shell, RNGDataFlow):
    """[full path, label] for each image of the split `name`, shuffled by default if it is train."""

    def __init__(
        self,
        dir: str,
        name: str,
        meta_dir: str | None = None,
        shuffle: bool | None = None,
        dir_structure: str | None = None,
    ) -> None:
        if name not in ("train", "val", "test"):
            raise ValueError(f"name must be train, val or test, not {name!r}")
        root = os.path.expanduser(dir)
        folder = os.path.join(root, name)
        if not os.path.isdir(folder):
            raise SourceError(f"no folder {folder}: {dir} should hold train/, val/ or test/")
        self.imglist = read_list(folder, name, meta_dir or root, dir_structure)
        flow = Flow.of([[os.path.join(folder, file), label] for file, label in self.imglist])
        self.shuffle = name == "train" if shuffle is None else shuffle
        self.full_dir, self.name = folder, name
        super().__init__(
            self._finish(flow.shuffle(seed=self._source_seed) if self.shuffle else flow)
        )

    def _finish(self, flow: Flow) -> Flow:
        return flow


class ILSVRC12(ILSVRC12Files):
    """[uint8 image HWC in BGR, label] for each image of the split."""

    def _finish(self, flow: Flow) -> Flow:
        return flow.map(_read_image)


def read_list(
    folder: str, name: str, meta_dir: str, structure: str | None
) -> list[tuple[str, int]]:
    """Return (file below `folder`, label) of a split, in the order of its list or of its folders."""
    synsets = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    listed = os.path.join(meta_dir, f"{name}.txt")
    flat = structure == "original" or (structure is None and not synsets)
    if os.path.isfile(listed) and (flat or name == "train"):
        with open(listed, encoding="utf-8") as lines:
            pairs = [line.rsplit(maxsplit=1) for line in lines if line.strip()]
        return [(file, int(label)) for file, label in pairs]
    if flat:
        raise SourceError(f"{folder} has no folder per class, and there is no list {listed}")
    return [
        (os.path.join(synset, file), label)
        for label, synset in enumerate(synsets)
        for file in sorted(os.listdir(os.path.join(folder, synset)))
    ]


def _read_image(item: list[Any]) -> list[Any]:
    path, label = item
    return [read_image(path), label]
