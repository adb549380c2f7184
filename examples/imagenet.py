"""Train a ResNet on ImageNet, or on any dataset with the same folders.

    headrace pack imagenet/train shards/train && headrace pack imagenet/val shards/val    # or use the folders as they are
    python examples/imagenet.py shards
    torchrun --nproc-per-node 8 examples/imagenet.py shards --arch resnet50 --batch-size 1024 --amp bf16
    python examples/imagenet.py shards --recipe v2 --repeat 4    # v1, v2, deit or a3: see docs/guides/recipes.md

DATA contains `train` and `val`, each a packed dataset or an image folder. Under torchrun, --batch-size
counts the samples of all processes together. The script writes a checkpoint every --checkpoint-steps
steps and after each epoch; --resume continues with the very next batch. Validation counts every image
once, for any number of processes.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torchvision import models, transforms

from headrace.torch import Loader
from headrace.transforms import CutMix, MixChoice, MixUp

SIZES = {"v1": 224, "v2": 176, "deit": 224, "a3": 160}
"""The published recipes, and the sides of their images."""
ENDING = [
    transforms.ToTensor(),
    transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
]


def main() -> None:
    args = parse_arguments()
    device = start_process(args)
    train_and_validate(args, device)
    if dist.is_initialized():
        # Only after the model is freed: as the last owner of gloo's group, it can deadlock.
        dist.destroy_process_group()


def train_and_validate(args: argparse.Namespace, device: torch.device) -> None:
    train, val = make_loaders(args, device)
    model = make_model(args, device)
    optimizer = torch.optim.SGD(
        model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay
    )
    scaler = torch.amp.GradScaler(device.type, enabled=args.amp == "fp16")
    bare = getattr(model, "module", model)  # with one process or several, the same names
    state = {"model": bare, "optimizer": optimizer, "scaler": scaler, "train": train}
    if args.resume:
        load_checkpoint(args.resume, {"model": bare} if args.evaluate else state, device)
    if args.evaluate:
        validate(val, model, args, device)
        return
    for epoch in range(train.state_dict()["epoch"], args.epochs):
        train.set_epoch(epoch)
        set_learning_rate(optimizer, args.lr * 0.1 ** (epoch // 30))
        train_epoch(train, model, optimizer, scaler, args, device, state)
        validate(val, model, args, device)
        save_checkpoint(args.checkpoint, state)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="folder with train and val")
    add("-a", "--arch", default="resnet18", choices=["resnet18", "resnet50"])
    add("--classes", type=int, default=1000)
    add("--epochs", type=int, default=90)
    add(
        "-b",
        "--batch-size",
        type=int,
        default=256,
        help="samples per step, of all processes together",
    )
    add("--lr", "--learning-rate", type=float, default=0.1)
    add("--momentum", type=float, default=0.9)
    add("--wd", "--weight-decay", dest="weight_decay", type=float, default=1e-4)
    add("-j", "--workers", type=int, default=None, help="worker processes for transforms in Python")
    add("-p", "--print-freq", type=int, default=10, help="steps between log lines")
    add(
        "--recipe",
        default="v1",
        choices=SIZES,
        help="augmentation: torchvision's references v1 and v2, DeiT, or A3 of ResNet strikes back",
    )
    add("--repeat", type=int, default=1, help="copies of each sample in a batch")
    add("--image-size", type=int, help="side of the images; default: that of the recipe")
    add("--amp", default="off", choices=["off", "bf16", "fp16"], help="mixed precision")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--seed", type=int, default=0)
    add("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    add("--checkpoint-steps", type=int, default=1000)
    add("--resume", type=Path, help="checkpoint to resume from")
    add("-e", "--evaluate", action="store_true", help="validate only")
    args = parser.parse_args()
    args.image_size = args.image_size or SIZES[args.recipe]
    return args


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


def make_loaders(args: argparse.Namespace, device: torch.device) -> tuple[Loader, Loader]:
    size = args.image_size
    look = [transforms.Resize(size * 256 // 224), transforms.CenterCrop(size)]
    world = dist.get_world_size() if dist.is_initialized() else 1
    options: dict[str, Any] = {"num_workers": args.workers, "device": device, "seed": args.seed}
    train = Loader(
        args.data / "train",
        args.batch_size // world,
        shuffle=True,
        drop_last=True,
        transform=make_training_transform(args),
        repeat=args.repeat,
        **options,
    )
    val = Loader(
        args.data / "val",
        args.batch_size // world,
        transform=transforms.Compose([*look, *ENDING]),
        **options,
    )
    log(str(train))
    return train, val


def make_training_transform(args: argparse.Namespace) -> Any:
    """Return the transform of a recipe. All of it runs in the core; labels are soft where the last step mixes."""
    crop = [transforms.RandomResizedCrop(args.image_size), transforms.RandomHorizontalFlip()]
    if args.recipe == "v1":
        return transforms.Compose([*crop, *ENDING])
    if args.recipe == "v2":
        policy = transforms.TrivialAugmentWide(interpolation=transforms.InterpolationMode.BILINEAR)
        steps = [*crop, policy, *ENDING, transforms.RandomErasing(0.1)]
        return [*steps, make_mixing(0.2, args.classes, smoothing=0.1)]
    if args.recipe == "deit":
        policy = make_timm_transform(args.image_size, "rand-m9-mstd0.5-inc1", erasing=0.25)
        return [policy, make_mixing(0.8, args.classes, smoothing=0.1)]
    policy = make_timm_transform(args.image_size, "rand-m6-mstd0.5-inc1", erasing=0.0)
    return [policy, make_mixing(0.1, args.classes, smoothing=0.0)]


def make_timm_transform(size: int, policy: str, erasing: float) -> Any:
    from timm.data import create_transform

    return create_transform(
        size,
        is_training=True,
        auto_augment=policy,
        interpolation="bicubic",
        re_prob=erasing,
        re_mode="pixel",
    )


def make_mixing(alpha: float, classes: int, smoothing: float) -> MixChoice:
    """Return MixUp or CutMix, each for half of the batches."""
    return MixChoice([MixUp(alpha, classes, smoothing), CutMix(1.0, classes, smoothing)])


def make_model(args: argparse.Namespace, device: torch.device) -> nn.Module:
    model: nn.Module = getattr(models, args.arch)(num_classes=args.classes)
    model = model.to(device, memory_format=torch.channels_last)
    if not dist.is_initialized():
        return model
    ids = [device.index] if device.type == "cuda" else None
    return nn.parallel.DistributedDataParallel(model, device_ids=ids)


def train_epoch(
    train: Loader,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    args: argparse.Namespace,
    device: torch.device,
    state: dict[str, Any],
) -> None:
    model.train()
    progress = Progress(len(train), args.batch_size)
    for batch in train:
        images, labels = batch
        with autocast(args, device):
            output = model(images)
            loss = cross_entropy(output, labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        progress.update(loss.detach(), output.detach(), labels)
        step = batch.step + 1
        if step % args.print_freq == 0 or step == len(train):
            log(progress.line(batch.epoch, step))
        if step % args.checkpoint_steps == 0:
            save_checkpoint(args.checkpoint, state)


@torch.inference_mode()
def validate(val: Loader, model: nn.Module, args: argparse.Namespace, device: torch.device) -> None:
    """Evaluate every image once; entries that only fill a batch have a label that the loss ignores."""
    model.eval()
    sums = torch.zeros(
        4, dtype=torch.float64, device=device
    )  # loss, errors, errors of five, images
    for images, labels in val:
        with autocast(args, device):
            output = model(images)
        valid = labels >= 0
        loss = cross_entropy(output[valid].float(), labels[valid], reduction="sum")
        wrong1, wrong5 = count_errors(output[valid], labels[valid])
        sums += torch.stack([loss, wrong1, wrong5, valid.sum()]).to(sums)
    if dist.is_initialized():
        dist.all_reduce(sums)
    loss, wrong1, wrong5, images_seen = sums.tolist()
    log(
        f"Validation: {images_seen:.0f} images    Loss {loss / images_seen:.4f}    "
        f"Error@1 {100 * wrong1 / images_seen:.3f} Error@5 {100 * wrong5 / images_seen:.3f}"
    )


def autocast(args: argparse.Namespace, device: torch.device) -> torch.autocast:
    dtype = torch.float16 if args.amp == "fp16" else torch.bfloat16
    return torch.autocast(device.type, dtype, enabled=args.amp != "off")


def count_errors(output: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Count how often the label is not the first guess, and not among the first five.

    Of a mixed image, the label with the largest share counts.
    """
    if labels.ndim == 2:
        labels = labels.argmax(1)
    guesses = output.topk(min(5, output.shape[1]), dim=1).indices
    hits = guesses == labels[:, None]
    return (~hits[:, :1].any(1)).sum(), (~hits.any(1)).sum()


