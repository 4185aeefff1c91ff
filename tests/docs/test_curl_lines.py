"""The calls with curl that docs/serving.md shows give answers."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.property.shared_runs import HereRunner
from tests.unit.serving.http.running_servers import RunningServer, serving
from tests.unit.serving.stored_pipelines import clicks, pipeline, table_of

TEXT = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
LINES = re.findall(r"^curl .*$", TEXT, re.M)
QUERIES = {
    "last": "SELECT user AS host, n AS bytes FROM clicks [RANGE 10 s]",
    "busy": "SELECT user AS host, SUM(n) AS bytes FROM clicks [RANGE 30 s] GROUP BY user",
}
NINE = 1_772_355_600
"""The hour that the page speaks of, in seconds."""


def fed(folder: Path) -> HereRunner:
    runner = pipeline(folder, QUERIES)
    rows = clicks(0, 60)
    for row in rows:
        row["ts"] += NINE * 1_000_000
    runner.feed({"clicks": table_of(rows)}, {})
    return runner


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("pipeline") / "p.state"
    fed(folder)
    with serving(folder) as running:
        yield running


@pytest.mark.parametrize("line", LINES)
def test_the_call(server: RunningServer, line: str, tmp_path: Path) -> None:
    words = shlex.split(line.replace("http://127.0.0.1:8321", server.url), comments=True)
    follows = "-N" in words
    more = ["--silent", "--show-error", *(["--max-time", "2"] if follows else ["--fail"])]
    done = subprocess.run([*words, *more], cwd=tmp_path, capture_output=True, text=True)
    # A stream of events has no end: curl says that its time is over.
    assert done.returncode == (28 if follows else 0), done.stderr
    if "-o" in words:
        rows = pa.ipc.open_stream((tmp_path / "last.arrow").read_bytes()).read_all()
        assert rows.column_names == ["host", "bytes"]
    else:
        assert ("event: changes" if follows else '"as_of"') in done.stdout


def test_there_are_calls() -> None:
    assert len(LINES) >= 5
