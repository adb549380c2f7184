"""One call renders one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.render.arena import Arena, Data
from headrace.render.draws import Color, Draws, Viewport
from headrace.render.options import BYTES, Channels, Depth16, Output, Resample
from headrace.render.program import Program
from headrace.render.request import Jobs, RenderRequest, Target


def render_batch(
    images: Sequence[Data] | Arena,
    boxes: ArrayLike,
    size: tuple[int, int],
    *,
    viewport: Viewport | None = None,
    flips: ArrayLike | None = None,
    vertical_flips: ArrayLike | None = None,
    seeks: Sequence[Data] | Arena | None = None,
    checksums: ArrayLike | None = None,
    color: Color | None = None,
    program: Program | None = None,
    output: Output = BYTES,
    resample: Resample = "bilinear",
    depth16: Depth16 = "clip",
    fill: tuple[int, int, int] = (0, 0, 0),
    out: NDArray[Any] | None = None,
    threads: int | None = None,
    channels: Channels = "bgr",
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Decode, crop, resize and flip every image into its slot of one array.

        out, status = render_batch(images, boxes, (224, 224), flips=flips, seeks=seeks)
        bad = [(row, status_message(status[row])) for row in np.flatnonzero(status)]

    Thread-safe; works after a fork. Inputs are read in place and must not change meanwhile; the GIL is
    released. The result does not depend on the number of threads.

    Args:
        images: Encoded bytes or decoded uint8[H, W, 3], a buffer per sample; or an `Arena` of encoded bytes. These
            may be .npy files with uint8[H, W], or with 1, 3 or 4 channels.
        boxes: int[B, 4] as (left, top, width, height), each inside its picture.
        size: (height, width) of all results.
        viewport: The part of each resized picture that is rendered. Default: all of it.
        flips: bool[B], which results are mirrored. Default: none.
        vertical_flips: bool[B], which results are turned upside down. Default: none.
        seeks: Tables of `build_seek`, which may be empty. They change the speed, never the result
            (the pixels of an image that was damaged since may differ).
        checksums: uint32[B], the CRC-32C of each encoded image; an image with another one is `Status.CHANGED`.
        color: Changes of colour. Default: none.
        program: Operations on the pixels of each job, after the changes of colour. Default: none.
        output: What the elements are, and how they lie in memory. Default: bytes [B, H, W, 3].
        resample: The filter, `bilinear` or `bicubic`.
        depth16: How grey images with 16 bits per pixel become bytes: `clip` keeps levels up to 255 and makes
            all others white, as Pillow and so torchvision do; `scale` maps 0 to 65,535 to 0 to 255.
        fill: The colour (red, green, blue) outside of a picture that its viewport leaves.
        out: The array to write to, C-contiguous, of the shape and dtype of `output`. Default: a new one.
        threads: The most threads to use, the calling one included. Default: all CPUs of the process.
        channels: Order of the channels of .npy files, `bgr` as OpenCV has it, or `rgb`. Results are RGB.

    Returns:
        `out`, and int32[B] with a code per sample: 0, or a `Status` that says why its slot is zero.

    Raises:
        ValueError: An argument has a wrong shape or value.
    """
    draws = Draws(
        np.asarray(boxes),
        viewport,
        None if flips is None else np.asarray(flips),
        color,
        None if vertical_flips is None else np.asarray(vertical_flips),
        program,
    )
    sums = None if checksums is None else np.asarray(checksums)
    target = Target(size, output, resample, depth16, fill, out, threads, channels)
    return RenderRequest(Jobs(images, draws, seeks, sums), target).render()
