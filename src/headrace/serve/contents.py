"""What the batches of a loader consist of: images and what follows them, and where each step of the transforms runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.kinds import NAMES, Boxes, Map, Mask, Points, Text
from headrace.read.columns import Columns
from headrace.read.field_columns import PictureColumns
from headrace.read.table import Table
from headrace.recipe.clip import IMAGES, Shape
from headrace.recipe.core_or_python import Pipeline, divide_transform
from headrace.recipe.mixing import MixChoice, take_mixing
from headrace.recipe.scheduled_steps import list_starts, resolve_schedules
from headrace.recipe.views import Views, take_views
from headrace.render import Output
from headrace.serve.derived_options import find_common_size
from headrace.serve.loader_options import LoaderOptions
from headrace.serve.pictures import IMAGE, LABEL, Picture, find_pictures, list_pictures
from headrace.serve.targets import Targets, find_targets


class PictureAxes(NamedTuple):
    """How many axes the images of a batch have, and which one the channels become in tensors."""

    axes: int
    channels: int


@dataclass(frozen=True, eq=False)
class Contents:
    """What the batches of a loader consist of.

    Args:
        fields: The names of the values of a batch.
        pipelines: Where the steps of each view run.
        pictures: The images.
        targets: What follows them.
        views: The views, if a sample consists of several.
        as_list: Whether values are lists, since they may differ in size.
        mixing: How the images of a batch are mixed with each other in the end.
        later: The first of the steps of an epoch at which sizes change, each with the images from there on.
    """

    fields: tuple[str, ...]
    pipelines: tuple[Pipeline, ...]
    pictures: tuple[Picture, ...]
    targets: Targets
    views: Views | None = None
    as_list: bool = False
    mixing: MixChoice | None = None
    later: tuple[tuple[int, tuple[Picture, ...]], ...] = ()

    @property
    def columns(self) -> Columns:
        """All samples."""
        return self.targets.columns

    @property
    def shape(self) -> Shape:
        """What an image of a sample consists of."""
        return self.pipelines[0].shape if self.pictures else IMAGES

    @property
    def stack(self) -> bool:
        """Whether views are one array."""
        return self.views is not None and self.views.stack

    @property
    def outputs(self) -> tuple[Output, ...]:
        """What images are in the end, in each view."""
        return tuple(pipeline.final_output for pipeline in self.pipelines)

    @property
    def erases(self) -> bool:
        """Whether something is erased in finished floats, so that the core must make them."""
        recipes = [pipeline.recipe for pipeline in self.pipelines]
        return any(recipe is not None and bool(recipe.erasing) for recipe in recipes)

    @property
    def axes(self) -> PictureAxes:
        """How images lie in the arrays of a batch."""
        if self.as_list:
            return PictureAxes(3, 0)
        if self.stack:
            return PictureAxes(5, 2)
        count = 4 + len(self.shape.lead)
        return PictureAxes(count, 2 if count == 6 else 1)

    @property
    def image_at(self) -> tuple[int, ...]:
        """The places of images among the fields."""
        names = {picture.name for picture in self.pictures}
        return tuple(i for i, name in enumerate(self.fields) if name in names)

    @property
    def map_at(self) -> tuple[int, ...]:
        """The places of maps among the fields."""
        kinds = self.columns.requested.kinds
        return tuple(i for i, n in enumerate(self.fields) if isinstance(kinds.get(n), Map))

    @property
    def texts(self) -> tuple[int, ...]:
        """The places of texts among the fields: fields of text, and columns of strings."""
        columns = self.columns
        return tuple(
            i
            for i, name in enumerate(self.fields)
            if isinstance(columns.requested.kinds.get(name), Text)
            or (name in columns.user and str(columns.user[name].type) in ("string", "large_string"))
        )

    @property
    def ragged(self) -> frozenset[str]:
        """The points whose shapes differ from sample to sample."""
        kinds, targets = self.columns.requested.kinds, self.columns.targets
        return frozenset(
            name
            for name, kind in kinds.items()
            if isinstance(kind, Points) and not (name in targets and targets[name].is_uniform)
        )

    def describe_fields(self, chosen: Collection[str]) -> str:
        """Return the fields that are decoded; of an image alone those that it may be in, if there are others."""
        kinds = self.columns.requested.kinds
        parts = []
        for name in self.fields:
            if name == IMAGE and chosen:
                parts.append(", ".join(sorted(chosen)))
            elif name in kinds:
                parts.append(f"{name} ({NAMES[type(kinds[name])]})")
            elif name == IMAGE and kinds:
                parts.append(name)
        return ", ".join(parts)

    def leave_bytes(self) -> Contents:
        """Return the same without the core's conversion to floats, which a device will do."""
        pipelines = tuple(pipeline.leave_bytes() for pipeline in self.pipelines)
        pictures = tuple(picture.leave_bytes() for picture in self.pictures)
        owners = {name: pictures[self.pictures.index(p)] for name, p in self.targets.owners.items()}
        targets = replace(self.targets, owners=owners)
        later = tuple((step, tuple(p.leave_bytes() for p in found)) for step, found in self.later)
        return replace(self, pipelines=pipelines, pictures=pictures, targets=targets, later=later)


