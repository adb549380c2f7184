"""Where a loader stands in its epochs: what is loaded next, what was received, and which rank this is.

Guaranteed: the position moves only with batches that the training loop received, whatever was prefetched. Equal
states are followed by equal batches; a state for which this would not hold is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import index
from typing import Any

from headrace.plan.split import choose_lanes
from headrace.serve.epochs import Epochs, Position
from headrace.serve.rank import Place, find_place, log_place


class Cursor:
    """The position of a loader in `epochs`, for the rank that was given or that is found when an epoch begins."""

    def __init__(self, epochs: Epochs, given: Place | None) -> None:
        self._epochs, self._given = epochs, given
        self._next = self._received = Position(0, 0)
        self._running: int | None = None

    def find_place(self) -> Place:
        """Return the rank that was given, else the one that can be found right now."""
        return find_place() if self._given is None else self._given

    def find_epochs(self) -> Epochs:
        """Return the epochs as the ranks of right now share the next one, or the one that is running."""
        epoch = self._next.epoch if self._running is None else self._running
        return self._share(self.find_place(), epoch)

    def _share(self, place: Place, epoch: int) -> Epochs:
        shared = self._epochs.shared_by(place.rank or 0, place.world_size)
        self._epochs = shared.sized_at(epoch)
        return self._epochs

    def begin(self) -> tuple[Epochs, Position]:
        """Return the epochs of this rank and the position to begin at, which is used up by this call.

        Raises:
            ValueError: the rank cannot be found, or a state was loaded for another world size.
        """
        place = self.find_place()
        place.require_rank()
        epochs = self._share(place, self._next.epoch)
        _check_world(epochs, self._next)
        if self._given is None:
            log_place(place)
        self._running = self._next.epoch
        begin = self._next._replace(world_size=place.world_size, is_loaded=False)
        self._next = Position(begin.epoch, 0)
        self._received = begin
        return epochs, begin

    def advance(self, position: Position, steps: int) -> None:
        """Note that the training loop stands at `position` of an epoch of `steps`: at its end, the next epoch begins."""
        if position.step < steps:
            self._received = position
            return
        self._received = Position(position.epoch + 1, 0, world_size=position.world_size)
        if self._next.is_start_of(position.epoch):  # else a state was loaded meanwhile
            self._next = self._received

    def end(self) -> None:
        """Note that an iteration has ended, after which the next epoch counts."""
        self._running = None

    def set_epoch(self, epoch: int) -> None:
        """Choose the next epoch; see `Loader.set_epoch`."""
        epoch = index(epoch)
        if epoch < 0:
            raise ValueError(f"epoch is {epoch}; epochs count from 0")
        if epoch != self._next.epoch or not self._next.step:
            self._next = Position(epoch, 0)
        self._received, self._running = self._next, None

    def write_state(self) -> dict[str, Any]:
        """Return the position after the last batch received; see `Loader.state_dict`."""
        received = self._received
        if received.world_size is None:
            return _write(self.find_epochs().sized_at(received.epoch), received)
        epochs = self._epochs.sized_at(received.epoch)
        if epochs.split.world_size != received.world_size:
            epochs = epochs.shared_by(0, received.world_size)
        return _write(epochs, received)

    def read_state(self, state: Mapping[str, Any]) -> None:
        """Go to the position of a state; see `Loader.load_state_dict`."""
        self._next = self._received = _read(self.find_epochs(), state)
        self._running = None

    def save(self) -> tuple[Position, Position]:
        """Return what `restore` takes in another process, without a rank that was found in this one."""
        received = self._received
        return self._next, received if received.step else Position(received.epoch, 0)

    def restore(self, saved: tuple[Position, Position]) -> None:
        """Go to where the saved cursor stood."""
        self._next, self._received = saved


def _write(epochs: Epochs, position: Position) -> dict[str, Any]:
    """Return a position, and all that must be equal for the batches after it to be the same.

    These are plain values, the same on every rank.
    """
    split = epochs.split_at(position)
    return {
        "epoch": position.epoch,
        "step": position.step,
        "seed": epochs.seed,
        "samples": len(epochs.sampling),
        "data": epochs.digest,
        "selection": epochs.sampling.digest,
        "global_batch": split.global_batch,
        "lanes": choose_lanes(split, shuffled=epochs.shuffle is not None),
        "window": epochs.window,
        "shuffle": epochs.shuffle is not None,
        "repeat": split.repeat,
        "buckets": _describe_buckets(epochs),
    }


def _describe_buckets(epochs: Epochs) -> str | None:
    """Return what decides the sizes of batches; None if all have one size."""
    buckets = epochs.buckets
    return (
        None if buckets is None else f"{list(buckets.sizes)} within {buckets.block or 'auto'} steps"
    )


def _read(epochs: Epochs, state: Mapping[str, Any]) -> Position:
    """Return the position of a state. Raise ValueError if it is of another loader."""
    world_size = epochs.split.world_size
    try:
        epoch, step, lanes = (index(state[name]) for name in ("epoch", "step", "lanes"))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not the state of a loader of this version: {error}") from None
    epochs = epochs.sized_at(max(epoch, 0))
    position = Position(epoch, step, world_size=world_size, is_loaded=True)
    _check_equal(state, {**_write(epochs, position), "lanes": lanes})
    if epoch < 0 or not 0 <= step <= len(epochs):
        raise ValueError(
            f"step {step} of epoch {epoch}: there is no such step; an epoch has {len(epochs)}"
        )
    if step == 0:
        return position
    if lanes % world_size:
        raise ValueError(
            f"cannot resume mid-epoch with world_size={world_size}: it must divide {lanes}; resume with such a "
            "world size, or call set_epoch() to start a new epoch"
        )
    return position._replace(lanes=replace(epochs.split, lanes=lanes).lanes)


def _check_world(epochs: Epochs, position: Position) -> None:
    """Raise ValueError if a position inside an epoch, or of a state, is for another world size."""
    if (position.step or position.is_loaded) and position.world_size != epochs.split.world_size:
        raise ValueError(
            f"cannot resume at step {position.step} of epoch {position.epoch}: the state was loaded for "
            f"world_size={position.world_size}, which is {epochs.split.world_size} now; load it after "
            "init_process_group, give rank and world_size, or call set_epoch() to start a new epoch"
        )


def _check_equal(loaded: Mapping[str, Any], mine: dict[str, Any]) -> None:
    if loaded.keys() != mine.keys():
        names = ", ".join(sorted(loaded.keys() ^ mine.keys()))
        raise ValueError(f"not the state of a loader of this version: it differs in {names}")
    differing = [
        f"{name} is {loaded[name]!r}, here {value!r}"
        for name, value in mine.items()
        if loaded[name] != value
    ]
    if loaded["data"] != mine["data"]:
        differing.append(
            "it was taken with other samples or images, or with another packing of them"
        )
    elif loaded["selection"] != mine["selection"]:
        differing.append("it was taken with another subset, other weights or another mixture")
    if differing:
        epoch = loaded["epoch"]
        advice = (
            "" if loaded["step"] else f". To start epoch {epoch} again, call set_epoch({epoch})"
        )
        raise ValueError(f"the state is of another loader: {'; '.join(differing)}{advice}")
