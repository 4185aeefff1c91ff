"""Workloads that go on from what was stored."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mayfly.errors import CorruptFile, InvalidSetting
from mayfly.periodic import Aggregate, Opaque, PeriodicQuery, QueryWorkload, Term, any_of
from mayfly.periodic.restart import StoredWorkload, restore, store

SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.int64()})
SMALL = Opaque("abs(x) < 5", lambda rows: np.abs(rows.column("x").to_numpy()) < 5)


def rows(*instants: int) -> pa.Table:
    return pa.table([instants, instants], schema=SCHEMA)


def test_a_restart_answers_no_refresh_twice_and_cuts_no_pane_that_has_rows() -> None:
    workload = QueryWorkload(SCHEMA)
    workload.add(PeriodicQuery("slow", Aggregate("SUM", "x"), (100,), 100))
    workload.add(PeriodicQuery("every", Aggregate("COUNT DISTINCT", "x"), (10,), 50))
    assert [answer.as_of for answer in workload.feed(rows(1, 30, 60, 80), 55)] == [50]
    again = restore(store(workload), SCHEMA)
    assert again.shares() == workload.shares()
    assert again.add(PeriodicQuery("quick", Aggregate("SUM", "x"), (10,), 10)).since == 100
    answers = again.feed(rows(95, 105), 111)
    assert [(a.query, a.as_of, a.rows.to_pylist()) for a in answers] == [
        ("slow", 100, [{"value": 266}]),
        ("every", 100, [{"value": 1}]),
        ("quick", 100, [{"value": 95}]),
        ("quick", 110, [{"value": 105}]),
    ]


def test_opaque_terms_are_handed_in_again() -> None:
    workload = QueryWorkload(SCHEMA)
    workload.add(PeriodicQuery("q", Aggregate("SUM", "x"), (10,), 10, where=any_of(SMALL)))
    workload.feed(rows(1, 2, 7), 9)
    with pytest.raises(InvalidSetting, match="stored by its text only"):
        restore(store(workload), SCHEMA)
    again = restore(store(workload), SCHEMA, opaque=[SMALL])
    assert again.feed(rows(), 11)[0].rows.to_pylist() == [{"value": 3}]


def test_what_cannot_be_stored_or_restored_is_refused() -> None:
    workload = QueryWorkload(SCHEMA)
    query = PeriodicQuery("q", Aggregate("COUNT"), (1,), 1, where=any_of(Term("x", "=", b"1")))
    workload.add(query)
    with pytest.raises(InvalidSetting, match="is not a text or number"):
        store(workload)
    with pytest.raises(CorruptFile, match="the format 9"):
        restore(StoredWorkload('{"format": 9}', {}), SCHEMA)
