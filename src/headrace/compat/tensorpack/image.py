"""Images that OpenCV reads from files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.compat.tensorpack.dataflow import RNGDataFlow, Shell
from headrace.compat.tensorpack.imgaug.geometry import as_shape
from headrace.errors import MissingExtraError, SourceError
from headrace.flow.flow import Flow

try:
    import cv2
except ImportError as error:
    raise MissingExtraError("cv2", "tensorpack") from error


class ImageFromFile(Shell, RNGDataFlow):
    """[uint8 image] of each file: HWC in RGB if `channel` is 3, grey and HW1 if it is 1.

    resize: a side, or (height, width), that all are resized to.
    """

    def __init__(
        self,
        files: Sequence[str],
        channel: int = 3,
        resize: int | Sequence[int] | None = None,
        shuffle: bool = False,
    ) -> None:
        if channel not in (1, 3):
            raise ValueError(f"channel must be 1 or 3, not {channel}")
        self.files, self.channel, self.shuffle = files, channel, shuffle
        self.resize = None if resize is None else as_shape(resize)
        flow = Flow.of(files).shuffle(seed=self._source_seed) if shuffle else Flow.of(files)
        super().__init__(flow.map(partial(_load_image, channel, self.resize)))


def _load_image(channel: int, shape: tuple[int, int] | None, path: str) -> list[Any]:
    image = read_image(path, cv2.IMREAD_GRAYSCALE if channel == 1 else cv2.IMREAD_COLOR)
    if channel == 3:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    if shape is not None:
        image = cv2.resize(image, shape[::-1])
    return [image[:, :, np.newaxis] if channel == 1 else image]


def read_image(path: str, mode: int = cv2.IMREAD_COLOR) -> npt.NDArray[Any]:
    """Return the result of `cv2.imread`, or raise SourceError where it is None."""
    image = cv2.imread(path, mode)
    if image is None:
        raise SourceError(f"{path} is not an image that OpenCV reads")
    return image
