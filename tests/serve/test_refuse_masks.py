"""Images that are not photos: masks are refused, and 16 bits per pixel are not lost silently."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import headrace
from formats.making import write_tar
from headrace import Loader
from headrace.transforms import Resize
from images import encode, encode_deep


def make_dataset(folder: Path, fields: dict[str, bytes]) -> headrace.Dataset:
    """A dataset of one sample with these fields."""
    folder.mkdir(parents=True, exist_ok=True)
    members = {f"0.{name}": data for name, data in fields.items()}
    write_tar(folder / "a.tar", {**members, "0.cls": b"1"})
    headrace.index_dataset(folder)
    return headrace.open_dataset(folder)


def encode_mode(mode: str) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.eye(8, dtype=np.uint8)).convert(mode).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("name", ["mask.png", "seg.png", "left_labelIds.png", "gt.a.png"])
def test_a_mask_by_name_is_refused_as_an_image_and_given_as_bytes(
    tmp_path: Path, name: str
) -> None:
    data = encode(8, 8, format="PNG")
    field = name.lower()
    dataset = make_dataset(tmp_path, {"jpg": encode(8, 8), name: data})
    with pytest.raises(ValueError, match=rf"{field} cannot be loaded .* mask .*fields=\('image'"):
        Loader(dataset.choose_image(field), 1, transform=[Resize((4, 4))])
    (batch,) = Loader(dataset, 1, transform=[Resize((4, 4))], fields=("image", field))
    assert batch[0].shape == (1, 4, 4, 3) and batch[1] == [data]


def test_a_mask_that_is_the_only_image_is_refused(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path, {"mask.png": encode(8, 8, format="PNG")})
    with pytest.raises(ValueError, match="its name says 'mask'"):
        Loader(dataset, 1)
    with pytest.raises(ValueError, match="its name says 'mask'"):
        Loader(headrace.Mixture([dataset], [1]), 1)
    with pytest.raises(ValueError, match=r"bytes with fields=\('mask.png', ...\)"):
        Loader(dataset, 1)
    assert len(list(Loader(dataset, 1, fields=("mask.png",)))) == 1


def test_a_jpeg_is_never_a_mask_whatever_its_name(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path, {"gt.jpg": encode(8, 10), "lq.jpg": encode(8, 8)})
    ((images, _),) = Loader(dataset.choose_image("gt.jpg"), 1)
    assert images.shape == (1, 8, 10, 3)
    with pytest.raises(ValueError, match="has several images"):
        Loader(dataset, 1)


def test_a_mask_is_not_taken_for_the_picture_beside_another_image(tmp_path: Path) -> None:
    dataset = make_dataset(
        tmp_path, {"rgb.jpg": encode(8, 10), "mask.png": encode(8, 10, format="PNG")}
    )
    ((images, _),) = Loader(dataset, 1)
    assert images.shape == (1, 8, 10, 3)


@pytest.mark.parametrize("mode", ["P", "1"])
def test_a_mask_by_mode_is_refused_if_it_was_chosen_beside_a_picture(
    tmp_path: Path, mode: str
) -> None:
    dataset = make_dataset(tmp_path, {"jpg": encode(8, 8), "other.png": encode_mode(mode)})
    with pytest.raises(ValueError, match="its pixels are numbers"):
        Loader(dataset.choose_image("other.png"), 1)
    alone = make_dataset(tmp_path / "alone", {"png": encode_mode(mode)})
    assert len(list(Loader(alone, 1))) == 1, "pictures may have a palette"


def test_a_mode_is_that_of_the_first_image_that_can_be_read(tmp_path: Path) -> None:
    members = {f"{i}.jpg": encode(8, 8) for i in range(4)}
    members["0.thumb.png"] = b"no image"
    members |= {f"{i}.thumb.png": encode(8, 8, format="PNG") for i in (1, 2)}
    write_tar(tmp_path / "a.tar", dict(sorted(members.items())))
    headrace.index_dataset(tmp_path)
    dataset = headrace.open_dataset(tmp_path).choose_image("thumb.png")
    tar = bytearray((tmp_path / "a.tar").read_bytes())
    row = dataset.index.to_pylist()[1]
    tar[row["jpg.offset"] + 9] ^= 1  # of no concern
    tar[row["thumb.png.offset"] + 9] ^= 1
    (tmp_path / "a.tar").write_bytes(tar)
    loader = Loader(dataset, 4, fields=("image",), on_error="skip")
    assert [batch.rows.tolist() for batch in loader] == [[2]]


LEVELS = np.arange(64).reshape(8, 8) * 1040


def test_16_bits_are_warned_of_once_and_scaled_on_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = make_dataset(tmp_path, {"png": encode_deep(LEVELS)})
    with caplog.at_level(logging.WARNING, "headrace"):
        loader = Loader(dataset, 1)
        (clipped, _), (again, _) = *loader, *loader
    assert caplog.text.count("1 image has 16 bits per pixel") == 1
    caplog.clear()
    Loader(dataset[:0], 1)
    assert not caplog.records, "none is wanted"
    assert np.array_equal(clipped[0, :, :, 0], LEVELS.clip(0, 255))
    assert np.array_equal(clipped, again)
    caplog.clear()
    ((scaled, _),) = Loader(dataset, 1, depth16="scale")
    ((in_python, _),) = Loader(dataset, 1, depth16="scale", transform=[np.asarray], num_workers=0)
    assert np.array_equal(scaled[0, :, :, 0], np.round(LEVELS / 257))
    assert np.array_equal(in_python, scaled) and not caplog.records


def test_16_bits_in_a_field_that_is_not_rendered_cause_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = make_dataset(tmp_path, {"jpg": encode(8, 8), "depth.png": encode_deep(LEVELS)})
    Loader(dataset, 1, fields=("image", "depth.png"))
    assert not caplog.records
