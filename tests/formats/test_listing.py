from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from headrace import PackError, SourceError, index_dataset, open_dataset, pack_dataset
from headrace.formats.codecs.listing_table import _feed, read_csv
from headrace.formats.detect import open_source
from headrace.formats.layouts.listing import open_listing
from images import encode


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


def test_a_value_may_have_lines_where_one_block_of_a_csv_ends(tmp_path: Path) -> None:
    count = 70_000  # pyarrow reads a MiB at a time
    (tmp_path / "list.csv").write_text("path,text\n" + 'a.jpg,"two\nlines"\n' * count)
    assert read_csv(tmp_path / "list.csv", ",")["text"].to_pylist() == ["two\nlines"] * count


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
        (
            "name,label\na.jpg,1\n",
            r"no column named path among \['name', 'label'\]; .*--path-column .*--label-column",
        ),
        ("path,Label\na.jpg,1\n", "called 'Label'; call it 'label', or .*--label-column"),
        ("path,label\n../a.jpg,1\n", "row 1.*not a path below"),
        ("path,label\n/etc/passwd,1\n", "row 1.*not a path below"),
        ("path,label\na.jpg,1\na.jpg,2\n", "row 2.*listed twice"),
        ("path,label\na.jpg,1.5\n", "labels are double"),
        ("path,label\n", "lists no images"),
        ("path,label\na,1\n", "row 1.*suffix of an image"),
        ("path;label\na.jpg;1\n", "separated by ';'; save it with commas"),
        ("path\tlabel\na.jpg\t1\n", r"separated by '\\t'; save it with commas"),
        ("path,label,label\na.jpg,1,2\n", r"\['label'\] come twice"),
    ],
)
def test_mistakes_in_a_listing_are_named(flat: Path, text: str, reason: str) -> None:
    (flat / "list.csv").write_text(text)
    with pytest.raises(SourceError, match=reason):
        open_listing(flat / "list.csv")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["00012", "00007"], pa.string()),
        (["NA", "null"], pa.string()),
        (["0x0F", "0xAB"], pa.string()),
        (["2021-03-04", "2021-03-05"], pa.string()),
        (["true", "false"], pa.string()),
        (["12345678901234567890", "1"], pa.string()),
        (["9007199254740993", "0.5"], pa.string()),
        (["nan", "1e400"], pa.string()),
        (["1e400", "1.5"], pa.string()),
        (["+1", "-0"], pa.string()),
        (["-12", "0"], pa.int64()),
        (["-12", "0.25"], pa.float64()),
        (["1e-05", "1.10"], pa.float64()),
    ],
    ids=lambda value: str(value),
)
def test_text_becomes_numbers_only_where_nothing_is_lost(
    flat: Path, values: list[str], kind: pa.DataType
) -> None:
    a, b = values
    (flat / "list.csv").write_text(f"path,x\na.jpg,{a}\nb.jpg,{b}\nc.jpg,\n")
    source = open_listing(flat / "list.csv")
    assert source.columns == pa.schema([("x", kind)])
    read = {pa.string(): str, pa.int64(): int, pa.float64(): float}[kind]
    assert [row["x"] for row in source.rows] == [read(a), read(b), None]


def test_labels_that_look_like_nothing_or_have_zeros_before_them_are_names(flat: Path) -> None:
    (flat / "list.csv").write_text("path,label\na.jpg,001\nb.jpg,NA\nc.jpg,null\n")
    source = open_listing(flat / "list.csv")
    assert (source.classes, list(source.labels)) == (["001", "NA", "null"], [0, 1, 2])


