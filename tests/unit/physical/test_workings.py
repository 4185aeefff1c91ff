"""EXPLAIN names the structure of each aggregate, and it is the one that runs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mayfly import LocalSession
from mayfly.kernels import frequent_items, holistic
from mayfly.kernels.moment_parts import MomentParts
from mayfly.windows.rank_counts import Ranked

EXTREMES = "two heaps, of what came and what went; counts by rank where groups are large"
STRUCTURES = {
    "COUNT(*)": ("a running total", "running"),
    "SUM(n)": ("a running total", "running"),
    "AVG(n)": ("a running total", "running"),
    "COUNT(DISTINCT x)": ("a count per distinct value", "distinct"),
    "COLLECT_SET(x)": ("a count per distinct value", "listed"),
    "MIN(x)": (EXTREMES, "play_extremes"),
    "MAX(t)": (EXTREMES, "positions"),
    "MEDIAN(x)": ("counts by rank in a Fenwick tree", "positions"),
    "QUANTILE(x, 0.9)": ("counts by rank in a Fenwick tree", "positions"),
    "TOP(x, 2)": ("counts by rank in a tournament", "top"),
    "MODE(t)": ("counts by rank in a tournament", "top"),
    "SUM(x)": ("an exact sum of those of panes", "play_sums"),
    "AVG(x)": ("an exact sum of those of panes", "play_sums"),
    "SUM(d)": ("a sum as a whole number of any size", "decimal_sums"),
    "VAR(x)": ("moments of panes in two stacks", "between"),
    "STDDEV(n)": ("moments of panes in two stacks", "between"),
    "VAR_POP(x)": ("moments of panes in two stacks", "between"),
    "FIRST(x)": ("counts by rank in a Fenwick tree", "positions"),
    "MAX_BY(t, x)": ("counts by rank in a Fenwick tree", "positions"),
    "PERCENTILE(x, 0.9)": ("counts by rank in a Fenwick tree", "positions"),
    "COLLECT_LIST(t)": ("entries by rank", "listed"),
    "STRING_AGG(t, '-')": ("entries by rank", "listed"),
    "FREQUENT(t, 2)": (
        "the largest counts of each sub-window, and two tournaments over their sums", "_played"
    ),
}  # fmt: skip


EXACT = {
    "SUM(x)": ("an exact sum", "play_sums"),
    "AVG(x)": ("an exact sum", "play_sums"),
    "VAR(x)": ("exact sums of values and of squares", "play_variances"),
    "STDDEV(n)": ("exact sums of values and of squares", "play_variances"),
    "VAR_POP(x)": ("exact sums of values and of squares", "play_variances"),
}
EXACTLY = " FLOAT SUMS EXACT"


def session_of() -> LocalSession:
    session = LocalSession()
    session.stream(
        "s", {"ts": "BIGINT", "n": "BIGINT", "x": "DOUBLE", "t": "STRING", "d": "DECIMAL(9,2)"}
    )
    return session


def query_of(call: str) -> str:
    return f"SELECT n, {call} AS a FROM s [RANGE 20 us SLIDE 10 us] GROUP BY n"


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the structures' plays that have run."""
    names: set[str] = set()

    def record(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def recording(*arguments: Any, **options: Any) -> Any:
            names.add(name)
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, recording)

    for name in ("distinct", "listed", "positions", "top"):
        record(Ranked, name)
    for name in ("play_sums", "play_variances", "play_extremes", "decimal_sums"):
        record(holistic, name)
    record(frequent_items, "_played")
    record(MomentParts, "between")
    return names


@pytest.mark.parametrize(
    ("call", "ending"), [*((call, "") for call in STRUCTURES), *((call, EXACTLY) for call in EXACT)]
)
def test_the_structure_that_is_named_is_the_one_that_runs(
    call: str, ending: str, played: set[str]
) -> None:
    structure, play = (EXACT if ending else STRUCTURES)[call]
    session = session_of()
    explained = session.explain(query_of(call) + ending)
    text = str(explained)
    named = re.search(r"(\w+\([^\n]*\)) from ([^\n]+)\n[│ ]+(\w[^\n]+)\n", text)
    assert named is not None, text
    assert (
        named[1].split("(")[0]
        == call.replace("VAR(", "VAR_SAMP(").replace("STDDEV(", "STDDEV_SAMP(").split("(")[0]
    )
    assert named[2] == structure
    run = session.query(query_of(call) + ending)
    run.feed({"s": [{"ts": 1, "n": 1, "x": 2.5, "t": "a", "d": None}]})
    run.feed(heartbeats={"s": 50})
    others = played - {"distinct"} if play == "listed" else played
    assert others == (set() if play == "running" else {play})


def test_every_form_of_explain_names_it() -> None:
    explained = session_of().explain(query_of("MEDIAN(x)"))
    structure, why = "counts by rank in a Fenwick tree", "logarithm of the distinct values"
    values = explained.json()
    for form in (explained.text(), values, explained.svg(), explained.html()):
        assert structure in " ".join(re.sub(r"<[^>]*>", " ", form).split())
        assert why in form
