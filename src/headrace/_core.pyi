from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def crc32c(data: Buffer, crc: int = 0) -> int: ...
def crc32c_each(
    data: Buffer | NDArray[np.uint8],
    offsets: NDArray[np.int64],
    sizes: NDArray[np.int64],
    out: NDArray[np.uint32],
) -> None: ...

# Each begins with a status: 0, or one of the codes in cpp/status.h and then nothing to go with it.
def decode_jpeg(
    data: Buffer, box: tuple[int, int, int, int] | None = None, seek: Buffer = b""
) -> tuple[int, NDArray[np.uint8] | None]: ...
def build_seek(data: Buffer) -> tuple[int, bytes]: ...

# For benchmarks: nanoseconds of entropy decoding, and from there to pixels.
def profile_jpeg(
    images: list[Buffer], boxes: list[tuple[int, int, int, int]], seeks: list[Buffer]
) -> tuple[int, int]: ...

# See headrace.render.batch.
class Crew:
    def __init__(self, threads: int) -> None: ...

class Rendering:
    def wait(self) -> float: ...  # until it is done; how many seconds it took the crew

class Request:
    def __init__(
        self,
        images: list[Buffer | NDArray[np.uint8]],
        image_spans: NDArray[np.int64] | None,
        checksums: NDArray[np.uint32] | None,
        seeks: list[Buffer | NDArray[np.uint8]] | None,
        seek_spans: NDArray[np.int64] | None,
        boxes: NDArray[np.int32],
        windows: NDArray[np.int32] | None,
        flips: NDArray[np.bool_] | None,
        jitter: NDArray[np.float32] | None,
        order: NDArray[np.uint8] | None,
        lighting: NDArray[np.float32] | None,
        table: NDArray[Any] | None,
        planar: bool,
        bicubic: bool,
        out: NDArray[Any],
        status: NDArray[np.int32],
    ) -> None: ...
    def render(self, threads: int) -> None: ...
    def begin(self, crew: Crew) -> Rendering: ...

# For tests: "portable" does without AVX2, "auto" takes what the CPU has.
def set_simd(name: str) -> None: ...
