"""Row admission: one verdict per row, checked against a slow reading of the rules."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.archive.model.admission import (
    AdmissionRule,
    AdmissionSummary,
    LateRows,
    Verdict,
    summarize,
    total,
)
from mayfly.archive.model.calendar import CalendarDays, FixedIntervals, UpdateCalendar
from mayfly.errors import BadInput, InvalidSetting

NAMES = ["ts", "exp", "key"]
Row = tuple[int | None, int | None, str | None]


def batch(rows: list[Row]) -> pa.Table:
    columns = [[row[at] for row in rows] for at in range(3)]
    types = [pa.int64(), pa.int64(), pa.string()]
    return pa.table({n: pa.array(c, t) for n, c, t in zip(NAMES, columns, types, strict=True)})


def verdict(rule: AdmissionRule, update: int, row: Row) -> Verdict:
    """The rules of an update at time uΔ, one row at a time."""
    ts, exp, key = row
    now, before = rule.calendar.time_of(update), rule.calendar.time_of(update - 1)
    if ts is None:
        return Verdict.NULL_TIME
    if exp is None:
        return Verdict.NULL_EXPIRATION
    if key is None:
        return Verdict.NO_KEY
    if exp <= ts:
        return Verdict.DEAD_BEFORE_BIRTH
    if exp - ts > rule.longest:
        return Verdict.LIVES_TOO_LONG
    if ts > now:
        return Verdict.FROM_THE_FUTURE
    if exp <= now:
        return Verdict.DEAD_ON_ARRIVAL
    if ts > before:
        return Verdict.ADMITTED
    unwelcome = rule.late is LateRows.REFUSE or (
        rule.late is LateRows.OWN_DAY and rule.calendar.update_of(ts) < 1
    )
    return Verdict.LATE_REFUSED if unwelcome else Verdict.LATE


rules = st.builds(
    AdmissionRule,
    st.builds(FixedIntervals, st.integers(1, 6), st.integers(-5, 5)),
    st.integers(1, 20),
    st.sampled_from(LateRows),
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[AdmissionRule, int, list[Row]]:
    """Rows whose times crowd around the update's, so that every boundary is met."""
    rule, update = draw(rules), draw(st.integers(1, 6))
    now = rule.calendar.time_of(update)
    rows: list[Row] = []
    for _ in range(draw(st.integers(0, 12))):
        ts = now + draw(st.integers(-12, 2))
        exp = ts + draw(st.integers(-1, 22))
        missing = draw(st.sampled_from([None, None, None, None, 0, 1, 2]))
        row = [None if at == missing else value for at, value in enumerate((ts, exp, "a"))]
        rows.append((row[0], row[1], row[2]))  # type: ignore[arg-type]
    return rule, update, rows


@given(batches())
def test_every_row_gets_the_verdict_of_the_rules(
    case: tuple[AdmissionRule, int, list[Row]],
) -> None:
    rule, update, rows = case
    table = batch(rows)
    admission = rule.admit(update, table, ts="ts", exp="exp", key=["key"])
    expected = [verdict(rule, update, row) for row in rows]
    assert admission.verdicts.tolist() == expected
    summary = summarize(admission, table, NAMES)
    assert summary.counts == {v: expected.count(v) for v in Verdict if v in expected}
    assert summary.rows == len(rows) == summary.stored + summary.refused + summary.dead_on_arrival
    assert int(admission.stored.sum()) == summary.stored


@given(batches())
def test_a_stored_row_has_a_cell_within_the_roll_over(
    case: tuple[AdmissionRule, int, list[Row]],
) -> None:
    rule, update, rows = case
    admission = rule.admit(update, batch(rows), ts="ts", exp="exp", key=["key"])
    i, j = admission.inserted_by[admission.stored], admission.removed_by[admission.stored]
    assert (j > update).all()
    assert ((i < j) & (j <= i + rule.calendar.roll_over(rule.longest))).all()
    if rule.late is not LateRows.OWN_DAY:
        assert (i == update).all()
        assert admission.late_days <= {update}
    else:
        assert all(1 <= day < update for day in admission.late_days)


@pytest.mark.parametrize(
    ("ts", "exp", "expected"),
    [
        (15, 20, Verdict.DEAD_ON_ARRIVAL),
        (15, 21, Verdict.ADMITTED),
        (10, 21, Verdict.LATE_REFUSED),
        (10, 20, Verdict.DEAD_ON_ARRIVAL),
        (11, 21, Verdict.ADMITTED),
        (20, 21, Verdict.ADMITTED),
        (20, 50, Verdict.ADMITTED),
        (20, 51, Verdict.LIVES_TOO_LONG),
        (20, 20, Verdict.DEAD_BEFORE_BIRTH),
        (21, 30, Verdict.FROM_THE_FUTURE),
    ],
)
def test_the_boundaries_of_update_2_at_time_20(ts: int, exp: int, expected: Verdict) -> None:
    rule = AdmissionRule(FixedIntervals(10), 30)
    admission = rule.admit(2, batch([(ts, exp, "a")]), ts="ts", exp="exp", key=["key"])
    assert admission.verdicts.tolist() == [expected]


@pytest.mark.parametrize(
    ("update", "ts", "expected", "day"),
    [
        (3, 20, Verdict.LATE, 2),
        (3, 1, Verdict.LATE, 1),
        (3, 0, Verdict.LATE_REFUSED, 0),
        (1, 0, Verdict.LATE_REFUSED, 0),
        (1, -10, Verdict.LATE_REFUSED, -1),
        (3, 21, Verdict.ADMITTED, 3),
    ],
)
def test_late_rows_belong_to_their_own_day_if_the_archive_has_it(
    update: int, ts: int, expected: Verdict, day: int
) -> None:
    rule = AdmissionRule(FixedIntervals(10), 50, LateRows.OWN_DAY)
    rows = batch([(ts, ts + 50, "a")])
    admission = rule.admit(update, rows, ts="ts", exp="exp", key=["key"])
    assert (admission.verdicts.tolist(), admission.inserted_by.tolist()) == ([expected], [day])
    assert admission.late_days == ({day} if expected is Verdict.LATE else frozenset())


