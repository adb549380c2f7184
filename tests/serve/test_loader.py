"""The content of batches: pixels, order, coverage, resuming."""

from __future__ import annotations

import io
import json
import pickle
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from numpy.typing import NDArray
from PIL import Image

import headrace
from formats.making import write_tar
from headrace import Loader, Mixture
from headrace._core import build_seek
from headrace.transforms import (
    CenterCrop,
    ColorJitter,
    Lighting,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
)
from images import encode

CROP = [RandomResizedCrop(24), RandomHorizontalFlip()]


def epoch_bytes(loader: Loader, epoch: int = 0) -> list[bytes]:
    loader.set_epoch(epoch)
    return [images.tobytes() + labels.tobytes() for images, labels in loader]


def epoch_rows(loader: Loader, epoch: int = 0) -> list[np.ndarray]:
    loader.set_epoch(epoch)
    return [batch.rows[batch.valid] for batch in loader]


def picture(dataset: headrace.Dataset, row: int) -> Image.Image:
    sample = dataset[row]
    data = sample.get("jpg") or sample.get("png")
    return Image.open(io.BytesIO(data)).convert("RGB")


def test_batches_are_the_pixels_of_the_boxes_that_the_plan_draws(packed: Path) -> None:
    loader = Loader(packed, 16, shuffle=True, transform=CROP, seed=3)
    dataset = headrace.open_dataset(packed)
    heights, widths = loader._epochs.table.columns.height, loader._epochs.table.columns.width
    from headrace.recipe.core_recipe import Randomness

    for batch in loader:
        images, labels = batch
        drawn = loader._contents.pipelines[0].recipe.draw(
            Randomness(3, 0, batch.rows), heights[batch.rows], widths[batch.rows]
        )
        assert images.dtype == np.uint8 and images.shape[1:] == (24, 24, 3)
        assert labels.dtype == np.int64
        for i, row in enumerate(batch.rows):
            left, top, width, height = drawn.boxes[i].tolist()
            image = picture(dataset, int(row)).crop((left, top, left + width, top + height))
            image = image.resize((24, 24), Image.Resampling.BILINEAR)
            if drawn.flips is not None and drawn.flips[i]:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            assert np.array_equal(images[i], np.asarray(image)), dataset[int(row)].key
            assert labels[i] == dataset[int(row)].label


@pytest.mark.parametrize(
    "steps",
    [
        [Resize(30), CenterCrop(24)],
        [Resize(20, interpolation="bicubic"), CenterCrop((18, 26))],
        [Resize(40, max_size=50), CenterCrop(64)],
        [CenterCrop(48)],
        [Resize((33, 21))],
    ],
    ids=["usual", "bicubic", "padded", "crop only", "fixed"],
)
def test_validation_crops_are_torchvisions_to_the_last_bit(
    packed: Path, torchvision, steps: list
) -> None:
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms import transforms as tv

    theirs = []
    for step in steps:
        if isinstance(step, Resize):
            mode = InterpolationMode(step.interpolation)
            theirs.append(tv.Resize(step.size, interpolation=mode, max_size=step.max_size))
        else:
            theirs.append(tv.CenterCrop(step.size))
    dataset = headrace.open_dataset(packed)
    for batch in Loader(packed, 16, transform=steps):
        for image, row in zip(batch[0], batch.rows, strict=True):
            expected = tv.Compose(theirs)(picture(dataset, int(row)))
            assert np.array_equal(image, np.asarray(expected)), dataset[int(row)].key


def test_a_very_thin_picture_is_resized_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "in" / "a").mkdir(parents=True)
    picture = Image.fromarray(np.arange(5000, dtype=np.uint8).repeat(3).reshape(5000, 1, 3))
    picture.save(tmp_path / "in" / "a" / "thin.png")
    loader = Loader(tmp_path / "in", 1, transform=[Resize(256), CenterCrop(224)])
    ((images, _),) = loader
    # of 1,280,000 rows, those in the middle: each pixel is 256 of them
    assert images.shape == (1, 224, 224, 3) and images.std() > 0
    assert set(np.unique(images)) <= {195, 196, 197}, np.unique(images)


def test_all_transforms_together_end_in_floats(packed: Path) -> None:
    steps = [*CROP, ColorJitter(0.4, 0.4, 0.4), Lighting(0.1), Normalize()]
    loader = Loader(packed, 16, shuffle=True, transform=steps)
    images, _ = next(iter(loader))
    assert images.dtype == np.float32 and images.shape == (16, 24, 24, 3)
    plain, _ = next(iter(Loader(packed, 16, shuffle=True, transform=[*CROP, Normalize()])))
    assert not np.array_equal(images, plain)
    assert abs(images.mean() - plain.mean()) < 0.5


def test_images_of_one_size_need_no_crop(tmp_path: Path) -> None:
    from trees import make_folder

    source = make_folder(tmp_path / "in", classes=2, per_class=1)
    headrace.pack_dataset(source, tmp_path / "out")
    images, _ = next(iter(Loader(tmp_path / "out", 2)))
    assert images.shape == (2, 24, 24, 3)


def test_bytes_do_not_depend_on_threads_or_prefetching(packed: Path) -> None:
    expected = epoch_bytes(Loader(packed, 7, shuffle=True, transform=CROP, threads=1))
    for threads, prefetch in ((2, 1), (7, 4)):
        loader = Loader(packed, 7, shuffle=True, transform=CROP, threads=threads, prefetch=prefetch)
        assert epoch_bytes(loader) == expected


def test_epochs_and_seeds_differ_and_come_again(packed: Path) -> None:
    loader = Loader(packed, 7, shuffle=True, transform=CROP)
    first, second = epoch_bytes(loader, 0), epoch_bytes(loader, 1)
    assert first != second
    assert epoch_bytes(loader, 0) == first
    assert epoch_bytes(Loader(packed, 7, shuffle=True, transform=CROP, seed=1)) != first


