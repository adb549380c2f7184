"""Clips: frames of one video with one draw, exactly as Pillow renders them, and all that holds for images."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headrace
from headrace import Loader, Mixture, Sample, open_dataset
from headrace.errors import DecodeError
from headrace.plan import (
    CROP_UNIFORMS,
    Stream,
    draw_uniforms,
    random_flip,
    random_resized_crop,
)
from headrace.render import Jobs, build_seek
from headrace.serve import renderer
from headrace.transforms import (
    CenterCrop,
    Clip,
    ColorJitter,
    Normalize,
    OnArray,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ThreeCrop,
)
from images import encode
from videos import decode_frame, join_frames, make_video, render_frame, save_videos

SIZE = (60, 80)
LENGTHS = (1, 2, 9, 17, 30, 12, 25, 40, 5, 31, 22, 16)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    samples = [make_video(i, length, SIZE) for i, length in enumerate(LENGTHS)]
    return save_videos(tmp_path_factory.mktemp("videos") / "packed", samples)


# Clips that cover most of these videos are read with the whole videos, others one by one.
WHOLE, SPAN = Clip(8, step=5), Clip(3, step=2)
both = pytest.mark.parametrize("clip", [WHOLE, SPAN], ids=["whole videos", "spans"])


def load(source: Any, *steps: Any, **options: Any) -> Loader:
    return Loader(source, options.pop("batch_size", 4), transform=list(steps), **options)


def list_batches(loader: Any) -> list[tuple[np.ndarray, ...]]:
    return [(np.asarray(b[0]), np.asarray(b[1]), b.rows, b.clips) for b in loader]


def are_equal(first: Any, second: Any) -> bool:
    return len(first) == len(second) and all(
        all(np.array_equal(a, b) for a, b in zip(x, y, strict=True))
        for x, y in zip(first, second, strict=True)
    )


def test_the_two_ways_of_reading_are_both_tested(videos: Path) -> None:
    assert not load(videos, WHOLE, CenterCrop(32))._epochs.reads_spans
    assert load(videos, SPAN, CenterCrop(32))._epochs.reads_spans


@both
def test_a_thousand_clips_are_those_of_pillow(videos: Path, clip: Clip) -> None:
    dataset, seen = open_dataset(videos), 0
    samples = [dataset[i] for i in range(len(dataset))]
    loader = load(videos, clip, RandomResizedCrop((24, 28)), RandomHorizontalFlip(), shuffle=True)
    for epoch in range(42):
        loader.set_epoch(epoch)
        for batch in loader:
            crops = draw_uniforms(0, epoch, Stream.CROP, batch.draws, CROP_UNIFORMS)
            flips = random_flip(draw_uniforms(0, epoch, Stream.FLIP, batch.draws, 1)[:, 0])
            sides = [np.full(len(batch.rows), side) for side in SIZE]
            boxes = random_resized_crop(*sides, crops)
            for i, row in enumerate(batch.rows.tolist()):
                for t, frame in enumerate(batch.clips[i].tolist()):
                    expected = render_frame(samples[row], frame, boxes[i], (24, 28), flips[i])
                    assert np.array_equal(batch[0][i, t], expected)
                seen += 1
    assert seen == 42 * len(LENGTHS) > 500


@both
def test_frames_follow_the_policy(videos: Path, clip: Clip) -> None:
    for batch in load(videos, clip, CenterCrop(16), shuffle=True):
        for row, frames in zip(batch.rows.tolist(), batch.clips.tolist(), strict=True):
            count = LENGTHS[row]
            assert frames[0] <= max(count - (clip.frames - 1) * clip.step - 1, 0)
            inside = range(frames[0], count, clip.step)[: clip.frames]
            assert frames == [*inside, *[inside[-1]] * (clip.frames - len(inside))]


@both
def test_batches_depend_on_seed_epoch_and_step_alone(videos: Path, clip: Clip) -> None:
    steps = [clip, RandomResizedCrop(24), RandomHorizontalFlip(), ColorJitter(0.3, 0.3, 0.3)]
    first = list_batches(load(videos, *steps, shuffle=True, threads=1))
    for threads in (2, 7):
        assert are_equal(first, list_batches(load(videos, *steps, shuffle=True, threads=threads)))
    assert not are_equal(first, list_batches(load(videos, *steps, shuffle=True, seed=1)))


@both
def test_an_epoch_resumes_at_every_step(videos: Path, clip: Clip) -> None:
    steps = [clip, RandomResizedCrop(24)]
    whole = list_batches(load(videos, *steps, shuffle=True))
    for taken in range(1, len(whole)):
        loader = load(videos, *steps, shuffle=True)
        batches = iter(loader)
        for _ in range(taken):
            next(batches)
        state = loader.state_dict()
        batches.close()
        resumed = load(videos, *steps, shuffle=True)
        resumed.load_state_dict(state)
        assert are_equal(whole[taken:], list_batches(resumed))


@both
def test_ranks_share_the_same_global_batches(videos: Path, clip: Clip) -> None:
    def load_rank(rank: int, ranks: int) -> list[tuple[np.ndarray, ...]]:
        options = {"rank": rank, "world_size": ranks, "batch_size": 4 // ranks, "shuffle": True}
        return list_batches(load(videos, clip, RandomResizedCrop(24), **options))

    whole = load_rank(0, 1)
    for ranks in (2, 4):
        parts = zip(*(load_rank(rank, ranks) for rank in range(ranks)), strict=True)
        joined = [tuple(map(np.concatenate, zip(*part, strict=True))) for part in parts]
        assert are_equal(whole, joined)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_validation_has_each_video_once(videos: Path, ranks: int) -> None:
    rows = []
    for rank in range(ranks):
        loader = load(
            videos, Clip(2, clips=3, at="uniform"), Resize((16, 16)), rank=rank, world_size=ranks
        )
        for batch in loader:
            assert batch[0].shape[1:] == (3, 2, 16, 16, 3)
            rows += batch.rows[batch.valid].tolist()
    assert sorted(rows) == list(range(len(LENGTHS)))


def test_each_of_several_clips_has_its_own_draws(videos: Path) -> None:
    steps = [Clip(2, clips=3), RandomResizedCrop(16)]
    batch = next(iter(load(videos, *steps, batch_size=12)))
    assert batch[0].shape == (12, 3, 2, 16, 16, 3) and batch.clips.shape == (12, 3, 2)
    one_frame = batch[0][0]  # a video of one frame: the clips differ in their boxes alone
    assert not np.array_equal(one_frame[0], one_frame[1])
    assert np.array_equal(one_frame[0, 0], one_frame[0, 1])


def test_three_crops_show_the_beginning_the_middle_and_the_end(videos: Path) -> None:
    dataset = open_dataset(videos)
    steps = [Clip(2, clips=2, at="uniform"), Resize(40), ThreeCrop(36)]
    batch = next(iter(load(videos, *steps)))
    assert batch[0].shape == (4, 6, 2, 36, 36, 3)
    for row, views, clips in zip(batch.rows.tolist(), batch[0], batch.clips, strict=True):
        for k, left, t in itertools.product(range(2), range(3), range(2)):
            image = decode_frame(dataset[row], int(clips[k, t]))
            image = image.resize((53, 40), Image.Resampling.BILINEAR)
            x = (0, 8, 17)[left]  # round(17 / 2) to even, as CenterCrop
            assert np.array_equal(views[3 * k + left, t], np.asarray(image)[2:38, x : x + 36])


def test_a_batch_of_one_video_keeps_its_size(tmp_path: Path) -> None:
    samples = [make_video(0, 3, (20, 30)), make_video(1, 3, (40, 24))]
    path = save_videos(tmp_path / "packed", samples)
    shapes = [batch[0].shape for batch in load(path, Clip(2), batch_size=1)]
    assert shapes == [(1, 2, 20, 30, 3), (1, 2, 40, 24, 3)]
    with pytest.raises(ValueError, match="differ in size"):
        load(path, Clip(2), batch_size=2)


def test_repeated_rows_have_clips_of_their_own(videos: Path) -> None:
    weights = np.zeros(len(LENGTHS))
    weights[7] = 1  # 40 frames
    loader = load(videos, SPAN, CenterCrop(16), weights=weights, shuffle=True, batch_size=12)
    (batch,) = loader
    assert set(batch.rows.tolist()) == {7} and len(set(batch.clips[:, 0].tolist())) > 4
    sample = open_dataset(videos)[7]
    for clip, frames in zip(batch[0], batch.clips.tolist(), strict=True):
        for pixels, frame in zip(clip, frames, strict=True):
            expected = np.asarray(decode_frame(sample, frame))[22:38, 32:48]
            assert np.array_equal(pixels, expected)


def test_mixtures_of_videos_are_loaded(videos: Path, tmp_path: Path) -> None:
    other = save_videos(
        tmp_path / "other", [replace(make_video(i + 50, 4, SIZE), key=f"x{i}") for i in range(4)]
    )
    loader = load(Mixture([videos, other], [1, 1], samples=16), SPAN, CenterCrop(16), shuffle=True)
    datasets = [open_dataset(videos), open_dataset(other)]
    for batch in loader:
        for row, clip, frames in zip(batch.rows.tolist(), batch[0], batch.clips, strict=True):
            sample = datasets[row >= len(LENGTHS)][row % len(LENGTHS)]
            expected = np.asarray(decode_frame(sample, int(frames[1])))[22:38, 32:48]
            assert np.array_equal(clip[1], expected)


@both
def test_other_fields_come_with_clips(tmp_path: Path, clip: Clip) -> None:
    samples = [
        replace(s, fields={**s.fields, "a.txt": b"%d" % i * 700, "z.txt": b"z%d" % i})
        for i, s in enumerate(make_video(i, length, SIZE) for i, length in enumerate(LENGTHS))
    ]
    path = save_videos(tmp_path / "packed", samples)
    fields = ("image", "key", "a.txt", "z.txt", "label")
    for images, keys, first, last, labels in load(path, clip, CenterCrop(8), fields=fields):
        assert images.shape[1:] == (clip.frames, 8, 8, 3)
        for key, a, z, label in zip(keys, first, last, labels, strict=True):
            number = int(key[-3:])
            assert (a, z, label) == (f"{number}" * 700, f"z{number}", number % 3)


def damage(path: Path, sample: Sample, frame: int) -> None:
    """Change bytes of a frame of a packed video."""
    (shard,) = path.glob("*.tar")
    data = bytearray(shard.read_bytes())
    picture = sample.split_frames()[frame]
    place = data.index(picture) + len(picture) // 2
    data[place] ^= 0xFF
    shard.write_bytes(data)


@both
def test_a_bad_frame_spoils_its_clip_and_not_its_video(tmp_path: Path, clip: Clip) -> None:
    samples = [make_video(i, length, SIZE) for i, length in enumerate(LENGTHS)]
    path = save_videos(tmp_path / "packed", samples)
    damage(path, samples[7], 20)
    bad, good = 0, 0
    loader = load(path, clip, CenterCrop(8), shuffle=True, on_error="skip")
    plain = load(path, clip, CenterCrop(8), shuffle=True, on_error="skip", verify=False)
    for epoch in range(20):
        loader.set_epoch(epoch)
        plain.set_epoch(epoch)
        frames = {int(row): c for batch in plain for row, c in zip(batch.rows, batch.clips)}
        rows: list[int] = []
        errors: list[tuple[str, str]] = []
        for batch in loader:
            rows += batch.rows.tolist()
            errors += batch.errors
        if 20 in frames[7]:
            bad += 1
            assert 7 not in rows
            ((key, reason),) = errors
            assert key == "video007" and reason.startswith("frame 20: its bytes are not those")
        else:
            good += 1
            assert 7 in rows and not errors
    assert bad and good


def test_an_error_names_the_key_and_the_frame(tmp_path: Path) -> None:
    pictures = [encode(*SIZE, seed=k) for k in range(5)]
    pictures[3] = pictures[3][: len(pictures[3]) // 3]
    path = save_videos(tmp_path / "packed", [join_frames("broken", pictures, 0)])
    loader = load(path, Clip(5), CenterCrop(8))
    with pytest.raises(DecodeError, match=r"'broken' in .*frame 3: the data ends before"):
        list(loader)
    assert load(path, Clip(3, at="start"), CenterCrop(8)).__iter__().__next__()[0].shape[1] == 3


@both
def test_other_fields_stay_with_their_clips_where_one_is_left_out(
    tmp_path: Path, clip: Clip
) -> None:
    samples = [
        replace(s, fields={**s.fields, "z.txt": s.key.encode()})
        for s in (make_video(i, length, SIZE) for i, length in enumerate(LENGTHS))
    ]
    path = save_videos(tmp_path / "packed", samples)
    for frame in range(LENGTHS[1]):
        damage(path, samples[1], frame)
    loader = load(path, clip, CenterCrop(8), on_error="skip", fields=("image", "key", "z.txt"))
    for _, keys, texts in loader:
        assert keys == texts and samples[1].key not in keys


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_a_frame_of_another_size_is_a_bad_frame(tmp_path: Path, format: str) -> None:
    pictures = [encode(*SIZE, seed=k) for k in range(3)]
    pictures.append(encode(120, 160, seed=3, format=format))
    path = save_videos(tmp_path / "packed", [join_frames("mixed", pictures, 0)])
    with pytest.raises(DecodeError, match="frame 3: it is not of 80 x 60 pixels"):
        list(load(path, Clip(4), CenterCrop(8)))


def test_a_damaged_video_is_a_bad_sample(tmp_path: Path) -> None:
    samples = [make_video(0, 4, SIZE), Sample("empty", {"mjpg": b"no frames"}, 1)]
    path = save_videos(tmp_path / "packed", samples)
    loader = load(path, Clip(2), CenterCrop(8), on_error="skip")
    assert [batch.rows.tolist() for batch in loader] == [[0]]
    assert loader.stats().errors == (("empty", "it did not decode when it was indexed"),)


def test_short_videos_are_errors_on_request(videos: Path) -> None:
    loader = load(videos, Clip(16, short="error"), CenterCrop(8), on_error="skip")
    rows = [row for batch in loader for row in batch.rows.tolist()]
    assert rows == [row for row, length in enumerate(LENGTHS) if length >= 16]
    assert (
        "video002",
        "its 9 frames are too few for Clip(16, short='error')",
    ) in loader.stats().errors
    with pytest.raises(DecodeError, match="'video000'.*its 1 frames are too few"):
        list(load(videos, Clip(16, short="error"), CenterCrop(8)))


def test_short_videos_loop_on_request(videos: Path) -> None:
    (batch,) = load(videos, Clip(10, at="start", short="loop"), CenterCrop(8), batch_size=12)
    assert batch.clips[2].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]


def test_segments_cover_the_video(videos: Path) -> None:
    (batch,) = load(videos, Clip(4, at="segments"), CenterCrop(8), batch_size=12)
    assert batch.clips[7].tolist() == [5, 15, 25, 35]
    found = set()
    loader = load(videos, Clip(4, at="segments", jitter=True), CenterCrop(8), batch_size=12)
    for epoch in range(5):
        loader.set_epoch(epoch)
        for batch in loader:
            found.add(tuple(batch.clips[7].tolist()))
    assert len(found) == 5
    assert all(10 * j <= frame < 10 * j + 10 for clip in found for j, frame in enumerate(clip))


def save_with_rates(path: Path) -> Path:
    times = [0.0, 0.1, 0.2, 0.9, 1.0, 1.1, 1.2, 1.3]
    samples = [
        make_video(0, 40, SIZE, fps={"mjpg": 30.0}),
        make_video(1, 40, SIZE, fps={"mjpg": 20.0}),
        make_video(2, 8, SIZE, fps={"mjpg": 6.15}, times={"mjpg": times}),
    ]
    return save_videos(path, samples)


def test_clips_of_a_rate_take_the_frames_that_a_player_shows(tmp_path: Path) -> None:
    path = save_with_rates(tmp_path / "packed")
    (batch,) = load(path, Clip(6, fps=10, at="start"), CenterCrop(8))
    assert batch.clips.tolist() == [
        [0, 3, 6, 9, 12, 15],
        [0, 2, 4, 6, 8, 10],
        [0, 1, 2, 2, 2, 2],
    ]
    (batch,) = load(path, Clip(3, fps=2, at="start"), CenterCrop(8))
    assert batch.clips[2].tolist() == [0, 2, 4]


def test_random_clips_of_a_varying_rate_fit_into_the_video(tmp_path: Path) -> None:
    path = save_with_rates(tmp_path / "packed")
    loader, starts = load(path, Clip(3, fps=4), CenterCrop(8)), set()
    for epoch in range(60):
        loader.set_epoch(epoch)
        for batch in loader:
            starts.add(tuple(batch.clips[2].tolist()))
    assert starts == {(0, 2, 2), (1, 2, 2), (2, 2, 2), (3, 5, 7)}


def test_a_rate_needs_rates(videos: Path) -> None:
    with pytest.raises(
        ValueError, match="frame rate of 12 videos is not known, such as 'video000'"
    ):
        load(videos, Clip(4, fps=10), CenterCrop(8))


def draw_once(image: Image.Image) -> np.ndarray:
    """The user's own augmentation: one random number for the whole picture."""
    return np.full((4, 4, 3), random.randrange(256), np.uint8)


