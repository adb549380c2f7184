"""Labels that are text, as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.errors import SourceError


def list_classes(path: object, labels: Iterable[str | None]) -> list[str]:
    """Return the sorted class names; a label is an index into this list. An empty text means no label."""
    classes = sorted({label for label in labels if label})
    for name in classes:
        if name != name.strip():  # ' 2' among numbers would make names of all of them
            raise SourceError(
                f"{path}: the label {name!r} has leading or trailing spaces; remove them"
            )
    return classes


def number_names(path: object, labels: Sequence[str | None]) -> tuple[list[int | None], list[str]]:
    """Return the number of each label, and the class names."""
    classes = list_classes(path, labels)
    number = {name: label for label, name in enumerate(classes)}
    return [number.get(label or "") for label in labels], classes
