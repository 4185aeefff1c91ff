"""Extremes of groups by two heaps, against the rows alive."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly.windows.extremes import play_extremes

LEAST = -(2**63)
KEYS = st.integers(-3, 3) | st.sampled_from([LEAST, 2**63 - 1])


@pytest.mark.parametrize("largest", [True, False])
@given(held=st.lists(KEYS, max_size=9), data=st.data())
@example(held=[1, 3, 2, 3, 0], data=None)
def test_each_version_has_the_extreme_of_the_rows_alive(
    largest: bool, held: list[int], data: st.DataObject | None
) -> None:
    """Two groups with the same rows; what happens to the first is no matter of the second."""
    alive, keys, signs, answers = list(held), list[int](), list[int](), list[int | None]()
    for turn in range(12):
        goes = bool(alive) and (data.draw(st.booleans()) if data is not None else turn < len(held))
        if goes:
            keys.append(alive.pop(data.draw(st.integers(0, len(alive) - 1)) if data else -1))
        else:
            keys.append(data.draw(KEYS) if data is not None else turn % 4)
            alive.append(keys[-1])
        signs.append(-1 if goes else 1)
        answers.append((max if largest else min)(alive) if alive else None)
    both, versions = np.arange(2), np.arange(2 * len(keys))
    found, filled = play_extremes(
        np.array(held * 2, np.int64), np.append(both, 2) * len(held),
        np.array(keys * 2, np.int64), np.array(signs * 2, np.int64),
        (versions, np.repeat(both, len(keys))), largest,
    )  # fmt: skip
    listed = [key if there else None for key, there in zip(found.tolist(), filled, strict=True)]
    assert listed == answers * 2


def test_many_rows_come_and_go_in_any_order() -> None:
    rng = np.random.default_rng(3)
    came = rng.integers(0, 1000, 500)
    went = rng.permutation(came)
    keys, sign = np.append(came, went), np.repeat(np.array([1, -1]), 500)
    marks = np.arange(1000), np.zeros(1000, np.int64)
    found, filled = play_extremes(came[:0], np.zeros(2, np.int64), keys, sign, marks, True)
    expected = [*np.maximum.accumulate(came), *(went[n:].max() for n in range(1, 500))]
    assert found[:-1].tolist() == expected
    assert filled.tolist() == [True] * 999 + [False]
