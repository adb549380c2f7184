"""A torchvision Compose gives the same pixels and floats to the last bit, and the same boxes on average."""

from __future__ import annotations

import io
import subprocess
import sys
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

import headrace
from headrace.recipe.core_or_python import divide_transform
from headrace.recipe.core_recipe import Randomness, Recipe, compile_recipe
from headrace.recipe.torchvision import read_step
from headrace.transforms import ColorJitter, Lighting, Normalize, Resize
from places import list_places

torch = pytest.importorskip("torch")

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def make_loader(path: Path, compose: Any, **options: Any) -> Any:
    from headrace.torch import Loader

    return Loader(path, 16, shuffle=True, transform=compose, num_workers=0, **options)


def picture(dataset: headrace.Dataset, row: int) -> Image.Image:
    sample = dataset[row]
    data = sample.get("jpg") or sample.get("png")
    return Image.open(io.BytesIO(data)).convert("RGB")


def drawn_boxes(loader: Any, batch: Any) -> list[list[int]]:
    columns, rows = loader._loader._epochs.table.columns, batch.rows
    drawn = loader._loader._contents.pipelines[0].recipe.draw(
        Randomness(loader.seed, batch.epoch, batch.draws), columns.height[rows], columns.width[rows]
    )
    boxes: list[list[int]] = drawn.boxes.tolist()
    return boxes


def assert_same_as_compose(loader: Any, compose: Any) -> None:
    """Compare with a compose that has no randomness."""
    for batch in loader:
        for image, row in zip(batch[0], batch.rows):
            expected = compose(picture(loader.dataset, int(row)))
            assert expected.dtype == image.dtype
            assert torch.equal(image, expected.as_subclass(torch.Tensor))


def make_endings(torchvision: ModuleType) -> dict[str, list[Any]]:
    T, V = torchvision.transforms, torchvision.transforms.v2
    return {
        "ToTensor": [T.ToTensor()],
        "ToTensor, Normalize": [T.ToTensor(), T.Normalize(MEAN, STD)],
        "one mean": [T.ToTensor(), T.Normalize([0.5], [0.25])],
        "PILToTensor": [T.PILToTensor()],
        "PILToTensor, ConvertImageDtype": [T.PILToTensor(), T.ConvertImageDtype(torch.float32)],
        "v2 floats": [V.ToImage(), V.ToDtype(torch.float32, scale=True), V.Normalize(MEAN, STD)],
        "v2 bytes": [V.PILToTensor(), V.ToPureTensor()],
    }


ENDINGS = [
    "ToTensor",
    "ToTensor, Normalize",
    "one mean",
    "PILToTensor",
    "PILToTensor, ConvertImageDtype",
    "v2 floats",
    "v2 bytes",
]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_validation_gives_what_the_compose_gives_to_the_last_bit(
    packed: Path, torchvision: ModuleType, ending: str, mode: str
) -> None:
    T, V = torchvision.transforms, torchvision.transforms.v2
    module, steps = (V if "v2" in ending else T), make_endings(torchvision)[ending]
    size, interpolation = 30, T.InterpolationMode(mode)
    compose = module.Compose(
        [module.Resize(size, interpolation=interpolation), module.CenterCrop((24, 26)), *steps]
    )
    loader = make_loader(packed, compose)
    assert set(list_places(loader)) == {"core"}
    assert_same_as_compose(loader, compose)


@pytest.mark.parametrize("flip", [0.0, 1.0])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_training_gives_what_the_compose_gives_for_the_same_boxes(
    packed: Path,
    torchvision: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    flip: float,
) -> None:
    T, V = torchvision.transforms, torchvision.transforms.v2
    module = T if version == "v1" else V
    ending = "ToTensor, Normalize" if version == "v1" else "v2 floats"
    crop = module.RandomResizedCrop((20, 28), scale=(0.2, 0.9), ratio=(0.5, 2.0))
    steps = make_endings(torchvision)[ending]
    compose = module.Compose([crop, module.RandomHorizontalFlip(flip), *steps])
    loader = make_loader(packed, compose, seed=5)
    assert set(list_places(loader)) == {"core"}
    for batch in loader:
        for image, row, box in zip(batch[0], batch.rows, drawn_boxes(loader, batch)):
            left, top, width, height = box
            v1, v2 = (
                (top, left, height, width),
                {"top": top, "left": left, "height": height, "width": width},
            )
            monkeypatch.setattr(crop, "get_params", lambda *_, v1=v1: v1, raising=False)
            monkeypatch.setattr(crop, "make_params", lambda _, v2=v2: v2, raising=False)
            expected = compose(picture(loader.dataset, int(row)))
            assert torch.equal(image, expected.as_subclass(torch.Tensor))