def find_contents(
    options: LoaderOptions, table: Table, rows: NDArray[np.int64] | None, epoch: int = 0
) -> Contents:
    """Decide what the batches of a loader consist of, and what runs where.

    Args:
        options: The options of the loader.
        table: All samples.
        rows: Rows that are used; None for all.
        epoch: The epoch, on which sizes may depend.

    Raises:
        TypeError, ValueError: An option does not fit the data.
    """
    contents = _find_contents_at(options, table, rows, epoch)
    if not contents.pictures:
        return contents
    later = tuple(
        (step, _find_contents_at(options, table, rows, epoch, step).pictures)
        for step in list_starts(options.transform, "step")[1:]
    )
    return replace(contents, later=later)


def _find_contents_at(
    options: LoaderOptions,
    table: Table,
    rows: NDArray[np.int64] | None,
    epoch: int,
    step: int = 0,
) -> Contents:
    """Decide what the batch of a step consists of."""
    columns, fields = table.columns, tuple(options.fields)
    found = find_pictures(columns, fields)
    transform, mixing = take_mixing(options.transform) if found else (None, None)
    transform = resolve_schedules(transform, epoch, step)
    views = take_views(transform)
    as_list = options.collate == "list"
    pipelines: tuple[Pipeline, ...] = (Pipeline(None),)
    if found:
        transforms = [transform] if views is None else list(views)
        kinds = columns.requested.kinds.values()
        follows = any(isinstance(kind, (Mask, Map, Points, Boxes)) for kind in kinds)
        pipelines = tuple(
            _divide(options, transform, found, rows, follows=follows) for transform in transforms
        )
        if any(pipeline.steps for pipeline in pipelines):
            pipelines = tuple(pipeline.pass_through_python() for pipeline in pipelines)
        _check_views(pipelines, views, as_list)
    any_size = as_list or max(options.batch_sizes) == 1 or options.buckets is not None
    pictures = list_pictures(columns, fields, pipelines, rows, any_size=any_size)
    threads = options.threads or 0
    targets = find_targets(columns, pictures, fields, threads=threads, as_list=as_list)
    contents = Contents(fields, pipelines, pictures, targets, views, as_list, mixing)
    _check(contents, options)
    if mixing is not None:
        _check_mixing(contents, options)
    return contents


def _divide(
    options: LoaderOptions,
    transform: object,
    found: dict[str, PictureColumns],
    rows: NDArray[np.int64] | None,
    *,
    follows: bool,
) -> Pipeline:
    """Decide where the steps of a view run, for images that may have several sizes."""
    sizes = {find_common_size(picture, rows) for picture in found.values()}
    anything = options.collate == "list" or options.buckets is not None
    return divide_transform(
        transform,
        None if None in sizes else next(iter(sizes)),
        collates=options.collate_fn is not None,
        any_size=max(options.batch_sizes) == 1 or anything,
        follows=follows,
    )


