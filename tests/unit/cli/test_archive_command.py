"""``mayfly archive`` on archives that exist: nothing here starts Spark."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.cli import main
from mayfly.cli.archive_files import columns_in, format_of
from mayfly.cli.output import cell
from mayfly.display import plain
from mayfly.errors import InvalidSetting
from mayfly.lifetime import instant_text

DAY = 86_400_000_000
FIRST = 20_512 * DAY  # 2026-02-28
COMMANDS = (
    "create", "update", "probe", "scan", "status", "history", "verify", "vacuum", "plan", "advise",
)  # fmt: skip


def run(*arguments: str) -> int:
    """The exit code of ``mayfly archive`` with these arguments."""
    with pytest.raises(SystemExit) as ended:
        main(["archive", *arguments])
    assert not isinstance(ended.value.code, str)
    return ended.value.code or 0


def rows(day: int, count: int) -> pa.Table:
    times = [FIRST + (day - 1) * DAY + 1 + at * 1_000_000 for at in range(count)]
    return pa.table(
        {
            "customer": pa.array([f"c-{at % 5}" for at in range(count)], pa.string()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal(at * 10 + day) / 100 for at in range(count)],
                              pa.decimal128(10, 2)),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """WATA over 4 updates in 2 constituents, after update 6: I1 {3} and {1,2} dead, I2 {4,5,6}."""
    path = tmp_path_factory.mktemp("archives") / "sales"
    archive = mayfly.archive.create(
        path, rows(1, 0).schema, key="customer", window=4, constituents=2, parts=2
    )
    for day in range(1, 7):
        archive.update(rows(day, 10 * day))
    return path


def test_status_names_days_rows_bytes_and_dead_rows(
    sales: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("status", str(sales)) == 0
    told = capsys.readouterr().out
    lines = told.splitlines()
    assert lines[0] == str(sales)
    assert lines[1] == "WATA over 4 updates (soft window), packed shadow, every 1 d"
    assert "update 6 at 2026-03-06 00:00:00 · next at 2026-03-07 00:00:00" in lines[3]
    (first,) = [line for line in lines if line.startswith("I1")]
    assert first.split()[:5] == ["I1", "{3}", "{1,2}†", "60", "30"]
    assert "180 rows alive, 30 dead but stored" in told
    assert "the model expected" in told


def test_a_scheme_is_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a"
    archive = mayfly.archive.create(path, rows(1, 0).schema, key="customer", window=4)
    for day in range(1, 7):
        archive.update(rows(day, 3))
    options = ("--scheme", "DEL", "--constituents", "3", "--technique", "in-place")
    assert run("migrate", str(path), *options) == 0
    assert "is now DEL in 3 constituents, in-place, 12 rows alive" in capsys.readouterr().out
    assert run("migrate", str(path), "--layout", "Rebuild2x2") == 2
    assert "give max_lifetime, and exp or lifetime" in capsys.readouterr().err
    assert run("migrate", str(path), "--window", "3 days") == 0
    said = capsys.readouterr().out
    assert "DEL in 3 constituents, in-place, 9 rows alive; 3 rows ended by it" in said
    assert run("migrate", str(path), "--scheme", "WATA", "--side-by-side") == 0
    assert "9 rows alive; 3 former indexes run empty" in capsys.readouterr().out
    assert run("migrate", str(path), "--max-gap", "7 days") == 0
    assert "is now WATA in 3 constituents, in-place, 9 rows alive" in capsys.readouterr().out
    assert mayfly.archive.open(path).settings.max_gap == 7 * 86_400_000_000
    assert run("migrate", str(path), "--max-lifetime", "9 days", "--lifetime", "2 days") == 0
    assert "is now round-robin NoRebuild 1x3, 6 rows alive" in capsys.readouterr().out


def test_status_in_json(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("status", str(sales), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["rows"] for one in told["constituents"]] == [60, 150]
    assert [one["expired"] for one in told["constituents"]] == [[1, 2], []]
    assert told["rows"] == 180
    assert told["expected_seconds"] > 0


def test_a_probe_prints_a_table_and_says_how_much_it_left_out(
    sales: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("probe", str(sales), "c-3", "--limit", "2", "--report") == 0
    told = capsys.readouterr()
    header, *lines = told.out.splitlines()
    assert header.split() == ["customer", "ts", "price"]
    assert len(lines) == 2
    assert all(line.startswith("c-3 ") for line in lines)
    assert "2 rows shown; --limit 0 for all" in told.err
    assert "2 constituents" in told.err


def test_a_probe_in_json_lines_and_in_csv(sales: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = mayfly.archive.open(sales).probe("c-3")
    assert run("probe", str(sales), "c-3", "--json") == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["price"] for one in told] == [str(p) for p in expected["price"].to_pylist()]
    assert run("probe", str(sales), "c-3", "--csv", "--columns", "price,customer") == 0
    table = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert table[0] == ["price", "customer"]
    assert [row[0] for row in table[1:]] == [one["price"] for one in told]
    assert run("scan", str(sales), "--json", "--columns", "price", "--limit", "1") == 0
    assert list(json.loads(capsys.readouterr().out)) == ["price"]


def test_ranges_instants_and_stretches_of_time(
    sales: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(*arguments: str) -> int:
        assert run(*arguments, "--json") == 0
        return len(capsys.readouterr().out.splitlines())

    archive = mayfly.archive.open(sales)
    path = str(sales)
    assert found("probe", path, "--from", "c-1", "--to", "c-2") == 72
    assert found("probe", path, "--to", "c-0") == archive.probe("c-0").num_rows
    assert found("scan", path) == 180
    assert found("scan", path, "--limit", "7") == 7
    assert found("scan", path, "--soft") == 210
    assert found("scan", path, "--as-of", "2026-03-05") == 140
    assert found("scan", path, "--between", "2026-03-04T00:00:00.000001", "-") == 110
    assert found("scan", path, "--between", "-", "2026-03-03") == 30
    assert found("probe", path, "c-1", "--as-of", str(FIRST + 5 * DAY)) == 28


def test_keys_of_several_columns_are_json_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "a")
    archive = mayfly.archive.create(
        path, "k STRING, day DATE, ts TIMESTAMP", key=("k", "day"), window=3, origin=0
    )
    archive.update(
        pa.table(
            {
                "k": ["a", "a"],
                "day": [date(2026, 1, 1), date(2026, 1, 2)],
                "ts": pa.array([5, 6], pa.timestamp("us", "UTC")),
            }
        )
    )
    assert run("probe", path, '["a", "2026-01-02"]', "--json") == 0
    assert json.loads(capsys.readouterr().out)["day"] == "2026-01-02"
    for key in ("a", '["a"]', '{"k": 1}'):
        assert run("probe", path, key) == 2
        assert "is not a JSON list of 2 values" in capsys.readouterr().err
    assert run("probe", path, '["a", "soon"]') == 2
    assert "'soon' is not a DATE" in capsys.readouterr().err


def test_history_sets_prediction_against_measurement(
    sales: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("history", str(sales)) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[-3:] == ["took", "expected", "off"]
    assert [line.split()[0] for line in lines[:6]] == list("123456")
    assert lines[-1].endswith("6 (update 5), 7 (update 6)")
    assert run("history", str(sales), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["update"] for one in told["updates"]] == list(range(1, 7))
    assert told["updates"][0]["expected_seconds"] is None
    assert [one["update"] for one in told["versions"]] == [5, 6]


def test_a_plan_of_an_archive_and_of_a_scheme(
    sales: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plan", str(sales), "--updates", "2") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "WATA, window of 4 days, 2 constituents"
    assert [line.split()[0] for line in told[2:] if line[2] != " "] == ["7", "8"]
    assert run("plan", "--scheme", "RATA", "--window", "10", "--constituents", "4") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[2].split()[0] == "10"
    assert "T11{2,3} T12{3}" in told[2]
    assert run("plan") == 2
    assert "give ARCHIVE or --scheme" in capsys.readouterr().err


def test_advice_for_an_archive_and_for_a_case(
    sales: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("advise", str(sales), "--probes", "10", "--soft") == 0
    told = capsys.readouterr().out
    assert told.startswith("For sales with a window of 4 days take ")
    assert "now: WATA packed" in told
    assert run("advise", str(sales), "--json") == 0
    values = json.loads(capsys.readouterr().out)
    assert values["now"]["scheme"] == "WATA"
    assert "WATA" not in {one["scheme"] for one in values["candidates"]}
    assert run("advise", "--case", "TPC-D", "--window", "100") == 0
    assert "take DEL with 3 constituents (packed shadow): 72,527 s" in capsys.readouterr().out
    assert run("advise", "--case", "nothing") == 2
    assert "there is no case nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("case", "window", "study", "figures"),
    [
        ("scam", 7, ["REINDEX n=4"], [2, 3, 4]),
        ("WSE", 35, ["DEL n=1"], [5]),
        ("tpcd", 100, ["DEL n=1", "WATA n=10", "RATA n=10"], [6, 7]),
    ],
)
def test_a_published_case_is_compared_with_the_study(
    case: str, window: int, study: list[str], figures: list[int],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert run("advise", "--case", case) == 0
    told = capsys.readouterr().out
    assert f"with a window of {window} days take " in told
    assert [number for number in range(2, 10) if f"Figure {number} of the study" in told] == figures
    advice = told[told.index("the study's advice") :]
    assert [layout for layout in study if layout in advice] == study
    assert run("advise", "--case", case, "--json") == 0
    values = json.loads(capsys.readouterr().out)
    assert [f"{one['scheme']} n={one['constituents']}" for one in values["study"]] == study
    for one, drawn in zip(values["study"], values["figures"][-len(study) :], strict=False):
        assert one["model_work_seconds"] <= 1.051 * one["work_seconds"]
        assert set(drawn["curves"]) == {"DEL", "REINDEX", "REINDEX+", "REINDEX++", "WATA", "RATA"}


def test_the_figures_of_a_case_are_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("advise", "--case", "SCAM", "--json") == 0
    work = json.loads(capsys.readouterr().out)["figures"][-1]["curves"]
    assert round(work["REINDEX"]["4"]) == 8842
    assert round(work["REINDEX"]["3"]) == 8438
    assert round(work["WATA"]["2"]) == 6464
    assert "1" not in work["RATA"]


def test_rows_of_a_window_are_taken_back_and_smaller_windows_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sales"
    archive = mayfly.archive.create(path, rows(1, 0).schema, key="customer", window=4)
    for day in range(1, 7):
        archive.update(rows(day, 10))
    assert run("invalidate", str(path), "c-1") == 0
    assert "8 rows no longer returned" in capsys.readouterr().out
    assert run("scan", str(path), "--window", "2 days", "--json", "--columns", "customer") == 0
    shown = [json.loads(line)["customer"] for line in capsys.readouterr().out.splitlines()]
    assert sorted(shown) == sorted(["c-0", "c-2", "c-3", "c-4"] * 4)
    assert run("probe", str(path), "c-2", "--window", "1", "--json") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert run("probe", str(path), "c-2", "--window", "9 days") == 2
    assert "an archive of the last 4" in capsys.readouterr().err


def test_a_spread_scheme_is_created_and_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "spread")
    shape = ["--scheme", "REINDEX++", "--constituents", "2", "--spread", "--window", "10"]
    columns = ["--columns", "k STRING, ts TIMESTAMP", "--key", "k", "--origin", "2026-03-01"]
    assert run("create", path, *columns, *shape) == 0
    capsys.readouterr()
    assert run("plan", path, "--updates", "12") == 0
    stored = capsys.readouterr().out
    assert stored.startswith("REINDEX++, window of 10 days, 2 constituents, spread")
    assert "N1{10} T0{11} T1{5,11,12} T2{4,5,11,12}" in stored
    assert run("plan", *shape) == 0
    assert "N1{10} T0{11} T1{5,11,12} T2{4,5,11,12}" in capsys.readouterr().out


def test_verify_ends_with_1_where_files_are_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = mayfly.archive.create(tmp_path / "a", rows(1, 0).schema, key="customer", window=4)
    archive.update(rows(1, 10))
    assert run("verify", str(tmp_path / "a")) == 0
    assert "10 rows readable, 0 problems" in capsys.readouterr().out
    (file,) = (tmp_path / "a" / "data").iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert run("verify", str(tmp_path / "a")) == 1
    assert f"data/{file.name}" in capsys.readouterr().out
    assert run("verify", str(tmp_path / "a"), "--json") == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_vacuum_tells_what_it_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = mayfly.archive.create(tmp_path / "a", rows(1, 0).schema, key="customer", window=4)
    for day in (1, 2, 3):
        archive.update(rows(day, 10))
    arguments = ("vacuum", str(tmp_path / "a"), "--keep-versions", "1", "--grace", "0 s", "--json")
    assert run(*arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["versions_removed"] == 1
    assert told["files_removed"] > 0
    assert run("vacuum", str(tmp_path / "a"), "--grace", "long") == 2
    assert "cannot read the duration 'long'" in capsys.readouterr().err


def test_an_archive_is_created_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "log")
    columns = "host STRING, at TIMESTAMP, message STRING"
    assert (
        run("create", path, "--columns", columns, "--key", "host", "--window", "48",
            "--time", "at", "--refresh", "1 hour", "--scheme", "rata", "--parts", "3")
        == 0
    )  # fmt: skip
    told = capsys.readouterr().out
    assert f"created {path}: RATA over 48 updates in 7 constituents, packed shadow" in told
    settings = mayfly.archive.open(path).settings
    assert (settings.time, settings.parts, str(settings.calendar)) == ("at", 3, "every 1 h")
    assert run("update", path, "--empty", "--at", "2026-03-01T00:30") == 0
    assert capsys.readouterr().out.startswith("update 1: 0 rows in, 0 out")
    assert run("create", path, "--columns", columns, "--key", "host", "--window", "48",
               "--time", "at") == 2  # fmt: skip
    assert "already holds a Mayfly directory" in capsys.readouterr().err


def test_an_update_that_was_done_is_not_done_again(
    sales: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("update", str(sales), "--empty", "--update", "2") == 0
    told = capsys.readouterr().out
    assert told == "update 2: this batch was committed before, nothing to do\n"


def test_auto_explains_its_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["create", str(tmp_path / "a"), "--columns", "k STRING, ts TIMESTAMP"]
    arguments += ["--key", "k", "--window", "12", "--scheme", "auto"]
    assert run(*arguments) == 2
    assert "needs to know what to expect" in capsys.readouterr().err
    assert run(*arguments, "--megabytes", "100", "--probes", "50", "--soft") == 0
    told = capsys.readouterr().out
    assert told.startswith("For this machine with a window of 12 days take ")
    assert "created " in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["status", "nowhere"], "there is no Mayfly directory at"),
        (["probe", "SALES"], "keys or a range are needed"),
        (["probe", "SALES", "c-1", "--from", "c-2"], "keys or a range are needed"),
        (["probe", "SALES", "c-1", "--as-of", "yesterday"], "cannot read the instant 'yesterday'"),
        (["probe", "SALES", "c-1", "--as-of", "1999-01-01"], "no retained version"),
        (["probe", "SALES", "c-1", "--columns", "cost"], "no column 'cost'"),
        (["scan", "SALES", "--limit", "-1"], "--limit"),
        (["create", "NEW", "--key", "k"], "a key and a window are needed"),
        (["create", "NEW", "--key", "k", "--window", "3"], "columns are needed"),
        (["create", "NEW", "--columns", "k INT", "--key", "k", "--window", "3"], "no column 'ts'"),
        (["create", "NEW", "gone.csv", "--key", "k", "--window", "3"], "there is no file gone.csv"),
        (["update", "SALES"], "files are needed"),
        (["update", "SALES", "gone.parquet"], "there is no file gone.parquet"),
        (
            ["update", "SALES", "--empty", "--update", "9", "--at", "2026-03-09"],
            "both update and at",
        ),
        (["nonsense"], "nonsense"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_message(
    sales: Path,
    tmp_path: Path,
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    places = {"SALES": str(sales), "NEW": str(tmp_path / "new")}
    assert run(*(places.get(one, one) for one in arguments)) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "--help") == 0
    assert f"mayfly archive {command}" in capsys.readouterr().out.split("Options")[-1]


def test_reading_commands_load_no_spark(sales: Path) -> None:
    program = """
