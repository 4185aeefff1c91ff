"""``mayfly explain`` and ``mayfly check``: output, options, and errors without stack traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from mayfly.cli.check_command import check_command
from mayfly.cli.explain_command import explain_command

app = typer.Typer()
app.command("explain")(explain_command)
app.command("check")(check_command)

SCRIPT = """CREATE STREAM s (ts BIGINT, a BIGINT, b STRING) FROM parquet('in') TIMESTAMP BY ts;
CREATE STREAM t (ts BIGINT, a BIGINT, b STRING) FROM parquet('in') TIMESTAMP BY ts;
CREATE QUERY plain AS SELECT a FROM s [RANGE 5 MIN] WHERE b = 'x';
CREATE QUERY without AS SELECT s.a FROM s [RANGE 5 MIN], t [RANGE 5 MIN] WHERE s.a = t.a
  AND NOT EXISTS (SELECT * FROM t [RANGE 1 MIN] u WHERE u.a = s.a);
EXPLAIN COMPARE without;
CREATE QUERY last AS SELECT a FROM s [ROWS 5];
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.cql"
    path.write_text(SCRIPT)
    (tmp_path / "in").mkdir()
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_explain_shows_every_query_of_a_file(script: Path) -> None:
    result = run("explain", script)
    assert result.exit_code == 0
    assert [line for line in result.output.splitlines() if line.startswith("== ")] == [
        "== plain",
        "== without",
        "== without",
        "== last",
        "== together",
    ]
    assert "STR because of NOT EXISTS at line 5" in result.output
    assert "plan 1 of 3, chosen" in result.output


def test_explain_can_be_asked_for_one_query(script: Path) -> None:
    result = run("explain", script, "--query", "plain")
    assert result.output.count("== ") == 1
    assert "WKS(5 min)" in result.output


def test_explain_as_json(script: Path) -> None:
    result = run("explain", script, "--json", "-q", "plain")
    (found,) = json.loads(result.output)
    assert found["name"] == "plain"
    assert found["query"].startswith("CREATE QUERY plain")
    assert found["plans"][0]["plan"]["pattern"] == "WKS"


def test_explain_as_a_page(script: Path, tmp_path: Path) -> None:
    result = run("explain", script, "--html", tmp_path / "out.html")
    assert result.exit_code == 0
    assert (tmp_path / "out.html").read_text().count("<svg") == 1 + 1 + 3 + 1


def test_explain_compares_on_request(script: Path) -> None:
    assert "plan 1 of 3" in run("explain", script, "-q", "without", "--compare").output


def test_rules_can_be_left_out(script: Path) -> None:
    narrow = run("explain", script, "-q", "plain").output
    wide = run("explain", script, "-q", "plain", "--without", "prune-columns").output
    assert "(a, b)" in narrow
    assert "(ts, a, b)" in wide


def test_strategies_can_be_chosen(script: Path) -> None:
    result = run("explain", script, "-q", "without", "--strategy", "nt")
    assert "strategy  NT" in result.output


def test_timings_can_be_asked_for(script: Path) -> None:
    assert " ms)" in run("explain", script, "-q", "without", "--timings").output


def test_check_names_patterns_and_warnings(script: Path) -> None:
    result = run("check", script)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].startswith("plain: WKS(5 min) because")
    assert "  warning: s [ROWS 5] at line 7 runs in a single task" in lines
    assert lines[-1].endswith("6 statements, 4 queries, no errors")


def test_check_as_json(script: Path) -> None:
    found = json.loads(run("check", script, "--json").output)
    assert [each["pattern"] for each in found["queries"]] == ["WKS", "STR", "STR", "STR"]
    assert found["queries"][-1]["warnings"]


@pytest.mark.parametrize("command", ["explain", "check"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT", "wrong.cql:1:7"),
        ("CREATE QUERY q AS SELECT a FROM nowhere [RANGE 5 MIN];", "nowhere"),
        (SCRIPT + "CREATE QUERY x AS SELECT z FROM s [RANGE 5 MIN];", "z"),
    ],
)
def test_wrong_files_are_told_with_exit_code_2(
    tmp_path: Path, command: str, text: str, message: str
) -> None:
    path = tmp_path / "wrong.cql"
    path.write_text(text)
    result = run(command, path)
    assert result.exit_code == 2
    assert result.stderr.startswith("mayfly: ")
    assert message in result.stderr
    assert "Traceback" not in result.output + result.stderr
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("command", ["explain", "check"])
def test_unreadable_files_are_told_with_exit_code_2(tmp_path: Path, command: str) -> None:
    missing = run(command, tmp_path / "missing.cql")
    assert (missing.exit_code, "missing.cql" in missing.stderr) == (2, True)
    (tmp_path / "binary.cql").write_bytes(b"\xff\xfe\x00")
    binary = run(command, tmp_path / "binary.cql")
    assert (binary.exit_code, "UTF-8" in binary.stderr) == (2, True)


def test_wrong_options_are_told_with_exit_code_2(script: Path) -> None:
    assert "push-predicates" in run("explain", script, "--without", "nothing").stderr
    assert run("explain", script, "--without", "nothing").exit_code == 2
    unknown = run("explain", script, "--query", "nobody")
    assert unknown.exit_code == 2
    assert "plain, without" in unknown.stderr
    assert run("explain", script, "--html", "/nowhere/out.html").exit_code == 2


def test_a_file_without_queries_has_nothing_to_explain(tmp_path: Path) -> None:
    path = tmp_path / "streams.cql"
    path.write_text(SCRIPT.splitlines()[0])
    (tmp_path / "in").mkdir()
    assert run("explain", path).exit_code == 2
    assert run("check", path).exit_code == 2
