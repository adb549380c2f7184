"""Checks that names from datasets stay inside the folder, or the tar, that is being written.

Keys, fields, classes and suffixes come from untrusted files. Every writer of files calls `path_inside`,
every writer of tars `check_member`, and the packer `check_names` before either.
"""

from __future__ import annotations

import os
from pathlib import Path

from headrace.errors import PackError, SourceError
from headrace.sample import Sample
from headrace.store.keys import printable


def is_safe(name: str) -> bool:
    """Return whether a name is a relative path without empty parts, `.`, `..` and NUL."""
    parts = name.split("/")
    return not ("" in parts or "." in parts or ".." in parts or "\0" in name)


def check_member(name: str) -> str:
    """Return the name of a tar member. PackError if unpacking would write it somewhere else."""
    if not is_safe(name):
        raise PackError(f"{printable(name)}: not a safe relative path, so no tar may hold it")
    return name


def path_inside(root: Path, name: str) -> Path:
    """Return the path of `name` below `root`. PackError if it leads out of `root`, also through a link."""
    if is_safe(name):
        path, real = root / name, os.path.realpath(root)
        if os.path.commonpath([real, os.path.realpath(path.parent)]) == real:
            return path
    raise PackError(f"{printable(name)}: leads out of the folder that is written; rename it")


def check_names(sample: Sample) -> Sample:
    """Return the sample. SourceError if its key, a field or a suffix is not safe as a part of a path."""
    if not is_safe(sample.key):
        raise SourceError(f"the key {printable(sample.key)} is not a safe relative path")
    for name in (*sample.fields, *sample.suffixes.values(), *sample.frames):
        if "/" in name or "\0" in name or not _is_utf8(name):
            raise SourceError(f"the field {name!a} is not named like a file suffix")
    return sample


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
