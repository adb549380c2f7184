"""Refuse masks as images: resizing mixes neighbouring pixels, and so the numbers of classes."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image

from headrace.errors import CorruptError, SourceError
from headrace.image_header import blame_image
from headrace.read.dataset import Dataset
from headrace.read.table import find_pictures
from headrace.sample import find_mask_word, is_image_field, picture_fields
from headrace.serve.sampling import Mixture
from headrace.store.index_schema import DAMAGED

_TRIED = 8
_MODES = {"1": "one bit per pixel", "P": "a palette", "PA": "a palette"}


def check_no_masks(source: Dataset | Mixture) -> None:
    """Raise ValueError if the image of a dataset is a mask, by its field's name or by its mode.

    The mode is read from one sample. It counts only for a field that was chosen although there is another image:
    photos may have a palette as well.
    """
    for dataset in source.datasets if isinstance(source, Mixture) else [source]:
        images = [name for name in dataset.fields if is_image_field(name)]
        for field in find_pictures(dataset, images):
            word = find_mask_word(field)
            reason = None if word is None else f"its name says {word!r}"
            if reason is None and field not in picture_fields(images):
                reason = _find_mode(dataset, field)
            if reason is not None:
                raise ValueError(_explain(dataset, field, reason, images))


def _find_mode(dataset: Dataset, field: str) -> str | None:
    """Return why the mode of a field's images says that they are masks, or None.

    The first image that can be read decides.
    """
    kinds = dataset.index[f"{field}.kind"].to_pylist()
    rows = [i for i, kind in enumerate(kinds) if kind not in (None, DAMAGED)][:_TRIED]
    for i in rows:
        row = i if dataset.rows is None else int(dataset.rows[i])
        try:
            data = dataset.read_field(row, field)
            with blame_image("does not decode"), Image.open(io.BytesIO(data)) as image:
                mode = _MODES.get(image.mode)
        except (CorruptError, SourceError):
            continue
        return None if mode is None else f"its pixels are numbers: it has {mode}"
    return None


def _explain(dataset: Dataset, field: str, reason: str, images: Sequence[str]) -> str:
    others = [name for name in images if find_mask_word(name) is None and name != field]
    advice = f"load its bytes with fields=({field!r}, ...)"
    if others:
        advice = f"choose one of {others} with choose_image, and load it beside that with fields=('image', 'mask')"
    return (
        f"{dataset.origin}: {field} cannot be loaded as an image, since it is a mask ({reason}) and resizing would mix its "
        f"values; {advice}"
    )
