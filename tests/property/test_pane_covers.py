"""Queries that answer from the panes of other predicates (SS4), against an independent engine."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.cql import catalog_after, parse
from mayfly.kernels.cover_groups import CoveredGroups
from mayfly.kernels.pane_store import PaneStore
from mayfly.kernels.room import Touched
from mayfly.periodic.sharing.pane_covers import (
    NO_COVER,
    PaneCover,
    choose_covers,
    covered,
    sharing_with_covers,
)
from mayfly.physical.program import Program
from mayfly.plan.catalog import QueryDefinition
from tests.property.shared_runs import program_of
from tests.property.test_pane_sharing import Pipeline
from tests.property.test_panes import DECLARED, SCHEMA, Query, admitted, random_batches

many = settings(
    max_examples=8 if settings().max_examples < 200 else settings().max_examples,
    phases=[Phase.generate],
)
CATALOG = catalog_after(parse(DECLARED))
RULES = frozenset({"SS1", "CS1", "CS2", "CS7", "SS4", "sketches"})


class CoveringPipeline(Pipeline):
    """Remembers covers as a checkpoint of Spark's does."""

    covers: dict[str, PaneCover]

    def programs(self) -> dict[str, Program]:
        texts = {name: query.cql for name, query in self.queries.items()}
        plain = {
            name: (text, program_of(text, CATALOG, sharing=self.sharing))
            for name, text in texts.items()
        }
        covers = {n: c for n, c in getattr(self, "covers", {}).items() if n in texts}
        read = {n: self.reading(*plain[n], c) for n, c in covers.items()}
        ordered = {n: (texts[n], read.get(n, plain[n][1])) for n in (*covers, *plain)}
        if "SS4" in self.sharing:
            covers |= choose_covers(ordered, [name for name in texts if name not in covers])
        self.covers = {n: covers.get(n, NO_COVER) for n in ordered}
        return {n: self.reading(*plain[n], self.covers[n]) for n in texts}

    @property
    def combined(self) -> list[CoveredGroups]:
        """The covered queries whose extremes are put together of what others have scanned."""
        tasks = (task.operator for task in self.runner().dataflow.stages.tasks)
        return [each for each in tasks if isinstance(each, CoveredGroups) and each.is_combined]

    def reading(self, text: str, program: Program, cover: PaneCover) -> Program:
        if not cover.plus:
            return program
        return covered(text, program, cover, lambda t: program_of(t, CATALOG, sharing=self.sharing))


def covered_by(new: Query, *existing: Query, sharing: frozenset[str] = RULES) -> Any:
    """The WHERE of the panes that a query merges, and of those that it subtracts."""
    with tempfile.TemporaryDirectory() as folder:
        pipeline = CoveringPipeline(folder, 1, sharing)
        pipeline.queries = {f"q{n}": query for n, query in enumerate((*existing, new))}
        pipeline.programs()
        cover = pipeline.covers[f"q{len(existing)}"]
        wheres = {query.cql: query.where for query in existing}
    return [wheres[t] for t in cover.plus], [wheres[t] for t in cover.minus]


TCP, UDP, ICMP, USER = "g = 'tcp'", "g = 'udp'", "g = 'icmp'", "k = 1"
BOTH, EITHER = f"{TCP} OR {UDP}", f"{TCP} OR {USER}"


def asked(call: str, where: str) -> Query:
    return Query((), tuple(call.split(" + ")), where, 16, 4, 0)


@pytest.mark.parametrize(
    ("existing", "new", "plus", "minus"),
    [
        ([("SUM(v)", TCP), ("SUM(v)", UDP)], ("SUM(v)", BOTH), [TCP, UDP], []),
        ([("SUM(v)", TCP)], ("SUM(v)", BOTH), [], []),
        (
            [("AVG(v) + COUNT(*)", BOTH), ("AVG(v) + COUNT(*)", UDP)],
            ("SUM(v)", TCP), [BOTH], [UDP],
        ),
        ([("SUM(v)", BOTH), ("SUM(v)", UDP)], ("SUM(v)", TCP), [], []),
        ([("SUM(v)", BOTH)], ("SUM(v)", TCP), [], []),
        ([("MAX(v)", TCP), ("MAX(v)", USER)], ("MAX(v)", EITHER), [TCP, USER], []),
        ([("SUM(v)", TCP), ("SUM(v)", USER)], ("SUM(v)", EITHER), [], []),
        ([("MAX(v)", EITHER), ("MAX(v)", USER)], ("MAX(v)", TCP), [], []),
        (
            [("MAX(v)", BOTH), ("MAX(v)", f"{UDP} OR {ICMP}")],
            ("MAX(v)", f"{BOTH} OR {ICMP}"), [BOTH, f"{UDP} OR {ICMP}"], [],
        ),
        (
            [("SUM(v)", BOTH), ("SUM(v)", f"{UDP} OR {ICMP}")],
            ("SUM(v)", f"{BOTH} OR {ICMP}"), [], [],
        ),
        ([("COUNT(*)", BOTH), ("COUNT(*)", UDP)], ("COUNT(*)", TCP), [BOTH], [UDP]),
    ],
)  # fmt: skip
def test_relevant_sets_of_the_thesis(
    existing: list[tuple[str, str]], new: tuple[str, str], plus: list[str], minus: list[str]
) -> None:
    """Q1 to Q6, and what is no cover."""
    cover = covered_by(asked(*new), *(asked(*each) for each in existing))
    assert (sorted(cover[0]), cover[1]) == (sorted(plus), minus)


