"""The randomness of a batch, as recipes draw it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.plan import Stream, draw_uniforms


@dataclass(frozen=True)
class Randomness:
    """The randomness of a batch: its seed and epoch, and a number for each sample."""

    seed: int
    epoch: int
    ids: NDArray[np.int64]

    def uniforms(self, stream: Stream, count: int) -> NDArray[np.float64]:
        """Return float64[B, count], uniform in [0, 1)."""
        return draw_uniforms(self.seed, self.epoch, stream, self.ids, count)

    def split(self, parts: int) -> Randomness:
        """Return the randomness of `parts` parts of each sample, one after the other; of one part, its own."""
        ids = self.ids[:, None] * parts + np.arange(parts)
        return Randomness(self.seed, self.epoch, ids.reshape(-1))