class Progress:
    """Format the value of the last step, followed by the mean of all steps in brackets."""

    def __init__(self, steps: int, batch_size: int) -> None:
        self._steps, self._batch_size = steps, batch_size
        self._began = self._before = self._now = time.perf_counter()
        self._count = 0
        self._last = self._sum = torch.zeros(3)

    def update(self, loss: torch.Tensor, output: torch.Tensor, labels: torch.Tensor) -> None:
        wrong1, wrong5 = count_errors(output, labels)
        percent = 100 / len(labels)
        self._last = torch.stack([loss.float(), wrong1 * percent, wrong5 * percent])
        self._sum = (
            self._sum.to(self._last.device) + self._last
        )  # stays on the device until printed
        self._count += 1
        self._before, self._now = self._now, time.perf_counter()

    def line(self, epoch: int, step: int) -> str:
        seconds, mean_seconds = self._now - self._before, (self._now - self._began) / self._count
        last, mean = self._last.tolist(), (self._sum / self._count).tolist()
        return (
            f"Epoch: [{epoch}][{step}/{self._steps}]    "
            f"Time {seconds:.3f} ({mean_seconds:.3f})    "
            f"Data {self._batch_size / seconds:.1f} ({self._batch_size / mean_seconds:.1f})    "
            f"Loss {last[0]:.4f} ({mean[0]:.4f})    "
            f"Error@1 {last[1]:.3f} ({mean[1]:.3f}) Error@5 {last[2]:.3f} ({mean[2]:.3f})"
        )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write atomically: a process that is killed here leaves the previous checkpoint."""
    if dist.is_initialized() and dist.get_rank() != 0:
        return
    new = path.with_suffix(".new")
    torch.save({name: part.state_dict() for name, part in state.items()}, new)
    os.replace(new, path)


def load_checkpoint(path: Path, state: dict[str, Any], device: torch.device) -> None:
    saved = torch.load(path, map_location=device, weights_only=True)
    for name, part in state.items():
        part.load_state_dict(saved[name])
    log(f"resumed from {path}: {saved['train']}")


def log(text: str) -> None:
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
