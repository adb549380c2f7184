"""How finished batches reach the training loop: as NumPy arrays, unless an adapter for a framework says otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.serve.batch import Batch
from headrace.serve.batch_memory import Allocate
from headrace.serve.contents import Contents
from headrace.serve.mixing import Mixer


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

    def convert(
        self, batches: Iterator[Batch], contents: Contents, mixer: Mixer | None = None
    ) -> Iterator[Batch]:
        """Return the batches as the training loop receives them.

        Args:
            batches: batches as they were rendered.
            contents: what they consist of.
            mixer: how their images are mixed with each other; with `keeps_bytes`, that has still to be done.
        """
        return batches

    def describe(self, contents: Contents) -> str:
        """Return a line for `print(loader)`, or nothing."""
        return ""