def test_json_lines_keep_the_types_that_json_has(flat: Path) -> None:
    rows = [
        {"path": "a.jpg", "label": "2021-03-04", "x": "007", "n": 1, "f": 1, "s": {"a": 1}},
        {"path": "b.jpg", "label": "2021-03-05", "x": "", "f": 0.5, "s": {"b": [1]}, "t": True},
    ]
    (flat / "list.jsonl").write_text("\ufeff" + "\r\n\n".join(map(json.dumps, rows)))
    source = open_listing(flat / "list.jsonl")
    assert source.classes == ["2021-03-04", "2021-03-05"]
    assert list(source.rows) == [
        {"x": "007", "n": 1, "f": 1.0, "s": {"a": 1, "b": None}, "t": None},
        {"x": "", "n": None, "f": 0.5, "s": {"a": None, "b": [1]}, "t": True},
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            '{"path": "b.jpg", "x": 12345678901234567890}',
            "line 2: 12345678901234567890 does not fit",
        ),
        ('{"path": "b.jpg", "x": -9' + "9" * 5000 + "}", "line 2: -9{39} does not fit"),
        ('{"path": "b.jpg", "x": 1, "x": 2}', "line 2: x is there twice"),
        ('["b.jpg"]', "line 2: it is a list, not an object"),
        ('{"path": ', "line 2: Expecting value"),
        ("[" * 100_000, "line 2: maximum recursion"),
        ('{"path": "b.jpg", "x": "1"}', "the values of 'x' have no common type"),
        ('{"path": "b.jpg", "y": "\\ud800"}', "'y' have no common type"),
        ('{"path": "b.jpg", "\\ud800": 1}', r"the name '\\ud800' is not text"),
        ('{"path": "\xff.jpg"}', "not all UTF-8"),
    ],
    ids=lambda text: text[:30],
)
def test_mistakes_in_json_lines_are_named(flat: Path, line: str, reason: str) -> None:
    text = '{"path": "a.jpg", "x": 1}\n' + line
    (flat / "list.jsonl").write_bytes(text.encode("latin-1"))
    with pytest.raises(SourceError, match=reason):
        open_listing(flat / "list.jsonl")


@pytest.mark.parametrize("end", ["\nc.jpg,cat,fine\n", "", "\n"])
@pytest.mark.parametrize("cell", ['"never closed', '"', '"5"" and'])
def test_a_quote_that_is_never_closed_is_an_error_that_names_its_line(
    flat: Path, cell: str, end: str
) -> None:
    (flat / "list.csv").write_text(f'path,label,note\na.jpg,cat,"fine"\nb.jpg,dog,{cell}{end}')
    with pytest.raises(SourceError, match="list.csv, line 3: a quote that is never closed"):
        open_listing(flat / "list.csv")


def test_quotes_that_open_nothing_are_text(flat: Path) -> None:
    (flat / "list.csv").write_text('path,note\na.jpg,5" pipe\nb.jpg,"a ""\nb"\nc.jpg,""')
    notes = [row["note"] for row in open_listing(flat / "list.csv").rows]
    assert notes == ['5" pipe', 'a "\nb', None]


def test_a_cell_may_have_megabytes(flat: Path) -> None:
    long = "y" * (3 << 20)
    (flat / "list.csv").write_text(f"path,note\na.jpg,{long}\nb.jpg,{long}\n")
    assert [len(row["note"]) for row in open_listing(flat / "list.csv").rows] == [3 << 20] * 2
    (flat / "list.csv").write_text(f"path,note\na.jpg,{long * 12}\n")
    with pytest.raises(SourceError, match="a row of more than 16 MiB"):
        open_listing(flat / "list.csv")


def test_two_listings_in_a_folder_are_ambiguous(flat: Path) -> None:
    for name in ("one.csv", "two.csv"):
        (flat / name).write_text("path,label\na.jpg,1\n")
    with pytest.raises(SourceError, match="say which one"):
        open_source(flat)


