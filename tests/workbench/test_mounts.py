"""The file system that holds a path."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from headrace.workbench.bench.mounts import find_mount

TEXT = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/data rw,noatime shared:5 master:2 - nfs4 server:/export/my\040data rw,vers=4.2
31 30 0:41 / /mnt/data/scratch rw - xfs /dev/nvme0n1 rw
32 22 0:42 / /mnt/with\040space rw - cifs //server/share rw
33 22 0:43 / /mnt/twice rw - tmpfs tmpfs rw
34 33 0:44 / /mnt/twice rw - lustre 10.0.0.1@tcp:/fs rw
not a line of mountinfo
35 22 0:45 / /mnt/broken rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/home/me/train", "ext4", False),
        ("/mnt/data/train", "nfs4", True),
        ("/mnt/data", "nfs4", True),
        ("/mnt/database", "ext4", False),
        ("/mnt/data/scratch/train", "xfs", False),
        ("/mnt/with space/train", "cifs", True),
        ("/mnt/twice/train", "lustre", True),
        ("/mnt/broken/train", "ext4", False),
    ],
)
def test_the_longest_mount_point_wins_and_the_last_of_equals(
    path: str, kind: str, network: bool
) -> None:
    mount = find_mount(TEXT, PurePosixPath(path))
    assert mount is not None and (mount.kind, mount.is_network) == (kind, network)


def test_names_are_read_with_their_spaces() -> None:
    mount = find_mount(TEXT, PurePosixPath("/mnt/data/x"))
    assert mount is not None and mount.source == "server:/export/my data"


@pytest.mark.parametrize(
    "kind",
    ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "lustre", "ceph", "gpfs", "glusterfs"]
    + ["fuse.gcsfuse", "fuse.blobfuse2", "wekafs"],
)
def test_network_file_systems_are_known(kind: str) -> None:
    mount = find_mount(f"1 0 0:1 / / rw - {kind} what rw", PurePosixPath("/x"))
    assert mount is not None and mount.is_network


@pytest.mark.parametrize("kind", ["fuseblk", "fuse.fuse-overlayfs", "overlay", "9p", "btrfs"])
def test_local_file_systems_are_known(kind: str) -> None:
    mount = find_mount(f"1 0 0:1 / / rw - {kind} what rw", PurePosixPath("/x"))
    assert mount is not None and not mount.is_network


def test_a_text_without_mounts_has_none() -> None:
    assert find_mount("", PurePosixPath("/x")) is None
