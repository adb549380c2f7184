"""sequential-imagenet-dataloader's `ImagenetLoader`, over a Headrace loader.

    from headrace.compat.imagenet_seq import ImagenetLoader      # was: from imagenet_seq.data import Loader

Reads the LMDB files of its `preprocess_sequential.py` in place; or packed shards, or plain image folders, named
`train` and `val`. Unlike the original: every sample comes exactly once per epoch, also in the last batch unless
`drop_last`; validation is in order; an epoch ends; ranks of torch.distributed divide it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from headrace import torch

__all__ = ["ImagenetLoader"]


class ImagenetLoader(torch.Loader):
    """Load batches of (images, labels) of `ILSVRC-<mode>.lmdb` in `imagenet_dir`.

    Args:
        mode: `train` or `val`.
        transform: applied to each PIL image. With None, all images must have one size.
        cache: samples to shuffle over.
        options: other options of `headrace.torch.Loader`.
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


Loader = ImagenetLoader
"""The name in the original's README; intentional: scripts in the wild use both."""


def find_data(folder: Path, mode: str) -> Path:
    """Return the database of a mode, or the dataset or folder of that name."""
    if mode not in ("train", "val"):
        raise ValueError(f"mode is {mode!r}; give 'train' or 'val'")
    for path in (folder / f"ILSVRC-{mode}.lmdb", folder / mode):
        if path.exists():
            return path
    raise FileNotFoundError(f"{folder}: it has neither ILSVRC-{mode}.lmdb nor a folder {mode}")
