"""How finished batches reach the training loop: as NumPy arrays, unless an adapter for a framework says otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.recipe.clip import Shape
from headrace.render import Output
from headrace.serve.batch import Batch
from headrace.serve.batch_memory import Allocate


class Delivery:
    """Deliver batches as they were rendered. Adapters for frameworks derive from this class.

    Attributes:
        tensors: whether numbers and arrays that a transform in Python returns become tensors.
        keeps_bytes: whether images are rendered as bytes, since `convert` normalises them.
        allocate: allocates the memory of batches; None for ordinary memory.
    """

    tensors: bool = False
    keeps_bytes: bool = False
    allocate: Allocate | None = None

    def convert(self, batches: Iterator[Batch], output: Output, shape: Shape) -> Iterator[Batch]:
        """Return the batches as the training loop receives them.

        Args:
            batches: batches as they were rendered.
            output: how images shall end.
            shape: what a sample consists of.
        """
        return batches

    def describe(self, output: Output) -> str:
        """Return a line for `print(loader)`, or nothing."""
        return ""
