"""Finds the files that a path stands for, in layouts of many files: a file, a folder or a pattern.

Patterns have braces as WebDataset's users write them, `train-{000000..000127}.tar`, and `train-*`.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from headrace.errors import SourceError
from headrace.formats.check_splits import check_one_split
from headrace.formats.folder_contents import is_hidden

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MAX_NAMES = 1_000_000


def find_files(path: Path, list_folder: Callable[[Path], Iterable[Path]], what: str) -> list[Path]:
    """Return the files of a path; of a folder, the sorted ones that `list_folder` gives, of one split.

    Hidden files, as macOS and notebooks leave them, are skipped.
    """
    if is_pattern(path):
        return match_files(path)
    if not path.is_dir():
        return [path]
    shown = (f for f in list_folder(path) if not any(map(is_hidden, f.relative_to(path).parts)))
    files = sorted(filter(_is_member, shown))
    if not files:
        raise SourceError(f"{path}: no {what} in it")
    check_one_split(path, files)
    return files


def _is_member(path: Path) -> bool:
    """Return whether it is a file, or a link to a file that is gone, which its opener reports."""
    return path.is_file() or not path.exists()


def is_pattern(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a pattern, and not the name of something that exists."""
    text = os.fspath(path)
    is_one = _BRACES.search(text) is not None or glob.has_magic(text)
    return is_one and not os.path.exists(text)


def match_files(
    pattern: str | os.PathLike[str], belongs: Callable[[str], bool] = os.path.isfile
) -> list[Path]:
    """Return the files of a pattern, in its order, matches of `*` sorted. Raise SourceError if one is missing.

    `belongs` says whether a path is one: `os.path.exists` takes folders too.
    """
    files: list[Path] = []
    for name in expand_braces(os.fspath(pattern)):
        found = _match_below(name) if is_pattern(name) else [name]
        if not found or not all(map(belongs, found)):
            raise SourceError(f"{name}: no such file")
        files += map(Path, found)
    if len(set(files)) < len(files):
        raise SourceError(f"{pattern}: names a file twice")
    return files


def _match_below(pattern: str) -> list[str]:
    """Return the sorted matches; folders that exist are not part of the pattern, such as `set[1]` of `set[1]/*.tar`."""
    folder = next(folder for folder in Path(pattern).parents if os.path.isdir(folder))
    below = os.path.relpath(pattern, folder)
    return sorted(os.path.join(folder, name) for name in glob.glob(below, root_dir=folder))


def expand_braces(text: str) -> list[str]:
    """Return all names that a pattern stands for, in its order; numbers keep their leading zeros."""
    match = _BRACES.search(text)
    if match is None:
        return [text]
    names = [
        text[: match.start()] + choice + rest
        for choice in _expand_choices(match[1])
        for rest in expand_braces(text[match.end() :])
    ]
    if len(names) > _MAX_NAMES:
        raise SourceError(f"{text}: the pattern expands to {len(names)} names; use a narrower one")
    return names


def _expand_choices(inner: str) -> list[str]:
    numbers = _RANGE.fullmatch(inner)
    if numbers is None:
        return inner.split(",")
    first, last = int(numbers[1]), int(numbers[2])
    if not 0 <= last - first < _MAX_NAMES:
        raise SourceError(f"{{{inner}}}: not a range of numbers that goes up")
    return [f"{number:0{len(numbers[1])}d}" for number in range(first, last + 1)]


def find_stems(files: Sequence[Path]) -> list[str]:
    """Return a name for each file: without its suffix, or where such names repeat its path below `find_root`."""
    stems = [file.stem for file in files]
    if len(set(stems)) == len(stems):
        return stems
    root = find_root(files)
    return [name_below(root, file).removesuffix(file.suffix) for file in files]


def find_root(files: Sequence[Path]) -> Path:
    """Return the folder that all files lie in or below."""
    folders = {file.parent for file in files}
    if len(folders) == 1:
        return folders.pop()
    return Path(os.path.commonpath([folder.resolve() for folder in folders]))


def name_below(root: Path, file: Path) -> str:
    """Return the name of a file in an index: its path from `root`."""
    if file.parent == root:
        return file.name
    return (file.parent.resolve() / file.name).relative_to(root.resolve()).as_posix()