def test_panes_that_do_not_fit_are_not_read() -> None:
    own = asked("COUNT(*)", BOTH)
    parts = [asked("COUNT(*)", where) for where in (TCP, UDP)]
    nothing: tuple[list[str], list[str]] = ([], [])
    assert covered_by(own, *parts) != nothing
    assert covered_by(own, *parts, sharing=RULES - {"SS4"}) == nothing
    assert covered_by(own, parts[0], replace(parts[1], duration=8)) == nothing, "too short"
    assert covered_by(own, parts[0], replace(parts[1], period=5)) == nothing, "other edges"
    assert covered_by(own, parts[0], replace(parts[1], origin=1)) == nothing, "other edges"
    assert covered_by(own, parts[0], replace(parts[1], keys=("g",))) == nothing, "other groups"
    assert covered_by(own, parts[0], asked("MAX(v)", UDP)) == nothing, "other numbers"


CALLS = (
    "COUNT(*)", "COUNT(k)", "SUM(k)", "AVG(k)", "MIN(v)", "MAX(g)", "SUM(m)", "AVG(m)", "SUM(f)",
    "VAR(f)", "MEDIAN(k)", "COUNT(DISTINCT v)", "APPROX_COUNT_DISTINCT(g)",
)  # fmt: skip
TOTALS = ("AVG(k)", "COUNT(k)", "AVG(m)")
ATOMS = ("g = 'a'", "g = 'b'", "g = ''", "k = 1", "k > 1", "v < 1")


@many
@given(seed=st.integers(0, 2**48))
def test_covers_change_no_answer(seed: int) -> None:
    """Queries with predicates that cover each other come and go; every step is a new start."""
    rng = Random(seed)
    keys, calls = rng.choice(((), ("k",), ("g",))), tuple(rng.sample(CALLS, rng.randint(1, 2)))
    if rng.random() < 0.3:
        calls = rng.choice(
            (("MAX(v)",), ("MIN(v)", "MAX(g)"), ("MAX(g)", "APPROX_COUNT_DISTINCT(g)"))
        )
    elif rng.random() < 0.6:  # what can be subtracted
        calls = ("COUNT(*)", *rng.sample(TOTALS, rng.randint(0, 2)))
    atoms = rng.sample(ATOMS[:3] if rng.random() < 0.7 else ATOMS, 3)
    batches, number = random_batches(rng, rng.randint(3, 6), (0, 3, 8, 20)), 0

    def some(count: int) -> dict[str, Query]:
        nonlocal number
        made = {}
        for _ in range(count):
            where = " OR ".join(rng.sample(atoms, rng.randint(1, 3)))
            made[f"q{number}"] = Query(keys, calls, where, rng.choice((8, 16, 16)), 4, 0)
            number += 1
        return made

    with tempfile.TemporaryDirectory() as folder:
        rules = RULES - ({"CS7"} if rng.random() < 0.3 else set())
        pipeline = CoveringPipeline(folder, rng.randint(1, 3), rules)
        pipeline.begin(some(rng.randint(2, 4)))
        for batch in batches:
            if rng.random() < 0.5:
                pipeline.add(some(rng.randint(1, 2)))
            if len(pipeline.queries) > 2 and rng.random() < 0.4:
                pipeline.drop(rng.choice(list(pipeline.queries)))
            pipeline.feed(batch)
        pipeline.check(admitted(batches), rng)


def test_covers_are_explained() -> None:
    text = ";".join(
        [DECLARED]
        + [
            f"CREATE QUERY {name} AS {asked('COUNT(*)', where).cql}"
            for name, where in (("tcp", TCP), ("udp", UDP), ("both", BOTH))
        ]
    )
    catalog = catalog_after(parse(text))
    plans = {each.name: each.plan for each in catalog.of_kind(QueryDefinition)}
    explained = sharing_with_covers(plans, catalog).text()
    assert explained.count("both  SS4") == 2
    assert "3 queries from 2 states of panes" in explained
    alone = sharing_with_covers(plans, catalog, without=["SS4"]).text()
    assert "both  first" in alone


