"""Decodes the frames of one access: one call of the core for all frames of a size."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import CorruptError, DecodeError, SourceError
from headrace.image_header import ImageHeader, read_header
from headrace.render import Status, render_batch, status_message
from headrace.work.cores import count_cores

_MOST_PIXELS = 178_956_970  # as the core and Pillow have it


def decode_frames(
    frames: Sequence[memoryview],
    checksums: NDArray[np.uint32] | None,
    threads: int | None,
    describe: Callable[[int], str],
) -> list[NDArray[np.uint8]]:
    """Return uint8[H, W, 3] of each frame in RGB, or uint8[H, W] if it is a grey JPEG, as Pillow decodes it.

    `describe(k)` says which frame `k` is, for errors.
    """
    threads = count_threads() if threads is None else threads
    headers = [_read_header(frame, k, describe) for k, frame in enumerate(frames)]
    decoded: list[Any] = [None] * len(frames)
    for size in {(header.height, header.width): None for header in headers}:
        rows = [k for k, header in enumerate(headers) if header[1:] == size]
        boxes = np.tile([0, 0, size[1], size[0]], (len(rows), 1))
        sums = None if checksums is None else checksums[rows]
        images = [frames[k] for k in rows]
        pixels, status = render_batch(images, boxes, size, checksums=sums, threads=threads)
        for bad in np.flatnonzero(status).tolist():
            error = CorruptError if status[bad] == Status.CHANGED else DecodeError
            raise error(f"{describe(rows[bad])}: {status_message(status[bad])}")
        for k, picture in zip(rows, pixels, strict=True):
            is_grey = headers[k].kind == "grey"
            decoded[k] = np.ascontiguousarray(picture[..., 0]) if is_grey else picture
    return decoded


def count_threads() -> int:
    """Return the number of cores for this process; the workers of torch's DataLoader divide them."""
    data = sys.modules.get("torch.utils.data")  # a worker has imported it
    info = None if data is None else data.get_worker_info()
    return count_cores() if info is None else max(1, count_cores() // info.num_workers)


def _read_header(frame: memoryview, k: int, describe: Callable[[int], str]) -> ImageHeader:
    try:
        header = read_header(bytes(frame))
    except SourceError as error:
        raise DecodeError(f"{describe(k)}: {error}") from None
    if header.height * header.width > _MOST_PIXELS:  # before memory is taken
        raise DecodeError(f"{describe(k)}: {status_message(Status.TOO_LARGE)}")
    return header
