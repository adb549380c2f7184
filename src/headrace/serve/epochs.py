"""The epochs of a loader: which samples, in what order, for which rank. No thread, no pixel.

In: a source, a split, a seed. Out: a plan for any epoch, and the state of any position in one. Guaranteed: equal
states are followed by equal batches, and a state that would not be is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from operator import index
from typing import Any, NamedTuple

import numpy as np

from headrace.plan import EpochPlan, Shuffle, Split, plan_epoch
from headrace.plan.split import choose_lanes
from headrace.read.dataset import Dataset
from headrace.read.layout import Layout
from headrace.read.parts import Table
from headrace.serve.choices import choose_run_bytes, choose_window
from headrace.serve.renderer import IMAGE, LABEL
from headrace.serve.sampling import Mixture, Sampling, Weights


class Position(NamedTuple):
    """A step of an epoch.

    lanes: those that the epoch was begun with, if it would have others here.
    world_size: how many ranks count these steps; None where no epoch was begun yet.
    is_loaded: whether it comes from a state, whose global batch was compared for that world size.
    """

    epoch: int
    step: int
    lanes: int | None = None
    world_size: int | None = None
    is_loaded: bool = False

    def is_start_of(self, epoch: int) -> bool:
        """Return whether it is the first step of `epoch`."""
        return (self.epoch, self.step) == (epoch, 0)


@dataclass(frozen=True)
class State:
    """Where a loader stands, and what must be equal for the batches after it to be the same."""

    epoch: int
    step: int
    seed: int
    samples: int
    data: str
    selection: str
    global_batch: int
    lanes: int
    window: int | None
    shuffle: bool

    @classmethod
    def read(cls, state: Mapping[str, Any]) -> State:
        """The state that was written as a mapping."""
        try:
            read = cls(**state)
            return replace(
                read, epoch=index(read.epoch), step=index(read.step), lanes=index(read.lanes)
            )
        except TypeError as error:
            raise ValueError(f"not the state of a loader of this version: {error}") from None


class Epochs:
    """Plans of epochs over the samples of a source, as one rank of `split` goes through them."""

    def __init__(
        self,
        source: Dataset | Mixture,
        fields: Sequence[str],
        split: Split,
        *,
        seed: int,
        shuffle: bool,
        window: int | str | None,
        weights: Weights,
    ) -> None:
        self.table = _read_table(source, fields)
        self.sampling = Sampling(source, self.table, weights, seed)
        self.seed = seed
        self._choices = shuffle, window
        self._layouts: dict[bool, Layout] = {}
        self._kept: tuple[int, Split, EpochPlan] | None = None
        self._set_split(split)

    def _set_split(self, split: Split) -> None:
        """Set what depends on how many ranks there are."""
        shuffle, window = self._choices
        self.split = split
        self.window = choose_window(window, self.table, split.global_batch) if shuffle else 0
        self._shuffle = Shuffle(self.seed, self.window) if shuffle else None

    def shared_by(self, rank: int, world_size: int) -> Epochs:
        """Return the epochs of the same samples as this rank goes through them."""
        split = replace(self.split, rank=rank, world_size=world_size)
        if split == self.split:
            return self
        other = copy(self)
        other._set_split(split)
        return other

    @property
    def layout(self) -> Layout:
        """The runs that samples are read in."""
        shuffle = self._shuffle
        anywhere = shuffle is not None and shuffle.is_global(len(self.sampling))
        if anywhere not in self._layouts:
            columns = self.table.columns
            run_bytes = choose_run_bytes(columns, anywhere=anywhere, wanted=self.sampling.share)
            self._layouts[anywhere] = Layout(columns, self.table.parts, run_bytes)
        return self._layouts[anywhere]

    def __len__(self) -> int:
        """Steps of an epoch."""
        return self.split.count_steps(len(self.sampling))

    def plan(self, begin: Position) -> EpochPlan:
        """The plan of the epoch that begins, or goes on, there. The last one is kept."""
        epoch, split = begin.epoch, self._split_at(begin)
        if self._kept is None or self._kept[:2] != (epoch, split):
            rows = self.sampling.rows(epoch, self.layout.runs)
            plan = plan_epoch(
                self.layout.runs, split, epoch=epoch, shuffle=self._shuffle, rows=rows
            )
            self._kept = (epoch, split, plan)
        return self._kept[2]

    def write_state(self, position: Position) -> dict[str, Any]:
        """Plain values, the same on every rank."""
        return asdict(self._state(position))

    def read_state(self, state: Mapping[str, Any]) -> Position:
        """The position of a state; ValueError if it is of another loader."""
        loaded = State.read(state)
        world_size = self.split.world_size
        position = Position(loaded.epoch, loaded.step, world_size=world_size, is_loaded=True)
        _check_equal(asdict(loaded), asdict(replace(self._state(position), lanes=loaded.lanes)))
        if loaded.epoch < 0 or not 0 <= loaded.step <= len(self):
            raise ValueError(
                f"step {loaded.step} of epoch {loaded.epoch}: an epoch has {len(self)}"
            )
        if loaded.step == 0:
            return position
        if loaded.lanes % self.split.world_size:
            raise ValueError(
                f"cannot resume mid-epoch with world_size={self.split.world_size}: it must divide {loaded.lanes}; resume "
                "with such a world size, or call set_epoch() to start a new epoch"
            )
        return position._replace(lanes=replace(self.split, lanes=loaded.lanes).lanes)

    def check_world(self, position: Position) -> None:
        """Raise ValueError if a position within an epoch, or of a state, counts the steps of another world size."""
        if (position.step or position.is_loaded) and position.world_size != self.split.world_size:
            raise ValueError(
                f"cannot resume at step {position.step} of epoch {position.epoch}: the state was loaded for "
                f"world_size={position.world_size}, which is {self.split.world_size} now; load it when the process "
                "group is there, give rank and world_size, or call set_epoch() to start a new epoch"
            )

    def _split_at(self, position: Position) -> Split:
        return replace(self.split, lanes=position.lanes)

    def _state(self, position: Position) -> State:
        split = self._split_at(position)
        return State(
            epoch=position.epoch,
            step=position.step,
            seed=self.seed,
            samples=len(self.sampling),
            data=self._digest,
            selection=self.sampling.digest,
            global_batch=split.global_batch,
            lanes=choose_lanes(split, shuffled=self._shuffle is not None),
            window=self.window,
            shuffle=self._shuffle is not None,
        )

    @cached_property
    def _digest(self) -> str:
        """Tells datasets apart that epochs go through in different ways: by keys, shards and sizes."""
        digest = hashlib.blake2b(self.table.keys, digest_size=8)
        digest.update(np.array([part.start for part in self.table.parts]).data)
        digest.update(self.table.columns.image.size.data)
        return digest.hexdigest()


def _read_table(source: Dataset | Mixture, fields: Sequence[str]) -> Table:
    datasets = source.datasets if isinstance(source, Mixture) else [source]
    others = [name for name in fields if name not in (IMAGE, LABEL)]
    return Table(datasets, others, image=IMAGE in fields)


def _check_equal(loaded: dict[str, Any], mine: dict[str, Any]) -> None:
    differing = [
        f"{name} is {value!r}, here {mine[name]!r}"
        for name, value in loaded.items()
        if value != mine[name]
    ]
    if loaded["data"] != mine["data"]:
        differing.append(
            "it was taken with other samples, with other images of them, or with the same packed in another way"
        )
    elif loaded["selection"] != mine["selection"]:
        differing.append("it was taken with another subset, other weights or another mixture")
    if differing:
        anew = (
            ""
            if loaded["step"]
            else f". To begin epoch {loaded['epoch']} anew, call set_epoch({loaded['epoch']})"
        )
        raise ValueError(f"the state is of another loader: {'; '.join(differing)}{anew}")
