"""A setting that does not exist is named with the nearest one, wherever settings are given."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

import mayfly
import mayfly.archive
from mayfly import testing, windows
from mayfly.archive.change.migration import Migration
from mayfly.archive.maintenance import Maintenance
from mayfly.archive.read.questions import Reading
from mayfly.archive.updates import Updates
from mayfly.errors import InvalidSetting
from mayfly.spark.api import pipelines, queries, session
from mayfly.spark.archive import archives
from mayfly.spark.stream.start import StartSettings
from mayfly.windows.window import SlidingWindow

# Not as their types are: a type checker would refuse these settings before we do.
CqlQuery: Any = queries.CqlQuery
Queries: Any = queries.Queries
Pipeline: Any = pipelines.Pipeline
Session: Any = session.Session
SparkArchive: Any = archives.SparkArchive
LocalSession: Any = mayfly.LocalSession
CREATE: Any = mayfly.archive.create
PROBE: Any = Reading.probe
UPDATE: Any = Updates.update
VACUUM: Any = Maintenance.vacuum
MIGRATE: Any = Migration.migrate
Window: Any = SlidingWindow
OVER_RANGE: Any = windows.over_range
TCP_LINKS: Any = testing.tcp_links
RECORD_LINKS: Any = testing.record_links
NOBODY: Any = None
"""In place of the object: settings are looked at first."""
COLUMNS = "k STRING, ts TIMESTAMP"
DOORS: dict[str, tuple[Callable[[], object], str]] = {
    "query.start": (lambda: CqlQuery.start(NOBODY, "c", on_change=print), "on_changes"),
    "query.start passes on": (lambda: CqlQuery.start(NOBODY, "c", bucket=1), "buckets"),
    "Queries.start": (lambda: Queries.start(NOBODY, "c", histroy="1 day"), "history"),
    "Queries.serve": (lambda: Queries.serve(NOBODY, "c", intervall="1 s"), "interval"),
    "Pipeline.start": (lambda: Pipeline.start(NOBODY, Path("c"), pacing=None), "pace"),
    "Session.stream": (lambda: Session.stream(NOBODY, "s", NOBODY, slak="1 s"), "slack"),
    "Session.create_archive": (
        lambda: Session.create_archive(NOBODY, "a", COLUMNS, key="k", windw=3), "window"),
    "Session.create_archive passes on": (
        lambda: Session.create_archive(NOBODY, "a", COLUMNS, key="k", lifetimes="1 d"), "lifetime"),
    "LocalSession.stream": (
        lambda: LocalSession().stream("s", COLUMNS, sequenc=["k"]), "sequence"),
    "LocalSession": (lambda: LocalSession(zonee="UTC"), "zone"),
    "LocalSession.explain": (lambda: LocalSession().explain("", compar=True), "compare"),
    "Session": (lambda: Session(NOBODY, allow_pyton="."), "allow_python"),
    "Session.query": (lambda: Session.query(NOBODY, "", withot=()), "without"),
    "Session.explain": (lambda: Session.explain(NOBODY, "", strategi="NT"), "strategy"),
    "Session.relation": (lambda: Session.relation(NOBODY, "r", NOBODY, keys="k"), "key"),
    "Session.nrr": (lambda: Session.nrr(NOBODY, "r", NOBODY, keey="k"), "key"),
    "LocalSession.query": (lambda: LocalSession().query("", strategi="NT"), "strategy"),
    "archive.create": (
        lambda: CREATE("a", COLUMNS, key="k", window=3, layot="x"), "layout"),
    "archive.update": (lambda: UPDATE(NOBODY, NOBODY, batchid="1"), "batch_id"),
    "archive.load": (lambda: SparkArchive.load(NOBODY, NOBODY, maxgap="1 d"), "max_gap"),
    "archive.sink": (lambda: SparkArchive.sink(NOBODY, "s", slck="1 s"), "slack"),
    "archive.probe": (lambda: PROBE(NOBODY, 1, asof=3), "as_of"),
    "archive.vacuum": (lambda: VACUUM(NOBODY, graze="1 s"), "grace"),
    "archive.migrate": (lambda: MIGRATE(NOBODY, schema="DEL"), "scheme"),
    "over_range": (lambda: OVER_RANGE("1 h", "1 min", indx="T"), "index"),
    "SlidingWindow": (lambda: Window(windows.Span("1 h"), 3, storag="LIST"), "storage"),
    "tcp_links": (lambda: TCP_LINKS(3, rats=5), "rate"),
    "record_links": (lambda: RECORD_LINKS(3, rats=5), "rate"),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
def test_the_nearest_setting_is_named(door: str) -> None:
    use, nearest = DOORS[door]
    with pytest.raises(InvalidSetting, match="there is no setting") as got:
        use()
    assert nearest in got.value.hint


def test_a_setting_that_is_missing_is_named() -> None:
    with pytest.raises(InvalidSetting, match="the setting key is missing"):
        Session.create_archive(NOBODY, "a", COLUMNS, window=3)


def test_what_a_function_gives_itself_is_not_passed_on() -> None:
    with pytest.raises(InvalidSetting, match="there is no setting resumed"):
        Queries.serve(NOBODY, "c", resumed=True)
    with pytest.raises(InvalidSetting, match="there is no setting archives"):
        CqlQuery.start(NOBODY, "c", archives={})


def settings_of(function: Callable[..., object]) -> set[str]:
    parameters = signature(function).parameters.values()
    return {one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY}


def test_signatures_show_the_settings_that_are_passed_on() -> None:
    own = set(StartSettings.__annotations__)
    starts = (queries.Queries.start, queries.Queries.serve, queries.CqlQuery.start)
    for start in (*starts, pipelines.Pipeline.start):
        assert own <= settings_of(start)
    assert "exp" in settings_of(session.Session.create_archive)
    assert "share" not in settings_of(windows.PartitionedWindow.__init__)
