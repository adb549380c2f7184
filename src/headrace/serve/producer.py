"""Starts the iterations of a loader, and keeps what they share: counters, memory, and what is running."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from dataclasses import replace

from headrace.kinds import Kind
from headrace.plan import EpochPlan
from headrace.read.columns import Columns
from headrace.read.reading import Reading, RunReading, SpanReading
from headrace.recipe.buckets import Buckets
from headrace.serve.batch import IGNORED_LABEL, Batch
from headrace.serve.batch_memory import LoaderMemory
from headrace.serve.clip_draws import ClipDraws
from headrace.serve.contents import Contents
from headrace.serve.delivery import Delivery
from headrace.serve.epochs import Epochs
from headrace.serve.iteration import Production, iterate
from headrace.serve.loader_options import LoaderOptions
from headrace.serve.mixing import Mixer
from headrace.serve.pictures import LABEL, Picture
from headrace.serve.python_batch import PythonSteps
from headrace.serve.python_sample import SampleSteps
from headrace.serve.python_workers import PythonPart, Workers
from headrace.serve.renderer import Renderer
from headrace.serve.stats import Counters, Stats, summarise
from headrace.serve.steps_in_flight import FEWEST, count_steps
from headrace.work.cores import count_cores
from headrace.work.delay_interrupts import run_undisturbed


class Producer:
    """Produces the batches of epochs, rendered in the core and transformed in Python.

    intentional: it does not hold the options, which are the loader itself. A loader that nobody uses is freed at once.
    """

    def __init__(self, options: LoaderOptions, contents: Contents, delivery: Delivery) -> None:
        self.counters = Counters()
        self.threads = options.threads or count_cores()
        in_python = any(pipeline.steps for pipeline in contents.pipelines)
        self._in_python = bool(in_python or options.collate_fn or options.tokenize)
        self.num_workers = options.workers if self._in_python else 0
        self._contents, self._delivery = contents, delivery
        self._memory: LoaderMemory | None = None
        self._running: list[Production] = []

    def produce(
        self,
        options: LoaderOptions,
        epochs: Epochs,
        epoch: int,
        plan: EpochPlan,
        first: int,
        contents: Contents,
        mixer: Mixer | None = None,
    ) -> Generator[Batch, None, None]:
        """Return the batches of an epoch from step `first` on. Nothing is started before the first `next`."""
        self._contents = contents
        renderer, prefetch = self.make_renderer(options, epochs, epoch, plan), options.prefetch
        part = self._make_python_part(options, renderer) if self._in_python else None

        is_inline = part is not None and not self.num_workers

        def start() -> Production:
            workers = None
            if part is not None and self.num_workers:
                workers = Workers(part, self.num_workers, options.start_method, prefetch)
            self._forget_ended()
            ahead = None if is_inline else mixer
            production = Production(plan, renderer, workers, first, prefetch, ahead)
            self._running.append(production)
            return production

        return iterate(start, _join(part.run_inline, mixer) if part and is_inline else None)

    def end(self, batches: Generator[Batch, None, None]) -> None:
        """Stop the threads and processes that produce these batches, whatever interrupts come."""
        run_undisturbed(batches.close)
        self._forget_ended()

    def close(self) -> None:
        """Stop all running iterations and release their memory."""
        for production in self._running:
            production.close()
        self._running = []
        self._memory = None

    def stats(self) -> Stats:
        """Return what was produced so far."""
        return summarise(self.counters, [production.ready for production in self._running])

    def make_renderer(
        self, options: LoaderOptions, epochs: Epochs, epoch: int, plan: EpochPlan
    ) -> Renderer:
        """Return what renders the batches of an epoch."""
        contents, layout = self._contents, epochs.layout
        clips, clip = None, contents.pipelines[0].clip
        reading: Reading = RunReading(layout, plan)
        if clip is not None and layout.columns.frames is not None:
            clips = ClipDraws(clip, layout.columns.frames, plan, options.seed, epoch)
            if epochs.reads_spans:
                reading = SpanReading(layout, plan, clips.find_frames)
        in_flight = self._count_steps(plan, layout.columns)
        if self._memory is None:
            self._memory = LoaderMemory(options.prefetch + in_flight, self._delivery.allocate)
        self._memory = self._memory.here()
        return Renderer(
            layout=layout,
            reading=reading,
            pictures=contents.pictures,
            targets=replace(contents.targets, columns=layout.columns, threads=self.threads),
            fields=contents.fields,
            seed=options.seed,
            epoch=epoch,
            threads=self.threads,
            on_error=options.on_error,
            filler_label=None if options.shuffle else IGNORED_LABEL,
            table=epochs.table,
            counters=self.counters,
            memory=self._memory,
            depth16=options.depth16,
            verify=options.verify,
            orient=options.orient and clip is None,
            shape=contents.shape,
            clips=clips,
            in_flight=in_flight,
            views=contents.views is not None,
            stack=contents.stack,
            as_list=contents.as_list,
            buckets=self._fill_buckets(epochs.buckets),
            later=contents.later,
        )

    def _fill_buckets(self, buckets: Buckets | None) -> list[list[Picture]]:
        """Return the images with the recipes of each bucket."""
        if buckets is None:
            return []
        numbers = range(len(buckets.sizes))
        return [[p.cover(buckets, number) for p in self._contents.pictures] for number in numbers]

    def _count_steps(self, plan: EpochPlan, columns: Columns) -> int:
        contents = self._contents
        if not contents.pictures or not contents.pictures[0].recipes:
            return FEWEST
        batch = plan.split.batch_size * len(contents.pictures) * len(contents.pipelines)
        sized = [contents.pictures, *(pictures for _, pictures in contents.later)]
        recipes = [pictures[0].recipes[0] for pictures in sized]
        return min(count_steps(self.threads, batch, r, contents.shape, columns) for r in recipes)

    def _make_python_part(self, options: LoaderOptions, renderer: Renderer) -> PythonPart:
        """Return what runs in Python."""
        contents = self._contents
        keeps_labels = options.shuffle or LABEL not in options.fields
        steps = PythonSteps(
            pipelines=contents.pipelines,
            sample=self._make_sample_steps(options),
            fields=contents.fields,
            collate_fn=options.collate_fn,
            tensors=self._delivery.tensors,
            on_error=options.on_error,
            label_at=None if keeps_labels else options.fields.index(LABEL),
            lead=contents.shape.lead,
            views=contents.views is not None,
            stack=contents.stack,
            as_list=contents.as_list,
            ragged=contents.ragged,
            tokenize=options.tokenize,
            texts=contents.texts,
        )
        return PythonPart(steps, renderer)

    def _make_sample_steps(self, options: LoaderOptions) -> SampleSteps:
        contents, kinds = self._contents, dict[str, Kind]()
        requested = contents.columns.requested
        images = {picture.name: picture.kind for picture in contents.pictures}
        owners = {name: owner.name for name, owner in contents.targets.owners.items()}
        for name in contents.fields:
            if name in images or name in owners:
                kinds[name] = images.get(name) or requested.kinds[name]
        return SampleSteps(
            kinds=kinds,
            owners=owners,
            per_box={
                name: requested.per_box[name]
                for name in contents.fields
                if requested.per_box.get(name) in owners and name not in kinds
            },
            unwraps=options.collate_fn is None,
            depth16=options.depth16,
            orient=options.orient and contents.pipelines[0].clip is None,
            wraps="torchvision" in sys.modules,  # a program that uses v2 has imported it
        )

    def _forget_ended(self) -> None:
        """An iteration that has ended may still hold an error, whose frames hold batches."""
        self._running = [production for production in self._running if production.is_alive()]


def _join(first: Callable[[Batch], Batch], second: Mixer | None) -> Callable[[Batch], Batch]:
    """Return a function that does one after the other."""
    return first if second is None else lambda batch: second(first(batch))