def test_a_finished_epoch_is_followed_by_the_next(packed: Path) -> None:
    loader = Loader(packed, 7, shuffle=True, transform=CROP)
    orders = [np.concatenate([batch.rows for batch in loader]) for _ in range(2)]
    assert not np.array_equal(*orders)
    assert np.array_equal(orders[1], np.concatenate(epoch_rows(loader, 1)))


def test_an_old_iterator_that_ends_does_not_change_the_epoch_that_was_set(packed: Path) -> None:
    loader = Loader(packed, 32, fields=("label",))
    old = iter(loader)
    next(old)
    loader.set_epoch(5)
    list(old)
    assert next(iter(loader)).epoch == 5


def test_an_old_iterator_does_not_undo_a_loaded_state(packed: Path) -> None:
    loader = Loader(packed, 9, transform=CROP)
    old = iter(loader)
    next(old)
    loader.load_state_dict(loader.state_dict())
    list(old)
    batch = next(iter(loader))
    assert (batch.epoch, batch.step) == (0, 1)


def test_an_iterator_that_is_never_advanced_does_not_use_up_a_loaded_state(packed: Path) -> None:
    loader = Loader(packed, 9, shuffle=True, transform=CROP)
    whole = epoch_bytes(loader)
    state = {**loader.state_dict(), "epoch": 0, "step": 3}
    loader.load_state_dict(state)
    unused = iter(loader)
    assert loader.state_dict() == state
    assert [images.tobytes() + labels.tobytes() for images, labels in loader] == whole[3:]
    assert next(unused).epoch == 1, "it begins where the loader stands then"


def test_of_two_iterators_the_first_that_is_advanced_resumes(packed: Path) -> None:
    loader = Loader(packed, 9, fields=("label",))
    loader.load_state_dict({**loader.state_dict(), "step": 3})
    first, second = iter(loader), iter(loader)
    assert [batch.step for batch in second] == [3, 4, 5, 6]
    loader.load_state_dict({**loader.state_dict(), "step": 3})
    third = iter(loader)
    assert (next(first).step, next(third).step, next(first).step) == (3, 0, 4)


def test_the_epoch_may_be_set_after_iter(packed: Path) -> None:
    loader = Loader(packed, 9, fields=("label",))
    iterator = iter(loader)
    loader.set_epoch(4)
    assert next(iterator).epoch == 4


@pytest.mark.parametrize("shuffle", [True, False])
def test_resumed_at_any_step_it_goes_on_as_if_nothing_had_happened(
    packed: Path, shuffle: bool
) -> None:
    loader = Loader(packed, 9, shuffle=shuffle, transform=CROP)
    whole = epoch_bytes(loader, 1)
    for stop in range(len(whole) + 1):
        loader.set_epoch(1)
        before = []
        iterator = iter(loader)
        for _ in range(stop):
            images, labels = next(iterator)
            before.append(images.tobytes() + labels.tobytes())
        state = loader.state_dict()
        iterator.close()
        fresh = Loader(packed, 9, shuffle=shuffle, transform=CROP)
        fresh.load_state_dict(state)
        fresh.set_epoch(1 if stop < len(whole) else 2)
        after = [images.tobytes() + labels.tobytes() for images, labels in fresh]
        if stop < len(whole):
            assert before + after == whole
        else:
            assert state["epoch"] == 2 and state["step"] == 0
            assert after == epoch_bytes(loader, 2)


def test_a_state_of_another_loader_is_refused(packed: Path) -> None:
    options = {"batch_size": 8, "shuffle": True, "window": 0, "transform": CROP}
    state = Loader(packed, **options).state_dict()
    for change, name in (
        ({"batch_size": 16}, "global_batch"),
        ({"seed": 1}, "seed"),
        ({"shuffle": False}, "shuffle"),
        ({"window": 32}, "window"),
    ):
        words = rf"another loader: {name} is [^;]*\. To start epoch 0 again, call set_epoch\(0\)$"
        with pytest.raises(ValueError, match=words):
            Loader(packed, **{**options, **change}).load_state_dict(state)
    with pytest.raises(ValueError, match="seed is 0, here 1$"):
        Loader(packed, **{**options, "seed": 1}).load_state_dict({**state, "step": 1})


def test_a_state_of_another_selection_of_equal_length_is_refused(packed: Path) -> None:
    dataset = headrace.open_dataset(packed)
    count = len(dataset)

    def make(source: object, **options: object) -> Loader:
        return Loader(source, 4, shuffle=True, transform=CROP, **options)  # type: ignore[arg-type]

    one, two = np.linspace(1, 2, count), np.linspace(2, 1, count)
    for chosen, other in (
        (make(dataset[:20]), make(dataset[20:40])),
        (make(dataset, weights=one), make(dataset, weights=two)),
        (make(dataset, weights=one), make(dataset)),
        (make(Mixture([dataset] * 2, [1, 1])), make(Mixture([dataset] * 2, [1, 2]))),
    ):
        with pytest.raises(ValueError, match="another subset"):
            other.load_state_dict(chosen.state_dict())
    make(dataset[:20]).load_state_dict(make(dataset[:20]).state_dict())


def test_a_state_of_other_samples_or_another_order_of_them_is_refused(
    packed: Path, tmp_path: Path
) -> None:
    source = tmp_path / "photos"
    headrace.export_samples(headrace.open_dataset(packed), source, to="folder")
    for name, options in (
        ("a", {}),
        ("b", {"seed": 1}),
        ("c", {"shard_size": 20_000}),
        ("d", {"shrink": headrace.Shrink(short=30)}),
    ):
        headrace.pack_dataset(source, tmp_path / name, **options)  # type: ignore[arg-type]
    shutil.copytree(tmp_path / "a", tmp_path / "copy")

    def make(name: str) -> Loader:
        return Loader(tmp_path / name, 4, shuffle=True, window=16, transform=CROP)

    state = make("a").state_dict()
    make("copy").load_state_dict(state)
    for name in ("b", "c", "d"):
        with pytest.raises(ValueError, match="another packing of them"):
            make(name).load_state_dict(state)


