"""GulpIO's directory and chunks: over its own files, and over the same videos packed."""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import pickle
import resource
import shutil
import tarfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headrace
from formats.fixtures import hostile, sha256
from formats.making import write_gulp
from headrace.compat.gulpio import GulpChunk, GulpDirectory
from headrace.errors import CorruptError, DecodeError, SourceChangedError, SourceError
from headrace.formats.layouts.gulp import open_gulp
from headrace.sample import Sample
from images import encode
from stored import FIXTURES


def pillow(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def read_gulp(path: Path) -> dict[str, Sample]:
    """The encoded videos of a gulp, by another reader."""
    source = open_gulp(path)
    return {name: source.read(i) for i, name in enumerate(source.names)}


def list_descriptors() -> set[str]:
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:  # the one that listed them
            pass
    return found


def write_photos(path: Path, sizes: list[tuple[int, int]], **options: Any) -> tuple[Path, Any]:
    frames = [encode(*size, seed=k, **options) for k, size in enumerate(sizes)]
    return write_gulp(path, {"v": frames}, {"v": "x"}), frames


def index_tar(path: Path, members: dict[str, bytes]) -> Path:
    """A folder with one tar of these members, indexed."""
    path.mkdir()
    with tarfile.open(path / "a.tar", "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    headrace.index_dataset(path)
    return path


@pytest.mark.parametrize("name", ["gulp", "gulp-12chunks"])
def test_every_frame_has_the_pixels_that_gulpio_decoded(beside: Path, name: str) -> None:
    path = beside / "fixtures" / name  # in tests/data, the photos are others
    directory = GulpDirectory(path)
    for chunk in json.loads((path / "expected.json").read_text())["chunks"]:
        for video in chunk["videos"]:
            frames, meta = directory[video["id"]]
            wanted = [frame["sha256_rgb_gulpio"] for frame in video["frames"]]
            assert [sha256(frame.tobytes()) for frame in frames] == wanted
            assert [list(frame.shape) for frame in frames] == [f["shape"] for f in video["frames"]]
            assert meta == video["meta_data"][0]


def test_every_frame_is_what_pillow_decodes(gulp: Path, videos: Path) -> None:
    directory = GulpDirectory(videos)
    samples = read_gulp(gulp)
    assert set(directory.chunk_lookup) == set(samples)
    for name, sample in samples.items():
        frames, _ = directory[name]
        for frame, data in zip(frames, sample.split_frames(), strict=True):
            assert frame.dtype == np.uint8 and np.array_equal(frame, pillow(data))


def test_a_packed_gulp_has_the_metadata_of_the_gulp(gulp: Path, packed_gulp: Path) -> None:
    one, other = GulpDirectory(gulp), GulpDirectory(packed_gulp)
    assert other.num_chunks > 1
    assert one.label2idx == other.label2idx
    for name, entry in one.merged_meta_dict.items():
        found = other.merged_meta_dict[name]
        assert found["meta_data"] == entry["meta_data"]
        assert len(found["frame_info"]) == len(entry["frame_info"])
        assert one[name, :1][1] == other[name, :1][1] == entry["meta_data"][0]


def test_the_metadata_are_those_in_the_files(gulp: Path) -> None:
    directory = GulpDirectory(gulp)
    files = [json.loads((gulp / f"meta_{k}.gmeta").read_text()) for k in range(3)]
    assert [dict(content) for content in directory.all_meta_dicts] == files
    assert dict(directory.merged_meta_dict) == {k: v for file in files for k, v in file.items()}
    assert list(directory.merged_meta_dict) == [name for file in files for name in file]
    assert directory.chunk_lookup == {name: k for k, file in enumerate(files) for name in file}
    assert directory.num_chunks == 3 == len(directory.merged_meta_dict) // 4


def test_frame_info_says_where_packed_frames_lie(gulp: Path, packed_gulp: Path) -> None:
    directory = GulpDirectory(packed_gulp)
    name, sample = next(iter(read_gulp(gulp).items()))
    data = Path(directory.chunk_objs_lookup[directory.chunk_lookup[name]].data_file_path)
    info = directory.merged_meta_dict[name]["frame_info"]
    found = [data.read_bytes()[o : o + length - pad] for o, pad, length in info]
    assert found == sample.split_frames()


def test_chunks_have_the_numbers_in_their_names() -> None:
    directory = GulpDirectory(FIXTURES / "gulp-12chunks")
    assert list(directory.chunk_objs_lookup) == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    chunk = directory.chunk_objs_lookup[10]
    assert Path(chunk.data_file_path).name == "data_10.gulp"
    assert Path(chunk.meta_file_path).name == "meta_10.gmeta"
    assert all(directory.chunk_lookup[name] == 10 for name in chunk.meta_dict)
    assert list(directory.chunks()) == list(directory)


@pytest.mark.parametrize("names", [["", "b"], ["_1a", "_1b"]])
def test_chunks_whose_names_have_no_number_of_their_own_are_counted(
    tmp_path: Path, names: list[str]
) -> None:
    write_gulp(tmp_path / "one", {"a": [encode(8, 8)]}, {"a": "x"})
    write_gulp(tmp_path / "two", {"b": [encode(8, 9)]}, {"b": "x"})
    (tmp_path / "g").mkdir()
    for folder, name in zip(("one", "two"), names, strict=True):
        shutil.copy(tmp_path / folder / "data_0.gulp", tmp_path / f"g/data{name}.gulp")
        shutil.copy(tmp_path / folder / "meta_0.gmeta", tmp_path / f"g/meta{name}.gmeta")
    directory = GulpDirectory(tmp_path / "g")
    assert directory.chunk_lookup == {"a": 0, "b": 1}
    assert directory["b"][0][0].shape == (8, 9, 3)


SLICES = [
    slice(None),
    slice(0, 36, 2),
    slice(3, 9),
    slice(-5, None),
    slice(None, None, -3),
    slice(90, 99),
    slice(-99, 99, 7),
    slice(5, 5),
    None,
]


@pytest.mark.parametrize("chosen", SLICES, ids=str)
def test_slices_choose_as_of_a_list(videos: Path, chosen: slice | None) -> None:
    directory = GulpDirectory(videos)
    every, _ = directory["34870"]
    frames, meta = directory["34870", chosen]
    wanted = every if chosen is None else every[chosen]
    assert len(frames) == len(wanted) and meta["id"] == "34870"
    assert all(map(np.array_equal, frames, wanted))


@pytest.mark.parametrize("chosen", [[1, 5, 6, 8], [19, 0, 0, -1], [], [-20], [True]])
@pytest.mark.parametrize("kind", [list, np.array])
def test_lists_and_arrays_choose_frames_in_their_order(
    videos: Path, chosen: Any, kind: Any
) -> None:
    directory = GulpDirectory(videos)
    every, _ = directory["34870"]
    if kind is np.array:
        chosen = np.array([int(k) for k in chosen], np.int32)
    frames, _ = directory["34870", chosen]
    assert isinstance(frames, list) and len(frames) == len(chosen)
    assert all(np.array_equal(frame, every[int(k)]) for frame, k in zip(frames, chosen))


@pytest.mark.parametrize("chosen", [[20], [0, -21], np.array([99])], ids=str)
def test_numbers_outside_the_video_are_an_index_error(videos: Path, chosen: Any) -> None:
    with pytest.raises(IndexError, match="of 20"):
        GulpDirectory(videos)["34870", chosen]


@pytest.mark.parametrize(
    "chosen",
    [3, "0", (1, 2), [1.0], ["a"], np.array([0.5]), np.array([True]), np.zeros((2, 2), int)],
)
def test_frames_that_are_not_numbers_are_a_type_error(videos: Path, chosen: Any) -> None:
    with pytest.raises(TypeError):
        GulpDirectory(videos)["34870", chosen]


@pytest.mark.parametrize("element", [None, 3.5, b"34870", ("34870",), ("34870", 0, 1), ["34870"]])
def test_an_element_without_an_id_is_a_type_error(videos: Path, element: Any) -> None:
    with pytest.raises(TypeError, match="give an id"):
        GulpDirectory(videos)[element]


@pytest.mark.parametrize(
    "name", ["", "0", "../34870", "34870 ", "%", "%33", 0, -1, "a\0b", "\ud800"]
)
def test_an_unknown_id_is_a_key_error(videos: Path, name: Any) -> None:
    directory = GulpDirectory(videos)
    for element in (name, (name, slice(0, 1)), (name, [99])):
        with pytest.raises(KeyError):
            directory[element]
    with pytest.raises(KeyError):
        directory.merged_meta_dict[name]
    assert name not in directory.merged_meta_dict


def test_ids_may_be_integers(videos: Path) -> None:
    directory = GulpDirectory(videos)
    assert np.array_equal(directory[34870, [0]][0], directory["34870", [0]][0])


def test_every_id_of_a_gulp_finds_its_video_after_packing(tmp_path: Path) -> None:
    names = ["a.b", "a%2Eb", "../up", "/abs", "x/y", "dot.", "ü", "line\nbreak", "100%"]
    frames = {name: [encode(8, 9, seed=k)] * 2 for k, name in enumerate(names)}
    gulp = write_gulp(tmp_path / "g", frames, dict.fromkeys(names, "x"))
    headrace.pack_dataset(gulp, tmp_path / "packed")
    directory = GulpDirectory(tmp_path / "packed")
    assert set(directory.merged_meta_dict) == set(names)
    for name, (data, _) in frames.items():
        found, meta = directory[name]
        assert np.array_equal(found[1], pillow(data)) and meta["id"] == name
        assert any(name in chunk for chunk in directory)


def test_keys_of_a_packed_dataset_are_ids_too(tmp_path: Path) -> None:
    gulp = write_gulp(tmp_path / "g", {"a.b": [encode(8, 9)] * 2}, {"a.b": "x"})
    headrace.pack_dataset(gulp, tmp_path / "packed")
    directory = GulpDirectory(tmp_path / "packed")
    (sample,) = headrace.open_dataset(tmp_path / "packed")
    assert sample.key == "a%2Eb"
    assert np.array_equal(directory[sample.key][0], directory["a.b"][0])
    assert directory.merged_meta_dict[sample.key] == directory.merged_meta_dict["a.b"]


def test_a_gulp_that_is_indexed_in_place_reads_the_same(gulp: Path, tmp_path: Path) -> None:
    headrace.index_dataset(gulp, out=tmp_path / "index")
    one, other = GulpDirectory(gulp), GulpDirectory(tmp_path / "index")
    assert list(other.chunk_lookup) == list(one.chunk_lookup)
    for name in one.merged_meta_dict:
        assert all(map(np.array_equal, one[name][0], other[name][0]))
        assert one[name, :1][1] == other[name, :1][1]


def test_other_metadata_survive_packing(tmp_path: Path) -> None:
    gulp = write_gulp(tmp_path / "g", {"a": [encode(8, 8)] * 2}, {"a": "x"})
    content = json.loads((gulp / "meta_0.gmeta").read_text())
    content["a"]["meta_data"] = [{"id": "a", "label": "x", "idx": 0, "fps": 12.5, "tags": ["u"]}]
    (gulp / "meta_0.gmeta").write_text(json.dumps(content))
    headrace.pack_dataset(gulp, tmp_path / "packed")
    metas = [GulpDirectory(path)["a"][1] for path in (gulp, tmp_path / "packed")]
    assert metas[0] == metas[1] == content["a"]["meta_data"][0]


def test_the_metadata_that_are_returned_may_be_changed(videos: Path) -> None:
    directory = GulpDirectory(videos)
    directory["34870", :1][1]["label"] = "changed"
    assert directory["34870", :1][1]["label"] == "Swiping Left"


def test_chunks_iterate_over_frames_and_metadata(videos: Path) -> None:
    directory = GulpDirectory(videos)
    found = [(frames, meta) for chunk in directory for frames, meta in chunk]
    assert [meta["id"] for _, meta in found] == list(directory.merged_meta_dict)
    for frames, meta in found:
        assert all(map(np.array_equal, frames, directory[meta["id"]][0]))


def test_iter_all_takes_accepted_ids_and_shuffles(videos: Path) -> None:
    chunk = next(chunk for chunk in GulpDirectory(videos) if len(chunk.meta_dict) > 1)
    ids = list(chunk.meta_dict)
    accepted = [*ids[1:][::-1], "unknown"]
    assert [meta["id"] for _, meta in chunk.iter_all(accepted)] == ids[1:]
    assert list(chunk.iter_all([])) == []
    orders = set()
    for seed in range(8):
        np.random.seed(seed)
        orders.add(tuple(meta["id"] for _, meta in chunk.iter_all(shuffle=True)))
    assert len(orders) > 1 and {frozenset(order) for order in orders} == {frozenset(ids)}


def test_a_chunk_opens_on_its_own(gulp: Path) -> None:
    chunk = GulpChunk(gulp / "data_0.gulp", gulp / "meta_0.gmeta")
    with chunk.open("rb"):
        frames, meta = chunk["34870", 2:4]
    assert meta["label"] == "Swiping Left" and "34870" in chunk and 34870 in chunk
    assert all(map(np.array_equal, frames, GulpDirectory(gulp)["34870", 2:4][0]))
    assert "no" not in chunk
    with pytest.raises(NotImplementedError, match="export"), chunk.open("wb"):
        pass
    with pytest.raises(SourceError, match="data_9"):
        GulpChunk(gulp / "data_9.gulp", gulp / "meta_0.gmeta")


def test_a_decoder_of_ones_own_gets_the_bytes_of_each_frame(gulp: Path, videos: Path) -> None:
    directory = GulpDirectory(videos, jpeg_decoder=bytes)
    sample = read_gulp(gulp)["56557"]
    assert directory["56557", 1:8:3][0] == sample.split_frames()[1:8:3]
    assert isinstance(directory["56557", [0]][0][0], bytes)


def test_frames_of_one_video_may_differ_in_size(tmp_path: Path) -> None:
    sizes = [(8, 9), (16, 12), (8, 9), (40, 4)]
    path, data = write_photos(tmp_path / "g", sizes)
    frames, _ = GulpDirectory(path)["v"]
    assert [frame.shape[:2] for frame in frames] == sizes
    assert all(np.array_equal(frame, pillow(one)) for frame, one in zip(frames, data))


def test_grey_frames_have_two_dimensions_as_in_gulpio(tmp_path: Path) -> None:
    path, data = write_photos(tmp_path / "g", [(8, 9), (8, 9)], mode="L")
    frames, _ = GulpDirectory(path)["v"]
    assert [frame.shape for frame in frames] == [(8, 9)] * 2
    assert np.array_equal(frames[1], np.asarray(Image.open(io.BytesIO(data[1]))))
    assert frames[1].flags.c_contiguous


def test_progressive_frames_are_decoded_by_pillow(tmp_path: Path) -> None:
    path, data = write_photos(tmp_path / "g", [(24, 32)] * 3, progressive=True)
    assert all(map(np.array_equal, GulpDirectory(path)["v"][0], map(pillow, data)))


def test_images_are_videos_of_one_frame(packed: Path, folder: Path) -> None:
    directory = GulpDirectory(packed)
    dataset = headrace.open_dataset(packed)
    assert len(directory.merged_meta_dict) == len(dataset)
    for sample in dataset[::9]:
        (image,), meta = directory[sample.key]
        assert np.array_equal(image, pillow(sample["jpg"]))
        assert directory.label2idx[meta["label"]] == sample.label == meta["idx"]
    assert set(GulpDirectory(folder).label2idx) == set(directory.label2idx)


def test_keys_that_would_share_an_id_are_the_ids(tmp_path: Path) -> None:
    photos = {"a%41.jpg": encode(8, 9), "aA.jpg": encode(9, 8)}
    directory = GulpDirectory(index_tar(tmp_path / "t", photos))
    assert set(directory.merged_meta_dict) == {"a%41", "aA"}
    assert [directory[name][0][0].shape[:2] for name in ("a%41", "aA")] == [(8, 9), (9, 8)]


def test_labels_without_names_have_numbers(tmp_path: Path) -> None:
    photos = {"a.jpg": encode(8, 9), "a.cls": b"7", "b.jpg": encode(8, 9), "b.cls": b"2"}
    directory = GulpDirectory(index_tar(tmp_path / "t", photos))
    assert sorted(directory.label2idx.values()) == [2, 7]
    assert directory.label2idx[directory["a"][1]["label"]] == 7 == directory["a"][1]["idx"]


def test_a_sample_with_several_images_or_none_is_an_error(tmp_path: Path) -> None:
    two = index_tar(tmp_path / "two", {"a.left.jpg": encode(8, 8), "a.right.jpg": encode(8, 8)})
    with pytest.raises(SourceError, match=r"several of \['left.jpg', 'right.jpg'\]; one is needed"):
        GulpDirectory(two)
    text = index_tar(tmp_path / "text", {"a.txt": b"words"})
    with pytest.raises(SourceError, match=r"\['txt'\]; one video or image is needed"):
        GulpDirectory(text)
    some = index_tar(tmp_path / "some", {"a.jpg": encode(8, 8), "b.txt": b"words"})
    directory = GulpDirectory(some)
    assert len(directory["a"][0]) == 1 and directory.merged_meta_dict["b"]["frame_info"] == []
    with pytest.raises(CorruptError, match=r"a\.tar: b: it has no jpg"):
        directory["b"]


def test_numbers_without_a_label_are_not_labels_after_packing(tmp_path: Path) -> None:
    path, _ = write_photos(tmp_path / "g", [(8, 8)] * 2)
    (path / "label2idx.json").write_text('{"x": 2}')
    headrace.pack_dataset(path, tmp_path / "p")
    assert GulpDirectory(tmp_path / "p").label2idx == GulpDirectory(path).label2idx == {"x": 2}


def test_a_folder_without_videos_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        GulpDirectory(tmp_path)
    with pytest.raises(FileNotFoundError):
        GulpDirectory(tmp_path / "nowhere")
    (tmp_path / "data_0.gulp").touch()
    (tmp_path / "meta_0.gmeta").write_text("{}")
    with pytest.raises(SourceError, match="no videos"):
        GulpDirectory(tmp_path)


def test_an_id_in_two_chunks_is_an_error(tmp_path: Path) -> None:
    path, _ = write_photos(tmp_path / "g", [(8, 8)])
    for name in ("data_{}.gulp", "meta_{}.gmeta"):
        shutil.copy(path / name.format(0), path / name.format(3))
    with pytest.raises(SourceError, match="the id v is in the chunks 0 and 3"):
        GulpDirectory(path)


@pytest.mark.parametrize("entry", hostile("gulp"), ids=lambda entry: entry["dir"][5:])
def test_a_hostile_video_is_an_error_and_the_others_stay_readable(entry: dict[str, Any]) -> None:
    try:
        directory = GulpDirectory(FIXTURES / "hostile" / entry["dir"])
    except SourceError:
        assert "v1" not in entry["must"]
        return
    for name, info in directory.merged_meta_dict.items():
        try:
            assert len(directory[name][0]) == len(info["frame_info"]) > 0
        except (SourceError, DecodeError) as error:
            assert str(FIXTURES) in str(error)
            assert not (name == "v1" and "v1" in entry["must"])


def test_a_frame_that_does_not_decode_is_named(tmp_path: Path) -> None:
    good = encode(16, 16)
    for bad in (b"not a JPEG", good[:-200], good[:30]):
        path = write_gulp(tmp_path / "g", {"v": [good, bad, good]}, {"v": "x"})
        directory = GulpDirectory(path)
        assert len(directory["v", ::2][0]) == 2
        with pytest.raises(DecodeError, match=r"data_0\.gulp: v, frame 1: "):
            directory["v", [2, 1]]


def test_a_frame_that_claims_to_be_huge_takes_no_memory(tmp_path: Path) -> None:
    huge = bytearray(encode(16, 16))
    at = huge.index(b"\xff\xc0") + 5
    huge[at : at + 4] = b"\xff\xff\xff\xff"
    directory = GulpDirectory(write_gulp(tmp_path / "g", {"v": [bytes(huge)]}, {"v": "x"}))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="more pixels than the limit"):
            directory["v"]
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_changed_bytes_of_a_packed_frame_are_an_error(gulp: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(gulp, tmp_path / "p")
    directory = GulpDirectory(tmp_path / "p")
    offset, _, size = directory.merged_meta_dict["34870"]["frame_info"][3]
    with open(directory.chunk_objs_lookup[0].data_file_path, "r+b") as file:
        file.seek(offset + size // 2)
        file.write(b"\x01\x02")
    assert len(directory["34870", :3][0]) == 3
    with pytest.raises(CorruptError, match="34870, frame 3: the data does not have its CRC-32C"):
        directory["34870", 2:5]


def test_a_gulp_that_changed_is_an_error(tmp_path: Path) -> None:
    path, _ = write_photos(tmp_path / "g", [(8, 8)])
    directory = GulpDirectory(path)
    with open(path / "data_0.gulp", "ab") as file:
        file.write(b"more")
    with pytest.raises(SourceChangedError, match="changed after it was opened"):
        directory["v"]


def test_a_file_that_ends_early_is_an_error(gulp: Path, tmp_path: Path) -> None:
    path, _ = write_photos(tmp_path / "g", [(8, 8)] * 3)
    headrace.pack_dataset(gulp, tmp_path / "p")
    for root, name, error in ((path, "v", SourceError), (tmp_path / "p", "34870", CorruptError)):
        directory = GulpDirectory(root)
        assert directory[name, :1][0]
        data = directory.chunk_objs_lookup[0].data_file_path
        os.truncate(data, directory.merged_meta_dict[name]["frame_info"][1][0] + 5)
        with pytest.raises(error, match=f"ends inside .*, for {name}"):
            directory[name]
    with pytest.raises(CorruptError, match=os.strerror(errno.ENOENT)):
        missing = GulpDirectory(tmp_path / "p")
        os.unlink(missing.chunk_objs_lookup[0].data_file_path)
        missing["34870"]


def test_threads_share_a_directory(videos: Path) -> None:
    directory = GulpDirectory(videos)
    wanted = {name: directory[name][0] for name in directory.merged_meta_dict}
    fresh = GulpDirectory(videos)

    def check(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        for name in rng.permutation(list(wanted)).tolist():
            numbers = rng.integers(0, len(wanted[name]), 5)
            frames, meta = fresh[name, numbers]
            if meta["id"] != name:
                return False
            if not all(np.array_equal(f, wanted[name][k]) for f, k in zip(frames, numbers)):
                return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(check, range(48)))


def test_files_are_opened_once_and_closed_with_the_directory(
    videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    before = list_descriptors()
    directory = GulpDirectory(videos)
    for name in directory.merged_meta_dict:
        directory[name, :1]
    opened = list_descriptors() - before
    assert opened == {chunk.data_file_path for chunk in directory}
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", None)  # whoever opens a file now fails
        for name in directory.merged_meta_dict:
            directory[name, :1]
    copy = pickle.loads(pickle.dumps(directory))
    assert copy["34870", :1][1] == directory["34870", :1][1]
    del directory, copy
    assert list_descriptors() == before


def test_an_error_leaves_no_file_open(tmp_path: Path) -> None:
    path = write_gulp(tmp_path / "g", {"v": [b"not a JPEG"]}, {"v": "x"})
    before = list_descriptors()
    for _ in range(20):
        with pytest.raises(DecodeError):
            GulpDirectory(path)["v"]
    assert list_descriptors() == before


def test_a_quarter_of_the_descriptors_is_enough_for_any_number_of_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = write_photos(tmp_path / "g", [(8, 8)])
    content = (path / "meta_0.gmeta").read_text()
    for k in range(1, 40):
        shutil.copy(path / "data_0.gulp", path / f"data_{k}.gulp")
        (path / f"meta_{k}.gmeta").write_text(content.replace('"v"', f'"v{k}"'))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (32, 32))
    directory = GulpDirectory(path)
    before = list_descriptors()
    for _ in range(2):
        for name in directory.merged_meta_dict:
            assert len(directory[name][0]) == 1
    opened = {link for link in list_descriptors() - before if link.endswith(".gulp")}
    assert len(opened) == 8


def test_far_frames_are_read_without_what_lies_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = [encode(400, 400, seed=k, quality=98) for k in range(9)]
    directory = GulpDirectory(write_gulp(tmp_path / "g", {"v": noise}, {"v": "x"}))
    directory["v", :1]
    read = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: read.append(size) or pread(fd, size, at))
    directory["v", ::4]
    assert sorted(read) == sorted(map(len, noise[::4]))
    read.clear()
    directory["v", 2:8]
    assert len(read) == 1 and sum(map(len, noise[2:8])) <= read[0]
