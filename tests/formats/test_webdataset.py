"""WebDataset tars as WebDataset wrote them, and hostile ones."""

from __future__ import annotations

import io
import resource
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headrace
from formats.fixtures import FIXTURES, expected, hostile, sha256
from formats.making import photos, write_tar
from headrace.errors import SourceError
from headrace.formats.detect import open_source
from headrace.formats.file_patterns import expand_braces, match_files
from headrace.formats.layouts.webdataset import open_webdataset
from images import encode
from videos import make_video, save_videos


@pytest.mark.parametrize("name", ["webdataset", "webdataset-dense"])
def test_every_field_is_the_one_that_webdataset_wrote(shared: Path, name: str) -> None:
    source = open_webdataset(FIXTURES / name)
    samples = [sample for file in expected(name)["files"] for sample in file["samples"]]
    assert list(source.names) == [sample["key"] for sample in samples]
    for i, wanted in enumerate(samples):
        sample = source.read(i)
        assert {n: sha256(d) for n, d in sample.items()} == {
            n: field["sha256"] for n, field in wanted["fields"].items()
        }
        assert sample.label == wanted.get("label")


def test_patterns_name_numbers_with_their_zeros_and_choices() -> None:
    assert expand_braces("a-{08..11}.tar") == ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]
    assert expand_braces("{x,y}/{0..1}") == ["x/0", "x/1", "y/0", "y/1"]
    with pytest.raises(SourceError, match="not a range"):
        expand_braces("{9..3}")


def test_a_pattern_that_names_a_missing_tar_is_an_error(shared: Path) -> None:
    with pytest.raises(SourceError, match="train-000003.tar: no such file"):
        open_webdataset(FIXTURES / "webdataset/train-{000000..000003}.tar")


def test_a_pattern_that_names_a_file_twice_is_an_error(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"a.jpg": b""})
    with pytest.raises(SourceError, match="names a file twice"):
        match_files(tmp_path / "{a,a}.tar")


READABLE = {  # tar: samples, of those without an error
    "base256-ok": 2, "concatenated": 6, "contiguous-and-unknown-types": 2, "good": 6, "links": 2,
    "name-case": 2, "name-noext": 1, "no-eof-blocks": 6, "one-zero-block": 6, "size-base256-ok": 2,
    "trailing-garbage": 6, "truncated-padding": 6, "missing-fields": 4, "many-fields": 1,
}  # fmt: skip
REFUSED = {
    "bad-checksum", "bomb-zeros", "dup-key-adjacent", "dup-key-apart", "dup-key-case", "empty",
    "gnu-longname-1GB", "gnu-sparse", "interleaved-keys", "not-a-tar", "only-eof", "pax-header-1GB",
    "pax-size-huge", "pax-size-negative", "random", "size-8GiB-octal", "size-base256-huge",
    "size-base256-negative", "size-garbage", "size-too-big", "size-too-small", "truncated-data",
    "truncated-gzip", "truncated-header", "zero-block-inside",
}  # fmt: skip


@pytest.mark.parametrize("entry", hostile("tar"), ids=lambda entry: entry["file"][4:])
def test_a_hostile_tar_is_an_error_or_gives_complete_samples(entry: dict[str, Any]) -> None:
    path = FIXTURES / "hostile" / entry["file"]
    name = path.name.partition(".")[0]
    try:
        source = open_webdataset(path)
    except SourceError as error:
        assert path.name in str(error)
        assert name not in READABLE
        return
    assert name not in REFUSED
    samples = []
    for i in range(min(100, len(source.names))):
        try:
            samples.append(source.read(i))
        except SourceError as error:
            assert "not an integer" in str(error)
    for sample in samples:
        assert not sample.key.startswith("/") and ".." not in sample.key.split("/")
    if name in READABLE:
        assert len(samples) == len(source.names) == READABLE[name]


