"""The loader: a data set, a recipe and a seed in; finished batches out, each a pure function of its step."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from penstock.plan import EpochPlan, Shuffle, Split, plan_epoch
from penstock.plan.runs import RUN_BYTES
from penstock.plan.split import choose_lanes
from penstock.read.dataset import Dataset
from penstock.read.folder_cache import open_path
from penstock.read.layout import Layout
from penstock.read.parts import Table
from penstock.serve.batch import Batch
from penstock.serve.describe import describe_loader
from penstock.serve.iteration import iterate
from penstock.serve.memory import LoaderMemory
from penstock.serve.pipeline import divide_transform
from penstock.serve.python_stage import PythonPart, Workers, run_inline
from penstock.serve.python_steps import Collate, PythonSteps
from penstock.serve.rank import find_rank
from penstock.serve.renderer import IMAGE, KEY, LABEL, Renderer
from penstock.serve.sampling import Mixture, Sampling, Weights
from penstock.serve.stats import Counters, Stats, summarise
from penstock.serve.substitution import OnError

if TYPE_CHECKING:
    from typing_extensions import Self

WINDOW_BYTES = 96 << 20


@dataclass(frozen=True)
class State:
    """Where a loader stands, and what must be equal for the batches after it to be the same."""

    epoch: int
    step: int
    seed: int
    samples: int
    global_batch: int
    lanes: int
    window: int | None
    shuffle: bool


class Loader:
    """Batches of a packed data set, of tars indexed in place, or of a plain image folder.

        train = Loader("shards/train", 256, shuffle=True, transform=[RandomResizedCrop(224)], seed=0)
        for epoch in range(90):
            train.set_epoch(epoch)
            for images, labels in train:      # uint8[256, 224, 224, 3], int64[256]
                ...

    A batch is a pure function of (data set, transforms, seed, epoch, step): threads, ranks and what was
    loaded before have no say in it. It is a tuple of `fields`, and has `.valid` and `.rows` (see `Batch`).
    Batches are the caller's to keep. Reading and rendering go on in threads while a batch is in use;
    breaking off, an error, Ctrl-C or `close()` end them. Several iterators may be alive at once.
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
    ) -> None:
        """
        transform: a list of `penstock.transforms`, a torchvision `Compose` as it is, or any function of a PIL
            image. What the core can do runs there, the rest in Python: `print(loader)` says which.
        collate_fn: makes a batch of a list of samples, each a tuple of `fields`; it runs where Python does.
        num_workers: processes for what is left to Python, as many as cores unless given; with 0 it runs in
            the thread that iterates. They are started by `start_method`, or as Python does by default.
        drop_last: leave out the samples that do not fill a last batch on every rank. Otherwise every sample
            comes exactly once, the last batch is shorter, and a rank left with nothing gets an entry
            that is marked in `.valid`; `exact=True` insists on that.
        fields: of `image`, `label`, `key`, raw fields of the samples (`json`, `mask.png`: bytes) and index columns.
        weights: how often samples come: a number each, or `balanced` for equal classes.
        on_error: what to do with samples that do not decode: `raise`, `skip`, or `substitute` another of the batch.
        window: over how many samples to shuffle; `auto` is about 96 MiB of them, None all.
        rank, world_size: torch.distributed's, or those of the environment, unless given.
        threads: for rendering; as many as cores unless given. prefetch: how many batches to keep ready.
        """
        self._arguments = {
            name: value for name, value in locals().items() if name not in ("self", "__class__")
        }
        _check_choices(on_error, prefetch, threads, num_workers)
        keeps_all = not drop_last if exact is None else exact
        if keeps_all and drop_last:
            raise ValueError("exact=True keeps every sample, drop_last=True does not: give one")
        self.dataset = open_path(source) if isinstance(source, (str, os.PathLike)) else source
        self.batch_size = batch_size
        self.fields = tuple(fields)
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = not keeps_all
        self.rank, self.world_size = find_rank(rank, world_size)
        self._on_error: OnError = on_error
        self._threads = threads or len(os.sched_getaffinity(0))
        self._prefetch = prefetch
        self._table = _read_table(self.dataset, self.fields)
        columns = self._table.columns
        common_size = _common_size(columns.height, columns.width)
        self._pipeline = divide_transform(transform, common_size, collates=collate_fn is not None)
        self._in_python = IMAGE in self.fields and bool(self._pipeline.steps or collate_fn)
        self._collate_fn, self._start_method = collate_fn, start_method
        cores = len(os.sched_getaffinity(0))
        self._num_workers = cores if num_workers is None else num_workers
        self._sampling = Sampling(self.dataset, self._table, weights, seed)
        self._lanes: int | None = None
        self._split().count_steps(0)  # checks batch_size and rank now, not in the first epoch
        self._window = self._choose_window(window) if shuffle else 0
        self._layout = Layout(columns, self._table.parts, self._choose_run_bytes())
        self._epoch = self._start = 0
        self._position = (0, 0)
        self._counters = Counters()
        self._memory: LoaderMemory | None = None
        self._plan_of: tuple[int, EpochPlan] | None = None
        self._open: list[Generator[Batch, None, None]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._arguments, self._epoch, self._start, self._lanes)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.dataset!r}, batch_size={self.batch_size}, "
            f"{len(self)} steps, rank {self.rank} of {self.world_size})"
        )

    def __str__(self) -> str:
        """Where each step of the transform runs, and why."""
        return describe_loader(
            repr(self), self._pipeline, self._num_workers, self._collate_fn, self._threads
        )

    def __len__(self) -> int:
        """Batches of an epoch: the same on every rank."""
        return self._split().count_steps(len(self._sampling))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads of all iterations. Again is fine; so is iterating anew."""
        for batches in list(self._open):
            batches.close()
        self._memory = LoaderMemory()

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is of this epoch: from its start, or from where a loaded state stands in it.

        Without this, each epoch that was gone through to its end is followed by the next.
        """
        if epoch < 0:
            raise ValueError(f"epoch is {epoch}; epochs count from 0")
        if epoch != self._epoch:
            self._epoch, self._start = epoch, 0
        self._position = (self._epoch, self._start)

    def state_dict(self) -> dict[str, Any]:
        """What the training loop has received, whatever was prefetched; at the end of an epoch, the start
        of the next. Plain numbers, the same on every rank."""
        epoch, step = self._position
        return asdict(self._state(epoch, step))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on after the last batch that was received when `state` was taken.

        The world size may have changed, if batch_size has changed with it: the global batches stay.
        """
        loaded = State(**state)
        lanes = self._lanes
        self._lanes = loaded.lanes
        try:
            mine = self._state(loaded.epoch, loaded.step)
        except ValueError:
            self._lanes = lanes
            raise
        if mine != loaded:
            self._lanes = lanes
            raise ValueError(f"the state is of another loader: {loaded}, this one is {mine}")
        self._epoch, self._start = loaded.epoch, loaded.step
        self._position = (loaded.epoch, loaded.step)
        self._plan_of = None

    def stats(self) -> Stats:
        """What was loaded so far, how fast, what waited for what, and which samples were bad."""
        return summarise(self._counters)

    def __iter__(self) -> Iterator[Any]:
        """The current epoch from its first step, or from where a loaded state stands."""
        start, self._start = self._start, 0
        return self._iterate(self._epoch, start)

    def _iterate(self, epoch: int, start: int) -> Iterator[Any]:
        plan = self._plan(epoch)
        batches = self._produce(epoch, plan, start)
        self._open.append(batches)
        self._position = (epoch, start)
        try:
            for batch in self._deliver(batches):
                self._received(epoch, batch.step + 1, len(plan))
                yield self._unwrap(batch)
                del batch
            self._received(epoch, len(plan), len(plan))
        finally:
            batches.close()
            self._open.remove(batches)

    def _received(self, epoch: int, step: int, steps: int) -> None:
        """Notes how far the training loop has come."""
        if step < steps:
            self._position = (epoch, step)
            return
        self._position = (epoch + 1, 0)
        if self._epoch == epoch:
            self._epoch, self._start = epoch + 1, 0

    def _produce(self, epoch: int, plan: EpochPlan, start: int) -> Generator[Batch, None, None]:
        """The batches of an epoch, through the core and through Python."""
        renderer = self._renderer(epoch)
        options: dict[str, Any] = {"start": start, "prefetch": self._prefetch}
        if not self._in_python:
            return iterate(plan, renderer, **options)
        pipeline = self._pipeline
        steps = PythonSteps(
            entry=pipeline.entry,
            steps=pipeline.steps,
            last=pipeline.last,
            collate_fn=self._collate_fn,
            tensors=self._tensors,
            image_at=self.fields.index(IMAGE),
            on_error=self._on_error,
        )
        part = PythonPart(steps, pipeline.output, renderer)
        if not self._num_workers:
            return run_inline(part, iterate(plan, renderer, **options))

        def make_workers() -> Workers:
            return Workers(part, self._num_workers, self._start_method, self._prefetch)

        return iterate(plan, renderer, **options, make_workers=make_workers)

    def _deliver(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches as the training loop gets them: other front ends convert them here."""
        return batches

    def _unwrap(self, batch: Batch) -> Any:
        """What collate_fn returned, if there is one; a tuple keeps what a batch knows of itself."""
        if self._collate_fn is None or not self._in_python:
            return batch
        value = batch[0]
        return batch.replace(value) if type(value) is tuple else value

    def _renderer(self, epoch: int) -> Renderer:
        self._memory = self._make_memory() if self._memory is None else self._memory.here()
        return Renderer(
            layout=self._layout,
            recipe=self._pipeline.recipe,
            fields=self.fields,
            seed=self.seed,
            epoch=epoch,
            threads=self._threads,
            on_error=self._on_error,
            name_row=self._table.name_row,
            counters=self._counters,
            memory=self._memory,
        )

    def _make_memory(self) -> LoaderMemory:
        return LoaderMemory()

    def _split(self) -> Split:
        last: Literal["drop", "short"] = "drop" if self.drop_last else "short"
        return Split(self.batch_size, self.rank, self.world_size, lanes=self._lanes, last=last)

    def _plan(self, epoch: int) -> EpochPlan:
        if self._plan_of is None or self._plan_of[0] != epoch:
            plan = plan_epoch(
                self._layout.runs,
                self._split(),
                epoch=epoch,
                shuffle=Shuffle(self.seed, self._window) if self.shuffle else None,
                rows=self._sampling.rows(epoch, self._layout.runs),
            )
            self._plan_of = (epoch, plan)
        return self._plan_of[1]

    def _state(self, epoch: int, step: int) -> State:
        split = self._split()
        return State(
            epoch=epoch,
            step=step,
            seed=self.seed,
            samples=len(self._sampling),
            global_batch=split.global_batch,
            lanes=choose_lanes(split, shuffled=self.shuffle),
            window=self._window,
            shuffle=self.shuffle,
        )

    def _choose_window(self, window: int | str | None) -> int | None:
        if window is None or isinstance(window, int):
            return window
        if window != "auto":
            raise ValueError(f"window is {window!r}; give 'auto', a number of samples, or None")
        if any(part.loose for part in self._table.parts):
            return None  # each file is a read of its own anyway, and folders are sorted by class
        sizes = self._table.columns.span.size
        mean = max(int(sizes.mean()) if len(sizes) else 1, 1)
        return max(WINDOW_BYTES // mean, 4 * self._split().global_batch)

    def _choose_run_bytes(self) -> int:
        """Runs of one sample where samples are needed in any order and do not all fit into memory."""
        fits = int(self._table.columns.span.size.sum()) <= WINDOW_BYTES
        return RUN_BYTES if fits or self._window is not None else 1


def _rebuild(
    kind: type[Loader], arguments: dict[str, Any], epoch: int, start: int, lanes: int | None
) -> Loader:
    loader = kind(**arguments)
    loader._epoch, loader._start, loader._lanes = epoch, start, lanes
    return loader


def _check_choices(
    on_error: str, prefetch: int, threads: int | None, num_workers: int | None
) -> None:
    if on_error not in ("raise", "skip", "substitute"):
        raise ValueError(f"on_error is {on_error!r}; give 'raise', 'skip' or 'substitute'")
    if prefetch < 1:
        raise ValueError(f"prefetch is {prefetch}; it must be at least 1")
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}; it must be at least 1")
    if num_workers is not None and num_workers < 0:
        raise ValueError(f"num_workers is {num_workers}; it must be 0 or more")


def _read_table(source: Dataset | Mixture, fields: tuple[str, ...]) -> Table:
    datasets = source.datasets if isinstance(source, Mixture) else [source]
    others = [name for name in fields if name not in (IMAGE, LABEL, KEY)]
    return Table(datasets, others, image=IMAGE in fields)


def _common_size(heights: NDArray[np.int64], widths: NDArray[np.int64]) -> tuple[int, int] | None:
    """The size of all images, if they have one."""
    if (
        not len(heights)
        or not heights[0]
        or (heights != heights[0]).any()
        or (widths != widths[0]).any()
    ):
        return None
    return int(heights[0]), int(widths[0])
