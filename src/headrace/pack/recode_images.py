"""Rewrites JPEGs of slow kinds as baseline JPEGs on request, without loss, before they are packed."""

from __future__ import annotations

from dataclasses import replace

from headrace import _core
from headrace.errors import SourceError
from headrace.image_header import RECODABLE, read_header
from headrace.sample import Sample, is_image_field


def recode_sample(sample: Sample) -> Sample:
    """Return the sample with its progressive, arithmetic and non-interleaved JPEGs as baseline JPEGs.

    `recoded` of the sample says which kind they had. An image that cannot be recoded keeps its bytes.
    """
    found = {n: recode_image(data) for n, data in sample.items() if is_image_field(n)}
    recoded = {name: result for name, result in found.items() if result is not None}
    if not recoded:
        return sample
    return replace(
        sample,
        fields={**sample.fields, **{name: data for name, (_, data) in recoded.items()}},
        recoded={**sample.recoded, **{name: kind for name, (kind, _) in recoded.items()}},
    )


def recode_image(data: bytes) -> tuple[str, bytes] | None:
    """Return the kind of an image and its bytes as a baseline JPEG; None if it stays as it is.

    The new JPEG has the same quantised coefficients, the same size and sampling, and all application segments and
    comments. What is damaged, has four components, or points to other places of the file stays as it is.
    """
    try:
        kind = read_header(data).kind
    except SourceError:
        return None  # whoever describes the image says what is wrong with it
    if kind not in RECODABLE:
        return None
    _, recoded = _core.recode_jpeg(data)
    return None if recoded is None else (kind, recoded)
