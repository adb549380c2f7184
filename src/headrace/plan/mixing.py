"""MixUp and CutMix: which images of a step are mixed with each other, in what shares, and where.

All ranks draw the same numbers for a step. Partners are drawn within a lane, so that a global batch is mixed in the
same way whatever world size shares the lanes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from headrace.plan.philox import Stream, draw_uniforms

_TRIES = 16  # each is accepted with a probability of more than 0.95
MIX_UNIFORMS = 4 + 2 * (1 + 3 * _TRIES)
"""The numbers that `draw_mixing_uniforms` returns: whether, which, a place (x, y), and two gamma variates."""


def draw_mixing_uniforms(seed: int, epoch: int, step: int) -> NDArray[np.float64]:
    """Return all that is random in the mixing of a step: float64[MIX_UNIFORMS] in [0, 1)."""
    uniforms = draw_uniforms(seed, epoch, Stream.MIX, np.array([step]), MIX_UNIFORMS)
    return uniforms.reshape(-1)


def draw_beta(uniforms: NDArray[np.float64], alpha: float) -> float:
    """Return a number of the distribution Beta(alpha, alpha), from the last `uniforms` of a step."""
    first, second = (_draw_log_gamma(part, alpha) for part in np.split(uniforms[4:], 2))
    return 1 / (1 + math.exp(min(second - first, 700.0)))


def _draw_log_gamma(uniforms: NDArray[np.float64], alpha: float) -> float:
    """Return the logarithm of a number of the distribution Gamma(alpha): Marsaglia and Tsang, 2000.

    Logarithms, since for a small alpha both numbers of a pair may be too small for floats.
    """
    boost, tries = 1 - uniforms[0], uniforms[1:].reshape(_TRIES, 3)
    shape = alpha if alpha >= 1 else alpha + 1
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    normal = np.sqrt(-2 * np.log(1 - tries[:, 0])) * np.cos(2 * np.pi * tries[:, 1])
    cubes = np.maximum(1 + c * normal, 1e-9) ** 3
    limit = 0.5 * normal**2 + d - d * cubes + d * np.log(cubes)
    accepted = (np.log(1 - tries[:, 2]) < limit) & (1 + c * normal > 0)
    log_gamma = math.log(d * float(cubes[int(accepted.argmax())]))
    return log_gamma if alpha >= 1 else log_gamma + math.log(boost) / alpha


def cut_box(
    uniforms: NDArray[np.float64], share: float, height: int, width: int
) -> tuple[int, int, int, int]:
    """Return the box (left, top, right, bottom) that CutMix takes from the other image, as torchvision does.

    `share` is how much of the image it should leave; the box is cut off at the sides of the image.
    """
    x, y = int(uniforms[2] * width), int(uniforms[3] * height)
    half = 0.5 * math.sqrt(1 - share)
    half_width, half_height = int(half * width), int(half * height)
    left, top = max(x - half_width, 0), max(y - half_height, 0)
    return left, top, min(x + half_width, width), min(y + half_height, height)


def find_rings(
    lanes: NDArray[np.int64], valid: NDArray[np.bool_], distance: int = 1
) -> list[list[int]]:
    """Return the entries of a step in rings: each is mixed with the next one, the last with the first.

    The partner of an entry stands `distance` places before it among the valid entries of its lane, as in
    `roll(distance)`. An entry without a partner is in no ring.
    """
    rings = []
    for lane in np.unique(lanes):
        places = np.flatnonzero((lanes == lane) & valid)
        count = len(places)
        for start in range(math.gcd(count, distance) if count else 0):
            ring = places[(start - distance * np.arange(count)) % count]
            length = count // math.gcd(count, distance)
            if length > 1:
                rings.append(ring[:length].tolist())
    return rings
