"""The loader: a dataset, a recipe and a seed in; finished batches out, each a pure function of its step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.open import open_dataset
from headrace.plan import EpochPlan
from headrace.plan.split import Split, choose_lanes
from headrace.read.dataset import Dataset
from headrace.recipe.clip import Clip
from headrace.recipe.core_or_python import take_clip
from headrace.recipe.explain import describe_loader, log_hints
from headrace.recipe.mixing import take_mixing
from headrace.recipe.scheduled_steps import describe_schedules, has_schedule, list_starts
from headrace.recipe.views import take_views
from headrace.serve.batch import Batch
from headrace.serve.contents import Contents, find_contents
from headrace.serve.delivery import Delivery
from headrace.serve.epochs import Epochs
from headrace.serve.loader_options import LoaderOptions
from headrace.serve.mixing import Mixer, check_lanes
from headrace.serve.pictures import IMAGE, LABEL
from headrace.serve.producer import Producer
from headrace.serve.refuse_masks import check_no_masks
from headrace.serve.resume import Cursor
from headrace.serve.sampling import Mixture
from headrace.serve.stats import Stats

if TYPE_CHECKING:
    from typing_extensions import Self


class Loader(LoaderOptions):
    """Load batches of a packed dataset, of tars indexed in place, or of a plain image folder.

        train = Loader("shards/train", 256, shuffle=True, transform=[RandomResizedCrop(224)], seed=0)
        for epoch in range(90):
            train.set_epoch(epoch)
            for images, labels in train:      # uint8[256, 224, 224, 3], int64[256]
                ...

    A batch is a pure function of (dataset, transforms, seed, epoch, step). It does not depend on threads or on what
    was loaded before, and the global batches of a shuffled epoch do not depend on the ranks. It is a `Batch`: a tuple
    of `fields` that also has `.valid` and `.rows`. The caller may keep it. Reading and rendering go on in threads
    while a batch is in use; leaving the loop, an error, Ctrl-C or `close()` stop them. Several iterators may be alive
    at once.

    Args:
        source: path of the data, an open `Dataset`, or a `Mixture`.
        batch_size: samples per batch, on each rank. It may change with the epoch: `Schedule({0: 512, 30: 384})`.
        shuffle: whether each epoch has a random order of its own.
        transform: a list of `headrace.transforms`, a torchvision `Compose`, or any function of a PIL image; of a dict of
            all fields, if samples have masks, points or boxes. What the core supports runs there, the rest in Python:
            `print(loader)` shows which.
        collate_fn: makes a batch of a list of samples, each a tuple of `fields`. It runs where Python does.
        num_workers: processes for what runs in Python. Default: one per core. With 0 it runs in the iterating thread.
        seed: integer that all randomness comes from.
        drop_last: leave out the samples that do not fill a last batch on every rank. By default every sample comes
            exactly once, the last batch is shorter, and a rank without samples repeats one, marked in `.valid` (and
            labelled -100 unless `shuffle`).
        fields: what a batch holds, of `image`, `label`, `key`, columns of the index, and fields of the samples: with
            their suffix (`json`, `mask.png`) their bytes, without it (`mask`, `d1.label`) what their kind says. Masks,
            maps, points and boxes follow the geometry of their image; text is str.
        weights: how often samples come: a number per sample, or `balanced` for equally frequent classes.
        on_error: what to do with samples that do not decode: `raise`, `skip`, or `substitute` another of the batch.
        window: samples to shuffle over. Default: about 96 MiB of them. None shuffles over all.
        rank: number of this process. Default: found when an epoch begins, by torch.distributed or the environment.
        world_size: number of processes; give it together with `rank`.
        threads: threads for rendering. Default: one per core.
        prefetch: batches to keep ready.
        start_method: how worker processes are started. Default: as Python does.
        verify: compare the bytes of each sample with their CRC-32C as they are read. A sample whose bytes have changed
            since they were indexed is a bad sample, as `on_error` says.
        depth16: what to do with grey images of 16 bits per pixel: `clip` makes all levels above 255 white, as
            torchvision does; `scale` maps them to 8 bits.
        orient: turn images upright, as their EXIF orientation says, before all transforms. Default: take them as they
            are stored, as torchvision's ImageFolder does.
        kinds: kinds of fields that packing did not recognise, or options of them: `{"d1.label": Points(of="d1")}`, see
            `headrace.kinds`. None for the bytes, or the values of a column, as they are stored.
        collate: `stack` makes an array of images, masks and maps, which need one size; `list` makes lists of arrays, so
            that images keep their sizes.
        buckets: sizes (height, width) of batches, of which each image goes into the one with the nearest aspect ratio;
            see `headrace.transforms.Buckets`.
        repeat: how often each sample comes in its batch, with random draws of its own each time (repeated
            augmentation). An epoch then takes one sample in `repeat`, and so about as many steps as without.
        tokenize: gets the list of strings of each text field or column in a batch, and returns what comes in its place.
            It runs in the worker processes.

    Raises:
        TypeError, ValueError: an option is wrong, or does not fit the data.
        SourceError, CorruptError, PackError: the data cannot be opened, or indexed first.
    """

    dataset: Dataset | Mixture

    def __post_init__(
        self, num_workers: int | None, rank: int | None, world_size: int | None
    ) -> None:
        super().__post_init__(num_workers, rank, world_size)
        self._open(Delivery())

    @classmethod
    def deliver(cls, options: LoaderOptions, delivery: Delivery) -> Self:
        """Make a loader of checked options whose batches go through `delivery`. For adapters to frameworks.

        arrays = Loader.deliver(options, MyDelivery())
        """
        loader = cls.__new__(cls)
        loader._restore(options.list_values(), delivery)
        return loader

    def _restore(self, options: dict[str, Any], delivery: Delivery) -> None:
        vars(self).update(options)
        self._open(delivery)

    def _open(self, delivery: Delivery) -> None:
        """Open the data, and decide what runs where."""
        self.dataset = self._open_dataset()
        self._epochs = Epochs(self.dataset, self, self._find_clip())
        self._cursor = Cursor(self._epochs, self.given_place)
        table = self._epochs.table
        if IMAGE in self.fields and table.columns.frames is None:
            check_no_masks(self.dataset)
        contents = find_contents(self, table, self._epochs.sampling.subset)
        for epoch in list_starts(self.transform, "epoch")[1:]:  # raises now, not in that epoch
            find_contents(self, table, self._epochs.sampling.subset, epoch)
        for pipeline in contents.pipelines if contents.pictures else ():
            log_hints(self.dataset, table.kinds, pipeline, self.depth16)
        self._contents = contents
        self._delivery = delivery
        self._producer = Producer(self, self._leave_bytes(contents), delivery)
        self._count_classes()  # raises if labels cannot be mixed

    def _leave_bytes(self, contents: Contents) -> Contents:
        """Return what the core renders: bytes, if a device normalises them."""
        keeps_bytes = self._delivery.keeps_bytes and not contents.erases
        return contents.leave_bytes() if keeps_bytes else contents

    def _find_contents(self, epoch: int) -> Contents:
        """Return what batches consist of in an epoch, on which their sizes may depend."""
        if not has_schedule(self.transform):
            return self._contents
        return find_contents(self, self._epochs.table, self._epochs.sampling.subset, epoch)

    def _count_classes(self) -> int:
        """Return the number of classes, if labels are mixed."""
        if self._contents.mixing is None:
            return 0
        given = self._contents.mixing.choices[0].num_classes
        classes = self.dataset.classes
        if given is None and classes is None:
            raise ValueError(
                "the classes have no names to count: give MixUp and CutMix num_classes"
            )
        return given if given is not None else len(classes or ())

    def _make_mixer(
        self, epoch: int, plan: EpochPlan, others: Sequence[Split] = ()
    ) -> Mixer | None:
        contents = self._contents
        if contents.mixing is None:
            return None
        for split in others:  # raises now, not in an epoch of this size
            check_lanes(contents.mixing, split, choose_lanes(split, shuffled=self.shuffle))
        return Mixer(
            mixing=contents.mixing,
            plan=plan,
            seed=self.seed,
            epoch=epoch,
            classes=self._count_classes(),
            image_at=contents.image_at[0],
            label_at=contents.fields.index(LABEL),
            threads=self._producer.threads,
        )

    def _list_other_splits(self, epochs: Epochs) -> list[Split]:
        """Return the splits of epochs that have other batch sizes, none of which may be without steps."""
        others = {*self.batch_sizes} - {epochs.split.batch_size}
        splits = [replace(epochs.split, batch_size=size) for size in others]
        samples = len(epochs.sampling)
        for split in splits:
            if samples and not split.count_steps(samples):
                raise ValueError(
                    f"batch_size is {self.batch_size}: with drop_last, epochs of batches of {split.global_batch} have no "
                    f"steps, since there are {samples} samples; give smaller sizes, or leave drop_last out"
                )
        return splits

    def _find_clip(self) -> Clip | None:
        transform, _ = take_mixing(self.transform) if IMAGE in self.fields else (None, None)
        return None if take_views(transform) is not None else take_clip(transform)[0]

    def _open_dataset(self) -> Dataset | Mixture:
        if isinstance(self.source, (Dataset, Mixture)):
            return self.source
        return open_dataset(self.source, on_error="raise" if self.on_error == "raise" else "skip")

    def __getstate__(self) -> Any:
        return self.list_values(), self._delivery, self._cursor.save()

    def __setstate__(self, state: Any) -> None:
        options, delivery, position = state
        self._restore(options, delivery)
        self._cursor.restore(position)

    def __repr__(self) -> str:
        try:
            share = f"{len(self)} steps, {self._cursor.find_place()}"
        except ValueError as error:  # printing for debugging must not raise
            share = f"rank not found: {error}"
        return f"{type(self).__name__}({self.dataset!r}, batch_size={self.batch_size}, {share})"

    def __str__(self) -> str:
        """Return where each step of the transform runs, and why."""
        text = describe_loader(
            repr(self),
            self._contents.pipelines,
            self._contents.describe_fields(self._epochs.table.pictures),
            self.num_workers,
            self.collate_fn,
            self._producer.threads,
            self._contents.mixing,
        )
        return text + describe_schedules(self.transform) + self._delivery.describe(self._contents)

    def __len__(self) -> int:
        """Return the number of batches of an epoch, the same on every rank.

        With a schedule of batch sizes, it is that of the next iteration, or of the one that is running: `set_epoch`
        changes it.

        Ranks are found when an epoch begins. Until then this counts for the world size that can be found right now:
        the one given, else the size of the process group, the one in the environment, or 1.
        """
        return len(self._cursor.find_epochs())

    def count_samples(self) -> int:
        """Return the number of samples this rank sees in an epoch, including repeated ones that fill a batch."""
        epochs = self._cursor.find_epochs()
        return epochs.split.count_samples(len(epochs.sampling))

    @property
    def rank(self) -> int:
        """Rank of this process: the one given, else as it can be found right now.

        Raises:
            ValueError: there are several ranks, and it cannot be found which one this is.
        """
        return self._cursor.find_place().require_rank()

    @property
    def world_size(self) -> int:
        """Number of ranks: the one given, else as it can be found right now."""
        return self._cursor.find_place().world_size

    @property
    def num_workers(self) -> int:
        """Number of processes that an iteration starts: 0 where nothing runs in Python."""
        return self._producer.num_workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all running iterations. Idempotent and thread-safe; the loader can be iterated again afterwards.

        with Loader("shards/train", 256, transform=steps) as train:
            images, labels = next(iter(train))
        """
        self._producer.close()

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration, which begins at its first step, or where a loaded state stands in it.

        Without this call, an epoch that was iterated to its end is followed by the next one.

            train.set_epoch(3)

        Args:
            epoch: number of the epoch, from 0.

        Raises:
            TypeError: `epoch` is not an integer.
            ValueError: `epoch` is negative.
        """
        self._cursor.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch that the training loop received.

            torch.save({"model": model.state_dict(), "train": train.state_dict()}, "checkpoint.pt")

        Returns:
            Plain values, the same on every rank, whatever was prefetched. After the last batch of an epoch they are
            the start of the next epoch. The global batch is that of the ranks that the epoch was begun with.
        """
        return self._cursor.write_state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume after the last batch that was received when `state` was taken, with the next iterator that is advanced.

            train.load_state_dict(torch.load("checkpoint.pt")["train"])

        Args:
            state: what `state_dict` returned. The world size may have changed, if batch_size has changed with it: the
                global batches stay. An epoch can be resumed within it by as many ranks as divide its lanes: 8 or more
                if it is shuffled, else the ranks that it was begun with.

        Raises:
            ValueError: the state is of another loader, or of another global batch with the ranks that can be found
                right now: load it after init_process_group.
        """
        self._cursor.read_state(state)

    def stats(self) -> Stats:
        """Return what was loaded so far, how fast, what waited for what, and which samples were bad.

        print(train.stats().images_per_second)
        """
        return self._producer.stats()

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the current epoch from its first step, or from where a loaded state stands.

        Position and rank are read at the first `next`: an iterator that is never advanced changes nothing. Of
        several iterators, the first that is advanced resumes a loaded state, the others start at its first step.
        """
        epochs, begin = self._cursor.begin()
        others = self._list_other_splits(epochs)
        plan = epochs.plan(begin)
        contents = self._find_contents(begin.epoch)
        mixer = self._make_mixer(begin.epoch, plan, others)
        here = None if self._delivery.keeps_bytes else mixer
        rendered = self._leave_bytes(contents)
        batches = self._producer.produce(
            self, epochs, begin.epoch, plan, begin.step, rendered, here
        )
        try:
            for batch in self._delivery.convert(batches, contents, mixer):
                self._cursor.advance(begin._replace(step=batch.step + 1), len(plan))
                yield self._unwrap(batch)
                del batch
            if begin.step >= len(plan):  # nothing to receive
                self._cursor.advance(begin, len(plan))
        finally:
            self._cursor.end()
            self._producer.end(batches)

    def _unwrap(self, batch: Batch) -> Any:
        """Return what collate_fn returned, if there is one; a tuple stays a Batch."""
        if self.collate_fn is None:
            return batch
        value = batch[0]
        return batch.replace(value) if type(value) is tuple else value
