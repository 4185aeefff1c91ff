"""Cases with many rows close together and many small batches.

Runs are merged, filed, compacted and dropped only after a number of batches, and then at exact
instants: so here nearly every instant has a row, every other row begins a batch, and keys are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pyarrow as pa
from hypothesis import strategies as st

from mayfly.testing import Batch, JoinCase

SCHEMA = pa.schema([("ts", pa.int64()), ("key", pa.int64()), ("value", pa.int64())])
SLACK = 3
_KEYS = (1, 1, 1, 2, 2, None)

Event = tuple[tuple[str, int], tuple[int, bool], tuple[int | None, int]]
"""(stream, time since the event before), (delay, begins a batch), (key, value)."""


def _events(names: Sequence[str], most_delay: int) -> st.SearchStrategy[list[Event]]:
    event = st.tuples(
        st.sampled_from(list(product(names, (1, 0, 2)))),
        st.sampled_from(list(product(range(most_delay + 1), (True, False)))),
        st.sampled_from(list(product(_KEYS, (0, 1, 2)))),
    )
    # A list without a least length has five elements on average: too few for anything to merge.
    return st.lists(event, max_size=40) | st.lists(event, min_size=20, max_size=40)


@st.composite
def busy_cases(draw: st.DrawFn, names: Sequence[str] = ("a", "b", "c")) -> JoinCase:
    """A case without late rows, in one bucket."""
    slack = draw(st.sampled_from([0, SLACK]))
    batches: list[dict[str, list[tuple[int, int | None, int]]]] = [{name: [] for name in names}]
    now = 0
    for (name, gap), (delay, begins), (key, value) in draw(_events(names, slack)):
        now += gap
        if begins:
            batches.append({name: [] for name in names})
        batches[-1][name].append((now - delay, key, value))
    windows = {name: draw(st.sampled_from([1, 2, 3, 5, 8, 13, 40])) for name in names}
    return JoinCase([_tables(batch) for batch in batches], windows, slack=slack)


def _tables(batch: dict[str, list[tuple[int, int | None, int]]]) -> Batch:
    return {
        name: pa.table(
            [pa.array([row[i] for row in rows], pa.int64()) for i in range(3)], schema=SCHEMA
        )
        for name, rows in batch.items()
    }
