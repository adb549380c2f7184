"""Names become paths that stay inside the folder that is written, or errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PackError, SourceError
from headrace.sample import Sample
from headrace.store.safe_paths import check_member, check_names, path_inside
from headrace.store.tar import member_header

BAD = ["", ".", "..", "../x", "a/../x", "/x", "a//x", "a/", "./x", "a/.", "x\0y", "a/../../x"]


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PackError, match="leads out of the folder"):
        path_inside(tmp_path, name)
    with pytest.raises(PackError, match="not a safe relative path"):
        member_header(name, 1)
    with pytest.raises(SourceError, match="not a safe relative path"):
        check_names(Sample(name, {"jpg": b""}))


@given(st.lists(st.sampled_from(["..", ".", "", "a", "...", "b\n", "\0", "%2e%2e"])).map("/".join))
def test_any_name_stays_inside_or_is_refused(name: str) -> None:
    root = Path("/nowhere/root")
    try:
        path = path_inside(root, name)
    except PackError:
        return
    assert os.path.normpath(path) == str(path) and path.is_relative_to(root)
    assert check_member(name) == name


def test_a_path_through_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "out").symlink_to(tmp_path)
    (root / "in").symlink_to(root / "inner")
    with pytest.raises(PackError, match="out/x: leads out of the folder"):
        path_inside(root, "out/x")
    assert path_inside(root, "in/x") == root / "in/x"
    (tmp_path / "alias").symlink_to(root)  # the folder itself may be reached through a link
    assert path_inside(tmp_path / "alias", "inner/x") == tmp_path / "alias/inner/x"


@pytest.mark.parametrize("field", ["/../../x", "a/b", "x\0", "\udcff"])
def test_a_field_that_is_more_than_a_suffix_is_refused(field: str) -> None:
    for sample in (
        Sample("k", {field: b""}),
        Sample("k", {"jpg": b""}, suffixes={"jpg": field}),
        Sample("k", {"mjpg": b""}, frames={field: [1]}),
    ):
        with pytest.raises(SourceError, match="is not named like a file suffix"):
            check_names(sample)
