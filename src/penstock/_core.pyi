import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def crc32c(data: Buffer, crc: int = 0) -> int: ...
def crc32c_portable(data: Buffer, crc: int = 0) -> int: ...

# Each begins with a status: 0, or one of the codes in cpp/status.h and then nothing to go with it.
def decode_jpeg(
    data: Buffer, box: tuple[int, int, int, int] | None = None, seek: Buffer = b""
) -> tuple[int, NDArray[np.uint8] | None]: ...
def build_seek(data: Buffer) -> tuple[int, bytes]: ...

# For benchmarks: nanoseconds of entropy decoding, and from there to pixels.
def profile_jpeg(
    images: list[Buffer], boxes: list[tuple[int, int, int, int]], seeks: list[Buffer]
) -> tuple[int, int]: ...

# For tests: "portable" does without AVX2, "auto" takes what the CPU has.
def set_simd(name: str) -> None: ...
