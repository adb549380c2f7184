"""What this process may use: cores, cgroup limits, memory, /dev/shm, NUMA nodes, the disk.

Everything is read from /proc and /sys below `root`, so that a test can make up a machine.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from headrace.work.cores import count_cores
from headrace.workbench.bench.mounts import find_mount
from headrace.workbench.bench.results import Machine

_UNLIMITED = 1 << 60
_PACKAGES = ("headrace", "numpy", "Pillow", "torch", "torchvision")


def read_machine(data: Path, root: Path = Path("/")) -> Machine:
    """Return the machine and the disk that holds `data`."""
    memory = _read_meminfo(root)
    return Machine(
        cpu=_read_cpu_name(root),
        cores=os.cpu_count() or 1,
        usable_cores=count_cores(),
        cpu_limit=read_cpu_limit(root),
        memory=memory.get("MemTotal", 0),
        memory_available=memory.get("MemAvailable", 0),
        memory_limit=read_memory_limit(root),
        shm=_free_bytes(root / "dev/shm"),
        numa_nodes=max(1, len(list(root.glob("sys/devices/system/node/node[0-9]*")))),
        disk=name_disk(data, root),
        versions=_read_versions(),
    )


def read_cpu_limit(root: Path = Path("/")) -> float | None:
    """Return the cores that this cgroup and its parents allow; None without a limit."""
    limits = []
    for folder in _cgroup_folders(root, "cpu"):
        if (text := _read(folder / "cpu.max")) is not None:
            quota, _, period = text.partition(" ")
        else:
            quota = _read(folder / "cpu.cfs_quota_us") or "-1"
            period = _read(folder / "cpu.cfs_period_us") or "100000"
        if quota.isdigit() and int(period):
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def read_memory_limit(root: Path = Path("/")) -> int | None:
    """Return the bytes that this cgroup and its parents allow; None without a limit."""
    limits = []
    for folder in _cgroup_folders(root, "memory"):
        text = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes") or "max"
        if text.isdigit() and int(text) < _UNLIMITED:
            limits.append(int(text))
    return min(limits, default=None)


def _cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's cgroup and its parents, in versions 2 and 1."""
    base = root / "sys/fs/cgroup"
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top = base
        elif controller in controllers.split(","):
            top = base / controller
        else:
            continue
        place = Path(path.lstrip("/"))
        for part in (place, *place.parents):
            yield top / part


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _read_meminfo(root: Path) -> dict[str, int]:
    values = {}
    for line in (_read(root / "proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        values[name] = int(rest.split()[0]) * 1024
    return values


def _read_cpu_name(root: Path) -> str:
    for line in (_read(root / "proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _free_bytes(path: Path) -> int:
    try:
        found = os.statvfs(path)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def name_disk(data: Path, root: Path = Path("/")) -> str:
    """Return the kind of disk that holds `data`: rotating, solid state, virtual, network or memory."""
    mount = find_mount(_read(root / "proc/self/mountinfo") or "", data.resolve())
    kind = "unknown" if mount is None else mount.kind
    if mount is not None and mount.is_network:
        return f"network, {kind} ({mount.source})"
    if kind in ("tmpfs", "ramfs"):
        return f"memory, {kind}"
    device = os.stat(data).st_dev if data.exists() else 0
    block = root / f"sys/dev/block/{os.major(device)}:{os.minor(device)}"
    if block.resolve().name.startswith(("vd", "xvd")):
        return f"virtual, {kind}"  # its rotational flag is the hypervisor's default
    rotating = _read(block / "queue/rotational") or _read(block / "../queue/rotational")
    names = {"1": "rotating", "0": "solid state"}
    return f"{names.get(rotating or '', 'unknown')}, {kind}"


def _read_versions() -> dict[str, str]:
    versions = {"Python": platform.python_version(), "Linux": platform.release()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
