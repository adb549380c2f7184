"""GulpIO's datasets: clips of videos, and images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from formats.making import write_gulp
from headrace.compat.gulpio import GulpDirectory, GulpImageDataset, GulpVideoDataset
from headrace.errors import SourceError
from images import encode


def write_numbered(root: Path, counts: dict[str, int]) -> Path:
    """A gulp whose frame `k` of every video is `k` + 1 pixels wide."""
    frames = [encode(8, k + 1) for k in range(max(counts.values()))]
    videos = {name: frames[:count] for name, count in counts.items()}
    return write_gulp(root, videos, dict.fromkeys(videos, "x"))


def read_numbers(clip: Any) -> list[int]:
    return [frame.shape[1] - 1 for frame in clip]


@pytest.mark.parametrize("count", [1, 2, 9, 10, 30, 34, 35, 36, 37, 50])
def test_a_clip_is_sliced_and_then_filled_up_with_its_last_frame(
    tmp_path: Path, count: int
) -> None:
    path = write_numbered(tmp_path / "g", {"v": count})
    dataset = GulpVideoDataset(path, 18, 2, is_val=True, stack=False)
    wanted = list(range(count))[0:36:2]
    wanted += wanted[-1:] * (18 - len(wanted))
    assert read_numbers(dataset[0][0]) == wanted and len(wanted) == 18


def test_starts_are_gulpios_for_the_same_seed(tmp_path: Path) -> None:
    path = write_numbered(tmp_path / "g", {"v": 20})
    dataset = GulpVideoDataset(path, 4, 3, is_val=False, stack=False)
    starts = set()
    for seed in range(60):
        np.random.seed(seed)
        start = np.random.randint(0, 20 - 12)
        np.random.seed(seed)
        assert read_numbers(dataset[0][0]) == list(range(start, start + 12, 3))
        starts.add(start)
    assert starts == set(range(8))


def test_without_random_offset_clips_begin_with_the_first_frame(tmp_path: Path) -> None:
    path = write_numbered(tmp_path / "g", {"v": 20})
    for options in ({"is_val": True}, {"is_val": False, "random_offset": False}):
        dataset = GulpVideoDataset(path, 4, 3, stack=False, **options)
        assert all(read_numbers(dataset[0][0]) == [0, 3, 6, 9] for _ in range(20))


def test_minus_one_takes_the_whole_video(tmp_path: Path) -> None:
    path = write_numbered(tmp_path / "g", {"v": 7})
    dataset = GulpVideoDataset(path, -1, 2, is_val=False, stack=False)
    assert read_numbers(dataset[0][0]) == [0, 2, 4, 6]


def test_samples_are_clips_and_numbers_of_labels(gulp: Path, videos: Path) -> None:
    dataset = GulpVideoDataset(videos, 6, 1, is_val=True)
    directory = GulpDirectory(gulp)
    assert len(dataset) == 12 and sorted(dataset.ids) == sorted(directory.merged_meta_dict)
    assert dataset.classes == list(dataset.label2idx) == list(directory.label2idx)
    for id_, (clip, target) in zip(dataset.ids, (dataset[i] for i in range(12)), strict=True):
        frames, meta = directory[id_, :6]
        assert np.array_equal(clip, np.stack(frames))
        assert target == meta["idx"] == dataset.label2idx[meta["label"]]
    with pytest.raises(IndexError):
        dataset[12]


def test_transforms_get_the_frames_and_the_number(gulp: Path) -> None:
    dataset = GulpVideoDataset(
        gulp, 3, 1, True, lambda frames: [f[:5, :4] for f in frames], lambda target: target + 100
    )
    clip, target = dataset[0]
    assert clip.shape == (3, 5, 4, 3) and target == 101


@pytest.fixture
def images(tmp_path: Path) -> Path:
    photos = {str(k): [encode(8 + k, 9, seed=k)] for k in range(4)}
    return write_gulp(tmp_path / "images", photos, {"0": "b", "1": "a", "2": "b", "3": "c"})


def test_an_image_dataset_gives_images_and_numbers(images: Path, tmp_path: Path) -> None:
    headrace.pack_dataset(images, tmp_path / "packed")
    one, other = GulpImageDataset(images), GulpImageDataset(tmp_path / "packed")
    assert [one[i][1] for i in range(len(one))] == [1, 0, 1, 2]
    for i, id_ in enumerate(one.ids):
        same, target = other[other.ids.index(id_)]
        assert np.array_equal(one[i][0], same) and target == one[i][1]
        assert same.shape == (8 + int(id_), 9, 3)


def test_transforms_of_images_are_applied(images: Path) -> None:
    image, target = GulpImageDataset(images, True, lambda image: image[:2, :3], str)[2]
    assert image.shape == (2, 3, 3) and target == "1"


def test_a_video_is_not_an_image(gulp: Path) -> None:
    with pytest.raises(SourceError, match="'34870' has 20 frames; use GulpVideoDataset"):
        GulpImageDataset(gulp)[0]


def test_a_label_without_a_number_is_an_error(images: Path) -> None:
    (images / "label2idx.json").write_text('{"a": 0}')
    dataset = GulpImageDataset(images)
    assert dataset[1][1] == 0
    with pytest.raises(SourceError, match="'0' has the label 'b', which has no number"):
        dataset[0]


def test_without_label2idx_labels_are_numbered_in_sorted_order(images: Path) -> None:
    (images / "label2idx.json").unlink()
    assert GulpImageDataset(images).label2idx == {"a": 0, "b": 1, "c": 2}
