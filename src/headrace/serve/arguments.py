"""Checks of what a loader is given, before anything is read."""

from __future__ import annotations

import os
from collections.abc import Sequence

from headrace.pack.checks import read_whole
from headrace.read.dataset import Dataset
from headrace.read.opening import open_dataset
from headrace.serve.python_steps import Collate
from headrace.serve.renderer import IMAGE
from headrace.serve.sampling import Mixture
from headrace.serve.substitution import OnError


def open_source(
    source: str | os.PathLike[str] | Dataset | Mixture, on_error: OnError
) -> Dataset | Mixture:
    """Return the dataset at a path, or what was opened already."""
    if isinstance(source, (str, os.PathLike)):
        return open_dataset(source, on_error="raise" if on_error == "raise" else "skip")
    if isinstance(source, (Dataset, Mixture)):
        return source
    root = getattr(source, "root", None)
    raise TypeError(
        f"a {type(source).__name__} cannot be loaded; give the path of an image folder or of a packed dataset, a Dataset "
        f"or a Mixture{'' if root is None else f': here {os.fspath(root)!r}, it seems'}"
    )


def check_fields(fields: Sequence[str], collate_fn: Collate | None) -> None:
    """Raise if `fields` is not a tuple of names, or has no image for `collate_fn`."""
    if isinstance(fields, str):
        raise TypeError(f"fields is {fields!r}; give a tuple of names: ({fields!r},)")
    if collate_fn is not None and IMAGE not in fields:
        raise ValueError(f"collate_fn is for samples with images; fields has none: {fields!r}")


def check_choices(
    on_error: str, prefetch: int, threads: int | None, num_workers: int | None
) -> None:
    """Raise if one of these options is out of range."""
    if on_error not in ("raise", "skip", "substitute"):
        raise ValueError(f"on_error is {on_error!r}; give 'raise', 'skip' or 'substitute'")
    if read_whole("prefetch", prefetch) < 1:
        raise ValueError(f"prefetch is {prefetch}; it must be at least 1")
    if threads is not None and read_whole("threads", threads) < 1:
        raise ValueError(f"threads is {threads}; it must be at least 1")
    if num_workers is not None and read_whole("num_workers", num_workers) < 0:
        raise ValueError(f"num_workers is {num_workers}; it must be 0 or more")
