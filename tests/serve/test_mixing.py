"""MixUp and CutMix: torchvision's numbers, the same for any world size, and never with a sample that is none."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace._core import mix_images
from headrace.plan import cut_box, draw_beta, draw_mixing_uniforms, find_rings
from headrace.recipe.mixing import DrawnMix, draw_mix, take_mixing
from headrace.serve.mixing import Mixer, mix_tensors
from headrace.transforms import (
    CutMix,
    MixChoice,
    MixUp,
    Normalize,
    OnArray,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Views,
)
from trees import make_folder

STEPS: list[Any] = [RandomResizedCrop((20, 24)), RandomHorizontalFlip(), Normalize()]
BOTH = MixChoice([MixUp(0.8, smoothing=0.1), CutMix(1.0, smoothing=0.1)], (1, 2))


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixing")
    headrace.pack_dataset(make_folder(folder / "in", classes=4, per_class=17), folder / "out")
    return folder / "out"


def load(path: Path, *last: Any, **options: Any) -> headrace.Loader:
    batch_size = options.pop("batch_size", 16)
    given = {"shuffle": True, "seed": 5, "transform": [*STEPS, *last], **options}
    return headrace.Loader(path, batch_size, **given)


def mix_by_hand(images: np.ndarray, drawn: DrawnMix, rings: list[list[int]]) -> np.ndarray:
    mixed = images.copy()
    for ring in rings:
        for entry, partner in zip(ring, np.roll(ring, -1), strict=True):
            if drawn.box is None:
                keep, rest = np.float32(drawn.share), np.float32(1 - drawn.share)
                mixed[entry] = images[partner] * rest + images[entry] * keep
            else:
                left, top, right, bottom = drawn.box
                mixed[entry, top:bottom, left:right] = images[partner, top:bottom, left:right]
    return mixed


def test_images_and_labels_are_mixed_as_drawn(packed: Path) -> None:
    seen = set()
    for epoch in range(4):
        plain, mixed = load(packed), load(packed, BOTH)
        plain.set_epoch(epoch)
        mixed.set_epoch(epoch)
        for (images, labels), batch in zip(plain, mixed, strict=True):
            drawn = draw_mix(BOTH, 5, epoch, batch.step, (20, 24))
            assert drawn is not None
            seen.add(drawn.box is None)
            lanes = np.arange(len(images)) // 2 if len(images) == 16 else None
            if lanes is None:
                continue  # lanes of the last batch differ in length
            rings = find_rings(lanes, batch.valid)
            np.testing.assert_array_equal(batch[0], mix_by_hand(images, drawn, rings))
            soft = np.full((16, 4), 0.025, np.float32)
            soft[np.arange(16), labels] = 0.925
            for pair in np.arange(16).reshape(-1, 2):
                expected = drawn.share * soft[pair] + (1 - drawn.share) * soft[pair[::-1]]
                np.testing.assert_allclose(batch[1][pair], expected, atol=1e-6)
    assert seen == {True, False}


@pytest.mark.parametrize("name", ["MixUp", "CutMix"])
def test_numbers_equal_torchvision(torchvision: ModuleType, name: str) -> None:
    torch = pytest.importorskip("torch")
    images = np.random.default_rng(0).normal(size=(6, 3, 12, 10)).astype(np.float32)
    labels = torch.arange(6)
    step = getattr(torchvision.transforms.v2, name)(alpha=0.7, num_classes=6)
    found: dict[str, Any] = {}
    original = type(step).make_params

    def make_params(self: Any, inputs: Any) -> dict[str, Any]:
        found.update(original(self, inputs))
        return dict(found)

    step.make_params = make_params.__get__(step)
    expected, soft = step(torch.from_numpy(images), labels)
    if name == "MixUp":
        drawn = DrawnMix(found["lam"])
        parts = np.array([[0, 360]], np.int64)
        keep, rest = drawn.share, 1 - drawn.share
    else:
        drawn = DrawnMix(found["lam_adjusted"], found["box"])
        left, top, right, bottom = found["box"]
        parts = np.array(
            [[c * 120 + y * 10 + left, right - left] for c in range(3) for y in range(top, bottom)],
            np.int64,
        ).reshape(-1, 2)
        keep, rest = 0.0, 1.0
    rings = find_rings(np.zeros(6, np.int64), np.ones(6, np.bool_))
    flat = images.reshape(6, -1).copy()
    mix_images(flat, rings, parts, keep, rest, 2)
    np.testing.assert_array_equal(flat.reshape(images.shape), expected.numpy())
    one_hot = np.eye(6, dtype=np.float32)
    mix_images(one_hot, rings, np.array([[0, 6]]), drawn.share, 1 - drawn.share, 1)
    np.testing.assert_array_equal(one_hot, soft.numpy())


@given(
    lanes=st.lists(st.integers(0, 3), min_size=1, max_size=24),
    distance=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_rings_join_valid_entries_of_one_lane(lanes: list[int], distance: int, seed: int) -> None:
    numbers = np.sort(lanes)
    valid = np.random.default_rng(seed).random(len(lanes)) < 0.8
    rings = find_rings(numbers, valid, distance)
    entries = [entry for ring in rings for entry in ring]
    assert len(set(entries)) == len(entries) and all(valid[entries])
    for ring in rings:
        assert len(ring) > 1 and len(set(numbers[ring])) == 1
    for lane in set(lanes):
        own = np.flatnonzero((numbers == lane) & valid)
        partners = dict(zip(own.tolist(), np.roll(own, distance).tolist(), strict=True))
        for ring in (ring for ring in rings if numbers[ring[0]] == lane):
            for entry, partner in zip(ring, np.roll(ring, -1), strict=True):
                assert partners[entry] == partner


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.8, 1.0, 4.0])
def test_shares_are_of_the_beta_distribution(alpha: float) -> None:
    shares = np.sort([draw_beta(draw_mixing_uniforms(3, 0, t), alpha) for t in range(4000)])
    expected = np.sort(np.random.default_rng(1).beta(alpha, alpha, 40_000))
    grid = np.linspace(0.001, 0.999, 400)
    below = np.searchsorted(shares, grid) / len(shares)
    wanted = np.searchsorted(expected, grid) / len(expected)
    assert np.abs(below - wanted).max() < 1.8 * np.sqrt(1 / 4000 + 1 / 40_000)


def test_boxes_are_those_of_torchvision() -> None:
    uniforms = np.array([0, 0, 0.5, 0.25])
    assert cut_box(uniforms, 0.75, 100, 200) == (50, 0, 150, 50)
    assert cut_box(uniforms, 1.0, 100, 200) == (100, 25, 100, 25)


def test_the_same_global_batches_for_any_world_size(packed: Path) -> None:
    whole = load(packed, BOTH, drop_last=True)
    parts = [load(packed, BOTH, batch_size=8, rank=r, world_size=2, drop_last=True) for r in (0, 1)]
    for expected, *ranks in zip(whole, *parts, strict=True):
        joined = np.concatenate([images for images, _ in ranks])
        assert sorted(map(bytes, joined)) == sorted(map(bytes, expected[0]))
        labels = np.concatenate([soft for _, soft in ranks])
        assert sorted(map(bytes, labels)) == sorted(map(bytes, expected[1]))


def test_threads_workers_and_resuming_change_nothing(packed: Path) -> None:
    identity = OnArray(np.array)
    expected = [(x.tobytes(), y.tobytes()) for x, y in load(packed, BOTH, threads=1)]
    steps = [*STEPS[:-1], identity, STEPS[-1], BOTH]
    for options in (
        {"threads": 7},
        {"num_workers": 0, "transform": steps},
        {"num_workers": 2, "transform": steps},
    ):
        assert expected == [(x.tobytes(), y.tobytes()) for x, y in load(packed, BOTH, **options)]
    loader = load(packed, BOTH)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    loader.close()
    resumed = load(packed, BOTH)
    resumed.load_state_dict(state)
    assert expected[1:] == [(x.tobytes(), y.tobytes()) for x, y in resumed]


def test_bad_samples_are_not_mixed_in(tmp_path: Path) -> None:
    root = make_folder(tmp_path / "in", classes=1, per_class=12)
    sorted(root.rglob("*.jpg"))[3].write_bytes(b"\xff\xd8 not a photo")
    for on_error, count in (("skip", 11), ("substitute", 12)):
        plain = load(root, on_error=on_error, batch_size=12, shuffle=False)
        mixed = load(root, MixUp(1.0), on_error=on_error, batch_size=12, shuffle=False)
        ((images, labels),), (batch,) = plain, mixed
        assert len(batch[0]) == len(batch[1]) == len(images) == count
        drawn = draw_mix(MixChoice([MixUp(1.0)]), 5, 0, 0, (20, 24))
        assert drawn is not None
        distinct = batch.valid & (np.arange(count) != 4 if on_error == "substitute" else True)
        rings = find_rings(np.zeros(count, np.int64), distinct)
        np.testing.assert_array_equal(batch[0], mix_by_hand(images, drawn, rings))
        assert len(labels) == count and len(set(batch.rows[distinct])) == 11


def test_fillers_have_no_label(packed: Path) -> None:
    """Of 68 samples, the third rank has 22, and so none for the second step."""
    steps = [*STEPS, MixUp(1.0)]
    loaders = [headrace.Loader(packed, 22, transform=steps, rank=r, world_size=3) for r in range(3)]
    batches = [batch for loader in loaders for batch in loader]
    assert sum(int((~batch.valid).sum()) for batch in batches) == 1
    for batch in batches:
        assert not batch[1][~batch.valid].any()
        np.testing.assert_allclose(batch[1][batch.valid].sum(axis=1), 1, atol=1e-5)


def test_copies_of_a_sample_are_not_mixed_with_each_other(packed: Path) -> None:
    loader = load(packed, MixUp(5.0), repeat=2, batch_size=32)
    plan = loader._epochs.plan(type(loader._cursor._next)(0, 0))
    mixer = Mixer(MixChoice([MixUp(5.0)]), plan, 5, 0, 4, 0, 1, 1)
    mixed = 0
    for batch in loader:
        for ring in mixer._find_rings(batch):
            assert (batch.rows[ring] != batch.rows[np.roll(ring, -1)]).all()
            mixed += len(ring)
    assert mixed > 32


def test_copies_of_a_sample_are_not_mixed_where_some_of_them_are_bad(packed: Path) -> None:
    loader = load(packed, MixUp(5.0), repeat=2, batch_size=48)
    plan = loader._epochs.plan(type(loader._cursor._next)(0, 0))
    mixer = Mixer(MixChoice([MixUp(5.0)]), plan, 5, 0, 4, 0, 1, 1)
    batch = next(iter(loader))
    rng = np.random.default_rng(0)
    for _ in range(50):
        some = batch.replace(tuple(batch))
        some.valid = rng.random(48) < 0.7
        for ring in mixer._find_rings(some):
            assert some.valid[ring].all()
            assert (batch.rows[ring] != batch.rows[np.roll(ring, -1)]).all()


def test_tensors_on_a_device_are_mixed_alike(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    plain, mixed = load(packed), load(packed, BOTH)
    plan = mixed._epochs.plan(type(mixed._cursor._next)(0, 0))
    mixer = Mixer(BOTH, plan, 5, 0, 4, 0, 1, 1)
    for batch, expected in zip(plain, mixed, strict=True):
        images, labels = mixer.mix_labels(batch, (20, 24))
        tensors = batch.replace((torch.from_numpy(images).permute(0, 3, 1, 2), labels))
        images, labels = mix_tensors(mixer, tensors)
        np.testing.assert_allclose(images.permute(0, 2, 3, 1).numpy(), expected[0], atol=1e-6)
        np.testing.assert_array_equal(labels, expected[1])


def test_torch_loader_and_composes(packed: Path, torchvision: ModuleType) -> None:
    torch = pytest.importorskip("torch")
    from headrace.torch import Loader

    V = torchvision.transforms.v2
    compose = V.Compose(
        [
            V.RandomResizedCrop((20, 24)),
            V.RandomHorizontalFlip(),
            V.ToImage(),
            V.ToDtype(torch.float32, scale=True),
            V.RandomChoice([V.MixUp(alpha=0.8, num_classes=4), V.CutMix(alpha=1.0, num_classes=4)]),
        ]
    )
    loader = Loader(packed, 16, shuffle=True, transform=compose)
    assert "MixUp" in str(loader) and "Python" not in str(loader)
    images, labels = next(iter(loader))
    assert images.shape == (16, 3, 20, 24) and labels.shape == (16, 4)
    assert (images.dtype, labels.dtype) == (torch.float32, torch.float32)
    on_device = Loader(packed, 16, shuffle=True, transform=[*STEPS, MixUp(0.2)], device="meta")
    images, labels = next(iter(on_device))
    assert images.is_meta and images.dtype == torch.float32 and labels.shape == (16, 4)


def test_nested_choices_keep_all_their_parts(torchvision: ModuleType) -> None:
    V = torchvision.transforms.v2
    inner = V.RandomChoice([V.CutMix(num_classes=4), V.MixUp(alpha=0.3, num_classes=4)], p=[3, 1])
    _, mixing = take_mixing([V.RandomChoice([V.MixUp(num_classes=4), inner], p=[1, 2])])
    assert mixing is not None
    assert mixing.choices == (MixUp(1.0, 4), CutMix(1.0, 4), MixUp(0.3, 4))
    np.testing.assert_allclose(mixing.weights, (1 / 3, 1 / 2, 1 / 6))


def test_a_changed_mixing_of_torchvision_is_refused(torchvision: ModuleType) -> None:
    V = torchvision.transforms.v2
    hooked, patched = V.MixUp(num_classes=4), V.CutMix(num_classes=4)
    hooked.register_forward_hook(lambda *_: None)
    patched.transform = lambda *_: None
    compose = V.Compose([V.ToImage(), V.MixUp(num_classes=4)])
    compose.register_forward_hook(lambda *_: None)
    own = V.MixUp(num_classes=4, labels_getter=lambda batch: batch[1])
    for step, why in ((hooked, "hooks"), (patched, "replaced"), (own, "labels_getter")):
        with pytest.raises(ValueError, match=why):
            take_mixing([V.ToImage(), step])
    with pytest.raises(ValueError, match="it has hooks"):
        take_mixing(compose)


def test_a_label_beyond_the_classes_is_refused(packed: Path) -> None:
    with pytest.raises(ValueError, match="num_classes is 2, but there is a label"):
        list(load(packed, MixUp(num_classes=2)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": ("image",)}, "add 'label' to fields"),
        ({"transform": [STEPS[0], MixUp()]}, "put Normalize before it"),
        ({"transform": [MixUp(), *STEPS]}, "put it last, and once"),
        ({"transform": [*STEPS, MixUp(), CutMix()]}, "put it last, and once"),
        ({"collate_fn": list}, "leave collate_fn out"),
        ({"transform": [Views(STEPS), MixUp()]}, "one image per sample"),
    ],
)
def test_what_cannot_be_mixed_is_refused(
    packed: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load(packed, MixUp(), **options)


def test_a_sample_without_others_of_its_lane_is_not_left_alone_silently(packed: Path) -> None:
    with pytest.raises(ValueError, match="one sample of each of 8 lanes: .* 16 samples or more"):
        next(iter(load(packed, MixUp(), batch_size=8)))
    next(iter(load(packed, MixUp(), batch_size=8, shuffle=False)))


def test_options_are_checked(tmp_path: Path) -> None:
    for wrong in ({"alpha": 0}, {"num_classes": 0}, {"smoothing": 2}, {"p": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} is"):
            MixUp(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="give a list of MixUp and CutMix"):
        MixChoice([Normalize()])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="weights are"):
        MixChoice([MixUp(), CutMix()], (1.0,))


def test_nothing_is_mixed_with_probability_0(packed: Path) -> None:
    for (images, labels), (same, soft) in zip(
        load(packed), load(packed, CutMix(p=0.0)), strict=True
    ):
        np.testing.assert_array_equal(images, same)
        np.testing.assert_array_equal(soft.argmax(axis=1), labels)
