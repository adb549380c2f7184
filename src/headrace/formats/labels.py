"""Class names from labels that are text."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import SourceError


def list_classes(path: object, labels: Iterable[str | None]) -> list[str]:
    """The names in sorted order, a class being its place among them; an empty text is no label, as None is."""
    classes = sorted({label for label in labels if label})
    for name in classes:
        if name != name.strip():  # ' 2' among numbers would make names of all of them
            raise SourceError(f"{path}: the label {name!r} has spaces around it; take them out")
    return classes
