"""``mayfly sql``: statements and commands, over a pipeline, an archive and files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pexpect
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from typer.testing import CliRunner

from mayfly.archive import create
from mayfly.cli.app import command_line
from mayfly.cli.sql_prompt import SqlCompleter
from mayfly.cli.sql_shell import Leaving, SqlShell, is_complete, read_script
from mayfly.serving.sql_session import SqlSession
from tests.unit.serving.stored_pipelines import clicks, expected, fed, table_of

PIPELINE = """
CREATE STREAM clicks (ts TIMESTAMP, user STRING, n BIGINT) FROM csv('clicks.csv', header => 'true')
  TIMESTAMP BY ts;
CREATE STREAM pays (ts TIMESTAMP, user STRING, paid DOUBLE) FROM json('pays') TIMESTAMP BY ts;
CREATE RELATION people (user STRING, town STRING) KEY user;
INSERT INTO people VALUES ('ann', 'Kiel'), ('bob', 'Bonn');
CREATE QUERY last AS SELECT user, n FROM clicks [RANGE 3 s];
CREATE QUERY fresh AS SELECT Istream(user, n) FROM clicks [RANGE 3 s];
"""


def write_pipeline(folder: Path) -> Path:
    lines = [f"2026-03-01T09:00:0{s}Z,{('ann', 'bob')[s % 2]},{s}" for s in range(6)]
    (folder / "clicks.csv").write_text("\n".join(["ts,user,n", *lines]) + "\n")
    (folder / "pays").mkdir()
    record = '{"ts": "2026-03-01T09:00:04Z", "user": "ann", "paid": 2.5}\n'
    (folder / "pays" / "0.json").write_text(record)
    file = folder / "p.cql"
    file.write_text(PIPELINE)
    return file


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipeline") / "ck"
    fed(folder)
    return folder


def shell_over(place: Path | None) -> tuple[SqlShell, list[str]]:
    lines: list[str] = []
    return SqlShell(SqlSession.open(place), echo=lines.append), lines


def typed(place: Path | None, *statements: str) -> list[str]:
    shell, lines = shell_over(place)
    for statement in statements:
        shell.run(statement)
    return lines


def test_windows_over_declared_files(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path)
    grouped = "SELECT user, SUM(n) AS n FROM clicks [RANGE 3 s] GROUP BY user ORDER BY user;"
    assert typed(file, grouped) == [
        "user  n", "ann   4", "bob   8", "2 rows, as of 2026-03-01 09:00:05 UTC",
    ]  # fmt: skip
    assert typed(file, "\\asof 2026-03-01T09:00:02Z", grouped)[1:] == [
        "user  n", "ann   2", "bob   1", "2 rows, as of 2026-03-01 09:00:02 UTC",
    ]  # fmt: skip
    joined = "SELECT c.n, p.town FROM clicks [ROWS 2] c, people p WHERE c.user = p.user ORDER BY n"
    assert typed(file, joined)[:-1] == ["n  town", "4  Kiel", "5  Bonn"]
    both = "SELECT c.n, p.paid FROM clicks [RANGE 9 s] c, pays [RANGE 9 s] p WHERE c.n = 4"
    assert typed(file, both)[:-1] == ["n  paid", "4   2.5"]
    assert typed(file, "SELECT COUNT(*) AS n FROM last")[:-1] == ["n", "3"]
    (refusal,) = typed(file, "SELECT user FROM fresh")
    assert "it sends Istream and keeps no answer" in refusal


def test_rows_without_a_time_are_left_out_and_told(tmp_path: Path) -> None:
    """As a run does."""
    file = write_pipeline(tmp_path)
    with (tmp_path / "clicks.csv").open("a") as more:
        more.write("soon,eve,7\n")
    assert typed(file, "SELECT user, n FROM clicks [RANGE 1 s]") == [
        "user  n", "bob   5", "1 row, as of 2026-03-01 09:00:05 UTC",
        "partial: left out: 1 row of clicks without ts",
    ]  # fmt: skip


def test_columns_of_whatever_there_is(tmp_path: Path, checkpoint: Path) -> None:
    columns = ["column  type", "user    STRING", "page    STRING"]
    assert typed(checkpoint, "\\d fresh") == columns
    assert typed(checkpoint, "SELECT COUNT(*) AS n FROM people; \\d fresh")[3:] == columns
    declared = "CREATE RELATION `two words` (s STRUCT<Aa: BIGINT>, k BIGINT) KEY k;"
    assert typed(None, declared, "\\d two words")[1:] == [
        "column  type", "s       struct<Aa:bigint>", "k       BIGINT",
    ]  # fmt: skip


def test_declarations_live_in_the_session(tmp_path: Path) -> None:
    lines = typed(
        None,
        "CREATE RELATION t (k BIGINT, name STRING) KEY k;",
        "INSERT INTO t VALUES (1, 'a'), (2, NULL);",
        "UPDATE t SET name = 'b' WHERE k = 2;",
        "SELECT k, name FROM t ORDER BY k DESC;",
        "SHOW RELATIONS;",
        "DROP RELATION t;",
        "SELECT k FROM t;",
    )
    assert lines[:4] == ["done", "2 rows in t", "2 rows in t", "k  name"]
    assert lines[4:6] == ["2  b", "1  a"]
    assert lines[7:9] == ["name  kind      columns", "t     relation  k, name"]
    assert lines[9] == "done"
    assert "there is no view, relation or archive called t" in lines[10]


def test_what_the_checkpoint_has_is_not_declared_or_changed_here(tmp_path: Path) -> None:
    """It would have no effect: answers are read from the checkpoint."""
    file = write_pipeline(tmp_path)
    fed(tmp_path / "p.state")
    counted = "SELECT COUNT(*) AS n FROM people;"
    for statement in (
        "INSERT INTO people VALUES ('eve', 'Ulm');",
        "UPDATE people SET town = 'Ulm' WHERE user = 'ann';",
        "DELETE FROM people;",
        "DROP RELATION people;",
        "CREATE RELATION Totals (user STRING, n BIGINT) KEY user;",
    ):
        refusal, *answer = typed(file, statement, counted)
        assert "is read from the checkpoint" in refusal, statement
        assert answer[:-1] == ["n", "2"]
    assert typed(file, "CREATE RELATION own (k BIGINT) KEY k; INSERT INTO own VALUES (1);") == [
        "done", "1 row in own",
    ]  # fmt: skip


def test_several_statements_and_words_of_other_shells(checkpoint: Path) -> None:
    count = "SELECT COUNT(*) AS n FROM totals WHERE ';' = ';'"
    assert typed(checkpoint, f"{count}; {count}; -- both") == typed(checkpoint, count) * 2
    shell, lines = shell_over(checkpoint)
    assert not shell.run(f"{count}; FLY; {count};")
    assert len(lines) == 4, "what stands behind a refused statement is not carried out"
    assert typed(checkpoint, "help") == typed(checkpoint, "\\?")
    assert is_complete("exit")
    for word in ("exit", "QUIT;"):
        with pytest.raises(Leaving):
            typed(checkpoint, word)


def test_a_checkpoint_at_its_newest_version(tmp_path: Path) -> None:
    runner = fed(tmp_path, 20)
    shell, lines = shell_over(tmp_path)
    shell.run("SELECT COUNT(*) AS n FROM recent;")
    fed(tmp_path / "other")  # another pipeline changes nothing here
    runner.feed({"clicks": table_of(clicks(20, 26))}, {})
    shell.run("\\watch 0.001 2")
    instants = [line.split("as of ")[1] for line in lines if "as of" in line]
    assert instants == ["1970-01-01 00:00:18.999999 UTC", *["1970-01-01 00:00:24.999999 UTC"] * 2]


def test_commands(checkpoint: Path) -> None:
    lines = typed(checkpoint, "\\d")
    listed = {line.split()[0]: line.split()[1] for line in lines[1:]}
    assert listed == {
        "recent": "view", "totals": "view", "towns": "view", "people": "relation",
        "fresh": "query", "clicks": "stream", "views": "stream", "unread": "relation",
    }  # fmt: skip
    columns = [line.split() for line in typed(checkpoint, "\\d totals")[1:]]
    assert columns == [["user", "STRING"], ["clicks", "BIGINT"], ["n", "BIGINT"]]
    rows = [row for row in expected("totals", 28) if row[0] == "ann"]
    ann = "SELECT user, clicks, n FROM totals WHERE user = 'ann';"
    comma = ",".join(map(str, rows[0]))
    assert typed(checkpoint, "\\format csv", ann)[1:] == ["user,clicks,n", comma]
    (row,) = typed(checkpoint, "\\format json", ann)[1:]
    assert row == f'{{"user": "ann", "clicks": {rows[0][1]}, "n": {rows[0][2]}}}'
    assert typed(checkpoint, "\\timing", ann)[-1].endswith(" ms")
    assert "RANGE 20" in "\n".join(typed(checkpoint, "EXPLAIN totals;"))
    assert "totals" in "\n".join(typed(checkpoint, f"EXPLAIN {ann}"))
    assert "no panes" in "\n".join(typed(checkpoint, "EXPLAIN SHARING;"))
    assert "\\watch" in "\n".join(typed(checkpoint, "\\?"))
    with pytest.raises(Leaving):
        typed(checkpoint, "\\q")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT nme FROM totals;", "^"),
        ("\\wtch", "did you mean \\watch?"),
        ("\\watch", "no query to repeat"),
        ("\\format xml", "use table, json, csv"),
        ("\\d nothing at all", "there is no nothing at all"),
        ("\\format json or csv", "\\? shows how"),
        ("\\d totls", "did you mean totals?"),
        ("\\asof soon", "cannot read the instant"),
        ("EXPLAIN nothing;", "there is no query nothing"),
        ("FLY;", "no statement starts with"),
    ],
)
def test_refusals_leave_the_shell_alive(checkpoint: Path, statement: str, message: str) -> None:
    shell, lines = shell_over(checkpoint)
    assert not shell.run(statement)
    assert message in "\n".join(lines)
    assert shell.run("SELECT COUNT(*) AS n FROM totals;")


def test_an_archive(tmp_path: Path) -> None:
    archive = create(
        tmp_path / "visits", {"user": "string", "ts": "timestamp"}, key="user",
        window="9 minutes", time="ts", refresh="10 seconds", origin="1970-01-01",
    )  # fmt: skip
    archive.update([{"user": "ann", "ts": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}])
    lines = typed(tmp_path / "visits", "SELECT user FROM visits WHERE user = 'ann';")
    assert lines == ["user", "ann", "1 row, as of 1970-01-01 00:00:10 UTC"]


def completed(session: SqlSession, text: str) -> list[str]:
    choices = SqlCompleter(session).get_completions(Document(text), CompleteEvent())
    return [choice.text for choice in choices]


def test_names_and_keywords_are_completed(checkpoint: Path) -> None:
    session = SqlSession.open(checkpoint)
    assert completed(session, "SELECT user FROM tot") == ["totals"]
    assert completed(session, "SELECT cli") == ["clicks"]
    assert completed(session, "sel") == ["SELECT"]
    assert completed(session, "SELECT a FROM b le") == ["LEFT JOIN"]
    assert completed(session, "\\wa") == ["\\watch"]
    assert completed(session, "\\d tow") == ["towns"]


def test_completed_names_are_quoted_where_they_must_be() -> None:
    session = SqlSession.open(None)
    session.execute("CREATE RELATION `two words` (`a b` BIGINT) KEY `a b`")
    assert completed(session, "SELECT k FROM tw") == ["`two words`"]
    assert completed(session, "SELECT k FROM `tw") == ["two words`"]
    assert completed(session, "\\d tw") == ["two words"]


def test_lines_that_the_terminal_breaks_go_through_the_pager(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paged: list[str] = []
    monkeypatch.setattr("pydoc.pager", paged.append)
    shell, lines = shell_over(checkpoint)
    shell.pages = True
    for columns, expected_pages in ((80, 0), (8, 1)):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("LINES", "15")
        assert shell.run("SELECT user, page, n FROM recent;")
        assert len(paged) == expected_pages
    assert paged[0].splitlines() == lines


def test_statements_of_a_script() -> None:
    lines = iter(["SELECT a\n", "FROM b;\n", "\\d\n", "\n", "SELECT c"])
    assert list(read_script(lines)) == ["SELECT a\nFROM b;\n", "\\d\n", "\n", "SELECT c"]
    assert not is_complete("SELECT a")


def test_on_the_command_line(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path)
    count = "SELECT COUNT(*) AS n FROM last;"

    def sql(*arguments: str, **settings: Any) -> Any:
        return CliRunner().invoke(command_line(["sql"]), ["sql", *arguments], **settings)

    shown = sql(str(file), "-c", count, "--format", "csv")
    assert (shown.exit_code, shown.stdout) == (0, "n\n3\n"), shown.stderr
    piped = sql(str(file), input=f"\\format json\n{count}\nSELECT;\n{count}\n")
    assert piped.exit_code == 1
    assert piped.stdout.count('{"n": 3}') == 2
    assert len(piped.stdout.splitlines()) == 3  # what was refused is not among the answers
    assert "SELECT" in piped.stderr
    assert sql(str(file), input="SELECT;\n\\q\n").exit_code == 1
    refused = sql(str(tmp_path / "nowhere"), "-c", count)
    assert refused.exit_code == 2
    assert "no Mayfly directory" in refused.stderr


@pytest.fixture
def terminal(checkpoint: Path, tmp_path: Path) -> Iterator[Any]:
    arguments = ["-m", "mayfly", "sql", str(checkpoint), "--history", str(tmp_path / "past")]
    child = pexpect.spawn(
        sys.executable,
        arguments,
        encoding="utf-8",
        dimensions=(40, 120),
        timeout=60,
        env={**os.environ, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"},
    )
    yield child
    child.close(force=True)


def test_what_is_taller_than_the_terminal_is_paged(checkpoint: Path, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho paged:\ncat\necho press Enter\nread line < /dev/tty\n")
    child = pexpect.spawn(
        sys.executable,
        ["-m", "mayfly", "sql", str(checkpoint), "--history", str(tmp_path / "past")],
        encoding="utf-8",
        dimensions=(8, 100),
        timeout=60,
        env={
            **os.environ,
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "TERM": "xterm",
            "LINES": "8",
            "PAGER": f"sh {pager}",
        },
    )
    child.expect("mayfly>")
    child.send("SELECT user, page, n FROM recent ORDER BY n, page;\r")
    child.expect("paged:")
    child.expect("10 rows, as of 1970-01-01 00:00:28.999999 UTC")
    child.expect("press Enter")
    child.send("\r")
    child.expect("mayfly>")
    child.send("SELECT COUNT(*) AS n FROM recent;\r")
    short = "1 row, as of 1970-01-01 00:00:28.999999 UTC"
    assert child.expect(["paged:", short]) == 1
    child.expect("mayfly>")
    child.send("\\q\r")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_in_a_terminal(terminal: Any, tmp_path: Path) -> None:
    terminal.expect("mayfly>")
    terminal.send("SELECT COUNT(*) AS n\r")  # no semicolon: a second line
    terminal.expect(r"\.\.\.>")
    terminal.send("FROM recent;\r")
    terminal.expect("1 row, as of 1970-01-01 00:00:28.999999 UTC")
    terminal.expect("mayfly>")
    terminal.send("\\watch 0.1\r")
    for _ in range(3):
        terminal.expect("1 row, as of")
    terminal.send("\x03")
    terminal.expect("mayfly>")
    terminal.send("SELECT nme FROM recent;\r")
    terminal.expect(r"\^\^\^")
    terminal.expect("mayfly>")
    terminal.send("\\d tot\t")
    terminal.expect("als")
    terminal.send("\r")
    terminal.expect("clicks +BIGINT")
    terminal.expect("mayfly>")
    terminal.send("\x1b[A\r")  # the line before, again
    terminal.expect("clicks +BIGINT")
    terminal.expect("mayfly>")
    terminal.send("\\q\r")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
    assert "+\\d totals" in (tmp_path / "past").read_text()
