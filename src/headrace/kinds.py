"""The kinds of fields: what the values of a field are, and how they follow the geometry of their image.

A kind is a plain value. Packing recognises the kinds of fields and writes them into the manifest; a loader takes
others in their place:

    Loader("shards/docs", 8, fields=("d1", "d1.label"), kinds={"d1.label": Points(of="d1")})

`of` is the field whose image a target belongs to, with or without its suffix. Default: the first image of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from headrace.arguments import check_choice

__all__ = ["Boxes", "Image", "Map", "Mask", "Points", "Text"]

Nearest = Literal["nearest", "nearest-exact"]
BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
ValueScale = Literal["none", "x", "xy"]
MaskType = Literal["uint8", "uint16", "int32", "int64"]


@dataclass(frozen=True)
class Image:
    """An RGB image.

    Args:
        channels: order of the channels of an array, as a `.npy` file has it; OpenCV's is `bgr`.
    """

    channels: Literal["bgr", "rgb"] = "bgr"

    def __post_init__(self) -> None:
        check_choice("channels", self.channels, ("bgr", "rgb"))


@dataclass(frozen=True)
class Mask:
    """An image of labels: levels of grey, or the indices of a palette. Labels are never mixed.

    Args:
        of: field of its image.
        interpolation: rule for the nearest pixel. `nearest` is that of torchvision on a `tv_tensors.Mask`, and of
            OpenCV: it lies up to half a pixel to the upper left. `nearest-exact` takes the centre of each pixel.
        fill: label outside of the image.
        rgb_ids: whether the labels of an RGB image are R + 256 G + 65536 B, as in COCO's panoptic masks.
        dtype: type of the labels. Default: uint8; uint16 for masks of 16 bits, int32 for ids.
    """

    of: str | None = None
    interpolation: Nearest = "nearest"
    fill: int = 255
    rgb_ids: bool = False
    dtype: MaskType | None = None

    def __post_init__(self) -> None:
        check_choice("interpolation", self.interpolation, ("nearest", "nearest-exact"))
        check_choice("dtype", self.dtype, (None, "uint8", "uint16", "int32", "int64"))


@dataclass(frozen=True)
class Map:
    """An array of floats [H, W] or [H, W, C], such as depth, disparity or flow. It is resized as torch resizes floats.

    Steps in Python get it as torchvision's `Mask`, and so resize it by the nearest pixel.

    Args:
        of: field of its image.
        scale: what resizing does to its values: `none`; `x` multiplies them by the ratio of the widths (disparity);
            `xy` multiplies channel 0 by the ratio of the widths and channel 1 by that of the heights (flow), and a flip
            negates the channel of its direction.
        interpolation: `bilinear`, antialiased; or `nearest`, for maps with gaps.
        fill: value outside of the image.
        divisor: number that the levels of a 16-bit image are divided by: 256 for KITTI's depth.
    """

    of: str | None = None
    scale: ValueScale = "none"
    interpolation: Literal["bilinear", "nearest"] = "bilinear"
    fill: float = 0.0
    divisor: float = 1.0

    def __post_init__(self) -> None:
        check_choice("scale", self.scale, ("none", "x", "xy"))
        check_choice("interpolation", self.interpolation, ("bilinear", "nearest"))
        if not self.divisor > 0:
            raise ValueError(f"divisor is {self.divisor}; give a positive number")


@dataclass(frozen=True)
class Points:
    """Points (x, y) in pixels of their image, an array [..., 2]. They may leave the image.

    Args:
        of: field of its image.
    """

    of: str | None = None


@dataclass(frozen=True)
class Boxes:
    """Boxes in pixels of their image, an array [N, 4]. Batches have them as float32 (left, top, right, bottom).

    Args:
        of: field of its image.
        format: what the four numbers are: `xyxy`, `xywh` (left, top, width, height), or `cxcywh` (centre, width, height).
        columns: columns with a value per box, such as its label, which go where their box goes.
    """

    of: str | None = None
    format: BoxFormat = "xyxy"
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("format", self.format, ("xyxy", "xywh", "cxcywh"))
        object.__setattr__(self, "columns", tuple(self.columns))


@dataclass(frozen=True)
class Text:
    """Text in UTF-8, such as a caption: a str per sample."""


Kind = Image | Mask | Map | Points | Boxes | Text

_KINDS: dict[str, type[Kind]] = {
    "image": Image,
    "mask": Mask,
    "map": Map,
    "points": Points,
    "boxes": Boxes,
    "text": Text,
}
NAMES: dict[type[Kind], str] = {kind: name for name, kind in _KINDS.items()}
"""What manifests and messages call each kind."""


def write_kind(kind: Kind) -> dict[str, Any]:
    """Return a kind as JSON has it: its name, and the options that are not the defaults."""
    default = type(kind)()
    changed = {
        name: value for name, value in asdict(kind).items() if value != getattr(default, name)
    }
    return {"kind": NAMES[type(kind)], **changed}


def read_kind(content: Mapping[str, Any]) -> Kind:
    """Return the kind that `write_kind` wrote.

    Raises:
        ValueError, TypeError: It did not write this.
    """
    options = dict(content)
    kind = _KINDS.get(options.pop("kind", None))
    if kind is None:
        raise ValueError(f"kind is {content.get('kind')!r}; it must be one of {', '.join(_KINDS)}")
    unknown = set(options) - {option.name for option in fields(kind)}
    if unknown:
        raise ValueError(f"{NAMES[kind]} has no option {min(unknown)!r}")
    return kind(**options)
