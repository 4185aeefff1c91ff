"""EXPLAIN SHARING: who answers from which panes, what it saves, what a query would cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mayfly.cli.app import command_line
from mayfly.cql import bind_query
from mayfly.kernels.pane_edges import edges, reach_of
from mayfly.periodic.sharing.pane_covers import sharing_with_covers
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


SUMS = "SELECT src, SUM(bytes) AS s FROM link1 [RANGE {}] GROUP BY src"
LARGEST = "SELECT src, MAX(bytes) AS m FROM link1 [RANGE {}]{} GROUP BY src"


def rules_of(*texts: str, without: tuple[str, ...] = ()) -> dict[str, tuple[str, float, str]]:
    """Of queries that come together: by which rules, values read, and why apart from others."""
    session = LocalSession()
    session.execute(QUERIES.read_text().partition("CREATE QUERY")[0])
    plans = {f"q{n}": bind_query(text, session.catalog) for n, text in enumerate(texts, start=1)}
    panes = sharing_with_covers(plans, session.catalog, without=without).panes
    readers = [reader for some in panes for reader in some.readers]
    return {each.query: (each.rule, each.shared.reads, each.apart) for each in readers}


def test_a_longer_period_reads_nothing_that_a_shorter_one_shows() -> None:
    """Whichever came first; sums are two values anyway."""
    often, seldom = "1 HOUR SLIDE 5 MIN", "1 HOUR SLIDE 15 MIN"
    for first, second in ((often, seldom), (seldom, often)):
        rules = rules_of(LARGEST.format(first, ""), LARGEST.format(second, ""))
        leader, follower = ("q1", "q2") if first == often else ("q2", "q1")
        assert "CS8" not in rules[leader][0]
        assert rules[leader][1] > 0
        assert rules[follower][0].endswith("CS8")
        assert rules[follower][1] == 0
    assert rules_of(SUMS.format(often), SUMS.format(seldom))["q2"][:2] == ("SS1, CS2, CS8", 2.0)
    for other in ("1 HOUR SLIDE 7 MIN", "1 HOUR SLIDE 15 MIN ORIGIN '1970-01-01 00:01:00'",
                  "2 HOURS SLIDE 15 MIN"):  # fmt: skip
        assert "CS8" not in rules_of(LARGEST.format(often, ""), LARGEST.format(other, ""))["q2"][0]
    without = rules_of(LARGEST.format(often, ""), LARGEST.format(seldom, ""), without=("CS8",))
    assert without["q2"][0] == "SS1, CS2"
    assert without["q2"][1] > 0


def test_all_that_ask_the_same_of_panes_are_answered_in_one_pass() -> None:
    """Whatever HAVING says, whatever is computed, however values are put together."""
    asked = {
        "SUM(bytes)": 2.0,
        "SUM(bytes) * 8": 2.0,
        "SUM(bytes::double)": 288.0 - 12,
        "MEDIAN(bytes)": 288.0 - 12,
        "VAR(bytes)": 288.0,
        "APPROX_COUNT_DISTINCT(dst)": 288.0,
        "MAX(bytes)": 288.0,
    }
    for call, reads in asked.items():
        text = f"SELECT src, {call} AS s FROM link1 [RANGE {{}} SLIDE 5 MIN] GROUP BY src"
        rules = rules_of(text.format("1 HOUR"), f"{text.format('1 DAY')} HAVING COUNT(bytes) > 5")
        assert [rule[2] for rule in rules.values()] == ["", ""], call
        plain = rules_of(text.format("1 HOUR"), text.format("1 DAY"))
        shared_by, read = plain["q2"][:2]
        assert shared_by == "SS1, CS2", call
        assert read == pytest.approx(reads, abs=1), call
    largest = rules_of(
        LARGEST.format("1 DAY SLIDE 5 MIN", ""), LARGEST.format("1 HOUR SLIDE 5 MIN", "")
    )
    assert largest["q2"][1] < 8, "a few blocks of the longer one"


def test_why_a_query_is_not_answered_in_one_pass_with_others_is_told() -> None:
    often, seldom = SUMS.format("1 DAY SLIDE 5 MIN"), SUMS.format("1 HOUR SLIDE 5 MIN")
    rules = rules_of(often, seldom, without=("CS2",))
    assert {rule[2] for rule in rules.values()} == {"the rule is switched off"}
    assert rules_of(often, without=("CS2",))["q1"][2] == ""


def test_covers_find_once_what_comes_and_goes_in_equal_windows() -> None:
    window, wheres = "30 MIN SLIDE 5 MIN", [f" WHERE protocol = '{p}'" for p in ("tcp", "udp")]
    both = " WHERE protocol = 'tcp' OR protocol = 'udp'"
    parts = [LARGEST.format(window, where) for where in wheres]
    rules = rules_of(
        *parts, LARGEST.format(window, both), LARGEST.format("15 MIN SLIDE 5 MIN", both)
    )
    assert rules["q3"][0] == "SS4, CS6, CS7"
    assert rules["q4"][0] == "SS4, CS7"
    assert rules["q4"][2] == "it puts panes of several predicates together"


def test_what_a_join_or_a_cover_would_add_is_told(tmp_path: Path) -> None:
    joined = (
        "SELECT l.src, {}(r.bytes) AS v FROM link1 [RANGE 10 MIN SLIDE 1 MIN] l, "
        "link1 [RANGE 10 MIN SLIDE 1 MIN] r WHERE l.dst = r.src GROUP BY l.src"
    )
    window, where = "30 MIN SLIDE 5 MIN", " WHERE protocol = '{}'"
    either = " WHERE protocol = 'tcp' OR protocol = 'udp'"
    queries = {
        "tcp": LARGEST.format(window, where.format("tcp")),
        "udp": LARGEST.format(window, where.format("udp")),
        "pairs": joined.format("SUM"),
    }
    file = tmp_path / "pipeline.cql"
    declared = QUERIES.read_text().partition("CREATE QUERY")[0]
    file.write_text(declared + ";\n".join(f"CREATE QUERY {n} AS {q}" for n, q in queries.items()))
    added = {"both": LARGEST.format(window, either), "more": joined.format("MAX")}
    options = [o for n, q in added.items() for o in ("--add", f"CREATE QUERY {n} AS {q}")]
    done = CliRunner().invoke(
        command_line(["explain"]), ["explain", str(file), "--sharing", *options]
    )
    assert done.exit_code == 0, done.output
    lines = dict(line.split(": ", 1) for line in done.output.splitlines() if "added" in line)
    assert lines["added both"].startswith("0 rows more, alone 7; 183 values touched")
    assert lines["added more"] == (
        "0 values of a join more, alone 11; 0 looked at in a step more, alone 11"
    )


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
