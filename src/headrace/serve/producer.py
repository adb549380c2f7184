"""Starts the iterations of a loader, and keeps what they share: counters, memory, and what is running."""

from __future__ import annotations

from collections.abc import Generator

from headrace.plan import EpochPlan
from headrace.read.columns import Columns
from headrace.read.reading import Reading, RunReading, SpanReading
from headrace.recipe.core_or_python import Pipeline
from headrace.serve.batch import IGNORED_LABEL, Batch
from headrace.serve.batch_memory import LoaderMemory
from headrace.serve.clip_draws import ClipDraws
from headrace.serve.delivery import Delivery
from headrace.serve.epochs import Epochs
from headrace.serve.iteration import Production, iterate
from headrace.serve.loader_options import LoaderOptions
from headrace.serve.python_batch import PythonSteps
from headrace.serve.python_workers import PythonPart, Workers
from headrace.serve.pictures import IMAGE, LABEL
from headrace.serve.renderer import Renderer
from headrace.serve.stats import Counters, Stats, summarise
from headrace.serve.steps_in_flight import FEWEST, count_steps
from headrace.work.cores import count_cores
from headrace.work.delay_interrupts import run_undisturbed


class Producer:
    """Produces the batches of epochs, rendered in the core and transformed in Python.

    intentional: it does not hold the options, which are the loader itself. A loader that nobody uses is freed at once.
    """

    def __init__(self, options: LoaderOptions, pipeline: Pipeline, delivery: Delivery) -> None:
        self.counters = Counters()
        self.threads = options.threads or count_cores()
        self._in_python = bool(pipeline.steps or options.collate_fn)
        self.num_workers = options.workers if self._in_python else 0
        self._pipeline, self._delivery = pipeline, delivery
        self._memory: LoaderMemory | None = None
        self._running: list[Production] = []

    def produce(
        self, options: LoaderOptions, epochs: Epochs, epoch: int, plan: EpochPlan, first: int
    ) -> Generator[Batch, None, None]:
        """Return the batches of an epoch from step `first` on. Nothing is started before the first `next`."""
        renderer, prefetch = self.make_renderer(options, epochs, epoch, plan), options.prefetch
        part = self._make_python_part(options, renderer) if self._in_python else None

        def start() -> Production:
            workers = None
            if part is not None and self.num_workers:
                workers = Workers(part, self.num_workers, options.start_method, prefetch)
            self._forget_ended()
            production = Production(plan, renderer, workers, first, prefetch)
            self._running.append(production)
            return production

        return iterate(start, None if part is None or self.num_workers else part.run_inline)

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
        clips, clip, layout = None, self._pipeline.clip, epochs.layout
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
            recipe=self._pipeline.recipe,
            fields=options.fields,
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
            orient=options.orient and self._pipeline.clip is None,
            shape=self._pipeline.shape,
            clips=clips,
            in_flight=in_flight,
        )

    def _count_steps(self, plan: EpochPlan, columns: Columns) -> int:
        recipe, shape = self._pipeline.recipe, self._pipeline.shape
        if recipe is None:
            return FEWEST
        return count_steps(self.threads, plan.split.batch_size, recipe, shape, columns)

    def _make_python_part(self, options: LoaderOptions, renderer: Renderer) -> PythonPart:
        """Return what runs in Python."""
        keeps_labels = options.shuffle or LABEL not in options.fields
        steps = PythonSteps(
            pipeline=self._pipeline,
            collate_fn=options.collate_fn,
            tensors=self._delivery.tensors,
            image_at=options.fields.index(IMAGE),
            on_error=options.on_error,
            label_at=None if keeps_labels else options.fields.index(LABEL),
            depth16=options.depth16,
            orient=options.orient and self._pipeline.clip is None,
            lead=self._pipeline.shape.lead,
        )
        return PythonPart(steps, renderer)

    def _forget_ended(self) -> None:
        """An iteration that has ended may still hold an error, whose frames hold batches."""
        self._running = [production for production in self._running if production.is_alive()]
