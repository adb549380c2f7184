"""Train a small 3D CNN on clips of videos: class folders of mp4, a GulpIO directory, or packed datasets.

    python examples/video.py videos                       # packs videos into videos-shards, then trains
    headrace pack videos/train shards/train --fps 12 --resize-short 128
    headrace pack videos/val shards/val --fps 12 --resize-short 128 --classes shards/train
    python examples/video.py shards
    torchrun --nproc-per-node 8 examples/video.py shards --batch-size 64

DATA is one dataset, of which a fifth of the videos is for validation, or has the folders `train` and `val`.
What is not packed yet is packed first. Under torchrun, --batch-size counts the clips of all processes
together. The script writes a checkpoint every --checkpoint-steps steps and after each epoch; --resume
continues with the very next batch. Validation shows --views clips of every video once, for any number of
processes, and averages what the model says about them.
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

import headrace
from headrace import Dataset
from headrace.torch import Loader
from headrace.transforms import (
    CenterCrop,
    Clip,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)


def main() -> None:
    args = parse_arguments()
    device = start_process(args)
    train_and_validate(args, device)
    if dist.is_initialized():
        # Only after the model is freed: as the last owner of gloo's group, it can deadlock.
        dist.destroy_process_group()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="dataset, or folder with train and val")
    add("--frames", type=int, default=16, help="frames per clip")
    add("--step", type=int, default=2, help="distance of the frames of a clip")
    add("--size", type=int, default=84, help="side of a frame in pixels")
    add("--views", type=int, default=3, help="clips per video in validation")
    add("--flip", action="store_true", help="mirror clips; not if left and right are classes")
    add("--epochs", type=int, default=20)
    add("-b", "--batch-size", type=int, default=16, help="clips per step, of all processes")
    add("--lr", type=float, default=0.01)
    add("-p", "--print-freq", type=int, default=10, help="steps between log lines")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--seed", type=int, default=0)
    add("--checkpoint", type=Path, default=Path("video.pt"))
    add("--checkpoint-steps", type=int, default=100)
    add("--resume", type=Path, help="checkpoint to resume from")
    return parser.parse_args()


def start_process(args: argparse.Namespace) -> torch.device:
    """Join the process group if torchrun started this process, and return its device."""
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    if "WORLD_SIZE" not in os.environ:
        return device
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    return device


def train_and_validate(args: argparse.Namespace, device: torch.device) -> None:
    train, val, classes = make_loaders(args, device)
    model = make_model(classes, device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    bare = getattr(model, "module", model)  # with one process or several, the same names
    state = {"model": bare, "optimizer": optimizer, "train": train}
    if args.resume:
        saved = torch.load(args.resume, map_location=device, weights_only=True)
        for name, part in state.items():
            part.load_state_dict(saved[name])
        log(f"resumed from {args.resume}: {saved['train']}")
    for epoch in range(train.state_dict()["epoch"], args.epochs):
        train.set_epoch(epoch)
        train_epoch(train, model, optimizer, args, state)
        validate(val, model, device)
        save_checkpoint(args.checkpoint, state)


def make_loaders(args: argparse.Namespace, device: torch.device) -> tuple[Loader, Loader, int]:
    train_set, val_set = open_datasets(args.data)
    world = dist.get_world_size() if dist.is_initialized() else 1
    options: dict[str, Any] = {"device": device, "seed": args.seed}
    flip = [RandomHorizontalFlip()] if args.flip else []
    train = Loader(
        train_set,
        args.batch_size // world,
        shuffle=True,
        drop_last=True,
        transform=[
            Clip(args.frames, args.step),
            RandomResizedCrop(args.size, scale=(0.4, 1.0)),
            *flip,
            Normalize(),
        ],
        **options,
    )
    val = Loader(
        val_set,
        max(args.batch_size // world // args.views, 1),
        transform=[
            Clip(args.frames, args.step, clips=args.views, at="uniform"),
            Resize(args.size),
            CenterCrop(args.size),
            Normalize(),
        ],
        **options,
    )
    log(str(train))
    names = train_set.classes
    return train, val, len(names) if names else 1 + max(train_set.index["label"].to_pylist())


def open_datasets(data: Path) -> tuple[Dataset, Dataset]:
    """Return the videos for training and for validation, packed if they are not."""
    if (data / "train").is_dir() and (data / "val").is_dir():
        train = open_packed(data / "train", None)
        return train, open_packed(data / "val", train.classes)
    whole = open_packed(data, None)
    fifth = -(-len(whole) // 5)  # they are packed in random order
    return whole[fifth:], whole[:fifth]


def open_packed(path: Path, classes: Any) -> Dataset:
    """Open a packed dataset; pack any other one beside it first, in one process for all."""
    if (path / "headrace.json").exists():
        return headrace.open_dataset(path)
    packed = path.with_name(f"{path.name}-shards")
    if not dist.is_initialized() or dist.get_rank() == 0:
        log(f"packing {path} into {packed}")
        headrace.pack_dataset(path, packed, classes=classes)  # at once if it is there already
    if dist.is_initialized():
        dist.barrier()
    return headrace.open_dataset(packed)


def make_model(classes: int, device: torch.device) -> nn.Module:
    """Return four blocks of 3D convolutions, each half as large and more channels, and a linear layer."""
    layers: list[nn.Module] = []
    channels = [3, 32, 64, 128, 128]
    for number, (before, after) in enumerate(pairwise(channels)):
        layers += [nn.Conv3d(before, after, 3, padding=1, bias=False), nn.BatchNorm3d(after)]
        layers += [
            nn.ReLU(inplace=True),
            nn.MaxPool3d((1 if number == 0 else 2, 2, 2), ceil_mode=True),
        ]
    model: nn.Module = nn.Sequential(
        *layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(channels[-1], classes)
    )
    model = model.to(device, memory_format=torch.channels_last_3d)
    if not dist.is_initialized():
        return model
    ids = [device.index] if device.type == "cuda" else None
    return nn.parallel.DistributedDataParallel(model, device_ids=ids)


def train_epoch(
    train: Loader,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    args: argparse.Namespace,
    state: dict[str, Any],
) -> None:
    model.train()
    progress = Progress(len(train))
    for batch in train:
        progress.note_data()
        clips, labels = batch
        output = model(clips)
        loss = cross_entropy(output, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress.update(loss.detach(), output.detach(), labels)
        step = batch.step + 1
        if step % args.print_freq == 0 or step == len(train):
            log(progress.line(batch.epoch, step))
        if step % args.checkpoint_steps == 0:
            save_checkpoint(args.checkpoint, state)


@torch.inference_mode()
def validate(val: Loader, model: nn.Module, device: torch.device) -> None:
    """Show several clips of every video once; entries that only fill a batch have a label below zero."""
    model.eval()
    sums = torch.zeros(4, dtype=torch.float64, device=device)  # loss, hits, hits of five, videos
    for clips, labels in val:
        views = clips.flatten(0, 1) if clips.ndim == 6 else clips
        output = model(views).unflatten(0, (len(labels), -1)).mean(1)
        valid = labels >= 0
        loss = cross_entropy(output[valid], labels[valid], reduction="sum")
        hits1, hits5 = count_hits(output[valid], labels[valid])
        sums += torch.stack([loss, hits1, hits5, valid.sum()]).to(sums)
    if dist.is_initialized():
        dist.all_reduce(sums)
    loss, hits1, hits5, videos = sums.tolist()
    log(
        f"Validation: {videos:.0f} videos    Loss {loss / videos:.4f}    "
        f"Prec@1 {100 * hits1 / videos:.3f} Prec@5 {100 * hits5 / videos:.3f}"
    )


def count_hits(output: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Count how often the label is the first guess, and among the first five."""
    guesses = output.topk(min(5, output.shape[1]), dim=1).indices
    hits = guesses == labels[:, None]
    return hits[:, 0].sum(), hits.any(1).sum()


