"""What timm's configuration strings mean: `rand-m9-mstd0.5-inc1` and the like, the values of its `--aa`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.plan.policy_tables import TABLES
from headrace.recipe.program_step import read_fill, read_filter
from headrace.recipe.timm_policies import THREE, AugmentOp, LayeredAugment, PolicyAugment

_RAND = [
    "AutoContrast",
    "Equalize",
    "Invert",
    "Rotate",
    "Posterize",
    "Solarize",
    "SolarizeAdd",
    "Color",
    "Contrast",
    "Brightness",
    "Sharpness",
    "ShearX",
    "ShearY",
    "TranslateXRel",
    "TranslateYRel",
]
_INCREASING = {"Posterize", "Solarize", "Color", "Contrast", "Brightness", "Sharpness"}
_THREE = ["SolarizeIncreasing", "Desaturate", "GaussianBlur"]
_WEIGHTS_3A = {
    **dict.fromkeys(_THREE, 6.0),
    "Rotate": 3.0,
    "ShearX": 2.0,
    "ShearY": 2.0,
    "PosterizeIncreasing": 1.0,
    "AutoContrast": 1.0,
    "ColorIncreasing": 1.0,
    "SharpnessIncreasing": 1.0,
    "ContrastIncreasing": 1.0,
    "BrightnessIncreasing": 1.0,
    "Equalize": 1.0,
    "Invert": 1.0,
}
_WEIGHTS_0 = {
    "Rotate": 3.0,
    "ShearX": 2.0,
    "ShearY": 2.0,
    "TranslateXRel": 1.0,
    "TranslateYRel": 1.0,
    "ColorIncreasing": 0.25,
    "SharpnessIncreasing": 0.25,
    "AutoContrast": 0.25,
    "SolarizeIncreasing": 0.05,
    "SolarizeAdd": 0.05,
    "ContrastIncreasing": 0.05,
    "BrightnessIncreasing": 0.05,
    "Equalize": 0.05,
    "PosterizeIncreasing": 0.05,
    "Invert": 0.05,
}
_AUTO = {"original": "PosterizeOriginal", "originalr": "PosterizeIncreasing"}
_AUTO |= {"v0": "Posterize", "v0r": "PosterizeIncreasing"}


def read_timm_policy(
    config: str, hparams: Mapping[str, Any] | None = None
) -> LayeredAugment | PolicyAugment | str:
    """Return what timm makes of a string such as `rand-m9-mstd0.5-inc1`, `original-mstd0.5` or `3a`; or why it is not for the core.

    Args:
        config: the value of timm's `--aa`.
        hparams: timm's own, such as `img_mean`, `translate_const` and `interpolation`. Default: timm's defaults.

    Raises:
        ValueError: timm does not know it either.
    """
    name, *sections = config.split("-")
    if name == "augmix":
        return "the core does not mix images as AugMix does"
    options = dict(_read_section(section, config) for section in sections)
    options.pop("", None)
    given = hparams or {}
    base = read_hparams(given)
    if isinstance(base, str):
        return base
    if name == "rand":
        return _read_rand(options, base, given, config)
    if set(options) - {"mstd"} or (name not in _AUTO and name != "3a"):
        raise ValueError(f"{config!r} is not a policy of timm; give 'rand-m9-mstd0.5-inc1', 'v0'")
    if "mstd" in options and "magnitude_std" not in given:
        base = replace(base, magnitude_std=float(options["mstd"]))
    return _read_auto(name, base)


def read_hparams(hparams: Mapping[str, Any]) -> AugmentOp | str:
    """Return an operation with what timm's hparams say for all of them, or why it is not for the core."""
    interpolation = hparams.get("interpolation", ("bilinear", "bicubic"))
    names = interpolation if isinstance(interpolation, (list, tuple)) else (interpolation,)
    filters = tuple(name for name in map(read_filter, names) if name is not None)
    if len(filters) != len(names):
        return "its interpolation is not nearest, bilinear or bicubic"
    try:
        fill = read_fill(hparams.get("img_mean", (128, 128, 128)))
    except ValueError:
        return "its img_mean is not one colour in levels from 0 to 255"
    return AugmentOp(
        "Invert",
        magnitude_std=float(hparams.get("magnitude_std", 0.0)),
        magnitude_max=float(hparams.get("magnitude_max") or 10.0),
        translate_const=float(hparams.get("translate_const", 250.0)),
        translate_pct=float(hparams.get("translate_pct", 0.45)),
        interpolation=filters,
        fill=fill,
    )


def _read_section(section: str, config: str) -> tuple[str, str]:
    """Return key and value of a section of a string. timm ignores those without a number."""
    if section.startswith("t") and config.startswith("rand"):
        return "t", section[1:]
    key, *value = re.split(r"(\d.*)", section)
    return (key, value[0]) if value else ("", "")


def _read_rand(
    options: dict[str, str], base: AugmentOp, hparams: Mapping[str, Any], config: str
) -> LayeredAugment:
    unknown = set(options) - {"m", "n", "p", "mstd", "mmax", "inc", "t"}
    if unknown:
        raise ValueError(
            f"{config!r} has {sorted(unknown)}; timm knows m, n, p, mstd, mmax, inc, t"
        )
    std = float(options.get("mstd", 0.0))
    if "mstd" in options and "magnitude_std" not in hparams:
        base = replace(base, magnitude_std=math.inf if std > 100 else std)
    if "mmax" in options and "magnitude_max" not in hparams:
        base = replace(base, magnitude_max=float(int(options["mmax"]) or 10))
    base = replace(base, p=float(options.get("p", 0.5)), magnitude=float(int(options.get("m", 10))))
    increasing = bool(int(options.get("inc", 0)))
    names, weights = _choose_set(options.get("t"), increasing=increasing)
    ops = tuple(replace(base, name=name) for name in names)
    return LayeredAugment(ops, int(options.get("n", 2)), weights)


def _choose_set(
    name: str | None, *, increasing: bool
) -> tuple[list[str], tuple[float, ...] | None]:
    if name in ("weights", "3aw"):
        table = _WEIGHTS_0 if name == "weights" else _WEIGHTS_3A
        return list(table), tuple(
            (np.array([*table.values()]) / np.sum([*table.values()])).tolist()
        )
    if name == "3a":
        return _THREE, None
    names = [f"{op}Increasing" if increasing and op in _INCREASING else op for op in _RAND]
    return names, None


def _read_auto(name: str, base: AugmentOp) -> PolicyAugment:
    if name == "3a":
        parts = (op for (op,) in THREE)
        return PolicyAugment(
            tuple((replace(base, name=op.name, p=op.p, magnitude=op.magnitude),) for op in parts)
        )
    table = TABLES["v0" if name.startswith("v0") else "imagenet"]
    named = {"Posterize": _AUTO[name]}
    return PolicyAugment(
        tuple(
            tuple(
                replace(base, name=named.get(op, op), p=p, magnitude=float(level))
                for op, p, level in line
            )
            for line in table
        )
    )
