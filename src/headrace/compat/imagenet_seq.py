"""sequential-imagenet-dataloader's `ImagenetLoader`, over a Headrace loader.

    from headrace.compat.imagenet_seq import ImagenetLoader      # was: from imagenet_seq.data import Loader

Reads the LMDB files that its `preprocess_sequential.py` has written, where they lie; or packed shards, or plain
image folders, named `train` and `val`. Mended: every sample comes exactly once an epoch, the last batch too
unless `drop_last`; validation is in order; an epoch ends; ranks of torch.distributed divide it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from headrace import torch


class ImagenetLoader(torch.Loader):
    """Batches of (images, labels) of `ILSVRC-<mode>.lmdb` in `imagenet_dir`.

    mode: `train` or `val`. transform: what each PIL image goes through; None makes batches only of images
    of one size. cache: over how many samples to shuffle.
    """

    def __init__(
        self,
        imagenet_dir: str | os.PathLike[str],
        mode: str,
        transform: Any,
        batch_size: int,
        shuffle: bool = False,
        num_workers: int = 4,
        cache: int = 50_000,
        drop_last: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(
            find_data(Path(imagenet_dir), mode),
            batch_size,
            transform=transform,
            shuffle=shuffle,
            num_workers=num_workers,
            window=cache,
            drop_last=drop_last,
            **options,
        )
        self._arguments = {
            "imagenet_dir": imagenet_dir,
            "mode": mode,
            "transform": transform,
            "batch_size": batch_size,
            "shuffle": shuffle,
            "num_workers": num_workers,
            "cache": cache,
            "drop_last": drop_last,
            **options,
        }


Loader = ImagenetLoader
"""The name in the original's README; intentional: scripts in the wild use both."""


def find_data(folder: Path, mode: str) -> Path:
    """The database of a mode, or what was packed or left in a folder of that name."""
    if mode not in ("train", "val"):
        raise ValueError(f"mode is {mode!r}; give 'train' or 'val'")
    for path in (folder / f"ILSVRC-{mode}.lmdb", folder / mode):
        if path.exists():
            return path
    raise FileNotFoundError(f"{folder}: has neither ILSVRC-{mode}.lmdb nor a folder {mode}")
