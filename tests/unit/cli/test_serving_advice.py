"""What ``mayfly check`` says of served queries before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.test_app import run

STREAM = "CREATE STREAM s (ts TIMESTAMP, x BIGINT) FROM json('in') TIMESTAMP BY ts KEEP 1 MINUTE;"
QUERY = "CREATE QUERY {} SERVE {} AS SELECT SUM(x) AS x FROM s [RANGE {} MIN SLIDE 30 S];"


def test_reads_and_memory_and_what_cannot_be_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "p.cql"
    queries = [("long", "SCAN WINDOW", 2), ("short", "SCAN WINDOW", 1), ("shared", "", 3)]
    file.write_text("".join([STREAM, *(QUERY.format(*query) for query in queries)]))
    assert run("check", str(file)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "long will not be served: SCAN WINDOW reads the rows of s over 2 min, which are not kept: "
        "declare KEEP 2 min on s"
    ) in lines
    assert any(line.startswith("short is served: 2 panes of 30 s") for line in lines)
    assert "served over panes of 30 s of s: 8.00 reads in each 30 s, by late-pending" in lines
