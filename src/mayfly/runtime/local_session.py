"""Continuous queries in this process: the language and its operators without Spark.

For notebooks, tests and small data. Streams and relations are declared in the language or from
Arrow data; a query is fed batch by batch and can be asked at any closed instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from mayfly.cql import Create, Delete, Drop, Insert, OneTimeQuery, Update, bind_query, parse
from mayfly.cql.statements import apply
from mayfly.cql.users_calls import users_aggregate_of
from mayfly.display import html_table, one_line
from mayfly.errors import InvalidSetting
from mayfly.kernels.evaluation import Evaluation
from mayfly.kernels.room import checked_state_bytes
from mayfly.keywords import flag, known_settings, names
from mayfly.keywords import text as text_of
from mayfly.lifetime import MIN_TIME, Duration, duration, in_zone
from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.physical.explain.explainer import explain
from mayfly.physical.explain.explanation import Explanation
from mayfly.physical.explain.sharing import Sharing, sharing_of_plans
from mayfly.plan.catalog import (
    Catalog,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
    ViewDefinition,
)
from mayfly.plan.logical_operators import Output
from mayfly.plan.row_intake import Columns, arrow_of, columns_of
from mayfly.plan.strategy import Joining, Strategy
from mayfly.plan.time_zones import check_zone_in_use
from mayfly.plan.user_aggregates import AggregateDefinition
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.one_time_query import OneTimePlan
from mayfly.runtime.relation_log import Changing
from mayfly.runtime.session_tables import DeclaredTable, RunningQuery
from mayfly.runtime.table_sources import TableSource


class LocalSession:
    """Where streams, relations and queries are declared and run, without Spark."""

    @known_settings()
    def __init__(self, *, zone: str = "UTC") -> None:
        """``zone`` is that of times without one, and in which they have a day and an hour."""
        self.zone = text_of("zone", zone)
        check_zone_in_use(zone)
        self.catalog = Catalog()
        self._relations: dict[str, Changing] = {}
        self._runs: list[ContinuousRun] = []
        self._named_runs: dict[str, ContinuousRun] = {}

    def __repr__(self) -> str:
        return one_line(self, *(f"{entry.kind} {entry.name}" for entry in self.catalog))

    def _repr_html_(self) -> str:
        return html_table("LocalSession", {entry.name: entry.kind for entry in self.catalog})

    def execute(self, text: str) -> pa.Table | None:
        """Carry out statements: CREATE and DROP, and INSERT, UPDATE, DELETE on relations.

        A change without AT takes effect at the clock of the queries that read the relation.
        A SELECT is answered once, over relations and over queries that were started by name, as of
        the last instant that is closed for these; the answer of the last one is returned.
        """
        answer: pa.Table | None = None
        with in_zone(self.zone):
            statements = parse(text, self.catalog)
        for statement in statements:
            match statement:
                case Create(definition=AggregateDefinition(name=name)):
                    raise InvalidSetting(
                        f"CREATE AGGREGATE {name} would run Python code of a file",
                        f"give its class: session.aggregate({name!r}, Class, takes=…, gives=…)",
                    )
                case Create(definition=definition):
                    self.catalog = apply(self.catalog, statement)
                    if isinstance(definition, RelationDefinition):
                        self._relations[definition.name.casefold()] = Changing(definition)
                case Drop(name=name):
                    self.catalog = apply(self.catalog, statement)
                    self._relations.pop(name.casefold(), None)
                case Insert() | Update() | Delete():
                    changing = self._relations[statement.relation.casefold()]
                    changing.carry_out(statement, self._clock(statement.relation))
                case OneTimeQuery(text=select):
                    answer = self._answered(select)
                case _:
                    raise InvalidSetting(
                        f"line {statement.position.line} is a {type(statement).__name__.upper()}",
                        "look at queries with explain() and sharing(), at the rest with .catalog",
                    )
        return answer

    def _answered(self, select: str) -> pa.Table:
        """A one-time query over what the session holds."""
        tables: list[TableSource] = [
            DeclaredTable(changing) for changing in self._relations.values()
        ]
        for name, run in self._named_runs.items():
            entry = self.catalog.lookup(name)
            if entry is not None and run.program.sent is None:
                tables.append(RunningQuery(entry.name, run))
        with in_zone(self.zone):
            plan = OneTimePlan.of(select, tables, self.catalog)
            return plan.answer(plan.instant(MIN_TIME)).rows

    @known_settings()
    def stream(
        self,
        name: str,
        columns: Columns,
        *,
        time: str = "ts",
        sequence: str | Sequence[str] = (),
        slack: Duration = 0,
        max_gap: Duration | None = None,
    ) -> None:
        """Declare a stream; its columns come from types by name, a schema, or rows: a table, a
        pandas DataFrame, a list of dicts.

        ``max_gap="1 day"``: time goes on in steps of a day at most; a larger jump counts when the
        next batch confirms it, and until then its rows wait.
        """
        gap = None if max_gap is None else duration(max_gap)
        definition = StreamDefinition(
            text_of("the name of a stream", name),
            columns_of(columns),
            text_of("time", time),
            names("sequence", sequence),
            slack=duration(slack),
            max_gap=gap,
        )
        self.catalog = self.catalog.declare(definition)

    @known_settings()
    def relation(
        self,
        name: str,
        rows: Any,
        *,
        key: str | Sequence[str] = (),
        retroactive: bool = True,
        columns: Columns | None = None,
    ) -> None:
        """Declare a relation (or with ``retroactive=False`` an NRR) and fill it with rows, which
        say what its columns are unless ``columns`` does, as for a stream."""
        if columns is None:
            columns = rows = arrow_of(text_of("the name of a relation", name), rows)
        definition = RelationDefinition(
            name, columns_of(columns), names("key", key), flag("retroactive", retroactive)
        )
        catalog, changing = self.catalog.declare(definition), Changing(definition)
        with in_zone(self.zone):
            changing.load(rows)
        self.catalog = catalog
        self._relations[name.casefold()] = changing

    @known_settings()
    def aggregate(self, name: str, code: type, *, takes: str | Sequence[str], gives: str) -> None:
        """Make a class an aggregate: its ``add(x, …)`` takes the values of a row, ``merge(other)``
        those of another instance, ``result()`` is the answer; ``subtract(x, …)``, if it has one,
        undoes an ``add``. ``takes=("BIGINT",), gives="DOUBLE"`` are the types."""
        self.catalog = self.catalog.declare(users_aggregate_of(name, code, takes, gives))

    @known_settings()
    def query(
        self,
        cql: str,
        *,
        strategy: str = "UPA",
        without: Sequence[str] = (),
        buckets: int = 1,
        joins: str | Evaluation = "cost",
        max_state_bytes: int | None = None,
        history: Duration | None = None,
    ) -> ContinuousRun:
        """Start a query: CQL text, or the name of one made by CREATE QUERY.

        ``strategy`` is UPA, NT or DIRECT; ``without`` switches optimizer rules off; ``joins`` says
        how more than two inputs with one key are joined: "multiway" without intermediate
        results (also as an ``Evaluation`` says), "binary" in a chain that keeps them, or whichever
        of the two, or of ways between them, the optimizer finds cheapest ("cost"). The answer
        depends on none of them. A step that would need more than ``max_state_bytes`` (by default
        half of the machine's memory) is refused before it is tried. The change log reaches back to
        the beginning, or with ``history="1 hour"`` that far: what ended before is forgotten.
        """
        way, without = Strategy.named(strategy), names("without", without)
        with in_zone(self.zone):
            joining = Joining.MULTIWAY if isinstance(joins, Evaluation) else Joining.named(joins)
            optimized = optimize(self._bound(cql), strategy=way, without=without, joining=joining)
        chosen, sharing = optimized.chosen, optimized.context.sharing
        assert isinstance(chosen.plan, Output)
        weak, strict = "weak-distinct" not in without, chosen.strict
        ways = joins if isinstance(joins, Evaluation) else joining
        prunes, panes = (rule not in without for rule in ("early-pruning", "panes"))
        program = compile_plan(
            chosen.plan, self.catalog, way, weak, ways, strict, prunes, panes, sharing
        )
        room = checked_state_bytes(max_state_bytes)
        reach = None if history is None else duration(history)
        run = ContinuousRun(program, self.catalog, self._relations, buckets, room, self.zone, reach)
        self._runs.append(run)
        if isinstance(self.catalog.lookup(cql), QueryDefinition):
            self._named_runs[cql.casefold()] = run
        return run

    @known_settings()
    def explain(self, cql: str, *, compare: bool = False, strategy: str = "UPA") -> Explanation:
        """What a query means and costs, before it runs."""
        way, compare = Strategy.named(strategy), flag("compare", compare)
        with in_zone(self.zone):
            return explain(self._bound(cql), self.catalog, cql, strategy=way, compare=compare)

    def sharing(self) -> Sharing:
        """What the queries that are created share of panes when a pipeline runs them together."""
        plans = {entry.name: entry.plan for entry in self.catalog.of_kind(QueryDefinition)}
        with in_zone(self.zone):
            return sharing_of_plans(plans, self.catalog)

    def table(self, relation: str) -> pa.Table:
        """A relation as its last change left it."""
        if text_of("the name of a relation", relation).casefold() not in self._relations:
            relation_names = ", ".join(
                changing.definition.name for changing in self._relations.values()
            )
            raise InvalidSetting(
                f"there is no relation {relation}", f"relations: {relation_names or 'none'}"
            )
        return self._relations[relation.casefold()].rows

    def _bound(self, cql: str) -> Output:
        entry = self.catalog.lookup(cql) if isinstance(cql, str) else None
        if isinstance(entry, QueryDefinition | ViewDefinition):
            return entry.plan
        return bind_query(cql, self.catalog)

    def _clock(self, relation: str) -> int:
        """The clock of the queries that read a relation."""
        readers = [run for run in self._runs if run.reads(relation)]
        return max((run.clocks.query for run in readers), default=MIN_TIME)


def replay(run: ContinuousRun, batches: Iterable[Mapping[str, Any]]) -> ContinuousRun:
    """Feed all batches of a recorded or generated source and close the last instant."""
    for batch in batches:
        run.feed(batch)
    run.finish()
    return run
