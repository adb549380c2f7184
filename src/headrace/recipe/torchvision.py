"""Translate the transforms of torchvision and timm: what each step means, or why the core cannot run it.

In: a step of a torchvision `Compose` (v1 or v2; timm's own too), and the form that images have before it.
Out: one of our transforms, one of the conversions below, or the reason as a string. A translated step gives
the same pixels for the same box and flip, to the last bit. So steps that resize tensors are not for the core:
torchvision rounds them differently from PIL images, which the core follows.

Steps are recognised by the names of their classes; torchvision is not imported. Subclasses, and steps with
hooks or patched methods, count as the user's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from headrace.recipe.clip import Clip
from headrace.recipe.meanings import (
    AsBytes,
    AsFloats,
    Conversion,
    Form,
    Keep,
    MaskType,
    Meaning,
    Several,
    Standardize,
)
from headrace.recipe.patched_steps import find_change
from headrace.recipe.random_colors import ColorJitter, Strength
from headrace.recipe.torchvision_policies import read_policy
from headrace.recipe.transforms import (
    CenterCrop,
    Level3,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResize,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    Sanitize,
    Sides,
    Transform,
)
from headrace.render.options import Resample, Triple

TENSORS_RESIZED = "the core resizes as on PIL images, not as on tensors"


def read_step(step: object, form: Form) -> Meaning | str:
    """Return what a step does to an image of this form, or why the core cannot run it."""
    if isinstance(step, Transform):
        return step
    reader = _READERS.get((find_family(step), type(step).__name__))
    if reader is not None or find_container(step) is not None:
        change = find_change(step)
        if change:
            return f"{change}, which the core would not do"
    if reader is not None:
        return reader(step, form)
    policy = read_policy(step, form)
    return "the core does not know it" if policy is None else policy


def list_steps(transform: Any) -> list[Any]:
    """Return the steps of a Compose, a list or nn.Sequential, also of nested ones; else the one step.

    A container that was changed, for example by a hook, is one step.
    """
    if transform is None:
        return []
    inner = find_container(transform)
    if inner is not None and find_change(transform):
        return [transform]
    if inner is not None:
        return [step for part in inner for step in list_steps(part)]
    if isinstance(transform, type) and issubclass(transform, (Transform, Clip)):
        raise TypeError(
            f"transform has the class {transform.__name__}: give {transform.__name__}(...)"
        )
    if callable(transform) or isinstance(transform, (Transform, Clip)):
        return [transform]
    raise TypeError(f"transform is {transform!r}; give a function, a Compose, or a list")


def find_container(transform: Any) -> Sequence[Any] | None:
    """Return the steps in a container; None if it is not a container."""
    if isinstance(transform, (list, tuple)):
        return transform
    if type(transform).__name__ == "Compose" and find_family(transform) in ("v1", "v2"):
        return list(transform.transforms)
    if type(transform).__name__ == "Sequential" and _module(transform).startswith("torch.nn."):
        return list(transform)
    return None


def _module(step: object) -> str:
    return type(step).__module__


def find_family(step: object) -> str | None:
    """Return which library a step is of: `v1`, `v2` or `preset` of torchvision, or `timm`; None if of no known one."""
    module = _module(step)
    if module == "torchvision.transforms.transforms":
        return "v1"
    if module.startswith("torchvision.transforms.v2."):
        return "v2"
    if module == "torchvision.transforms._presets":
        return "preset"
    return "timm" if module == "timm.data.transforms" else None


def _read_random_crop(step: Any, form: Form) -> Meaning | str:
    interpolation = _read_interpolation(step.interpolation)
    if interpolation is None:
        return "its interpolation is neither bilinear nor bicubic"
    wrong = _check_resizing(step, form)
    return wrong or RandomResizedCrop(
        _pair(step.size), tuple(step.scale), tuple(step.ratio), interpolation
    )


def _read_resize(step: Any, form: Form) -> Meaning | str:
    if step.size is None:
        return "it has no size, only max_size"
    return _read_resize_to(step, step.size, step.max_size, form)


def _read_resize_to(
    step: Any, size: int | Sequence[int], max_size: int | None, form: Form
) -> Resize | str:
    interpolation = _read_interpolation(step.interpolation)
    if interpolation is None:
        return "its interpolation is neither bilinear nor bicubic"
    sides = tuple(size) if isinstance(size, Sequence) else (size,)
    shape = sides[0] if len(sides) == 1 else (sides[0], sides[1])
    return _check_resizing(step, form) or Resize(shape, interpolation, max_size)


def _read_random_resize(step: Any, form: Form) -> Meaning | str:
    interpolation = _read_interpolation(step.interpolation)
    if interpolation is None:
        return "its interpolation is neither bilinear nor bicubic"
    bounds = int(step.min_size), int(step.max_size)
    return _check_resizing(step, form) or RandomResize(*bounds, interpolation)


def _read_pad(step: Any, form: Form) -> Meaning | str:
    sides = _read_sides(step.padding, v2_crop=False)
    color, mask_fill = _read_color(step, form), _read_mask_fill(step)
    if isinstance(color, str):
        return color
    return "its padding is negative" if min(sides) < 0 else Pad(sides, color, mask_fill)


def _read_plain_crop(step: Any, form: Form) -> Meaning | str:
    color = _read_color(step, form)
    if isinstance(color, str):
        return color
    sides = _read_sides(step.padding or 0, v2_crop=find_family(step) == "v2")
    if min(sides) < 0:
        return "its padding is negative"
    fill = _read_mask_fill(step)
    return RandomCrop(_pair(step.size), sides, bool(step.pad_if_needed), color, fill)


def _read_center_crop(step: Any, form: Form) -> Meaning | str:
    return CenterCrop(_pair(step.size), 0 if find_family(step) == "v2" else None)


def _read_sides(padding: Any, *, v2_crop: bool) -> Sides:
    """Return a padding as (left, top, right, bottom). RandomCrop of v2 keeps it as (left, right, top, bottom)."""
    sides = tuple(padding) if isinstance(padding, Sequence) else (padding,)
    left, top, right, bottom = (int(side) for side in (sides * 4)[:4])
    return (left, right, top, bottom) if v2_crop and len(sides) == 4 else (left, top, right, bottom)


def _read_color(step: Any, form: Form) -> Level3 | str:
    """Return what a step pads images with, or why the core cannot."""
    if step.padding_mode != "constant":
        return f"the core pads with a colour, not with padding_mode={step.padding_mode!r}"
    if isinstance(step.fill, dict) and form != "pil":
        return "its fill is for classes of tensors: put it before what makes tensors"
    fill = _find_fill(step, "PIL.")
    levels = tuple(fill) if isinstance(fill, Sequence) else (fill,) * 3
    if fill is None or len(levels) != 3:
        return "its fill is not one colour for images"
    if form == "floats" and any(levels):
        return "its fill is for floats: put it before what makes tensors"
    if any(level != int(level) or not 0 <= level <= 255 for level in levels):
        return "its fill is not in levels from 0 to 255"
    return int(levels[0]), int(levels[1]), int(levels[2])


def _read_mask_fill(step: Any) -> int | None:
    """Return the label that v2 pads masks with. v1 has no masks, and a colour is none."""
    fill = _find_fill(step, "torchvision.tv_tensors._mask")
    fill = 0 if fill is None else fill  # as torchvision, where a dict has none for masks
    return int(fill) if find_family(step) == "v2" and isinstance(fill, (int, float)) else None


def _find_fill(step: Any, module: str) -> Any:
    """Return the `fill` of a step for the class of a module; None if there is none.

    A dict may have one for each class, and for `others`.
    """
    if not isinstance(step.fill, dict):
        return 0 if step.fill is None else step.fill
    own = (v for k, v in step.fill.items() if getattr(k, "__module__", "").startswith(module))
    return next(own, step.fill.get("others"))


def _check_resizing(step: Any, form: Form) -> str:
    if form == "pil":
        return ""
    return f"{TENSORS_RESIZED}: put {type(step).__name__} before what makes tensors"


def _read_jitter(step: Any, form: Form) -> Meaning | str:
    if form != "pil":
        return "on tensors it rounds differently from PIL images, which the core follows"
    ranges = (step.brightness, step.contrast, step.saturation, step.hue)
    return ColorJitter(*(_strength(bounds) for bounds in ranges))


def _strength(bounds: Sequence[float] | None) -> Strength:
    return 0.0 if bounds is None else (float(bounds[0]), float(bounds[1]))


def _read_to_tensor(step: Any, form: Form) -> Meaning | str:
    torch = sys.modules["torch"]  # imported: the user has made a ToTensor
    if form != "pil":
        return "it is for PIL images"
    if torch.get_default_dtype() != torch.float32:
        return f"torch's default dtype is {torch.get_default_dtype()}"
    return AsFloats(reciprocal=False)


def _read_pil_to_tensor(step: Any, form: Form) -> Meaning | str:
    return AsBytes() if form == "pil" else "it is for PIL images"


def _read_to_image(step: Any, form: Form) -> Meaning | str:
    return AsBytes(image=True) if form == "pil" else "the image is a tensor already"


def _read_dtype(step: Any, form: Form) -> Meaning | str:
    torch = sys.modules["torch"]
    if isinstance(step.dtype, dict):
        return _read_dtypes(step, form)
    if form != "bytes":
        return "it changes nothing but tensors of bytes"
    if step.dtype == torch.uint8:
        return Keep()
    if step.dtype != torch.float32 or not getattr(step, "scale", True):
        return "the core makes float32 from 0 to 1: ToDtype(torch.float32, scale=True)"
    return AsFloats(reciprocal=find_family(step) == "v2")


def _read_dtypes(step: Any, form: Form) -> Meaning | str:
    """Read a type for each class: float32 for images, integers for masks."""
    torch = sys.modules["torch"]
    types = {getattr(key, "__name__", key): dtype for key, dtype in step.dtype.items()}
    others = types.pop("others", None)
    image, mask = types.pop("Image", others), types.pop("Mask", others)
    if others is not None or types:
        return "the core converts images and masks only"
    meanings: list[Transform | Conversion] = []
    if image is not None:
        if form != "bytes" or image != torch.float32 or not step.scale:
            return "the core makes float32 from 0 to 1 of tensors of bytes, with scale=True"
        meanings.append(AsFloats(reciprocal=True))
    if mask is not None:
        if mask not in (torch.uint8, torch.uint16, torch.int32, torch.int64):
            return "the core makes integers of masks"
        meanings.append(MaskType(str(mask).rpartition(".")[2]))
    return Several(tuple(meanings))


def _read_sanitize(step: Any, form: Form) -> Meaning | str:
    if step.labels_getter is not None and step.labels_getter != "default":
        return "it has a labels_getter of its own"
    return Sanitize(float(step.min_size), float(step.min_area))


def _read_normalize(step: Any, form: Form) -> Standardize | str:
    if form != "floats":
        return "it needs floats"
    mean, std = _triple(step.mean), _triple(step.std)
    if mean is None or std is None or 0.0 in std:
        return "its mean and std are not for three channels"
    return Standardize(mean, std)


def _read_classification(step: Any, form: Form) -> Meaning | str:
    """Read `weights.transforms()`, which resizes and crops, divides by 255 and normalises."""
    resize, normalize = (
        _read_resize_to(step, step.resize_size, None, form),
        _read_normalize(step, "floats"),
    )
    if isinstance(resize, str):
        return resize
    if isinstance(normalize, str):
        return normalize
    steps = (resize, CenterCrop(_pair(step.crop_size)), AsFloats(reciprocal=False), normalize)
    return Several(steps)


def _read_keep(step: Any, form: Form) -> Meaning | str:
    return Keep(pure=type(step).__name__ == "ToPureTensor")


def _read_interpolation(interpolation: Any) -> Resample | None:
    """Read an interpolation, for which torchvision has used an enum, a string and PIL's numbers."""
    name = getattr(interpolation, "value", interpolation)
    names: dict[Any, Resample] = {
        "bilinear": "bilinear",
        2: "bilinear",
        "bicubic": "bicubic",
        3: "bicubic",
    }
    return names.get(name) if isinstance(name, (str, int)) else None


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    sides = tuple(size) if isinstance(size, Sequence) else (size,)
    return int(sides[0]), int(sides[-1])