@pytest.mark.parametrize("workers", [0, 1])
def test_python_steps_draw_once_per_clip(videos: Path, workers: int) -> None:
    steps = [Clip(3, clips=2), CenterCrop(8), draw_once]
    batches = list(load(videos, *steps, num_workers=workers))
    values = np.concatenate([batch[0] for batch in batches])
    assert values.shape == (12, 2, 3, 4, 4, 3)
    assert (values == values[:, :, :1, :1, :1, :1]).all()
    assert len(np.unique(values)) > 15
    assert [batch.clips.shape for batch in batches] == [(4, 2, 3)] * 3


def test_python_can_be_first(tmp_path: Path) -> None:
    samples = [make_video(0, 3, (20, 30)), make_video(1, 3, (40, 24))]
    path = save_videos(tmp_path / "packed", samples)
    own = [Clip(2, at="start"), OnArray(lambda pixels: pixels[:9, :9].copy())]
    (batch,) = load(path, *own, num_workers=0)
    assert batch[0].shape == (2, 2, 9, 9, 3)
    for sample, clip in zip(samples, batch[0], strict=True):
        assert np.array_equal(clip[1], np.asarray(decode_frame(sample, 1))[:9, :9])


def test_normalize_after_python_makes_floats(videos: Path) -> None:
    steps = [Clip(2), CenterCrop(8), OnArray(lambda pixels: pixels[::-1].copy()), Normalize()]
    (batch,) = load(videos, *steps, num_workers=0, batch_size=12)
    (plain,) = load(videos, Clip(2), CenterCrop(8), Normalize(), batch_size=12)
    assert batch[0].dtype == np.float32
    assert np.array_equal(batch[0], plain[0][:, :, ::-1])


