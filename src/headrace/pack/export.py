"""Writing samples back into the layouts of others, so that nobody is locked in.

  folder      an image folder: a directory per class; videos as 20BN has them, a folder of frames each
  gulp        a GulpIO directory of videos or images, which must be JPEGs
  lmdb        an LMDB file of tensorpack's: [bytes of the image, label], pickled
  webdataset  plain tars

Encoded bytes go out as they are, in the order of the samples. What is written appears under its name
when it is whole; a name that is taken is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import index
from pathlib import Path

from headrace.pack.durable import as_pack_error, new_place
from headrace.pack.outgoing import Classes
from headrace.pack.to_folder import write_folder
from headrace.pack.to_gulp import write_gulp
from headrace.pack.to_lmdb import write_lmdb
from headrace.pack.to_webdataset import write_webdataset
from headrace.sample import Sample

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
    """Writes samples to the new folder, or file, `out` in the layout `to`; how many there were.

    dataset = open_dataset("shards/train")
    export_samples(dataset, "train.lmdb", to="lmdb", classes=dataset.classes)
    """
    if to not in EXPORTS:
        raise ValueError(f"to is {to!r}; it must be one of {', '.join(EXPORTS)}")
    with as_pack_error("exporting", "nothing was written"), new_place(Path(out)) as place:
        return EXPORTS[to](map(_with_own_label, samples), place, classes)


def _with_own_label(sample: Sample) -> Sample:
    """The sample with Python's own integer as its label: NumPy's have no JSON."""
    return sample if sample.label is None else replace(sample, label=index(sample.label))
