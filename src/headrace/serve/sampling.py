"""Choose the rows of an epoch: all of them, a subset, a weighted draw, or a mixture."""

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

from headrace.open import open_dataset
from headrace.plan import Runs, draw_mixture, draw_weighted
from headrace.read.columns import NO_LABEL
from headrace.read.dataset import Dataset
from headrace.read.table import Table

_log = logging.getLogger("headrace")
Weights = ArrayLike | Literal["balanced"] | None


@dataclass(eq=False, init=False)
class Mixture:
    """Load several datasets as one, each with its share of every epoch.

        train = Loader(Mixture(["photos/train", "shards/train"], weights=[3, 1]), 256)

    A share that is not an integer is rounded up in some epochs and down in others. All samples of a dataset come once
    before any of them comes again, also across epochs.

    Args:
        datasets: paths, or datasets that `open_dataset` returned, such as with on_error="skip". Slices and filtered
            datasets are refused: pack them as datasets of their own.
        weights: a number per dataset; shares are in proportion to them.
        samples: length of an epoch. Default: the number of samples of all datasets together.

    Raises:
        TypeError: one of `datasets` is neither a path nor a dataset.
        ValueError: the numbers of weights and datasets differ, `samples` is less than 1, or a dataset is not whole.
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
            raise ValueError(
                f"{len(weights)} weights for {len(datasets)} datasets; give one for each"
            )
        if samples is not None and samples < 1:
            raise ValueError(f"samples is {samples}; it must be at least 1")
        self.datasets = tuple(map(_open_whole, datasets))
        if self.classes is None and all(dataset.classes for dataset in self.datasets):
            _log.warning(
                "the mixed datasets differ in their classes: a label means different things"
            )
        self.weights, self.samples = tuple(weights), samples

    def __len__(self) -> int:
        """Return the number of samples per epoch."""
        return sum(map(len, self.datasets)) if self.samples is None else self.samples

    @property
    def classes(self) -> Sequence[str] | None:
        """Class names if they are the same in all datasets, else None: see `Dataset.classes`."""
        first, *others = (dataset.classes for dataset in self.datasets)
        return first if all(classes == first for classes in others) else None


def _open_whole(dataset: str | os.PathLike[str] | Dataset) -> Dataset:
    if isinstance(dataset, (str, os.PathLike)):
        return open_dataset(dataset)
    if not isinstance(dataset, Dataset):
        raise TypeError(f"a mixture takes paths and datasets, not {type(dataset).__name__}")
    if dataset.rows is not None:
        raise ValueError(
            "a mixture takes whole datasets, not slices or filtered ones; pack such a dataset by "
            "Flow.of(dataset).save(path)"
        )
    return dataset


class Sampling:
    """Chooses the rows of each epoch, ascending; the same for the same seed and epoch."""

    def __init__(
        self, source: Dataset | Mixture, table: Table, weights: Weights, seed: int
    ) -> None:
        self._source, self._seed = source, seed
        self._count, self._labels = len(table.columns), table.columns.label
        self._bounds = table.bounds
        self._subset = None
        if isinstance(source, Dataset) and source.rows is not None:
            self._subset = np.sort(source.rows)
        self._weights = None if weights is None else self._check_weights(weights)

    def __len__(self) -> int:
        return len(self._source)

    @property
    def subset(self) -> NDArray[np.int64] | None:
        """Rows that epochs are made of, ascending; None for all of them."""
        return self._subset

    @cached_property
    def digest(self) -> str:
        """Identifies the subset, weights or mixture; empty if all samples come once."""
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
        """Share of all samples that an epoch may need."""
        wanted = self._count if self._subset is None else len(self._subset)
        if self._weights is not None:
            wanted = int(np.count_nonzero(self._weights))
        return wanted / max(self._count, 1)

    def rows(self, epoch: int, runs: Runs) -> NDArray[np.int64] | None:
        """Return the rows of an epoch, None for all. Mixtures keep the rows of a run together."""
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
                "weights are for the samples of one dataset; give a Mixture its own weights"
            )
        labels = self._labels if self._subset is None else self._labels[self._subset]
        if isinstance(weights, str):
            if weights != "balanced":
                raise ValueError(f"weights is {weights!r}; give 'balanced' or a number per sample")
            return _balance_classes(labels, self._source.origin)
        array = np.array(weights, np.float64)  # a copy: a batch depends on nothing that may change
        if array.shape != labels.shape:
            raise ValueError(
                f"weights of shape {array.shape}; give one for each of {len(labels)} samples"
            )
        if self._source.rows is not None:
            array = array[np.argsort(self._source.rows, kind="stable")]
        return array


def _balance_classes(labels: NDArray[np.int64], origin: Path) -> NDArray[np.float64]:
    """Return weights that make all classes equally frequent."""
    missing = np.count_nonzero(labels == NO_LABEL)
    if missing:
        raise ValueError(
            f"weights='balanced' needs labels: {missing} of {len(labels)} samples of {origin} have none; leave "
            "them out by filter(pc.field('label').is_valid()), or give a number per sample"
        )
    _, inverse, counts = np.unique(labels, return_inverse=True, return_counts=True)
    weights: NDArray[np.float64] = 1.0 / counts[inverse]
    return weights
