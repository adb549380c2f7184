"""The contract classes fail for a source or a flow that breaks a guarantee, and need nothing but pytest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import headrace
from headrace import Flow, Sample
from headrace.testing import FlowContract, SourceContract
from images import encode


class ThreeImages:
    """A source that keeps its promises."""

    names: Sequence[str] = ("a", "b", "c")
    sizes = np.array([900, 900, 900])
    mtimes = np.zeros(3, np.int64)
    classes: Sequence[str] = ("x", "y")
    columns = pa.schema([])
    ignored: Sequence[str] = ()

    def read(self, i: int) -> Sample:
        return Sample(self.names[i], {"jpg": encode(8, 8, seed=i)}, label=i % 2)


class TestThreeImages(SourceContract):
    @staticmethod
    def open(path: Path) -> headrace.Source:
        return ThreeImages()

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path


class Unsafe(ThreeImages):
    names = ("a", "../b", "c")


class Forgetful(ThreeImages):
    mtimes = np.zeros(2, np.int64)


class Unnamed(ThreeImages):
    classes = ("x",)


@pytest.mark.parametrize(
    ("source", "test"),
    [
        (Unsafe, "test_each_sample_has_fields_and_a_unique_key_that_is_a_safe_path"),
        (Forgetful, "test_names_sizes_and_mtimes_have_one_entry_per_sample"),
        (Unnamed, "test_labels_are_integers_that_the_classes_name"),
    ],
)
def test_a_source_that_breaks_a_guarantee_fails(source: type[ThreeImages], test: str) -> None:
    with pytest.raises(AssertionError):
        getattr(SourceContract(), test)(source())


class Twice:
    """An iterable that yields more items each time."""

    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[int]:
        self.passes += 1
        yield from range(self.passes)


class Changing(FlowContract):
    def make(self, source: Any) -> Flow:
        return Flow.of(Twice())


def test_a_flow_that_breaks_a_guarantee_fails() -> None:
    with pytest.raises(AssertionError):
        Changing().test_a_second_pass_is_like_the_first()


def test_without_pytest_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['pytest'] = None; import headrace; import headrace.testing"
    result = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True
    )
    assert "headrace.errors.MissingExtraError: pytest is not installed" in result.stderr
    assert "pip install '.[testing]'" in result.stderr
