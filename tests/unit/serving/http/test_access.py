"""Who is let in: tokens, names of the server, other sites."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.cli.serve_command import _token
from mayfly.client import Client
from mayfly.errors import InvalidSetting, MayflyError
from mayfly.serving.http.access import AccessRule, access_for
from tests.unit.serving.http.running_servers import RunningServer, serving
from tests.unit.serving.stored_pipelines import fed

TOKEN = "a-token-of-tests-9f3k"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("pipeline") / "ck"
    fed(folder)
    with serving(folder, TOKEN) as running:
        yield running


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
     "Bearer null", f"Bearer {TOKEN.upper()}"],
)  # fmt: skip
def test_every_path_needs_the_token(server: RunningServer, authorization: str) -> None:
    for path in ("/", "/query?sql=SELECT%201", "/views/recent", "/changes/recent", "/status",
                 "/plan", "/openapi.json", "/nowhere"):  # fmt: skip
        reply = server.get(path, authorization=authorization)
        assert reply.status == 401
        assert reply.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in reply.body.decode()
    assert server.ask("POST", "/query", b"SELECT 1", authorization=authorization).status == 401


def test_with_the_token(server: RunningServer) -> None:
    assert server.get("/status").status == 200
    assert server.get("/status", authorization=f"bearer  {TOKEN}").status == 200
    assert server.client.view("recent").rows.num_rows == 10
    with Client(server.url) as client:
        with pytest.raises(MayflyError, match="token is missing or wrong"):
            client.status()
        with pytest.raises(MayflyError, match="token is missing or wrong"):
            next(client.changes("recent", since=0))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200), ("127.0.0.1:80", 200), ("localhost:8321", 200), ("[::1]:1", 200),
        ("LOCALHOST", 200), ("evil.example", 421), ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:8321", 421), ("", 421), ("evil@localhost:x", 421), ("[", 421),
    ],
)  # fmt: skip
def test_names_that_other_sites_can_take(server: RunningServer, host: str, status: int) -> None:
    assert server.get("/status", host=host).status == status


def test_pages_of_other_sites(server: RunningServer) -> None:
    assert server.get("/status", origin="https://evil.example").status == 403
    assert server.get("/status", origin="null").status == 403
    own = f"127.0.0.1:{server.port}"
    reply = server.get("/status", origin=f"http://{own}")
    assert reply.status == 200
    assert not [name for name in reply.headers if name.startswith("access-control")]


def test_names_by_which_a_server_may_be_called() -> None:
    access = access_for("127.0.0.1", None, ["Mayfly.internal"])
    assert access.refusal("mayfly.internal:8321", None, "") is None
    refusal = AccessRule().refusal("mayfly.internal:8321", None, "")
    assert refusal is not None
    assert refusal.status == 421


def test_where_tokens_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAYFLY_TOKEN", raising=False)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert _token(None, None) is None
    assert _token(TOKEN, None) == _token(None, tmp_path / "token") == TOKEN
    with pytest.raises(InvalidSetting, match="give one of them"):
        _token(TOKEN, tmp_path / "token")
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)
    assert _token(None, None) == TOKEN
    assert TOKEN not in repr(access_for("0.0.0.0", TOKEN))


def test_who_needs_a_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        assert access_for(host, None).token is None
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(InvalidSetting, match="no token"):
            access_for(host, None)
        assert access_for(host, TOKEN).token == TOKEN
    with pytest.raises(InvalidSetting, match="no address"):
        access_for("no such host", None)
