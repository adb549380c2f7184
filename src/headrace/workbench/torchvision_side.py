"""The process that runs torchvision for `headrace bench --against torchvision`; see `against.py`.

    python -m headrace.workbench.torchvision_side FOLDER BATCH_SIZE SIZE COLD

In: lines of JSON [workers, seconds] on stdin. Out: for each, [images, seconds, CPU seconds, bytes].
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.workbench.page_cache import drop_pages
from headrace.workbench.watch.monitor import read_cpu_seconds

_PREFETCH = 2
_ENDLESS = 1 << 40


def import_torchvision() -> Any:
    """torchvision; where it comes without its compiled operators, with declarations in their place.

    Only here: the operators are for boxes and not for images, but importing fails without them.
    """
    import torch

    try:
        import torchvision
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")
        import torchvision
    return torchvision


def make_loader(folder: str, batch_size: int, size: int, workers: int) -> Any:
    """ImageFolder and DataLoader as in torchvision's own training script, uint8 and without end."""
    import_torchvision()
    import torch
    from torchvision import datasets, transforms

    torch.set_num_threads(1)
    steps = [
        transforms.RandomResizedCrop(size),
        transforms.RandomHorizontalFlip(),
        transforms.PILToTensor(),
    ]
    data = datasets.ImageFolder(folder, transforms.Compose(steps))
    batch_size = min(batch_size, len(data))
    sampler = torch.utils.data.RandomSampler(data, num_samples=_ENDLESS // batch_size)
    return torch.utils.data.DataLoader(
        data, batch_size, sampler=sampler, num_workers=workers, prefetch_factor=_PREFETCH
    )


def run_window(loader: Any, workers: int, seconds: float) -> list[float]:
    """One window of whole rounds of all workers, after one round that is not counted."""
    batches = iter(loader)
    for _ in range(workers):
        next(batches)
    processes = [os.getpid(), *(worker.pid for worker in batches._workers)]
    images = 0
    cpu, start = sum(map(read_cpu_seconds, processes)), time.perf_counter()
    while True:
        images += sum(len(next(batches)[1]) for _ in range(workers))
        now = time.perf_counter()
        if now - start >= seconds:
            break
    used = sum(map(read_cpu_seconds, processes)) - cpu
    return [images, now - start, used, sum(map(read_shared_out_memory, processes))]


def read_shared_out_memory(pid: int) -> int:
    """Bytes in memory, pages that are shared counted in parts."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def read_requests() -> Iterator[tuple[int, float]]:
    for line in sys.stdin:
        workers, seconds = json.loads(line)
        yield int(workers), float(seconds)


def main() -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is the bench's, which then ends this process
    folder, batch_size, size, cold = sys.argv[1:]
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    for workers, seconds in read_requests():
        loader = make_loader(folder, int(batch_size), int(size), workers)
        if int(cold):
            drop_pages(files)
        print(json.dumps(run_window(loader, workers, seconds)), flush=True)


if __name__ == "__main__":
    main()
