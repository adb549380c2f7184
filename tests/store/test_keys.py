from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.store.keys import printable, split_path, unescape_key, unique_keys

WEBDATASET = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$", re.DOTALL)
names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1
).filter(lambda name: name not in (".", ".."))


@given(st.lists(names, max_size=3), names, st.sampled_from(["jpg", "JPEG", "png"]))
def test_webdataset_reads_key_and_suffix_of_every_name(
    folders: list[str], stem: str, suffix: str
) -> None:
    path = "/".join([*folders, f"{stem}.{suffix}"])
    key, own = split_path(path)
    match = WEBDATASET.match(f"{key}.{own}")
    assert match is not None
    assert match.groups() == (key, suffix)
    assert unescape_key(key) + "." + suffix == path


@given(st.lists(names.map(lambda n: f"{n}.jpg") | names, unique=True))
def test_different_files_have_different_keys(paths: list[str]) -> None:
    keys = unique_keys(paths)
    assert len(set(keys)) == len(paths)


def test_plain_names_are_unchanged() -> None:
    assert split_path("cats & dogs/räksmörgås 50%.JPEG") == ("cats & dogs/räksmörgås 50%", "JPEG")


def test_files_that_share_a_stem_keep_their_suffix_in_the_key() -> None:
    assert unique_keys(["a.jpg", "a.png", "b.jpg"]) == ["a%2Ejpg", "a%2Epng", "b"]


@pytest.mark.parametrize(
    ("path", "key", "suffix"),
    [("train/img1", "train/img1", ""), ("dir/.jpg", "dir/%2Ejpg", "jpg"), ("jpg", "jpg", "")],
)
def test_a_name_without_stem_or_suffix_is_the_last_part_of_its_key(
    path: str, key: str, suffix: str
) -> None:
    assert split_path(path) == (key, suffix)


def test_a_stem_that_looks_like_such_a_key_has_another_key() -> None:
    assert len(set(unique_keys(["a.jpg", "a.png", "a.jpg.jpg"]))) == 3


def test_undecodable_bytes_become_escapes() -> None:
    assert split_path("caf\udce9.jpg") == ("caf%E9", "jpg")
    assert unescape_key("caf%E9") == "caf\udce9"


def test_control_characters_are_not_printed() -> None:
    assert printable("a\x1b[31m\n.jpg") == r"'a\x1b[31m\n.jpg'"
