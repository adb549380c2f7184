"""Bars of the command."""

from __future__ import annotations

import sys

import pytest

from headrace.cli.progress_bar import progress_bar
from headrace.work.progress import Progress


@pytest.mark.parametrize("terminal", [False, True])
def test_a_bar_with_rates_is_drawn_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "120")
    with progress_bar("packing") as progress:
        assert (progress is not None) == terminal
        if progress is not None:
            progress(Progress(2, 2, 20, 20))
    drawn = capsys.readouterr().err
    assert ("packing" in drawn and "2/2 samples" in drawn) == terminal
