"""Literals that XML, HTML or UTF-8 cannot hold break no form of EXPLAIN."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from mayfly import LocalSession
from mayfly.cli.app import command_line


@pytest.mark.parametrize("odd", ["\x00", "\x1b", "\uffff", '"', "<b>&"])
def test_every_form_can_be_read_and_stored(odd: str) -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "x": "STRING"})
    explanation = session.explain(f"SELECT x FROM s [RANGE 1 h] WHERE x = '{odd}'")
    ElementTree.fromstring(explanation.svg())
    page = explanation.html()
    assert "<b>&'" not in page
    assert "\x00" not in page
    for text in (page, explanation.text(), explanation.json()):
        text.encode()
    assert odd in json.loads(explanation.json())["query"]


@pytest.mark.parametrize("command", ["explain", "check"])
def test_the_commands_print_odd_letters_as_json(tmp_path: Path, command: str) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "q.cql"
    file.write_text(
        "CREATE STREAM s (ts BIGINT, x STRING) FROM json('in') TIMESTAMP BY ts;"
        "CREATE QUERY q AS SELECT x FROM s [RANGE 1 h] WHERE x = '\x01\ufffe' AND x <> '\\uD800'"
    )
    done = CliRunner().invoke(command_line([command]), [command, str(file), "--json"])
    assert done.exit_code == 0, done.output
    json.loads(done.stdout)
