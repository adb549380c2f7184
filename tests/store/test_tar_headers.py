from __future__ import annotations

import tarfile

from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.store.safe_paths import is_safe
from headrace.store.tar import member_header, padding


@given(st.text(min_size=1, max_size=130, alphabet="ab/é.%"), st.integers(0, 9 << 33))
def test_headers_equal_the_ones_that_tarfile_writes(name: str, size: int) -> None:
    assume(is_safe(name))
    info = tarfile.TarInfo(name)
    info.size = size
    assert member_header(name, size) == info.tobuf(tarfile.PAX_FORMAT)


@given(st.integers(0, 5000))
def test_padding_fills_the_last_block(size: int) -> None:
    assert (size + len(padding(size))) % 512 == 0
    assert len(padding(size)) < 512
