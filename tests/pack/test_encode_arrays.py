"""Decoded arrays are packed as they are, or encoded on request."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from headrace import Encode, Sample, open_dataset, open_source, pack_dataset
from headrace.errors import SourceError
from headrace.pack.encode_arrays import encode_sample
from images import make_pixels


def load(data: bytes) -> np.ndarray:
    return np.load(io.BytesIO(data), allow_pickle=False)


def test_pixels_become_lossless_png_and_other_arrays_are_kept(shared: Path, tmp_path: Path) -> None:
    path = shared / "fixtures/unified-doc"
    pack_dataset(path, tmp_path / "p", order="source", encode=Encode("png"))
    dataset = open_dataset(tmp_path / "p")
    assert list(dataset.fields) == [
        "d1.label.npy", "d1.png", "d2.label.npy", "d2.png", "di.png", "w1.png",
    ]  # fmt: skip
    sample, source = dataset[0], open_source(path).read(0)
    with Image.open(io.BytesIO(sample["d1.png"])) as image:
        assert np.array_equal(np.asarray(image)[:, :, ::-1], load(source["d1.npy"])), "BGR to RGB"
    assert sample["d1.label.npy"] == source["d1.label.npy"]


def test_arrays_are_stored_as_npy_by_default(shared: Path, tmp_path: Path) -> None:
    pack_dataset(shared / "fixtures/tensorpack-arrays/odd.lmdb", tmp_path / "p", order="source")
    assert list(open_dataset(tmp_path / "p").fields) == ["cls", "json", "npy"]


def test_jpegs_of_low_quality_are_smaller() -> None:
    out = io.BytesIO()
    np.save(out, make_pixels(200, 300))
    sample = Sample("a", {"npy": out.getvalue()})
    low, high = (encode_sample(sample, Encode("jpg", quality=quality)) for quality in (10, 90))
    assert len(low["jpg"]) < len(high["jpg"]) / 2


def test_an_image_of_the_same_name_is_not_overwritten() -> None:
    out = io.BytesIO()
    np.save(out, make_pixels(20, 30))
    for fields in (
        {"png": b"photo", "npy": out.getvalue()},
        {"npy": out.getvalue(), "png": b"photo"},
    ):
        with pytest.raises(SourceError, match="its npy would become png, which it has already"):
            encode_sample(Sample("a", fields), Encode("png"))


def test_wrong_options_are_refused() -> None:
    for options in ({"kind": "gif"}, {"channels": "xyz"}, {"quality": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            Encode(**options)
