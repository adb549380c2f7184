"""Tells splits apart by file names, such as `train-00000-of-00002` and `test-00000-of-00001`.

A split is the text before `-00000-of-00002`, or the words such as `train` in the name of the file and
of the folders above it. Files that name no split belong to any.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import SourceError

_NUMBERED = re.compile(r"(.+?)-\d+-of-\d+")
_WORD = re.compile(
    r"(?<![a-z])(?:trainval|minival|train|training|test|testing|val|valid|validation|dev|eval)(?![a-z])"
)
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")  # begins a word, as in `trainA`
_SAME = {"training": "train", "testing": "test", "val": "validation", "valid": "validation"}


def find_split(name: str) -> str:
    """Return the split that a relative path with `/` names; empty if it names none."""
    folder, _, file = name.rpartition("/")
    numbered = _NUMBERED.match(file)
    words = _WORD.findall(_CAPITAL.sub("-", f"{folder}/{'' if numbered else file}").lower())
    own = [numbered[1].lower()] if numbered else []
    return " ".join(sorted({_SAME.get(word, word) for word in (*words, *own)}))


def check_one_split(folder: Path, files: Sequence[Path]) -> None:
    """Raise SourceError if the files below a folder are of several splits, which nobody wants merged."""
    splits = sorted({find_split(file.relative_to(folder).as_posix()) for file in files} - {""})
    if len(splits) > 1:
        raise SourceError(
            f"{folder}: several splits ({', '.join(splits)}): say which one by its folder, "
            "or by a pattern of its files in quotes, such as 'train-*'"
        )
