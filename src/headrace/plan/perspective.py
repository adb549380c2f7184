"""Coefficients of random perspectives, as torchvision's `RandomPerspective` draws and solves them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PERSPECTIVE_UNIFORMS = 8
_GREATEST = 1e9
"""The greatest coefficient that the core takes."""
_OF_HEIGHT = np.array([0, 1, 0, 1, 0, 1, 0, 1], bool)
_AT_END = np.array([0, 0, 1, 0, 1, 1, 0, 1], bool)


def draw_corners(
    uniforms: NDArray[np.float64],
    heights: NDArray[np.int64],
    widths: NDArray[np.int64],
    distortion: float,
) -> NDArray[np.int64]:
    """Return int64[B, 4, 2]: where the corners go, as (x, y) from the top left clockwise, from uniforms float64[B, 8]."""
    sides = np.where(_OF_HEIGHT, heights[:, None], widths[:, None])
    bounds = (distortion * (sides // 2)).astype(np.int64) + 1
    drawn = (uniforms * bounds).astype(np.int64)
    return np.where(_AT_END, sides - bounds + drawn, drawn).reshape(-1, 4, 2)


def perspective_coefficients(
    corners: NDArray[np.int64], heights: NDArray[np.int64], widths: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return float64[B, 8], rounded to float32 as torchvision does, and bool[B]: whether there is a solution.

    There is none for three corners in a line, nor where the top left corner comes from infinity; torchvision fails then.
    """
    zeros = np.zeros_like(widths)
    right, bottom = widths - 1, heights - 1
    whole = np.stack([zeros, zeros, right, zeros, right, bottom, zeros, bottom], axis=1)
    x, y = corners[..., 0], corners[..., 1]
    equations = np.zeros((len(corners), 4, 2, 8))
    equations[:, :, 0, :3] = equations[:, :, 1, 3:6] = np.stack([x, y, np.ones_like(x)], axis=2)
    equations[..., 6:] = -whole.reshape(-1, 4, 2, 1) * corners[:, :, None, :]
    squares = equations.reshape(-1, 8, 8)
    solvable = ~np.any(_are_in_line(corners), axis=1)
    squares[~solvable] = np.eye(8)
    solved = _solve(squares, whole.astype(np.float64)).astype(np.float32).astype(np.float64)
    solvable &= np.all(np.abs(solved) <= _GREATEST, axis=1)
    return np.where(solvable[:, None], solved, 0.0), solvable


def _solve(squares: NDArray[np.float64], results: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64[B, 8], the solutions of equations [B, 8, 8]; nan for those without one."""
    try:
        return np.asarray(np.linalg.solve(squares, results[..., None])[..., 0])
    except np.linalg.LinAlgError:
        if len(squares) == 1:
            return np.full((1, 8), np.nan)
    half = len(squares) // 2
    parts = (slice(None, half), slice(half, None))
    return np.concatenate([_solve(squares[part], results[part]) for part in parts])


def _are_in_line(corners: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return bool[B, 4]: whether each corner lies in a line with the next two."""
    first, second = (np.roll(corners, -n, axis=1) - corners for n in (1, 2))
    turned: NDArray[np.bool_] = first[..., 0] * second[..., 1] == first[..., 1] * second[..., 0]
    return turned
