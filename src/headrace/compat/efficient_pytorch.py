"""Efficient-PyTorch's `ImageFolderLMDB`: a dataset for torch's DataLoader over the LMDB of its `folder2lmdb.py`.

    from headrace.compat.efficient_pytorch import ImageFolderLMDB    # was: from folder2lmdb import ImageFolderLMDB

Reads the files of all its versions and forks (pyarrow.serialize, msgpack, pickle), without lmdb and
without running code from a file. Unlike the original, it works under spawn and after fork, and holds no open file.
Headrace's own loader reads the same file faster: `headrace.torch.Loader("val.lmdb", 256, transform=...)`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from PIL import Image

from headrace.errors import MissingExtraError, SourceError
from headrace.formats.layouts.lmdb import open_lmdb
from headrace.render import decode_jpeg
from headrace.sample import is_image_field

try:
    from torch.utils.data import Dataset
except ModuleNotFoundError:
    raise MissingExtraError("torch", "torch") from None

__all__ = ["ImageFolderLMDB"]


class ImageFolderLMDB(Dataset[tuple[Any, Any]]):
    """A dataset whose sample `i` is (image, target).

    Args:
        db_path: the LMDB file.
        transform: applied to each PIL image (RGB).
        target_transform: applied to each label.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.db_path = os.fspath(db_path)
        self.transform = transform
        self.target_transform = target_transform
        self._source = open_lmdb(db_path)
        self.length = len(self._source.names)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        sample = self._source.read(range(self.length)[index])
        fields = [name for name in sample if is_image_field(name)]
        if len(fields) != 1:
            raise SourceError(
                f"{self.db_path}: {sample.key!r} has the fields {list(sample)}; one image is needed"
            )
        image: Any = Image.fromarray(decode_jpeg(sample[fields[0]]))
        target: Any = sample.label
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def __repr__(self) -> str:
        return f"{type(self).__name__} ({self.db_path})"
