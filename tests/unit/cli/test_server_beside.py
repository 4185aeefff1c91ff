"""The server of ``mayfly run --serve``: refused before Spark starts, looked after while it runs."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from random import Random

import pytest

from mayfly.cli.serve_command import differences
from mayfly.cli.server_beside import ServerBeside
from mayfly.errors import InvalidSetting
from mayfly.pipeline.pipeline_file import PipelineFile
from tests.property.served_cases import ServedCase, ServedRun, random_rows

DECLARED = "CREATE STREAM s (ts TIMESTAMP, x BIGINT) FROM json('in') TIMESTAMP BY ts;"
SERVED = "CREATE QUERY q SERVE AS SELECT SUM(x) AS x FROM s [RANGE 4 s SLIDE 2 s];"


def declared(folder: Path, text: str = SERVED) -> PipelineFile:
    (folder / "in").mkdir(exist_ok=True)
    file = folder / "p.cql"
    file.write_text(f"{DECLARED} {text}")
    return PipelineFile.before_spark(file, {}, allow_python=False)


def test_what_cannot_be_served_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="no query with SERVE"):
        ServerBeside(tmp_path, 0, declared(tmp_path, "CREATE QUERY q AS SELECT x FROM s [NOW];"))
    plan = declared(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(InvalidSetting, match="choose another --serve-port"):
            ServerBeside(tmp_path, port, plan)
    for options in ("--port 80", "--sinks-of=x", "--schedule 'hybrid"):
        with pytest.raises(InvalidSetting, match="--serve-options"):
            ServerBeside(tmp_path, 0, plan, options)
    for options, message in (
        ("--schedule nothing", "there is no policy 'nothing'"),
        ("--workers three", "'three' is not a valid int"),
        ("--host 0.0.0.0", "there is no token"),
        ("--shcedule edf", "No such option: --shcedule"),
    ):
        with pytest.raises(InvalidSetting, match=message) as refused:
            ServerBeside(tmp_path, 0, plan, options)
        assert refused.value.hint


def test_a_killed_server_is_started_again_and_one_that_ended_is_announced(tmp_path: Path) -> None:
    run = ServedRun(tmp_path / "ck", {"q": ServedCase(Random(1))})
    run.feed(random_rows(Random(1), 0, 4))
    plan = declared(tmp_path)
    with ServerBeside(tmp_path / "ck", 0, plan, "--schedule hybrid") as server:
        assert server.look_after() is None
        server.start()
        assert server.process is not None
        assert server.look_after() is None
        killed = server.process
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert server.look_after() == "the server was killed: another one takes over"
        assert server.process is not killed
    assert not server.failed
    with ServerBeside(tmp_path / "nothing", 0, plan) as server:
        server.start()
        assert server.process is not None
        server.process.wait()
        announced = server.look_after()
        assert announced is not None
        assert "mayfly serve" in announced
        assert server.look_after() is None
        assert server.failed


def test_a_file_that_says_something_else_than_what_runs(tmp_path: Path) -> None:
    same, changed, new = (ServedCase(Random(seed)) for seed in range(1, 4))
    run = ServedRun(tmp_path / "p.state", {"same": same, "changed": changed})
    run.feed(random_rows(Random(1), 0, 4))
    stream = "CREATE STREAM s (ts TIMESTAMP, a STRING, b BIGINT, x BIGINT) FROM json('in') "
    texts = [f"CREATE QUERY same {same.text}", f"CREATE QUERY changed {new.text}"]
    file = tmp_path / "p.cql"
    file.write_text(";".join([f"{stream} TIMESTAMP BY ts", *texts, f"CREATE QUERY new {new.text}"]))
    assert [line.split(":")[0] for line in differences(file)] == [
        "changed is served as it runs, and the file says something else now",
        "new is not served",
    ]
    assert list(differences(tmp_path / "p.state")) == []
