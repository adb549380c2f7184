"""What every layout gives to the packer: samples by number, and what is known before reading them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.sample import Sample


class Source(Protocol):
    """A data set in someone else's layout. Reading is thread-safe and keeps nothing in memory.

    Sample `i` is called `names[i]` in messages, takes about `sizes[i]` bytes in its source and was
    last changed at `mtimes[i]` (nanoseconds, 0 where nobody knows).
    """

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def sizes(self) -> np.ndarray: ...
    @property
    def mtimes(self) -> np.ndarray: ...

    @property
    def classes(self) -> Sequence[str] | None:
        """Class names, so that label `k` means `classes[k]`; None where labels are bare numbers."""

    @property
    def columns(self) -> pa.Schema:
        """The user's columns of every sample; may be empty."""

    @property
    def ignored(self) -> Sequence[str]:
        """What lies in the source and is not part of it, for the summary."""

    def read(self, i: int) -> Sample:
        """Sample `i`, whole. SourceError if it cannot be had; SourceChangedError if it is not what
        it was when the source was opened."""
        ...
