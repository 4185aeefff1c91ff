"""``mayfly run`` and its like: what is refused before Spark is started."""

from __future__ import annotations

from dataclasses import fields, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from mayfly.cli.app import main
from mayfly.cli.run_command import _tell_end, _view
from mayfly.pipeline.pipeline_file import PipelineFile
from mayfly.plan.stream_joins import Stream
from mayfly.spark.api.run_status import Status
from mayfly.spark.cluster import local_spark
from mayfly.spark.stream.query_checkpoint import plan_digest, register_queries

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING) FROM json('in') TIMESTAMP BY ts;"
QUERY = "CREATE QUERY q AS SELECT k FROM s [RANGE 1 SEC];"
ARCHIVE = "CREATE ARCHIVE q KEY k REFRESH 1 SEC "
COUNTS = "SELECT k, COUNT(*) AS n FROM s [{}] GROUP BY k;"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("mayfly: ")
    assert "\n  → " in told, "what to do"
    return told


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "p.cql"
    made.write_text(STREAM)
    return made


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--once", "--interval", "5 seconds"], "--interval would have no effect"),
        (["--interval", "soon"], "the duration 'soon'"),
        (["--buckets", "0"], "0 buckets"),
        (["--buckets", "1000000"], "1,000,000 buckets: every batch runs a task for each"),
        (["--speed", "-1"], "a speed of -1"),
        (["--until", "tomorrow"], "the instant 'tomorrow'"),
        (["--conf", "spark.driver.memory"], "sets nothing"),
        (["--shed", "1"], "a share of 1.0"),
        (["--shed-by", "partners"], "no share of them"),
        (["--shed", "0.1", "--shed-by", "luck"], "left out by 'luck'"),
    ],
)
def test_options_that_say_nothing_are_refused(
    file: Path, options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert problem in refused(capsys, "run", str(file), *options)


def test_a_checkpoint_is_not_moved_to_senseless_buckets(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for count in ("0", "1000000"):
        told = refused(capsys, "migrate", str(file), "--buckets", count)
        assert "use 1 to 4,096" in told


@pytest.mark.parametrize(
    "command", [["run"], ["check"], ["explain"], ["migrate", "--buckets", "2"]]
)
def test_files_that_cannot_be_read_are_refused(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "there is no file" in refused(capsys, *command, str(tmp_path / "missing.cql"))
    assert "is a folder" in refused(capsys, *command, str(tmp_path))
    broken = tmp_path / "broken.cql"
    broken.write_bytes(b"CREATE \xff")
    assert "is not UTF-8 text" in refused(capsys, *command, str(broken))


def test_a_file_without_a_query_is_checked_as_it_would_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "empty.cql"
    file.write_text("-- nothing yet\n")
    checked = refused(capsys, "check", str(file))
    assert "empty.cql has no query to run" in checked
    assert refused(capsys, "run", str(file)) == checked
    assert "has no query to explain" in refused(capsys, "explain", str(file))


@pytest.mark.parametrize(
    ("options", "text", "problem"),
    [
        ([], "CREATE QUERY q TO json('x') AS SELECT k FROM s [RANGE 1 SEC];", "goes to json"),
        ([], "CREATE QUERY q AS SELECT z FROM s [RANGE 1 SEC];", "z"),
        ([], "CREATE STREAM t (ts BIGINT) FROM python('x:Y') TIMESTAMP BY ts;", "--allow-python"),
        ([], "", "has no query to run"),
        ([], f"{ARCHIVE} AS {COUNTS.format('ROWS 5')}", "how long rows of the archive q live"),
        ([], f"{ARCHIVE} LAYOUT WATA(2) AS {COUNTS.format('RANGE 5 SEC')}", "q may end early"),
        (
            [],
            f"{ARCHIVE} LAYOUT WATA(4) PHYSICAL WITHIN 3 HOURS AS SELECT k FROM s [RANGE 5 SEC];",
            "does not promise when bytes are gone",
        ),
        (
            [],
            f"{ARCHIVE} LAYOUT LAZY(2, 2) USING IN PLACE AS SELECT k FROM s [RANGE 5 SEC];",
            "is not updated by IN PLACE",
        ),
        (["--history", "long"], QUERY, "the duration 'long'"),
        (["--max-gap", "wide"], QUERY, "the duration 'wide'"),
        (["--max-state-bytes", "0"], QUERY, "max_state_bytes = 0"),
        (["--checkpoint", "."], QUERY, "was not made by Mayfly"),
    ],
)
def test_what_shows_without_spark_is_refused_before_it_starts(
    file: Path,
    options: list[str],
    text: str,
    problem: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_spark, "local_spark", lambda **_: pytest.fail("Spark was started"))
    monkeypatch.chdir(file.parent)
    (file.parent / "in").mkdir()
    file.write_text(STREAM + text)
    assert problem in refused(capsys, "run", str(file), *options)


def handles(**runs: Status) -> Any:
    return {name: SimpleNamespace(status=lambda one=one: one) for name, one in runs.items()}


def shown(width: int, **runs: Status) -> str:
    """The live view in a terminal of this width."""
    console = Console(width=width, record=True, file=StringIO())
    console.print(_view(handles(**runs), width))
    return console.export_text()


@pytest.fixture
def now() -> Status:
    """A query in figures, after a few batches."""
    figures: dict[str, Any] = dict.fromkeys((one.name for one in fields(Status)), 0)
    return Status(
        **{
            **figures,
            "shed": {"s": 0},
            "beyond": {},
            "refreshes": (12, 0),
            "clock": 1_772_355_600_000_000,
            "lag": 90_061_500_000,
            "catch_up": 42.0,
            "rows": {"s": 1_234, "t": 1},
            "late": {"s": 7},
            "rate": 99.6,
            "batch_seconds": (1.5, 0.25),
            "batch": 4,
        }
    )


def test_the_view_tells_rates_lag_and_batch_times(now: Status) -> None:
    unknown = replace(now, clock=None, lag=None, catch_up=None, batch_seconds=())
    head, busy, new = shown(200, busy=now, new=unknown).splitlines()
    assert head.split()[:4] == ["query", "batches", "clock", "behind"]
    assert "2026-03-01 09:00:00  1 d 1 h, 42.0 s to go  1,235     100     7" in busy
    assert busy.endswith("0.250 s")
    assert new.split()[:4] == ["new", "5", "–", "–"]
    for width in (80, 60, 40):
        narrow = shown(width, busy=now, new=unknown)
        assert "…" not in narrow
        assert {"query", "rows", "changes", "state"} <= set(narrow.split())


LOSSES = [
    "rows left out on purpose so far: 1,234 of s, 5 of u",
    "rows too far ahead to be true (MAX GAP) so far: 3 of u",
    "refreshes skipped on purpose so far: 1,000 of 1,004 in q",
]


def lossy(now: Status) -> dict[str, Status]:
    less = replace(now, shed={"s": 1_234, "t": 0, "u": 5}, beyond={"s": 0, "u": 3})
    return {"p": less, "q": replace(less, refreshes=(4, 1_000))}


@pytest.mark.parametrize("figures", [True, False])
def test_the_end_tells_what_was_left_out_if_something_was(now: Status, figures: bool) -> None:
    console = Console(width=80, record=True, file=StringIO())
    _tell_end(handles(p=now, q=now), console, figures=figures)
    whole = console.export_text()
    assert "on purpose" not in whole
    assert len(whole.splitlines()) == (3 if figures else 0)
    _tell_end(handles(**lossy(now)), console, figures=figures)
    assert console.export_text().splitlines() == [*whole.splitlines(), *LOSSES]


def test_the_view_tells_what_was_left_out_below_the_same_table(now: Status) -> None:
    plain = shown(80, p=now, q=now)
    lines = shown(80, **lossy(now)).splitlines()
    assert lines[:3] == plain.splitlines()
    assert [line.rstrip() for line in lines[3:]] == LOSSES
    long = replace(now, shed={"a_stream_with_a_name_like_this": 10**9, "and_another_one": 10**9})
    folded = shown(40, p=long)
    assert "…" not in folded
    assert "1,000,000,000 of and_another_one" in " ".join(folded.split())
    assert all(len(line) <= 40 for line in folded.splitlines())


@pytest.fixture
def without_spark(file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(local_spark, "local_spark", lambda **_: pytest.fail("Spark was started"))
    monkeypatch.chdir(file.parent)
    (file.parent / "in").mkdir()
    file.write_text(STREAM + QUERY)
    return file


def test_partners_without_a_join_are_refused(
    without_spark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(capsys, "run", "p.cql", "--shed", "0.2", "--shed-by", "partners")
    assert "no query joins time windows" in told


def test_a_changed_query_on_an_old_checkpoint_is_refused(
    without_spark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = PipelineFile.read(without_spark)
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string())])
    plan = plan_digest(before.programs()["q"])
    text = before.queries["q"].text
    stored = {"q": {"text": text, "plan": plan, "streams": ["s"], "strategy": "UPA"}}
    register_queries("p.state", [Stream("s", schema)], stored, 2, None, sync=False)
    without_spark.write_text(STREAM + QUERY.replace("1 SEC", "2 SEC"))
    told = refused(capsys, "run", "p.cql")
    assert "belongs to another query q" in told
    assert "+ FROM s [RANGE 2 SEC]" in told
    for same in (
        QUERY.replace("SELECT k", "SELECT  k -- the key\n"),
        QUERY.replace("1 SEC", "1 s"),
    ):
        without_spark.write_text(STREAM + same)
        with pytest.raises(pytest.fail.Exception, match="Spark was started"):
            main(["run", "p.cql"])
    without_spark.write_text(STREAM + QUERY.replace("1 SEC", "2 SEC"))
    with pytest.raises(pytest.fail.Exception, match="Spark was started"):
        main(["run", "p.cql", "--replace", "q"])
