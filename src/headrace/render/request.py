"""One render request, from the plan to the native core: the jobs, and the target they are rendered into.

A job is: these bytes, this geometry, these pixel operations, into the slot with its number. An image
batch is a job per sample; several views of an image, or the frames of a clip, are just more jobs.
`cpp/binding.cpp` reads these values by the names of their fields.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _core
from headrace._core import Crew
from headrace.render.arena import Arena, Data
from headrace.render.decode import decode_with_pillow
from headrace.render.draws import Draws, read_rows
from headrace.render.options import BYTES, Depth16, Output, Resample, check_depth16, check_resample
from headrace.render.png import borrow_reader
from headrace.render.status import FOR_PILLOW, Status
from headrace.work.cores import count_cores


@dataclass(frozen=True, eq=False)
class Jobs:
    """What to render: bytes and draws, a row per job. Jobs on the same bytes stand next to each other.

    Args:
        images: Encoded bytes or decoded uint8[H, W, 3], a buffer per job; or an `Arena` of encoded bytes.
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
    """

    size: tuple[int, int]
    output: Output = BYTES
    resample: Resample = "bilinear"
    depth16: Depth16 = "clip"
    fill: tuple[int, int, int] = (0, 0, 0)
    out: NDArray[Any] | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if len(self.size) != 2 or not all(1 <= side <= 65535 for side in self.size):
            raise ValueError(f"size must be (height, width), each from 1 to 65535, not {self.size}")
        check_resample(self.resample)
        check_depth16(self.depth16)
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
class RenderRequest:
    """One batch to render. The result never depends on the number of threads.

    The bytes are read in place, so they must not change until the batch is done; nor must `out`. The GIL is
    released.
    """

    jobs: Jobs
    target: Target
    out: NDArray[Any] = field(init=False)
    status: NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", self.target.prepare_out(len(self.jobs)))
        object.__setattr__(self, "status", np.zeros(len(self.jobs), np.int32))

    def render(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return the results and the status of each job. Thread-safe; works after a fork."""
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

    def _finish(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return the results after PNGs and what Pillow decodes, an image at a time per thread."""
        if self.status.any():
            rows = np.flatnonzero(np.isin(self.status, FOR_PILLOW)).tolist()
            self._render_with_pillow(rows, min(self._threads, len(rows)))
        return self.out, self.status

    def _render_with_pillow(self, rows: list[int], threads: int) -> None:
        if threads > 1:
            # RuntimeError: the system has no thread to give. Then all rows are rendered here, some again.
            with suppress(RuntimeError), ThreadPoolExecutor(threads) as pool:
                list(pool.map(self._render_row, rows))
                return
        for row in rows:
            self._render_row(row)

    def _render_row(self, row: int) -> None:
        data: Any = self.jobs.images[row]
        if self._render_png(row, data):
            return
        verdict, sizes = Status(self.status[row]), self.jobs.sizes
        self.status[row], pixels = decode_with_pillow(data, verdict, self.target.depth16)
        if pixels is not None and sizes is not None and pixels.shape[:2] != tuple(sizes[row]):
            self.status[row], pixels = Status.OTHER_SIZE, None
        if pixels is not None:
            draws = self.jobs.draws.take(slice(row, row + 1))
            self._render_pixels(row, np.ascontiguousarray(pixels), draws)

    def _render_png(self, row: int, data: Any) -> bool:
        """Render a PNG without Pillow. Return False if it is not a PNG, or Pillow must decide on it."""
        draws, sizes = self.jobs.draws, self.jobs.sizes
        with borrow_reader() as reader:
            png = reader.open(data)
            if png is None:
                return False
            box = left, top, width, height = tuple(draws.boxes[row].tolist())
            turned = self._orientation(row) != 1  # then the box is one of the upright picture
            if turned:
                box = left, top, width, height = 0, 0, png.width, png.height
            fits = min(left, top, width - 1, height - 1) >= 0
            fits = fits and left + width <= png.width and top + height <= png.height
            if not fits or (sizes is not None and (png.height, png.width) != tuple(sizes[row])):
                return False  # an error, unless Pillow has a better reason
            pixels = reader.read(png, box, self.target.depth16)
            if pixels is None:
                return False
            rest = draws.take(slice(row, row + 1)) if turned else draws.take_cropped(row)
            self._render_pixels(row, pixels, rest)
            return True

    def _render_pixels(self, row: int, pixels: NDArray[np.uint8], draws: Draws) -> None:
        rows = slice(row, row + 1)
        target = replace(self.target, out=self.out[rows], threads=1)
        turned = None if self.jobs.orientations is None else self.jobs.orientations[rows]
        jobs = Jobs([pixels], draws, orientations=turned)
        self.status[rows] = RenderRequest(jobs, target).render()[1]

    def _orientation(self, row: int) -> int:
        return 1 if self.jobs.orientations is None else int(self.jobs.orientations[row])


class Rendering:
    """A batch that is being rendered in the background."""

    def __init__(self, request: RenderRequest, running: _core.Rendering) -> None:
        self._request, self._running = request, running
        self.seconds = 0.0
        """How long it took; known after `finish`."""

    def finish(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Wait for the batch, and return the results and the status of each job."""
        seconds = self._running.wait()
        before = time.perf_counter()
        finished = self._request._finish()
        self.seconds = seconds + time.perf_counter() - before
        return finished
