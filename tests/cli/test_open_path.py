"""What a path is opened as, packed or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.open_path import SourceView, open_samples
from headrace.errors import SourceChangedError
from trees import make_folder


def test_a_source_that_changes_is_told_from_one_that_is_bad(tmp_path: Path) -> None:
    samples = open_samples(make_folder(tmp_path / "in", classes=1), None)
    assert isinstance(samples, SourceView) and len(list(samples)) == len(samples)
    (tmp_path / "in" / samples.source.names[0]).unlink()
    with pytest.raises(SourceChangedError, match=samples.source.names[0]):
        samples[0]