def test_collate_fn_gets_a_clip_in_one_value(videos: Path) -> None:
    shapes: list[Any] = []

    def collate(samples: list[Any]) -> int:
        shapes.extend(image.shape for image, label in samples)
        return len(samples)

    steps = [Clip(2), CenterCrop(8), OnArray(lambda pixels: pixels.copy())]
    sizes = list(load(videos, *steps, num_workers=0, collate_fn=collate))
    assert sizes == [4, 4, 4] and shapes == [(2, 8, 8, 3)] * 12


def test_stats_count_clips_and_frames(videos: Path) -> None:
    loader = load(videos, Clip(3, clips=2, at="uniform"), Resize(16), ThreeCrop(16))
    list(loader)
    stats = loader.stats()
    assert (stats.images, stats.frames) == (12, 12 * 18)
    assert stats.frames_per_second == pytest.approx(18 * stats.images_per_second)


def test_printing_names_the_clip(videos: Path) -> None:
    lines = str(load(videos, Clip(3, step=2), CenterCrop(8))).splitlines()[1:]
    assert [line.split("  ")[1] for line in lines] == [
        "Clip(3, step=2)",
        "decode",
        "CenterCrop(size=8)",
    ]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "photos/a").mkdir(parents=True)
    (tmp_path / "photos/a/1.jpg").write_bytes(encode(*SIZE))
    return tmp_path / "photos"