def _check_views(pipelines: Sequence[Pipeline], views: Views | None, as_list: bool) -> None:
    if views is None:
        return
    if any(pipeline.clip is not None for pipeline in pipelines):
        raise ValueError("Views are of images: leave Clip out; Clip(clips=2) gives several clips")
    without = [number for number, pipeline in enumerate(pipelines) if pipeline.recipe is None]
    if without and len(without) < len(pipelines):
        raise ValueError(
            f"view {without[0]} begins in Python, since its images differ in size, and other views in the core: begin "
            "it with a crop that the core runs"
        )
    if not views.stack:
        return
    if as_list:
        raise ValueError("views of different sizes cannot be stacked: leave stack or collate out")
    kinds = {(p.final_output, None if p.recipe is None else p.recipe.size) for p in pipelines}
    if len(kinds) > 1 or any(size is None for _, size in kinds):
        raise ValueError("views differ in size or type and cannot be stacked: leave stack=True out")


def _check(contents: Contents, options: LoaderOptions) -> None:
    """Raise ValueError if something is wanted that cannot follow its image."""
    kinds, per_box = contents.columns.requested.kinds, contents.columns.requested.per_box
    followers = [*contents.targets.owners, *(p.name for p in contents.pictures[1:])]
    if followers and contents.pipelines[0].clip is not None:
        raise ValueError(f"{followers[0]!r} cannot follow a clip; leave it out of fields")
    if contents.targets and options.orient:
        name = next(iter(contents.targets.owners))
        raise ValueError(f"{name!r} is not turned with its image: leave orient=True out")
    for pipeline in contents.pipelines:
        if pipeline.recipe is None or pipeline.recipe.sanitize is None:
            continue
        for name, boxes in per_box.items():
            if boxes not in kinds:
                raise ValueError(
                    f"{name!r} has a value per box of {boxes!r}: add {boxes!r} to fields"
                )
        if not any(isinstance(kind, Boxes) for kind in kinds.values()):
            raise ValueError(
                f"{pipeline.recipe.sanitize} is for boxes: add them to fields, or leave it out"
            )
    if options.collate_fn is not None and not contents.pictures:
        raise ValueError(
            f"collate_fn needs images, but fields is {contents.fields!r}; add {IMAGE!r}"
        )
    if contents.as_list and contents.shape != IMAGES:
        raise ValueError("clips are stacked: leave collate='list' out")
    if options.tokenize is not None and options.collate_fn is not None:
        raise ValueError("collate_fn gets the texts as they are: tokenize them there")
    _check_rules(contents)
    if options.tokenize is not None and not contents.texts:
        raise ValueError(f"tokenize gets texts, but there are none among {contents.fields!r}")
    if options.buckets is not None:
        _check_buckets(contents)


def _check_rules(contents: Contents) -> None:
    """Raise ValueError if a mask or map has a rule that steps in Python, which torchvision runs, would not follow."""
    if not any(pipeline.steps for pipeline in contents.pipelines):
        return
    for name, kind in contents.columns.requested.kinds.items():
        ruled = (isinstance(kind, Map) and kind.scale != "none") or (
            isinstance(kind, Mask) and kind.interpolation != "nearest"
        )
        if ruled and name in contents.targets.owners:
            raise ValueError(
                f"{name!r} is {kind}, and steps in Python would not follow its rule: leave these steps out (print a loader "
                "without it to see which they are), or give it another kind"
            )


def _check_mixing(contents: Contents, options: LoaderOptions) -> None:
    """Raise ValueError if batches cannot be mixed."""
    assert contents.mixing is not None
    name = type(contents.mixing.choices[0]).__name__
    if LABEL not in contents.fields:
        raise ValueError(f"{name} mixes labels too: add {LABEL!r} to fields")
    if options.collate_fn is not None:
        raise ValueError(f"{name} mixes the batches of the loader: leave collate_fn out")
    alone = len(contents.pictures) == 1 and not contents.targets and contents.shape == IMAGES
    if not alone or contents.views is not None or contents.as_list:
        raise ValueError(
            f"{name} mixes batches of one image per sample, without other fields of it"
        )
    if contents.outputs[0].dtype != "float32":
        raise ValueError(f"{name} mixes float32: put Normalize before it")


def _check_buckets(contents: Contents) -> None:
    if not contents.pictures or not contents.pictures[0].recipes or contents.shape != IMAGES:
        raise ValueError(
            "buckets need images whose steps all run in the core, without collate_fn, or with steps in Python after them"
        )
    for pipeline in contents.pipelines:
        assert pipeline.recipe is not None
        pipeline.recipe.cover((1, 1), "center")  # raises if a step gives the size