def test_a_missing_label_among_names_or_numbers_means_no_label(flat: Path) -> None:
    (flat / "names.csv").write_text("path,label\na.jpg,dog\nb.jpg,\nc.jpg,cat\n")
    source = open_listing(flat / "names.csv")
    assert (source.classes, list(source.labels)) == (["cat", "dog"], [1, None, 0])
    (flat / "numbers.csv").write_text("path,label\na.jpg,1\nb.jpg,\nc.jpg,0\n")
    assert list(open_listing(flat / "numbers.csv").labels) == [1, None, 0]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_a_listing_in_utf16_is_an_error_that_says_so(flat: Path, encoding: str) -> None:
    (flat / "list.csv").write_bytes("path,label\na.jpg,ann\n".encode(encoding))
    with pytest.raises(SourceError, match="as UTF-16 does; save the file as UTF-8"):
        open_listing(flat / "list.csv")


@pytest.mark.parametrize("column", ["label", "who"])
def test_text_that_is_not_utf8_is_an_error_that_names_the_column(flat: Path, column: str) -> None:
    (flat / "list.csv").write_bytes(f"path,{column}\na.jpg,änn\nb.jpg,bob\n".encode("latin-1"))
    with pytest.raises(SourceError, match=rf"\['{column}'\] are not all UTF-8"):
        open_listing(flat / "list.csv")


@pytest.mark.parametrize("labels", [(" 0", " 1", " 10"), ("0", " 1", "2"), ("cat", "cat ", "dog")])
def test_spaces_around_a_label_are_an_error(flat: Path, labels: tuple[str, ...]) -> None:
    rows = [f"{name}.jpg,{label}\n" for name, label in zip("abc", labels, strict=True)]
    (flat / "list.csv").write_text("path,label\n" + "".join(rows))
    with pytest.raises(SourceError, match="the label '.*' has leading or trailing spaces"):
        open_listing(flat / "list.csv")


@pytest.mark.parametrize("name", ["list.CSV", "list.Tsv", "list.JSONL"])
def test_suffixes_may_be_in_capitals(flat: Path, name: str) -> None:
    rows = {".csv": "path,x\na.jpg,1\n", ".tsv": "path\tx\na.jpg\t1\n"}
    text = rows.get(name[-4:].lower(), '{"path": "a.jpg", "x": 1}\n')
    (flat / name).write_text(text)
    for path in (flat, flat / name):
        for format in (None, "listing"):
            assert open_source(path, format=format).rows == [{"x": 1}]


def test_another_suffix_is_an_error_that_names_those_that_are_read(flat: Path) -> None:
    (flat / "list.txt").write_text("path,label\na.jpg,1\n")
    with pytest.raises(SourceError, match="a listing is .csv, .tsv, .jsonl or .ndjson"):
        open_source(flat / "list.txt", format="listing")


def test_a_missing_file_is_named_when_it_is_read(flat: Path) -> None:
    (flat / "list.csv").write_text("path,label\nmissing.jpg,1\na.jpg,2\n")
    source = open_listing(flat / "list.csv")
    assert source.read(1).label == 2
    with pytest.raises(SourceError, match="no such file below"):
        source.read(0)


def test_a_missing_file_is_an_error_or_left_out_on_request(flat: Path) -> None:
    (flat / "list.csv").write_text("path,label,who\nmissing.jpg,1,ann\na.jpg,2,bob\n")
    with pytest.raises(PackError, match="1 of 2 .*\n.*missing.jpg: no such file"):
        index_dataset(flat / "list.csv", out=flat / "index")
    assert index_dataset(flat / "list.csv", out=flat / "index", on_error="skip").samples == 1
    (sample,) = open_dataset(flat / "index")
    assert (sample.label, dict(sample.columns)) == (2, {"who": "bob"})
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


@pytest.mark.parametrize(
    "text", ["path;label\n", "image;label\na.jpg;cat\n", '"a.jpg";"cat"\n"b.jpg";"dog"\n']
)
def test_a_listing_with_semicolons_is_not_a_list_of_videos(flat: Path, text: str) -> None:
    (flat / "list.csv").write_text(text)
    with pytest.raises(SourceError, match="separated by ';'; save it with commas"):
        open_source(flat / "list.csv")


