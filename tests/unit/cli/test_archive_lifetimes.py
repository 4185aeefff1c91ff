"""``mayfly archive`` on archives of rows with their own lifetimes, without Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive.write.staged_rows import Staging
from mayfly.cli import main
from mayfly.lifetime import instant_text

HOUR = 3_600_000_000
OPTIONS = (
    "--key", "k", "--max-lifetime", "6 hours", "--refresh", "1 hour",
    "--columns", "k STRING, ts TIMESTAMP, kind STRING",
)  # fmt: skip


def run(*arguments: str) -> int:
    """The exit code of ``mayfly archive`` with these arguments."""
    with pytest.raises(SystemExit) as ended:
        main(["archive", *arguments])
    assert not isinstance(ended.value.code, str)
    return ended.value.code or 0


def batch(update: int) -> pa.Table:
    stamp = pa.timestamp("us", "UTC")
    times = [(update - 1) * HOUR + 60_000_000 * at for at in range(1, 6)]
    kinds = ["gold" if at % 2 else "plain" for at in range(5)]
    return pa.table(
        {
            "k": pa.array([f"c{at}" for at in range(5)]),
            "ts": pa.array(times, stamp),
            "kind": pa.array(kinds),
        }
    )


def created(path: Path, *more: str) -> Path:
    assert run("create", str(path), *OPTIONS, "--origin", "1970-01-01T00:00:00Z", *more) == 0
    return path


GOLD = "CASE WHEN kind = 'gold' THEN INTERVAL 5 HOURS ELSE INTERVAL 2 HOURS END"


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    path = created(tmp_path / "sessions", "--lifetime", GOLD, "--layout", "Rebuild2x2")
    archive = mayfly.archive.open(path)
    for update in range(1, 5):
        archive.update(batch(update))
    return path


def test_lifetimes_by_expression(sessions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("scan", str(sessions), "--json") == 0
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert (kinds.count("gold"), kinds.count("plain")) == (8, 6)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--lifetime", "kind"), "use an INTERVAL DAY TO SECOND"),
        (("--lifetime", "INTERVAL 1 DAY +"), "line 1"),
        (("--lifetime", "upper(kind)"), "not a lifetime"),
        (("--exp", "until"), "no column 'until'"),
        (("--lifetime", "1 hour", "--layout", "spiral"), "no partitioned layout"),
        (("--lifetime", "1 hour", "--contract", "FIRM"), "cannot read the contract"),
        (("--lifetime", "1 hour", "--contract", "PHYSICAL WITHIN 1 min"), "cannot be gone within"),
    ],
)
def test_what_cannot_be_is_told_in_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: tuple[str, ...], said: str
) -> None:
    assert run("create", str(tmp_path / "a"), *OPTIONS, *wrong) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


COUNTED = (
    "--key", "k", "--max-lifetime", "6 hours", "--refresh", "1 hour",
    "--columns", "k STRING, ts TIMESTAMP, kind STRING, pos BIGINT",
    "--origin", "1970-01-01T00:00:00Z",
)  # fmt: skip


def test_windows_of_a_number_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "a")
    assert run("create", path, *COUNTED, "--counts", "pos=4") == 0
    archive = mayfly.archive.open(path)
    for update in (1, 2):
        positions = pa.array(range(5 * update - 4, 5 * update + 1), pa.int64())
        archive.update(batch(update).append_column("pos", positions))
    capsys.readouterr()

    def shown(*options: str) -> list[int]:
        assert run(*options, "--json") == 0
        return [json.loads(line)["pos"] for line in capsys.readouterr().out.splitlines()]

    assert sorted(shown("scan", path)) == [7, 8, 9, 10]
    assert sorted(shown("scan", path, "--window", "2 rows")) == [9, 10]
    assert shown("probe", path, "c4", "--window", "pos=1") == [10]
    assert shown("probe", path, "c3", "--window", "1") == []
    assert run("scan", path, "--window", "9") == 2
    assert "asked of the last 4 by pos" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--counts", "pos"), "is not a window"),
        (("--counts", "pos=many"), "is not a window"),
        (("--counts", "kind=4"), "not a column of positions"),
        (("--counts", "pos=4", "--contract", "PHYSICAL WITHIN 1 day"), "cannot promise"),
        (("--counts", "pos=4", "--max-lifetime", ""), "need --max-lifetime"),
    ],
)
def test_windows_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: tuple[str, ...], said: str
) -> None:
    window = ("--window", "3") if "--max-lifetime" in wrong else ()
    assert run("create", str(tmp_path / "a"), *COUNTED, *wrong, *window) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--window", "3"), "--window"),
        (("--scheme", "RATA"), "--scheme"),
        (("--technique", "in-place", "--constituents", "2"), "--constituents, --technique"),
        (("--soft",), "--soft"),
        (("--probes", "10"), 'layout="auto"'),
    ],
)
def test_options_of_windows_are_not_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: tuple[str, ...], said: str
) -> None:
    assert run("create", str(tmp_path / "a"), *OPTIONS, "--lifetime", "1 hour", *wrong) == 2
    told = capsys.readouterr().err
    assert said in told
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--contract", "PHYSICAL WITHIN 1 day"), "--contract"),
        (("--contract", "HARD"), "--contract"),
        (("--layout", "Rebuild 2x2"), "--layout"),
        (("--exp", "ts", "--lifetime", "1 day"), "--exp, --lifetime"),
        (("--megabytes", "3"), "--scheme auto"),
        (("--soft",), "--scheme auto"),
    ],
)
def test_options_of_lifetimes_are_not_ignored_with_a_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: tuple[str, ...], said: str
) -> None:
    options = ("--key", "k", "--window", "3", "--columns", "k STRING, ts TIMESTAMP")
    assert run("create", str(tmp_path / "a"), *options, *wrong) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (("plan", "--window", "4"), "--window"),
        (("plan", "--constituents", "2"), "--constituents"),
        (("advise", "--window", "4"), "--window"),
        (("advise", "--soft"), "--soft"),
    ],
)
def test_options_that_say_nothing_about_an_archive(
    sessions: Path, capsys: pytest.CaptureFixture[str], question: tuple[str, ...], said: str
) -> None:
    capsys.readouterr()
    assert run(question[0], str(sessions), *question[1:]) == 2
    assert said in capsys.readouterr().err


def test_a_published_case_has_its_own_queries(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("advise", "--case", "SCAM", "--probes", "5") == 2
    assert "--probes" in capsys.readouterr().err


def test_auto_says_which_option_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    auto = ("--lifetime", "1 hour", "--layout", "auto")
    assert run("create", str(tmp_path / "a"), *OPTIONS, *auto) == 2
    assert "--megabytes" in capsys.readouterr().err


def test_rows_are_taken_back(sessions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("invalidate", str(sessions), "c1", "c9") == 0
    assert "4 rows no longer returned, and go when" in capsys.readouterr().out
    assert run("invalidate", str(sessions), "c3", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"rows": 4, "runs": 2, "erased": False}
    assert mayfly.archive.open(sessions).probe("c1", "c3").num_rows == 0


@pytest.mark.parametrize("how", [(), ("--side-by-side",)])
def test_an_archive_is_changed(
    sessions: Path, capsys: pytest.CaptureFixture[str], how: tuple[str, ...]
) -> None:
    before = sorted(mayfly.archive.open(sessions).scan()["ts"].to_pylist())
    capsys.readouterr()
    options = ("--layout", "NoRebuild 2x3", "--max-lifetime", "9 hours")
    assert run("migrate", str(sessions), *options, *how) == 0
    said = capsys.readouterr().out
    assert "is now round-robin NoRebuild 2x3, 14 rows alive" in said
    assert ("run empty" in said) == bool(how)
    archive = mayfly.archive.open(sessions)
    assert sorted(archive.scan()["ts"].to_pylist()) == before
    assert archive.settings.family.longest == 9 * HOUR
    assert run("migrate", str(sessions), "--max-lifetime", "never") == 2
    assert "cannot read the duration" in capsys.readouterr().err


def test_an_update_says_what_is_hidden_and_what_is_gone(
    sessions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("migrate", str(sessions), "--contract", "SOFT(1) PHYSICAL WITHIN 2 hours") == 0
    capsys.readouterr()
    assert run("update", str(sessions), "--empty") == 0
    said = capsys.readouterr().out
    assert f"what expired by {instant_text(4 * HOUR)} is not returned, of what expired by" in said
    assert run("history", str(sessions), "--json") == 0
    last = json.loads(capsys.readouterr().out)["updates"][-1]
    assert last["hidden_until"] == 4 * HOUR
    assert 4 * HOUR - 1 <= last["erased_until"] <= 5 * HOUR


def test_status_says_when_rows_are_hidden_and_when_their_bytes_are_gone(
    sessions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("migrate", str(sessions), "--contract", "SOFT(1) PHYSICAL WITHIN 2 hours") == 0
    mayfly.archive.open(sessions).update(None, update=6)
    capsys.readouterr()
    assert run("status", str(sessions)) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"rows that expired by {instant_text(5 * HOUR)} are not returned" in shown
    assert "are gone" in shown
    assert "SOFT(1) PHYSICAL WITHIN 2 h" in shown
    assert run("status", str(sessions), "--json") == 0
    status = json.loads(capsys.readouterr().out)
    assert status["hidden_until"] == 5 * HOUR
    assert 5 * HOUR - 1 <= status["erased_until"] <= 6 * HOUR
    assert run("verify", str(sessions)) == 0
    left = Staging.at(sessions, "s").repository.directory
    left.replace("data/left.parquet", b"")
    os.utime(left.path("data/left.parquet"), (1, 1))
    assert run("status", str(sessions)) == 0
    assert "may be in files that were left behind" in " ".join(capsys.readouterr().out.split())
    assert run("verify", str(sessions)) == 1
    assert "staged/s/data/left.parquet" in capsys.readouterr().out