def test_counts_of_parts_add_up_and_examples_stay_few() -> None:
    rule = AdmissionRule(FixedIntervals(10), 10)
    table = batch([(None, 5, "a")] * 4 + [(3, 12, "b"), (3, 30, "c")])
    parts = [table.slice(0, 2), table.slice(2, 2), table.slice(4)]
    summaries = [
        summarize(rule.admit(1, part, ts="ts", exp="exp", key=["key"]), part, NAMES)
        for part in parts
    ]
    whole = total(summaries)
    assert whole.counts == {Verdict.ADMITTED: 1, Verdict.NULL_TIME: 4, Verdict.LIVES_TOO_LONG: 1}
    assert [row.position for row in whole.examples[Verdict.NULL_TIME]] == [0, 1, 0]
    with pytest.raises(BadInput) as refusal:
        whole.require_none_refused(1)
    message = refusal.value.message
    assert "update 1: 5 of 6 rows were refused, nothing was written" in message
    assert "4 rows: the generation time is NULL" in message
    assert "row 1: ts=3, exp=30, key='c'" in message
    assert "migrate the archive" in refusal.value.hint
    AdmissionSummary({Verdict.ADMITTED: 1, Verdict.DEAD_ON_ARRIVAL: 2}).require_none_refused(1)


def test_timestamps_and_composite_keys_are_read() -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    table = pa.table(
        {
            "ts": pa.array([day, day], pa.timestamp("ns", "UTC")),
            "exp": pa.array([day.replace(day=2), day.replace(day=2)], pa.timestamp("us", "UTC")),
            "a": pa.array([1, 1]),
            "b": pa.array(["x", None]),
        }
    )
    rule = AdmissionRule(FixedIntervals(86_400_000_000), 86_400_000_000)
    update = rule.calendar.update_of(int(day.timestamp()) * 1_000_000)
    admission = rule.admit(update, table, ts="ts", exp="exp", key=["a", "b"])
    assert admission.verdicts.tolist() == [Verdict.ADMITTED, Verdict.NO_KEY]
    chunked = pa.concat_tables([table.slice(1), table.slice(0, 1)])
    assert rule.admit(update, chunked, ts="ts", exp="exp", key=["a", "b"]).verdicts.tolist() == [
        Verdict.NO_KEY,
        Verdict.ADMITTED,
    ]


@pytest.mark.parametrize("list_type", [pa.list_(pa.string()), pa.large_list(pa.string())])
def test_an_array_key_needs_values_and_none_of_them_null(list_type: pa.DataType) -> None:
    keys = [["a"], ["a", "b"], [], None, ["a", None], ["c"]]
    table = pa.table({"ts": [1] * 6, "exp": [11] * 6, "key": pa.array(keys, list_type)})
    for rows in (table, table.slice(1), table.to_batches()[0].slice(2)):
        admission = AdmissionRule(FixedIntervals(10), 10).admit(
            1, rows, ts="ts", exp="exp", key=["key"]
        )
        missing = [v == Verdict.NO_KEY for v in admission.verdicts]
        assert missing == [False, False, True, True, True, False][-rows.num_rows :]


def test_calendar_days_admit_a_lifetime_of_wall_clock_days() -> None:
    calendar: UpdateCalendar = CalendarDays("Europe/Berlin", date(2026, 10, 24))
    rule = AdmissionRule(calendar, 7 * 86_400_000_000)
    ts = calendar.time_of(1)
    for exp, expected in [
        (calendar.time_of(8), Verdict.ADMITTED),
        (calendar.time_of(8) + 1, Verdict.LIVES_TOO_LONG),
    ]:
        admission = rule.admit(1, batch([(ts, exp, "a")]), ts="ts", exp="exp", key=["key"])
        assert admission.verdicts.tolist() == [expected]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (pa.table({"ts": [1], "key": ["a"]}), "no column 'exp'"),
        (pa.table({"ts": ["1"], "exp": [2], "key": ["a"]}), "column 'ts' is string"),
        (
            pa.table({"ts": pa.array([1], pa.timestamp("ns")), "exp": [2], "key": ["a"]}),
            "does not fit microseconds",
        ),
    ],
)
def test_columns_that_are_no_times_are_named(table: pa.Table, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        AdmissionRule(FixedIntervals(10), 10).admit(1, table, ts="ts", exp="exp", key=["key"])


def test_the_longest_lifetime_must_suit_the_calendar() -> None:
    with pytest.raises(InvalidSetting, match="longest lifetime"):
        AdmissionRule(FixedIntervals(10), 0)


def test_a_million_rows_are_classified_as_columns() -> None:
    generator = np.random.default_rng(7)
    ts = generator.integers(0, 1_000, 1_000_000)
    exp = ts + generator.integers(1, 120, ts.size)
    no = np.zeros(ts.size, dtype=np.bool_)
    rule = AdmissionRule(FixedIntervals(100), 100, LateRows.THIS_UPDATE)
    verdicts = rule.classify(10, ts, exp, null_ts=no, null_exp=no, no_key=no).verdicts
    sample = generator.integers(0, ts.size, 500)
    assert verdicts[sample].tolist() == [
        verdict(rule, 10, (int(ts[at]), int(exp[at]), "a")) for at in sample
    ]
