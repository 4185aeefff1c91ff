"""``mayfly archive`` advice on rows with their own lifetimes: nothing here starts Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.cli import main


def run(*arguments: str) -> int:
    """The exit code of ``mayfly archive`` with these arguments."""
    with pytest.raises(SystemExit) as ended:
        main(["archive", *arguments])
    assert not isinstance(ended.value.code, str)
    return ended.value.code or 0


@pytest.fixture(scope="module")
def quotes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("archives") / "quotes"
    archive = mayfly.archive.create(
        path, "k BIGINT, ts BIGINT, exp BIGINT", key="k", max_lifetime="8 us",
        refresh="1 us", origin=0, layout="Rebuild 2x2",
    )  # fmt: skip
    for update in range(1, 11):
        exp = [update + lived for lived in range(1, 9)]
        archive.update(pa.table({"k": list(range(8)), "ts": [update] * 8, "exp": exp}))
    return path


def test_candidates_the_papers_and_what_it_is_now_are_shown(
    quotes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("advise", str(quotes), "--probes", "100", "--scans", "1") == 0
    told = capsys.readouterr().out
    assert told.startswith("With ")
    assert "papers: " in told
    assert "now: Rebuild 2x2" in told
    assert run("advise", str(quotes), "--json", "--probes", "100") == 0
    values = json.loads(capsys.readouterr().out)
    assert values["now"]["layout"] == "Rebuild 2x2"
    assert values["now"]["files_written"] == 3
    assert values["rule_of_thumb"]["for"].startswith("small data and ")
    assert values["measured_seconds"] > 0
    works = [one["work_seconds"] for one in values["candidates"]]
    assert works == sorted(works)


def test_history_sets_prediction_against_measurement(
    quotes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("history", str(quotes), "--json") == 0
    updates = json.loads(capsys.readouterr().out)["updates"]
    assert updates[0]["expected_seconds"] is None
    assert all(one["expected_seconds"] > 0 and one["took_seconds"] > 0 for one in updates[1:])
    assert run("history", str(quotes)) == 0
    assert "expected" in capsys.readouterr().out


def test_auto_explains_its_choice_and_is_kept_in_mind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "a")
    arguments = ["create", path, "--columns", "k STRING, ts TIMESTAMP, exp TIMESTAMP"]
    arguments += ["--key", "k", "--max-lifetime", "12 days", "--layout", "auto"]
    assert run(*arguments) == 2
    assert "needs to know what to expect" in capsys.readouterr().err
    assert run(*arguments, "--megabytes", "100", "--probes", "50") == 0
    told = capsys.readouterr().out
    assert told.startswith("With 100 MB an update and 650 MB alive take ")
    kept = mayfly.archive.open(path).version().manifest.properties["auto"]
    assert kept == {"megabytes": 100.0, "probes": 50.0, "scans": 0.0, "measured": False}
