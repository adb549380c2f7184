"""Read the values of a batch that are not images and follow none: labels, columns, text and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DecodeError
from headrace.kinds import Text
from headrace.plan import StepPlan
from headrace.read.columns import ABSENT, NO_LABEL, Columns
from headrace.read.table import Table
from headrace.serve.bad_samples import take_rows
from headrace.serve.pictures import LABEL
from headrace.serve.step_bytes import StepBytes


@dataclass(frozen=True, eq=False)
class ColumnReader:
    """Reads the columns and fields of steps.

    Args:
        columns: All samples.
        table: Where they come from.
        filler_label: Label of entries that only fill up a batch; None for the label of their sample.
    """

    columns: Columns
    table: Table
    filler_label: int | None

    def read(
        self, name: str, step: StepPlan, data: StepBytes, kept: NDArray[np.int64] | None
    ) -> Any:
        """Return the values of a column or field for the samples of a step.

        Args:
            name: Its name among the fields.
            step: The samples that make up the batch.
            data: The bytes of all samples of the step.
            kept: Which of these make up the batch; None for all.
        """
        if name == LABEL:
            return self._read_labels(step)
        if name in self.columns.numbers:
            return self.columns.numbers[name][step.rows]
        if name in self.columns.user:
            column = self.columns.user[name]
            return [column[int(row)].as_py() for row in step.rows]
        return take_rows(self._read_field(name, data), kept)

    def _read_field(self, name: str, data: StepBytes) -> list[Any]:
        """Return the text or the bytes of a field, None for samples that lack it."""
        ranges = self.columns.fields[name]
        is_text = isinstance(self.columns.requested.kinds.get(name), Text)
        offsets, items = (
            ranges.offset[data.rows].tolist(),
            list(map(bytes, data.gather_field(ranges))),
        )
        return [
            None if offset == ABSENT else self._decode(name, row, item) if is_text else item
            for offset, row, item in zip(offsets, data.rows.tolist(), items, strict=True)
        ]

    def _decode(self, name: str, row: int, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise DecodeError(
                f"{name} of {self.table.name_row(row)!r} is not UTF-8: {error}; kinds={{{name!r}: None}} gives its bytes"
            ) from None

    def _read_labels(self, step: StepPlan) -> NDArray[np.int64]:
        labels = self.columns.label[step.rows]
        missing = np.flatnonzero(labels == NO_LABEL)
        if len(missing):
            raise ValueError(self._describe_unlabelled(int(step.rows[missing[0]])))
        return (
            labels if self.filler_label is None else np.where(step.valid, labels, self.filler_label)
        )

    def _describe_unlabelled(self, row: int) -> str:
        message = f"{self.table.name_row(row)!r} has no label: leave 'label' out of fields"
        if columns := self.table.list_columns(row):
            message += f", or ask for a column in its place: it has {', '.join(columns)}"
        return message