def test_jitter_equals_pil_images_before_and_after_the_flip(
    packed: Path, torchvision: ModuleType
) -> None:
    T = torchvision.transforms
    steps = [T.Resize((24, 24)), T.ColorJitter(0.4, (0.5, 1.5), 0.3), T.RandomHorizontalFlip(1.0)]
    loader = make_loader(packed, T.Compose([*steps, T.PILToTensor()]), seed=5)
    assert set(list_places(loader)) == {"core"}
    names = (T.functional.adjust_brightness, T.functional.adjust_contrast)
    functions = (*names, T.functional.adjust_saturation)
    for batch in loader:
        draw = Randomness(5, 0, batch.draws)
        color = loader._loader._contents.pipelines[0].recipe._draw_color(draw)
        for i, row in enumerate(batch.rows):
            image = steps[0](picture(loader.dataset, int(row)))
            for number in color.order[i]:
                image = functions[number](image, float(color.jitter[i][number]))
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            assert torch.equal(batch[0][i], T.functional.pil_to_tensor(image))


def test_boxes_have_the_distribution_of_torchvision(packed: Path, torchvision: ModuleType) -> None:
    T = torchvision.transforms
    crop = T.RandomResizedCrop(20, scale=(0.1, 0.8), ratio=(0.6, 1.8))
    recipe = divide_transform(T.Compose([crop]), None).recipe
    assert recipe is not None
    count, height, width = 3000, 300, 400
    sizes = np.full(count, height), np.full(count, width)
    ours = recipe.draw(Randomness(1, 0, np.arange(count)), *sizes).boxes
    image = Image.new("RGB", (width, height))
    torch.manual_seed(0)
    theirs = np.array([crop.get_params(image, crop.scale, crop.ratio) for _ in range(count)])
    theirs = theirs[:, [1, 0, 3, 2]]
    for column in range(4):
        assert distance(ours[:, column], theirs[:, column]) < 1.95 * np.sqrt(2 / count)
    areas = [boxes[:, 2] * boxes[:, 3] for boxes in (ours, theirs)]
    assert distance(*areas) < 1.95 * np.sqrt(2 / count)


