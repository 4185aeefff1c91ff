"""Routes: rows of one key meet, and what needs one place is in bucket 0."""

from __future__ import annotations

import pyarrow as pa

from mayfly.kernels.codes import buckets, group_codes
from mayfly.physical.stages import NumberKey, Route, ValueKey

ROWS = pa.table({"_ts": list(range(20)), "k": ["a", "b", None, "c"] * 5})


def test_rows_of_one_key_have_one_bucket() -> None:
    found = Route(ValueKey(("k",))).buckets(ROWS, 5)
    assert found.tolist() == buckets(group_codes([ROWS["k"].combine_chunks()], 20), 5).tolist()
    assert len({tuple(found[at::4].tolist()) for at in range(4)}) > 1
    assert all(len(set(found[at::4].tolist())) == 1 for at in range(4))


def test_what_needs_one_place_is_in_bucket_0() -> None:
    for count in (1, 2, 3, 5, 8):
        assert not Route(single=True).buckets(ROWS, count).any()
        assert not Route(NumberKey("_ts"), single=True).buckets(ROWS, count).any()
    assert not Route(ValueKey(("k",))).buckets(ROWS, 1).any()


def test_rows_without_a_key_go_by_their_time() -> None:
    assert set(Route().buckets(ROWS, 3).tolist()) == {0, 1, 2}
