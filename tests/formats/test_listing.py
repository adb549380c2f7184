from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from images import encode
from penstock import PackError, SourceError, index_dataset, open_dataset, pack_dataset
from penstock.formats.detect import open_source
from penstock.formats.listing import open_listing


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    for name in "abc":
        (tmp_path / f"{name}.jpg").write_bytes(encode(8, 8, seed=ord(name)))
    return tmp_path


def test_csv_gives_labels_and_columns(flat: Path) -> None:
    (flat / "list.csv").write_text("path,label,angle,who\nb.jpg,7,0.5,ann\na.jpg,3,1.5,\n")
    source = open_listing(flat / "list.csv")
    assert list(source.names) == ["b.jpg", "a.jpg"]
    assert source.classes is None
    assert source.columns == pa.schema([("angle", pa.float64()), ("who", pa.string())])
    sample = source.read(0)
    assert (sample.label, dict(sample.columns)) == (7, {"angle": 0.5, "who": "ann"})


def test_jsonl_with_class_names_numbers_them_in_sorted_order(flat: Path) -> None:
    lines = ['{"file_name": "a.jpg", "label": "zebra"}', '{"file_name": "c.jpg", "label": "ant"}']
    (flat / "list.jsonl").write_text("\n".join(lines))
    source = open_listing(flat / "list.jsonl")
    assert source.classes == ["ant", "zebra"]
    assert [source.read(i).label for i in range(2)] == [1, 0]


@pytest.mark.parametrize("way", ["the file", "the folder", "the option"])
def test_a_listing_is_found_however_it_is_given(flat: Path, way: str) -> None:
    (flat / "list.csv").write_text("path,label\na.jpg,1\n")
    if way == "the option":
        (flat / "list.csv").rename(flat.parent / "elsewhere.csv")
        source = open_source(flat, listing=flat.parent / "elsewhere.csv")
    else:
        source = open_source(flat / "list.csv" if way == "the file" else flat)
    assert source.read(0).label == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name,label\na.jpg,1\n", "no column named path"),
        ("path,label\n../a.jpg,1\n", "row 1.*not a path below"),
        ("path,label\n/etc/passwd,1\n", "row 1.*not a path below"),
        ("path,label\na.jpg,1\na.jpg,2\n", "row 2.*listed twice"),
        ("path,label\na.jpg,1.5\n", "labels are double"),
        ("path,label\n", "lists no images"),
        ("path,label\na,1\n", "row 1.*suffix of an image"),
        ("path,label,label\na.jpg,1,2\n", r"\['label'\] come twice"),
    ],
)
def test_mistakes_in_a_listing_are_named(flat: Path, text: str, reason: str) -> None:
    (flat / "list.csv").write_text(text)
    with pytest.raises(SourceError, match=reason):
        open_listing(flat / "list.csv")


def test_two_listings_in_a_folder_are_ambiguous(flat: Path) -> None:
    for name in ("one.csv", "two.csv"):
        (flat / name).write_text("path,label\na.jpg,1\n")
    with pytest.raises(SourceError, match="say which one"):
        open_source(flat)


def test_a_missing_label_is_none_among_names_as_among_numbers(flat: Path) -> None:
    (flat / "names.csv").write_text("path,label\na.jpg,dog\nb.jpg,\nc.jpg,cat\n")
    source = open_listing(flat / "names.csv")
    assert (source.classes, list(source.labels)) == (["cat", "dog"], [1, None, 0])
    (flat / "numbers.csv").write_text("path,label\na.jpg,1\nb.jpg,\nc.jpg,0\n")
    assert list(open_listing(flat / "numbers.csv").labels) == [1, None, 0]


@pytest.mark.parametrize("column", ["label", "who"])
def test_text_that_is_not_utf8_is_an_error_that_names_the_column(flat: Path, column: str) -> None:
    (flat / "list.csv").write_bytes(f"path,{column}\na.jpg,änn\nb.jpg,bob\n".encode("latin-1"))
    with pytest.raises(SourceError, match=rf"\['{column}'\] are not all UTF-8"):
        open_listing(flat / "list.csv")


def test_a_missing_file_is_named_when_it_is_read(flat: Path) -> None:
    (flat / "list.csv").write_text("path,label\nmissing.jpg,1\na.jpg,2\n")
    source = open_listing(flat / "list.csv")
    assert source.read(1).label == 2
    with pytest.raises(SourceError, match="no such file below"):
        source.read(0)


def test_a_missing_file_is_an_error_or_left_out_on_request(flat: Path) -> None:
    (flat / "list.csv").write_text("path,label\nmissing.jpg,1\na.jpg,2\n")
    with pytest.raises(SourceError, match="missing.jpg: no such file"):
        index_dataset(flat / "list.csv", out=flat / "index")
    assert index_dataset(flat / "list.csv", out=flat / "index", on_error="skip").samples == 1
    assert [sample.label for sample in open_dataset(flat / "index")] == [2]
    assert '"missing.jpg"' in (flat / "index" / "rejected.jsonl").read_text()
    with pytest.raises(PackError, match="1 of 2 .*\n.*missing.jpg: no such file"):
        pack_dataset(flat / "list.csv", flat / "out")
    summary = pack_dataset(flat / "list.csv", flat / "out", on_error="skip")
    assert (summary.samples, summary.rejected[0][0]) == (1, "missing.jpg")


@pytest.mark.parametrize("name", [" label", "Label"])
def test_a_label_column_that_is_misspelt_is_an_error(flat: Path, name: str) -> None:
    (flat / "list.csv").write_text(f"path,{name}\na.jpg,cat\n")
    with pytest.raises(SourceError, match=f"a column is called '{name}'; call it 'label'"):
        open_listing(flat / "list.csv")


def test_a_listing_with_semicolons_is_no_list_of_videos(flat: Path) -> None:
    (flat / "list.csv").write_text("path;label\na.jpg;cat\n")
    with pytest.raises(SourceError, match=r"no column named path among \['path;label'\]"):
        open_source(flat / "list.csv")