import sys
from mayfly.cli import main
try:
    main(["archive", "probe", sys.argv[1], "c-1"])
except SystemExit:
    pass
print("pyspark" in sys.modules)
"""
    found = subprocess.run(
        [sys.executable, "-c", program, str(sales)], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines()[-1] == "False"


def test_formats_are_told_by_names_or_by_the_option(tmp_path: Path) -> None:
    def files(*names: str) -> list[Path]:
        for name in names:
            (tmp_path / name).touch()
        return [tmp_path / name for name in names]

    assert format_of(files("a.parquet", "b.parquet"), None) == "parquet"
    assert format_of(files("a.csv.gz"), None) == "csv"
    assert format_of(files("a.jsonl", "b.json"), None) == "json"
    assert format_of([tmp_path], "csv") == "csv"
    for odd in (files("a.csv", "a.json"), files("a.txt"), [tmp_path]):
        with pytest.raises(InvalidSetting, match="do not show one format"):
            format_of(odd, None)
    with pytest.raises(InvalidSetting, match="cannot read orc files"):
        format_of(files("a.csv"), "orc")
    with pytest.raises(InvalidSetting, match="do not say what types"):
        columns_in(files("a.csv"), "csv")
    with pytest.raises(InvalidSetting, match="is not a Parquet file"):
        columns_in(files("a.parquet"), "parquet")


@pytest.mark.parametrize(
    ("value", "in_json", "in_table"),
    [
        (None, None, "NULL"),
        (Decimal("1.50"), "1.50", "1.50"),
        (date(2026, 1, 2), "2026-01-02", "2026-01-02"),
        (datetime(2026, 1, 2, 3), "2026-01-02T03:00:00", "2026-01-02 03:00:00"),
        (timedelta(seconds=1), "1000000 µs", "1000000 µs"),
        (b"\x01\xff", "01ff", "01ff"),
        (float("nan"), "NaN", "NaN"),
        ([1, b"\x00"], [1, "00"], '[1, "00"]'),
        ({"x": Decimal(1)}, {"x": "1"}, '{"x": "1"}'),
    ],
)
def test_every_value_has_a_form(value: Any, in_json: Any, in_table: str) -> None:
    assert plain(value) == in_json
    assert cell(value) == in_table


def test_instants_outside_the_calendar_have_a_form() -> None:
    assert instant_text(2**62) == f"{2**62} µs"


def test_rollback_makes_a_kept_version_the_current_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", rows(1, 0).schema, key="customer", window=4, constituents=2
    )
    for day in (1, 2, 3):
        archive.update(rows(day, 10 * day))
    before = archive.repository.versions()
    target = before[-2]
    assert run("rollback", str(tmp_path / "a"), str(target)) == 0
    told = capsys.readouterr().out
    assert told == f"version {before[-1] + 1} is version {target} again: update 2, 30 rows stored\n"
    assert archive.scan().num_rows == 30
    assert run("rollback", str(tmp_path / "a"), str(before[-1]), "--json") == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["rolled_back_to"], done["update"]) == (before[-1], 3)
    assert run("rollback", str(tmp_path / "a"), "977") == 2
    assert "version 977" in capsys.readouterr().err
    assert run("rollback", str(tmp_path / "none"), "1") == 2
    assert run("rollback", str(tmp_path / "a"), "one") == 2
    capsys.readouterr()
    assert run("rollback", "--help") == 0
    assert "history" in capsys.readouterr().out
