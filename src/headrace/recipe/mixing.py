"""MixUp and CutMix: the last step of a transform, which mixes the images of a batch and their labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import plan
from headrace.recipe.patched_steps import find_change
from headrace.recipe.torchvision import find_container, find_family


@dataclass(frozen=True)
class MixUp:
    """Mix each image with another one of the batch, and their labels alike: the last step of a transform.

        transform=[RandomResizedCrop(224), RandomHorizontalFlip(), Normalize(), MixUp(0.2, num_classes=1000)]

    Labels become float32[B, num_classes]. All images of a step have the same share, drawn from Beta(alpha, alpha).
    It is a function of (seed, epoch, step): the same global batch is mixed in the same way for any world size. Entries
    that only fill up a batch are not mixed.

    Args:
        alpha: parameter of the Beta distribution.
        num_classes: number of classes. Default: that of the dataset.
        smoothing: label smoothing, spread over all classes.
        p: probability that a batch is mixed.
    """

    alpha: float = 1.0
    num_classes: int | None = None
    smoothing: float = 0.0
    p: float = 1.0

    def __post_init__(self) -> None:
        _check(self.alpha, self.num_classes, self.smoothing, self.p)


@dataclass(frozen=True)
class CutMix:
    """Put a box of another image of the batch into each image, and mix their labels by area. See `MixUp`.

    Args:
        alpha: parameter of the Beta distribution, from which the area is drawn.
        num_classes: number of classes. Default: that of the dataset.
        smoothing: label smoothing, spread over all classes.
        p: probability that a batch is mixed.
    """

    alpha: float = 1.0
    num_classes: int | None = None
    smoothing: float = 0.0
    p: float = 1.0

    def __post_init__(self) -> None:
        _check(self.alpha, self.num_classes, self.smoothing, self.p)


def _check(alpha: float, num_classes: int | None, smoothing: float, p: float) -> None:
    if not alpha > 0:
        raise ValueError(f"alpha is {alpha}; give a positive number")
    if num_classes is not None and num_classes < 1:
        raise ValueError(f"num_classes is {num_classes}; give at least 1")
    for name, value in (("smoothing", smoothing), ("p", p)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}; give a number from 0 to 1")


@dataclass(frozen=True)
class MixChoice:
    """Choose one of several `MixUp` and `CutMix` for each batch, with the given probabilities. Default: equal ones.

    transform=[..., Normalize(), MixChoice([MixUp(0.8), CutMix(1.0)])]
    """

    choices: tuple[MixUp | CutMix, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        choices, weights = tuple(self.choices), tuple(self.weights) or (1.0,) * len(self.choices)
        if not choices or not all(isinstance(choice, (MixUp, CutMix)) for choice in choices):
            raise TypeError(f"choices are {choices}; give a list of MixUp and CutMix")
        if len({(choice.num_classes, choice.smoothing) for choice in choices}) > 1:
            raise ValueError("choices differ in num_classes or smoothing: give all the same")
        if len(weights) != len(choices) or min(weights) < 0 or not sum(weights) > 0:
            raise ValueError(
                f"weights are {weights}; give a number for each of {len(choices)} choices"
            )
        object.__setattr__(self, "choices", choices)
        object.__setattr__(self, "weights", weights)

    def choose(self, uniform: float) -> MixUp | CutMix:
        """Return one of the choices, from a number in [0, 1)."""
        ends = np.cumsum(self.weights) / sum(self.weights)
        return self.choices[min(int(np.searchsorted(ends, uniform, side="right")), len(ends) - 1)]


@dataclass(frozen=True)
class DrawnMix:
    """How the batch of a step is mixed: a share of each image stays, everywhere or outside of a box.

    Args:
        share: How much of an image, and so of its label, stays.
        box: (left, top, right, bottom) that comes from the other image; None if all pixels are mixed.
    """

    share: float
    box: tuple[int, int, int, int] | None = None


def draw_mix(
    mixing: MixChoice, seed: int, epoch: int, step: int, size: tuple[int, int]
) -> DrawnMix | None:
    """Return how the images of a step, of this (height, width), are mixed; None if they are not."""
    uniforms = plan.draw_mixing_uniforms(seed, epoch, step)
    chosen = mixing.choose(float(uniforms[1]))
    if uniforms[0] >= chosen.p:
        return None
    share = plan.draw_beta(uniforms, chosen.alpha)
    if isinstance(chosen, MixUp):
        return DrawnMix(share)
    height, width = size
    left, top, right, bottom = box = plan.cut_box(uniforms, share, height, width)
    return DrawnMix(1 - (right - left) * (bottom - top) / (width * height), box)


def smooth_labels(labels: NDArray[np.int64], classes: int, smoothing: float) -> NDArray[np.float32]:
    """Return float32[B, classes]: one at each label, or less with smoothing. Negative labels have zeros.

    Raises:
        ValueError: There are more classes.
    """
    if labels.max(initial=0) >= classes:
        raise ValueError(
            f"num_classes is {classes}, but there is a label {labels.max()}: give MixUp and CutMix at least "
            f"{labels.max() + 1}"
        )
    soft = np.full((len(labels), classes), smoothing / classes, np.float32)
    known = labels >= 0
    soft[known, labels[known]] = 1 - smoothing + smoothing / classes
    soft[~known] = 0
    return soft


def take_mixing(transform: Any) -> tuple[Any, MixChoice | None]:
    """Return a transform without the MixUp or CutMix at its end, and that one.

    torchvision's v2.MixUp, v2.CutMix and v2.RandomChoice of them count as well.

    Raises:
        ValueError: One of them stands elsewhere.
    """
    steps = list(find_container(transform) or [transform])
    mixing = [_read_mixing(step) for step in steps]
    if not any(mixing):
        return transform, None
    if change := find_change(transform):
        raise ValueError(f"{type(transform).__name__} with {steps[-1]}: {change}: leave that out")
    if any(mixing[:-1]):
        found = next(step for step, mixes in zip(steps, mixing, strict=True) if mixes)
        raise ValueError(f"{found} mixes finished batches: put it last, and once")
    return steps[:-1], mixing[-1]


def _read_mixing(step: Any) -> MixChoice | None:
    if isinstance(step, MixChoice):
        return step
    if isinstance(step, (MixUp, CutMix)):
        return MixChoice((step,))
    if find_family(step) != "v2":
        return None
    name = type(step).__name__
    if name == "RandomChoice":
        return _read_choice(step)
    if name not in ("MixUp", "CutMix"):
        return None
    _check_unchanged(step)
    kind = MixUp if name == "MixUp" else CutMix
    return MixChoice((kind(float(step.alpha), step.num_classes),))


def _read_choice(step: Any) -> MixChoice | None:
    """Return a choice of MixUp and CutMix, also of nested ones; None if it is of other steps."""
    parts = [_read_mixing(part) for part in step.transforms]
    if any(part is None for part in parts):
        return None
    _check_unchanged(step)
    choices, weights = list[MixUp | CutMix](), list[float]()
    for part, share in zip(parts, step.p, strict=True):
        assert part is not None
        choices.extend(part.choices)
        weights.extend(share * weight / sum(part.weights) for weight in part.weights)
    return MixChoice(tuple(choices), tuple(weights))


def _check_unchanged(step: Any) -> None:
    """Raise ValueError if a step of torchvision mixes in another way than its class says."""
    change = find_change(step)
    getter = getattr(step, "_labels_getter", None)
    if getattr(getter, "__module__", "torchvision").partition(".")[0] != "torchvision":
        change = "it has a labels_getter of its own"
    if change:
        raise ValueError(f"{step}: {change}, which the loader would ignore: leave that out")
