"""The epochs of a loader: which samples, in what order, for which rank. No threads, no pixels.

Takes a source and the options. Gives a plan for any epoch.
"""

from __future__ import annotations

import hashlib
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from headrace.plan import BucketOrder, EpochPlan, Runs, Shuffle, Split, plan_epoch
from headrace.plan.split import Last
from headrace.read.dataset import Dataset
from headrace.read.run_layout import Layout
from headrace.read.table import Table
from headrace.recipe.buckets import Buckets
from headrace.recipe.clip import Clip
from headrace.recipe.schedule import Schedule
from headrace.serve.clip_draws import check_rates, reads_spans
from headrace.serve.derived_options import choose_run_bytes, choose_window
from headrace.serve.loader_options import LoaderOptions
from headrace.serve.pictures import IMAGE, LABEL
from headrace.serve.sampling import Mixture, Sampling


class Position(NamedTuple):
    """A step of an epoch.

    Attributes:
        lanes: number of lanes that the epoch began with, if it would have another number here.
        world_size: number of ranks that count these steps; None before the first epoch.
        is_loaded: whether it comes from a state, whose global batch was checked for that world size.
    """

    epoch: int
    step: int
    lanes: int | None = None
    world_size: int | None = None
    is_loaded: bool = False

    def is_start_of(self, epoch: int) -> bool:
        """Return whether it is the first step of `epoch`."""
        return (self.epoch, self.step) == (epoch, 0)


class Epochs:
    """Plans epochs over the samples of a source, as one rank iterates over them."""

    def __init__(
        self, source: Dataset | Mixture, options: LoaderOptions, clip: Clip | None = None
    ) -> None:
        self.table = _read_table(source, options, clip)
        self.reads_spans = False
        if clip is not None:
            check_rates(self.table, clip)
            self.reads_spans = reads_spans(self.table.columns, clip)
        self.sampling = Sampling(source, self.table, options.weights, options.seed)
        self.seed = options.seed
        self._choices = options.shuffle, options.window
        self._kept: tuple[int, Split, EpochPlan] | None = None
        self.buckets = options.buckets if isinstance(options.buckets, Buckets) else None
        last: Last = "drop" if options.drop_last else "short"
        self._batch_size = options.batch_size
        self._set_split(Split(options.batch_sizes[0], last=last, repeat=options.repeat))

    def _set_split(self, split: Split) -> None:
        """Set what depends on the number of ranks."""
        shuffle, window = self._choices
        self.split = split
        self.window: int | None = 0
        if shuffle:
            apart = self.reads_spans
            self.window = choose_window(window, self.table, split.global_batch, apart=apart)
        self.shuffle = Shuffle(self.seed, self.window) if shuffle else None

    def shared_by(self, rank: int, world_size: int) -> Epochs:
        """Return the epochs over the same samples as another rank iterates over them."""
        return self._split_as(replace(self.split, rank=rank, world_size=world_size))

    def sized_at(self, epoch: int) -> Epochs:
        """Return the epochs with the batch size of one of them, which a schedule may change."""
        if not isinstance(self._batch_size, Schedule):
            return self
        size = self._batch_size.at(epoch)
        assert isinstance(size, int)
        return self._split_as(replace(self.split, batch_size=size))

    def _split_as(self, split: Split) -> Epochs:
        if split == self.split:
            return self
        other = copy(self)
        other._set_split(split)
        return other

    @cached_property
    def layout(self) -> Layout:
        """Where samples lie."""
        return Layout(self.table.columns, self.table.parts)

    @property
    def runs(self) -> Runs:
        """The runs that samples are read in."""
        shuffle = self.shuffle
        entries = self.split.count_distinct(len(self.sampling))
        anywhere = shuffle is not None and shuffle.is_global(entries)
        run_bytes = 1
        if not self.reads_spans:
            share = self.sampling.share
            run_bytes = choose_run_bytes(self.table.columns, anywhere=anywhere, wanted=share)
        return self.layout.cut_runs(run_bytes)

    def __len__(self) -> int:
        """Return the number of steps of an epoch of this batch size."""
        return self.split.count_steps(len(self.sampling))

    def plan(self, begin: Position) -> EpochPlan:
        """Return the plan of the epoch that begins or resumes at a position. The last one is kept."""
        epoch, split = begin.epoch, self.split_at(begin)
        if self._kept is None or self._kept[:2] != (epoch, split):
            self._kept = None  # two plans of a billion samples would take twice the memory
            # With repeats, several epochs share the rows of one draw.
            runs = self.runs
            rows = self.sampling.rows(epoch // split.repeat, runs)
            plan = plan_epoch(
                runs,
                split,
                epoch=epoch,
                shuffle=self.shuffle,
                rows=rows,
                buckets=self._bucket_order,
            )
            self._kept = (epoch, split, plan)
        return self._kept[2]

    def split_at(self, position: Position) -> Split:
        """Return the split of the epoch that a position is in."""
        return replace(self.split, lanes=position.lanes)

    @cached_property
    def _bucket_order(self) -> BucketOrder | None:
        if self.buckets is None:
            return None
        columns = self.table.columns
        heights, widths = np.maximum(columns.height, 1), np.maximum(columns.width, 1)
        return BucketOrder(heights / widths, self.buckets.ratios, self.buckets.block)

    @cached_property
    def digest(self) -> str:
        """Identifies the dataset: a digest of keys, shards and sizes, which decide how epochs go through it."""
        digest = hashlib.blake2b(self.table.keys, digest_size=8)
        digest.update(np.array([part.start for part in self.table.parts]).data)
        digest.update(self.table.columns.image.size.data)
        return digest.hexdigest()


def _read_table(source: Dataset | Mixture, options: LoaderOptions, clip: Clip | None) -> Table:
    datasets = source.datasets if isinstance(source, Mixture) else [source]
    others = [name for name in options.fields if name not in (IMAGE, LABEL)]
    return Table(
        datasets,
        others,
        image=IMAGE in options.fields,
        video=clip is not None,
        orient=options.orient,
        kinds=options.kinds,
    )
