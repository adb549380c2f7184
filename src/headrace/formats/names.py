"""Keys from file names, such that WebDataset's naming rule gives every sample back.

WebDataset ends the key at the first dot of the base name. A stem with dots, a control character or
a byte that is not UTF-8 is therefore escaped as `%2E`, `%0A`, ...; all other names stay as they
are, and `unescape_key` undoes it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

_TROUBLE = re.compile(r"%(?=[0-9A-Fa-f]{2})|[\x00-\x1f\x7f\udc80-\udcff]")


def _escape(text: str, dots: bool) -> str:
    text = _TROUBLE.sub(lambda match: f"%{os.fsencode(match[0])[0]:02X}", text)
    return text.replace(".", "%2E") if dots else text


def unescape_key(key: str) -> str:
    """The path, without its suffix, that a key was made from."""
    return os.fsdecode(
        re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), os.fsencode(key))
    )


def split_path(path: str) -> tuple[str, str]:
    """(key, suffix) of a relative path with `/`: `a.b/c.d.JPG` is (`a.b/c%2Ed`, `JPG`).

    A name without a stem or a suffix, such as `.jpg` or `a`, is the last part of its key as a whole.
    """
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    last = _escape(stem or name, dots=True)
    return _escape(folder, dots=False) + slash + last, suffix if dot else ""


def unique_keys(paths: Sequence[str]) -> list[str]:
    """A key per path. Files that would share one (`a.jpg`, `a.png`) keep the suffix in theirs."""
    assert len(set(paths)) == len(paths)
    keys = [split_path(path)[0] for path in paths]
    while True:
        shared = {key for key, count in Counter(keys).items() if count > 1}
        if not shared:
            return keys
        keys = [
            split_path(path + ".")[0] if key in shared else key
            for key, path in zip(keys, paths, strict=True)
        ]


def is_below(name: str) -> bool:
    """Whether a name with `/` is a path that stays below the folder it is joined to."""
    path = PurePosixPath(name)
    return bool(name) and "\0" not in name and not path.is_absolute() and ".." not in path.parts


def printable(name: str) -> str:
    """The name as it is safe to print: quoted and escaped where it has to be."""
    return name if name.isprintable() else ascii(name)


def some_names(names: Sequence[str]) -> str:
    """The first names of many, as they are safe to print."""
    return ", ".join(map(printable, names[:3])) + (", ..." if len(names) > 3 else "")