def test_numbers_may_be_numpys_integers(packed: Path) -> None:
    loader = Loader(packed, np.int64(8), shuffle=True, transform=CROP, window=np.int64(8))
    state = {**loader.state_dict(), "epoch": np.int64(1), "step": np.int64(2)}
    state["lanes"] = np.int64(state["lanes"])
    loader.load_state_dict(state)
    assert json.loads(json.dumps(loader.state_dict())) == state


def test_a_state_of_another_make_is_refused_as_such(packed: Path) -> None:
    loader = Loader(packed, 8, transform=CROP)
    state = loader.state_dict()
    del state["selection"]
    with pytest.raises(ValueError, match="not the state of a loader.*selection"):
        loader.load_state_dict(state)


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("batch", [1, 4, 13])
@pytest.mark.parametrize("shuffle", [True, False])
def test_ranks_cover_every_sample_exactly_once_in_equally_many_steps(
    packed: Path, world: int, batch: int, shuffle: bool
) -> None:
    loaders = [
        Loader(packed, batch, shuffle=shuffle, transform=CROP, rank=rank, world_size=world)
        for rank in range(world)
    ]
    seen = [list(loader) for loader in loaders]
    assert {len(batches) for batches in seen} == {len(loaders[0])}
    rows = np.concatenate([b.rows[b.valid] for batches in seen for b in batches])
    assert sorted(rows) == list(range(61))
    for batches in seen:
        for b in batches:
            assert len(b[0]) == len(b[1]) == len(b.valid) > 0
            assert shuffle or (b[1][~b.valid] == -100).all()
            assert not shuffle or (b[1] >= 0).all()


def test_dropping_the_last_batch_gives_full_ones_only(packed: Path) -> None:
    loader = Loader(packed, 8, shuffle=True, transform=CROP, drop_last=True)
    assert [len(images) for images, _ in loader] == [8] * 7 == [8] * len(loader)


