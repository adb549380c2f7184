"""Tells archives of classes from WebDataset: both are tars, but in the former folders or tars are the labels.

ImageNet comes as a tar per class, Food-101 as one tar of class folders. Read as WebDataset, no sample of them has
a label. WebDataset without labels lies flat or in one folder, or has other fields beside its images.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.errors import SourceError
from headrace.formats.names import printable
from headrace.sample import is_image_field

_SUFFIX = re.compile(r"\.(tar|tar\.gz|tgz)$", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*?)(\d{4,})(?:-of-\d+)?")
_OTHERWISE = (
    "If they are no classes: --format webdataset packs them, or makes an index to load (`headrace index --format "
    "webdataset --out DIR`), as they are, without labels"
)


@dataclass
class TarNames:
    """What the names in one tar tell of it."""

    file: str
    folders: list[str] = field(default_factory=list)
    """The first two that images lie in."""
    all_begin_with_it: bool = True
    """Whether every image is called by the tar's own name and more, such as `n01_7` or `n01/7` in `n01.tar`."""
    has_more: bool = False
    """Whether something lies beside an image: a label, a caption."""

    def __post_init__(self) -> None:
        self._begin = re.compile(re.escape(_SUFFIX.sub("", self.file)) + r"[/_-]")

    def add(self, key: str, fields: Iterable[str]) -> None:
        """Takes note of a sample."""
        images = [is_image_field(name) for name in fields]
        if not any(images):
            return
        self.has_more |= not all(images)
        self.all_begin_with_it &= self._begin.match(key) is not None
        folder = key.rpartition("/")[0]
        if len(self.folders) < 2 and folder not in self.folders:
            self.folders.append(folder)


def check_no_classes(path: object, tars: Sequence[TarNames]) -> None:
    """SourceError if the images have no labels, but are in class folders or in tars called by their class."""
    tars = [tar for tar in tars if tar.folders]
    if any(tar.has_more for tar in tars) or _are_shards(tars):
        return
    for tar in tars:
        if len(tar.folders) > 1:
            shown = ", ".join(printable(folder or ".") for folder in tar.folders)
            raise SourceError(
                f"{path}: no labels, but images in folders ({shown}, ...) in {printable(tar.file)}; if they are "
                f"classes, unpack it, and take the folder that has them. {_OTHERWISE}"
            )
    if len(tars) > 1 and all(tar.all_begin_with_it for tar in tars):
        raise SourceError(
            f"{path}: no labels, but a tar per class, as it seems, since all names in {printable(tars[0].file)} begin "
            f"with its own; unpack each of them into a folder of its name, and take the folder above. {_OTHERWISE}"
        )


def _are_shards(tars: Sequence[TarNames]) -> bool:
    """Whether the tars are called alike but for a number, from 0 or 1 on, as writers of WebDataset call them."""
    found = [_NUMBERED.fullmatch(_SUFFIX.sub("", tar.file)) for tar in tars]
    names = [match.groups() for match in found if match]
    numbers = sorted(int(number) for _, number in names)
    if len(names) < len(tars) or not names or len({begin for begin, _ in names}) > 1:
        return False
    return numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
