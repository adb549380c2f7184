"""One render request, from the plan to the native core: the jobs, and the target they are rendered into.

A job is: these bytes, this geometry, these pixel operations, into the slot with its number. An image
batch is a job per sample; the frames of a clip are just more jobs. With several views, an image has further
results, each with its own geometry, pixel operations and target.
`cpp/binding.cpp` reads these values by the names of their fields.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace import _core
from headrace._core import Crew
from headrace.arguments import check_choice
from headrace.render.arena import Arena, Data
from headrace.render.draws import Draws, read_rows
from headrace.render.fallback import Decoded, Foreign
from headrace.render.options import (
    BYTES,
    Channels,
    Depth16,
    Output,
    Resample,
    check_depth16,
    check_resample,
)
from headrace.render.status import FOR_PILLOW, Status
from headrace.work.cores import count_cores

Result: TypeAlias = tuple[NDArray[Any], NDArray[np.int32]]
"""The array of a view, and the status of each job."""


@dataclass(frozen=True, eq=False)
class Jobs:
    """What to render: bytes and draws, a row per job. Jobs on the same bytes stand next to each other.

    Args:
        images: Encoded bytes or decoded uint8[H, W, 3], a buffer per job; or an `Arena` of encoded bytes. These may be
            .npy files with uint8[H, W], or with 1, 3 or 4 channels.
        draws: The geometry and the colours of each job.
        seeks: Tables of `build_seek`, which may be empty. They change the speed, never the result.
        checksums: uint32[B], the CRC-32C of each encoded image. Default: not checked.
        sizes: int32[B, 2], the (height, width) that each encoded image must have. Default: not checked.
        orientations: uint8[B], the EXIF orientation of each image, 1 to 8. Boxes and all else are for the image turned
            upright, as Pillow's `exif_transpose` does. Default: images are taken as they are stored.
    """

    images: Sequence[Data] | Arena
    draws: Draws
    seeks: Sequence[Data] | Arena | None = None
    checksums: NDArray[np.uint32] | None = None
    sizes: NDArray[np.int32] | None = None
    orientations: NDArray[np.uint8] | None = None

    def __post_init__(self) -> None:
        self._read_bytes("images")
        if self.seeks is not None:
            self._read_bytes("seeks")
        for name, dtype, *shape in (
            ("checksums", np.uint32),
            ("sizes", np.int32, 2),
            ("orientations", np.uint8),
        ):
            if (values := getattr(self, name)) is not None:
                values = read_rows(name, values, dtype, len(self), *shape)
                object.__setattr__(self, name, values)

    def _read_bytes(self, name: str) -> None:
        data = getattr(self, name)
        if not isinstance(data, Arena):
            data = list(data)
            object.__setattr__(self, name, data)
        if len(data) != len(self):
            raise ValueError(f"{name} holds {len(data)} samples, but there are {len(self)} boxes")

    def __len__(self) -> int:
        return len(self.draws)


@dataclass(frozen=True, eq=False)
class Target:
    """Where to render to: what every result is, and whose memory and threads make it.

    Args:
        size: (height, width) of all results.
        output: What the elements are, and how they lie in memory.
        resample: The filter, `bilinear` or `bicubic`.
        depth16: How grey images with 16 bits per pixel become bytes; see `render_batch`.
        fill: The colour outside of pictures, before all changes of colour.
        out: The array to write to. Default: a new one.
        threads: The most threads to use. Default: all CPUs of the process.
        channels: Order of the channels of images that are arrays in .npy files, `bgr` or `rgb`. Results are RGB.
    """

    size: tuple[int, int]
    output: Output = BYTES
    resample: Resample = "bilinear"
    depth16: Depth16 = "clip"
    fill: tuple[int, int, int] = (0, 0, 0)
    out: NDArray[Any] | None = None
    threads: int | None = None
    channels: Channels = "bgr"

    def __post_init__(self) -> None:
        if len(self.size) != 2 or not all(1 <= side <= 65535 for side in self.size):
            raise ValueError(f"size must be (height, width), each from 1 to 65535, not {self.size}")
        check_resample(self.resample)
        check_depth16(self.depth16)
        check_choice("channels", self.channels, ("bgr", "rgb"))
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, not {self.threads}")

    def prepare_out(self, count: int) -> NDArray[Any]:
        """Return the array for `count` results: a new one, or `out` if it is fit for them."""
        shape, element = self.output.shape(count, self.size), self.output.element
        out = np.empty(shape, element) if self.out is None else self.out
        if out.shape != shape or out.dtype != element or not out.flags.carray:
            raise ValueError(
                f"out must be writable, C-contiguous {element}{list(shape)}, "
                f"not {out.dtype}{list(out.shape)}"
            )
        return out


@dataclass(frozen=True, eq=False)
class View:
    """A further result of each image, with geometry, colours, size and output of its own.

    Args:
        draws: The geometry and the colours, a row per image.
        target: Where to render to. Its `depth16`, `channels` and `threads` are not used: a request has one of each.
    """

    draws: Draws
    target: Target


@dataclass(frozen=True, eq=False)
class RenderRequest:
    """One batch to render. The result never depends on the number of threads.

    The bytes are read in place, so they must not change until the batch is done; nor must `out`. The GIL is
    released.

    Args:
        jobs: The images, and the draws of the first view.
        target: Where the first view is rendered to.
        others: Further views of the same images. An image is verified once for all views, and decoded once
            where that is cheaper; the pixels are those of a request for each view.
    """

    jobs: Jobs
    target: Target
    others: Sequence[View] = ()
    results: list[Result] = field(init=False)
    """The array and the status of each view."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "others", tuple(self.others))
        count, results = len(self.jobs), []
        for view in self.views:
            if len(view.draws) != count:
                raise ValueError(
                    f"a view has {len(view.draws)} boxes, but there are {count} images; "
                    "give each view a box per image"
                )
            results.append((view.target.prepare_out(count), np.zeros(count, np.int32)))
        object.__setattr__(self, "results", results)

    @property
    def views(self) -> list[View]:
        """All views, the first one first."""
        return [View(self.jobs.draws, self.target), *self.others]

    def render(self) -> Result:
        """Return the results and the status of the first view of each image. Thread-safe; works after a fork."""
        return self.render_all()[0]

    def render_all(self) -> list[Result]:
        """Return the results and the status of each image, for each view. Thread-safe; works after a fork.

        An image that does not decode has the same status in all views; a box outside of an image is `BAD_BOX` in
        its view alone.
        """
        _core.Request(self).render(self._threads)
        return self._finish()

    def begin(self, crew: Crew) -> Rendering:
        """Start to render in the background, on the threads of a crew.

            crew = Crew(2)
            first, second = (RenderRequest(jobs, target).begin(crew) for jobs in batches)
            out, status = first.finish()

        The threads of a crew begin its next batch as soon as one has no more jobs to begin. Dropping a batch
        before `finish` cancels the jobs that have not begun. The target's threads are for what Pillow decodes.
        A crew can be used from several threads, and after a fork; a batch is finished in the process that
        began it.
        """
        return Rendering(self, _core.Request(self).begin(crew))

    @property
    def _threads(self) -> int:
        return self.target.threads or count_cores()

    def _finish(self) -> list[Result]:
        """Return the results after all that the core does not decode, an image at a time per thread."""
        status = self.results[0][1]  # an image that does not decode has the same in all views
        if status.any():
            rows = np.flatnonzero(np.isin(status, FOR_PILLOW)).tolist()
            self._render_foreign(rows, min(self._threads, len(rows)))
        return self.results

    def _render_foreign(self, rows: list[int], threads: int) -> None:
        if threads > 1:
            # RuntimeError: the system has no thread to give. Then all rows are rendered here, some again.
            with suppress(RuntimeError), ThreadPoolExecutor(threads) as pool:
                list(pool.map(self._render_row, rows))
                return
        for row in rows:
            self._render_row(row)

    def _render_row(self, row: int) -> None:
        jobs, target = self.jobs, self.target
        foreign = Foreign(
            jobs.images[row],
            [tuple(view.draws.boxes[row].tolist()) for view in self.views],
            None if jobs.sizes is None else tuple(jobs.sizes[row].tolist()),
            jobs.orientations is not None and int(jobs.orientations[row]) != 1,
            Status(self.results[0][1][row]),
            target.depth16,
            target.channels,
        )
        with foreign.decode() as decoded:
            self._render_decoded(row, decoded)

    def _render_decoded(self, row: int, decoded: Decoded) -> None:
        """Render all views of an image from its pixels; or set their status, if it has none."""
        rows = slice(row, row + 1)
        if decoded.pixels is None:
            for _, status in self.results:
                status[row] = decoded.status
            return
        views = [
            View(
                view.draws.take_moved(row, decoded.left, decoded.top),
                replace(view.target, out=out[rows], threads=1),
            )
            for view, (out, _) in zip(self.views, self.results, strict=True)
        ]
        turned = None if self.jobs.orientations is None else self.jobs.orientations[rows]
        jobs = Jobs([decoded.pixels], views[0].draws, orientations=turned)
        rendered = RenderRequest(jobs, views[0].target, views[1:]).render_all()
        for (_, status), (_, done) in zip(self.results, rendered, strict=True):
            status[rows] = done


class Rendering:
    """A batch that is being rendered in the background."""

    def __init__(self, request: RenderRequest, running: _core.Rendering) -> None:
        self._request, self._running = request, running
        self.seconds = 0.0
        """How long it took; known after `finish`."""

    def finish(self) -> Result:
        """Wait for the batch, and return the results and the status of the first view of each image."""
        return self.finish_all()[0]

    def finish_all(self) -> list[Result]:
        """Wait for the batch, and return the results and the status of each image, for each view."""
        seconds = self._running.wait()
        before = time.perf_counter()
        finished = self._request._finish()
        self.seconds = seconds + time.perf_counter() - before
        return finished