def _triple(values: Any) -> Triple | None:
    try:
        numbers = [float(value) for value in values]
    except TypeError:
        numbers = [float(values)]
    if len(numbers) == 1:
        numbers *= 3
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None


Reader = Callable[[Any, Form], Meaning | str]
_SAME: dict[str, Reader] = {
    "RandomResizedCrop": _read_random_crop,
    "Resize": _read_resize,
    "CenterCrop": _read_center_crop,
    "Pad": _read_pad,
    "RandomCrop": _read_plain_crop,
    "RandomHorizontalFlip": lambda step, form: RandomHorizontalFlip(float(step.p)),
    "RandomVerticalFlip": lambda step, form: RandomVerticalFlip(float(step.p)),
    "ColorJitter": _read_jitter,
    "ToTensor": _read_to_tensor,
    "PILToTensor": _read_pil_to_tensor,
    "ConvertImageDtype": _read_dtype,
    "Normalize": _read_normalize,
}
_READERS: dict[tuple[str | None, str], Reader] = {
    **{(family, name): reader for family in ("v1", "v2") for name, reader in _SAME.items()},
    ("preset", "ImageClassification"): _read_classification,
    ("v2", "RandomResize"): _read_random_resize,
    ("v2", "SanitizeBoundingBoxes"): _read_sanitize,
    ("v2", "ToImage"): _read_to_image,
    ("v2", "ToDtype"): _read_dtype,
    ("v2", "ToPureTensor"): _read_keep,
    ("v2", "Identity"): _read_keep,
    ("timm", "RandomResizedCropAndInterpolation"): _read_random_crop,
    ("timm", "MaybeToTensor"): _read_to_tensor,
    ("timm", "MaybePILToTensor"): _read_pil_to_tensor,
}
