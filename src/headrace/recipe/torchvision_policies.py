"""Translate the random steps of torchvision and timm that become operations of the core.

In: a step of a torchvision `Compose` (v1 or v2; timm's own too), and the form that images have before it. Out: one of
our steps; the reason, as a string, why the core cannot run it; or None for a step that is not read here. Steps are
recognised by the names of their classes; torchvision and timm are not imported. A class of the user's own that only
makes another `__init__` is read as the class above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from headrace.plan.policy_tables import TABLES
from headrace.recipe.patched_steps import find_change
from headrace.recipe.policies import (
    AutoAugment,
    ColorJitter,
    GaussianBlur,
    RandAugment,
    RandomAdjustSharpness,
    RandomAffine,
    RandomApply,
    RandomAutocontrast,
    RandomChoice,
    RandomEqualize,
    RandomErasing,
    RandomFlip,
    RandomGrayscale,
    RandomInvert,
    RandomOrder,
    RandomPerspective,
    RandomPosterize,
    RandomRotation,
    RandomSolarize,
    TrivialAugmentWide,
)
from headrace.recipe.program_step import Interpolation, ProgramStep, read_fill, read_filter
from headrace.recipe.timm_objects import TIMM_READERS, read_timm_erasing

Form = Literal["pil", "bytes", "floats"]
Read = ProgramStep | str
_TENSORS = "on tensors it rounds differently from PIL images, which the core follows"
_UNKNOWN = "the core does not know it"
_SILENT = {
    "__annotations__",
    "__doc__",
    "__firstlineno__",
    "__init__",
    "__module__",
    "__parameters__",
    "__static_attributes__",
}
"""What a class may have that does not change what its steps do."""
_FAMILIES = {
    "torchvision.transforms.transforms": "v1",
    "torchvision.transforms.autoaugment": "v1",
    "timm.data.auto_augment": "timm",
    "timm.data.random_erasing": "timm",
}


def read_policy(step: Any, form: Form = "pil") -> Read | None:
    """Return our step for one of torchvision's or timm's, or why the core cannot run it; None if it is no such step."""
    if isinstance(step, ProgramStep):
        return step
    kind = _find_class(step)
    reader = _READERS.get(_find_family(kind), {}).get(kind.__name__)
    if reader is None:
        return None
    change = find_change(step)
    if change:
        return f"{change}, which the core would not do"
    try:
        return reader(step, form)
    except (TypeError, ValueError) as error:  # arguments that our step does not take
        return f"the core does not run it: {error}"


def find_family(step: object) -> str | None:
    """Return `v1` or `v2` of torchvision, or `timm`, for a step whose class is theirs; None for others."""
    return _find_family(_find_class(step))


def _find_family(kind: type) -> str | None:
    module = kind.__module__
    return "v2" if module.startswith("torchvision.transforms.v2.") else _FAMILIES.get(module)


def _find_class(step: object) -> type:
    """Return the class that says what a step does: its own, or the one above where it only has another `__init__`.

    So is DINOv2's GaussianBlur, which is a RandomApply that makes its blur itself.
    """
    kind = type(step)
    while _find_family(kind) is None and len(kind.__bases__) == 1 and set(vars(kind)) <= _SILENT:
        kind = kind.__bases__[0]
    return kind


def _read_fill(step: Any) -> Any:
    """Return the fill of a step for PIL images. In version 2, a dict may have one for each class.

    A fill for `tv_tensors.Image` is not one for PIL images.
    """
    if not isinstance(step.fill, dict):
        return read_fill(step.fill)
    fills = {getattr(key, "__module__", key): fill for key, fill in step.fill.items()}
    if "PIL.Image" not in fills and "others" not in fills:
        raise ValueError(f"fill is {step.fill}, without one for PIL images")
    return read_fill(fills.get("PIL.Image", fills.get("others")))


def _read_interpolation(step: Any) -> Interpolation:
    name = read_filter(step.interpolation)
    if name is None:
        raise ValueError(f"interpolation is {step.interpolation}, which does not move pixels")
    return name


def _version(step: Any) -> int:
    return 2 if find_family(step) == "v2" else 1


def _read_trivial(step: Any) -> Read:
    options = _read_interpolation(step), _read_fill(step), _version(step)
    return TrivialAugmentWide(step.num_magnitude_bins, *options)


def _read_rand(step: Any) -> Read:
    options = _read_interpolation(step), _read_fill(step), _version(step)
    return RandAugment(step.num_ops, step.magnitude, step.num_magnitude_bins, *options)


def _read_auto(step: Any) -> Read:
    table = step._policies if _version(step) == 2 else step.policies
    lines = tuple(tuple((name, p, bin_ or 0) for name, p, bin_ in line) for line in table)
    if lines != TABLES[step.policy.value]:
        return "its policies were changed"
    return AutoAugment(
        step.policy.value, _read_interpolation(step), _read_fill(step), _version(step)
    )


def _read_jitter(step: Any) -> Read:
    still = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}
    ranges = {name: getattr(step, name) for name in still}
    return ColorJitter(
        **{
            name: still[name] if bounds is None else tuple(bounds)
            for name, bounds in ranges.items()
        }
    )


def _read_blur(step: Any) -> Read:
    sizes = tuple(step.kernel_size)
    if sizes[0] != sizes[-1]:
        return "the core blurs with the same kernel_size along x and y"
    return GaussianBlur(int(sizes[0]), (float(step.sigma[0]), float(step.sigma[1])))


def _read_gray(step: Any) -> Read:
    if step.num_output_channels != 3:
        return "its images have one channel: give num_output_channels=3"
    return RandomGrayscale(1.0)


def _read_rotation(step: Any) -> Read:
    if step.expand:
        return "with expand, images differ in size"
    degrees = float(step.degrees[0]), float(step.degrees[1])
    return RandomRotation(degrees, _read_interpolation(step), _pair(step.center), _read_fill(step))


def _read_affine(step: Any) -> Read:
    shear = None if step.shear is None else tuple(float(bound) for bound in step.shear)
    degrees = float(step.degrees[0]), float(step.degrees[1])
    ranges = _pair(step.translate), _pair(step.scale), shear
    options = _read_interpolation(step), _read_fill(step), _pair(step.center)
    return RandomAffine(degrees, *ranges, *options)


def _read_perspective(step: Any) -> Read:
    options = _read_interpolation(step), _read_fill(step)
    return RandomPerspective(float(step.distortion_scale), float(step.p), *options)


def _pair(values: Sequence[float] | None) -> tuple[float, float] | None:
    return None if values is None else (float(values[0]), float(values[1]))


def _read_inner(steps: Iterable[Any]) -> tuple[ProgramStep, ...] | str:
    """Return the steps inside of a container, or why the core cannot run one of them."""
    inner: list[ProgramStep] = []
    for step in steps:
        read = _read_compose(step) if _is_compose(step) else read_policy(step)
        if read is None or isinstance(read, str):
            return f"the core does not run {type(step).__name__} in it: {read or _UNKNOWN}"
        inner.append(read)
    return tuple(inner)


def _is_compose(step: Any) -> bool:
    name = type(step).__name__
    sequential = name == "Sequential" and type(step).__module__.startswith("torch.nn.")
    return sequential or (name == "Compose" and find_family(step) in ("v1", "v2"))


def _read_compose(step: Any) -> Read:
    """Return the steps of a Compose or nn.Sequential as one that always applies them."""
    inner = find_change(step) or _read_inner(getattr(step, "transforms", step))
    return inner if isinstance(inner, str) else RandomApply(inner, 1.0)


def _read_apply(step: Any) -> Read:
    inner = _read_inner(step.transforms)
    return inner if isinstance(inner, str) else RandomApply(inner, float(step.p))


def _read_choice(step: Any) -> Read:
    inner = _read_inner(step.transforms)
    weights = None if step.p is None else tuple(float(weight) for weight in step.p)
    return inner if isinstance(inner, str) else RandomChoice(inner, weights)


def _read_order(step: Any) -> Read:
    inner = _read_inner(step.transforms)
    return inner if isinstance(inner, str) else RandomOrder(inner)


def _read_erasing(step: Any, form: Form) -> Read:
    value = "random" if step.value is None else step.value
    numbers = (value,) if isinstance(value, (int, float)) else value
    if form == "pil" and find_family(step) == "v1":
        return "it is for tensors"
    if form != "floats":
        if isinstance(numbers, str):
            return "the core has random values for floats only"
        if not all(level in range(256) for level in numbers):
            return "its value is not in levels from 0 to 255"
    levels = numbers if isinstance(numbers, str) else tuple(float(level) for level in numbers)
    ranges = _pair(step.scale), _pair(step.ratio)
    return RandomErasing(float(step.p), *ranges, levels, pixels=form == "pil")  # type: ignore[arg-type]


def _on_pil(reader: Callable[[Any], Read]) -> Reader:
    """Return a reader of a step that the core runs as on PIL images only."""
    return lambda step, form: reader(step) if form == "pil" else _TENSORS


Reader = Callable[[Any, Form], Read]
_PIXELS: dict[str, Callable[[Any], Read]] = {
    "TrivialAugmentWide": _read_trivial,
    "RandAugment": _read_rand,
    "AutoAugment": _read_auto,
    "ColorJitter": _read_jitter,
    "GaussianBlur": _read_blur,
    "Grayscale": _read_gray,
    "RandomGrayscale": lambda step: RandomGrayscale(float(step.p)),
    "RandomInvert": lambda step: RandomInvert(float(step.p)),
    "RandomPosterize": lambda step: RandomPosterize(step.bits, float(step.p)),
    "RandomSolarize": lambda step: RandomSolarize(float(step.threshold), float(step.p)),
    "RandomAdjustSharpness": lambda step: RandomAdjustSharpness(
        float(step.sharpness_factor), float(step.p)
    ),
    "RandomAutocontrast": lambda step: RandomAutocontrast(float(step.p)),
    "RandomEqualize": lambda step: RandomEqualize(float(step.p)),
    "RandomHorizontalFlip": lambda step: RandomFlip(float(step.p)),
    "RandomVerticalFlip": lambda step: RandomFlip(float(step.p), rows=True),
    "RandomRotation": _read_rotation,
    "RandomAffine": _read_affine,
    "RandomPerspective": _read_perspective,
    "RandomApply": _read_apply,
    "RandomChoice": _read_choice,
    "RandomOrder": _read_order,
}
_TORCHVISION: dict[str, Reader] = {
    **{name: _on_pil(reader) for name, reader in _PIXELS.items()},
    "RandomErasing": _read_erasing,
}
_READERS: dict[str | None, dict[str, Reader]] = {
    "v1": _TORCHVISION,
    "v2": _TORCHVISION,
    "timm": {
        **{name: _on_pil(reader) for name, reader in TIMM_READERS.items()},
        "RandomErasing": read_timm_erasing,
    },
}
