"""The loader: a dataset, a recipe and a seed in; finished batches out, each a pure function of its step."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headrace.pack.checks import read_whole
from headrace.pack.cores import count_cores
from headrace.plan import EpochPlan, Split
from headrace.read.dataset import Dataset
from headrace.render.options import Depth16, check_depth16
from headrace.run.interrupts import run_undisturbed
from headrace.serve.arguments import check_choices, check_fields, open_source
from headrace.serve.batch import IGNORED_LABEL, Batch
from headrace.serve.choices import find_common_size
from headrace.serve.describe import describe_loader, log_hints
from headrace.serve.epochs import Epochs, Position
from headrace.serve.iteration import Production, iterate
from headrace.serve.masks import check_no_masks
from headrace.serve.memory import LoaderMemory
from headrace.serve.pipeline import Pipeline, divide_transform
from headrace.serve.python_stage import PythonPart, Workers
from headrace.serve.python_steps import Collate, PythonSteps
from headrace.serve.rank import Place, check_given, find_place, log_place
from headrace.serve.renderer import IMAGE, LABEL, Renderer
from headrace.serve.sampling import Mixture, Weights
from headrace.serve.stats import Counters, Stats, summarise
from headrace.serve.substitution import OnError

if TYPE_CHECKING:
    from typing_extensions import Self


class Loader:
    """Batches of a packed dataset, of tars indexed in place, or of a plain image folder.

        train = Loader("shards/train", 256, shuffle=True, transform=[RandomResizedCrop(224)], seed=0)
        for epoch in range(90):
            train.set_epoch(epoch)
            for images, labels in train:      # uint8[256, 224, 224, 3], int64[256]
                ...

    A batch is a pure function of (dataset, transforms, seed, epoch, step): threads and what was loaded before
    have no say in it, nor ranks in the global batches of a shuffled epoch. It is a tuple of `fields`, and has
    `.valid` and `.rows` (see `Batch`). Batches are the caller's to keep. Reading and rendering go on in threads
    while a batch is in use; breaking off, an error, Ctrl-C or `close()` end them. Several iterators may be alive
    at once.
    """

    _tensors = False
    """Whether numbers and arrays that the user's transform returns become tensors."""

    def __init__(
        self,
        source: str | os.PathLike[str] | Dataset | Mixture,
        batch_size: int,
        *,
        shuffle: bool = False,
        transform: Any = None,
        collate_fn: Collate | None = None,
        num_workers: int | None = None,
        seed: int = 0,
        drop_last: bool = False,
        exact: bool | None = None,
        fields: Sequence[str] = (IMAGE, LABEL),
        weights: Weights = None,
        on_error: OnError = "raise",
        window: int | str | None = "auto",
        rank: int | None = None,
        world_size: int | None = None,
        threads: int | None = None,
        prefetch: int = 2,
        start_method: str | None = None,
        verify: bool = True,
        depth16: Depth16 = "clip",
    ) -> None:
        """
        transform: a list of `headrace.transforms`, a torchvision `Compose` as it is, or any function of a PIL
            image. What the core can do runs there, the rest in Python: `print(loader)` says which.
        collate_fn: makes a batch of a list of samples, each a tuple of `fields`; it runs where Python does.
        num_workers: processes for what is left to Python, as many as cores unless given; with 0 it runs in
            the thread that iterates. They are started by `start_method`, or as Python does by default.
        drop_last: leave out the samples that do not fill a last batch on every rank, as `exact=False` does. Otherwise every sample
            comes exactly once, the last batch is shorter, and a rank left with nothing gets a sample again,
            marked in `.valid` (and with the label -100 where nothing is shuffled); `exact=True` insists on that.
        fields: of `image`, `label`, `key`, raw fields of the samples (`json`, `mask.png`: bytes) and index columns.
        weights: how often samples come: a number each, or `balanced` for equal classes.
        on_error: what to do with samples that do not decode: `raise`, `skip`, or `substitute` another of the batch.
        window: over how many samples to shuffle; `auto` is about 96 MiB of them, None all.
        rank, world_size: found when an epoch begins unless given: torch.distributed's, or those of the environment.
        threads: for rendering; as many as cores unless given. prefetch: how many batches to keep ready.
        verify: compare the bytes of each sample with their CRC-32C as they are read. A sample whose bytes have
            changed since they were indexed is a bad sample, as `on_error` says.
        depth16: what becomes of grey images with 16 bits per pixel: `clip` makes all levels above 255 white, as
            torchvision does; `scale` maps them to 8 bits.
        """
        if isinstance(source, (str, os.PathLike)):
            source = Path(source).absolute()  # not abspath, which takes `link/..` wrongly
        self._arguments = {
            name: value for name, value in locals().items() if name not in ("self", "__class__")
        }
        batch_size, seed = read_whole("batch_size", batch_size), read_whole("seed", seed)
        check_choices(on_error, prefetch, threads, num_workers)
        check_fields(fields, collate_fn)
        keeps_all = not drop_last if exact is None else exact
        if keeps_all and drop_last:
            raise ValueError("exact=True keeps every sample, drop_last=True does not: give one")
        self.dataset = open_source(source, on_error)
        self.batch_size = batch_size
        self.fields = tuple(fields)
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = not keeps_all
        self._given = check_given(rank, world_size)
        self._on_error: OnError = on_error
        self._threads = threads or count_cores()
        self._prefetch = prefetch
        last: Literal["drop", "short"] = "drop" if self.drop_last else "short"
        self._epochs = Epochs(
            self.dataset,
            self.fields,
            Split(batch_size, last=last),
            seed=seed,
            shuffle=shuffle,
            window=window,
            weights=weights,
        )
        self._pipeline = Pipeline(None)
        self._depth16, self._verify = check_depth16(depth16), verify
        if IMAGE in self.fields:
            check_no_masks(self.dataset)
            columns, subset = self._epochs.table.columns, self._epochs.sampling.subset
            common_size = find_common_size(columns, subset)
            collates = collate_fn is not None
            self._pipeline = divide_transform(
                transform, common_size, collates=collates, any_size=batch_size == 1
            )
            log_hints(self.dataset, self._epochs.table.kinds, self._pipeline, self._depth16)
        self._in_python = bool(self._pipeline.steps or collate_fn)
        self._collate_fn, self._start_method = collate_fn, start_method
        self._num_workers = count_cores() if num_workers is None else num_workers
        self._next = self._received = Position(0, 0)
        self._counters = Counters()
        self._memory: LoaderMemory | None = None
        self._productions: list[Production] = []

    def __reduce__(self) -> tuple[Any, ...]:
        # Intentional: without a rank that was found here. The copy finds that of its own process.
        received = self._received
        if not received.step:
            received = Position(received.epoch, 0)
        return _rebuild, (type(self), self._arguments, self._next, received)

    def __repr__(self) -> str:
        try:
            share = f"{len(self)} steps, {self._find_place()}"
        except ValueError as error:  # to be shown, not raised by what is printed for debugging
            share = f"rank not found: {error}"
        return f"{type(self).__name__}({self.dataset!r}, batch_size={self.batch_size}, {share})"

    def __str__(self) -> str:
        """Where each step of the transform runs, and why."""
        return describe_loader(
            repr(self),
            self._pipeline,
            self._epochs.table.pictures,
            self._num_workers,
            self._collate_fn,
            self._threads,
        )

    def __len__(self) -> int:
        """Return the number of batches per epoch, the same on every rank.

        Ranks are found when an epoch begins. Until then this counts for the world size that can be found right now:
        the one given, else that of the process group, of the environment, or 1.
        """
        return len(self._share(self._find_place()))

    def count_samples(self) -> int:
        """Return the number of samples this rank sees per epoch, fillers included."""
        epochs = self._share(self._find_place())
        return epochs.split.count_samples(len(epochs.sampling))

    @property
    def rank(self) -> int:
        """Rank of this process: the one given, else as it can be found right now.

        Raises:
            ValueError: there are several ranks, and it cannot be found which one this is.
        """
        return self._find_place().require_rank()

    @property
    def world_size(self) -> int:
        """Number of ranks: the one given, else as it can be found right now."""
        return self._find_place().world_size

    def _find_place(self) -> Place:
        return find_place() if self._given is None else self._given

    def _share(self, place: Place) -> Epochs:
        """Return the epochs as this place goes through them, and keep them for the next time."""
        self._epochs = self._epochs.shared_by(place.rank or 0, place.world_size)
        return self._epochs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all running iterations. Idempotent and thread-safe; the loader can be iterated again afterwards."""
        for production in self._productions:
            production.close()
        self._productions = []
        self._memory = None

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is of this epoch: from its start, or from where a loaded state stands in it.

        Without this, each epoch that was gone through to its end is followed by the next.
        """
        epoch = index(epoch)
        if epoch < 0:
            raise ValueError(f"epoch is {epoch}; epochs count from 0")
        if epoch != self._next.epoch or not self._next.step:
            self._next = Position(epoch, 0)
        self._received = self._next

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch that the training loop received, as plain values.

        The same on every rank, whatever was prefetched. After the last batch of an epoch it is the start of the next
        epoch. The global batch in it is that of the ranks the epoch was begun with.
        """
        received = self._received
        if received.world_size is None:
            return self._share(self._find_place()).write_state(received)
        epochs = self._epochs
        if epochs.split.world_size != received.world_size:
            epochs = epochs.shared_by(0, received.world_size)
        return epochs.write_state(received)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume after the last batch that was received when `state` was taken, with the next iterator that is advanced.

        The world size may have changed, if batch_size has changed with it: the global batches stay. A running epoch
        can be resumed with as many ranks as divide its lanes: 8 or more if it is shuffled, else the ranks that
        it was begun with.

        Raises:
            ValueError: the state is of another loader, or of another global batch with the ranks that can be found
                right now: load it after init_process_group.
        """
        self._next = self._received = self._share(self._find_place()).read_state(state)

    def stats(self) -> Stats:
        """What was loaded so far, how fast, what waited for what, and which samples were bad."""
        return summarise(self._counters, [production.ready for production in self._productions])

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the current epoch from its first step, or from where a loaded state stands.

        Position and rank are read at the first `next`: an iterator that is never advanced changes nothing. Of
        several iterators, the first that is advanced resumes a loaded state, the others start at its first step.
        """
        epochs, begin = self._begin()
        plan = epochs.plan(begin)
        batches = self._produce(epochs, begin, plan)
        self._received = begin
        try:
            for batch in self._deliver(batches):
                self._note_received(begin._replace(step=batch.step + 1), len(plan))
                yield self._unwrap(batch)
                del batch
            if begin.step >= len(plan):  # nothing to receive
                self._note_received(begin, len(plan))
        finally:
            run_undisturbed(lambda: self._end(batches))

    def _begin(self) -> tuple[Epochs, Position]:
        """Return the epochs of the rank that this is now, and the position to begin at, which is used up."""
        place = self._find_place()
        place.require_rank()
        epochs = self._share(place)
        epochs.check_world(self._next)
        if self._given is None:
            log_place(place)
        begin = self._next._replace(world_size=place.world_size, is_loaded=False)
        self._next = Position(begin.epoch, 0)
        return epochs, begin

    def _end(self, batches: Generator[Batch, None, None]) -> None:
        batches.close()
        self._forget_ended()

    def _note_received(self, position: Position, steps: int) -> None:
        """How far the training loop has come; after the last batch, at the start of the next epoch."""
        if position.step < steps:
            self._received = position
            return
        self._received = Position(position.epoch + 1, 0, world_size=position.world_size)
        if self._next.is_start_of(position.epoch):  # else a state was loaded meanwhile
            self._next = self._received

    def _start(
        self, plan: EpochPlan, renderer: Renderer, start: int, workers: Workers | None
    ) -> Production:
        """Begins to produce the batches of an epoch."""
        self._forget_ended()
        production = Production(plan, renderer, workers, start, self._prefetch)
        self._productions.append(production)
        return production

    def _forget_ended(self) -> None:
        """What has ended may still hold an error, and that the batches of its frames."""
        self._productions = [p for p in self._productions if p.is_alive()]

    def _produce(
        self, epochs: Epochs, begin: Position, plan: EpochPlan
    ) -> Generator[Batch, None, None]:
        """The batches of an epoch, through the core and through Python."""
        renderer, start = self._renderer(epochs, begin.epoch), begin.step
        if not self._in_python:
            return iterate(lambda: self._start(plan, renderer, start, None))
        pipeline = self._pipeline
        steps = PythonSteps(
            entry=pipeline.entry,
            steps=pipeline.steps,
            last=pipeline.last,
            converts=pipeline.converts,
            collate_fn=self._collate_fn,
            tensors=self._tensors,
            image_at=self.fields.index(IMAGE),
            on_error=self._on_error,
            label_at=None if self.shuffle or LABEL not in self.fields else self.fields.index(LABEL),
            depth16=self._depth16,
        )
        part = PythonPart(steps, pipeline.output, pipeline.normalizes, renderer)
        if not self._num_workers:
            return iterate(lambda: self._start(plan, renderer, start, None), part.run_inline)

        def start_with_workers() -> Production:
            workers = Workers(part, self._num_workers, self._start_method, self._prefetch)
            return self._start(plan, renderer, start, workers)

        return iterate(start_with_workers)

    def _deliver(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches as the training loop gets them: other front ends convert them here."""
        return batches

    def _unwrap(self, batch: Batch) -> Any:
        """What collate_fn returned, if there is one; a tuple keeps what a batch knows of itself."""
        if self._collate_fn is None:
            return batch
        value = batch[0]
        return batch.replace(value) if type(value) is tuple else value

    def _renderer(self, epochs: Epochs, epoch: int) -> Renderer:
        self._memory = self._make_memory() if self._memory is None else self._memory.here()
        return Renderer(
            layout=epochs.layout,
            recipe=self._pipeline.recipe,
            fields=self.fields,
            seed=self.seed,
            epoch=epoch,
            threads=self._threads,
            on_error=self._on_error,
            filler_label=None if self.shuffle else IGNORED_LABEL,
            table=epochs.table,
            counters=self._counters,
            memory=self._memory,
            depth16=self._depth16,
            verify=self._verify,
        )

    def _make_memory(self) -> LoaderMemory:
        return LoaderMemory(self._prefetch)


def _rebuild(
    kind: type[Loader],
    arguments: dict[str, Any],
    upcoming: Position,
    received: Position,
) -> Loader:
    loader = kind(**arguments)
    loader._next, loader._received = upcoming, received
    return loader
