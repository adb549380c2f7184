"""One call, one batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace import _core
from headrace._core import Crew
from headrace.pack.cores import count_cores
from headrace.render.decode import decode_with_pillow
from headrace.render.inputs import Arena, Data, Inputs
from headrace.render.options import BYTES, Color, Depth16, Output, Window, check_depth16
from headrace.render.status import LEFT_TO_PILLOW, Status

Resample = Literal["bilinear", "bicubic"]


def render_batch(
    images: Sequence[Data] | Arena,
    boxes: ArrayLike,
    size: tuple[int, int],
    *,
    window: Window | None = None,
    flips: ArrayLike | None = None,
    seeks: Sequence[Data] | Arena | None = None,
    checksums: ArrayLike | None = None,
    color: Color | None = None,
    output: Output = BYTES,
    resample: Resample = "bilinear",
    depth16: Depth16 = "clip",
    out: NDArray[Any] | None = None,
    threads: int | None = None,
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Decodes, crops, resizes and flips every image into its slot of one array.

        out, status = render_batch(images, boxes, (224, 224), flips=flips, seeks=seeks)
        bad = [(row, status_message(status[row])) for row in np.flatnonzero(status)]

    images: encoded bytes, or decoded uint8[H, W, 3], a buffer a sample; or an `Arena` of encoded bytes.
    boxes: int[B, 4] as (left, top, width, height), each inside its picture.
    size: (height, width) of all results. With `window`, they are parts of larger pictures.
    seeks: tables of `build_seek`, empty ones allowed; they change the speed, never the result
        (of an image that was damaged since, the pixels may differ).
    checksums: uint32[B], the CRC-32C of each encoded image; one that has another is `Status.CHANGED`.
    depth16: what becomes of the levels of grey images with 16 bits per pixel: `clip` leaves those up to 255 and makes
        all others white, as Pillow and so torchvision do; `scale` maps 0 to 65,535 to 0 to 255.
    out: where to write, C-contiguous, of the shape and dtype of `output`; made if not given.
    threads: how many to use at most, the calling one included; all CPUs of the process if not given.

    Returns `out` and int32[B] with a code a sample: 0, or a `Status` that says why its slot is zero.
    The result depends on no thread count. Inputs are read in place and must not change meanwhile; the
    GIL is released. May be called from several threads at once, and after a fork.
    """
    request = _check_request(
        images, boxes, size, window, flips, seeks, checksums, color, output, resample, depth16, out
    )
    threads = _check_threads(threads)
    request.core.render(threads)
    return request.finish(threads)


def begin_batch(
    images: Sequence[Data] | Arena,
    boxes: ArrayLike,
    size: tuple[int, int],
    *,
    crew: Crew,
    window: Window | None = None,
    flips: ArrayLike | None = None,
    seeks: Sequence[Data] | Arena | None = None,
    checksums: ArrayLike | None = None,
    color: Color | None = None,
    output: Output = BYTES,
    resample: Resample = "bilinear",
    depth16: Depth16 = "clip",
    out: NDArray[Any] | None = None,
    threads: int | None = None,
) -> Rendering:
    """What `render_batch` does, in the background by the threads of a crew.

        crew = Crew(2)
        first, second = (begin_batch(images, boxes, size, crew=crew) for images, boxes in batches)
        out, status = first.finish()

    The threads of a crew go on with its next batch when nothing is left of one to begin. Of a batch that is
    dropped before its `finish`, what has not begun is left out. `threads` are for what is left to Pillow.
    Inputs and `out` must not be touched until `finish`. A crew may be used from several threads, and after a fork; a batch
    is finished in the process that began it.
    """
    request = _check_request(
        images, boxes, size, window, flips, seeks, checksums, color, output, resample, depth16, out
    )
    return Rendering(request, _check_threads(threads), request.core.begin(crew))


class Rendering:
    """A batch that was begun."""

    def __init__(self, request: _Request, threads: int, running: _core.Rendering) -> None:
        self._request, self._threads, self._running = request, threads, running
        self.seconds = 0.0
        """How long it took, known when it is finished."""

    def finish(self) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """What `render_batch` returns, when it is done."""
        seconds = self._running.wait()
        before = time.perf_counter()
        finished = self._request.finish(self._threads)
        self.seconds = seconds + time.perf_counter() - before
        return finished


