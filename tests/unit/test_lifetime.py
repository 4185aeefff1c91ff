"""Durations, instants and lifetimes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.errors import InvalidSetting
from mayfly.lifetime import (
    MIN_TIME,
    NEVER,
    Lifetime,
    duration,
    expires,
    format_micros,
    instant,
    micros,
    unit_micros,
)
from mayfly.plan.stream_joins import Stream
from mayfly.spark.api.session import Session
from mayfly.spark.api.streams import SparkStream
from mayfly.testing import (
    StreamSpec,
    Windowed,
    cut_by_time,
    generate,
    judge_lateness,
    shuffle_within_slack,
)
from mayfly.windows import Span, over_range

SECOND = 1_000_000
ROWS = pa.table({"ts": [1, 2]})
times = st.integers(-50, 50)


@st.composite
def lifetimes(draw: st.DrawFn) -> Lifetime:
    ts = draw(times)
    return Lifetime(ts, draw(st.integers(ts + 1, 51) | st.just(NEVER)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 seconds", 2 * SECOND),
        ("10 min", 600 * SECOND),
        ("10MIN", 600 * SECOND),
        ("1 h 30 m", 5_400 * SECOND),
        ("1h30m5s", 5_405 * SECOND),
        ("1.5 s", 1_500_000),
        ("0.5 h 250 ms", 1_800 * SECOND + 250_000),
        ("1 day", 86_400 * SECOND),
        ("90 days", 90 * 86_400 * SECOND),
        ("3 us", 3),
        ("3 µs", 3),
        ("7 microseconds", 7),
        ("  4   hours ", 4 * 3_600 * SECOND),
        ("0 s", 0),
        (5, 5),
        (timedelta(milliseconds=2), 2_000),
    ],
)
def test_durations_are_read(text: str | int | timedelta, expected: int) -> None:
    assert micros(text) == expected


@pytest.mark.parametrize(
    "text", ["", "  ", "10", "min", "10 parsecs", "-3 s", "10 min,", "10 min 5", "1e3 s", "1 . 5 s"]
)
def test_unreadable_durations_name_the_text_and_the_form(text: str) -> None:
    with pytest.raises(InvalidSetting, match="cannot read the duration") as caught:
        micros(text)
    assert repr(text) in caught.value.message
    assert '"10 min"' in caught.value.hint


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "negative"),
        (timedelta(seconds=-1), "negative"),
        (True, "not a duration"),
        (NEVER, "64 bits"),
        ("200000000 days", "64 bits"),
        ("0.5 us", "finer than a microsecond"),
        ("1.0000001 s", "finer than a microsecond"),
        (1.5, "not a duration"),
        (None, "not a duration"),
    ],
)
def test_impossible_durations_are_refused(value: Any, message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        micros(value)


def test_parts_of_a_unit_are_exact() -> None:
    assert micros("0.1 s") == 100_000
    assert micros("70000000.000001 s") == 70_000_000_000_001
    assert micros("0.0005 ms 0.5 us") == 1
    assert micros("1.1 days") == 95_040 * SECOND


def test_units_have_plural_and_short_forms() -> None:
    for names in (("s", "sec", "secs", "second", "SECONDS"), ("min", "mins", "minute", "Minutes")):
        assert len({unit_micros(name) for name in names}) == 1
    assert unit_micros("fortnight") is None


@given(st.integers(0, NEVER - 1))
def test_formatted_durations_read_back_exactly(duration: int) -> None:
    assert micros(format_micros(duration)) == duration


def test_formatted_durations_are_short() -> None:
    assert format_micros(micros("90 min")) == "1 h 30 min"
    assert format_micros(0) == "0 s"
    assert format_micros(1_000_001) == "1 s 1 us"


def test_instants_are_utc_unless_they_say_otherwise() -> None:
    noon = 12 * 3_600 * SECOND
    cet = timezone(timedelta(hours=1))
    assert instant(17) == 17
    assert instant("1970-01-01T12:00:00") == noon
    assert instant("1970-01-01T12:00:00+01:00") == noon - 3_600 * SECOND
    assert instant(datetime(1970, 1, 1, 12)) == noon
    assert instant(date(1970, 1, 2)) == 2 * noon
    assert instant(datetime(1970, 1, 1, 13, tzinfo=cet)) == noon
    assert instant("1969-12-31T23:59:59.999999") == -1


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_keep_every_microsecond(moment: datetime) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert epoch + timedelta(microseconds=instant(moment)) == moment


@pytest.mark.parametrize("value", ["noon", "", True, 1.5, None])
def test_unreadable_instants_are_refused(value: Any) -> None:
    with pytest.raises(InvalidSetting, match="instant"):
        instant(value)


def test_whole_numbers_are_microseconds_within_64_bits() -> None:
    assert [instant(at) for at in (MIN_TIME, NEVER)] == [MIN_TIME, NEVER]
    moment = instant(np.int64(17))  # type: ignore[arg-type]
    assert (moment, type(moment)) == (17, int)
    for at in (MIN_TIME - 1, NEVER + 1):
        with pytest.raises(InvalidSetting, match=f"the instant {at} does not fit 64 bits"):
            instant(at)


def test_a_tuple_lives_from_ts_until_just_before_exp() -> None:
    tuple_ = Lifetime(10, 20)
    assert [at for at in range(25) if tuple_.alive_at(at)] == list(range(10, 20))


@given(lifetimes(), lifetimes(), times)
def test_a_join_result_lives_exactly_while_both_members_do(
    left: Lifetime, right: Lifetime, at: int
) -> None:
    both = left.meet(right)
    assert (both is not None and both.alive_at(at)) == (left.alive_at(at) and right.alive_at(at))
    assert both == right.meet(left)


def test_touching_lifetimes_never_meet() -> None:
    assert Lifetime(0, 10).meet(Lifetime(10, 20)) is None
    assert Lifetime(0, 11).meet(Lifetime(10, 20)) == Lifetime(10, 11)


@pytest.mark.parametrize(
    ("ts", "duration", "expected"),
    [
        (5, 10, 15),
        (-5, 10, 5),
        (0, NEVER, NEVER),
        (NEVER - 10, 9, NEVER - 1),
        (NEVER - 10, 10, NEVER),
        (NEVER - 10, 11, NEVER),
        (MIN_TIME, NEVER - 1, -2),
        (MIN_TIME, NEVER, NEVER),
    ],
)
def test_expiration_saturates_at_never(ts: int, duration: int, expected: int) -> None:
    assert expires(ts, duration) == expected


@pytest.mark.parametrize("value", [3600, 1.5, True, None, -1])
def test_a_users_duration_has_a_unit(value: Any) -> None:
    with pytest.raises(InvalidSetting, match="has no unit") as refusal:
        duration(value)
    assert "1 hour" in refusal.value.hint


@pytest.mark.parametrize(
    "take",
    [
        pytest.param(Span, id="Span"),
        pytest.param(lambda value: over_range(value, "1 s"), id="over_range"),
        pytest.param(lambda value: over_range("1 s", value), id="slide"),
        pytest.param(
            lambda value: SparkStream(cast(Session, None), Stream("s", ROWS.schema)).window(value),
            id="stream.window",
        ),
        pytest.param(lambda value: Windowed(ROWS, value).lifetimes(), id="Windowed"),
        pytest.param(lambda value: judge_lateness([{"s": ROWS}], value), id="judge_lateness"),
        pytest.param(
            lambda value: judge_lateness([{"s": ROWS}], {"s": value}), id="slack by stream"
        ),
        pytest.param(lambda value: cut_by_time(ROWS, value), id="cut_by_time"),
        pytest.param(lambda value: shuffle_within_slack(ROWS, value, 1), id="shuffle_within_slack"),
        pytest.param(lambda value: StreamSpec(1, burst=(value, "1 s")), id="burst"),
        pytest.param(lambda value: generate(StreamSpec(1, silences=(1, value))), id="silences"),
        pytest.param(lambda value: generate(StreamSpec(1, slack=value, disorder=1)), id="slack"),
        pytest.param(lambda value: generate(StreamSpec(1, late_by=value, late=1)), id="late_by"),
    ],
)
def test_every_duration_of_users_has_a_unit(take: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidSetting, match="3600 has no unit"):
        take(3600)
    take(timedelta(hours=1))


def test_durations_of_users() -> None:
    assert duration("1 hour") == duration(timedelta(hours=1)) == 3_600_000_000
    assert duration(0) == 0
