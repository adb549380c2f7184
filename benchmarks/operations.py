"""Microseconds of each operation on an image of 224 x 224, on one thread, beside Pillow's.

    python benchmarks/operations.py [--rounds 15]

An operation of ours is timed as what it adds to rendering the same image without one.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter, ImageOps, __version__

from headrace.render import Op, Program, render_batch

SIDE, BATCH = 224, 16
PHOTO = Path(__file__).parents[1] / "tests/data/photos/BloodImage_00000.jpg"
AFFINE, PERSPECTIVE = Image.Transform.AFFINE, Image.Transform.PERSPECTIVE
TURN = (0.94, -0.34, 45.0, 0.34, 0.94, -31.0)
MOVE = (1.0, 0.0, 20.5, 0.0, 1.0, 0.0)
SHEAR = (1.0, 0.3, -20.0, 0.0, 1.0, 0.0)
SHEAR_DOWN = (1.0, 0.0, 0.0, 0.3, 1.0, -20.0)
TILT = (1.1, 0.1, -9.0, 0.05, 1.2, -7.0, 0.0004, 0.0006)
Work = Callable[[Image.Image], Image.Image]


def turn_hue(image: Image.Image) -> Image.Image:
    hue, saturation, value = image.convert("HSV").split()
    turned = Image.fromarray(np.array(hue, np.uint8) + np.uint8(25))
    return Image.merge("HSV", (turned, saturation, value)).convert("RGB")


def solarize_add(image: Image.Image) -> Image.Image:
    levels = [min(255, level + 50) if level < 128 else level for level in range(256)]
    return image.point(levels * 3)


def warp(method: Image.Transform, matrix: tuple[float, ...], filter: int) -> Work:
    return lambda image: image.transform(
        image.size, method, matrix, Image.Resampling(filter), fillcolor=(0, 0, 0)
    )


def erase(image: Image.Image) -> Image.Image:
    image = image.copy()
    image.paste((1, 2, 3), (50, 60, 130, 150))
    return image


OPERATIONS: dict[str, tuple[tuple[float, ...], Work | None]] = {
    "brightness": ((Op.BRIGHTNESS, 1.3), lambda im: ImageEnhance.Brightness(im).enhance(1.3)),
    "contrast": ((Op.CONTRAST, 1.3), lambda im: ImageEnhance.Contrast(im).enhance(1.3)),
    "color": ((Op.COLOR, 1.3), lambda im: ImageEnhance.Color(im).enhance(1.3)),
    "sharpness": ((Op.SHARPNESS, 1.3), lambda im: ImageEnhance.Sharpness(im).enhance(1.3)),
    "hue": ((Op.HUE, 0.1), turn_hue),
    "grayscale": ((Op.GRAYSCALE,), lambda im: im.convert("L").convert("RGB")),
    "invert": ((Op.INVERT,), ImageOps.invert),
    "posterize": ((Op.POSTERIZE, 4), lambda im: ImageOps.posterize(im, 4)),
    "solarize": ((Op.SOLARIZE, 128), lambda im: ImageOps.solarize(im, 128)),
    "solarize add": ((Op.SOLARIZE_ADD, 50, 128), solarize_add),
    "autocontrast": ((Op.AUTOCONTRAST,), ImageOps.autocontrast),
    "equalize": ((Op.EQUALIZE,), ImageOps.equalize),
    "translate, nearest": ((Op.AFFINE, *MOVE, 0), warp(AFFINE, MOVE, 0)),
    "shear, nearest": ((Op.AFFINE, *SHEAR, 0), warp(AFFINE, SHEAR, 0)),
    "rotate, nearest": ((Op.AFFINE, *TURN, 0), warp(AFFINE, TURN, 0)),
    "rotate, bilinear": ((Op.AFFINE, *TURN, 2), warp(AFFINE, TURN, 2)),
    "shear, bicubic": ((Op.AFFINE, *SHEAR, 3), warp(AFFINE, SHEAR, 3)),
    "shear down, bicubic": ((Op.AFFINE, *SHEAR_DOWN, 3), warp(AFFINE, SHEAR_DOWN, 3)),
    "rotate, bicubic": ((Op.AFFINE, *TURN, 3), warp(AFFINE, TURN, 3)),
    "perspective, bilinear": ((Op.PERSPECTIVE, *TILT, 2), warp(PERSPECTIVE, TILT, 2)),
    "Gaussian blur, radius 1": (
        (Op.GAUSSIAN_BLUR, 1.0),
        lambda im: im.filter(ImageFilter.GaussianBlur(1.0)),
    ),
    "Gaussian blur, radius 9": (
        (Op.GAUSSIAN_BLUR, 9.0),
        lambda im: im.filter(ImageFilter.GaussianBlur(9.0)),
    ),
    "blur of torchvision, 9 x 9": ((Op.TORCH_BLUR, 1.0, 9), None),
    "blur of torchvision, 23 x 23": ((Op.TORCH_BLUR, 1.0, 23), None),
    "flip": ((Op.FLIP,), lambda im: im.transpose(Image.Transpose.FLIP_LEFT_RIGHT)),
    "flip rows": ((Op.FLIP_ROWS,), lambda im: im.transpose(Image.Transpose.FLIP_TOP_BOTTOM)),
    "erase": ((Op.ERASE, 50, 60, 80, 90, 1, 2, 3), erase),
    "erase, noise": ((Op.ERASE_NOISE, 50, 60, 80, 90, 1, 2), None),
}


def time_best(work: Callable[[], object], rounds: int) -> float:
    """Return the least seconds of a call."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def time_core(pixels: NDArray[np.uint8], steps: list[tuple[float, ...]], rounds: int) -> float:
    """Return the seconds per image of a batch with these steps."""
    program = Program.of([steps] * BATCH)
    out = np.empty((BATCH, SIDE, SIDE, 3), np.uint8)
    boxes = np.tile(np.int32([0, 0, SIDE, SIDE]), (BATCH, 1))

    def render() -> None:
        render_batch([pixels] * BATCH, boxes, (SIDE, SIDE), program=program, out=out, threads=1)

    return time_best(render, rounds) / BATCH


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    image = Image.open(PHOTO).convert("RGB").resize((SIDE, SIDE))
    pixels = np.asarray(image)
    print(f"{platform.machine()}, Pillow {__version__}, microseconds per image, one thread\n")
    print("| operation | Pillow | Headrace | times |\n|---|---|---|---|")
    for name, (step, pillow) in OPERATIONS.items():
        plain = time_core(pixels, [], rounds)
        ours = max(time_core(pixels, [step], rounds) - plain, 1e-7) * 1e6
        theirs = time_best(lambda work=pillow: work(image), rounds) * 1e6 if pillow else None
        shown = ("–", "–") if theirs is None else (f"{theirs:.0f}", f"{theirs / ours:.1f}")
        print(f"| {name} | {shown[0]} | {ours:.0f} | {shown[1]} |")


if __name__ == "__main__":
    main()
