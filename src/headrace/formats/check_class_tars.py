"""Tells tars of classes, whose labels are the names of tars or folders, from WebDataset.

ImageNet comes as a tar per class, Food-101 as one tar of class folders: read as WebDataset, their samples would
have no labels. WebDataset without labels lies flat or in one folder, or has other fields beside its images.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace.errors import SourceError
from headrace.sample import is_image_field
from headrace.store.keys import printable

_SUFFIX = re.compile(r"\.(tar|tar\.gz|tgz)$", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*?)(\d{4,})(?:-of-\d+)?")
_OTHERWISE = (
    "If they are not classes: --format webdataset packs them, or makes an index to load (`headrace index --format "
    "webdataset --out DIR`), as they are, without labels"
)


@dataclass
class TarNames:
    """What the names in one tar tell about it."""

    file: str
    folders: list[str] = field(default_factory=list)
    """The first two folders that images lie in."""
    all_begin_with_it: bool = True
    """Whether the name of every image begins with that of the tar, such as `n01_7` or `n01/7` in `n01.tar`."""
    has_more: bool = False
    """Whether something lies beside an image: a label, a caption."""

    def __post_init__(self) -> None:
        self._begin = re.compile(re.escape(_SUFFIX.sub("", self.file)) + r"[/_-]")

    def add(self, key: str, fields: Iterable[str]) -> None:
        """Note the names of a sample."""
        images = [is_image_field(name) for name in fields]
        if not any(images):
            return
        self.has_more |= not all(images)
        self.all_begin_with_it &= self._begin.match(key) is not None
        folder = key.rpartition("/")[0]
        if len(self.folders) < 2 and folder not in self.folders:
            self.folders.append(folder)


def check_no_classes(path: object, tars: Sequence[TarNames]) -> None:
    """Raise SourceError if images without labels are in class folders, or in tars named by their class."""
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
            f"{path}: no labels, but apparently a tar per class: all names in {printable(tars[0].file)} begin "
            f"with its own; unpack each of them into a folder of its name, and take the folder above. {_OTHERWISE}"
        )


def _are_shards(tars: Sequence[TarNames]) -> bool:
    """Return whether the names of the tars differ only in a number from 0 or 1 on, as WebDataset's writers have it."""
    found = [_NUMBERED.fullmatch(_SUFFIX.sub("", tar.file)) for tar in tars]
    names = [match.groups() for match in found if match]
    has_one_name = len(names) == len(tars) and len({begin for begin, _ in names}) == 1
    return has_one_name and min(int(number) for _, number in names) <= 1
