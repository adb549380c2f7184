"""The random words are Philox's, and belong to their id alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.philox import (
    Stream,
    draw_seeds,
    draw_uniforms,
    draw_words,
    philox4x32,
)

# From the known-answer tests of Random123, the authors' own implementation.
KNOWN = [
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]
MULTIPLIERS = {32: (0xD2511F53, 0xCD9E8D57), 64: (0xD2E7470EE14C6C93, 0xCA5A826395121157)}
WEYL = {32: (0x9E3779B9, 0xBB67AE85), 64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}


def philox_slowly(counter: list[int], key: list[int], bits: int) -> list[int]:
    """The paper's algorithm in Python integers, for words of either size."""
    mask = (1 << bits) - 1
    c, k = list(counter), list(key)
    for _ in range(10):
        p, q = MULTIPLIERS[bits][0] * c[0], MULTIPLIERS[bits][1] * c[2]
        c = [(q >> bits) ^ c[1] ^ k[0], q & mask, (p >> bits) ^ c[3] ^ k[1], p & mask]
        k = [(word + step) & mask for word, step in zip(k, WEYL[bits])]
    return c


def parse(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def words(bits: int, count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 2**bits - 1), min_size=count, max_size=count)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_the_known_answers_come_out(counter: str, key: str, answer: str) -> None:
    columns = tuple(np.array([word], np.uint64) for word in parse(counter))
    got = philox4x32(columns, (parse(key)[0], parse(key)[1]))
    assert [int(word[0]) for word in got] == parse(answer)


@given(words(64, 4), words(64, 2))
def test_the_slow_twin_is_numpys_philox_with_64_bit_words(
    counter: list[int], key: list[int]
) -> None:
    number = sum(word << 64 * i for i, word in enumerate(counter))
    before = (number - 1) % 2**256  # NumPy counts up before it draws
    state = [before >> 64 * i & (2**64 - 1) for i in range(4)]
    numpys = np.random.Philox(key=np.array(key, np.uint64), counter=np.array(state, np.uint64))
    assert numpys.random_raw(4).tolist() == philox_slowly(counter, key, 64)


@given(words(32, 4), words(32, 2))
def test_vectorised_philox_is_the_slow_twin_with_32_bit_words(
    counter: list[int], key: list[int]
) -> None:
    columns = tuple(np.array([word], np.uint64) for word in counter)
    got = philox4x32(columns, (key[0], key[1]))
    assert [int(word[0]) for word in got] == philox_slowly(counter, key, 32)


def test_a_draw_is_laid_out_as_documented() -> None:
    seed, epoch, stream, number = 0x0123456789ABCDEF, 7, 5, (3 << 32) + 11
    key, expected = [0x89ABCDEF, 0x01234567], []
    for block in range(2):
        expected += philox_slowly([11, 3, epoch, stream << 16 | block], key, 32)
    got = draw_words(seed, epoch, stream, np.array([number]), 6)
    assert got.tolist() == [expected[:6]]


def test_the_draws_of_a_sample_do_not_depend_on_its_batch() -> None:
    together = draw_words(1, 2, Stream.CROP, np.arange(100), 9)
    shuffled = np.random.default_rng(0).permutation(100)
    np.testing.assert_array_equal(draw_words(1, 2, Stream.CROP, shuffled, 9), together[shuffled])
    np.testing.assert_array_equal(draw_words(1, 2, Stream.CROP, np.array([42]), 9)[0], together[42])


def test_drawing_more_keeps_the_first_draws() -> None:
    few, many = (draw_words(1, 2, 3, np.arange(5), count) for count in (3, 22))
    np.testing.assert_array_equal(many[:, :3], few)


@pytest.mark.parametrize("other", [(9, 2, 3), (1 << 32, 2, 3), (1, 9, 3), (1, 2, 9)])
def test_seed_epoch_and_stream_each_change_every_draw(other: tuple[int, int, int]) -> None:
    ids = np.arange(50)
    assert (draw_words(1, 2, 3, ids, 4) != draw_words(*other, ids, 4)).all()


def test_uniforms_are_uniform() -> None:
    uniforms = draw_uniforms(0, 0, Stream.CROP, np.arange(50_000), 4)
    assert uniforms.min() >= 0 and uniforms.max() < 1
    counts = np.histogram(uniforms, bins=100, range=(0, 1))[0]
    chi2 = ((counts - 2000) ** 2 / 2000).sum()
    assert 55 < chi2 < 160  # 99 degrees of freedom: once in a thousand and more
    assert abs(np.corrcoef(uniforms.T) - np.eye(4)).max() < 0.02


def test_sample_seeds_are_distinct_64_bit_numbers() -> None:
    seeds = draw_seeds(0, 0, np.arange(10_000))
    assert len(np.unique(seeds)) == 10_000
    assert seeds.max() > 1 << 63


@pytest.mark.parametrize("arguments", [(-1, 0, 0), (2**64, 0, 0), (0, 2**32, 0), (0, 0, 2**16)])
def test_numbers_that_do_not_fit_the_counter_are_refused(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="is"):
        draw_words(*arguments, np.arange(3), 1)


@pytest.mark.parametrize("count", [0, 4 * 2**16 + 1])
def test_more_words_than_the_counter_has_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="count"):
        draw_words(0, 0, 0, np.arange(1), count)
