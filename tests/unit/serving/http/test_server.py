"""Every path answers what a reader of the checkpoint answers, and what DuckDB does."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import mayfly
from mayfly.client import Client, _looked_up
from mayfly.errors import InvalidSetting
from mayfly.serving.http.index_page import index_page
from mayfly.serving.http.openapi import PATHS, description
from mayfly.serving.http.request_worker import RequestWorker
from mayfly.serving.http.server_limits import ServerLimits
from tests.unit.serving.http.running_servers import RunningServer, serving
from tests.unit.serving.stored_pipelines import SECOND, clicks, expected, fed, table_of, tuples

ARROW = "application/vnd.apache.arrow.stream"
LAST = 29 * SECOND - 1
SQL = (
    "SELECT user, clicks, n FROM totals",
    "SELECT COUNT(*) AS c, SUM(n) AS s FROM recent WHERE page = 'p1'",
    "SELECT r.user, p.town FROM recent r, people p WHERE r.user = p.user",
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipeline") / "p.state"
    fed(folder)
    return folder


@pytest.fixture(scope="module")
def server(checkpoint: Path) -> Iterator[RunningServer]:
    with serving(checkpoint) as running:
        yield running


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


def rows_of(value: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in value["rows"]), key=str)


def arrow_rows(body: bytes) -> pa.Table:
    return pa.ipc.open_stream(body).read_all()


@pytest.mark.parametrize("name", ["recent", "totals", "towns"])
def test_views_at_instants(server: RunningServer, checkpoint: Path, name: str) -> None:
    reader = mayfly.open(checkpoint)
    for second in (0, 7, 19, 28):
        value = server.get(f"/views/{name}?at={second * SECOND}").json
        assert rows_of(value) == expected(name, second)
        assert value["as_of_micros"] == second * SECOND
        answer = server.client.view(name, as_of=second * SECOND)
        assert answer.rows.equals(reader.view(name, as_of=second * SECOND).rows)
    value = server.get(f"/views/{name.upper()}").json
    assert (rows_of(value), value["as_of_micros"]) == (expected(name, 28), LAST)
    assert (value["as_of"], value["partial"]) == ("1970-01-01 00:00:28.999999", [])
    assert value["version"] == reader.version


def test_views_by_key(server: RunningServer) -> None:
    for user in ("ann", "bob", "nobody else"):
        rows = [row for row in expected("recent", 28) if row[0] == user]
        assert tuples(server.client.view("recent", where={"user": user}).rows) == rows
    rows = [row for row in expected("recent", 28) if row[0] == "ann" and row[2] == 3]
    assert tuples(server.client.view("recent", where={"user": "ann", "n": 3}).rows) == rows
    earlier = [row for row in expected("recent", 12) if row[0] == "bob"]
    assert rows_of(server.get("/views/recent?user=bob&at=12000000").json) == earlier
    assert server.get("/views/recent?usr=bob").status == 400
    assert server.get("/views/recent?n=seven").status == 400
    assert server.get("/views/recent?n=1&n=2").status == 400


def test_a_view_of_binary_values_by_what_json_shows(tmp_path: Path) -> None:
    sql = "SELECT CAST(user AS BINARY) AS code, n FROM clicks [RANGE 10 s]"
    fed(tmp_path / "ck", queries={"coded": sql})
    worker = RequestWorker(mayfly.open(tmp_path / "ck"), ServerLimits())

    def asked(code: str) -> tuple[int, Any]:
        head, body = worker.reply({"do": "view", "name": "coded", "where": {"code": code}})
        return head["status"], json.loads(body)

    status, answer = asked(b"ann".hex())
    assert status == 200
    ann = [(b"ann".hex(), n) for user, _, n in expected("recent", 28) if user == "ann"]
    assert rows_of(answer) == sorted(ann)
    assert asked("ann")[0] == 400


def test_what_the_client_cannot_look_up_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="ask in SQL: user IS NULL"):
        Client("http://127.0.0.1:9").view("recent", where={"user": None})
    assert _looked_up("code", b"ann") == b"ann".hex()


def test_instants_of_any_form(server: RunningServer) -> None:
    moment = datetime(1970, 1, 1, 0, 0, 12, tzinfo=UTC)
    for as_of in (moment, "1970-01-01T00:00:12", 12 * SECOND):
        assert tuples(server.client.view("recent", as_of=as_of).rows) == expected("recent", 12)
        answer = server.client.query("SELECT user, page, n FROM recent", as_of=as_of)
        assert tuples(answer.rows) == expected("recent", 12)


@pytest.mark.parametrize("sql", SQL)
def test_queries_equal_a_reader_and_duckdb(
    server: RunningServer, checkpoint: Path, sql: str
) -> None:
    reader = mayfly.open(checkpoint)
    database = duckdb.connect()
    for name in ("recent", "totals"):
        database.register(name, reader.view(name).rows)
    database.register("people", reader.query("SELECT user, town FROM people").rows)
    oracle = sorted(map(tuple, database.execute(sql).fetchall()), key=str)
    by_reader = reader.query(sql)
    assert tuples(by_reader.rows) == oracle
    got = server.client.query(sql)
    assert got.rows.equals(by_reader.rows)
    assert (got.as_of, got.partial, got.version) == (LAST, (), reader.version)
    for reply in (
        server.ask("POST", "/query", sql.encode()),
        server.get(f"/query?sql={sql.replace(' ', '%20')}"),
    ):
        assert reply.headers["content-type"] == "application/json"
        assert rows_of(reply.json) == oracle
    arrow = server.ask("POST", "/query", sql.encode(), accept=ARROW)
    assert arrow.headers["content-type"] == ARROW
    assert tuples(arrow_rows(arrow.body)) == oracle
    earlier = server.client.query(sql, as_of=15 * SECOND)
    assert earlier.rows.equals(reader.query(sql, as_of=15 * SECOND).rows)


def test_status_plans_and_tables(server: RunningServer, checkpoint: Path) -> None:
    reader = mayfly.open(checkpoint)
    figures = json.loads(json.dumps(reader.status().to_json()))
    assert server.get("/status").json == server.client.status() == figures
    assert [q["name"] for q in server.client.status()["queries"]] == list(reader.views)
    assert server.client.explain("totals") == reader.explain("totals").text()
    assert server.client.explain(SQL[0]) == reader.explain(SQL[0]).text()
    assert set(server.get("/plan").json["plans"]) == set(reader.views)
    tables = server.get("/views").json["tables"]
    assert tables["recent"]["columns"] == {"user": "string", "page": "string", "n": "bigint"}
    assert {name: facts["kind"] for name, facts in tables.items()} == {
        "recent": "view", "totals": "view", "towns": "view", "people": "relation", "fresh": "log"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/views/recnt", 404, "did you mean recent"),
        ("/views/fresh", 400, "sends Istream"),
        ("/views/recent?at=29000000", 409, "not closed yet"),
        ("/views/recent?at=yesterday", 400, "cannot read the instant"),
        ("/views/recent?at=99999999999999999999", 400, "cannot read the instant"),
        ("/query", 400, "there is no query"),
        ("/query?sql=SELEC", 400, "SELEC"),
        ("/query?sql=SELECT%20x%20FROM%20recent", 400, "x"),
        ("/query?sql=SELECT%20user%20FROM%20clicks", 400, "stream"),
        ("/query?sql=DELETE%20FROM%20people", 400, ""),
        ("/plan/nothing", 404, "has no query"),
        ("/changes/nothing", 404, "has no query"),
        ("/changes/recent?since=soon", 400, "cannot read the instant"),
        ("/nowhere", 404, "no such path"),
        ("/views/recent/", 404, "no such path"),
        ("/views/../status", 404, ""),
    ],
)
def test_refusals_say_why(server: RunningServer, path: str, status: int, words: str) -> None:
    reply = server.get(path)
    assert reply.status == status, reply.body
    error = reply.json["error"]
    assert set(error) == {"kind", "message", "hint"}
    assert words in f"{error['message']} {error['hint']}"
    assert "Traceback" not in reply.body.decode()


def test_what_is_not_read_is_not_allowed(server: RunningServer) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        for path in ("/query", "/views/recent", "/status"):
            assert server.ask(method, path).status == 405
    assert server.ask("POST", "/status").status == 405
    assert server.ask("HEAD", "/views/recent").body == b""
    assert server.ask("HEAD", "/changes/recent").status == 200


def test_errors_come_out_of_the_client(server: RunningServer) -> None:
    from mayfly.errors import InvalidSetting, MayflyError, NotClosed, StorageError

    with pytest.raises(InvalidSetting, match="did you mean recent"):
        server.client.view("recnt")
    with pytest.raises(NotClosed, match="not closed yet"):
        server.client.query("SELECT user FROM recent", as_of=LAST + 1)
    with pytest.raises(MayflyError, match="SELECT usr FROM recent"):
        server.client.query("SELECT usr FROM recent")
    with pytest.raises(InvalidSetting, match="not the address"):
        Client("localhost:1")
    with pytest.raises(StorageError, match="does not answer"):
        Client("http://127.0.0.1:1").status()
    with pytest.raises(InvalidSetting, match="no setting as_off"):
        server.client.view("recent", as_off=3)  # type: ignore[call-arg]


def test_the_page_and_the_description_list_the_paths(server: RunningServer) -> None:
    page = server.get("/").body.decode()
    assert all(f"GET {path}" in page for path in PATHS)
    assert '<a href="/views/recent">recent</a>' in page
    assert '<a href="/changes/fresh">fresh</a>' in page
    assert '<a href="/status">' in page
    assert '<a href="/query">' not in page  # it needs SQL
    assert server.get("/openapi.json").json == description()
    for path, methods in PATHS.items():
        address = path.replace("{name}", "recent")
        for method in ("GET", "POST", "DELETE"):
            if (path, method) != ("/changes/{name}", "GET"):
                allowed = method.lower() in methods
                assert (server.ask(method, address).status != 405) == allowed, (method, path)


def test_names_on_the_page_are_no_markup() -> None:
    table = {"kind": "view", "columns": {"<script>": "bigint"}}
    page = index_page("<b>", {'a/"<i>': table})
    assert "<b>" not in page
    assert "<script>" not in page
    assert '<a href="/views/a%2F%22%3Ci%3E">a/&quot;&lt;i&gt;</a>' in page


def test_the_description_is_sound() -> None:
    """By the rules of OpenAPI 3.1 that concern what is used here."""
    document = description()
    assert set(document) == {"openapi", "info", "paths", "components", "security"}
    assert re.fullmatch(r"3\.1\.\d+", document["openapi"])
    assert {"title", "version"} <= set(document["info"])

    def check(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                target: Any = document
                for part in value["$ref"].removeprefix("#/").split("/"):
                    target = target[part]
            for member in value.values():
                check(member)
        elif isinstance(value, list):
            for member in value:
                check(member)

    check(document)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            parameters = operation.get("parameters", [])
            in_path = {p["name"] for p in parameters if p["in"] == "path"}
            assert in_path == set(re.findall(r"{(\w+)}", path))
            assert all(p["required"] for p in parameters if p["in"] == "path")
            names = [(p["in"], p["name"]) for p in parameters]
            assert len(names) == len(set(names))
            assert all({"name", "in", "schema"} <= set(p) for p in parameters)
            assert operation["responses"]["200"]["description"]


def test_answers_are_as_described(server: RunningServer) -> None:
    answer = server.get("/views/recent").json
    schema = description()["components"]["schemas"]["Answer"]
    assert set(schema["required"]) == set(answer) == set(schema["properties"])


def test_a_new_version_is_read(tmp_path: Path) -> None:
    runner = fed(tmp_path / "ck", 20)
    with serving(tmp_path / "ck") as server:
        client = server.client
        assert tuples(client.view("recent").rows) == expected("recent", 18)
        runner.feed({"clicks": table_of(clicks(20, 30))}, {})
        assert tuples(client.view("recent").rows) == expected("recent", 28)
        assert server.stop() == 0


def test_nothing_is_written(checkpoint: Path, server: RunningServer) -> None:
    before = listing(checkpoint)
    for path in ("/views/recent", "/status", "/plan", "/views", "/query?sql=SELECT%201", "/"):
        server.get(path)
    events = server.client.changes("recent", since=0)
    assert next(events).changes
    events.close()  # type: ignore[attr-defined]
    assert listing(checkpoint) == before


def test_the_command(checkpoint: Path, tmp_path: Path) -> None:
    file = tmp_path / "p.cql"
    file.write_text("CREATE STREAM s (ts TIMESTAMP) FROM json('in') TIMESTAMP BY ts;")
    (tmp_path / "p.state").symlink_to(checkpoint)
    command = [sys.executable, "-m", "mayfly", "serve"]
    process = subprocess.Popen(
        [*command, str(file), "--port", "0", "--workers", "1", "--log"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(r"serving 4 queries of .* at (http://127\.0\.0\.1:\d+)\n", line)
    assert found, line
    with Client(found[1]) as client:
        assert client.query(SQL[0]).as_of == LAST
    process.send_signal(signal.SIGINT)
    printed, noted = process.communicate(timeout=30)
    assert (process.returncode, printed) == (0, "stopped\n")
    assert re.fullmatch(r"POST /query 200 [\d.]+ ms\n", noted)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--host", "0.0.0.0"], "reachable from other machines, and there is no token"),
        (["--token", "short"], "fewer than 16 characters"),
        (["--token", "with a blank inside it"], "cannot carry"),
        (["--max-rows", "0"], "more than 0"),
        (["--host", "192.0.2.7", "--token", "0123456789abcdef"], "cannot listen"),
        (["--port", "70000"], "there is no port 70000"),
        (["--archive", "days"], "names no folder"),
    ],
)
def test_what_the_command_refuses(checkpoint: Path, words: list[str], complaint: str) -> None:
    from typer.testing import CliRunner

    from mayfly.cli.app import command_line

    shown = CliRunner().invoke(command_line(["serve"]), ["serve", str(checkpoint), *words])
    assert shown.exit_code == 2
    assert complaint in shown.stderr
    assert "0123456789abcdef" not in shown.stderr


def test_what_is_no_pipeline_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mayfly", "serve", str(tmp_path), "--port", "0"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Mayfly directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_json_is_known_without_its_name(server: RunningServer) -> None:
    """As ``curl -d`` sends it."""
    body = json.dumps({"sql": SQL[0]}).encode()
    form = "application/x-www-form-urlencoded"
    reply = server.ask("POST", "/query", body, content_type=form)
    assert reply.json["rows"] == server.ask("POST", "/query", SQL[0].encode()).json["rows"]
