"""The dictionary finds what is in it and nothing else, whatever leaves in between."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly.windows.dictionary import Dictionary

# Neighbouring numbers never meet in the table; powers modulo a prime do.
SCATTERED = [pow(7, n, 2**61 - 1) for n in range(60)]
KEYS = st.sampled_from([*SCATTERED, -1, 0, 2**62, -(2**62), 2**63 - 1])
STEPS = st.lists(st.tuples(st.booleans(), st.lists(KEYS, max_size=60)), max_size=8)


@given(STEPS)
@example([(True, [*SCATTERED, -1]), (False, SCATTERED[::2]), (True, [-1])])
def test_what_leaves_hides_nothing(steps: list[tuple[bool, list[int]]]) -> None:
    index, model = Dictionary(), dict[int, int]()
    for enters, keys in steps:
        if enters:
            nodes = index.probe(np.array(keys, np.int64))
            assert all(
                model.setdefault(k, n) == n for k, n in zip(keys, nodes.tolist(), strict=True)
            )
            continue
        gone = sorted(model.keys() & set(keys))
        nodes = np.array([model.pop(key) for key in gone], np.int32)
        index.remove(nodes)
        index.nodes.release(nodes)
        for key in (*keys, *model):
            assert index.find(np.int64(key)) == model.get(key, -1)
    assert index.nodes.key[index.ascend()].tolist() == sorted(model)