def distance(first: np.ndarray, second: np.ndarray) -> float:
    """Return the Kolmogorov-Smirnov distance; it exceeds 1.95 sqrt(2 / n) by chance once in a thousand."""
    points = np.sort(np.concatenate([first, second]))
    ranks = [np.searchsorted(np.sort(x), points, side="right") / len(x) for x in (first, second)]
    return float(np.abs(ranks[0] - ranks[1]).max())


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_tensors_are_resized_as_the_compose_says(
    packed: Path,
    torchvision: ModuleType,
    version: str,
    mode: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    T, V = torchvision.transforms, torchvision.transforms.v2
    module, first = (T, T.PILToTensor()) if version == "v1" else (V, V.ToImage())
    options = {"antialias": True, "interpolation": T.InterpolationMode(mode)}
    compose = module.Compose([first, module.Resize((24, 30), **options)])
    loader = make_loader(packed, compose)
    assert "put Resize before what makes tensors" in str(loader)
    assert "runs in Python, which is several times slower" in caplog.text
    assert_same_as_compose(loader, compose)
    crop = module.RandomResizedCrop(24, **options)
    assert "not as on tensors: put RandomResizedCrop before" in str(
        make_loader(packed, module.Compose([first, crop]))
    )
    assert list_places(make_loader(packed, module.Compose([crop, first]))) == ["core", "core"]


def add_hook(step: Any, patch: pytest.MonkeyPatch) -> None:
    step.register_forward_hook(lambda *_: None)


def add_pre_hook(step: Any, patch: pytest.MonkeyPatch) -> None:
    step.register_forward_pre_hook(lambda *_: None)


def add_global_hook(step: Any, patch: pytest.MonkeyPatch) -> None:
    hooks = torch.nn.modules.module._global_forward_hooks
    patch.setitem(hooks, -1, lambda *_: None)


def patch_instance(step: Any, patch: pytest.MonkeyPatch) -> None:
    step.forward = lambda image: image


def patch_class(step: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(type(step), "forward", lambda self, image: image)


def wrap_class(step: Any, patch: pytest.MonkeyPatch) -> None:
    forward = type(step).forward

    @wraps(forward)
    def wrapped(self: Any, image: Any) -> Any:
        return forward(self, image)

    patch.setattr(type(step), "forward", wrapped)


def mock_class(step: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(type(step), "__call__", Mock(), raising=False)


def patch_modules(step: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch.nn.Module, "__call__", lambda self, image: image)


CHANGES = [
    (add_hook, "it has hooks"),
    (add_pre_hook, "it has hooks"),
    (add_global_hook, "torch has hooks for all modules"),
    (patch_instance, "its forward was replaced"),
    (patch_class, "forward was replaced"),
    (wrap_class, "forward was replaced"),
    (mock_class, "__call__ was replaced"),
    (patch_modules, "Module.__call__ was replaced"),
]


@pytest.mark.parametrize(("change", "why"), CHANGES)
@pytest.mark.parametrize("make", ["v1 step", "v2 step", "v2 Compose", "Sequential"])
def test_a_step_with_a_hook_or_a_patched_method_stays_in_python(
    torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch, make: str, change: Any, why: str
) -> None:
    T, V = torchvision.transforms, torchvision.transforms.v2
    step = {
        "v1 step": lambda: T.Resize((8, 8)),
        "v2 step": lambda: V.Resize((8, 8)),
        "v2 Compose": lambda: V.Compose([V.Resize((8, 8))]),
        "Sequential": lambda: torch.nn.Sequential(T.Resize((8, 8))),
    }[make]()
    assert [line.where for line in divide_transform(step, None).lines] == ["core"]
    change(step, monkeypatch)
    (line,) = divide_transform(step, None).lines
    assert line.where == "Python" and why in line.why


@pytest.mark.parametrize("name", ["make_params", "transform", "_call_kernel"])
def test_any_patched_method_of_an_instance_is_detected(torchvision: ModuleType, name: str) -> None:
    step = torchvision.transforms.v2.RandomResizedCrop(8)
    setattr(step, name, lambda *_: None)
    (line,) = divide_transform(step, None).lines
    assert line.where == "Python" and f"its {name} was replaced" in line.why


def test_a_policy_with_a_space_of_its_own_is_detected(torchvision: ModuleType) -> None:
    step = torchvision.transforms.v2.TrivialAugmentWide()
    step._AUGMENTATION_SPACE = {"Identity": (lambda *_: None, False)}
    (line,) = divide_transform(step, (8, 8)).lines
    assert line.where == "Python" and "its _AUGMENTATION_SPACE was replaced" in line.why


def test_hooks_are_called(packed: Path, torchvision: ModuleType) -> None:
    T = torchvision.transforms
    resize = T.Resize((8, 8))
    resize.register_forward_hook(lambda *_: Image.new("RGB", (8, 8), "red"))
    ((images, _), *_) = make_loader(packed, T.Compose([resize, T.PILToTensor()]))
    assert images[:, 0].min() == 255 and images[:, 1:].max() == 0


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_presets_of_weights_run_in_the_core_to_the_last_bit(
    packed: Path, torchvision: ModuleType, mode: str
) -> None:
    from torchvision.transforms._presets import ImageClassification

    interpolation = torchvision.transforms.InterpolationMode(mode)
    preset = ImageClassification(crop_size=24, resize_size=30, interpolation=interpolation)
    loader = make_loader(packed, preset)
    assert list_places(loader) == ["core"]
    assert_same_as_compose(loader, preset)
    larger = ImageClassification(crop_size=50, resize_size=30, mean=MEAN, std=STD)
    assert_same_as_compose(make_loader(packed, larger), larger)


def test_batches_of_one_have_the_sizes_that_a_dataloader_gives(
    packed: Path, torchvision: ModuleType
) -> None:
    from headrace.torch import Loader

    T = torchvision.transforms
    for compose in (T.ToTensor(), T.Compose([T.Resize(30), T.ToTensor(), T.Normalize(MEAN, STD)])):
        loader = Loader(packed, 1, transform=compose)
        assert set(list_places(loader)) == {"core"}
        assert_same_as_compose(loader, compose)


def test_a_preset_that_the_core_cannot_do_stays_in_python(torchvision: ModuleType) -> None:
    from torchvision.transforms._presets import ImageClassification

    T = torchvision.transforms
    nearest = ImageClassification(crop_size=8, interpolation=T.InterpolationMode.NEAREST)
    preset = ImageClassification(crop_size=8)
    for steps, why in (
        ([nearest], "bilinear nor bicubic"),
        ([T.PILToTensor(), preset], "not as on tensors"),
        ([T.RandomHorizontalFlip(), preset], "crops once and first"),
    ):
        line = divide_transform(T.Compose(steps), (9, 9)).lines[-1]
        assert line.where == "Python" and why in line.why
    with pytest.raises(ValueError, match="leave ImageClassification"):
        divide_transform([preset, Normalize()], (9, 9))


def test_steps_that_would_not_be_exact_run_in_python(torchvision: ModuleType) -> None:
    T, V = torchvision.transforms, torchvision.transforms.v2
    crop, v_crop = T.RandomResizedCrop(20), V.RandomResizedCrop(20)
    nearest = T.InterpolationMode.NEAREST
    plain = V.RandomResizedCrop(20, antialias=False)
    half = V.ToDtype(torch.float16, scale=True)
    cases = [
        ([T.RandomResizedCrop(20, interpolation=nearest)], 0, "bilinear"),
        ([V.ToImage(), plain], 1, "tensors"),
        ([v_crop, V.ToImage(), V.ColorJitter(0.4)], 2, "PIL"),
        ([v_crop, V.ToImage(), half], 2, "float32"),
        ([v_crop, V.ToImage(), V.ToDtype(torch.float32)], 2, "from 0 to 1"),
        ([T.RandomHorizontalFlip(), T.CenterCrop(20)], 1, "crops once and first"),
        ([v_crop, V.ToDtype(torch.float32, scale=True)], 1, "nothing but tensors"),
        ([T.RandomHorizontalFlip(), crop], 1, "crops once and first"),
        ([crop, T.ToTensor(), T.Normalize(MEAN, STD), T.Normalize(MEAN, STD)], 3, "once"),
        ([crop, T.RandomRotation(10, expand=True), T.ToTensor()], 1, "expand"),
        ([crop, T.ElasticTransform(), T.ToTensor()], 1, "does not know"),
        ([crop, T.ToTensor(), T.RandomErasing(), T.Normalize(MEAN, STD)], 2, "in Python follows"),
        ([T.ToTensor(), T.Normalize(MEAN, STD), T.CenterCrop(70)], 2, "fill up with zeros"),
    ]
    for steps, count, why in cases:
        pipeline = divide_transform(T.Compose(steps), (40, 40))
        assert [line.where for line in pipeline.lines].index("Python") == count, steps
        assert why in pipeline.lines[count].why


def test_tensors_of_another_default_dtype_are_made_in_python(torchvision: ModuleType) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        (line,) = divide_transform(torchvision.transforms.ToTensor(), (8, 8)).lines
    finally:
        torch.set_default_dtype(torch.float32)
    assert line.where == "Python" and "float64" in line.why


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_resize_keeps_its_largest_side(torchvision: ModuleType, version: str) -> None:
    module = torchvision.transforms if version == "v1" else torchvision.transforms.v2
    assert read_step(module.Resize(40, max_size=50), "pil") == Resize(40, max_size=50)


def test_a_subclass_runs_in_python_unless_it_only_has_other_arguments(
    torchvision: ModuleType,
) -> None:
    class Mine(torchvision.transforms.RandomHorizontalFlip):  # type: ignore[misc, name-defined]
        def forward(self, image: Any) -> Any:
            return image

    class Always(torchvision.transforms.RandomHorizontalFlip):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(1.0)

    assert divide_transform(Mine(), (8, 8)).steps
    assert not divide_transform(Always(), (8, 8)).steps


def test_steps_that_keep_different_sizes_all_run_in_python(
    torchvision: ModuleType,
) -> None:
    T = torchvision.transforms
    pipeline = divide_transform(T.Compose([T.Resize(30), T.FiveCrop(20), T.ToTensor()]), None)
    assert pipeline.recipe is None
    assert [line.where for line in pipeline.lines] == ["Python", "Python", "core, last"]
    assert pipeline.lines[0].why == (
        "without FiveCrop images differ in size, and that is not for the core: the core does not know it"
    )


def test_colours_after_lighting_are_operations_of_a_program() -> None:
    lit = Recipe().add(Lighting(0.1))
    assert isinstance(lit, Recipe)
    jittered = lit.add(ColorJitter(0.4))
    assert isinstance(jittered, Recipe)
    assert jittered.jitter is None and jittered.program == (ColorJitter(0.4),)


def test_a_jitter_that_draws_in_another_way_does_so() -> None:
    class OwnJitter(ColorJitter):
        pass

    recipe = compile_recipe([OwnJitter(0.4)], (8, 8))
    assert recipe.jitter is None and recipe.program == (OwnJitter(0.4),)


def test_printing_says_what_runs_where_and_why(packed: Path, torchvision: ModuleType) -> None:
    T = torchvision.transforms
    steps = [T.RandomResizedCrop(20), T.ElasticTransform(), T.ToTensor(), T.Normalize(MEAN, STD)]
    loader = make_loader(packed, T.Compose([*steps, T.RandomErasing()]))
    lines = str(loader).splitlines()
    assert lines[0] == repr(loader)
    assert "decode" in lines[1] and "core" in lines[1]
    assert "RandomResizedCrop" in lines[2] and "core" in lines[2]
    assert (
        "ElasticTransform" in lines[3] and "Python, the iterating thread: the core does" in lines[3]
    )
    assert "ToTensor" in lines[4] and "core, in Python's place" in lines[4]
    assert "RandomErasing" in lines[6] and "after a step in Python" in lines[6]


def test_steps_between_and_after_python_are_the_same_in_the_core(
    packed: Path, torchvision: ModuleType
) -> None:
    T = torchvision.transforms
    tensor = [T.ToTensor(), T.Normalize(MEAN, STD)]
    invert = T.RandomInvert(1.0)
    for steps in (
        [T.Resize((20, 20)), invert, *tensor],
        [T.Resize((20, 20)), invert, *tensor, T.RandomErasing(0.0)],
        [T.Resize((20, 20)), *tensor, T.RandomErasing(0.0)],
        [T.Resize((20, 20)), T.Grayscale(), T.ToTensor()],
        [T.Resize((20, 20)), T.Grayscale(3), T.PILToTensor()],
    ):
        assert_same_as_compose(make_loader(packed, T.Compose(steps)), T.Compose(steps))


def test_our_normalize_after_a_tensor_names_the_step_to_remove(torchvision: ModuleType) -> None:
    import torch
    from torchvision.transforms import v2

    tv = torchvision.transforms
    floats = v2.ToDtype(torch.float32, scale=True)
    for steps, culprit in (
        ([Resize(8), tv.ToTensor()], "ToTensor"),
        ([np.asarray, tv.PILToTensor()], "PILToTensor"),
        ([v2.ToImage(), floats], "ToDtype"),
    ):
        with pytest.raises(ValueError, match=rf"by itself: leave {culprit}\(.*\) before it out"):
            divide_transform([*steps, Normalize()], (8, 8))
    divide_transform([tv.ToTensor(), tv.ToPILImage(), Normalize()], (8, 8))


def test_dividing_our_own_transforms_does_not_import_torchvision() -> None:
    code = (
        "import sys; from headrace.recipe.core_or_python import divide_transform\n"
        "divide_transform([lambda image: image], None)\n"
        "print({'torch', 'torchvision'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "set()", result.stderr
