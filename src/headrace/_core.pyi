from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from headrace.render.request import RenderRequest

def crc32c(data: Buffer, crc: int = 0) -> int: ...
def crc32c_each(
    data: Buffer | NDArray[np.uint8],
    offsets: NDArray[np.int64],
    sizes: NDArray[np.int64],
    out: NDArray[np.uint32],
) -> None: ...
def render_labels(
    labels: NDArray[Any],
    rows: tuple[int, int, int, bool],
    columns: tuple[int, int, int, bool],
    fill: int,
    out: NDArray[Any],
    exact: bool = False,
) -> None: ...
def render_map(
    map: NDArray[np.float32],
    rows: tuple[int, int, int, bool],
    columns: tuple[int, int, int, bool],
    factors: NDArray[np.float32],
    nearest: bool,
    fill: float,
    out: NDArray[np.float32],
) -> None: ...
def mix_images(
    images: NDArray[np.float32],
    rings: list[list[int]],
    parts: NDArray[np.int64],
    keep: float,
    rest: float,
    threads: int,
) -> None: ...
def read_cached(fd: int, ranges: NDArray[np.int64], memory: NDArray[np.uint8]) -> bool: ...

# Each returns a status first: 0, or one of the codes in cpp/status.h and then an empty result.
def decode_jpeg(
    data: Buffer, box: tuple[int, int, int, int] | None = None, seek: Buffer = b""
) -> tuple[int, NDArray[np.uint8] | None]: ...
def recode_jpeg(data: Buffer) -> tuple[int, bytes | None]: ...
def build_seek(data: Buffer) -> tuple[int, bytes]: ...

# See headrace.render.png.
class PngDecoder:
    def __init__(self) -> None: ...
    # (width, height, depth, colour type, spans of the data, span of a profile)
    def open(
        self, data: Buffer
    ) -> tuple[int, int, int, int, list[tuple[int, int]], tuple[int, int]] | None: ...
    # (bytes of the result, inflated bytes that are missing, whether they end with the image)
    def begin(self, box: tuple[int, int, int, int], pixels: str) -> tuple[int, int, bool]: ...
    # the inflated bytes that are missing; -1 if Pillow must decide
    def feed(self, inflated: Buffer, out: NDArray[np.uint8]) -> int: ...
    def trim(self, limit: int) -> None: ...

# See headrace.render.request.
class Crew:
    def __init__(self, threads: int) -> None: ...

class Rendering:
    def wait(self) -> float: ...  # until it is done; returns the seconds it took the crew

class Request:
    def __init__(self, request: RenderRequest) -> None: ...
    def render(self, threads: int) -> None: ...
    def begin(self, crew: Crew) -> Rendering: ...

# For tests: "portable" turns AVX2 off, "auto" uses what the CPU has.
def set_simd(name: str) -> None: ...

# For tests and benchmarks, how views are decoded: "never" or "always" at once, "auto" where that is cheaper.
def set_sharing(name: str) -> None: ...
