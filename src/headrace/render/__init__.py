"""Render batches: decode, crop, resize, flip, change colours, run programs and normalise encoded images.

The result is bit for bit what Pillow 13 gives for the same box, on every CPU and for any number of
threads. Nothing here is random: whatever differs from image to image is an array that the caller
gives. An image that does not decode is a status, not an exception.
"""

from headrace._core import Crew
from headrace.render.arena import Arena
from headrace.render.decode import build_seek, decode_jpeg
from headrace.render.draws import Color, Draws, Viewport
from headrace.render.options import Output, Resample
from headrace.render.program import Op, Program
from headrace.render.render_batch import render_batch
from headrace.render.request import Jobs, Rendering, RenderRequest, Target, View
from headrace.render.status import Status, status_message

__all__ = [
    "Arena",
    "Color",
    "Crew",
    "Draws",
    "Jobs",
    "Op",
    "Output",
    "Program",
    "RenderRequest",
    "Rendering",
    "Resample",
    "Status",
    "Target",
    "View",
    "Viewport",
    "build_seek",
    "decode_jpeg",
    "render_batch",
    "status_message",
]
