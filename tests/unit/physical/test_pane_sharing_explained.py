"""EXPLAIN SHARING: who answers from which panes, what it saves, what a query would cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mayfly.cli.app import command_line
from mayfly.kernels.pane_edges import edges, reach_of
from mayfly.physical.explain.sharing import rows_of
from mayfly.plan.window_kinds import Range, Slide
from mayfly.runtime.local_session import LocalSession

GOLDEN = Path(__file__).parents[2] / "golden" / "sharing"
QUERIES = GOLDEN / "pipeline.cql"
ADDED = (
    "CREATE QUERY added AS SELECT src, MAX(bytes) AS m "
    "FROM link1 [RANGE 30 MIN SLIDE 5 MIN] GROUP BY src"
)
HOPPING = (
    "CREATE QUERY hopping AS SELECT src, window_end, AVG(bytes) AS mean "
    "FROM HOP(link1, ts, INTERVAL '1' MINUTE, INTERVAL '10' MINUTE) "
    "GROUP BY src, window_start, window_end"
)
SESSIONS = (
    "CREATE QUERY sessions AS SELECT src, window_end, COUNT(*) AS n "
    "FROM SESSION(link1 PARTITION BY src, ts, INTERVAL '5' MINUTE) "
    "GROUP BY src, window_start, window_end"
)


def explained(*options: str) -> str:
    done = CliRunner().invoke(
        command_line(["explain"]), ["explain", str(QUERIES), "--sharing", *options]
    )
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    ("golden", "options"),
    [
        ("sharing.txt", ()),
        ("sharing-added.txt", ("--add", ADDED)),
        ("sharing-finished.txt", ("--add", HOPPING, "--add", SESSIONS)),
        ("sharing-without.txt", ("--without", "SS1")),
        ("sharing.mermaid", ("--mermaid",)),
        ("sharing.json", ("--json", "--add", ADDED)),
    ],
)
def test_sharing_is_explained(golden: str, options: tuple[str, ...]) -> None:
    assert explained(*options) == (GOLDEN / golden).read_text()


def test_json_says_what_the_text_does() -> None:
    values = json.loads(explained("--json"))
    assert [len(some["readers"]) for some in values["panes"]] == [3, 1]
    assert list(values["others"]) == ["latest"]


@pytest.mark.parametrize(("form", "golden"), [("", "txt"), (" MERMAID", "mermaid")])
def test_a_statement_says_what_the_option_does(tmp_path: Path, form: str, golden: str) -> None:
    file = tmp_path / "pipeline.cql"
    file.write_text(f"{QUERIES.read_text().rstrip().removesuffix(';')};\nEXPLAIN SHARING{form};\n")
    done = CliRunner().invoke(command_line(["explain"]), ["explain", str(file)])
    assert done.exit_code == 0, done.output
    assert done.output.endswith(f"== sharing\n{(GOLDEN / f'sharing.{golden}').read_text()}")


def test_a_session_says_it_too() -> None:
    session = LocalSession()
    session.execute(QUERIES.read_text())
    assert session.sharing().text() == (GOLDEN / "sharing.txt").read_text().rstrip()


def test_cpu_time_grows_with_panes_results_and_values() -> None:
    session = LocalSession()
    session.execute(QUERIES.read_text())
    panes = session.sharing().panes
    for some in panes:
        assert 0 < some.shared.cpu <= some.alone.cpu
        read = some.shared.touched - some.made
        parts = (some.made, 600.0), (some.results, 550.0), (read, 5.0)
        assert some.shared.cpu == pytest.approx(sum(n * cost for n, cost in parts) / 1000)


def test_a_wrong_query_to_add_is_refused() -> None:
    done = CliRunner().invoke(
        command_line(["explain"]),
        ["explain", str(QUERIES), "--sharing", "--add", "CREATE QUERY x AS SELECT y"],
    )
    assert done.exit_code == 2
    assert "mayfly:" in done.output
    done = CliRunner().invoke(command_line(["explain"]), ["explain", str(QUERIES), "--mermaid"])
    assert done.exit_code == 2
    assert "--sharing" in done.output


def test_rows_that_are_kept_are_those_between_edges_in_use() -> None:
    """Counted one by one, of every age."""
    windows = [
        Range(duration=duration, slide=Slide(period=period))
        for duration, period in ((10, 1), (60, 10), (300, 50))
    ]
    count = 0
    for age in range(max(map(reach_of, windows))):
        reading = [window for window in windows if reach_of(window) > age]
        count += any((-age - phase) % period == 0 for period, phase in edges(reading))
    assert abs(rows_of(windows) - count) <= 3
