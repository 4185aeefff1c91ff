"""EXPLAIN names the time zone of what depends on one, and is silent about the rest."""

from __future__ import annotations

import json

from mayfly import LocalSession

STREAM = "CREATE STREAM s (ts TIMESTAMP, t STRING, d DATE, n BIGINT) FROM {} TIMESTAMP BY ts {}"


def zones(query: str, source: str = "parquet('in')", own: str = "") -> list[tuple[str, str]]:
    local = LocalSession(zone="Europe/Berlin")
    local.execute(STREAM.format(source, own))
    explained = local.explain(query)
    (plan,) = json.loads(explained.json())["plans"]
    found = [(one["zone"], one["of"]) for one in plan["zones"]]
    for zone, words in found:
        assert words in next(line for line in str(explained).splitlines() if f"{zone}: " in line)
    return found


def test_functions_and_casts_between_instants_and_the_calendar() -> None:
    query = """SELECT hour(ts) AS h, CAST(ts AS DATE) AS d2, year(d) AS y, unix_micros(ts) AS u
               FROM s [RANGE 1 HOUR] WHERE to_date(ts) = d AND CAST(t AS TIMESTAMP) < ts"""
    assert sorted(words for _, words in zones(query)) == [
        "CAST(s.t AS timestamp)", "CAST(s.ts AS date)", "hour(s.ts)", "to_date(s.ts)",
    ]  # fmt: skip
    assert {zone for zone, _ in zones(query)} == {"Europe/Berlin"}


def test_what_depends_on_no_zone_names_none() -> None:
    assert zones("SELECT year(d) AS y, ts FROM s [RANGE 1 HOUR] WHERE n > 3") == []


def test_texts_are_of_the_streams_own_zone() -> None:
    query = "SELECT n FROM s [RANGE 1 HOUR]"
    words = "texts without a zone in s.ts"
    assert zones(query, "json('in')") == [("Europe/Berlin", words)]
    assert zones(query, "csv('in')", "TIME ZONE 'Asia/Tokyo'") == [("Asia/Tokyo", words)]


def test_literals_are_shown_as_the_instants_they_are() -> None:
    local = LocalSession(zone="Europe/Berlin")
    local.execute(STREAM.format("parquet('in')", ""))
    shown = str(local.explain("SELECT n FROM s WHERE ts > TIMESTAMP '2026-07-01 12:00:00'"))
    assert "TIMESTAMP'2026-07-01 10:00:00+00:00'" in shown
