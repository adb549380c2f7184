"""Flow: a lazy, re-iterable pipeline over any iterable, with methods that read like sentences."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from headrace.formats.source import Source
from headrace.pack.cut import DEFAULT_SHARD_SIZE
from headrace.run.batch import Batch, BatchByShape, Stack, Unbatch
from headrace.run.checks import check_choice, check_count
from headrace.run.child import get_context
from headrace.run.combine import Choose, Concat, Interleave, Mix, Zip, check_weights
from headrace.run.describe import Description, Row, format_length
from headrace.run.extent import Cache, FixedSize, Repeat, Take
from headrace.run.fields import Field, FieldFunction, Select
from headrace.run.map import Map, OnError
from headrace.run.order import Filter, Shard, Shuffle
from headrace.run.place import Pass, Place, give_items
from headrace.run.prefetch import Prefetch
from headrace.run.process import InProcess
from headrace.run.receive import Receive
from headrace.run.remote import MAX_MESSAGE, Keys, check_addresses, check_exposure, check_name
from headrace.run.saved import open_items, save_items
from headrace.run.seeding import check_seed
from headrace.run.send import send_items
from headrace.run.source import OnceSource, Pick, make_source
from headrace.run.speed import Speed, measure_stages, watched
from headrace.run.stage import At, Items, Length, Stage, open_stage
from headrace.run.torch_dataset import make_dataset


class Flow:
    """Items on their way through stages. Nothing is read or started before iteration.

    Guaranteed: a flow is never changed by the methods that build on it; each `iter` is a pass of
    its own, and any number can be alive at once; every pass of one epoch gives the same items in
    the same order, unless `describe` says otherwise; leaving a pass early, by `break` or an error,
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
        self._place = Place()

    # Where flows come from

    @staticmethod
    def of(source: Iterable[Any] | Callable[[], Iterable[Any]] | Source) -> Flow:
        """The items of an iterable, or of what a function makes afresh for each pass.

        What `open_dataset` or `open_source` opened gives its `Sample`s. An iterator is accepted too,
        for one pass; the second is refused.
        """
        return source if isinstance(source, Flow) else Flow(make_source(source))

    @staticmethod
    def load(path: str | os.PathLike[str], shuffle: bool = False, seed: int = 0) -> Flow:
        """The items that `save` wrote, or tensorpack: in their order or in a new one each epoch.

        A folder is a packed dataset, a file (or a folder with `data.mdb`) an LMDB. Of a dataset that
        was packed from elsewhere the items are its `Sample`s.
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
        """Bind to these addresses and give what senders send, until `senders` of them have ended.

        Args:
            senders: how many may join, and must end for the pass to end; None never ends.
            buffer: items that each sender may be ahead.
            keys: see `make_keys`; needed to bind to more than this machine, unless `insecure`.
            max_message: bytes of the largest item.
            insecure: accept items of anyone who can reach the addresses.
        """
        check_addresses("receive", addresses)
        check_exposure(addresses, keys, insecure)
        senders = None if senders is None else check_count("senders", senders, 1)
        buffer = check_count("buffer", buffer, 1)
        max_message = check_count("max_message", max_message, 1)
        return Flow(Receive(addresses, senders, buffer, keys, max_message))

    # One item at a time

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
        """`fn(item)` for each item, by `workers` processes or threads, or inline if 0.

        Each item exactly once, in order unless `ordered=False`, at most `buffer` (8 per worker)
        ahead. `on_error`: "raise", "skip" (logged), or a function of the WorkerError whose value
        stands in. `start`: "fork", "spawn" or "forkserver". Randomness: `item_rng`, see `seeding`.
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
        """`fn(item[field])` in the place of that field; options as in `map`."""
        return self.map(FieldFunction(fn, field), **options)

    def select(self, *names: Field) -> Flow:
        """Only these fields of each item, in this order."""
        return self._then(Select(names))

    def filter(self, keep: Callable[[Any], bool]) -> Flow:
        """The items for which `keep(item)` is true."""
        return self._then(Filter(keep))

    # Order and extent

    def shuffle(self, window: int | None = None, seed: int = 0) -> Flow:
        """A seeded permutation, a new one each epoch; no item moves `window` places or more.

        Without a window, or with one as long as the flow, every order is equally likely and all
        items are held in memory.
        """
        if window is not None:
            window = check_count("window", window, 1)
            window = None if window >= (self.length() or math.inf) else window
        elif self.length() == math.inf:
            raise ValueError("a shuffle of an endless flow needs a window, as in shuffle(10_000)")
        return self._then(Shuffle(window, check_seed(seed)))

    def shard(self, rank: int, world: int) -> Flow:
        """Every `world`-th item from number `rank` on: together the ranks have each item once."""
        rank, world = check_count("rank", rank, 0), check_count("world", world, 1)
        if rank >= world:
            raise ValueError(f"rank must be from 0 to {world - 1}, not {rank}")
        return self._then(Shard(rank, world))

    def take(self, count: int) -> Flow:
        """The first `count` items."""
        return self._then(Take(check_count("count", count, 0)))

    def fixed_size(self, size: int) -> Flow:
        """Epochs of exactly `size` items, going on where the epoch before stopped.

        Where the length of the input is endless or unknown, it stays open, with its threads and
        processes, after a whole epoch: until another is begun or the flow is dropped.
        """
        return self._then(FixedSize(check_count("size", size, 1), self.length()))

    def repeat(self, times: int | None = None) -> Flow:
        """This flow's epochs one after another, `times` of them or without end."""
        times = None if times is None else check_count("times", times, 1)
        return self._then(Repeat(times, self.length()))

    def cache(self) -> Flow:
        """Keep the items of the first complete pass in memory: every epoch is like epoch 0."""
        return self._then(Cache())

    # Batches

    def batch(self, size: int, *, remainder: bool = True, stack: Stack = True) -> Flow:
        """`size` items at a time, stacked field by field; nothing is dropped unless asked."""
        return self._then(Batch(check_count("size", size, 1), remainder, stack))

    def batch_by_shape(
        self,
        size: int,
        field: Field | None = None,
        *,
        remainder: bool = True,
        stack: Stack = True,
    ) -> Flow:
        """Batches of items whose `field` (or which themselves) have one shape."""
        return self._then(BatchByShape(check_count("size", size, 1), field, remainder, stack))

    def unbatch(self) -> Flow:
        """The items of each batch, one by one."""
        return self._then(Unbatch())

    # Several flows

    def concat(self, *others: Flow) -> Flow:
        """All items of this flow, then those of the others."""
        return Flow(Concat(), (self, *others))

    def zip(self, *others: Flow) -> Flow:
        """Tuples of the n-th items of all, until the shortest ends."""
        return Flow(Zip(), (self, *others))

    def join(self, *others: Flow) -> Flow:
        """Like `zip`, with the fields of the items put side by side in one list or dict."""
        return Flow(Zip(joined=True), (self, *others))

    @staticmethod
    def interleave(*flows: Flow) -> Flow:
        """One item of each in turn, until the one whose turn it is has ended: undoes `shard`."""
        return Flow(Interleave(), flows)

    def mix(self, *others: Flow, weights: Sequence[float] | None = None, seed: int = 0) -> Flow:
        """Every item of every flow once, in random turns; without weights perfectly mixed."""
        flows = check_flows((self, *others))
        lengths = tuple(flow.length() for flow in flows)
        checked = check_weights(weights, len(flows))
        if checked is None and any(n is None or n == math.inf for n in lengths):
            raise ValueError("mix needs weights, because the length of one of the flows is unknown")
        return Flow(Mix(checked, lengths, check_seed(seed)), flows)

    def choose(self, *others: Flow, weights: Sequence[float] | None = None, seed: int = 0) -> Flow:
        """Each item from a flow drawn by weight, until the one that was drawn has ended."""
        flows = (self, *others)
        checked = check_weights(weights, len(flows)) or (1.0,) * len(flows)
        return Flow(Choose(checked, check_seed(seed)), flows)

    # Where it runs

    def prefetch(self, count: int = 2) -> Flow:
        """Run everything so far in a thread of its own, up to `count` items ahead."""
        return self._then(Prefetch(check_count("count", count, 1)))

    def in_process(self, processes: int = 1, *, buffer: int = 8, start: str | None = None) -> Flow:
        """Run everything so far in other processes, up to `buffer` items ahead; same order.

        Of several processes each runs the whole flow for its own share of the items: stages that
        seek (see `describe`) do no more than that share.
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
        """Send one pass to the receivers at these addresses; how many items were sent.

        A sender that is restarted under the same `name` goes on where the receiver is.
        `receiver_key`: the receiver's public key, which makes the connection encrypted.
        """
        check_addresses("send", addresses)
        if name is not None:
            check_name(name)
            self._check_repeatable()
        return send_items(lambda n: self._open(At(self.epoch, n)), addresses, name, receiver_key)

    # Iterating, measuring, saving

    def __iter__(self) -> Iterator[Any]:
        return self._give(self._place.begin())

    def _give(self, begun: Pass) -> Items:
        return give_items(
            lambda: self._open(At(begun.epoch, begun.position)), begun, self._stages()
        )

    def length(self) -> Length:
        """The exact number of items of a pass, `math.inf`, or None where it depends on the data."""
        return self._stage.length(tuple(flow.length() for flow in self._inputs))

    def __len__(self) -> int:
        length = self.length()
        if length is None or length == math.inf:
            raise TypeError(f"this flow's length is {format_length(length)}: see describe()")
        return int(length)

    def __bool__(self) -> bool:
        return True  # a flow of unknown length has no truth to ask for

    @property
    def epoch(self) -> int:
        """The epoch that the next pass gives."""
        return self._place.next.epoch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next pass; after `load_state_dict` the same epoch is resumed."""
        self._place.set_epoch(check_count("epoch", epoch, 0))

    def state_dict(self) -> dict[str, Any]:
        """Where the last pass that was begun is: plain data, to be given to `load_state_dict`."""
        self._check_repeatable()
        begun = self._place.last
        return {"epoch": begun.epoch, "position": begun.position, "flow": self._signature()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass go on after the last item that the saved one gave."""
        self._check_repeatable()
        if state["flow"] != self._signature():
            raise ValueError(
                f"this state was saved by another flow: {state['flow']}; this is {self._signature()}"
            )
        epoch = check_count("epoch", state["epoch"], 0)
        self._place.move(epoch, check_count("position", state["position"], 0))

    def describe(self) -> Description:
        """The stages with order, exactness, length, and where they run. Prints as a table."""
        return Description(tuple(Row.of(flow._stage, flow.length()) for flow in self._walk()))

    def __repr__(self) -> str:
        return f"Flow({self._signature()})"

    def speed(
        self, size: int = 5000, warmup: int = 50, *, stages: bool = True, progress: bool = True
    ) -> Speed:
        """Measure this flow, and each shorter one that it is built on: which stage is slow?"""
        flows = list(self._walk()) if stages else [self]
        named = [(flow._stage.name, Flow(flow._stage, flow._inputs)) for flow in flows]
        return measure_stages(named, size, warmup, progress)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        shard_size: int = DEFAULT_SHARD_SIZE,
        classes: Sequence[str] | None = None,
        progress: bool = True,
    ) -> int:
        """Write one pass; the number of items. It exists when it is complete, or not at all.

        To `x.lmdb` in tensorpack's layout, to any other path as a dataset that `Loader` reads too;
        `classes` are the names of its labels. Both are for `Flow.load`.
        """
        items, named = self._give(Pass(self.epoch)), f"saving {os.fspath(path)}"
        with watched(items, named, self.length(), progress) as shown:
            return save_items(shown, path, shard_size, classes)

    def as_torch(self) -> Any:
        """A torch IterableDataset of this flow; DataLoader workers share its items out.

        Items are batches already if the flow makes them: `DataLoader(flow.as_torch(), batch_size=None)`.
        `set_epoch` is for the DataLoader's next pass. Its workers refuse to begin inside an epoch, and a
        second pass (`persistent_workers`), since they would not hear of another epoch.
        """
        return make_dataset(self, self._share)

    # Inside

    def _then(self, stage: Stage) -> Flow:
        return Flow(stage, (self,))

    def _open(self, at: At) -> Items:
        at = replace(at, stream=self._streams)
        return open_stage(self._stage, tuple(flow._open for flow in self._inputs), at)

    def _share(self, rank: int, world: int) -> Iterator[Any]:
        """What one of several workers gives of the epoch."""
        if world > 1:
            self._check_repeatable("shared out among workers")
        share = self.shard(rank, world)
        share.set_epoch(self._place.get_whole_epoch())
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
    """Refuses what is no flow yet."""
    for flow in flows:
        if not isinstance(flow, Flow):
            raise TypeError(
                f"flows are combined with flows, not with {type(flow).__name__}: use Flow.of(...)"
            )
    return flows
