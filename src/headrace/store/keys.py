"""Makes keys from file names and other names, so that WebDataset's naming rule finds every sample.

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

from headrace.errors import SourceError

_TROUBLE = re.compile(r"%(?=[0-9A-Fa-f]{2})|[\x00-\x1f\x7f\udc80-\udcff]")


def _escape(text: str, dots: bool) -> str:
    text = _TROUBLE.sub(lambda match: f"%{os.fsencode(match[0])[0]:02X}", text)
    return text.replace(".", "%2E") if dots else text


def unescape_key(key: str) -> str:
    """Return the path, without its suffix, that a key was made from."""
    return os.fsdecode(
        re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), os.fsencode(key))
    )


def split_path(path: str) -> tuple[str, str]:
    """Return the key and suffix of a relative path with `/`: `a.b/c.d.JPG` is (`a.b/c%2Ed`, `JPG`).

    A name without a stem or a suffix, such as `.jpg` or `a`, is the last part of its key as a whole.
    """
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    last = _escape(stem or name, dots=True)
    return _escape(folder, dots=False) + slash + last, suffix if dot else ""


def unique_keys(paths: Sequence[str]) -> list[str]:
    """Return a key per path. Files that would share one (`a.jpg`, `a.png`) keep their suffix in it."""
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
    """Return whether a name with `/` is a path that stays below the folder it is joined to."""
    path = PurePosixPath(name)
    return bool(name) and "\0" not in name and not path.is_absolute() and ".." not in path.parts


def printable(name: str) -> str:
    """Return the name, quoted and escaped if it is not safe to print."""
    return name if name.isprintable() else ascii(name)


def some_names(names: Sequence[str]) -> str:
    """Return the first of many names, safe to print."""
    return ", ".join(map(printable, names[:3])) + (", ..." if len(names) > 3 else "")


def make_key(name: str) -> str:
    """Return a key that is safe as a relative path: dots and slashes of `../a` and `/a` are escaped.

    `unescape_key` returns the name, except for the empty one, whose key is `%`.
    """
    if name.isascii() and name.isalnum():
        return name
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, as JSON can write one
        name = name.encode("utf-8", "backslashreplace").decode()
    if not name:
        return "%"
    key = split_path(name + ".")[0]
    if any(part in ("", ".", "..") for part in name.split("/")):
        key = split_path(name.replace("/", "\0") + ".")[0].replace("%00", "%2F")
    return name if key == name else key  # not a second string of the same text


def keep_key(key: str) -> str:
    """Return a key unchanged if it is a relative path that a tar can hold, otherwise escaped by `make_key`."""
    parts = key.split("/")
    lost = "." in parts[-1] or re.search("[\0\ud800-\udfff]", key)
    return make_key(key) if lost or any(part in ("", ".", "..") for part in parts) else key


def make_keys(names: Sequence[str]) -> list[str]:
    """Return a key per name. SourceError if two names would share one."""
    keys = [make_key(name) for name in names]
    if len(set(keys)) < len(keys):
        seen: set[str] = set()
        for key in keys:
            if key in seen:
                raise SourceError(f"the key {printable(key)} occurs twice")
            seen.add(key)
    return keys
