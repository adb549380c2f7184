"""Does it train as well? The same small network on CIFAR-10 with four orders of the same images.

    python benchmarks/convergence.py [--images 10000] [--epochs 4] [--seeds 3]

(a) torch's DataLoader, a new global shuffle every epoch;
(b) Headrace, a shuffled pack and a small window;
(c) Headrace, global;
(d) as a warning: Headrace, a small window over a pack that is sorted by class.

Images, network, first weights, steps, learning rates and flips' probability are the same; what differs is the
order (and which images are flipped). Shards are small here, so that there are as many runs as a large set has:
a run is what is read at once, and the window mixes a few of them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torchvision_import import import_torchvision

import headrace
from headrace.torch import Loader

ARCHIVE = Path(__file__).resolve().parents[2] / "shared" / "data" / "cifar10.tar.gz"
BATCH = 100
MEAN, STD = [0.491, 0.482, 0.447], [0.247, 0.243, 0.262]


def unpack_cifar(folder: Path, images: int) -> Path:
    """Write `train` with the first images of each class, and `test`."""
    if not ARCHIVE.exists():
        sys.exit(f"needs {ARCHIVE.name} in ../shared/data")

    def choose(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        name = Path(member.name)
        wanted = not member.isfile() or "test" in name.parts or int(name.stem) < images // 10
        return tarfile.data_filter(member, path) if wanted else None

    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter=choose)
    return folder


def make_transform() -> Any:
    T = import_torchvision().transforms
    return T.Compose([T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])


def load_torch(folder: Path, seed: int) -> Any:
    dataset = import_torchvision().datasets.ImageFolder(str(folder / "train"), make_transform())
    order = torch.Generator().manual_seed(seed)
    return torch.utils.data.DataLoader(
        dataset, BATCH, shuffle=True, drop_last=True, generator=order
    )


def load_headrace(pack: str, window: int | None) -> Callable[[Path, int], Any]:
    def load(folder: Path, seed: int) -> Any:
        return Loader(
            folder / pack,
            BATCH,
            shuffle=True,
            drop_last=True,
            window=window,
            seed=seed,
            transform=make_transform(),
            threads=1,
        )

    return load


def make_network(seed: int) -> nn.Module:
    torch.manual_seed(seed)

    def block(before: int, after: int) -> list[nn.Module]:
        conv = nn.Conv2d(before, after, 3, 2, 1, bias=False)
        return [conv, nn.BatchNorm2d(after), nn.ReLU()]

    layers = [*block(3, 24), *block(24, 48), *block(48, 96), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(96, 10))


def train(loader: Iterable[Any], network: nn.Module, epochs: int, steps: int) -> None:
    optimizer = torch.optim.SGD(network.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, epochs * steps)
    network.train()
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            cross_entropy(network(images), labels).backward()
            optimizer.step()
            schedule.step()


@torch.inference_mode()
def measure_accuracy(network: nn.Module, folder: Path) -> float:
    T = import_torchvision().transforms
    transform = T.Compose([T.ToTensor(), T.Normalize(MEAN, STD)])
    network.eval()
    loader = Loader(folder / "test", 500, transform=transform, threads=1)
    right = sum(int((network(images).argmax(1) == labels).sum()) for images, labels in loader)
    return 100 * right / len(loader.dataset)


def report(name: str, found: list[float], seconds: float) -> None:
    mean, spread = statistics.mean(found), statistics.stdev(found) if len(found) > 1 else 0.0
    each = " ".join(f"{accuracy:.1f}" for accuracy in found)
    print(f"{name:44} {mean:6.2f} ± {spread:4.2f}   {each}   ({seconds:.0f} s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=10_000, help="for training")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--window", type=int, default=500, help="the small one, in images")
    options = parser.parse_args()
    torch.set_num_threads(1)
    orders = {
        "(a) DataLoader, global": load_torch,
        f"(b) shuffled pack, window {options.window}": load_headrace("shuffled", options.window),
        "(c) shuffled pack, global": load_headrace("shuffled", None),
        f"(d) class-sorted pack, window {options.window}": load_headrace("sorted", options.window),
    }
    with tempfile.TemporaryDirectory() as place:
        folder = unpack_cifar(Path(place), options.images)
        size = 200_000  # bytes a shard
        headrace.pack_dataset(folder / "train", folder / "shuffled", shard_size=size)
        headrace.pack_dataset(folder / "train", folder / "sorted", order="source", shard_size=size)
        print(f"{options.images} images, {options.epochs} epochs, batches of {BATCH}")
        print(f"{'test accuracy, %':44} {'mean':>6} ± {'std':4}   a seed each")
        for name, load in orders.items():
            began, found = time.perf_counter(), []
            for seed in range(options.seeds):
                network = make_network(seed)
                loader = load(folder, seed)
                train(loader, network, options.epochs, options.images // BATCH)
                found.append(measure_accuracy(network, folder))
            report(name, found, time.perf_counter() - began)


if __name__ == "__main__":
    main()
