"""Steps: the operations drawn for each image of a batch, in slots, so that they can be chosen, ordered and joined.

A slot holds one operation for each image, or none. The core takes the steps without the gaps, as `arrays` returns
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.plan.operations import PARAMETERS, Op

NONE = -1
"""The code of an empty place."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The operations of B images in K slots, applied in the order of the slots.

    Args:
        codes: int16[B, K], an `Op` each, or NONE.
        params: float64[B, K, 12], their parameters.
    """

    codes: NDArray[np.int16]
    params: NDArray[np.float64]

    @classmethod
    def empty(cls, count: int, slots: int = 0) -> Steps:
        """Return the steps of `count` images, none of which has one."""
        codes = np.full((count, slots), NONE, np.int16)
        return cls(codes, np.zeros((count, slots, PARAMETERS)))

    @classmethod
    def one(cls, op: Op, count: int, *params: float | NDArray[np.float64]) -> Steps:
        """Return one operation for each of `count` images; each parameter is one number, or float64[B]."""
        steps = cls.empty(count, 1)
        steps.codes[:] = op
        for column, values in enumerate(params):
            steps.params[:, 0, column] = values
        return steps

    @classmethod
    def join(cls, parts: Sequence[Steps]) -> Steps:
        """Return the steps of the first part, then those of the second, and so on, for the same images."""
        codes = np.concatenate([part.codes for part in parts], axis=1)
        return cls(codes, np.concatenate([part.params for part in parts], axis=1))

    @classmethod
    def choose(cls, parts: Sequence[Steps], choices: NDArray[np.int64]) -> Steps:
        """Return the steps of part `choices[i]` for image i."""
        chosen = cls.empty(len(choices), max(part.codes.shape[1] for part in parts))
        for number, part in enumerate(parts):
            rows, slots = np.flatnonzero(choices == number), part.codes.shape[1]
            chosen.codes[rows, :slots] = part.codes[rows]
            chosen.params[rows, :slots] = part.params[rows]
        return chosen

    @classmethod
    def order(cls, parts: Sequence[Steps], orders: NDArray[np.int64]) -> Steps:
        """Return all steps, those of part `orders[i, 0]` first for image i, then those of `orders[i, 1]`, and so on."""
        return cls.join([cls.choose(parts, column) for column in orders.T])

    def put(self, rows: NDArray[np.int64], part: Steps) -> None:
        """Set the first step of some images, in steps that were just made."""
        self.codes[rows, 0], self.params[rows, 0] = part.codes[:, 0], part.params[:, 0]

    def fold(self, slots: int) -> Steps:
        """Return one step each of B * K rows as K slots of B images; the rows of an image follow one another."""
        return Steps(self.codes.reshape(-1, slots), self.params.reshape(-1, slots, PARAMETERS))

    def where(self, kept: NDArray[np.bool_]) -> Steps:
        """Return the steps of images for which `kept` bool[B] is true; the others have none."""
        codes = np.where(kept[:, None], self.codes, NONE).astype(np.int16)
        return Steps(codes, self.params)

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.float64]]:
        """Return (starts int32[B + 1], codes uint8[P], params float64[P, 12]), as `headrace.render.Program` takes them."""
        used = self.codes != NONE
        starts = np.zeros(len(used) + 1, np.int32)
        np.cumsum(used.sum(axis=1), out=starts[1:])
        return starts, self.codes[used].astype(np.uint8), self.params[used]
