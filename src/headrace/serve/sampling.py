"""Which rows an epoch consists of: all of them, a subset, a weighted draw, or a mixture."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.plan import draw_mixture, draw_weighted
from headrace.read.columns import NO_LABEL
from headrace.read.dataset import Dataset
from headrace.read.opening import open_dataset
from headrace.read.parts import Table

_log = logging.getLogger("headrace")
Weights = ArrayLike | Literal["balanced"] | None


@dataclass(eq=False, init=False)
class Mixture:
    """Several datasets as one: in each epoch of `samples`, each has its share of `weights`.

        Mixture(["photos/train", "shards/train"], weights=[3, 1])

    They are given by their paths or as `open_dataset` opened them, such as with its on_error="skip". Without
    `samples`, an epoch is as long as the datasets together. A share that is no whole number is rounded up in
    some epochs and down in others. A dataset is gone through whole before any of its samples comes again, over
    the borders of epochs. Slices and filtered datasets are not taken: pack what shall be mixed as a dataset of
    its own.
    """

    datasets: Sequence[Dataset]
    weights: Sequence[float]
    samples: int | None

    def __init__(
        self,
        datasets: Sequence[str | os.PathLike[str] | Dataset],
        weights: Sequence[float],
        samples: int | None = None,
    ) -> None:
        if len(datasets) != len(weights) or not datasets:
            raise ValueError(f"{len(weights)} weights for {len(datasets)} datasets")
        if samples is not None and samples < 1:
            raise ValueError(f"samples is {samples}; an epoch has at least 1")
        self.datasets = tuple(map(_open_whole, datasets))
        if self.classes is None and all(dataset.classes for dataset in self.datasets):
            _log.warning("mixed datasets have other classes: a label does not mean the same in all")
        self.weights, self.samples = tuple(weights), samples

    def __len__(self) -> int:
        """Samples of an epoch."""
        return sum(map(len, self.datasets)) if self.samples is None else self.samples

    @property
    def classes(self) -> Sequence[str] | None:
        """Class names where all datasets have the same: see `Dataset.classes`. Else None."""
        first, *others = (dataset.classes for dataset in self.datasets)
        return first if all(classes == first for classes in others) else None


def _open_whole(dataset: str | os.PathLike[str] | Dataset) -> Dataset:
    if isinstance(dataset, (str, os.PathLike)):
        return open_dataset(dataset)
    if not isinstance(dataset, Dataset):
        raise TypeError(f"a mixture takes paths and datasets, not {type(dataset).__name__}")
    if dataset.rows is not None:
        raise ValueError(
            "a mixture takes whole datasets, not slices or filtered ones: pack such a part as one, "
            "Flow.of(part).save(path)"
        )
    return dataset


class Sampling:
    """The rows of each epoch, ascending; the same for the same seed and epoch."""

    def __init__(
        self, source: Dataset | Mixture, table: Table, weights: Weights, seed: int
    ) -> None:
        self._source, self._seed = source, seed
        self._count, self._labels, self._bounds = (
            len(table.columns),
            table.columns.label,
            table.bounds,
        )
        self._subset = None
        if isinstance(source, Dataset) and source.rows is not None:
            self._subset = np.sort(source.rows)
        self._weights = None if weights is None else self._check_weights(weights)

    def __len__(self) -> int:
        return len(self._source)

    @property
    def subset(self) -> NDArray[np.int64] | None:
        """The rows that epochs are made of, ascending; None if all of them."""
        return self._subset

    @cached_property
    def digest(self) -> str:
        """Tells subsets, weights and mixtures apart that have equally many samples; empty for simply all."""
        if isinstance(self._source, Mixture):
            parts = [self._bounds, np.asarray(self._source.weights, np.float64)]
        else:
            parts = [part for part in (self._subset, self._weights) if part is not None]
        if not parts:
            return ""
        digest = hashlib.blake2b(digest_size=8)
        for part in parts:
            digest.update(f"{part.dtype.str}{len(part)} ".encode())
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()

    @property
    def share(self) -> float:
        """The part of all samples that an epoch may need."""
        wanted = self._count if self._subset is None else len(self._subset)
        if self._weights is not None:
            wanted = int(np.count_nonzero(self._weights))
        return wanted / max(self._count, 1)

    def rows(self, epoch: int, runs: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """None if simply all. `runs` are those of the datasets, which mixtures keep together."""
        if isinstance(self._source, Mixture):
            return draw_mixture(
                runs,
                self._bounds,
                np.asarray(self._source.weights, np.float64),
                seed=self._seed,
                epoch=epoch,
                count=len(self),
            )
        if self._weights is None or len(self) == 0:
            return self._subset
        drawn = draw_weighted(self._weights, seed=self._seed, epoch=epoch)
        return drawn if self._subset is None else self._subset[drawn]

    def _check_weights(self, weights: ArrayLike) -> NDArray[np.float64]:
        if isinstance(self._source, Mixture):
            raise ValueError(  # noqa: TRY004 - the type is fine, the weights are not
                "weights are of the samples of one dataset; a mixture has its own"
            )
        labels = self._labels if self._subset is None else self._labels[self._subset]
        if isinstance(weights, str):
            if weights != "balanced":
                raise ValueError(f"weights is {weights!r}; give 'balanced' or a number per sample")
            return _balance_classes(labels, self._source.origin)
        array = np.array(weights, np.float64)  # a copy: a batch depends on nothing that may change
        if array.shape != labels.shape:
            raise ValueError(f"{array.shape} weights for {len(labels)} samples")
        if self._source.rows is not None:
            array = array[np.argsort(self._source.rows, kind="stable")]
        return array


def _balance_classes(labels: NDArray[np.int64], origin: Path) -> NDArray[np.float64]:
    """Weights that make all classes equally frequent."""
    missing = np.count_nonzero(labels == NO_LABEL)
    if missing:
        raise ValueError(
            f"weights='balanced' needs labels: {missing} of {len(labels)} samples of {origin} have none; leave these "
            "out by filter(pc.field('label').is_valid()), or give a number per sample"
        )
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    weights: NDArray[np.float64] = 1.0 / counts[inverse]
    return weights