def test_arrow_reads_memory_of_its_own() -> None:
    """Its threads may let go of what they read when Python is ending, and Python's own they could not."""
    data = bytes(range(256))
    before = sys.getrefcount(data)
    stream = _feed(data, b"\n")
    assert sys.getrefcount(data) == before
    assert stream.read() == data + b"\n"


def test_columns_may_have_any_name_that_is_given(flat: Path) -> None:
    (flat / "list.csv").write_text("Id,breed,label\na.jpg,pug,1\nb.jpg,cat,2\n")
    source = open_listing(flat / "list.csv", path_column="Id", label_column="breed")
    assert list(source.names) == ["a.jpg", "b.jpg"]
    assert source.classes == ["cat", "pug"]
    assert source.columns == pa.schema([("label", pa.int64())])
    by_number = open_listing(flat / "list.csv", path_column="Id")
    assert (by_number.classes, list(by_number.labels)) == (None, [1, 2])
    assert by_number.columns == pa.schema([("breed", pa.string())])


@pytest.mark.parametrize("way", ["the file", "the folder", "the option"])
def test_named_columns_are_found_however_the_listing_is_given(flat: Path, way: str) -> None:
    (flat / "submission.csv").write_text("image_id,target\nz,1\n")
    listing = flat / "train.csv"
    listing.write_text("image_id,class\na,x\nb,y\n")
    columns = {"path_column": "image_id", "label_column": "class"}
    path = listing if way == "the file" else flat
    source = open_source(path, listing=listing if way == "the option" else None, **columns)
    assert list(source.names) == ["a.jpg", "b.jpg"]
    assert [source.read(i).label for i in range(2)] == [0, 1]
    if way == "the folder":
        assert list(source.ignored) == ["submission.csv (another listing)", "c.jpg"]


def test_ids_are_files_with_the_suffix_of_an_image(flat: Path) -> None:
    (flat / "sub").mkdir()
    (flat / "sub/12.PNG").write_bytes(encode(8, 8, format="PNG"))
    (flat / "sub/12.txt").write_text("x")
    (flat / "gone").write_bytes(encode(8, 8))  # not called an image
    (flat / "list.csv").write_text("id\na\nb.jpg\nsub/12\ngone\nnowhere/1\n")
    source = open_listing(flat / "list.csv", path_column="id")
    assert list(source.names) == ["a.jpg", "b.jpg", "sub/12.PNG", "gone", "nowhere/1"]
    assert [next(iter(source.read(i))) for i in range(3)] == ["jpg", "jpg", "png"]
    assert list(source.find_rejected()) == [3, 4]
    for i in (3, 4):
        with pytest.raises(SourceError, match="no such file below"):
            source.read(i)
    summary = pack_dataset(flat / "list.csv", flat / "out", path_column="id", on_error="skip")
    assert [name for name, _ in summary.rejected] == ["gone", "nowhere/1"]
    manifest = index_dataset(
        flat / "list.csv", path_column="id", out=flat / "index", on_error="skip"
    )
    assert manifest.samples == 3


def test_ids_may_be_numbers(flat: Path) -> None:
    (flat / "1000015157.jpg").write_bytes(encode(8, 8))
    (flat / "list.csv").write_text("image_id,label\n1000015157,0\n")
    source = open_listing(flat / "list.csv", path_column="image_id")
    assert list(source.names) == ["1000015157.jpg"]


