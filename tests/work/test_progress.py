"""Progress: reported to callbacks; a bar is drawn only on a terminal, and only if nobody asked for the work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import headrace
from headrace.work.progress import Progress, show_on_terminal
from trees import make_folder


@pytest.mark.parametrize("terminal", [False, True])
def test_a_bar_is_drawn_only_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with show_on_terminal("indexing [photos]") as progress:
        assert (progress is not None) == terminal
        if progress is not None:
            progress(Progress(1, 2, 10, 20))
    assert ("indexing [photos]" in capsys.readouterr().err) == terminal


def test_opening_a_folder_shows_its_indexing_and_packing_draws_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = make_folder(tmp_path / "photos")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    headrace.pack_dataset(folder, tmp_path / "packed")
    headrace.verify_dataset(tmp_path / "packed")
    assert capsys.readouterr().err == ""
    headrace.open_dataset(folder, cache=tmp_path / "cache")
    assert "indexing photos" in capsys.readouterr().err
