"""Classifies what a loading thread does by its Python stack: read, decode, transform, other Python, or idle."""

from __future__ import annotations

import linecache
import os
import re
from types import CodeType, FrameType

READ, DECODE, TRANSFORM, COLLATE = "read", "decode", "transform", "collate"
PYTHON, BLOCKED, IDLE = "Python", "blocked", "idle"
WORK_KINDS = (READ, DECODE, TRANSFORM, COLLATE, PYTHON, BLOCKED, IDLE)

_READS = re.compile(r"(\bread\(|\.readinto\(|\bopen\(|\.pread|fromfile\(|read_file\(|read_bytes\()")
_DECODES = re.compile(r"(decode|imread|\.load\(\)|\.draft\()")
_DECODERS = ("PIL/ImageFile.py", "torchvision/io/image.py", "ImagePlugin.py")
_READERS = re.compile(r"(read|open|fromfile)")
_WAITS = re.compile(r"(\.get\(\)|\.poll\()")
"""Calls of queues and polls that wait in C, without a Python frame of their own."""
_TRANSFORMS = ("/torchvision/transforms/", "/timm/data/")
_CORE_DOES = frozenset(
    [
        "AugmentOp",
        "AutoAugment",
        "CenterCrop",
        "ColorJitter",
        "ConvertImageDtype",
        "GaussianBlur",
        "Grayscale",
        "ImageClassification",
        "MaybePILToTensor",
        "MaybeToTensor",
        "Normalize",
        "PILToTensor",
        "Pad",
        "RandAugment",
        "RandomAdjustSharpness",
        "RandomAffine",
        "RandomApply",
        "RandomAutocontrast",
        "RandomChoice",
        "RandomCrop",
        "RandomEqualize",
        "RandomErasing",
        "RandomGrayscale",
        "RandomHorizontalFlip",
        "RandomInvert",
        "RandomOrder",
        "RandomPerspective",
        "RandomPosterize",
        "RandomResize",
        "RandomResizedCrop",
        "RandomResizedCropAndInterpolation",
        "RandomRotation",
        "RandomSolarize",
        "RandomVerticalFlip",
        "Resize",
        "SanitizeBoundingBoxes",
        "ToDtype",
        "ToImage",
        "ToTensor",
        "TrivialAugmentWide",
    ]
)
"""Transforms that Headrace's core can replace; see recipe/torchvision.py."""
_WAITERS = (
    "multiprocessing/connection.py",
    "multiprocessing/queues.py",
    "multiprocessing/synchronize.py",
    "headrace/work/channel.py",
    "selectors.py",
    "queue.py",
    "threading.py",
    "zmq/sugar/poll.py",
)
_WORKER_LOOPS = {
    "_worker_loop": "_utils/worker.py",
    "_work": "headrace/work/worker_processes.py",
    "_produce": "headrace/flow/in_process.py",
}
_PROBE = "headrace/workbench/probe/patches.py"
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + "/"
"""The folder of this Headrace; the watched program may use another, installed one."""
_INSTALLED = re.compile(r"/(?:site|dist)-packages/headrace/")
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen", _ROOT)
_TOOLS = ("/lib/python", "<frozen", "-packages/numpy/", "-packages/torch/")
"""Libraries that Headrace calls for its own work."""
_OWN_WORK = {"render": DECODE} | dict.fromkeys(
    ("files", "formats", "pack", "plan", "read", "store"), READ
)
"""What the folders of Headrace do; all others make batches and pass them on."""

_seen: dict[tuple[str, int], str | None] = {}


def classify(frame: FrameType) -> tuple[str, str]:
    """Return the kind and the place of a stack.

    A library frame without a kind of its own gets the kind of the calling line, if that is unambiguous: a
    line that opens a file may do much else, and Pillow opens, decodes and resizes in one.
    """
    kind = classify_line(frame.f_code, frame.f_lineno)
    if kind is not None:
        return kind, name_place(frame)
    if frame.f_back is not None and _is_library(frame) and "/PIL/" not in frame.f_code.co_filename:
        above = classify_line(frame.f_back.f_code, frame.f_back.f_lineno)
        if above == DECODE or (above == READ and _READERS.search(frame.f_code.co_name)):
            return above, name_place(frame)
    return _find_own_work(frame) or _find_core_work(frame) or PYTHON, name_place(frame)


def classify_line(code: CodeType, line: int) -> str | None:
    """Return the kind of a line of code; None if its text does not tell."""
    place = code.co_filename, line  # code objects of two files may be equal
    if place not in _seen:
        _seen[place] = _classify_text(code.co_filename, linecache.getline(code.co_filename, line))
    return _seen[place]


def _classify_text(file: str, text: str) -> str | None:
    if file.endswith(_WAITERS):
        return IDLE
    if file.endswith("_utils/collate.py"):
        return COLLATE
    if _READS.search(text):
        return READ
    if file.endswith(_DECODERS) or _DECODES.search(text):
        return DECODE
    if _WAITS.search(text):
        return IDLE
    return None


def _find_core_work(frame: FrameType) -> str | None:
    """Return DECODE or TRANSFORM if the core could replace this library call; None otherwise."""
    found, outer = None, frame.f_back
    while outer is not None and _is_library(frame):
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if file.endswith("/torchvision/datasets/folder.py") and name == "pil_loader":
            return DECODE
        if any(part in file for part in _TRANSFORMS) and "self" in frame.f_code.co_varnames[:1]:
            of = type(frame.f_locals.get("self")).__name__
            if of != "Compose":
                found = TRANSFORM if of in _CORE_DOES else None  # the outermost decides
        frame, outer = outer, outer.f_back
    return found


def _find_own_work(frame: FrameType) -> str | None:
    """Return the kind if Headrace itself is working, directly or through a library; None otherwise."""
    found: FrameType | None = frame
    while found is not None and not _is_probe(found):
        file = found.f_code.co_filename
        if file.startswith(_ROOT) or _INSTALLED.search(file):
            return _OWN_WORK.get(_find_folder(file), COLLATE)
        if not any(part in file for part in _TOOLS):
            return None
        found = found.f_back
    return None


def _find_folder(file: str) -> str:
    """Return the folder below `headrace/` that a file of Headrace is in."""
    inside = file[len(_ROOT) :] if file.startswith(_ROOT) else _INSTALLED.split(file)[-1]
    return inside.partition("/")[0]


def _is_library(frame: FrameType) -> bool:
    return any(part in frame.f_code.co_filename for part in _LIBRARIES)


def name_place(frame: FrameType) -> str:
    """Return `file.py:function` of the innermost frame of the user, or of the innermost frame.

    Empty if Headrace itself is working: the user cannot change that.
    """
    found: FrameType | None = frame
    while found is not None and _is_library(found):
        found = None if _is_loop(found) or _is_probe(found) else found.f_back
    if found is None and _find_own_work(frame) is not None:
        return ""
    code = (found or frame).f_code
    parts = code.co_filename.split("/")[-1 if found is not None else -2 :]
    return f"{'/'.join(parts)}:{code.co_name}"


def _is_probe(frame: FrameType) -> bool:
    """Return whether this frame is the timed call of a loader: frames further out only wait for it."""
    return frame.f_code.co_filename.endswith(_PROBE)


def is_worker(frame: FrameType | None) -> bool:
    """Return whether the stack belongs to a worker process of torch or Headrace."""
    while frame is not None:
        if _is_loop(frame):
            return True
        frame = frame.f_back
    return False


def _is_loop(frame: FrameType) -> bool:
    file = _WORKER_LOOPS.get(frame.f_code.co_name)
    return file is not None and frame.f_code.co_filename.endswith(file)