def test_plain_numbers_are_labels_and_other_texts_are_errors(shared: Path) -> None:
    source = open_webdataset(FIXTURES / "hostile/tar/cls-fields.tar")
    labels: list[int | None] = []
    for i in range(len(source.names)):
        try:
            labels.append(source.read(i).label)
        except SourceError as error:
            assert source.names[i] in str(error)
            labels.append(None)
    known = [12, 3, -1, 5, 7]
    assert [label for label in labels if label is not None] == known


def test_a_key_in_two_tars_is_an_error_that_names_it(shared: Path) -> None:
    with pytest.raises(SourceError, match=r"dup-across-2.tar: the key 000001 is in another tar"):
        open_webdataset(FIXTURES / "hostile/tar/dup-across-{1,2}.tar")


def test_a_compressed_tar_is_read_in_small_memory(tmp_path: Path) -> None:
    noise = [photo * 2000 for photo in photos(40)]  # 80 MB that compress by a factor below 200
    members = {f"{i}.jpg": data for i, data in enumerate(noise)}
    path = write_tar(tmp_path / "a.tar.gz", members)
    del members, noise
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    source = open_webdataset(path)
    assert source.read(39)["jpg"].startswith(b"\xff\xd8\xff")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30 * 1024


def test_names_without_a_suffix_are_reported_and_a_leading_dot_does_not_belong_to_a_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tar = write_tar(tmp_path / "x.tar", {"a": b"?", "./c/1.jpg": photos(1)[0], "./c/1.cls": b"3"})
    source = open_source(tar)
    assert list(source.ignored) == ["x.tar/a (no suffix)"]
    assert (source.read(0).key, source.read(0).label) == ("c/1", 3)
    headrace.index_dataset(tar)
    assert "1 members are not files, or have no suffix" in caplog.text
    assert [sample.key for sample in headrace.open_dataset(tmp_path)] == ["c/1"]


def test_a_folder_with_tars_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar", {"a.jpg": photos(1)[0]})
    (tmp_path / "y.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    with pytest.raises(SourceError, match="y.tar.zst: such compressed tars are not read; unpack"):
        open_source(tmp_path)
    assert len(open_source(tmp_path / "{x}.tar").names) == 1


@pytest.mark.parametrize("name", ["y.tar.zst", "y.tar.bz2", "Y.TAR.XZ"])
@pytest.mark.parametrize("format", [None, "webdataset"])
def test_a_tar_that_cannot_be_read_is_refused_however_it_is_named(
    tmp_path: Path, name: str, format: str | None
) -> None:
    (tmp_path / name).write_bytes(b"\x28\xb5\x2f\xfd" * 200)
    for path in (tmp_path, tmp_path / name, tmp_path / f"{name[:4]}*"):
        with pytest.raises(SourceError, match=f"{name}: such compressed tars are not read"):
            open_source(path, format=format)


def test_a_tar_of_tars_is_refused(tmp_path: Path) -> None:
    inner = write_tar(tmp_path / "n01.tar", {"1.jpg": photos(1)[0]}).read_bytes()
    outer = write_tar(tmp_path / "train.tar", {"n01.tar": inner, "n02.tar": inner})
    with pytest.raises(SourceError, match="train.tar: holds tars; unpack"):
        open_source(outer)
    with pytest.raises(SourceError, match="train.tar: holds tars; unpack"):
        headrace.index_dataset(outer, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def class_tars(root: Path) -> Path:
    """A tar per class, as the archive that ImageNet comes in holds them."""
    for name in ("n01", "n02"):
        write_tar(root / f"{name}.tar", {f"{name}_{k}.JPEG": photos(2)[k] for k in range(2)})
    return root


def class_folders(root: Path) -> Path:
    """One tar of class folders, with a list beside them, as Food-101 comes."""
    images = {f"food/images/{name}/0.jpg": photos(1)[0] for name in ("pie", "ham")}
    return write_tar(root / "food.tar", {**images, "food/meta/train.txt": b"pie/0"})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (class_tars, r"all names in n01.tar begin with its own; unpack each .*--format webdataset"),
        (class_folders, r"\(food/images/pie, food/images/ham, ...\) in food.tar; .*unpack it"),
    ],
)
def test_archives_of_classes_are_refused_unless_the_format_is_webdataset(
    tmp_path: Path, make: Callable[[Path], Path], reason: str
) -> None:
    path, out = make(tmp_path), tmp_path / "out"
    with pytest.raises(SourceError, match=reason):
        open_source(path)
    with pytest.raises(SourceError, match=reason):
        headrace.index_dataset(path, out=out)
    assert not out.exists()
    count = len(open_source(path, format="webdataset").names)
    assert headrace.index_dataset(path, format="webdataset", out=out).samples == count


