"""A Lightning module that remembers its batches. Importing this imports Lightning, which takes seconds."""

from __future__ import annotations

from typing import Any

import lightning
import torch

__all__ = ["Recorder", "lightning"]


class Recorder(lightning.LightningModule):
    """A linear model that remembers every batch it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)
        self.trained: list[tuple[int, Any, Any]] = []
        self.validated: list[int] = []

    def training_step(self, batch: Any, _: int) -> Any:
        images, labels = batch
        self.trained.append((self.current_epoch, images.clone(), labels.clone()))
        return torch.nn.functional.cross_entropy(self.layer(images.float().mean((2, 3))), labels)

    def validation_step(self, batch: Any, _: int) -> None:
        images, labels = batch
        assert images.shape[1:] == (3, 24, 24)
        self.validated += labels.tolist()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)
