"""Exports samples into the layouts of other libraries.

  folder      an image folder: a directory per class; videos as 20BN has them, a folder of frames each
  gulp        a GulpIO directory of videos or images, which must be JPEGs
  lmdb        an LMDB file of tensorpack's: [bytes of the image, label], pickled
  webdataset  plain tars

Encoded bytes are copied unchanged, in the order of the samples. The output appears under its name
when it is complete; an existing name is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import index
from pathlib import Path

from headrace.arguments import check_choice
from headrace.pack.export.fields import Classes
from headrace.pack.export.to_folder import write_folder
from headrace.pack.export.to_gulp import write_gulp
from headrace.pack.export.to_lmdb import write_lmdb
from headrace.pack.export.to_webdataset import write_webdataset
from headrace.sample import Sample
from headrace.store.durable import as_pack_error, new_place

EXPORTS: dict[str, Callable[[Iterable[Sample], Path, Classes], int]] = {
    "folder": write_folder,
    "gulp": write_gulp,
    "lmdb": write_lmdb,
    "webdataset": write_webdataset,
}
"""How each layout is written, by the name that `--to` takes."""


def export_samples(
    samples: Iterable[Sample],
    out: str | os.PathLike[str],
    *,
    to: str,
    classes: Sequence[str] | None = None,
) -> int:
    """Write samples in the layout of another library.

        dataset = open_dataset("shards/train")
        export_samples(dataset, "train.lmdb", to="lmdb", classes=dataset.classes)

    Args:
        samples: The samples, written in this order.
        out: The new folder or file.
        to: The layout: folder, gulp, lmdb or webdataset.
        classes: Class names. Default: labels are written as numbers.

    Returns:
        The number of samples.

    Raises:
        PackError: The layout cannot hold a sample, or `out` exists.
    """
    check_choice("to", to, tuple(EXPORTS))
    with as_pack_error("exporting", "nothing was written"), new_place(Path(out)) as place:
        return EXPORTS[to](map(_with_own_label, samples), place, classes)


def _with_own_label(sample: Sample) -> Sample:
    """Return the sample with a Python integer as its label: NumPy's cannot be written as JSON."""
    return sample if sample.label is None else replace(sample, label=index(sample.label))
