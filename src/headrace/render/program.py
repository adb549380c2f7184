"""Programs: the operations on the finished pixels of each job, as arrays that the core runs.

A program is a short list of steps, each an operation with its parameters. It works on the bytes that a job renders,
after crop, resize, flips and `Color`. Every operation gives the bytes that Pillow 13 gives for it, but for
`TORCH_BLUR`, which follows torchvision. Nothing here is random: the caller draws operations and parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

PARAMETERS = 12
"""How many parameters a step has room for."""


class Op(IntEnum):
    """An operation, and in order what its parameters are. The numbers are those of `cpp/program.h`.

    Factors are those of Pillow's `ImageEnhance`: 1 changes nothing. Filters have Pillow's numbers: 0 is nearest, 2
    bilinear, 3 bicubic. Boxes may leave the picture.
    """

    BRIGHTNESS = 0
    """factor"""
    CONTRAST = 1
    """factor"""
    COLOR = 2
    """factor"""
    SHARPNESS = 3
    """factor"""
    HUE = 4
    """a turn from -0.5 to 0.5, as torchvision's `adjust_hue` of a PIL image"""
    GRAYSCALE = 5
    """nothing; three equal channels, as torchvision's `rgb_to_grayscale` of a PIL image"""
    INVERT = 6
    """nothing"""
    POSTERIZE = 7
    """bits, from 0 to 8"""
    SOLARIZE = 8
    """threshold, from 0 to 256: levels below it stay"""
    SOLARIZE_ADD = 9
    """levels to add, threshold: levels below it grow, up to 255; as timm's `solarize_add`"""
    AUTOCONTRAST = 10
    """nothing"""
    EQUALIZE = 11
    """nothing"""
    AFFINE = 12
    """a, b, c, d, e, f, filter, red, green, blue: `Image.transform(size, AFFINE, (a, ..., f), filter, fillcolor=...)`"""
    PERSPECTIVE = 13
    """eight coefficients, filter, red, green, blue: `Image.transform(size, PERSPECTIVE, ...)`"""
    GAUSSIAN_BLUR = 14
    """radius, as `ImageFilter.GaussianBlur(radius)`"""
    TORCH_BLUR = 15
    """sigma, kernel size: torchvision's `gaussian_blur` of a PIL image, but for a level here and there"""
    FLIP = 16
    """nothing; mirrors the picture"""
    FLIP_ROWS = 17
    """nothing; turns the picture upside down"""
    LIGHTING = 18
    """levels added to red, green and blue, as `Color.lighting`"""
    ERASE = 19
    """left, top, width, height, red, green, blue"""
    ERASE_OUTPUT = 20
    """left, top, width, height and a value for each channel, in units of the output; written when all else is done"""
    ERASE_NOISE = 21
    """left, top, width, height, lower and upper 32 bits of a seed: elements from N(0, 1) into float outputs, uniform
    bytes into bytes; written when all else is done"""


Bounds = tuple[float, float, bool]
"""The least and the most of a parameter, and whether it is an integer."""
_FACTOR: Bounds = (-1e6, 1e6, False)
_COEFFICIENT: Bounds = (-1e9, 1e9, False)
_BYTES: list[Bounds] = [(0, 255, True)] * 3
_WARP: list[Bounds] = [(0, 3, True), *_BYTES]
_BOX: list[Bounds] = [*[(-65535, 65535, True)] * 2, *[(0, 65535, True)] * 2]
_BOUNDS: dict[Op, list[Bounds]] = {
    Op.BRIGHTNESS: [_FACTOR],
    Op.CONTRAST: [_FACTOR],
    Op.COLOR: [_FACTOR],
    Op.SHARPNESS: [_FACTOR],
    Op.HUE: [(-0.5, 0.5, False)],
    Op.POSTERIZE: [(0, 8, True)],
    Op.SOLARIZE: [_FACTOR],
    Op.SOLARIZE_ADD: [(-255, 255, True), _FACTOR],
    Op.AFFINE: [_COEFFICIENT] * 6 + _WARP,
    Op.PERSPECTIVE: [_COEFFICIENT] * 8 + _WARP,
    Op.GAUSSIAN_BLUR: [(0, 1000, False)],
    Op.TORCH_BLUR: [(1e-6, 1000, False), (1, 1001, True)],
    Op.LIGHTING: [_FACTOR] * 3,
    Op.ERASE: _BOX + _BYTES,
    Op.ERASE_OUTPUT: [*_BOX, *[(-3e38, 3e38, False)] * 3],
    Op.ERASE_NOISE: [*_BOX, *[(0, 2**32 - 1, True)] * 2],
}


def _tabulate_bounds() -> NDArray[np.float64]:
    """Return [ops, PARAMETERS, 3]: the bounds of every parameter. Those that an operation does not have are 0."""
    table = np.zeros((len(Op), PARAMETERS, 3))
    for op, bounds in _BOUNDS.items():
        table[op, : len(bounds)] = bounds
    return table


_TABLE = _tabulate_bounds()


