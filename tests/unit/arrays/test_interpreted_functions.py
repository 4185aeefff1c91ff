"""Functions that are run as they are written compute what their machine code does."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import mayfly
from mayfly.arrays import compilation
from mayfly.arrays.compilation import Compiled
from mayfly.display import plain
from tests.unit.serving.stored_pipelines import fed

QUERIES = (
    "SELECT page, COUNT(*) AS n, SUM(n) AS s, AVG(n) AS a, MIN(n) AS low, MAX(n - 5) AS high "
    "FROM recent GROUP BY page ORDER BY page",
    "SELECT user, COUNT(DISTINCT page) AS d, MEDIAN(n) AS m, MAX(page) AS p FROM recent "
    "GROUP BY user ORDER BY user",
    "SELECT DISTINCT page, n FROM recent ORDER BY page, n",
    "SELECT r.user, r.page, t.n FROM recent r JOIN totals t ON r.user = t.user ORDER BY 1, 2, 3",
    "SELECT a.n, b.n AS m FROM recent a, recent b WHERE a.page = b.page AND a.n < b.n "
    "ORDER BY 1, 2",
    "SELECT user FROM totals WHERE NOT EXISTS "
    "(SELECT 1 FROM people p WHERE p.user = totals.user) ORDER BY user",
    "SELECT user FROM recent EXCEPT ALL SELECT user FROM totals ORDER BY user",
    "SELECT page FROM recent UNION ALL SELECT town FROM people ORDER BY 1",
    "SELECT AVG(n - 9223372036854775000) AS deep FROM recent WHERE n > 3",
    "SELECT SUM(CAST(n AS DOUBLE) / 7) AS s, STDDEV(n) AS d FROM recent",
    "SELECT n, COUNT(*) AS c FROM recent GROUP BY n ORDER BY c DESC, n LIMIT 3",
    "SELECT t.user, p.town, r.n FROM totals t JOIN people p ON t.user = p.user "
    "JOIN recent r ON r.user = t.user ORDER BY 1, 2, 3",
    "SELECT a.n, b.n AS m, c.n AS l FROM recent a, recent b, recent c "
    "WHERE a.page = b.page AND b.page = c.page AND a.n < c.n ORDER BY 1, 2, 3",
    "SELECT page, n, ROW_NUMBER() OVER (PARTITION BY page ORDER BY n) AS k, LAG(n) OVER "
    "(PARTITION BY page ORDER BY n) AS l FROM recent ORDER BY page, k",
    "SELECT page, n, SUM(n) OVER (PARTITION BY page ORDER BY n RANGE BETWEEN 3 PRECEDING "
    "AND 1 FOLLOWING) AS s FROM recent ORDER BY page, n, s",
    "SELECT page, n, AVG(CAST(n AS DOUBLE)) OVER (ORDER BY n ROWS BETWEEN 2 PRECEDING "
    "AND CURRENT ROW) AS s FROM recent ORDER BY page, n, s",
    "SELECT user, n FROM (SELECT user, n, DENSE_RANK() OVER (PARTITION BY user ORDER BY n DESC) "
    "AS k FROM recent) x WHERE k <= 2 ORDER BY user, n",
    *(
        f"SELECT page, SUM({value}) AS s, AVG({value}) AS a, STDDEV({value}) AS d, "
        f"VAR_POP({value}) AS v FROM recent GROUP BY page ORDER BY page"
        for value in (
            "CAST(n AS DOUBLE) / 7", "(n - 5) / 3e0", "n * 1e-310", "(n - 5) * 3e307",
            "(n - 5) * 1e308 * 10", "n * 1e300 + 1e-300",
        )
    ),
)  # fmt: skip
PROGRAM = """
import json, sys
import mayfly
from mayfly.arrays.compilation import interpret_first
from mayfly.display import plain
interpret_first(10**9)
reader = mayfly.open(sys.argv[1])
for sql in json.load(sys.stdin):
    print(json.dumps(plain(reader.query(sql).rows.to_pylist())))
"""


def test_answers_are_those_of_machine_code(tmp_path: Path) -> None:
    fed(tmp_path, 30)
    reader = mayfly.open(tmp_path)
    expected = [json.dumps(plain(reader.query(sql).rows.to_pylist())) for sql in QUERIES]
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path)],
        input=json.dumps(QUERIES), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.splitlines() == expected


def stand_ins() -> list[Compiled[..., object]]:
    """Of functions that were not called yet, in a process of their own."""
    for module in pkgutil.walk_packages(mayfly.__path__, "mayfly."):
        if module.name.startswith(("mayfly.kernels", "mayfly.arrays", "mayfly.windows")):
            importlib.import_module(module.name)
    return [function for function in compilation._pending if function.plain]


def test_plain_functions_call_plain_ones() -> None:
    """What is called from one that is interpreted is interpreted, too."""
    listing = """
from tests.unit.arrays import test_interpreted_functions as here
from mayfly.arrays.compilation import Compiled
plain = here.stand_ins()
called = [
    (function.__name__, name)
    for function in plain
    for name in function.function.__code__.co_names
    if isinstance(callee := function.function.__globals__.get(name), Compiled) and not callee.plain
]
print(len(plain), called)
"""
    run = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    count, called = run.stdout.split(maxsplit=1)
    assert (int(count) > 30, called.strip()) == (True, "[]")


def test_numba_is_loaded_when_there_are_many_elements() -> None:
    program = """
import sys
import numpy as np
from mayfly.arrays.compilation import interpret_first
from mayfly.arrays.order import stable_order
interpret_first(1000)
values = np.array([3, -1, 2, -(2**62), 2**62] * 20)
first = stable_order(values)
assert "numba" not in sys.modules
assert first.tolist() == np.argsort(values, kind="stable").tolist()
many = np.arange(2000)[::-1].copy()
assert stable_order(many).tolist() == many.tolist()
assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
