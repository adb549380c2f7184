"""The files of a field: those of a folder, or of a pattern in it, by the stem that they share with other fields.

    read_field_options({"image": "leftImg8bit/*_leftImg8bit.png", "mask": "gtFine/*_gtFine_labelIds.png"})

The stem is what stands for `*`, with the folders below the one that is named. Names with `?` at their end are optional:
a sample may lack the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from headrace.errors import SourceError
from headrace.formats.class_folders import stat_entry
from headrace.formats.folder_contents import walk_files
from headrace.sample import IMAGE_FIELDS, field_name
from headrace.store.keys import is_below, printable

IMAGE = "image"
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_TARGETS = IMAGE_FIELDS | {"caption", "json", "npy", "text", "txt", "xml"}


class FieldFile(NamedTuple):
    """A file below the root of a source, its size in bytes and its mtime."""

    name: str
    size: int
    mtime: int


@dataclass(frozen=True)
class FieldOption:
    """Where the files of a field are: `head` and `tail` are the ends of their names around the stem.

    `tail` is None if all files of the folder belong, whatever their suffix.
    """

    name: str
    folder: str
    head: str = ""
    tail: str | None = None
    is_optional: bool = False

    @property
    def suffixes(self) -> frozenset[str]:
        """The suffixes that files may have if there is no pattern."""
        return IMAGE_FIELDS if self.name == IMAGE else _TARGETS

    def find_stem(self, name: str) -> str | None:
        """Return the stem of a file, by its name below the folder; None if it does not belong to the field."""
        folder, slash, file = name.rpartition("/")
        if self.tail is not None:
            middle = file[len(self.head) : len(file) - len(self.tail)]
            fits = middle and file == f"{self.head}{middle}{self.tail}"
            return folder + slash + middle if fits else None
        stem, _, suffix = file.rpartition(".")
        return folder + slash + stem if stem and field_name(suffix) in self.suffixes else None


def read_field_options(fields: Mapping[str, str]) -> list[FieldOption]:
    """Return where the files of the fields are, by the options of the user. Raise ValueError if one is wrong."""
    options = [_read_option(name, place) for name, place in fields.items()]
    names = [option.name for option in options]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"fields: {name!r} is given twice")
    return options


def _read_option(name: str, place: str) -> FieldOption:
    plain = name.removesuffix("?")
    if not _NAME.fullmatch(plain):
        raise ValueError(
            f"fields: {name!r} is not the name of a field: give letters in lower case and digits, such as "
            "mask=masks/"
        )
    if name == f"{IMAGE}?":
        raise ValueError("fields: the image cannot be optional; omit the question mark")
    path = PurePosixPath(place)
    if not is_below(place) or place.count("*") > 1 or "*" in str(path.parent):
        raise ValueError(
            f"fields: {place!r} is not a folder below the source, or a pattern of the files in it with one * "
            "such as masks/*_mask.png"
        )
    if "*" not in place:
        return FieldOption(plain, str(path), is_optional=plain != name)
    head, _, tail = path.name.partition("*")
    if "." not in tail:
        raise ValueError(f"fields: {place!r} lacks the suffix of the files, such as .png")
    return FieldOption(plain, str(path.parent), head, tail, plain != name)


def list_field(root: Path, option: FieldOption, ignored: list[str]) -> dict[str, FieldFile]:
    """Return the files of a field by their stems; the names of the others are added to `ignored`.

    Raises:
        SourceError: The folder does not exist, has no such files, or two of them share a stem.
    """
    folder = root / option.folder
    if not folder.is_dir():
        raise SourceError(
            f"{folder}: no such folder; the folder of the field {option.name!r} is relative to {root}"
        )
    found: dict[str, FieldFile] = {}
    for stem, file in _scan_field(root, option, ignored):
        if stem in found:
            names = " and ".join(sorted(printable(name) for name in (found[stem].name, file.name)))
            raise SourceError(
                f"{root}: {names} share a stem; say which files belong to the field by a pattern, such as "
                f"{option.name}={option.folder}/*{PurePosixPath(file.name).suffix}"
            )
        found[stem] = file
    if not found:
        raise SourceError(f"{folder}: no files of the field {option.name!r} in it")
    return found


def _scan_field(
    root: Path, option: FieldOption, ignored: list[str]
) -> Iterator[tuple[str, FieldFile]]:
    prefix = "" if option.folder == "." else f"{option.folder}/"
    for name, entry in walk_files(root / option.folder):
        stem = option.find_stem(name)
        state = None if stem is None else stat_entry(entry)
        if stem is None or state is None:
            ignored.append(prefix + name)
        else:
            yield stem, FieldFile(prefix + name, *state)