@pytest.mark.parametrize(
    "tars",
    [
        {"a.tar": {"0.jpg": b""}, "b.tar": {"1.jpg": b""}},
        {"a.tar": {"all/0.jpg": b"", "all/1.jpg": b""}},
        {"val.tar": {"val_0.jpg": b"", "val_1.jpg": b""}},
        {"00000.tar": {"000000000.jpg": b""}, "00001.tar": {"000010000.jpg": b""}},
        {"a.tar": {"x/0.jpg": b"", "x/0.cls": b"1", "y/0.jpg": b""}},
        {"a.tar": {"a_0.jpg": b"", "a_0.json": b"{}"}, "b.tar": {"b_0.jpg": b""}},
        {
            "x-0000.tar": {"x-0000/0.jpg": b"", "x-0000/y/1.jpg": b""},
            "x-0001.tar": {"x-0001_0.jpg": b""},
        },
        {"shard-000000.tar": {"a/0.jpg": b"", "b/0.jpg": b""}},
    ],
    ids=[
        "flat",
        "one folder",
        "one tar of its name",
        "numbers",
        "labelled",
        "described",
        "shards",
        "own",
    ],
)
def test_webdataset_may_have_no_labels(tmp_path: Path, tars: dict[str, dict[str, bytes]]) -> None:
    for name, members in tars.items():
        write_tar(tmp_path / name, members)
    assert open_source(tmp_path).names


def test_a_shard_alone_keeps_the_rate_and_the_times_of_videos(tmp_path: Path) -> None:
    samples = [
        make_video(0, 3, (20, 20)),
        make_video(1, 3, (20, 20), fps={"mjpg": 7.5}),
        make_video(2, 3, (20, 20), fps={"mjpg": 7.5}, times={"mjpg": [0.0, 0.1, 0.3]}),
    ]
    shards = save_videos(tmp_path / "packed", samples)
    (tmp_path / "tars").mkdir()
    (shard,) = shards.glob("*.tar")
    shard.rename(tmp_path / "tars" / shard.name)
    source = open_source(tmp_path / "tars")
    for i, sample in enumerate(samples):
        found = source.read(i)
        assert (found.frames, found.fps, found.times) == (sample.frames, sample.fps, sample.times)


@pytest.mark.parametrize(
    ("said", "fps", "times"),
    [
        ('{"sizes": [SIZE], "fps": -1}', {}, {}),
        ('{"sizes": [SIZE], "fps": "fast", "times": [1.0]}', {}, {}),
        ('{"sizes": [SIZE], "fps": 1e999, "times": [NaN]}', {}, {}),
        ('{"sizes": [SIZE], "fps": 5, "times": [0]}', {"mjpg": 5.0}, {"mjpg": [0.0]}),
        ('{"sizes": [SIZE], "fps": true, "times": {"0": 1}}', {}, {}),
    ],
)
def test_a_wrong_rate_in_a_tar_is_ignored(
    tmp_path: Path, said: str, fps: dict[str, float], times: dict[str, list[float]]
) -> None:
    picture = encode(20, 20)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name, data in (
            ("v.mjpg", picture),
            ("v.mjpg.frames.json", said.replace("SIZE", str(len(picture))).encode()),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    sample = open_source(tmp_path / "a.tar").read(0)
    assert sample.frames == {"mjpg": [len(picture)]}
    assert (sample.fps, sample.times) == (fps, times)
