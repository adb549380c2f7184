"""The arrays of programs: taken, joined and checked."""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.render import Draws, Op, Program
from headrace.render.program import PARAMETERS

steps = st.one_of(
    st.tuples(st.just(Op.HUE), st.floats(-0.5, 0.5)),
    st.tuples(st.just(Op.POSTERIZE), st.integers(0, 8)),
    st.just((Op.FLIP,)),
    st.tuples(*[st.just(Op.LIGHTING), *[st.floats(-9, 9)] * 3]),
)
jobs = st.lists(st.lists(steps, max_size=4), max_size=6)


def unpack(program):
    """Return the steps of each job, as `Program.of` takes them, with all parameters."""
    ends = program.starts.tolist()
    rows = [
        (int(code), *row) for code, row in zip(program.codes, program.params.tolist(), strict=True)
    ]
    return [rows[begin:end] for begin, end in pairwise(ends)]


@given(jobs, st.data())
def test_take_gives_the_jobs_that_were_asked_for(jobs, data):
    program = Program.of(jobs)
    every = unpack(program)
    rows = data.draw(st.lists(st.integers(0, len(jobs) - 1)) if jobs else st.just([]))
    taken = program.take(np.array(rows, np.int64)).check(len(rows))
    assert unpack(taken) == [every[row] for row in rows]
    part = data.draw(st.slices(len(jobs)))
    assert unpack(program.take(part)) == every[part]


@given(
    st.integers(0, 5).flatmap(
        lambda n: st.lists(
            st.lists(st.lists(steps, max_size=3), min_size=n, max_size=n), min_size=1, max_size=4
        )
    )
)
def test_join_gives_each_job_the_steps_of_all_programs_in_turn(lists):
    joined = Program.join([Program.of(jobs) for jobs in lists]).check(len(lists[0]))
    together = [list(chain(*(jobs[row] for jobs in lists))) for row in range(len(lists[0]))]
    assert unpack(joined) == unpack(Program.of(together))


@pytest.mark.parametrize(("starts", "codes"), [([0, 1], [256]), ([0, 2**32 + 1], [0])])
def test_values_that_do_not_fit_are_refused(starts, codes):
    program = Program(np.array(starts), np.array(codes), np.zeros((1, PARAMETERS)))
    with pytest.raises(ValueError, match="codes must be from 0 to 255"):
        program.check(1)


def test_an_empty_program_has_no_steps():
    empty = Program.empty(3).check(3)
    assert len(empty) == 3
    assert unpack(Program.join([empty, Program.of([[(Op.FLIP,)], [], []])])) == unpack(
        Program.of([[(Op.FLIP,)], [], []])
    )


def test_programs_for_other_numbers_of_jobs_do_not_join():
    with pytest.raises(ValueError, match=r"\[1, 2\] jobs"):
        Program.join([Program.empty(1), Program.empty(2)])


def test_draws_take_and_repeat_their_programs():
    draws = Draws(np.zeros((2, 4), np.int32), program=Program.of([[(Op.FLIP,)], [(Op.INVERT,)]]))
    assert draws.take(np.array([1, 0])).program.codes.tolist() == [Op.INVERT, Op.FLIP]
    assert draws.repeat(2).program.codes.tolist() == [Op.FLIP] * 2 + [Op.INVERT] * 2


BOX = (0, 0, 5, 5)


@pytest.mark.parametrize(
    "step",
    [
        (Op.BRIGHTNESS, np.nan),
        (Op.BRIGHTNESS, np.inf),
        (Op.HUE, 0.6),
        (Op.FLIP, 1),
        (Op.POSTERIZE, 9),
        (Op.POSTERIZE, 2.5),
        (Op.AFFINE, 1, 0, 0, 0, 1, 0, 1),
        (Op.AFFINE, 1, 0, 0, 0, 1, 0, 2, 256),
        (Op.PERSPECTIVE, 1, 0, 0, 0, 1, 0, 0, 0, 1),
        (Op.GAUSSIAN_BLUR, -1),
        (Op.TORCH_BLUR, 1, 4),
        (Op.TORCH_BLUR, 0, 3),
        (Op.ERASE, 0, 0, -1, 5),
        (Op.ERASE, *BOX, 300),
        (Op.ERASE_NOISE, *BOX, 2**32),
    ],
    ids=lambda step: f"{step[0].name}-{step[1:]}",
)
def test_a_step_out_of_range_is_named(step):
    with pytest.raises(ValueError, match=f"step 1 is {step[0].name} with"):
        Program.of([[(Op.FLIP,)], [step]]).check(2)


@pytest.mark.parametrize(
    ("name", "starts", "codes"),
    [
        ("starts", [0, 1], [0]),
        ("starts", [0, 2, 1], [0]),
        ("starts", [1, 1, 1], [0]),
        ("starts", [0, 1, 2], [0]),
        ("codes", [0, 1, 1], [99]),
        ("params", [0, 1, 1], [0, 0]),
    ],
)
def test_invalid_arrays_are_named(name, starts, codes):
    program = Program(np.int32(starts), np.uint8(codes), np.zeros((1, PARAMETERS)))
    with pytest.raises(ValueError, match=name):
        Draws(np.zeros((2, 4), np.int32), program=program)