def test_mistakes_are_named_at_once(videos: Path, photos: Path) -> None:
    mistakes = [
        (photos, [Clip(2), CenterCrop(8)], "has no videos, its fields are .*leave Clip out"),
        (videos, [CenterCrop(8)], "holds videos .mjpg.: begin the transform with .*Clip"),
        (videos, [CenterCrop(8), Clip(2)], "put one Clip first"),
        (videos, [Clip(2), Clip(2)], "put one Clip first"),
        (photos, [Resize(8), ThreeCrop(8)], "begin the transform with Clip"),
        (videos, [Clip(2), CenterCrop(8), ThreeCrop(8)], "leave one of them out"),
    ]
    for source, steps, reason in mistakes:
        with pytest.raises(ValueError, match=reason):
            load(source, *steps)
    with pytest.raises(TypeError, match=r"give Clip\(...\)"):
        load(videos, Clip, CenterCrop(8))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"frames": 0}, "frames must be an integer of at least 1"),
        ({"frames": 2, "step": 0}, "step must be"),
        ({"frames": 2, "clips": 0}, "clips must be"),
        ({"frames": 2, "at": "end"}, "at must be one of random, uniform, segments, start"),
        ({"frames": 2, "short": "drop"}, "short must be one of last, loop, error"),
        ({"frames": 2, "fps": 0}, "fps is 0; give a positive"),
        ({"frames": 2, "fps": 5, "step": 2}, "give one of them"),
        ({"frames": 2, "at": "segments", "step": 2}, "leave step and fps out"),
    ],
)
def test_options_of_a_clip_are_checked(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Clip(**options)


def test_the_public_names_are_there() -> None:
    assert {"Clip", "ThreeCrop"} <= set(headrace.transforms.__all__)


@both
def test_every_frame_has_its_own_seek_table(
    tmp_path: Path, clip: Clip, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = [make_video(i, length, (200, 240)) for i, length in enumerate((12, 40, 25, 33))]
    path = save_videos(tmp_path / "packed", samples)
    found: list[tuple[bytes, bytes]] = []

    def note_jobs(images: Any, draws: Any, seeks: Any, *rest: Any) -> Jobs:
        found.extend((bytes(i), bytes(s)) for i, s in zip(images, seeks, strict=True))
        return Jobs(images, draws, seeks, *rest)

    monkeypatch.setattr(renderer, "Jobs", note_jobs)
    list(load(path, clip, RandomResizedCrop(24), shuffle=True))
    assert len(found) == 4 * clip.frames and any(seek for _, seek in found)
    assert all(seek == build_seek(image) for image, seek in found)


def test_python_first_names_a_changed_frame_too(tmp_path: Path) -> None:
    samples = [make_video(0, 5, (20, 30)), make_video(1, 5, (40, 24))]
    path = save_videos(tmp_path / "packed", samples)
    damage(path, samples[1], 3)
    own = OnArray(lambda pixels: pixels[:9, :9].copy())
    loader = load(path, Clip(5), own, num_workers=0, on_error="skip")
    assert [batch.rows.tolist() for batch in loader] == [[0]]
    ((key, reason),) = loader.stats().errors
    assert key == "video001" and reason.startswith("frame 3: its bytes are not those")


@both
def test_clips_decode_without_their_seek_tables(tmp_path: Path, clip: Clip) -> None:
    samples = [make_video(i, length, (200, 240)) for i, length in enumerate((12, 40, 25, 33))]
    path = save_videos(tmp_path / "packed", samples)
    expected = list_batches(load(path, clip, RandomResizedCrop(24)))
    dataset = open_dataset(path)
    (tables,) = path.glob("*.seek")
    tables.unlink()
    assert are_equal(expected, list_batches(load(dataset, clip, RandomResizedCrop(24))))