@dataclass(frozen=True, eq=False)
class _Request:
    """The arguments of a call, checked, and where its results go."""

    images: Inputs
    seeks: Inputs | None
    checksums: NDArray[np.uint32] | None
    boxes: NDArray[np.int32]
    windows: NDArray[np.int32] | None
    flips: NDArray[np.bool_] | None
    color: Color
    output: Output
    bicubic: bool
    depth16: Depth16
    out: NDArray[Any]
    status: NDArray[np.int32]

    @cached_property
    def core(self) -> _core.Request:
        return _core.Request(
            images=self.images.buffers,
            image_spans=self.images.spans,
            checksums=self.checksums,
            seeks=None if self.seeks is None else self.seeks.buffers,
            seek_spans=None if self.seeks is None else self.seeks.spans,
            boxes=self.boxes,
            windows=self.windows,
            flips=self.flips,
            jitter=self.color.jitter,
            order=self.color.order,
            lighting=self.color.lighting,
            table=self.output.table(),
            planar=self.output.planar,
            bicubic=self.bicubic,
            out=self.out,
            status=self.status,
        )

    def finish(self, threads: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """The results, when Pillow has decoded what the core did not, a picture at a time for each thread."""
        if self.status.any():
            rows = np.flatnonzero(np.isin(self.status, LEFT_TO_PILLOW)).tolist()
            self._render_with_pillow(rows, min(threads, len(rows)))
        return self.out, self.status

    def _render_with_pillow(self, rows: list[int], threads: int) -> None:
        if threads > 1:
            # A RuntimeError is the system's, which gives no thread: then all is done here, some rows again.
            with suppress(RuntimeError), ThreadPoolExecutor(threads) as pool:
                list(pool.map(self._render_row, rows))
                return
        for row in rows:
            self._render_row(row)

    def _render_row(self, row: int) -> None:
        verdict = Status(self.status[row])
        self.status[row], pixels = decode_with_pillow(self.images[row], verdict, self.depth16)
        if pixels is not None:
            self._take(slice(row, row + 1), pixels).core.render(1)

    def _take(self, rows: slice, pixels: NDArray[np.uint8]) -> _Request:
        return _Request(
            images=Inputs([np.ascontiguousarray(pixels)]),
            seeks=None,
            checksums=None,
            boxes=self.boxes[rows],
            windows=None if self.windows is None else self.windows[rows],
            flips=None if self.flips is None else self.flips[rows],
            color=self.color.take(rows),
            output=self.output,
            bicubic=self.bicubic,
            depth16=self.depth16,
            out=self.out[rows],
            status=self.status[rows],
        )


def _check_request(
    images: Sequence[Data] | Arena,
    boxes: ArrayLike,
    size: tuple[int, int],
    window: Window | None,
    flips: ArrayLike | None,
    seeks: Sequence[Data] | Arena | None,
    checksums: ArrayLike | None,
    color: Color | None,
    output: Output,
    resample: Resample,
    depth16: Depth16,
    out: NDArray[Any] | None,
) -> _Request:
    boxes = _check_boxes(boxes)
    count = len(boxes)
    return _Request(
        images=Inputs.of(images, count, "images"),
        seeks=None if seeks is None else Inputs.of(seeks, count, "seeks"),
        checksums=None if checksums is None else _check_checksums(checksums, count),
        boxes=boxes,
        windows=None if window is None else window.rows(count),
        flips=None if flips is None else _check_flips(flips, count),
        color=Color() if color is None else _check_color(color, count),
        output=output,
        bicubic=_check_resample(resample) == "bicubic",
        depth16=check_depth16(depth16),
        out=_check_out(out, output, output.shape(count, _check_size(size))),
        status=np.zeros(count, np.int32),
    )


def _check_boxes(boxes: ArrayLike) -> NDArray[np.int32]:
    array = np.asarray(boxes)
    if array.ndim != 2 or array.shape[1] != 4 or array.dtype.kind not in "iu":
        raise ValueError(
            f"boxes must be integers [B, 4] (left, top, width, height), "
            f"not {array.dtype}{list(array.shape)}"
        )
    # What does not fit into 32 bits lies in no picture, also after clipping.
    return array.astype(np.int64).clip(-1, 2**31 - 1).astype(np.int32)


def _check_size(size: tuple[int, int]) -> tuple[int, int]:
    height, width = size
    if not (1 <= height <= 65535 and 1 <= width <= 65535):
        raise ValueError(f"size must be (height, width), each from 1 to 65535, not {size}")
    return int(height), int(width)


def _check_flips(flips: ArrayLike, count: int) -> NDArray[np.bool_]:
    array = np.ascontiguousarray(flips, np.bool_)
    if array.shape != (count,):
        raise ValueError(f"flips must be one truth value a box, [{count}], not {array.shape}")
    return array


def _check_checksums(checksums: ArrayLike, count: int) -> NDArray[np.uint32]:
    array = np.ascontiguousarray(checksums, np.uint32)
    if array.shape != (count,):
        raise ValueError(f"checksums must be one a box, [{count}], not {array.shape}")
    return array


def _check_color(color: Color, count: int) -> Color:
    jitter = _check_rows("jitter", color.jitter, count)
    lighting = _check_rows("lighting", color.lighting, count)
    if jitter is None:
        return Color(lighting=lighting)
    order = np.tile(np.arange(3), (count, 1)) if color.order is None else color.order
    order = np.ascontiguousarray(order, np.uint8)
    if order.shape != (count, 3) or np.any(np.sort(order, axis=1) != [0, 1, 2]):
        raise ValueError(f"order must be permutations of 0, 1, 2, uint8[{count}, 3]")
    return Color(jitter, order, lighting)


def _check_rows(
    name: str, values: NDArray[np.float32] | None, count: int
) -> NDArray[np.float32] | None:
    if values is None:
        return None
    array = np.ascontiguousarray(values, np.float32)
    if array.shape != (count, 3) or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite numbers [{count}, 3], not {array.shape}")
    return array


def _check_resample(resample: str) -> str:
    if resample not in ("bilinear", "bicubic"):
        raise ValueError(f"resample must be 'bilinear' or 'bicubic', not {resample!r}")
    return resample


def _check_out(
    out: NDArray[Any] | None, output: Output, shape: tuple[int, int, int, int]
) -> NDArray[Any]:
    if out is None:
        return np.empty(shape, output.element)
    if out.shape != shape or out.dtype != output.element or not out.flags.carray:
        raise ValueError(
            f"out must be writable, C-contiguous {output.element}{list(shape)}, "
            f"not {out.dtype}{list(out.shape)}"
        )
    return out


def _check_threads(threads: int | None) -> int:
    if threads is None:
        return count_cores()
    if threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    return threads