@dataclass(frozen=True, eq=False)
class Program:
    """The operations of each job, applied in order.

        program = Program.of([[(Op.POSTERIZE, 4), (Op.HUE, 0.1)], []])  # the second of two jobs has no steps
        render_batch(images, boxes, size, program=program)

    Args:
        starts: int32[B + 1]. The steps of job i are those from starts[i] to starts[i + 1].
        codes: uint8[P], an `Op` for each step.
        params: float64[P, 12], its parameters. Those that it does not have are 0.
    """

    starts: NDArray[np.int32]
    codes: NDArray[np.uint8]
    params: NDArray[np.float64]

    @classmethod
    def empty(cls, count: int) -> Program:
        """Return the program of `count` jobs that have no steps."""
        return cls(np.zeros(count + 1, np.int32), np.zeros(0, np.uint8), np.zeros((0, PARAMETERS)))

    @classmethod
    def of(cls, jobs: Sequence[Sequence[tuple[float, ...]]]) -> Program:
        """Return the program of jobs that are lists of steps, each an `Op` and its parameters."""
        steps = [step for job in jobs for step in job]
        params = np.zeros((len(steps), PARAMETERS))
        for row, (_, *values) in zip(params, steps, strict=True):
            row[: len(values)] = values
        counts = np.array([len(job) for job in jobs], np.int32)
        return cls(_sum_counts(counts), np.array([step[0] for step in steps], np.uint8), params)

    @classmethod
    def join(cls, programs: Sequence[Program]) -> Program:
        """Return the program whose jobs have the steps of the first one, then of the second, and so on.

        Args:
            programs: One or more, for the same number of jobs.
        """
        counts = [np.diff(program.starts) for program in programs]
        if len({len(steps) for steps in counts}) != 1:
            raise ValueError(
                f"programs are for {[len(steps) for steps in counts]} jobs; give those of the same jobs"
            )
        starts = _sum_counts(np.sum(counts, axis=0))
        codes, params = np.zeros(starts[-1], np.uint8), np.zeros((starts[-1], PARAMETERS))
        ends = starts[:-1].copy()
        for program, steps in zip(programs, counts, strict=True):
            places = _list_steps(ends, steps)
            codes[places], params[places] = program.codes, program.params
            ends += steps
        return cls(starts, codes, params)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: slice | NDArray[np.int64]) -> Program:
        """Return the programs of some of the jobs."""
        steps = np.diff(self.starts)[rows]
        places = _list_steps(self.starts[:-1][rows], steps)
        return Program(_sum_counts(steps), self.codes[places], self.params[places])

    def check(self, count: int) -> Program:
        """Return the program of `count` jobs as the core takes it.

        Raises:
            ValueError: It is for another number of jobs, or an operation or one of its parameters is out of range.
        """
        starts = np.ascontiguousarray(self.starts, np.int32)
        codes = np.ascontiguousarray(self.codes, np.uint8)
        params = np.ascontiguousarray(self.params, np.float64)
        if not np.array_equal(codes, self.codes) or not np.array_equal(starts, self.starts):
            raise ValueError("program: codes must be from 0 to 255, and starts must fit into int32")
        if codes.ndim != 1 or params.shape != (len(codes), PARAMETERS):
            raise ValueError(
                f"program: {list(codes.shape)} codes and {list(params.shape)} params; "
                f"give uint8[P] and float64[P, {PARAMETERS}]"
            )
        if starts.shape != (count + 1,) or _are_torn(starts, len(codes)):
            raise ValueError(
                f"program.starts must be int32[{count + 1}] that grow from 0 to {len(codes)}, the number of steps"
            )
        _check_steps(codes, params)
        return Program(starts, codes, params)


def _sum_counts(counts: NDArray[np.int32]) -> NDArray[np.int32]:
    starts = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=starts[1:])
    return starts


def _list_steps(begins: NDArray[np.int32], counts: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the numbers of `counts[i]` steps from `begins[i]` on, for each i in turn."""
    before = _sum_counts(counts)
    return np.repeat(begins.astype(np.int64) - before[:-1], counts) + np.arange(before[-1])


def _are_torn(starts: NDArray[np.int32], count: int) -> bool:
    return starts[0] != 0 or starts[-1] != count or bool(np.any(np.diff(starts) < 0))


def _check_steps(codes: NDArray[np.uint8], params: NDArray[np.float64]) -> None:
    if np.any(codes >= len(Op)):
        raise ValueError(f"program.codes has {codes.max()}; give an Op, from 0 to {len(Op) - 1}")
    least, most, whole = np.moveaxis(_TABLE[codes], -1, 0)
    fits = (params >= least) & (params <= most)  # nan does not
    fits &= (whole == 0) | (params == np.floor(params))
    bad = ~fits.all(axis=1) | _are_odd(codes, params)
    if np.any(bad):
        step = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"program: step {step} is {Op(codes[step]).name} with {params[step].tolist()}; "
            "headrace.render.Op says what its parameters are, all others must be 0"
        )


def _are_odd(codes: NDArray[np.uint8], params: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which steps have a filter that does not exist, or a kernel without a middle."""
    filters = np.where(codes == Op.AFFINE, params[:, 6], params[:, 8])
    warps = (codes == Op.AFFINE) | (codes == Op.PERSPECTIVE)
    even = (codes == Op.TORCH_BLUR) & (params[:, 1] % 2 == 0)
    odd: NDArray[np.bool_] = even | (warps & (filters == 1))
    return odd
