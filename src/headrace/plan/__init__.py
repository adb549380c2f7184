"""Decides what is in every batch: order, split and boxes as arrays, from index columns and a seed.

NumPy only: no files, no threads, no state. Every function is pure, and so safe in any thread or process.
"""

from headrace.plan.boxes import keep_boxes, to_xyxy
from headrace.plan.buckets import BucketOrder
from headrace.plan.clips import (
    count_offsets,
    count_starts_in_time,
    find_short,
    jitter_offsets,
    loop_video,
    measure_spans,
    repeat_last,
    show_in_time,
    spread_over_video,
    start_anywhere,
    start_evenly,
    start_one_after_another,
)
from headrace.plan.color import jitter_factors, jitter_order, jitter_range, lighting_alphas
from headrace.plan.crops import (
    CROP_UNIFORMS,
    center_crop_offsets,
    cover_sizes,
    pad_to_size,
    random_crop_offsets,
    random_flip,
    random_resized_crop,
    resize_shorter,
    scale_sizes,
    three_crop_offsets,
)
from headrace.plan.epoch import EpochPlan, StepPlan, plan_epoch
from headrace.plan.mixing import cut_box, draw_beta, draw_mixing_uniforms, find_rings
from headrace.plan.mixture import draw_mixture
from headrace.plan.moves import (
    CropMove,
    FlipMove,
    Move,
    ResizeMove,
    move_boxes,
    move_points,
)
from headrace.plan.philox import Stream, draw_seeds, draw_uniforms
from headrace.plan.runs import Runs, cut_runs
from headrace.plan.shuffle import Shuffle
from headrace.plan.split import Split
from headrace.plan.weights import draw_weighted

__all__ = [
    "CROP_UNIFORMS",
    "BucketOrder",
    "CropMove",
    "EpochPlan",
    "FlipMove",
    "Move",
    "ResizeMove",
    "Runs",
    "Shuffle",
    "Split",
    "StepPlan",
    "Stream",
    "center_crop_offsets",
    "count_offsets",
    "count_starts_in_time",
    "cover_sizes",
    "cut_box",
    "cut_runs",
    "draw_beta",
    "draw_mixing_uniforms",
    "draw_mixture",
    "draw_seeds",
    "draw_uniforms",
    "draw_weighted",
    "find_rings",
    "find_short",
    "jitter_factors",
    "jitter_offsets",
    "jitter_order",
    "jitter_range",
    "keep_boxes",
    "lighting_alphas",
    "loop_video",
    "measure_spans",
    "move_boxes",
    "move_points",
    "pad_to_size",
    "plan_epoch",
    "random_crop_offsets",
    "random_flip",
    "random_resized_crop",
    "repeat_last",
    "resize_shorter",
    "scale_sizes",
    "show_in_time",
    "spread_over_video",
    "start_anywhere",
    "start_evenly",
    "start_one_after_another",
    "three_crop_offsets",
    "to_xyxy",
]
