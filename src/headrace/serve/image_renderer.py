"""Render the images of a step in the background: all samples at once, or each by itself if results differ in size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.render import Crew, Draws, Jobs, Rendering, RenderRequest
from headrace.render.options import Depth16
from headrace.render.request import Target, View
from headrace.serve.batch_memory import LoaderMemory
from headrace.serve.pictures import Picture


class Rendered(NamedTuple):
    """An image that is being rendered, and the memory [V, B, ...] of all views if they are stacked."""

    renderings: Sequence[Rendering]
    stacked: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class ImageRenderer:
    """Renders all views of an image into the memory of a loader.

    Args:
        memory: The memory of the loader.
        threads: The most threads to use.
        depth16: How images with 16 bits per pixel become bytes.
        stack: Whether views are one array.
        as_list: Whether each sample is rendered by itself.
    """

    memory: LoaderMemory
    threads: int
    depth16: Depth16
    stack: bool
    as_list: bool

    @cached_property
    def _crew(self) -> Crew:
        return Crew(self.threads)

    def begin(self, picture: Picture, jobs: Jobs, drawn: Sequence[Draws]) -> Rendered:
        """Begin to render an image; `jobs` has the draws of its first view, `drawn` those of all views."""
        if not self.as_list:
            return self._begin_jobs(picture, jobs, drawn)
        parts: list[Rendering] = []
        for i in range(len(jobs)):
            draws = [part.take(slice(i, i + 1)) for part in drawn]
            parts += self._begin_jobs(picture, _take_job(jobs, i, draws[0]), draws).renderings
        return Rendered(parts)

    def _begin_jobs(self, picture: Picture, jobs: Jobs, drawn: Sequence[Draws]) -> Rendered:
        draws = [jobs.draws, *drawn[1:]]
        targets = [r.make_target(part) for r, part in zip(picture.recipes, draws, strict=True)]
        outs, stacked = self._take_memory(targets, len(jobs))
        first, *others = (
            View(part, self._complete(target, picture, out))
            for part, target, out in zip(draws, targets, outs, strict=True)
        )
        request = RenderRequest(jobs, first.target, others)
        return Rendered([request.begin(self._crew)], stacked)

    def _complete(self, target: Target, picture: Picture, out: NDArray[Any]) -> Target:
        """Return the target of a view with all that the loader knows."""
        return replace(
            target,
            depth16=self.depth16,
            channels=picture.kind.channels,
            out=out,
            threads=self.threads,
        )

    def _take_memory(
        self, targets: Sequence[Target], count: int
    ) -> tuple[Sequence[NDArray[Any]], NDArray[Any] | None]:
        """Return the memory of each view, and of all of them if they are stacked."""
        shapes = [target.output.shape(count, target.size) for target in targets]
        elements: list[np.dtype[Any]] = [target.output.element for target in targets]
        take = self.memory.batches.take
        if self.stack:
            stacked = take((len(targets), *shapes[0]), elements[0])
            return list(stacked), stacked
        return [take(shape, element) for shape, element in zip(shapes, elements, strict=True)], None


def _take_job(jobs: Jobs, i: int, draws: Draws) -> Jobs:
    """Return one of the jobs on images."""
    rows = slice(i, i + 1)
    return Jobs(
        [jobs.images[i]],
        draws,
        None if jobs.seeks is None else [jobs.seeks[i]],
        None if jobs.checksums is None else jobs.checksums[rows],
        None,
        None if jobs.orientations is None else jobs.orientations[rows],
    )
