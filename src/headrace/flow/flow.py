"""Flow: a lazy, re-iterable pipeline over any iterable, with methods that read like sentences."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from headrace.arguments import check_choice, check_count
from headrace.flow.batching import Batch, BatchByShape, Stack, Unbatch
from headrace.flow.combine import Choose, Concat, Interleave, Mix, Zip, check_weights
from headrace.flow.filter_shuffle import Filter, Shard, Shuffle
from headrace.flow.flow_source import OnceSource, Pick, make_source
from headrace.flow.guarantees import Description, Row, format_length
from headrace.flow.in_process import InProcess
from headrace.flow.item_fields import Field, FieldFunction, Select
from headrace.flow.map import Map, OnError
from headrace.flow.measure import Speed, measure_stages, report_items
from headrace.flow.position import Pass, Position, give_items
from headrace.flow.prefetch import Prefetch
from headrace.flow.remote.protocol import (
    MAX_MESSAGE,
    Keys,
    check_addresses,
    check_exposure,
    check_name,
)
from headrace.flow.remote.receive import Receive
from headrace.flow.remote.send import send_items
from headrace.flow.saved_items import open_items, save_items
from headrace.flow.stage import At, Items, Length, Stage, open_stage
from headrace.flow.take_repeat import Cache, FixedSize, Repeat, Take
from headrace.flow.torch_dataset import make_dataset
from headrace.formats.source import Source
from headrace.pack.shard_plan import DEFAULT_SHARD_SIZE
from headrace.work.child_process import get_context
from headrace.work.progress import ProgressCallback
from headrace.work.seeding import check_seed


class Flow:
    """A lazy pipeline of stages over any iterable. Nothing is read or started before iteration.

    Methods return a new flow and never change this one. Each `iter` is an independent pass, and
    any number of passes can be alive at once. Every pass of one epoch yields the same items in the
    same order, unless `describe` says otherwise. Leaving a pass early, by `break` or an error,
    ends its threads and processes before the statement after the loop.

        flow = Flow.of(paths).shuffle(10_000, seed=1).map(load, workers=4).batch(64)
        for epoch in range(90):
            flow.set_epoch(epoch)
            for images, labels in flow: ...
    """

    def __init__(self, stage: Stage, inputs: tuple[Flow, ...] = ()) -> None:
        self._stage = stage
        self._inputs = check_flows(inputs)
        self._streams: int = max((flow._streams + flow._stage.draws for flow in inputs), default=0)
        self._position = Position()

    # Sources

    @staticmethod
    def of(source: Iterable[Any] | Callable[[], Iterable[Any]] | Source) -> Flow:
        """Return a flow over the items of `source`.

        Args:
            source: An iterable; a dataset or source, whose items are `Sample`s; a function that
                returns a new iterable for each pass; or an iterator, which allows one pass.
        """
        return source if isinstance(source, Flow) else Flow(make_source(source))

    @staticmethod
    def load(path: str | os.PathLike[str], shuffle: bool = False, seed: int = 0) -> Flow:
        """Return a flow over items that `save` or tensorpack wrote.

        Args:
            path: A packed dataset, or an LMDB file (or folder with `data.mdb`). A dataset that was
                not written by `save` yields its `Sample`s.
            shuffle: Yield the items in a new order each epoch.
            seed: Seed of that order.
        """
        items = open_items(path)
        if not shuffle:
            return Flow.of(items)
        return Flow.of(range(len(items))).shuffle(seed=seed)._then(Pick(items))

    @staticmethod
    def receive(
        *addresses: str,
        senders: int | None = 1,
        buffer: int = 8,
        keys: Keys | None = None,
        max_message: int = MAX_MESSAGE,
        insecure: bool = False,
    ) -> Flow:
        """Return a flow that binds to these addresses and yields what senders send.

        Args:
            addresses: ZeroMQ addresses, such as `tcp://127.0.0.1:5555`.
            senders: Number of senders that may join and must end for the pass to end. None: no end.
            buffer: Items that each sender may be ahead.
            keys: Keys from `make_keys`. Required beyond this machine, unless `insecure`.
            max_message: Size of the largest item in bytes.
            insecure: Accept items from anyone who can reach the addresses.
        """
        check_addresses("receive", addresses)
        check_exposure(addresses, keys, insecure)
        senders = None if senders is None else check_count("senders", senders, 1)
        buffer = check_count("buffer", buffer, 1)
        max_message = check_count("max_message", max_message, 1)
        return Flow(Receive(addresses, senders, buffer, keys, max_message))

    # Single items

    def map(
        self,
        fn: Callable[[Any], Any],
        workers: int = 0,
        kind: str = "processes",
        *,
        ordered: bool = True,
        buffer: int | None = None,
        on_error: OnError = "raise",
        seed: int = 0,
        start: str | None = None,
    ) -> Flow:
        """Apply `fn` to each item exactly once.

        Args:
            fn: Function of one item. It draws random numbers from `headrace.flow.item_rng()`.
            workers: Number of workers; 0 runs `fn` in the consumer.
            kind: "processes" or "threads".
            ordered: Keep the order of the items. Otherwise yield results as they finish.
            buffer: Items in flight. Default: 8 per worker.
            on_error: "raise", "skip" (logged), or a function that turns the WorkerError into an item.
            seed: Seed of the random numbers.
            start: Start method of processes: "fork", "spawn" or "forkserver".
        """
        check_choice("kind", kind, ("processes", "threads"))
        if not callable(on_error):
            check_choice("on_error", on_error, ("raise", "skip"))
        workers = check_count("workers", workers, 0)
        buffer = check_count("buffer", 8 * workers if buffer is None else buffer, workers)
        get_context(start)
        ordered = ordered or workers == 0
        stage = Map(fn, workers, kind, ordered, buffer, on_error, check_seed(seed), start)
        return self._then(stage)

    def map_field(self, fn: Callable[[Any], Any], field: Field = 0, **options: Any) -> Flow:
        """Apply `fn` to one field of each item. Takes the options of `map`."""
        return self.map(FieldFunction(fn, field), **options)

    def select(self, *names: Field) -> Flow:
        """Keep only these fields of each item, in this order."""
        return self._then(Select(names))

    def filter(self, keep: Callable[[Any], bool]) -> Flow:
        """Keep the items for which `keep(item)` is true."""
        return self._then(Filter(keep))

    # Order and length

    def shuffle(self, window: int | None = None, seed: int = 0) -> Flow:
        """Permute the items, in a new order each epoch.

        Args:
            window: No item moves this many positions or more. None, or a window as long as the
                flow, makes every order equally likely and holds all items in memory.
            seed: Seed of the order.
        """
        if window is not None:
            window = check_count("window", window, 1)
            window = None if window >= (self.length() or math.inf) else window
        elif self.length() == math.inf:
            raise ValueError("a shuffle of an endless flow needs a window, as in shuffle(10_000)")
        return self._then(Shuffle(window, check_seed(seed)))

    def shard(self, rank: int, world: int) -> Flow:
        """Keep every `world`-th item, starting at item `rank`. The ranks together have each item once."""
        rank, world = check_count("rank", rank, 0), check_count("world", world, 1)
        if rank >= world:
            raise ValueError(f"rank must be from 0 to {world - 1}, not {rank}")
        return self._then(Shard(rank, world))

    def take(self, count: int) -> Flow:
        """Keep the first `count` items."""
        return self._then(Take(check_count("count", count, 0)))

    def fixed_size(self, size: int) -> Flow:
        """Cut the repeated input into epochs of exactly `size` items; each continues the last one.

        An input of endless or unknown length stays open after a whole epoch, with its threads and
        processes, until another epoch begins or the flow is garbage collected.
        """
        return self._then(FixedSize(check_count("size", size, 1), self.length()))

    def repeat(self, times: int | None = None) -> Flow:
        """Chain `times` epochs of this flow, each with its own order. None: without end."""
        times = None if times is None else check_count("times", times, 1)
        return self._then(Repeat(times, self.length()))

    def cache(self) -> Flow:
        """Keep epoch 0 in memory after its first complete pass, and yield it in every epoch."""
        return self._then(Cache())

    # Batches

    def batch(self, size: int, *, remainder: bool = True, stack: Stack = True) -> Flow:
        """Group `size` consecutive items into batches, stacked field by field.

        Args:
            size: Number of items in a batch.
            remainder: Keep a last batch that is shorter.
            stack: False keeps every field a list; a function stacks the values of a field.
        """
        return self._then(Batch(check_count("size", size, 1), remainder, stack))

    def batch_by_shape(
        self,
        size: int,
        field: Field | None = None,
        *,
        remainder: bool = True,
        stack: Stack = True,
    ) -> Flow:
        """Group items into batches in which `field` (or the item itself) has one shape. See `batch`."""
        return self._then(BatchByShape(check_count("size", size, 1), field, remainder, stack))

    def unbatch(self) -> Flow:
        """Yield the items of each batch one by one."""
        return self._then(Unbatch())

    # Several flows

    def concat(self, *others: Flow) -> Flow:
        """Yield all items of this flow, then all items of the others."""
        return Flow(Concat(), (self, *others))

    def zip(self, *others: Flow) -> Flow:
        """Yield tuples of the n-th items of all flows, until the shortest ends."""
        return Flow(Zip(), (self, *others))

    def join(self, *others: Flow) -> Flow:
        """Yield the n-th items of all flows, their fields joined in one list or dict."""
        return Flow(Zip(joined=True), (self, *others))

    @staticmethod
    def interleave(*flows: Flow) -> Flow:
        """Yield one item of each flow in turn, until the next flow has ended. Inverse of `shard`."""
        return Flow(Interleave(), flows)

    def mix(self, *others: Flow, weights: Sequence[float] | None = None, seed: int = 0) -> Flow:
        """Yield every item of every flow once, in random order of flows.

        Args:
            weights: Probability of each flow. None: in proportion to the items that remain.
            seed: Seed of the draws.
        """
        flows = check_flows((self, *others))
        lengths = tuple(flow.length() for flow in flows)
        checked = check_weights(weights, len(flows))
        if checked is None and any(n is None or n == math.inf for n in lengths):
            raise ValueError("mix needs weights, because the length of one of the flows is unknown")
        return Flow(Mix(checked, lengths, check_seed(seed)), flows)

    def choose(self, *others: Flow, weights: Sequence[float] | None = None, seed: int = 0) -> Flow:
        """Draw each item from a flow chosen by weight, until the chosen flow has ended."""
        flows = (self, *others)
        checked = check_weights(weights, len(flows)) or (1.0,) * len(flows)
        return Flow(Choose(checked, check_seed(seed)), flows)

    # Place

    def prefetch(self, count: int = 2) -> Flow:
        """Run all stages so far in a separate thread, up to `count` items ahead."""
        return self._then(Prefetch(check_count("count", count, 1)))

    def in_process(self, processes: int = 1, *, buffer: int = 8, start: str | None = None) -> Flow:
        """Run all stages so far in other processes, up to `buffer` items ahead, in the same order.

        Each of several processes runs the whole flow for its own share of the items; stages that
        seek (see `describe`) only process that share.
        """
        get_context(start)
        processes = check_count("processes", processes, 1)
        room = max(1, check_count("buffer", buffer, 1) // processes)
        if processes == 1:
            once = {id(stage): stage for stage in self._stages() if isinstance(stage, OnceSource)}
            return self._then(InProcess(room, start, tuple(once.values())))
        self._check_repeatable("shared out among processes")
        shares = [InProcess(room, start, share=(rank, processes)) for rank in range(processes)]
        return Flow.interleave(*(self.shard(*stage.share)._then(stage) for stage in shares))

    def send(
        self, *addresses: str, name: str | None = None, receiver_key: bytes | None = None
    ) -> int:
        """Send one pass to the receivers at these addresses.

        Args:
            addresses: ZeroMQ addresses of receivers.
            name: Name of this sender. Restarted under the same name, it resumes where the receiver is.
            receiver_key: The receiver's public key; encrypts the connection.

        Returns:
            The number of items sent.

        Raises:
            ReceiverLostError: A receiver was killed or cut off.
        """
        check_addresses("send", addresses)
        if name is not None:
            check_name(name)
            self._check_repeatable()
        return send_items(lambda n: self._open(At(self.epoch, n)), addresses, name, receiver_key)

    # Iteration, measurement, storage

    def __iter__(self) -> Iterator[Any]:
        return self._give(self._position.begin())

    def _give(self, begun: Pass) -> Items:
        return give_items(
            lambda: self._open(At(begun.epoch, begun.position)), begun, self._stages()
        )

    def length(self) -> Length:
        """Return the exact number of items of a pass, `math.inf`, or None if it depends on the data."""
        return self._stage.length(tuple(flow.length() for flow in self._inputs))

    def __len__(self) -> int:
        length = self.length()
        if length is None or length == math.inf:
            raise TypeError(f"the length of this flow is {format_length(length)}; see describe()")
        return int(length)

    def __bool__(self) -> bool:
        return True  # not by __len__, which raises where the length is unknown

    @property
    def epoch(self) -> int:
        """Epoch of the next pass."""
        return self._position.next.epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass. The epoch that was just loaded is resumed, not restarted."""
        self._position.set_epoch(check_count("epoch", epoch, 0))

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the pass that was started last, as plain data."""
        self._check_repeatable()
        begun = self._position.last
        return {"epoch": begun.epoch, "position": begun.position, "flow": self._signature()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass resume after the last item of the saved one.

        Raises:
            ValueError: The state belongs to another flow, or this flow cannot be resumed.
        """
        self._check_repeatable()
        if state["flow"] != self._signature():
            raise ValueError(
                f"the state belongs to another flow: {state['flow']}; this flow is {self._signature()}"
            )
        epoch = check_count("epoch", state["epoch"], 0)
        self._position.move(epoch, check_count("position", state["position"], 0))

    def describe(self) -> Description:
        """Return the stages with their order, exactness, length and place. Prints as a table."""
        return Description(tuple(Row.of(flow._stage, flow.length()) for flow in self._walk()))

    def __repr__(self) -> str:
        return f"Flow({self._signature()})"

    def speed(
        self,
        size: int = 5000,
        warmup: int = 50,
        *,
        stages: bool = True,
        progress: ProgressCallback | None = None,
    ) -> Speed:
        """Measure this flow, and each shorter one that it is built on: which stage is slow?

        `progress` is called with each item, with `samples` and `total_samples` of the stage.
        """
        flows = list(self._walk()) if stages else [self]
        named = [(flow._stage.name, Flow(flow._stage, flow._inputs)) for flow in flows]
        return measure_stages(named, size, warmup, progress)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        shard_size: int = DEFAULT_SHARD_SIZE,
        classes: Sequence[str] | None = None,
        progress: ProgressCallback | None = None,
    ) -> int:
        """Write one pass; the number of items. It exists when it is complete, or not at all.

        To `x.lmdb` in tensorpack's layout, to any other path as a dataset that `Loader` reads too;
        `classes` are the names of its labels. Both are for `Flow.load`.
        """
        items = report_items(self._give(Pass(self.epoch)), self.length(), progress)
        with closing(items):
            return save_items(items, path, shard_size, classes)

    def as_torch(self) -> Any:
        """Return a torch IterableDataset; DataLoader workers divide the items among themselves.

        If the flow makes batches: `DataLoader(flow.as_torch(), batch_size=None)`. `set_epoch` applies
        to the DataLoader's next pass. Workers refuse to start in the middle of an epoch, and a second
        pass (`persistent_workers`), because `set_epoch` cannot reach them.
        """
        return make_dataset(self, self._share)

    # Inside

    def _then(self, stage: Stage) -> Flow:
        return Flow(stage, (self,))

    def _open(self, at: At) -> Items:
        at = replace(at, stream=self._streams)
        return open_stage(self._stage, tuple(flow._open for flow in self._inputs), at)

    def _share(self, rank: int, world: int) -> Iterator[Any]:
        """Return the items of the epoch that one of several workers yields."""
        if world > 1:
            self._check_repeatable("shared out among workers")
        share = self.shard(rank, world)
        share.set_epoch(self._position.get_whole_epoch())
        return iter(share)

    def _walk(self) -> Iterator[Flow]:
        for flow in self._inputs:
            yield from flow._walk()
        yield self

    def _stages(self) -> list[Stage]:
        return [flow._stage for flow in self._walk()]

    def _signature(self) -> str:
        return " → ".join(stage.name for stage in self._stages())

    def _check_repeatable(self, what: str = "resumed") -> None:
        for stage in self._stages():
            if stage.unrepeatable:
                raise ValueError(f"this flow cannot be {what}: {stage.name}: {stage.unrepeatable}")


def check_flows(flows: tuple[Flow, ...]) -> tuple[Flow, ...]:
    """Return the flows. Raise TypeError if one is not a flow."""
    for flow in flows:
        if not isinstance(flow, Flow):
            raise TypeError(f"not a flow: {type(flow).__name__}; wrap it in Flow.of(...)")
    return flows
