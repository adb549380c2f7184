"""Labels by given class names, so that a validation set has the same labels as its training set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headrace.errors import SourceError
from headrace.files.limits import blame_file, read_file
from headrace.sample import Sample
from headrace.store.manifest import read_manifest

_SHOWN = 5


def read_classes(path: Path) -> list[str]:
    """Return the class names of a dataset, or the lines of a text file. SourceError if there are none."""
    if path.is_dir():
        classes = list(read_manifest(path).classes or ())
    else:
        try:
            with blame_file(path):
                classes = read_file(path).decode("utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{path}: not a UTF-8 text file with one class per line: {error}"
            ) from None
    if not classes:
        raise SourceError(f"{path}: has no class names")
    return classes


def check_classes(classes: Sequence[str]) -> None:
    """Raise ValueError unless the classes are names, each of them once."""
    for name, count in Counter(classes).items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"classes: {name!r} is not a name")
        if count > 1:
            raise ValueError(f"classes: {name!r} occurs {count} times; list each class once")


def number_classes(names: Sequence[str] | None, classes: Sequence[str]) -> list[int]:
    """Return the index of each of a source's `names` in `classes`. SourceError if one is missing."""
    if names is None:
        raise SourceError(
            "classes are given, but the labels of this source are numbers without names"
        )
    numbers = {name: number for number, name in enumerate(classes)}
    if missing := [name for name in names if name not in numbers]:
        shown = ", ".join(map(repr, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
        raise SourceError(
            f"{len(missing)} of the source's {len(names)} classes are not among those given: {shown}"
        )
    return [numbers[name] for name in names]


def renumber_sample(sample: Sample, numbers: Sequence[int]) -> Sample:
    """Return the sample with its new label; `cls`, in a sample that was packed before, is rebuilt.

    A sample without a label may have `labels`, the classes of its boxes, in a column.
    """
    if sample.label is None:
        labels = sample.columns.get("labels")
        return _renumber_boxes(sample, labels, numbers) if isinstance(labels, list) else sample
    if not 0 <= sample.label < len(numbers):
        raise SourceError(f"has the label {sample.label}, but there are {len(numbers)} classes")
    fields = {name: data for name, data in sample.fields.items() if name != "cls"}
    return replace(sample, fields=fields, label=numbers[sample.label])


def _renumber_boxes(sample: Sample, labels: list[int], numbers: Sequence[int]) -> Sample:
    if wrong := [label for label in labels if label not in range(len(numbers))]:
        raise SourceError(
            f"has a box of label {wrong[0]!r:.40}, but there are {len(numbers)} classes"
        )
    columns = {**sample.columns, "labels": [numbers[label] for label in labels]}
    return replace(sample, columns=columns)
