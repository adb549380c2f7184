from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def crc32c(data: Buffer, crc: int = 0) -> int: ...
def crc32c_portable(data: Buffer, crc: int = 0) -> int: ...
def render_batch(
    images: list[Buffer],
    image_spans: NDArray[np.int64] | None,
    seeks: list[Buffer] | None,
    seek_spans: NDArray[np.int64] | None,
    boxes: NDArray[np.int32],
    flips: NDArray[np.bool_] | None,
    jitter: NDArray[np.float32] | None,
    order: NDArray[np.uint8] | None,
    lighting: NDArray[np.float32] | None,
    table: NDArray[Any] | None,
    planar: bool,
    bicubic: bool,
    threads: int,
    out: NDArray[Any],
    status: NDArray[np.int32],
) -> None: ...
def set_simd(path: str) -> None: ...
