"""Finds the file system that holds a path, from the text of /proc/self/mountinfo."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

NETWORK = frozenset(
    [
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "orangefs",
        "panfs",
        "smb3",
        "smbfs",
        "wekafs",
    ]
)
"""File systems that read over a network. Most `fuse.` programs do so too."""
_LOCAL_FUSE = frozenset(
    [
        "bindfs",
        "encfs",
        "fuse-overlayfs",
        "gocryptfs",
        "gvfsd-fuse",
        "lxcfs",
        "mergerfs",
        "ntfs-3g",
        "portal",
    ]
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A mounted file system: mount point, kind, and source such as a device or `server:/folder`."""

    point: str
    kind: str
    source: str

    @property
    def is_network(self) -> bool:
        program = self.kind.removeprefix("fuse.")
        return self.kind in NETWORK or (program != self.kind and program not in _LOCAL_FUSE)


def find_mount(mountinfo: str, path: PurePath) -> Mount | None:
    """Return the mount that holds an absolute path without links; None if the text lists none.

    The longest mount point wins, and the last of several mounts at the same point.
    """
    found: Mount | None = None
    for line in mountinfo.splitlines():
        mount = _parse_line(line)
        if mount is None or not path.is_relative_to(mount.point):
            continue
        if found is None or len(mount.point) >= len(found.point):
            found = mount
    return found


def _parse_line(line: str) -> Mount | None:
    """Parse `36 35 98:0 / /mnt/data rw,noatime shared:1 - nfs4 server:/data rw`; spaces are octal escapes."""
    before, dash, after = line.partition(" - ")
    places, kinds = before.split(" "), after.split(" ")
    if not dash or len(places) < 5 or len(kinds) < 2:
        return None
    return Mount(_unescape(places[4]), kinds[0], _unescape(kinds[1]))


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
