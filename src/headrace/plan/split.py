"""Split the line of an epoch over steps and ranks.

The line is cut into lanes of equal length (to one sample). A global batch takes the same number of
samples from each lane, and a rank owns whole lanes next to each other. So the global batches depend
on the global batch size and the number of lanes, never on how many ranks share the lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm
from typing import Literal

# What happens to samples that do not fill the last global batch:
#   drop   they are left out
#   short  the last batch is smaller; a rank without samples repeats one, marked invalid
Last = Literal["drop", "short"]

_USUAL_LANES = 8


@dataclass(frozen=True)
class Split:
    """The part of each global batch that one rank takes: `batch_size` samples per step.

    `lanes` must be a multiple of `world_size` and divide the global batch. Default: see `choose_lanes`.
    To resume an epoch with another world size, give the lanes it began with. With `repeat`, each entry comes so many
    times in its batch, and an epoch takes one entry in `repeat`: see `headrace.plan.repeat`.
    """

    batch_size: int
    rank: int = 0
    world_size: int = 1
    lanes: int | None = None
    last: Last = "drop"
    repeat: int = 1

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}: give at least 1")
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank is {self.rank} of {self.world_size}: give 0 to world_size - 1")
        if self.last not in ("drop", "short"):
            raise ValueError(f"last is {self.last!r}: give 'drop' or 'short'")
        if self.repeat < 1 or self.batch_size % self.repeat:
            raise ValueError(
                f"repeat is {self.repeat} in batches of {self.batch_size}:"
                " give at least 1, and a batch_size that is a multiple of it"
            )
        if self.lanes is not None:
            self._check_lanes(self.lanes)

    @property
    def global_batch(self) -> int:
        """Samples that all ranks together take per step."""
        return self.batch_size * self.world_size

    @property
    def distinct_batch(self) -> int:
        """Distinct entries that all ranks together take per step."""
        return self.global_batch // self.repeat

    def count_distinct(self, entries: int) -> int:
        """Return how many of the entries of a dataset an epoch takes."""
        return -(-entries // self.repeat)

    def count_steps(self, entries: int) -> int:
        """Return the number of steps of an epoch of a dataset of this many entries: the same on every rank."""
        distinct = self.count_distinct(entries)
        full = distinct // self.distinct_batch
        return full if self.last == "drop" else -(-distinct // self.distinct_batch)

    def count_samples(self, entries: int) -> int:
        """Return the most samples that a rank takes in an epoch, copies included: the same on every rank."""
        if self.last == "drop":
            return self.count_steps(entries) * self.batch_size
        return -(-self.count_distinct(entries) // self.world_size) * self.repeat

    def _check_lanes(self, lanes: int) -> None:
        if lanes < 1 or lanes % self.world_size:
            raise ValueError(
                f"{lanes} lanes cannot be shared by {self.world_size} ranks: give a multiple"
            )
        if self.distinct_batch % lanes:
            raise ValueError(
                f"a global batch of {self.distinct_batch} cannot take equally from {lanes} lanes:"
                " give lanes that divide batch_size * world_size / repeat"
            )


def choose_lanes(split: Split, shuffled: bool) -> int:
    """Return the number of lanes of a split: the one given, else a default.

    Shuffled: 8 for 1, 2, 4 or 8 ranks if 8 divides the (distinct) global batch, so that these world sizes
    share their batches; else the least multiple of world_size and of gcd(8, global batch).
    In index order: one lane per rank, so that a single rank sees the index order itself.
    """
    if split.lanes is not None:
        return split.lanes
    if not shuffled:
        return split.world_size
    return lcm(split.world_size, gcd(split.distinct_batch, _USUAL_LANES))


def cut_lane(entries: int, lanes: int, lane: int) -> tuple[int, int]:
    """Return where a lane starts and stops on a line of this many entries."""
    return lane * entries // lanes, (lane + 1) * entries // lanes


def own_lanes(split: Split, lanes: int) -> range:
    """Return the lanes of the split's rank."""
    own = lanes // split.world_size
    return range(split.rank * own, (split.rank + 1) * own)