class Progress:
    """Format the value of the last step, followed by the mean of all steps in brackets."""

    def __init__(self, steps: int) -> None:
        self._steps, self._count = steps, 0
        self._before = time.perf_counter()
        self._data = 0.0
        self._last = self._sum = torch.zeros(5)

    def note_data(self) -> None:
        """Note that the batch has arrived."""
        self._data = time.perf_counter() - self._before

    def update(self, loss: torch.Tensor, output: torch.Tensor, labels: torch.Tensor) -> None:
        hits1, hits5 = count_hits(output, labels)
        percent = 100 / len(labels)
        now = time.perf_counter()
        values = [now - self._before, self._data, float(loss), float(hits1) * percent]
        self._last = torch.tensor([*values, float(hits5) * percent])
        self._sum = self._sum + self._last
        self._count += 1
        self._before = now

    def line(self, epoch: int, step: int) -> str:
        pairs = list(zip(self._last.tolist(), (self._sum / self._count).tolist()))
        names = ("Time", "Data", "Loss", "Prec@1", "Prec@5")
        digits = (3, 3, 4, 3, 3)
        parts = [
            f"{name} {last:.{n}f} ({mean:.{n}f})"
            for name, n, (last, mean) in zip(names, digits, pairs)
        ]
        return "\t".join([f"Epoch: [{epoch}][{step}/{self._steps}]", *parts])


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write atomically: a process that is killed here leaves the previous checkpoint."""
    if dist.is_initialized() and dist.get_rank() != 0:
        return
    new = path.with_suffix(".new")
    torch.save({name: part.state_dict() for name, part in state.items()}, new)
    os.replace(new, path)


def log(text: str) -> None:
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
