"""Bad samples: why each of them cannot be rendered, and what a batch consists of then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.plan import StepPlan
from headrace.read.field_columns import PictureColumns
from headrace.read.run_layout import Layout
from headrace.read.table import Table
from headrace.render import Status, status_message

OnError = Literal["raise", "skip", "substitute"]
_DAMAGED = "it did not decode when it was indexed"


@dataclass(frozen=True)
class BadSamples:
    """Finds the samples that cannot be rendered. Raises an error for the first, or returns keys and reasons."""

    layout: Layout
    table: Table
    on_error: OnError

    def find_lost(
        self, step: StepPlan, lost: dict[int, str], errors: list[tuple[str, str]]
    ) -> NDArray[np.bool_]:
        """Return which entries are lost, reported in `errors`."""
        bad = np.zeros(len(step.rows), np.bool_)
        if lost:
            bad = np.isin(step.rows, list(lost))
            rows = step.rows[bad & step.valid].tolist()
            errors.extend(self._report(row, f": {lost[row]}", lost[row]) for row in rows)
        return bad

    def find_undecoded(
        self,
        step: StepPlan,
        picture: PictureColumns,
        field: str,
        status: NDArray[np.int32],
        frames: NDArray[np.int64] | None,
        bad: NDArray[np.bool_],
        errors: list[tuple[str, str]],
    ) -> None:
        """Add the samples of which a picture did not decode to `bad`, reported in `errors`.

        Args:
            step: The samples.
            picture: The images of all samples.
            field: Their name among the fields.
            status: int32[B, J], the status of each picture.
            frames: int64[B, K, T], the frames that the pictures are; None for images.
            bad: Which samples are bad.
            errors: Keys and reasons.
        """
        failed = (status != 0).any(axis=1) | (picture.height[step.rows] == 0)
        for i in np.flatnonzero(failed & step.valid & ~bad):
            row, first = int(step.rows[i]), int((status[i] != 0).argmax())
            reason = self._describe(int(status[i, first]), row, picture)
            if frames is not None:
                reason = self._name_frame(row, frames[i], first, status.shape[1], reason)
            if field == "image":
                errors.append(self.report(row, reason))
            elif not picture.image.size[row]:
                errors.append(self._report(row, f": it has no {field}", f"it has no {field}"))
            else:
                what = f": {field} at byte {picture.image.offset[row]}: {reason}"
                errors.append(self._report(row, what, f"{field}: {reason}"))
        bad |= failed

    def find_failed(
        self,
        step: StepPlan,
        failed: Mapping[int, str],
        bad: NDArray[np.bool_],
        errors: list[tuple[str, str]],
    ) -> None:
        """Add the samples at the places `failed` to `bad`, reported in `errors` with the reason."""
        for i in sorted(failed):
            if step.valid[i] and not bad[i]:
                errors.append(self._report(int(step.rows[i]), f": {failed[i]}", failed[i]))
            bad[i] = True

    def _name_frame(
        self, row: int, frames: NDArray[np.int64], picture: int, pictures: int, reason: str
    ) -> str:
        """Say which frame `frames` [K, T] a picture of a sample shows: crops of a clip show the same frames."""
        if self.layout.columns.height[row] == 0:
            return _DAMAGED
        clips, length = frames.shape
        frame = frames[picture * clips // pictures, picture % length]
        return f"frame {frame}: {reason}"

    def _describe(self, status: int, row: int, picture: PictureColumns) -> str:
        """Say why an image was not rendered."""
        if status == Status.CHANGED:
            return self.layout.describe_changed(row)
        if status == Status.OTHER_SIZE:
            width, height = picture.width[row], picture.height[row]
            return f"it is not of {width} x {height} pixels, as the first frame of its video"
        if status == Status.BAD_BOX:
            width, height = picture.width[row], picture.height[row]
            return (
                f"{width} x {height} pixels are too few, or too long and thin, for this transform"
            )
        return status_message(status) if status else _DAMAGED

    def report(self, row: int, reason: str) -> tuple[str, str]:
        """Raise, or return with its key, why the image of a row does not decode or is absent."""
        image = self.layout.columns.image
        absent = None if image.size[row] else self.table.describe_absence(row)
        if absent is not None:
            return self._report(row, f" {absent}", absent)
        return self._report(row, f" at byte {image.offset[row]}: {reason}", reason)

    def _report(self, row: int, what: str, reason: str) -> tuple[str, str]:
        """Raise what is wrong with a row, or return its key and the reason."""
        key = self.table.name_row(row)
        if self.on_error == "raise":
            raise DecodeError(
                f"{key!r} in {self.layout.path_of(row)}{what}; "
                "give on_error='skip' or 'substitute' to continue without it"
            )
        return key, reason


def choose_rows(bad: NDArray[np.bool_], on_error: OnError) -> NDArray[np.int64] | None:
    """Return which entries make up the batch, or None for all. With `raise` there are no bad ones.

    A batch without a good sample keeps one, or all with `substitute`, since all ranks must make the
    same number of steps. The caller marks them as invalid.
    """
    if not bad.any():
        return None
    good = np.flatnonzero(~bad)
    if not len(good):
        return np.arange(1 if on_error == "skip" else len(bad))
    if on_error == "skip":
        return good
    places = np.searchsorted(good, np.arange(len(bad)))
    return np.where(bad, good[places % len(good)], np.arange(len(bad)))


def take_rows(values: Any, kept: NDArray[np.int64] | None) -> Any:
    """Return the chosen entries of an array or a list; all of them, or None, as they are."""
    if kept is None or values is None:
        return values
    return values[kept] if isinstance(values, np.ndarray) else [values[i] for i in kept]
