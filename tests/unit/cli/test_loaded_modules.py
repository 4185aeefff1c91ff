"""What short commands load: a plan is made, and a command written, without kernels or Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mayfly.cli.init_command import PIPELINE
from mayfly.cql import catalog_after, parse
from mayfly.pipeline.control_log import DECLARED
from mayfly.pipeline.declared_catalog import declarations
from mayfly.storage import Repository
from tests.unit.serving.stored_pipelines import fed

SLOW = ("numba", "pyspark", "pandas", "duckdb", "pyarrow", "numpy", "pydantic", "rich",
        "starlette", "uvicorn")  # fmt: skip
"""Packages that take longer to load than these commands may."""
OWN = ("mayfly.kernels", "mayfly.physical", "mayfly.archive", "mayfly.windows")
"""Likewise."""
STREAM = "CREATE STREAM s (ts TIMESTAMP, k INT) FROM json('in') TIMESTAMP BY ts"


def loaded(names: tuple[str, ...], program: str, *arguments: str) -> list[str]:
    """Which of the modules a program has loaded when it ends."""
    listing = f"import sys; print(*(name for name in {names!r} if name in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", f"{program}\n{listing}", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.splitlines()[-1].split()


COMMAND = """
import sys
from mayfly.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> str:
    for stream in ("orders", "payments"):
        (tmp_path / "in" / stream).mkdir(parents=True)
    (tmp_path / "pipeline.cql").write_text(PIPELINE)
    return str(tmp_path / "pipeline.cql")


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    declared = declarations(catalog_after(parse(STREAM)))
    properties = {"queries": {"q": {"streams": ["s"]}}, DECLARED: declared}
    Repository.create(tmp_path / "ck", properties, sync=False)
    return str(tmp_path / "ck")


def test_a_plain_file_is_checked_without_arrow_kernels_or_storage(pipeline: str) -> None:
    assert loaded((*SLOW, *OWN, "mayfly.storage"), COMMAND, "check", pipeline) == []


ARCHIVE = """CREATE ARCHIVE spent KEY customer REFRESH 1 MIN LAYOUT AUTO AS
  SELECT customer, amount FROM orders [RANGE 1 HOUR];"""
WARNED = """CREATE QUERY last AS SELECT amount FROM orders [ROWS 5];
CREATE QUERY sums AS SELECT SUM(amount) AS total FROM orders [RANGE 1 HOUR];
CREATE QUERY endless AS SELECT amount FROM orders;
CREATE QUERY pairs AS SELECT o.amount FROM orders [RANGE 1 MIN] o, payments [RANGE 1 MIN] p
  WHERE o.amount < p.paid;"""


@pytest.mark.parametrize("more", [ARCHIVE, WARNED], ids=["an archive", "warnings"])
def test_so_are_archives_and_usual_warnings(pipeline: str, more: str) -> None:
    with Path(pipeline).open("a") as file:
        file.write(more)
    assert loaded((*SLOW, *OWN, "mayfly.storage"), COMMAND, "check", pipeline) == []


def test_only_what_has_no_foreseen_warning_is_compiled(pipeline: str) -> None:
    with Path(pipeline).open("a") as file:
        file.write("CREATE QUERY best AS SELECT amount FROM orders [RANGE 1 MIN] "
                   "ORDER BY amount LIMIT 5;")  # fmt: skip
    names = ("numba", "pyspark", "mayfly.kernels.expression", *OWN)
    compiled = ["mayfly.kernels", "mayfly.physical", "mayfly.windows"]
    assert loaded(names, COMMAND, "check", pipeline) == compiled


@pytest.mark.parametrize("command", ["log", "stop"])
def test_the_control_log_needs_no_language(checkpoint: str, command: str) -> None:
    names = (*SLOW, *OWN, "sqlglot", "mayfly.cql", "mayfly.plan")
    assert loaded(names, COMMAND, "control", command, checkpoint) == []


def test_a_query_is_added_without_kernels_or_spark(checkpoint: str) -> None:
    query = "SELECT k FROM s [RANGE 1 s]"
    assert loaded((*SLOW, *OWN), COMMAND, "control", "add", checkpoint, "more", query) == []


def test_a_one_time_query_needs_no_spark(tmp_path: Path) -> None:
    fed(tmp_path / "ck", 10)
    names = (
        "pyspark",
        "py4j",
        "duckdb",
        "prompt_toolkit",
        "pygments",
        "mayfly.spark",
        "mayfly.archive",
    )
    sql = "SELECT user, clicks FROM totals WHERE user = 'ann'"
    assert loaded(names, COMMAND, "query", str(tmp_path / "ck"), sql) == []


WHOLE = """
import sys
from mayfly.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
"""A command as the process that a shell starts."""
ANSWERED = (
    "SELECT user, clicks FROM totals WHERE user = 'ann'",
    "SELECT page, COUNT(*) AS n, AVG(n) AS a, MAX(n) AS m, COUNT(DISTINCT user) AS u, "
    "MEDIAN(n) AS d FROM recent GROUP BY page ORDER BY n",
    "SELECT DISTINCT t.user, p.town FROM totals t JOIN people p ON t.user = p.user "
    "WHERE NOT EXISTS (SELECT 1 FROM recent r WHERE r.user = t.user AND r.n > 20)",
)


@pytest.mark.parametrize("sql", ANSWERED)
def test_a_first_answer_takes_neither_numba_nor_pandas(tmp_path: Path, sql: str) -> None:
    """Either takes longer to load than the rest of the command."""
    fed(tmp_path / "ck", 30)
    names = ("numba", "pandas", "rich", "mayfly.physical.explain", "pyarrow.parquet")
    assert loaded(names, WHOLE, "query", str(tmp_path / "ck"), sql) == []


def test_a_lookup_takes_no_operators(tmp_path: Path) -> None:
    fed(tmp_path / "ck", 30)
    names = ("mayfly.physical.compiler", "mayfly.kernels.group_by", "mayfly.optimizer")
    assert loaded(names, WHOLE, "query", str(tmp_path / "ck"), ANSWERED[0]) == []


def test_the_package_loads_next_to_nothing() -> None:
    names = (*SLOW, "sqlglot", "typer")
    assert loaded(names, "import mayfly; dir(mayfly), mayfly.errors, mayfly.lifetime") == []
