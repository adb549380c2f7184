"""Keys from names that are not file names: ids of videos, keys of databases, anything at all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.errors import SourceError
from headrace.formats.names import printable, split_path


def make_key(name: str) -> str:
    """A key that is safe as a relative path: `../a` and `/a` have their dots and slashes escaped.

    `unescape_key` gives the name back, but for the empty one, whose key is `%`.
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
    """A key as it is, if it is a relative path that a tar gives back; else as `make_key` escapes it."""
    parts = key.split("/")
    lost = "." in parts[-1] or re.search("[\0\ud800-\udfff]", key)
    return make_key(key) if lost or any(part in ("", ".", "..") for part in parts) else key


def make_keys(names: Sequence[str]) -> list[str]:
    """A key per name. SourceError where two names would share one."""
    keys = [make_key(name) for name in names]
    if len(set(keys)) < len(keys):
        seen: set[str] = set()
        for key in keys:
            if key in seen:
                raise SourceError(f"the key {printable(key)} is there twice")
            seen.add(key)
    return keys
