"""The table printer of all commands."""

from __future__ import annotations

import pytest

from headrace.cli.print_table import print_table


def test_columns_of_numbers_are_right_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([("read", "5"), ("render", "1,000")], ("stage", "images/s"))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "stage  images/s" in lines and "read          5" in lines
    assert "render    1,000" in lines


def test_long_values_are_wrapped_and_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"class{number}" for number in range(60)]
    print_table([("samples", "12"), ("classes", ", ".join(names))])
    said = " ".join(capsys.readouterr().out.split())
    assert said == f"samples 12 classes {', '.join(names)}"


def test_markup_in_a_value_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([("classes", "[bold]cat[/bold]")])
    assert "[bold]cat[/bold]" in capsys.readouterr().out
