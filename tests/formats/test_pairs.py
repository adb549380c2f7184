"""Images and masks of equal stems in folders are pairs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import headrace
from formats.making_pairs import write_mask, write_pairs, write_photo
from headrace.cli.app import app
from headrace.errors import PackError, SourceError
from headrace.formats.detect import detect, open_source
from headrace.formats.field_files import read_field_options
from headrace.kinds import Image, Mask
from images import encode
from trees import file_bytes, untar, write_images


@pytest.mark.parametrize(
    ("images", "masks"),
    [
        ("images", "masks"),
        ("img", "gt"),
        ("image", "labels"),
        ("JPEGImages", "SegmentationClass"),
        ("train", "trainannot"),
        ("images", "annotations"),
        ("rgb", "train_masks"),
        ("leftImg8bit/train/aachen", "gtFine/train/aachen"),
    ],
)
def test_a_folder_of_photos_and_a_folder_of_masks_are_pairs(
    tmp_path: Path, images: str, masks: str
) -> None:
    root = write_pairs(tmp_path, images, masks)
    assert detect(root).name == "pairs"
    source = open_source(root)
    below = "/".join(images.split("/")[1:] + [""]) if "/" in images else ""
    assert [source.read(i).key for i in range(5)] == [f"{below}p{i}" for i in range(5)]
    assert set(source.read(0)) == {"jpg", "mask.png"}
    assert source.read(1)["mask.png"] == (root / masks / "p1.png").read_bytes()


def test_several_folders_of_masks_and_depths_are_fields_of_their_own(tmp_path: Path) -> None:
    root = write_pairs(tmp_path, "JPEGImages", "SegmentationClass")
    write_pairs(root, "JPEGImages", "SegmentationObject")
    write_pairs(root, "JPEGImages", "depth")
    assert set(open_source(root).read(0)) == {"jpg", "mask.png", "instance.png", "depth.png"}


@pytest.mark.parametrize(
    "names",
    [
        ("with_mask/0.jpg", "without_mask/0.jpg"),
        ("mask/0.jpg", "no_mask/0.jpg", "incorrect/0.jpg"),
        ("cat/0.png", "label/0.png"),
    ],
)
def test_classes_that_are_called_masks_are_classes(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert detect(write_images(tmp_path, *names)).name == "folder"


def test_several_folders_of_photos_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    root = write_pairs(write_pairs(tmp_path, "train", "trainannot"), "test", "testannot")
    with pytest.raises(SourceError, match=r"several folders of photos \(test, train\)") as caught:
        detect(root)
    assert "--field image=test/ --field mask=testannot/" in str(caught.value)
    source = open_source(root, fields={"image": "train/", "mask": "trainannot/"})
    assert source.names[0] == "train/p0.jpg" and len(source.names) == 5


def test_splits_below_are_not_merged(tmp_path: Path) -> None:
    root = write_pairs(tmp_path, "images/training", "annotations/training")
    write_pairs(root, "images/validation", "annotations/validation")
    with pytest.raises(SourceError, match="several splits .*image=images/training/"):
        open_source(root)
    fields = {"image": "images/validation/", "mask": "annotations/validation/"}
    assert open_source(root, fields=fields).read(0).key == "p0"


def test_other_folders_of_images_beside_pairs_are_doubtful(tmp_path: Path) -> None:
    write_photo(write_pairs(tmp_path) / "drawings/0.jpg")
    with pytest.raises(SourceError, match="images in drawings beside pairs"):
        detect(tmp_path)
    assert open_source(tmp_path, format="folder").classes == ["drawings", "images", "masks"]


def test_a_stem_without_its_partner_is_rejected_by_name(tmp_path: Path) -> None:
    root = write_pairs(tmp_path / "in")
    (root / "masks/p1.png").unlink()
    (root / "images/p3.jpg").unlink()
    with pytest.raises(PackError, match="no mask for 'p1'") as caught:
        headrace.pack_dataset(root, tmp_path / "out")
    assert "no image for 'p3'" in str(caught.value)
    summary = headrace.pack_dataset(root, tmp_path / "out", on_error="skip")
    assert summary.samples == 3
    assert {name for name, _ in summary.rejected} == {"images/p1.jpg", "masks/p3.png"}


def test_an_optional_field_may_be_missing(tmp_path: Path) -> None:
    root = write_pairs(tmp_path / "in")
    (root / "masks/p1.png").unlink()
    fields = {"image": "images", "mask?": "masks"}
    assert headrace.pack_dataset(root, tmp_path / "out", fields=fields).samples == 5
    assert set(open_source(root, fields=fields).read(1)) == {"jpg"}


def test_patterns_give_the_stems_of_cityscapes(tmp_path: Path) -> None:
    for i in range(3):
        place = tmp_path / "leftImg8bit/train/aachen"
        write_photo(place / f"a_{i:06}_leftImg8bit.png")
        for kind in ("labelIds", "instanceIds", "color"):
            write_mask(tmp_path / f"gtFine/train/aachen/a_{i:06}_gtFine_{kind}.png")
        (tmp_path / f"gtFine/train/aachen/a_{i:06}_gtFine_polygons.json").write_text("{}")
    fields = {
        "image": "leftImg8bit/*_leftImg8bit.png",
        "mask": "gtFine/*_gtFine_labelIds.png",
        "instance": "gtFine/*_gtFine_instanceIds.png",
    }
    source = open_source(tmp_path, fields=fields)
    assert source.read(0).key == "train/aachen/a_000000"
    assert set(source.read(0)) == {"png", "mask.png", "instance.png"}
    with pytest.raises(SourceError, match=r"share a stem|no mask has the stem"):
        open_source(tmp_path, fields={"image": "leftImg8bit", "mask": "gtFine/train"})


def test_the_command_takes_fields_and_shards_hold_the_files(tmp_path: Path) -> None:
    root = write_pairs(tmp_path / "in", "photos", "second", tail="_x")
    (root / "photos/p0.jpg").rename(root / "photos/p0.JPEG")
    args = ["pack", str(root), str(tmp_path / "out"), "--field", "mask=second/*_x.png"]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    assert headrace.open_dataset(tmp_path / "out").manifest.field_kinds == {
        "jpg": Image(),
        "mask.png": Mask(),
    }
    files = file_bytes(untar(tmp_path / "out", tmp_path / "files"))
    assert files["p0.JPEG"] == (root / "photos/p0.JPEG").read_bytes()
    assert files["p4.mask.png"] == (root / "second/p4_x.png").read_bytes()
    assert headrace.pack_dataset(root, tmp_path / "out", fields={"mask": "second/*_x.png"}).resumed
    for wrong in (["--field", "mask"], ["--field", "mask=a", "--field", "mask=b"]):
        assert CliRunner().invoke(app, ["info", str(root), *wrong]).exit_code == 2


def test_other_files_are_named_as_ignored(tmp_path: Path) -> None:
    root = write_pairs(tmp_path)
    (root / "ImageSets").mkdir()
    (root / "ImageSets/train.txt").write_text("p0\n")
    (root / "masks/readme.md").write_text("x")
    assert open_source(root).ignored == ["ImageSets/train.txt", "masks/readme.md"]


def test_files_that_share_a_stem_are_doubtful(tmp_path: Path) -> None:
    root = write_pairs(tmp_path)
    (root / "images/p0.png").write_bytes(encode(8, 8, format="PNG"))
    with pytest.raises(SourceError, match=r"p0\.jpg and images/p0\.png share a stem; .*image="):
        open_source(root)


def test_a_mask_that_changes_after_packing_is_noticed(tmp_path: Path) -> None:
    root = write_pairs(tmp_path / "in")
    headrace.pack_dataset(root, tmp_path / "out")
    state = (root / "masks/p2.png").stat()
    data = bytearray((root / "masks/p2.png").read_bytes())
    data[-20] ^= 1
    (root / "masks/p2.png").write_bytes(data)
    os.utime(root / "masks/p2.png", ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(PackError, match=r"images/p2\.jpg changed after it was packed"):
        headrace.pack_dataset(root, tmp_path / "out")


def test_pairs_cannot_be_indexed_in_place(tmp_path: Path) -> None:
    root = write_pairs(tmp_path / "in")
    with pytest.raises(SourceError, match=r"cannot be indexed in place; pack it instead"):
        headrace.index_dataset(root, out=tmp_path / "out")
    with pytest.raises(SourceError, match="pairs cannot be loaded as it is; `headrace pack` it"):
        headrace.open_dataset(root)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"image": "images", "mask": "../masks"}, "is not a folder below the source"),
        ({"image": "images", "mask": "/etc"}, "is not a folder below the source"),
        ({"image": "images", "mask": ""}, "is not a folder below the source"),
        ({"image": "images", "mask": "a*/b*.png"}, "with one \\*"),
        ({"image": "images", "mask": "*/b.png"}, "with one \\*"),
        ({"image": "images", "mask": "masks/*"}, "lacks the suffix"),
        ({"image": "images", "Mask": "masks"}, "not the name of a field"),
        ({"image": "images", "a/b": "masks"}, "not the name of a field"),
        ({"image?": "images", "mask": "masks"}, "cannot be optional"),
        ({"mask": "masks", "mask?": "masks"}, "given twice"),
    ],
)
def test_wrong_fields_are_refused(tmp_path: Path, fields: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        open_source(write_pairs(tmp_path), fields=fields)


@pytest.mark.parametrize("options", [{"format": "folder"}, {"listing": "x.csv"}, {"label_column": "x"}])  # fmt: skip
def test_fields_are_for_pairs_alone(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="fields cannot be combined"):
        open_source(write_pairs(tmp_path), fields={"mask": "masks"}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"image": "images", "mask": "nowhere"}, "no such folder; the folder of the field 'mask'"),
        ({"image": "images", "mask": "masks/*.gif"}, "no files of the field 'mask' in it"),
        ({"mask": "images"}, "which folder holds the images"),
    ],
)
def test_fields_without_files_are_named(
    tmp_path: Path, fields: dict[str, str], reason: str
) -> None:
    with pytest.raises(SourceError, match=reason):
        open_source(write_pairs(tmp_path), fields=fields)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="/*\0"), min_size=1, max_size=8)


@given(TEXT, st.sampled_from(["", "gt_"]), st.sampled_from([".png", "_mask.png"]))
def test_a_pattern_gives_back_the_stem_that_a_name_was_made_of(
    stem: str, head: str, tail: str
) -> None:
    (option,) = read_field_options({"mask": f"masks/{head}*{tail}"})
    assert option.find_stem(f"x/{head}{stem}{tail}") == f"x/{stem}"
    assert option.find_stem(f"x/{head}{tail}") is None