def scanned(sharing: frozenset[str], keys: tuple[str, ...], *queries: Query) -> int:
    """The values that are read for these queries, in steps of few refreshes."""
    none = {"m": None, "f": None}
    rows = [
        {"ts": ts, "k": ts % 2, "g": ("tcp", "udp")[ts % 3 == 0], "v": -(ts * 7919 % 101), **none}
        for ts in range(1, 700)
    ]
    with tempfile.TemporaryDirectory() as folder:
        pipeline = CoveringPipeline(folder, 1, sharing)
        pipeline.begin({f"q{n}": replace(query, keys=keys) for n, query in enumerate(queries)})
        pipeline.feed(rows[:600])
        before = Touched.rows
        for start in range(600, len(rows), 6):
            pipeline.feed(rows[start : start + 6])
        read = Touched.rows - before
        pipeline.check(rows, Random(2), 40)
        assert len(pipeline.combined) == (len(queries) > 2 and "CS7" in sharing)
    return read


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_extremes_of_a_cover_are_those_of_what_others_have_scanned(keys: tuple[str, ...]) -> None:
    """Q4, Q5 and Q6 of the thesis, with a shorter window for Q6."""
    tcp, udp, both = (Query((), ("MAX(v)", "MIN(v)"), w, 400, 2, 0) for w in (TCP, UDP, BOTH))
    both = replace(both, duration=300)
    two = scanned(RULES, keys, tcp, udp)
    played, combined = (
        scanned(rules, keys, tcp, udp, both) - two for rules in (RULES - {"CS7"}, RULES)
    )
    assert 0 < combined < 0.28 * played, (two, played, combined)


def test_extremes_of_a_cover_are_right_where_nobody_has_scanned() -> None:
    """A newcomer's first step is its own; a candidate's pass may leave out groups."""
    rows = [
        {"ts": ts, "k": ts % 4, "g": ("tcp", "udp")[ts % 3 == 0], "v": -ts, "m": None, "f": None}
        for ts in range(1, 300)
    ]
    rows = [row for row in rows if row["k"] != 3 or 60 < row["ts"] < 90]  # type: ignore[operator]
    with tempfile.TemporaryDirectory() as folder:
        pipeline = CoveringPipeline(folder, 2, RULES)
        tcp, udp = (Query(("k",), ("MAX(v)",), w, 80, 8, 0) for w in (TCP, UDP))
        pipeline.begin({"tcp": tcp, "udp": udp})
        for start in range(0, len(rows), 7):
            if start == 70:
                pipeline.add({"both": Query(("k",), ("MAX(v)",), BOTH, 40, 8, 0)})
            pipeline.feed(rows[start : start + 7])
        assert pipeline.combined
        pipeline.check(rows, Random(3), 60)


def test_a_covered_query_keeps_the_panes_of_queries_that_go() -> None:
    rows = [
        {"ts": ts, "k": ts % 3, "g": ("a", "b", "c")[ts % 3], "v": ts, "m": None, "f": None}
        for ts in range(1, 60)
    ]
    a, b, c = (asked("COUNT(*)", f"g = '{g}'") for g in "abc")
    both = asked("COUNT(*)", f"{a.where} OR {b.where}")
    with tempfile.TemporaryDirectory() as folder:
        pipeline = CoveringPipeline(folder, 1, RULES)
        pipeline.begin({"a": a, "b": b, "c": c, "both": both})
        assert len(pipeline.stores()) == 3
        pipeline.feed(rows[:30])
        for name in ("a", "b"):
            pipeline.drop(name)
        pipeline.feed(rows[30:])
        tasks = pipeline.runner().dataflow.stages.tasks
        assert any(isinstance(task.operator, CoveredGroups) for task in tasks)
        assert sum(isinstance(task.operator, PaneStore) for task in tasks) == 3
        pipeline.check(rows, Random(1), 30)
        assert pa.Table.from_pylist(rows, schema=SCHEMA).num_rows == 59


def test_what_is_too_much_is_taken_out_again() -> None:
    """Also groups of which nothing is left, and sums of which no value is."""
    rows = [
        {
            "ts": ts,
            "k": ts % 5,
            "g": "tcp" if ts % 5 < 2 else "udp",
            "v": None,
            "m": None,
            "f": None,
        }
        for ts in range(1, 80)
    ]
    rows += [{"ts": 41, "k": 1, "g": "udp", "v": 7, "m": None, "f": None}]
    rows.sort(key=lambda row: row["ts"])  # type: ignore[arg-type,return-value]
    calls = ("COUNT(*)", "AVG(v)", "AVG(k)")
    queries = {
        "both": Query(("k",), calls, BOTH, 4, 4, 0),
        "udp": Query(("k",), calls, UDP, 4, 4, 0),
        "tcp": Query(("k",), ("COUNT(*)", "SUM(v)", "SUM(k)"), TCP, 4, 4, 0),
    }
    with tempfile.TemporaryDirectory() as folder:
        pipeline = CoveringPipeline(folder, 2, RULES)
        pipeline.begin(queries)
        assert len(pipeline.covers["tcp"].minus) == 1
        for start in range(0, len(rows), 10):
            pipeline.feed(rows[start : start + 10])
        pipeline.check(admitted([rows[n : n + 10] for n in range(0, len(rows), 10)]), Random(1), 80)
