"""Gulps as GulpIO wrote them, and the same videos packed."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from stored import FIXTURES


@pytest.fixture(scope="session")
def gulp() -> Path:
    return FIXTURES / "gulp"


@pytest.fixture(scope="session")
def packed_gulp(gulp: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The videos of `gulp` in several shards, in random order."""
    path = tmp_path_factory.mktemp("gulp") / "packed"
    headrace.pack_dataset(gulp, path, shard_size=500_000)
    return path


@pytest.fixture(params=["gulp", "packed_gulp"])
def videos(request: pytest.FixtureRequest) -> Path:
    """The same videos, as a gulp and packed."""
    path: Path = request.getfixturevalue(request.param)
    return path
