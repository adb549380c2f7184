"""TFRecord files of tf.train.Example."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.making import make_example, photos, write_tfrecord
from headrace.errors import SourceError
from headrace.formats.codecs.tf_example import parse_example
from headrace.formats.layouts.tfrecord import is_tfrecord, open_tfrecord


def write(tmp_path: Path, *examples: dict[str, object]) -> Path:
    return write_tfrecord(tmp_path / "a.tfrecord", [make_example(example) for example in examples])


def test_an_example_written_out_by_hand_is_read() -> None:
    """{"label": 3, "f": 0.5, "b": b"xyz"} in protobuf's wire format, lists packed."""
    data = bytes.fromhex(
        "0a2d0a0e0a056c6162656c12051a030a01030a0d0a01661208120"
        "60a040000003f0a0c0a016212070a050a0378797a"
    )
    assert parse_example(data) == {"label": [3], "f": [0.5], "b": [b"xyz"]}


def test_image_label_and_the_rest_are_told_apart(tmp_path: Path) -> None:
    image = photos(1)[0]
    path = write(
        tmp_path,
        {
            "image/encoded": image,
            "image/class/label": 7,
            "image/height": 24,
            "image/class/text": b"cat",
            "box": [0.5, 0.25],
            "offset": -1,
        },
    )
    sample = open_tfrecord(path).read(0)
    assert (sample.label, list(sample), sample["jpg"]) == (7, ["jpg", "json"], image)
    assert json.loads(sample["json"]) == {
        "image/height": 24,
        "image/class/text": "cat",
        "box": [0.5, 0.25],
        "offset": -1,
    }


def test_of_several_labels_the_first_of_the_documented_names_counts(tmp_path: Path) -> None:
    example = {"image": photos(1)[0], "image/label": 1, "label": 2, "image/class/label": 3}
    sample = open_tfrecord(write(tmp_path, example)).read(0)
    assert (sample.label, json.loads(sample["json"])) == (3, {"image/label": 1, "label": 2})
    del example["image/class/label"]
    assert open_tfrecord(write(tmp_path, example)).read(0).label == 2


def test_unknown_fields_of_any_wire_type_are_passed() -> None:
    unknown = b"\x10\x96\x01" + b"\x19" + b"\xff" * 8 + b"\x22\x01x" + b"\x2d" + b"\xff" * 4
    assert parse_example(unknown + make_example({"label": 3})) == {"label": [3]}


def test_several_images_are_several_fields(tmp_path: Path) -> None:
    left, right = photos(2)
    sample = open_tfrecord(write(tmp_path, {"left": left, "right": right})).read(0)
    assert (sample["left.jpg"], sample["right.jpg"], sample.label) == (left, right, None)


def test_bytes_that_are_not_text_become_fields(tmp_path: Path) -> None:
    image = photos(1)[0]
    example = {
        "image": image,
        "a/raw": b"\xff\0",
        "text": b"\\xff caf\xc3\xa9",
        "n": [b"x", b"\xfe"],
    }
    source = open_tfrecord(write(tmp_path, example))
    sample = source.read(0)
    assert json.loads(sample["json"]) == {"text": "\\xff café"}
    rest = {name: data for name, data in sample.items() if name != "json"}
    assert rest == {"jpg": image, "a_raw.bin": b"\xff\0", "n.0.bin": b"x", "n.1.bin": b"\xfe"}
    assert dict(source.locate(0).sample) == rest


def test_a_list_of_images_is_a_field_for_each(tmp_path: Path) -> None:
    one, two, small = photos(3)
    sample = open_tfrecord(write(tmp_path, {"views": [one, two], "thumb": small})).read(0)
    assert dict(sample) == {"views.0.jpg": one, "views.1.jpg": two, "thumb.jpg": small}


def test_two_features_that_would_be_one_field_are_an_error(tmp_path: Path) -> None:
    example = {"image": photos(1)[0], "a/b": b"\xff", "a_b": b"\xfe"}
    with pytest.raises(SourceError, match="two features are both called 'a_b.bin'"):
        open_tfrecord(write(tmp_path, example)).read(0)


def test_a_record_without_an_image_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no encoded image among its features \['label'\]"):
        open_tfrecord(write(tmp_path, {"label": 1})).read(0)


def test_a_changed_byte_is_found_by_the_checksum(tmp_path: Path) -> None:
    path = write(tmp_path, *({"image": data, "label": 1} for data in photos(3)))
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    source = open_tfrecord(path)
    with pytest.raises(SourceError, match="a.tfrecord, byte 12: the record's checksum is wrong"):
        source.read(0)
    assert source.read(1).label == 1


def test_a_lying_length_or_a_cut_file_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, *({"image": data} for data in photos(2)))
    whole = path.read_bytes()
    for size in (5, 12, 100, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(SourceError, match="byte"):
            open_tfrecord(path)
    path.write_bytes(b"\xff" * 8 + whole[8:])
    assert not is_tfrecord(path, path.read_bytes())
    with pytest.raises(SourceError, match="byte 0: not the beginning of a record"):
        open_tfrecord(path)


@given(data=st.binary(max_size=200))
def test_bytes_that_are_not_an_example_are_a_source_error(data: bytes) -> None:
    try:
        parse_example(data)
    except SourceError:
        pass


def test_gzipped_records_are_read_but_not_indexed(tmp_path: Path) -> None:
    import gzip

    plain = write(tmp_path, {"image": photos(1)[0], "label": 2})
    packed = tmp_path / "b.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    os.unlink(plain)
    source = open_tfrecord(packed)
    assert source.read(0).label == 2
    with pytest.raises(SourceError, match="compressed; pack it"):
        source.locate(0)


@pytest.mark.parametrize("label", [b"cat", 0.5, b"\xff"])
def test_a_label_that_is_not_an_integer_is_an_error(tmp_path: Path, label: object) -> None:
    image = photos(1)[0]
    with pytest.raises(SourceError, match="not an integer"):
        open_tfrecord(write(tmp_path, {"image": image, "label": label})).read(0)
    both = {"image": image, "image/class/label": label, "label": 3}
    assert open_tfrecord(write(tmp_path, both)).read(0).label == 3
