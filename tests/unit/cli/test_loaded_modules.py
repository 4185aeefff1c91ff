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
OWN = ("mayfly.kernels", "mayfly.physical.compiler", "mayfly.archive", "mayfly.windows")
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
FORMS = """CREATE QUERY best AS SELECT amount FROM orders [RANGE 1 MIN] ORDER BY amount LIMIT 5;
CREATE QUERY never_paid AS SELECT customer FROM orders [RANGE 1 MIN]
  WHERE customer NOT IN (SELECT customer FROM payments [RANGE 1 MIN]);
CREATE QUERY least AS SELECT o.amount FROM orders [RANGE 1 MIN] o WHERE NOT EXISTS
  (SELECT * FROM payments [RANGE 1 MIN] p WHERE p.paid < o.amount);
CREATE QUERY all_time AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;
CREATE QUERY by_rows AS SELECT amount FROM orders [RANGE 1 MIN SLIDE 5 ROWS];
CREATE QUERY before AS SELECT amount, LAG(amount) OVER (PARTITION BY customer ORDER BY ts) AS last
  FROM orders [RANGE 1 MIN];
CREATE QUERY minutes AS SELECT customer, window_end, MAX(amount) AS most
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL 1 MINUTE))
  GROUP BY customer, window_start, window_end;
CREATE QUERY visits AS SELECT customer, window_end, COUNT(*) AS n
  FROM TABLE(SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(ts), INTERVAL 1 MINUTE))
  GROUP BY customer, window_start, window_end;
CREATE QUERY matched AS SELECT o.amount, p.paid FROM orders [RANGE 1 MIN] o
  LEFT JOIN payments [RANGE 1 MIN] p ON o.customer = p.customer;
CREATE QUERY pairs AS SELECT o.customer, SUM(p.paid) AS paid
  FROM orders [RANGE 5 MIN SLIDE 1 MIN] o, payments [RANGE 5 MIN SLIDE 1 MIN] p
  WHERE o.customer = p.customer GROUP BY o.customer;
CREATE QUERY of_pairs AS SELECT MAX(p.paid) AS most
  FROM orders [RANGE 5 MIN SLIDE 1 MIN] o, payments [RANGE 5 MIN SLIDE 1 MIN] p
  WHERE o.customer = p.customer;
CREATE QUERY closest AS SELECT o.amount, p.paid FROM orders o
  ASOF JOIN payments p ON o.customer = p.customer AND p.ts <= o.ts;"""

SERVED = """CREATE QUERY busy SERVE AS SELECT customer, SUM(amount) AS total, COUNT(*) AS n
  FROM orders [RANGE 10 MIN SLIDE 2 MIN] GROUP BY customer;
CREATE QUERY many SERVE SCAN INCREMENTAL SYNOPSIS AS SELECT customer, SUM(amount) AS total
  FROM orders [RANGE 6 MIN SLIDE 2 MIN] GROUP BY customer;
CREATE QUERY articles SERVE PRIORITY 2 AS SELECT COUNT(DISTINCT article) AS articles
  FROM orders [RANGE 6 MIN SLIDE 1 MIN] WHERE amount > 2;"""
NAMED = ["an archive", "warnings", "forms", "served"]


@pytest.mark.parametrize("more", [ARCHIVE, WARNED, FORMS, SERVED], ids=NAMED)
def test_so_are_archives_warnings_and_all_forms(pipeline: str, more: str) -> None:
    with Path(pipeline).open("a") as file:
        file.write(more)
    assert loaded((*SLOW, *OWN, "mayfly.storage"), COMMAND, "check", pipeline) == []


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
    "SELECT t.user, p.town, AVG(r.n / 3e0) AS a, STDDEV(r.n) AS d FROM totals t JOIN people p "
    "ON t.user = p.user JOIN recent r ON r.user = t.user GROUP BY t.user, p.town",
    "SELECT user, n, s FROM (SELECT user, n, SUM(n) OVER (PARTITION BY user ORDER BY n) AS s, "
    "RANK() OVER (PARTITION BY user ORDER BY n) AS k FROM recent) x WHERE k <= 2",
)


@pytest.mark.parametrize("sql", ANSWERED)
def test_a_first_answer_takes_neither_numba_nor_pandas(tmp_path: Path, sql: str) -> None:
    """Either takes longer to load than the rest of the command."""
    fed(tmp_path / "ck", 30)
    names = ("numba", "pandas", "rich", "mayfly.physical.explain", "pyarrow.parquet")
    assert loaded(names, WHOLE, "query", str(tmp_path / "ck"), sql) == []


OPERATORS = (
    "group_by", "window_join", "anti_join", "distinct", "pane_groups", "over_rows", "asof_rows",
    "session_groups", "multiway", "frequent_groups", "top_rows", "nrr", "difference",
    "distinct_values", "ordered_values", "exact_covariances", "frequent_items", "aging_groups",
)  # fmt: skip
"""Modules of ``mayfly.kernels`` that some queries need."""
NEEDED = {
    "SELECT page, COUNT(*) AS n, AVG(n) AS a, MAX(n) AS m FROM recent GROUP BY page ORDER BY n":
        ["group_by"],
    "SELECT t.user, p.town FROM totals t JOIN people p ON t.user = p.user": ["window_join"],
    "SELECT page, SUM(DISTINCT n) AS s FROM recent GROUP BY page":
        ["group_by", "distinct_values"],
    "SELECT user, clicks FROM totals ORDER BY clicks, user LIMIT 2": [],
}  # fmt: skip


@pytest.mark.parametrize(("sql", "needed"), NEEDED.items())
def test_a_query_loads_the_operators_that_it_has(
    tmp_path: Path, sql: str, needed: list[str]
) -> None:
    fed(tmp_path / "ck", 30)
    names = tuple(f"mayfly.kernels.{name}" for name in OPERATORS)
    wanted = {f"mayfly.kernels.{name}" for name in needed}
    assert set(loaded(names, WHOLE, "query", str(tmp_path / "ck"), sql)) == wanted


SHELL = (
    """
import io, sys
sys.stdin = io.StringIO("SELECT page, COUNT(*) AS n FROM recent GROUP BY page;")
"""
    + WHOLE
)


def test_so_does_a_first_statement_in_the_shell(tmp_path: Path) -> None:
    fed(tmp_path / "ck", 30)
    names = ("numba", "pandas", "prompt_toolkit", "pygments", "mayfly.physical.explain.explainer",
             "mayfly.kernels.pane_groups", "mayfly.kernels.over_rows", "mayfly.spark")  # fmt: skip
    assert loaded(names, SHELL, "sql", str(tmp_path / "ck")) == []


def test_a_lookup_takes_no_operators(tmp_path: Path) -> None:
    fed(tmp_path / "ck", 30)
    names = ("mayfly.physical.compiler", "mayfly.kernels.group_by", "mayfly.optimizer")
    assert loaded(names, WHOLE, "query", str(tmp_path / "ck"), ANSWERED[0]) == []


def test_the_package_loads_next_to_nothing() -> None:
    names = (*SLOW, "sqlglot", "typer")
    assert loaded(names, "import mayfly; dir(mayfly), mayfly.errors, mayfly.lifetime") == []
