"""The loader for PyTorch: `from penstock.torch import Loader`.

Images come as NCHW tensors whose memory is channels_last: the bytes that the core wrote, seen the other way,
without a copy. Labels are int64 tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.errors import MissingExtraError
from penstock.serve import loader
from penstock.serve.batch import Batch

try:
    import torch
except ModuleNotFoundError:
    raise MissingExtraError("torch", "torch") from None


class Loader(loader.Loader):
    """`penstock.Loader` with tensors for arrays. See there for its arguments and guarantees."""

    def _finish(self, batch: Batch) -> Batch:
        dtype = self._recipe.output.dtype
        return batch.replace(tuple(_to_tensor(value, dtype) for value in batch))

    @property
    def sampler(self) -> Loader:
        """For frameworks that call `loader.sampler.set_epoch(epoch)`."""
        return self


def _to_tensor(value: Any, dtype: str) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    tensor = torch.from_numpy(value)
    if value.ndim != 4:
        return tensor
    if dtype == "bfloat16":
        tensor = tensor.view(torch.bfloat16)
    return tensor.permute(0, 3, 1, 2)
