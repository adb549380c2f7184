"""GulpIO directories: as GulpIO wrote them, and hostile ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from formats.fixtures import FIXTURES, expected, hostile, sha256
from formats.making import photos, write_gulp
from headrace.errors import SourceError
from headrace.formats.layouts.gulp import open_gulp


@pytest.mark.parametrize("name", ["gulp", "gulp-12chunks"])
def test_every_frame_is_the_one_that_gulpio_wrote(shared: Path, name: str) -> None:
    source, wanted = open_gulp(FIXTURES / name), expected(name)
    videos = [video for chunk in wanted["chunks"] for video in chunk["videos"]]
    assert list(source.names) == [video["id"] for video in videos]
    for i, video in enumerate(videos):
        sample = source.read(i)
        assert [sha256(f) for f in sample.split_frames()] == [f["sha256"] for f in video["frames"]]
        assert sample.label == wanted["label2idx"][video["meta_data"][0]["label"]]
        located = source.locate(i)
        assert located.offsets == {"mjpg": video["frames"][0]["offset"]}
        assert located.sample.frames["mjpg"] == [f["length_incl_pad"] for f in video["frames"]]


def read_all(path: Path) -> dict[str, Any]:
    source = open_gulp(path)
    found: dict[str, Any] = {}
    for i, name in enumerate(source.names):
        try:
            found[name] = source.read(i)
        except SourceError as error:
            found[name] = error
    return found


@pytest.mark.parametrize("entry", hostile("gulp"), ids=lambda entry: entry["dir"][5:])
def test_a_hostile_video_is_an_error_and_the_others_stay_readable(
    entry: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, must = FIXTURES / "hostile" / entry["dir"], entry["must"]
    try:
        found = read_all(path)
    except SourceError as error:
        assert str(path) in str(error)
        assert "v1" not in must
        return
    if must == "error":
        assert all(isinstance(sample, SourceError) for sample in found.values())
    if "v1" in must:
        assert len(found["v1"].split_frames()) == 4
    if "v2 an error naming id and file" in must:
        assert isinstance(found["v2"], SourceError)
        assert "_0.g" in str(found["v2"])
    if "readable" in must and "v2" not in must:
        assert all(sample.fields for sample in found.values())
    assert not (tmp_path / "PWNED").exists()


def test_ids_are_only_keys_whatever_they_look_like(shared: Path) -> None:
    keys = [sample.key for sample in read_all(FIXTURES / "hostile/gulp/id-traversal").values()]
    assert keys == ["%2E%2E%2F%2E%2E%2FPWNED", "%2Fabs"]


def test_ids_of_one_frame_each_are_images(tmp_path: Path) -> None:
    images = photos(3)
    path = write_gulp(
        tmp_path / "g", {str(i): [data] for i, data in enumerate(images)}, dict.fromkeys("012", "x")
    )
    source = open_gulp(path)
    assert [source.read(i)["jpg"] for i in range(3)] == images
    assert source.locate(1).sample["jpg"] == images[1]


def test_an_id_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    path = write_gulp(tmp_path / "g", {"a": photos(1), "b": photos(1)}, {"a": "x", "b": "x"})
    meta = path / "meta_0.gmeta"
    meta.write_text(meta.read_text().replace('"b": {', '"a": {'))
    with pytest.raises(SourceError, match=r"meta_0\.gmeta: not readable JSON: a is there twice"):
        open_gulp(path)


def test_frames_that_lie_apart_are_packed_but_not_indexed(shared: Path) -> None:
    source = open_gulp(FIXTURES / "hostile/gulp/overlap")
    assert len(source.read(1).split_frames()) == 3
    with pytest.raises(SourceError, match="do not follow one another; pack it instead"):
        source.locate(1)


@pytest.mark.parametrize(
    ("numbers", "classes"),
    [
        ({"b": 1, "a": 2}, ["no-class-0", "b", "a"]),
        ({"a": 0, "b": 3}, ["a", "no-class-1", "no-class-2", "b"]),
        ({"a": 0, "A": 0, "b": 1}, ["a | A", "b"]),
        ({"a": 5, "b": 5}, [f"no-class-{k}" for k in range(5)] + ["a | b"]),
        ({"a": 0, "b": (1 << 31) - 1}, None),
        ({"a": 1, "b": 2, "no-class-0": 3}, ["no-class-0_", "a", "b", "no-class-0"]),
        (
            {"a": 1, "b": 2, "no-class-0_": 3, "no-class-0": 4},
            ["no-class-0__", "a", "b", "no-class-0_", "no-class-0"],
        ),
        ({"a": 0, "b": 0, "a | b": 1}, ["a | b_", "a | b"]),
    ],
)
def test_class_names_have_the_numbers_of_their_labels(
    tmp_path: Path, numbers: dict[str, int], classes: list[str] | None
) -> None:
    path = write_gulp(tmp_path / "g", {"1": photos(1), "2": photos(1)}, {"1": "a", "2": "b"})
    (path / "label2idx.json").write_text(json.dumps(numbers))
    source = open_gulp(path)
    assert [source.read(i).label for i in range(2)] == [numbers["a"], numbers["b"]]
    assert source.classes == classes
    said = f"names of classes in label2idx.json (numbers up to {max(numbers.values())})"
    assert list(source.ignored) == ([said] if classes is None else [])
