"""The limits of a made-up machine: cgroups of both versions, and none."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.workbench.bench.machine import read_cpu_limit, read_machine, read_memory_limit


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


VERSION_2 = {
    "proc/self/cgroup": "0::/job/step\n",
    "sys/fs/cgroup/job/step/cpu.max": "max 100000",
    "sys/fs/cgroup/job/cpu.max": "250000 100000",
    "sys/fs/cgroup/job/step/memory.max": "1073741824",
    "sys/fs/cgroup/job/memory.max": "max",
}
VERSION_1 = {
    "proc/self/cgroup": "4:memory:/box\n3:cpu,cpuacct:/box\n1:name=systemd:/box\n",
    "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "250000",
    "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "1073741824",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
}


@pytest.mark.parametrize("files", [VERSION_2, VERSION_1])
def test_the_tightest_limit_of_all_cgroups_is_found(tmp_path: Path, files: dict[str, str]) -> None:
    root = write(tmp_path, files)
    assert read_cpu_limit(root) == 2.5
    assert read_memory_limit(root) == 1 << 30


def test_no_cgroup_is_no_limit(tmp_path: Path) -> None:
    assert read_cpu_limit(tmp_path) is None
    assert read_memory_limit(tmp_path) is None


def test_the_innermost_mount_decides_the_kind_of_disk(tmp_path: Path) -> None:
    mounts = (
        "22 1 8:1 / / rw - ext4 /dev/sda rw\n"
        f"36 22 0:30 / {tmp_path} rw,noatime shared:1 - nfs4 server:/data rw,vers=4.2\n"
    )
    root = write(tmp_path, {"proc/self/mountinfo": mounts})
    machine = read_machine(tmp_path, root)
    assert (machine.disk, machine.network) == (
        "network, nfs4 (server:/data)",
        "nfs4 (server:/data)",
    )


def test_this_machine_has_cores_memory_and_versions(tmp_path: Path) -> None:
    machine = read_machine(tmp_path)
    assert 0 < machine.capacity_cores <= machine.cores
    assert 0 < machine.cache_room <= machine.memory
    assert machine.versions["numpy"] == pytest.importorskip("numpy").__version__
