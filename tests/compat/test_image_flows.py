"""tensorpack's image datasets and augmentors keep their meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")

from headrace.compat import tensorpack as tp
from headrace.errors import SourceError, WorkerError
from images import encode, make_pixels


def test_ilsvrc12_labels_follow_the_sorted_folders(tmp_path: Path) -> None:
    for synset in ("n2", "n1"):
        folder = tmp_path / "train" / synset
        folder.mkdir(parents=True)
        (folder / f"{synset}_0.JPEG").write_bytes(encode(8, 9))
    files = list(tp.dataset.ILSVRC12Files(str(tmp_path), "train", shuffle=False))
    assert [(Path(path).name, label) for path, label in files] == [
        ("n1_0.JPEG", 0),
        ("n2_0.JPEG", 1),
    ]
    image, label = next(iter(tp.dataset.ILSVRC12(str(tmp_path), "train", shuffle=False)))
    assert image.shape == (8, 9, 3) and label == 0


def test_ilsvrc12_is_shuffled_only_where_it_is_for_training(tmp_path: Path) -> None:
    for split in ("train", "val"):
        folder = tmp_path / split / "n1"
        folder.mkdir(parents=True)
        for name in "hgfedcba":
            (folder / f"{name}.JPEG").touch()
    train, val = (tp.dataset.ILSVRC12Files(str(tmp_path), split) for split in ("train", "val"))
    assert train.imglist == val.imglist == [(f"n1/{name}.JPEG", 0) for name in "abcdefgh"]
    names = [[Path(path).stem for path, _ in files] for files in (train, val)]
    assert names[1] == list("abcdefgh") == sorted(names[0]) != names[0]


def test_a_flat_val_folder_needs_its_list(tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "a.JPEG").write_bytes(encode(8, 8))
    with pytest.raises(SourceError, match=r"no list .*val\.txt"):
        tp.dataset.ILSVRC12Files(str(tmp_path), "val")
    (tmp_path / "val.txt").write_text("a.JPEG 65\n")
    assert next(iter(tp.dataset.ILSVRC12Files(str(tmp_path), "val")))[1] == 65


@pytest.mark.parametrize(
    ("options", "shape"),
    [({}, (8, 9, 3)), ({"channel": 1}, (8, 9, 1)), ({"resize": (4, 5)}, (4, 5, 3))],
)
def test_images_from_files_are_those_of_the_original(
    tmp_path: Path, options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(encode(8, 9))
    ds = tp.ImageFromFile([str(path)], **options)
    ((image,),) = ds
    assert len(ds) == 1 and image.shape == shape and image.dtype == np.uint8
    theirs = pytest.importorskip("tensorpack.dataflow", exc_type=ImportError)
    ((expected,),) = theirs.ImageFromFile([str(path)], **options)
    assert np.array_equal(image, expected)


def test_the_side_of_images_from_files_may_be_numpys_integer(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(encode(8, 9))
    ((image,),) = tp.ImageFromFile([str(tmp_path / "a.jpg")], resize=np.int64(4))
    assert image.shape == (4, 4, 3)


def test_images_from_files_that_are_none_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"no")
    with pytest.raises(WorkerError, match=r"a\.jpg is not an image"):
        list(tp.ImageFromFile([str(tmp_path / "a.jpg")]))


def test_augmentors_do_what_the_original_does() -> None:
    theirs = pytest.importorskip("tensorpack.dataflow.imgaug", exc_type=ImportError)
    image = make_pixels(60, 80)
    pairs = [
        (tp.imgaug.Resize(32), theirs.Resize(32)),
        (tp.imgaug.ResizeShortestEdge(40), theirs.ResizeShortestEdge(40)),
        (tp.imgaug.CenterCrop((20, 31)), theirs.CenterCrop((20, 31))),
        (tp.imgaug.BrightnessScale((1.3, 1.3)), theirs.BrightnessScale((1.3, 1.3))),
        (tp.imgaug.Contrast((0.7, 0.7)), theirs.Contrast((0.7, 0.7))),
        (tp.imgaug.Contrast((0.7, 0.7), rgb=False), theirs.Contrast((0.7, 0.7), rgb=False)),
        (tp.imgaug.Saturation(0.0), theirs.Saturation(0.0)),
        (tp.imgaug.Lighting(0.0, [1] * 3, np.eye(3)), theirs.Lighting(0.0, [1] * 3, np.eye(3))),
        (tp.imgaug.Flip(horiz=True, prob=1.0), theirs.Flip(horiz=True, prob=1.0)),
        (tp.imgaug.ToFloat32(), theirs.ToFloat32()),
    ]
    for ours, original in pairs:
        expected = original.augment(image.copy())
        assert np.array_equal(ours.augment(image), expected), type(ours).__name__


RED = np.zeros((4, 5, 3), np.uint8)
RED[..., 0] = 200
GREY = np.full((4, 5, 3), 200, np.uint8)
BLACK, KEEP = tp.imgaug.MapImage(np.zeros_like), tp.imgaug.Identity()


@pytest.mark.parametrize(
    ("augmentor", "image", "expected"),
    [
        (tp.imgaug.Flip(horiz=True, prob=1), make_pixels(4, 5), make_pixels(4, 5)[:, ::-1]),
        (tp.imgaug.Flip(vert=True, prob=1), make_pixels(4, 5), make_pixels(4, 5)[::-1]),
        (tp.imgaug.Flip(vert=True, prob=0), make_pixels(4, 5), make_pixels(4, 5)),
        (tp.imgaug.RandomApplyAug(BLACK, 1), GREY, GREY * 0),
        (tp.imgaug.RandomApplyAug(BLACK, 0), GREY, GREY),
        (tp.imgaug.RandomChooseAug([(BLACK, 0.0)] * 999 + [(KEEP, 0.5)]), GREY, GREY),
        (tp.imgaug.BrightnessScale((2, 2)), GREY, GREY * 0 + 255),
        (tp.imgaug.BrightnessScale((2, 2)), GREY.astype("f4"), GREY * 0.0 + 255),
        (tp.imgaug.BrightnessScale((2, 2), clip=False), GREY.astype("f4"), GREY * 2.0),
        (tp.imgaug.Saturation(0.0), RED, RED),
        (tp.imgaug.Contrast((0, 0)), RED, RED),
        (tp.imgaug.Contrast((0, 0), rgb=True), RED, RED * 0 + 59),
        (tp.imgaug.Contrast((0, 0), rgb=False), RED, RED * 0 + 22),
        (tp.imgaug.Contrast((0, 0)), RED[..., 0], RED[..., 0]),
        (tp.imgaug.Resize((2, 3)), GREY[:, :, :1], GREY[:2, :3, :1]),
    ],
)
def test_augmentors_do_what_they_say(
    augmentor: tp.imgaug.ImageAugmentor, image: np.ndarray, expected: np.ndarray
) -> None:
    found = augmentor.augment(image)
    assert (found.dtype, found.tolist()) == (image.dtype, expected.tolist())


class Fixed:
    """A generator that draws the lowest number of a range, and ones."""

    def uniform(self, low: float, high: float) -> float:
        return low

    def standard_normal(self, count: int) -> np.ndarray:
        return np.ones(count)


def test_an_image_without_saturation_is_grey(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tp.imgaug.color, "get_rng", lambda: Fixed())
    red = RED[:1, :1]
    assert tp.imgaug.Saturation(1.0).augment(red).tolist() == [[[60, 60, 60]]]
    assert tp.imgaug.Saturation(1.0, rgb=False).augment(red).tolist() == [[[23, 23, 23]]]


def test_the_columns_of_the_matrix_of_lighting_are_the_eigenvectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tp.imgaug.color, "get_rng", lambda: Fixed())
    lighting = tp.imgaug.Lighting(1.0, [1, 2, 3], [[0, 10, 0], [0, 0, 10], [10, 0, 0]])
    assert lighting.augment(np.zeros((1, 1, 3), np.uint8)).tolist() == [[[20, 30, 10]]]


@pytest.mark.parametrize("image", [GREY[:, :, :1], GREY[:, :, 0]])
def test_lighting_needs_three_channels(image: np.ndarray) -> None:
    lighting = tp.imgaug.Lighting(0.1, [1] * 3, np.eye(3).tolist())
    with pytest.raises(ValueError, match="three channels, not "):
        lighting.augment(image)


class Add(tp.imgaug.Transform):
    def __init__(self, added: int) -> None:
        self._init(locals())

    def apply_image(self, image: np.ndarray) -> np.ndarray:
        return image + self.added


class AddAny(tp.imgaug.ImageAugmentor):
    """As one is written for tensorpack."""

    def __init__(self, most: int = 200) -> None:
        super().__init__()
        self._init(locals())

    def get_transform(self, image: np.ndarray) -> Add:
        return Add(self.rng.randint(self.most, dtype=np.uint8))


class AddRange(tp.imgaug.PhotometricAugmentor):
    """As they were written earlier."""

    def _get_augment_params(self, image: np.ndarray) -> Any:
        return self._rand_range(0, 200)

    def _augment(self, image: np.ndarray, added: Any) -> np.ndarray:
        return (image + added).astype(np.uint8)


@pytest.mark.parametrize("augmentor", [AddAny(), AddRange(), tp.imgaug.Brightness(99)])
def test_augmentors_of_ones_own_draw_alike_for_all_components(augmentor: Any) -> None:
    ds = tp.DataFromList([[GREY, GREY]] * 10, shuffle=False)
    flip = tp.imgaug.Flip(horiz=True)

    def read() -> list[int]:
        tp.fix_rng_seed(0)
        made = list(tp.AugmentImageComponents(ds, [flip, augmentor]))
        assert all(np.array_equal(left, right) for left, right in made)
        return [int(left[0, 0, 0]) for left, _ in made]

    drawn = read()
    assert drawn == read() and len(set(drawn)) > 5


def test_the_choices_of_an_augmentor_can_be_kept() -> None:
    augmentor = tp.AugmentorList([AddAny(), tp.imgaug.RandomCrop(2)])
    augmentor.reset_state()
    once, choices = augmentor.augment_return_params(GREY)
    assert np.array_equal(augmentor.augment_with_params(GREY, choices), once)


def test_an_augmentor_sets_itself_up_in_reset_state() -> None:
    class Counting(tp.imgaug.ImageAugmentor):
        def reset_state(self) -> None:
            super().reset_state()
            self.count = 0

    one = Counting()
    one.count = 5
    tp.AugmentorList([one]).reset_state()
    assert one.count == 0 and Counting().count == 0


@pytest.mark.parametrize("augmentor", [tp.imgaug.ImageAugmentor(), tp.imgaug.Transform()])
def test_what_does_not_say_how_to_change_an_image_is_named(augmentor: Any) -> None:
    apply = getattr(augmentor, "augment", None) or augmentor.apply_image
    with pytest.raises(NotImplementedError, match=f"{type(augmentor).__name__} must define"):
        apply(GREY)


def test_augmentation_is_the_same_with_any_runner_and_differs_per_epoch() -> None:
    aug = [tp.imgaug.GoogleNetRandomCropAndResize(target_shape=8), tp.imgaug.Flip(horiz=True)]
    augment = tp.AugmentorList(aug).augment
    images = [[make_pixels(20, 30, seed)] for seed in range(6)]

    def read(ds: Any) -> list[bytes]:
        return [dp[0].tobytes() for dp in ds]

    def source() -> Any:
        return tp.DataFromList(images, shuffle=False)

    tp.fix_rng_seed(0)
    plain = tp.AugmentImageComponent(source(), aug)
    tp.fix_rng_seed(0)
    threads = tp.MultiThreadMapData(source(), 2, lambda dp: [augment(dp[0])])
    tp.fix_rng_seed(0)
    processes = tp.MultiProcessMapData(source(), 2, lambda dp: [augment(dp[0])])
    first = read(plain)
    assert first == read(threads) == read(processes) != read(plain)


def test_failed_augmentations_can_be_dropped() -> None:
    ds = tp.DataFromList([[make_pixels(9, 9)], [make_pixels(3, 3)]], shuffle=False)
    assert (
        len(list(tp.AugmentImageComponent(ds, [tp.imgaug.CenterCrop(5)], catch_exceptions=True)))
        == 1
    )


def test_coordinates_are_refused_and_not_left_as_they_were() -> None:
    ds = tp.DataFromList([[make_pixels(9, 9), np.zeros((1, 2))]], shuffle=False)
    with pytest.raises(ValueError, match="coords_index"):
        tp.AugmentImageComponents(ds, [tp.imgaug.CenterCrop(5)], (0,), (1,))


def test_images_of_two_sources_are_paired_and_cropped_independently(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{n}.png") for n in range(20)]
    for n, file in enumerate(files):
        cv2.imwrite(file, np.full((4, 4), n, np.uint8))
    image = np.arange(400, dtype=np.uint8).reshape(20, 20, 1)
    cropped = tp.DataFromList([[image]] * 5, shuffle=False)
    for make in (
        lambda: tp.ImageFromFile(files, channel=1, shuffle=True),
        lambda: tp.AugmentImageComponent(cropped, [tp.imgaug.RandomCrop(4)]),
        lambda: tp.AugmentImageComponents(cropped, [tp.imgaug.RandomCrop(4)], (0,)),
    ):
        pairs = list(tp.JoinData([make(), make()]))
        assert not all(np.array_equal(left, right) for left, right in pairs)


def test_components_are_augmented_alike() -> None:
    image = make_pixels(20, 20)
    ds = tp.DataFromList([[image, image]] * 5, shuffle=False)
    for left, right in tp.AugmentImageComponents(ds, [tp.imgaug.RandomCrop(7)]):
        assert np.array_equal(left, right)