def test_global_batches_stay_when_the_world_changes_in_mid_epoch(packed: Path) -> None:
    def ranks(world: int) -> list[Loader]:
        return [
            Loader(packed, 16 // world, shuffle=True, transform=CROP, rank=r, world_size=world)
            for r in range(world)
        ]

    alone = epoch_bytes(ranks(1)[0])
    four = ranks(4)
    states = []
    for loader in four:
        iterator = iter(loader)
        next(iterator), next(iterator)
        states.append(loader.state_dict())
        iterator.close()
    assert all(state == states[0] for state in states)
    two = ranks(2)
    for loader in two:
        loader.load_state_dict(states[3])
    pairs = zip(*[list(loader) for loader in two], strict=True)
    joined = [
        np.concatenate([a[0], b[0]]).tobytes() + np.concatenate([a[1], b[1]]).tobytes()
        for a, b in pairs
    ]
    assert joined == alone[2:]


def state_within(loader: Loader) -> dict[str, object]:
    """The state behind the first step of an epoch."""
    iterator = iter(loader)
    next(iterator)
    iterator.close()
    return loader.state_dict()


def test_ranks_that_cannot_share_the_lanes_of_an_epoch_say_so(packed: Path) -> None:
    def make(ranks: int, shuffle: bool = True) -> Loader:
        options = {"shuffle": shuffle, "transform": CROP, "rank": 0, "world_size": ranks}
        return Loader(packed, 24 // ranks, **options)

    with pytest.raises(
        ValueError, match="cannot resume mid-epoch with world_size=3: it must divide 8"
    ):
        make(3).load_state_dict(state_within(make(1)))
    with pytest.raises(ValueError, match="world_size=2: it must divide 1;"):
        make(2, shuffle=False).load_state_dict(state_within(make(1, shuffle=False)))
    with pytest.raises(ValueError, match="global_batch is 24, here 8"):
        Loader(packed, 8, shuffle=True, transform=CROP).load_state_dict(make(1).state_dict())
    make(4).load_state_dict(state_within(make(6)))  # 24 lanes


def test_an_epoch_goes_on_with_the_lanes_of_its_state_whatever_was_before(packed: Path) -> None:
    def make(ranks: int) -> Loader:
        return Loader(
            packed, 24 // ranks, shuffle=True, fields=("label",), rank=0, world_size=ranks
        )

    used, fresh, state = make(4), make(4), state_within(make(6))
    with_others = np.concatenate(epoch_rows(used))
    used.load_state_dict(state)
    fresh.load_state_dict(state)
    copied = pickle.loads(pickle.dumps(fresh))
    expected, *rows = (np.concatenate(epoch_rows(loader)) for loader in (fresh, used, copied))
    assert not np.array_equal(expected, with_others)
    assert all(np.array_equal(expected, found) for found in rows)


@pytest.mark.parametrize("shuffle", [True, False])
def test_later_epochs_have_the_lanes_of_their_own_ranks(packed: Path, shuffle: bool) -> None:
    def make(ranks: int) -> Loader:
        options = {"shuffle": shuffle, "fields": ("label",), "rank": 0, "world_size": ranks}
        return Loader(packed, 24 // ranks, **options)

    within, between = state_within(make(6)), make(6)
    list(between)
    for state, ranks in ((within, 2), (between.state_dict(), 4)):
        loader = make(ranks)
        loader.load_state_dict(state)
        if state is within:
            list(loader)
        fresh = make(ranks)
        fresh.set_epoch(1)
        assert loader.state_dict() == fresh.state_dict()
        for epoch in (1, 0):
            rows = [np.concatenate(epoch_rows(each, epoch)) for each in (loader, fresh)]
            assert np.array_equal(*rows)


def test_a_state_consists_of_plain_values_and_integers(packed: Path) -> None:
    numbers = {"batch_size": np.int64(4), "seed": np.int32(3), "rank": np.int8(0)}
    loader = Loader(packed, **numbers, world_size=np.int8(1), shuffle=True, transform=CROP)
    loader.set_epoch(np.int64(1))
    next(iter(loader))
    assert json.loads(json.dumps(loader.state_dict())) == loader.state_dict()
    with pytest.raises(TypeError):
        loader.set_epoch(1.5)
    with pytest.raises(ValueError, match="not the state of a loader"):
        loader.load_state_dict({**loader.state_dict(), "step": 2.5})


def test_weights_whose_sum_is_not_finite_are_refused(packed: Path) -> None:
    loader = Loader(packed, 4, transform=CROP, weights=np.full(61, 1e308))
    with pytest.raises(ValueError, match="finite, as must their sum"):
        next(iter(loader))


def test_sizes_are_one_or_two_integers() -> None:
    for size, error in ((2.5, TypeError), ((20,), ValueError), ((20, 0), ValueError)):
        with pytest.raises(error, match="size is"):
            Resize(size)


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_batch_may_be_far_larger_than_the_dataset(packed: Path, shuffle: bool) -> None:
    ((labels,),) = Loader(packed, 1 << 31, shuffle=shuffle, fields=("label",))
    assert len(labels) == len(headrace.open_dataset(packed))


def test_sizes_may_be_numpys(packed: Path) -> None:
    size = np.int64(9)
    for steps in ([RandomResizedCrop(size)], [CenterCrop(size)], [Resize(size), CenterCrop(9)]):
        ((images, _), *_) = Loader(packed, 4, transform=steps)
        assert images.shape == (4, 9, 9, 3)


def test_lists_are_as_good_as_tuples() -> None:
    assert CenterCrop([20, 30]) == CenterCrop((20, 30))
    assert Resize([20, 30]) == Resize((20, 30))
    listed = RandomResizedCrop([8, 9], scale=[0.1, 1], ratio=[1, 2])
    assert hash(listed) == hash(RandomResizedCrop((8, 9), (0.1, 1), (1, 2)))
    assert ColorJitter([0.4, 0.5]) == ColorJitter((0.4, 0.5))


def test_mean_and_std_are_three_numbers_of_any_kind() -> None:
    half = (0.5, 0.5, 0.5)
    for values in (list(half), np.array(half), np.float32(half)):
        assert Normalize(values, values) == Normalize(half, half)
    for values in (0.5, (0.5,), (0.5, 0.5, np.nan), "abc"):
        with pytest.raises(ValueError, match="mean must be three finite numbers, not"):
            Normalize(values)


@pytest.mark.parametrize("name", ["batch_size", "seed", "prefetch", "threads", "num_workers"])
def test_an_option_that_is_not_an_integer_is_named(packed: Path, name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}: '4' is not an integer"):
        Loader(packed, **{"batch_size": 4, "transform": CROP, name: "4"})


def test_a_longest_side_goes_with_a_shorter_one_alone() -> None:
    for size, limit in ((20, 20), ((20, 30), 40)):
        with pytest.raises(ValueError, match="max_size"):
            Resize(size, max_size=limit)  # type: ignore[arg-type]


def test_a_class_as_transform_and_a_string_as_fields_are_refused(packed: Path) -> None:
    with pytest.raises(TypeError, match=r"the class RandomResizedCrop: give RandomResizedCrop\("):
        Loader(packed, 4, transform=[RandomResizedCrop])
    with pytest.raises(TypeError, match=r"give a tuple of names: \('image',\)"):
        Loader(packed, 4, transform=CROP, fields="image")


def test_a_source_that_is_not_a_dataset_is_refused_with_advice(packed: Path) -> None:
    class ImageFolder:
        root = "photos"

    with pytest.raises(TypeError, match="ImageFolder cannot be loaded; .* its root 'photos'"):
        Loader(ImageFolder(), 4)
    with pytest.raises(TypeError, match="takes paths and datasets, not ImageFolder"):
        Mixture([ImageFolder()], [1])
    with pytest.raises(ValueError, match="samples is -5"):
        Mixture([headrace.open_dataset(packed)], [1], samples=-5)


def test_a_subset_a_filter_and_a_slice_are_loaded(packed: Path) -> None:
    dataset = headrace.open_dataset(packed)
    chosen = dataset.filter((pc.field("label") == 2) & (pc.field("jpg.width") > 50))
    assert 0 < len(chosen) < 61
    labels = np.concatenate([labels for _, labels in Loader(chosen, 4, transform=CROP)])
    assert len(labels) == len(chosen) and set(labels) == {2}
    part = dataset[30:10:-2]
    rows = np.concatenate(epoch_rows(Loader(part, 4, shuffle=True, transform=CROP)))
    assert sorted(rows) == list(range(12, 31, 2))


def test_weights_of_a_slice_are_in_its_own_order(packed: Path) -> None:
    part = headrace.open_dataset(packed)[30:10:-2]
    loader = Loader(part, 4, transform=CROP, weights=np.arange(10) == 0)
    assert set(np.concatenate(epoch_rows(loader))) == {30}


def test_weights_are_taken_when_they_are_given(packed: Path) -> None:
    """A caller may write to its own array; batches depend on the state alone."""
    dataset = headrace.open_dataset(packed)
    numbers, shares = np.ones(len(dataset)), [1.0, 1.0]
    loaders = [
        Loader(dataset, 4, transform=CROP, weights=numbers),
        Loader(Mixture([dataset, dataset], shares), 4, transform=CROP),
    ]
    before = [epoch_bytes(loader, 1) for loader in loaders]
    numbers[1:], shares[1] = 0, 0
    for loader, batches in zip(loaders, before, strict=True):
        assert epoch_bytes(loader, 0) != batches == epoch_bytes(loader, 1)


def test_balanced_weights_make_classes_equally_frequent(tmp_path: Path) -> None:
    from images import encode

    for label, count in (("few", 4), ("many", 36)):
        for number in range(count):
            path = tmp_path / "in" / label / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(16, 16, seed=number))
    headrace.pack_dataset(tmp_path / "in", tmp_path / "out")
    loader = Loader(tmp_path / "out", 8, shuffle=True, weights="balanced")
    labels = np.concatenate([labels for _, labels in loader])
    assert np.bincount(labels).tolist() == [20, 20]
    given = Loader(tmp_path / "out", 8, shuffle=True, weights=np.arange(40) == 7)
    assert {int(row) for batch in given for row in batch.rows} == {7}
    with pytest.raises(ValueError, match="one for each of 40 samples"):
        Loader(tmp_path / "out", 8, shuffle=True, weights=[1.0, 2.0])
    nothing = headrace.open_dataset(tmp_path / "out").filter(pc.field("label") == 9)
    assert list(Loader(nothing, 8, weights="balanced", fields=("label",))) == []


def test_balanced_weights_need_labels(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"0.cls": b"0", "0.txt": b"a", "1.txt": b"b", "2.txt": b"c"})
    headrace.index_dataset(tmp_path)
    dataset, options = headrace.open_dataset(tmp_path), {"weights": "balanced", "fields": ("txt",)}
    with pytest.raises(ValueError, match=f"needs labels: 2 of 3 samples of {tmp_path} have none"):
        Loader(tmp_path, 1, **options)
    with pytest.raises(ValueError, match="1 of 1 samples"):
        Loader(dataset[1:2], 1, **options)
    labelled = dataset.filter(pc.field("label").is_valid())
    assert [batch[0] for batch in Loader(labelled, 1, **options)] == [["a"]]


def test_a_sample_that_comes_again_is_cropped_differently(packed: Path) -> None:
    (batch,) = Loader(packed, 61, shuffle=True, transform=CROP, weights=np.arange(61) == 7)
    assert set(batch.rows) == {7} and len(np.unique(batch[0], axis=0)) > 50


def test_a_mixture_gives_each_dataset_its_share(packed: Path, tmp_path: Path) -> None:
    from trees import make_folder

    headrace.pack_dataset(make_folder(tmp_path / "in"), tmp_path / "small")
    mixture = headrace.Mixture(
        [headrace.open_dataset(packed), headrace.open_dataset(tmp_path / "small")],
        weights=[3, 1],
        samples=40,
    )
    loader = Loader(mixture, 8, shuffle=True, transform=CROP, fields=("image", "label", "key"))
    rows = np.concatenate([batch.rows for batch in loader])
    assert ((rows < 61).sum(), (rows >= 61).sum()) == (30, 10)
    for batch in loader:
        for row, key, label in zip(batch.rows, batch[2], batch[1], strict=True):
            dataset = mixture.datasets[int(row >= 61)]
            sample = dataset[int(row) - (61 if row >= 61 else 0)]
            assert (sample.key, sample.label) == (key, label)


def test_a_mixture_opens_paths_as_a_loader_does(packed: Path, folder: Path) -> None:
    mixture = Mixture([packed, str(folder)], [1, 1])
    assert [len(dataset) for dataset in mixture.datasets] == [61, 61]
    (batch,) = Loader(mixture, 122, transform=CROP)
    assert sorted(batch.rows) == list(range(122))


def test_a_mixture_is_as_long_as_its_epochs_and_has_the_classes_that_all_have(
    packed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from trees import make_folder

    headrace.pack_dataset(make_folder(tmp_path / "in"), tmp_path / "other")
    mixture = Mixture([packed, packed], [3, 1])
    assert (len(mixture), len(Loader(mixture, 8, transform=CROP).dataset)) == (122, 122)
    assert len(Mixture([packed, packed], [3, 1], samples=40)) == 40
    assert mixture.classes == headrace.open_dataset(packed).classes
    assert not caplog.records
    assert Mixture([packed, tmp_path / "other"], [3, 1]).classes is None
    assert "a label means different things" in caplog.text


def test_a_mixture_has_weights_of_its_own(packed: Path) -> None:
    mixture = Mixture([headrace.open_dataset(packed)] * 2, [1, 1])
    with pytest.raises(ValueError, match="weights are for .* one dataset; give a Mixture its own"):
        Loader(mixture, 4, shuffle=True, transform=CROP, weights="balanced")


def test_a_mixture_reads_each_dataset_from_its_own_files(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        write_tar(tmp_path / name / f"{name}.tar", {"0.cls": b"0", "0.txt": name.encode()})
        headrace.index_dataset(tmp_path / name)
    mixture = Mixture([headrace.open_dataset(tmp_path / name) for name in "ab"], [1, 1])
    (batch,) = Loader(mixture, 2, fields=("txt",))
    assert batch[0] == ["a", "b"]


def pack_column(folder: Path, values: list[object]) -> headrace.Dataset:
    from images import encode

    samples = [
        headrace.Sample(str(i), {"jpg": encode(8, 8)}, 0, {"score": value})
        for i, value in enumerate(values)
    ]
    headrace.Flow.of(samples).save(folder)
    return headrace.open_dataset(folder)


def test_a_mixture_has_columns_of_a_type_that_its_datasets_share(tmp_path: Path) -> None:
    whole, parts, text, large = (
        pack_column(tmp_path / str(i), values)
        for i, values in enumerate(([1, 2], [0.5, None], ["a", "b"], [2**53 + 1]))
    )

    def load(*datasets: headrace.Dataset) -> list[object]:
        loader = Loader(Mixture(datasets, [1] * len(datasets)), 8, fields=("score", "label"))
        return [value for batch in loader for value in batch[0]]

    assert load(whole, parts) == [1.0, 2.0, 0.5, None]
    for other in (text, large):
        match = f"'score' .*double in {parts.path}, (string|int64) in {other.path}; leave it out"
        with pytest.raises(ValueError, match=match):
            load(parts, other)


def test_a_class_derived_from_a_transform_of_the_core_is_refused(packed: Path) -> None:
    class Mine(CenterCrop):
        """May do something else."""

    with pytest.raises(TypeError, match="Mine is derived from a transform that the core does"):
        Loader(packed, 8, transform=[Mine(8)])


def test_fields_choose_what_a_batch_holds(packed: Path) -> None:
    dataset = headrace.open_dataset(packed)
    loader = Loader(packed, 8, fields=("key", "cls", "jpg.width"))
    for batch in loader:
        keys, texts, widths = batch
        for row, key, text, width in zip(batch.rows, keys, texts, widths, strict=True):
            sample = dataset[int(row)]
            assert (key, text) == (sample.key, sample["cls"])
            assert width == dataset.index["jpg.width"][int(row)].as_py()
    with pytest.raises(ValueError, match=r"no \['mask.png'\]: it has the fields"):
        Loader(packed, 8, transform=CROP, fields=("image", "mask.png"))


def test_a_raw_field_is_none_where_a_sample_has_none(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"0.cls": b"0", "0.txt": b"", "1.cls": b"1", "2.txt": b"two"})
    headrace.index_dataset(tmp_path)
    ((texts, numbers),) = Loader(tmp_path, 3, fields=("txt", "cls"))
    assert texts == ["", None, "two"] and numbers == [b"0", b"1", None]


PHOTO, MASK = 200, 10


def write_several(folder: Path, *names: str, lacking: str = "", count: int = 2) -> Path:
    """Tars of `count` samples: the first image is bright, others are dark; sample 0 lacks one."""
    folder.mkdir()
    for number in range(count):
        members = {f"{number}.cls": b"0"}
        for place, name in enumerate(names):
            if number or name != lacking:
                image = Image.new("RGB", (16, 16), (MASK if place else PHOTO,) * 3)
                out = io.BytesIO()
                image.save(out, "PNG" if name.endswith("png") else "JPEG")
                members[f"{number}.{name}"] = out.getvalue()
        write_tar(folder / f"{number}.tar", members)
    headrace.index_dataset(folder)
    return folder


def brightness(loader: Loader) -> list[int]:
    return [int(image[0, 0, 0]) for images, _ in loader for image in images]


@pytest.mark.parametrize(
    "names", [("jpg", "depth.jpg"), ("jpg", "image.png"), ("image.jpg", "annotation.png")]
)
def test_the_picture_is_told_by_its_name(tmp_path: Path, names: tuple[str, ...]) -> None:
    loader = Loader(write_several(tmp_path / "in", *names), 2)
    assert brightness(loader) == [PHOTO, PHOTO]
    assert f"decode {names[0]}  " in str(loader)


def test_samples_may_have_pictures_of_different_kinds(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("0.jpg", "1.png"):
        image = io.BytesIO()
        Image.new("RGB", (16, 16)).save(image, {"jpg": "JPEG", "png": "PNG"}[name[-3:]])
        write_tar(folder / f"{name[0]}.tar", {name: image.getvalue(), f"{name[0]}.cls": b"0"})
    headrace.index_dataset(folder)
    loader = Loader(folder, 2)
    assert brightness(loader) == [0, 0]
    assert "decode  " in str(loader)


@pytest.mark.parametrize("names", [("rgb.jpg", "depth.png"), ("png", "jpg")])
def test_a_sample_with_several_pictures_wants_one_to_be_chosen(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    folder = write_several(tmp_path / "in", *names, lacking=names[0])
    both = ", ".join(sorted(names))
    with pytest.raises(ValueError, match=f"'1' has several images, {both}; .*choose_image"):
        Loader(folder, 2)
    dataset = headrace.open_dataset(folder)
    assert brightness(Loader(dataset.filter(pc.field("key") == "0"), 2)) == [MASK]
    assert brightness(Loader(dataset.choose_image(names[1]), 2)) == [MASK, MASK]
    assert brightness(Loader(dataset.choose_image(names[0])[1:], 2)) == [PHOTO]
    assert len(next(iter(Loader(dataset, 2, fields=("key",))))[0]) == 2


def test_a_chosen_picture_is_kept_by_parts_mixtures_and_copies(tmp_path: Path) -> None:
    folder = write_several(tmp_path / "in", "jpg", "depth.jpg")
    chosen = headrace.open_dataset(folder).choose_image("depth.jpeg")
    for source in (
        chosen.filter(pc.field("label") == 0),
        chosen[:],
        Mixture([chosen, chosen], [1, 1], samples=2),
        pickle.loads(pickle.dumps(chosen)),
    ):
        assert brightness(Loader(source, 2)) == [MASK, MASK]
    assert brightness(Loader(Mixture([chosen, headrace.open_dataset(folder)], [1, 1]), 4)) == [
        *(MASK, MASK),
        *(PHOTO, PHOTO),
    ]


def allocate(size: int) -> NDArray[np.uint8]:
    return np.empty(size, np.uint8)


def test_a_chosen_picture_is_decoded_with_its_own_seek_tables(tmp_path: Path) -> None:
    from images import encode

    a, b = encode(300, 400, seed=1), encode(300, 400, seed=2)
    headrace.index_dataset(write_tar(tmp_path / "a.tar", {"0.jpg": a, "0.b.jpg": b, "0.cls": b"1"}))
    dataset = headrace.open_dataset(tmp_path)
    for name in ("jpg", "b.jpg"):
        loader = Loader(dataset.choose_image(name), 1, transform=[CenterCrop(24)])
        layout = loader._epochs.layout
        seeks, seek = layout.read_rows(np.arange(1), allocate).seeks, layout.columns.seek
        (table,) = (bytes(seeks.table(*place)) for place in zip(seek.offset, seek.size))
        assert table == build_seek(dataset[0][name])[1] != b""
        (pixels,) = next(iter(loader))[0]
        whole = np.asarray(Image.open(io.BytesIO(dataset[0][name])).convert("RGB"))
        assert np.array_equal(pixels, whole[138:162, 188:212])


def test_a_state_of_another_picture_is_refused(tmp_path: Path) -> None:
    dataset = headrace.open_dataset(write_several(tmp_path / "in", "jpg", "depth.jpg"))
    state = Loader(dataset, 2).state_dict()
    Loader(dataset, 2).load_state_dict(state)
    with pytest.raises(ValueError, match="another loader"):
        Loader(dataset.choose_image("depth.jpg"), 2).load_state_dict(state)
    Loader(dataset.choose_image("jpg"), 2).load_state_dict(state)


@pytest.mark.parametrize("steps", [[Resize((8, 8))], [lambda image: image.resize((8, 8))]])
def test_a_sample_without_an_image_is_said_to_have_none(
    tmp_path: Path, steps: list[object]
) -> None:
    from images import encode

    members = {"a.jpg": encode(8, 8), "a.cls": b"1", "b.depth.png": encode(8, 8, format="PNG")}
    write_tar(tmp_path / "a.tar", {**members, "b.cls": b"1"})
    headrace.index_dataset(tmp_path)
    options = {"transform": steps, "num_workers": 0}
    with pytest.raises(
        headrace.DecodeError, match="'b' in .*a.tar has no image; .* cls, depth.png"
    ):
        list(Loader(tmp_path, 2, **options))
    depths = headrace.open_dataset(tmp_path).choose_image("depth.png")
    with pytest.raises(headrace.DecodeError, match="'a' in .* has no depth.png; .* cls, jpg"):
        list(Loader(depths, 2, **options))
    loader = Loader(tmp_path, 2, on_error="skip", **options)
    assert [batch.rows.tolist() for batch in loader] == [[0]]
    assert loader.stats().errors == (("b", "has no image; its fields are cls, depth.png"),)


def test_a_sample_without_a_label_is_an_error_with_advice(tmp_path: Path) -> None:
    from images import encode

    (tmp_path / "0.jpg").write_bytes(encode(8, 8))
    with pytest.raises(ValueError, match="'0' has no label: leave 'label' out of fields"):
        list(Loader(tmp_path, 1))
    assert len(next(iter(Loader(tmp_path, 1, fields=("image",))))[0]) == 1


def test_a_label_in_a_column_of_another_name_is_pointed_out(tmp_path: Path) -> None:
    from images import encode

    (tmp_path / "0.jpg").write_bytes(encode(8, 8))
    (tmp_path / "list.csv").write_text("path,fine_label,coarse_label\n0.jpg,7,3\n")
    with pytest.raises(ValueError, match="a column in its place: it has fine_label, coarse_label$"):
        list(Loader(tmp_path / "list.csv", 1))
    (batch,) = Loader(tmp_path / "list.csv", 1, fields=("image", "fine_label"))
    assert batch[1].tolist() == [7]


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """A dataset with a column of each kind."""
    rows = [
        {"age": 3, "score": 0.5, "old": False, "name": "a", "weight": None},
        {"age": 4, "score": 1.5, "old": True, "name": "b", "weight": 7},
    ]
    samples = [headrace.Sample(row["name"], {"txt": b"x"}, label=0, columns=row) for row in rows]
    headrace.Flow.of(samples).save(tmp_path / "described")
    return tmp_path / "described"


COLUMNS = ("age", "score", "old", "name", "weight")


def test_columns_of_numbers_are_arrays_and_others_lists(described: Path) -> None:
    (batch,) = Loader(described, 2, fields=COLUMNS)
    ages, scores, flags, names, weights = batch
    assert [column.dtype for column in (ages, scores, flags)] == [np.int64, np.float64, np.bool_]
    assert (ages.tolist(), scores.tolist(), flags.tolist()) == ([3, 4], [0.5, 1.5], [False, True])
    assert (names, weights) == (["a", "b"], [None, 7])


def test_columns_of_numbers_are_tensors_for_torch(described: Path) -> None:
    torch = pytest.importorskip("torch")
    from headrace.torch import Loader as TorchLoader

    (batch,) = TorchLoader(described, 2, fields=COLUMNS)
    assert [column.dtype for column in batch[:3]] == [torch.int64, torch.float64, torch.bool]
    assert batch[3:] == (["a", "b"], [None, 7])


def test_memory_follows_the_wanted_samples_and_not_the_dataset(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.serve.derived_options.WINDOW_BYTES", 10_000)
    monkeypatch.setattr("headrace.serve.derived_options.RUN_BYTES", 30_000)
    dataset = headrace.open_dataset(packed)

    def largest_run(source: headrace.Dataset, **options: object) -> int:
        loader = Loader(source, 4, transform=CROP, **options)  # type: ignore[arg-type]
        return int(loader._epochs.runs.measure_all().max())

    whole = largest_run(dataset, shuffle=True, window=20)
    assert largest_run(dataset[::10], shuffle=True, window=4) < whole / 2
    assert largest_run(dataset[::10]) < whole / 2
    single = largest_run(dataset, shuffle=True, window=None)
    assert single < whole / 2
    assert largest_run(dataset, shuffle=True, window=61) == single


def test_runs_inside_a_shard_come_with_the_seek_tables_of_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from images import encode

    (tmp_path / "in" / "a").mkdir(parents=True)
    for number in range(6):
        (tmp_path / "in" / "a" / f"{number}.jpg").write_bytes(encode(300, 400, seed=number))
    headrace.pack_dataset(tmp_path / "in", tmp_path / "out")
    monkeypatch.setattr("headrace.serve.derived_options.WINDOW_BYTES", 1)
    monkeypatch.setattr("headrace.serve.derived_options.RUN_BYTES", 40_000)
    epochs = Loader(tmp_path / "out", 2, transform=CROP)._epochs
    layout, tables = epochs.layout, []
    for start, stop in pairwise(epochs.runs.list_bounds()):
        seeks = layout.read_rows(np.arange(start, stop), allocate).seeks
        seek = layout.columns.seek
        offsets, sizes = seek.offset[start:stop], seek.size[start:stop]
        assert stop - start < 6
        tables += [bytes(seeks.table(*place)) for place in zip(offsets, sizes, strict=True)]
    dataset = headrace.open_dataset(tmp_path / "out")
    assert tables == [build_seek(sample["jpg"])[1] for sample in dataset] and all(tables)


def test_the_order_does_not_depend_on_the_fields(packed: Path) -> None:
    few = epoch_rows(Loader(packed, 8, shuffle=True, window=16, transform=CROP))
    fields = ("image", "cls", "key")
    more = Loader(packed, 8, shuffle=True, window=16, transform=CROP, fields=fields)
    assert all(np.array_equal(a, b) for a, b in zip(few, epoch_rows(more), strict=True))
    windows = [
        Loader(packed, 8, shuffle=True, transform=CROP, fields=names).state_dict()["window"]
        for names in (("image", "label"), ("image", "cls"), ("cls",))
    ]
    assert len(set(windows)) == 1


def test_a_window_is_of_some_batches_and_of_all_loose_files(
    packed: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.serve.derived_options.WINDOW_BYTES", 1)
    assert Loader(packed, 8, shuffle=True, transform=CROP).state_dict()["window"] == 32
    assert Loader(folder, 8, shuffle=True, transform=CROP).state_dict()["window"] is None


def test_a_sample_without_a_label_is_an_error_that_names_it(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"0.cls": b"0", "0.txt": b"a", "1.txt": b"b"})
    headrace.index_dataset(tmp_path)
    with pytest.raises((ValueError, headrace.HeadraceError), match="'1' has no label"):
        list(Loader(tmp_path, 2, fields=("txt", "label")))


def test_a_negative_label_is_a_label(tmp_path: Path) -> None:
    from images import encode

    for name in "ab":
        (tmp_path / f"{name}.jpg").write_bytes(encode(8, 8))
    (tmp_path / "list.csv").write_text("path,label\na.jpg,-1\nb.jpg,4\n")
    headrace.pack_dataset(tmp_path, tmp_path / "out", order="source")
    (batch,) = Loader(tmp_path / "out", 2)
    assert batch[1].tolist() == [-1, 4]


def test_one_damaged_image_does_not_change_the_common_size(tmp_path: Path) -> None:
    from trees import make_folder

    root = make_folder(tmp_path / "in", classes=2, per_class=1)
    (root / "class0" / "bad.jpg").write_bytes(b"no image")
    (batch,) = Loader(root, 8, on_error="skip")
    assert batch[0].shape == (2, 24, 24, 3)


def test_a_state_beyond_the_epoch_is_refused(packed: Path) -> None:
    loader = Loader(packed, 8, shuffle=True, transform=CROP)
    with pytest.raises(ValueError, match="an epoch has 8"):
        loader.load_state_dict({**loader.state_dict(), "step": 10**6})
    with pytest.raises(ValueError, match="of epoch -1"):
        loader.load_state_dict({**loader.state_dict(), "epoch": -1})


def test_a_batch_can_be_rebuilt_from_its_values(packed: Path) -> None:
    (first, *_) = Loader(packed, 8, transform=CROP)
    moved = type(first)(value for value in first)
    assert len(moved) == 2 and moved[0] is first[0]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"transform": None}, "differ in size"),
        ({"transform": [Resize(30)]}, r"Resize\(30\) leaves images of different sizes"),
        ({"transform": [RandomHorizontalFlip(), CenterCrop(8)]}, "in this order"),
        (
            {"transform": [RandomResizedCrop(8), CenterCrop(8)]},
            "leave Resize, Pad and other crops out",
        ),
        ({"transform": CROP, "batch_size": 0}, "batch_size is 0"),
        (
            {"transform": CROP, "on_error": "ignore"},
            "on_error must be one of raise, skip, substitute, not 'ignore'",
        ),
        ({"transform": CROP, "prefetch": 0}, "prefetch is 0"),
        ({"transform": CROP, "threads": 0}, "threads is 0"),
        ({"transform": CROP, "window": "wide"}, "window is 'wide'"),
        ({"transform": CROP, "rank": 1}, "rank and world_size together"),
        (
            {"transform": CROP, "fields": ("label",), "collate_fn": list},
            "collate_fn needs images",
        ),
    ],
)
def test_mistakes_are_named_at_once(packed: Path, arguments: dict, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Loader(packed, **{"batch_size": 4, "shuffle": True, **arguments})


def test_a_batch_of_one_takes_the_size_of_its_image(packed: Path, folder: Path) -> None:
    loader = Loader(packed, 1, shuffle=True, fields=("image", "key"))
    for image, (key,) in loader:
        path = next(folder.glob(f"*/{Path(key).name}.*"))
        expected = np.asarray(Image.open(path).convert("RGB"))
        assert image.shape == (1, *expected.shape) and (image[0] == expected).all()


@pytest.mark.parametrize("flip", [0.0, 1.0])
def test_a_batch_of_one_is_resized_by_its_own_shorter_side(
    packed: Path, folder: Path, flip: float
) -> None:
    steps = [Resize(20), RandomHorizontalFlip(flip), Normalize()]
    sizes = set()
    for image, (key,) in Loader(packed, 1, transform=steps, fields=("image", "key")):
        with Image.open(next(folder.glob(f"*/{Path(key).name}.*"))) as picture:
            width, height = picture.size
        short = min(width, height)
        assert image.shape == (1, 20 * height // short, 20 * width // short, 3)
        assert image.dtype == np.float32
        sizes.add(image.shape)
    assert len(sizes) > 5


def test_a_batch_of_one_goes_through_python_in_its_own_size(packed: Path) -> None:
    for steps in ([Resize(20), np.asarray], [np.asarray]):
        loader = Loader(packed, 1, transform=steps, num_workers=0)
        assert len({images.shape for images, _ in loader}) > 5


def test_a_batch_of_one_that_would_be_too_large_is_refused_alone(tmp_path: Path) -> None:
    for number, (height, width) in enumerate([(10, 12), (1, 60_000)]):
        (tmp_path / f"{number}.jpg").write_bytes(encode(height, width))
    loader = Loader(tmp_path, 1, transform=[Resize(64)], fields=("image",), on_error="skip")
    small, large = loader
    assert small.valid.all() and not large.valid.any()
    assert "60000 x 1 pixels" in large.errors[0][1]
