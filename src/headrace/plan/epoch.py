"""The plan of an epoch for one rank: which samples are in which step.

Takes runs, a split, a shuffle, an epoch number, rows unless all are used, and buckets if there are any. Gives an
`EpochPlan`, which computes each step independently. Guaranteed:

- each entry of the epoch is valid in exactly one step of one rank (with `last="drop"`, in at most one);
- all ranks make the same number of steps, and no batch is empty;
- the valid entries of the ranks' batches, one after the other, are the same global batch whatever
  world size shares the lanes;
- a step takes time and memory by the window, not by the dataset. A plan holds 12 bytes per run, and nothing per sample
  but the given rows, or with repeats the entries of an epoch of few runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.plan.buckets import BucketOrder, choose_block, choose_buckets, fill_steps
from headrace.plan.line import Line
from headrace.plan.permutation import Permutation
from headrace.plan.philox import Stream
from headrace.plan.repeat import deal_entries, number_copies
from headrace.plan.runs import Runs
from headrace.plan.shuffle import Shuffle, order_randomly, shuffle_places
from headrace.plan.split import Split, choose_lanes, cut_lane, own_lanes

_CHUNK = 4096
"""Entries that are planned together, at least."""
_KEPT_CHUNKS = 3
_NONE = -1
"""The entry of a place behind the end of a lane."""
_FILLER = -1
"""The unit of the sample that an empty batch repeats: it is read again, since its own unit is released."""


@dataclass(frozen=True, eq=False)
class StepPlan:
    """One rank's batch: `rows` int64[b] of the index, and `valid` bool[b].

    A batch that would be empty repeats one sample as an invalid entry. `draws` int64[b] are the ids that the
    randomness of samples comes from: the row, or another number if it comes again in the epoch. Copies of an entry lie
    next to each other. `bucket` is the place in `BucketOrder.ratios` of the step's bucket. `units` int64[b] are the
    units that the rows are read in.
    """

    rows: NDArray[np.int64]
    valid: NDArray[np.bool_]
    draws: NDArray[np.int64]
    bucket: int | None = None
    units: NDArray[np.int64] | None = None


class Chunk(NamedTuple):
    """Consecutive steps: their entries int64[S, b], lane after lane, the units of these, and the buckets int64[S]."""

    entries: NDArray[np.int64]
    units: NDArray[np.int64]
    buckets: NDArray[np.int64] | None


class EpochPlan:
    """The steps of one rank, made by `plan_epoch`. Thread-safe.

    Another world size needs `lanes` to resume this epoch. Entries are read in *units*: the part of a run that lies in
    one lane. In a full shuffle, they are whole runs.
    """

    def __init__(
        self,
        runs: Runs,
        split: Split,
        lanes: int,
        line: Line,
        *,
        epoch: int,
        shuffle: Shuffle | None,
        rows: NDArray[np.int64] | None = None,
        dealt: NDArray[np.int64] | None = None,
        buckets: BucketOrder | None = None,
    ) -> None:
        self.runs, self.split, self.lanes, self.rows = runs, split, lanes, rows
        entries = runs.entries if rows is None else len(rows)
        self.steps = split.count_steps(entries)
        self._line, self._dealt, self._buckets = line, dealt, buckets
        self._shuffle, self._epoch = shuffle, epoch
        self._own = own_lanes(split, lanes)
        self._window, self._permutation = 0, None
        if shuffle is not None and shuffle.is_global(len(line)):
            self._permutation = Permutation(shuffle.seed, epoch, Stream.PERMUTATION, len(line))
        elif shuffle is not None:
            self._window = (shuffle.window or 0) // lanes
        self._cuts = np.array([cut_lane(len(line), lanes, lane)[0] for lane in range(lanes + 1)])
        self._kept: dict[int, Chunk] = {}

    def __len__(self) -> int:
        return self.steps

    @property
    def part(self) -> int:
        """Entries of each lane per step."""
        return self.split.distinct_batch // self.lanes

    def step(self, t: int) -> StepPlan:
        """Return the batch of step `t`, from 0 to len(plan) - 1. Takes some microseconds, and O(window) where needed."""
        entries, units, bucket = self._find_step(t)
        valid = np.full(max(len(entries), 1), len(entries) > 0)
        if not len(entries):
            entries, units = self._find_filler(), np.array([_FILLER])
        repeat = self.split.repeat
        return StepPlan(
            np.repeat(self.take_rows(entries), repeat),
            np.repeat(valid, repeat),
            number_copies(self._number_draws(entries), repeat),
            bucket,
            np.repeat(units, repeat),
        )

    def find_lanes(self, t: int) -> NDArray[np.int64]:
        """Return the lane, counted from the first one of this rank, that each entry of step `t` comes from."""
        chunk, place = self._find_place(t)
        entries = chunk.entries[place]
        lanes = np.repeat(np.arange(len(self._own)), len(entries) // len(self._own))
        lanes = lanes[entries != _NONE]
        return np.repeat(lanes if len(lanes) else np.zeros(1, np.int64), self.split.repeat)

    def take_rows(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the index that entries stand for."""
        return entries if self.rows is None else self.rows[entries]

    def count_units(self, t: int) -> Counter[int]:
        """Return the units that step `t` needs, with how many entries it takes of each."""
        units = self._find_step(t)[1]
        return _count(units) if len(units) else Counter({_FILLER: 1})

    def count_units_before(self, t: int) -> Counter[int]:
        """Return how many entries of units that are needed later were taken before step `t`."""
        if self._permutation is not None or not 0 < t < self.steps:
            return Counter()  # in a full shuffle a unit has one entry, or all of them are kept
        chunk, place = self._find_place(t)
        used = _count(chunk.units[:place][chunk.entries[:place] != _NONE])
        for lane in self._own:
            used.update(self._count_lane_before(lane, (t - place) * self.part))
        return used

    def count_entries(self, unit: int) -> int:
        """Return how many entries a unit has."""
        if unit == _FILLER or self._is_single:
            return 1
        begin, end = self._bound_unit(unit)
        return end - begin

    def list_rows(self, unit: int) -> NDArray[np.int64]:
        """Return the rows of a unit, ascending, each once."""
        if unit == _FILLER:
            return self.take_rows(self._find_filler())
        if self._is_single:
            return self.take_rows(np.array([unit]))
        begin, end = self._bound_unit(unit)
        first = int(self._line.find(np.array([begin]))[0][0])
        numbers = np.arange(first, first + end - begin)
        entries = numbers if self._dealt is None else self._dealt[numbers]
        return entries if self.rows is None else np.unique(self.rows[entries])

    @cached_property
    def _is_single(self) -> bool:
        """Whether units are single entries, with their numbers."""
        line = self._line
        whole = line.ends is None and self._dealt is None and self._permutation is not None
        return whole and line.runs.is_single

    @cached_property
    def _unit_starts(self) -> NDArray[np.int64]:
        """The first unit of each lane: a run that is cut between two lanes is two units."""
        return self._line.find_stretches(self._cuts[:-1]) + np.arange(self.lanes)

    def _bound_unit(self, unit: int) -> tuple[int, int]:
        """Return the bounds of a unit on the line."""
        lane = 0
        if self._permutation is None:
            lane = int(np.searchsorted(self._unit_starts, unit, side="right")) - 1
        begin, end = self._line.find_begins(np.array([unit - lane, unit - lane + 1])).tolist()
        if self._permutation is not None:
            return begin, end
        return max(begin, int(self._cuts[lane])), min(end, int(self._cuts[lane + 1]))

    def _count_lane_before(self, lane: int, place: int) -> Counter[int]:
        """Return how many entries of the units of a lane come before a place, but for units that are done."""
        start, stop = int(self._cuts[lane]), int(self._cuts[lane + 1])
        place = min(place, stop - start)
        low = max(place - self._window, 0)  # what lies before it comes before the place
        positions = self._shuffle_places(lane, range(max(low - self._window, 0), place))
        stretches = self._line.find_stretches(start + positions[positions >= low])
        used = _count(stretches + lane)
        if low < stop - start:
            first = self._line.find_stretches(np.array([start + low]))
            begin = max(int(self._line.find_begins(first)[0]), start)
            used[int(first[0]) + lane] += start + low - begin
        return used

    def _find_step(self, t: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int | None]:
        """Return the entries of a step, which may be none, their units, and the step's bucket."""
        chunk, place = self._find_place(t)
        entries, units = chunk.entries[place], chunk.units[place]
        if len(entries) and entries.min() == _NONE:
            kept = entries != _NONE
            entries, units = entries[kept], units[kept]
        return entries, units, None if chunk.buckets is None else int(chunk.buckets[place])

    def _find_filler(self) -> NDArray[np.int64]:
        """Return the entry of an empty last batch: the last of the rank's own, if it has any."""
        lengths = np.diff(self._cuts[self._own.start : self._own.stop + 1])
        held = np.flatnonzero(lengths)
        if not len(held):
            return self._list_lane(self.lanes - 1, range(1))[0]
        lane, place = int(held[-1]), int(lengths[held[-1]]) - 1
        chunk, number = self._find_place(place // self.part)
        entries = chunk.entries[number].reshape(len(self._own), -1)
        filler: NDArray[np.int64] = entries[lane, place % self.part : place % self.part + 1]
        return filler

    @cached_property
    def _chunk_steps(self) -> int:
        """How many steps are planned together: few enough to be quick, so many that no key is computed often."""
        if self._buckets is not None:
            return self._buckets.block or choose_block(self.split.distinct_batch)
        places = max(2 * self._window, _CHUNK // len(self._own))
        return max(1, min(-(-places // self.part), self.steps))

    def _find_place(self, t: int) -> tuple[Chunk, int]:
        """Return the chunk of a step, and its place there."""
        if not 0 <= t < self.steps:
            raise IndexError(f"step {t} of an epoch of {self.steps} steps")
        number, place = divmod(t, self._chunk_steps)
        kept = self._kept
        if number not in kept:
            # Replaced, not changed: other threads keep using theirs. Two may compute the same chunk.
            recent = dict(list(kept.items())[1 - _KEPT_CHUNKS :])
            self._kept = kept = {**recent, number: self._plan_chunk(number)}
        return kept[number], place

    def _plan_chunk(self, number: int) -> Chunk:
        first = number * self._chunk_steps
        steps = min(self._chunk_steps, self.steps - first)
        places = range(first * self.part, (first + steps) * self.part)
        if self._buckets is None:
            return self._arrange([self._list_lane(lane, places) for lane in self._own], steps)
        lanes = [self._list_lane(lane, places) for lane in range(self.lanes)]
        aspects = [self._buckets.aspects[self.take_rows(entries)] for entries, _ in lanes]
        block = number, self._chunk_steps
        ranks = choose_buckets(aspects, self._buckets, steps, block, self._shuffle, self._epoch)
        own = []
        for lane in self._own:
            order = fill_steps(aspects[lane], ranks, self.part)
            own.append((lanes[lane][0][order], lanes[lane][1][order]))
        return self._arrange(own, steps)._replace(buckets=self._buckets.numbers[ranks])

    def _arrange(
        self, lanes: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]], steps: int
    ) -> Chunk:
        """Return the entries of lanes, and their units, as steps that take equally from each."""
        longest = max(len(entries) for entries, _ in lanes)
        part = self.part if steps > 1 else min(self.part, longest)  # a batch may exceed the dataset
        arrays = np.full((2, len(lanes), steps * part), _NONE)
        for lane, values in enumerate(lanes):
            arrays[:, lane, : len(values[0])] = values
        by_step = arrays.reshape(2, len(lanes), steps, part).swapaxes(1, 2)
        entries, units = by_step.reshape(2, steps, -1)
        return Chunk(entries, units, None)

    def _list_lane(self, lane: int, places: range) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the entries at these places of a lane, as far as it reaches, and their units."""
        start, length = int(self._cuts[lane]), int(self._cuts[lane + 1] - self._cuts[lane])
        places = range(min(places.start, length), min(places.stop, length))
        if self._permutation is not None:
            positions = np.arange(start + places.start, start + places.stop)
            numbers, units = self._line.find(self._permutation.find(positions))
        else:
            numbers, units = self._line.find(start + self._shuffle_places(lane, places))
            units = units + lane
        return numbers if self._dealt is None else self._dealt[numbers], units

    def _shuffle_places(self, lane: int, places: range) -> NDArray[np.int64]:
        """Return the positions in a lane of what comes at these places."""
        if self._shuffle is None or self._window < 2 or not places:
            return np.arange(places.start, places.stop)
        start, stop = int(self._cuts[lane]), int(self._cuts[lane + 1])
        seed = self._shuffle.seed
        return shuffle_places(start, stop - start, self._window, places, seed, self._epoch)

    def _number_draws(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return row + turn * (number of rows in the index): distinct for every entry."""
        if self.rows is None:
            return entries
        rows = self.rows[entries]
        turns = entries - np.searchsorted(self.rows, rows)
        return rows + turns * self.runs.entries


def plan_epoch(
    runs: Runs,
    split: Split,
    *,
    epoch: int = 0,
    shuffle: Shuffle | None = None,
    rows: NDArray[np.int64] | None = None,
    buckets: BucketOrder | None = None,
) -> EpochPlan:
    """Plan an epoch over all rows of the index, or over `rows`, for the rank of `split`.

    `rows` must not decrease; a row may be missing (a subset) or come several times (weights).
    Without `shuffle`, each lane keeps the index order. Takes about a second for ten million runs.

    >>> plan = plan_epoch(runs, Split(256), epoch=3, shuffle=Shuffle(seed=0, window=16384))
    >>> plan.step(0).rows
    """
    taken, dealt = runs, None
    if rows is not None:
        _check_rows(rows, runs.entries)
        taken = Runs.of_bounds(np.searchsorted(rows, runs.list_bounds()))
    if split.repeat > 1:
        if shuffle is None:
            raise ValueError(f"repeat is {split.repeat}: entries are dealt at random, so shuffle")
        taken, dealt = deal_entries(taken, split, shuffle.seed, epoch)
    return EpochPlan(
        runs,
        split,
        choose_lanes(split, shuffled=shuffle is not None),
        _lay_line(taken, shuffle, epoch),
        epoch=epoch,
        shuffle=shuffle,
        rows=rows,
        dealt=dealt,
        buckets=buckets,
    )


def _lay_line(runs: Runs, shuffle: Shuffle | None, epoch: int) -> Line:
    """Return the entries of the epoch in the order that lanes are cut from."""
    if shuffle is None or shuffle.is_global(runs.entries):
        return Line.lay(runs)
    order = order_randomly(shuffle.seed, epoch, Stream.RUNS, len(runs)).astype(np.uint32)
    return Line.lay(runs, order)


def _count(units: NDArray[np.int64]) -> Counter[int]:
    """Return the units, ascending, with how often each comes."""
    found, counts = np.unique(units, return_counts=True)
    return Counter(dict(zip(found.tolist(), counts.tolist(), strict=True)))


def _check_rows(rows: NDArray[np.int64], count: int) -> None:
    if len(rows) and not (rows[0] >= 0 and rows[-1] < count and (rows[1:] >= rows[:-1]).all()):
        raise ValueError(f"rows must not decrease and lie in 0 to {count - 1}: sort them first")
