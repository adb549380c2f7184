"""Encoded bytes and boxes in, finished pixels out: decode, crop, resize, flip, colours, normalise.

Guaranteed: bit for bit what Pillow 13 gives for the same box, on every CPU and for any number of
threads. Nothing here is random: whatever differs from sample to sample is an array given by the
caller. A sample that does not decode is a status, not an exception.
"""

from headrace._core import Crew
from headrace.render.batch import Rendering, Resample, begin_batch, render_batch
from headrace.render.decode import build_seek, decode_jpeg
from headrace.render.inputs import Arena
from headrace.render.options import Color, Output, Window
from headrace.render.status import Status, status_message

__all__ = [
    "Arena",
    "Color",
    "Crew",
    "Output",
    "Rendering",
    "Resample",
    "Status",
    "Window",
    "begin_batch",
    "build_seek",
    "decode_jpeg",
    "render_batch",
    "status_message",
]