@pytest.mark.parametrize(
    ("ids", "others"),
    [(["1.50", "2.50"], ["1.5", "2.5"]), (["0e5", "1e5"], ["0.0", "100000.0"]), (["1", "2.0"], ["1.0"])],
)  # fmt: skip
def test_ids_in_a_csv_are_the_text_that_is_written(
    flat: Path, ids: list[str], others: list[str]
) -> None:
    for name in (*ids, *others):
        (flat / f"{name}.jpg").write_bytes(encode(8, 8))
    (flat / "list.csv").write_text("id,x\n" + "".join(f"{name},{name}\n" for name in ids))
    source = open_listing(flat / "list.csv", path_column="id")
    assert list(source.names) == [f"{name}.jpg" for name in ids]
    assert [row["x"] for row in source.rows] == [float(name) for name in ids]


def test_ids_in_json_lines_are_text_or_integers(flat: Path) -> None:
    for name in ("0", "1", "007"):
        (flat / f"{name}.jpg").write_bytes(encode(8, 8))
    (flat / "list.jsonl").write_text('{"id": 0}\n{"id": 1}\n{"id": "007"}\n')
    source = open_listing(flat / "list.jsonl", path_column="id")
    assert list(source.names) == ["0.jpg", "1.jpg", "007.jpg"]


@pytest.mark.parametrize("value", ["2.0", "1e5", "true", "[1]"])
def test_other_ids_in_json_lines_are_errors_that_name_the_row(flat: Path, value: str) -> None:
    (flat / "list.jsonl").write_text(f'{{"id": 0}}\n{{"id": {value}}}\n')
    with pytest.raises(SourceError, match=r"row 2: the path .* is neither text nor an integer; wr"):
        open_listing(flat / "list.jsonl", path_column="id")


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("id,label\na,1\n", {"path_column": "x"}, r"no column 'x' among \['id', 'label'\].*--path-"),
        ("path\na.jpg\n", {"label_column": "y"}, r"no column 'y' among \['path'\].*--label-"),
        ("id\na\n", {"path_column": "id", "label_column": "id"}, "both path and label"),
        ("id\na\na.jpg\n", {"path_column": "id"}, "row 2: 'a.jpg' is listed twice"),
        ("id\n../a\n", {"path_column": "id"}, "row 1: '../a' is not a path below"),
        ("id\nq\nr\n", {"path_column": "id"}, "none of its 2 images, such as 'q', is below .*--listing"),
        ("id\nb\n", {"path_column": "id"}, r"row 1: 'b' may be b\.jpg and b\.png"),
    ],
)  # fmt: skip
def test_mistakes_in_named_columns_are_named(
    flat: Path, text: str, options: dict[str, str], reason: str
) -> None:
    (flat / "b.png").write_bytes(encode(8, 8, format="PNG"))
    (flat / "list.csv").write_text(text)
    with pytest.raises(SourceError, match=reason):
        open_source(flat / "list.csv", **options)


def test_columns_are_of_listings_alone(flat: Path) -> None:
    for columns in (["path_column"], ["path_column", "label_column"]):
        said = f"^{' and '.join(columns)} cannot be combined with format='folder': only a listing"
        with pytest.raises(ValueError, match=said):
            open_source(flat, format="folder", **dict.fromkeys(columns, "id"))
    with pytest.raises(SourceError, match="no listing"):
        open_source(flat, path_column="id")


def test_a_warning_says_which_of_several_listings_was_taken(
    flat: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (flat / "notes.csv").write_text("who,what\nann,saw\n")
    (flat / "train.csv").write_text("path,label\na.jpg,1\n")
    source = open_source(flat)
    assert list(source.names) == ["a.jpg"]
    assert source.ignored[0] == "notes.csv (another listing)"
    assert "train.csv is the listing, and notes.csv is ignored" in caplog.text


def test_columns_that_none_of_several_listings_has_are_named(flat: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (flat / name).write_text("image_id,label\na,1\n")
    with pytest.raises(SourceError, match=r"none of its listings \(a.csv, b.csv\) .*\['id', 'y'\]"):
        open_source(flat, path_column="id", label_column="y")
    with pytest.raises(SourceError, match=r"several listings \(a.csv, b.csv\); say which"):
        open_source(flat, path_column="image_id")
