"""What the verbs say of classes."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.formats.names import printable
from headrace.pack.index import LABEL
from headrace.read.dataset import Dataset

_SHOWN = 8


def describe_classes(dataset: Dataset) -> str:
    """The names of its classes, or why there are none."""
    if dataset.classes is None and dataset.index[LABEL].null_count == len(dataset):
        return "none: the samples are unlabelled"
    return format_classes(dataset.classes)


def format_classes(classes: Sequence[str] | None) -> str:
    """`2: cat, dog`."""
    if classes is None:
        return "not named"
    shown = ", ".join(map(printable, classes[:_SHOWN]))
    return f"{len(classes)}: {shown}" + (", ..." if len(classes) > _SHOWN else "")
