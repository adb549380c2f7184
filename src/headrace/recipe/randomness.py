"""The randomness of a batch, as recipes draw it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.plan import Stream, draw_seeds, draw_uniforms

_LAST_STREAM = 255
"""The streams of a view have eight bits."""


@dataclass(frozen=True)
class Randomness:
    """The randomness of a batch: its seed and epoch, a number for each sample, the numbers of the view and the step."""

    seed: int
    epoch: int
    ids: NDArray[np.int64]
    view: int = 0
    step: int = 0

    def uniforms(self, stream: Stream, count: int) -> NDArray[np.float64]:
        """Return float64[B, count], uniform in [0, 1)."""
        return draw_uniforms(self.seed, self.epoch, self._number(stream), self.ids, count)

    def seeds(self) -> NDArray[np.uint64]:
        """Return a seed per sample, for the user's Python code."""
        return draw_seeds(self.seed, self.epoch, self.ids, self._number(Stream.USER))

    def step_uniforms(self, count: int) -> NDArray[np.float64]:
        """Return float64[B, count] for the step that this is the randomness of; see `of_step`."""
        number = Stream.STEP + self.step
        if number > _LAST_STREAM:
            raise ValueError(
                f"the transform has more than {_LAST_STREAM + 1 - Stream.STEP} random steps, with those inside of "
                "RandomApply and the like: give fewer"
            )
        stream = self.view << 8 | number
        return draw_uniforms(self.seed, self.epoch, stream, self.ids, count)

    def _number(self, stream: Stream) -> int:
        """Return the number of a stream in this view: the first view has the streams of an image alone."""
        return self.view << 8 | stream

    def split(self, parts: int) -> Randomness:
        """Return the randomness of `parts` parts of each sample, one after the other; of one part, its own."""
        ids = self.ids[:, None] * parts + np.arange(parts)
        return replace(self, ids=ids.reshape(-1))

    def of_view(self, view: int) -> Randomness:
        """Return the randomness of a view. It depends on the number of the view, not on how many there are."""
        return replace(self, view=view)

    def of_step(self, step: int) -> Randomness:
        """Return the randomness of the step that comes `step` places after this one: each draws numbers of its own."""
        return replace(self, step=self.step + step)
