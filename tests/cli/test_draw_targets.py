"""Contact sheets show masks, boxes and points where they are on their images."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import headrace
from formats.making import write_tar
from formats.making_pairs import VOC, write_mask, write_pairs, write_voc
from headrace import kinds
from headrace.cli.app import app
from headrace.cli.draw_targets import choose_pictures, draw_targets, make_palette
from headrace.formats.codecs.arrays import encode_npy
from headrace.sample import Sample
from images import encode

GREY = Image.new("RGB", (40, 20), (100, 100, 100))
PHOTO = encode(40, 80)


def save(labels: np.ndarray, mode: str = "L") -> bytes:
    out, image = io.BytesIO(), Image.fromarray(labels)
    if mode == "P":
        image.putpalette(list(range(256)) * 3)
    image.save(out, "PNG")
    return out.getvalue()


def draw(kind: kinds.Kind, data: bytes = b"", name: str = "t.npy", **columns: Any) -> np.ndarray:
    """Draw a target of a photo of 80 x 40 pixels over a picture of half its size."""
    fields = {"jpg": PHOTO, name: data} if data else {"jpg": PHOTO}
    found: dict[str, kinds.Kind | None] = {"jpg": kinds.Image(), name: kind}
    sample = Sample("k", fields, columns=columns)
    return np.asarray(draw_targets(GREY.copy(), "jpg", (80, 40), sample, found, ["ant", "bee"]))


@pytest.mark.parametrize("mode", ["L", "P", "npy"])
def test_a_mask_is_mixed_into_its_image_but_for_the_fill(mode: str) -> None:
    labels = np.zeros((40, 80), np.uint8)
    labels[:, 20:], labels[:, 60:] = 3, 255
    data = encode_npy(labels.astype(np.int64)) if mode == "npy" else save(labels, mode)
    drawn, palette = draw(kinds.Mask(), data, "m.png"), make_palette()
    assert (drawn[:, :10] == 50).all()
    assert (drawn[:, 10:30] == (100 + palette[3].astype(int)) // 2).all()
    assert (drawn[:, 30:] == 100).all()


def test_the_palette_has_a_colour_of_its_own_for_each_label() -> None:
    assert len(np.unique(make_palette(), axis=0)) > 200
    assert make_palette()[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("format", "box"),
    [("xyxy", [20, 8, 60, 32]), ("xywh", [20, 8, 40, 24]), ("cxcywh", [40, 20, 40, 24])],
)
@pytest.mark.parametrize("is_column", [True, False])
def test_boxes_are_outlines_in_their_place(
    format: kinds.BoxFormat, box: list[float], is_column: bool
) -> None:
    kind = kinds.Boxes(format=format)
    if is_column:
        changed = (draw(kind, name="boxes", boxes=[box]) != 100).any(2)
    else:
        changed = (draw(kind, encode_npy(np.array([box], np.float32))) != 100).any(2)
    expected = np.zeros((20, 40), bool)
    expected[4:17, 10:31] = True
    expected[5:16, 11:30] = False
    assert (changed == expected).all()


def test_a_class_is_named_in_a_box_that_has_the_room() -> None:
    kind = kinds.Boxes(columns=("labels",))
    wide = draw(kind, name="boxes", boxes=[[4, 2, 76, 38]], labels=[1])
    narrow = draw(kind, name="boxes", boxes=[[4, 2, 20, 38]], labels=[1])
    assert (wide > 180).all(2).any()
    assert not (narrow > 180).all(2).any()


def test_boxes_that_are_something_else_are_left_out() -> None:
    for value in ([], [[1, 2]], [[1, 2, 3, 4], [1]], None, "text"):
        drawn = draw(kinds.Boxes(), name="boxes", boxes=value)
        assert (drawn == 100).all()


def test_points_are_dots_in_their_place_and_dense_grids_are_thinned() -> None:
    dots = (draw(kinds.Points(), encode_npy(np.array([[40.0, 20.0], [np.nan, 1]]))) != 100).any(2)
    rows, columns = np.nonzero(dots)
    assert (rows.mean(), columns.mean()) == (10, 20)
    y, x = np.mgrid[0:40:61j, 0:80:61j]
    dense = (draw(kinds.Points(), encode_npy(np.stack([x, y], 2))) != 100).any(2)
    assert 0.1 < dense.mean() < 0.6


def test_the_picture_and_the_images_that_have_targets_are_drawn() -> None:
    image, points = kinds.Image(), kinds.Points("b")
    sample = Sample("k", dict.fromkeys(["jpg", "a.npy", "b.npy", "b.label.npy"], b""))
    found: dict[str, kinds.Kind | None] = {"jpg": image, "a.npy": image, "b.npy": image}
    assert choose_pictures(sample, found) == ["jpg"]
    assert choose_pictures(sample, {**found, "b.label.npy": points}) == ["jpg", "b.npy"]
    del found["jpg"]
    assert choose_pictures(sample, found) == ["a.npy", "b.npy"]


def show(path: Path, out: Path) -> np.ndarray:
    result = CliRunner().invoke(app, ["show", str(path), "-o", str(out), "--size", "64", "--force"])
    assert result.exit_code == 0, result.output
    return np.asarray(Image.open(out))


def test_sheets_of_a_source_and_of_its_pack_are_the_same(tmp_path: Path) -> None:
    pairs, voc = write_pairs(tmp_path / "pairs"), write_voc(tmp_path / "voc", VOC)
    for root in (pairs, voc):
        out = tmp_path / f"{root.name}-packed"
        headrace.pack_dataset(root, out, order="source")
        sheet = show(root, tmp_path / "a.png")
        np.testing.assert_array_equal(show(out, tmp_path / "b.png"), sheet)
    write_mask(pairs / "masks/p0.png").write_bytes(b"damaged")
    assert show(pairs, tmp_path / "c.png").shape


def test_documents_have_their_images_side_by_side(shared: Path, tmp_path: Path) -> None:
    sheet = show(shared / "fixtures/unified-doc", tmp_path / "a.png")
    assert sheet.shape[1] % (4 * 64) == 0


def test_a_mask_does_not_take_the_place_of_its_image(tmp_path: Path) -> None:
    mask = save(np.full((16, 16), 255, np.uint8))  # nothing but the fill
    members = {"0.annotation.png": mask, "0.image.jpg": encode(16, 16, seed=1)}
    sheets = []
    for some in (["0.image.jpg"], list(members)):
        tar = write_tar(tmp_path / "a.tar", {name: members[name] for name in some})
        sheets.append(show(tar, tmp_path / "a.png"))
    np.testing.assert_array_equal(*sheets)
