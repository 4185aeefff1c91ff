"""Covers of predicates as a checkpoint remembers them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mayfly.cql import bind_query, catalog_after, parse
from mayfly.kernels.cover_groups import CoveredGroups
from mayfly.plan.strategy import Strategy
from mayfly.spark.api.queries import CqlQuery
from mayfly.spark.stream.query_checkpoint import COVER, differing
from mayfly.spark.stream.query_covers import all_as_begun, with_covers
from tests.property.shared_runs import _stream
from tests.property.test_panes import DECLARED

CATALOG = catalog_after(parse(DECLARED))


class Session:
    """Binds queries, without Spark."""

    catalog, zone = CATALOG, "UTC"

    def query(self, text: str, without: tuple[str, ...] = ()) -> CqlQuery:
        session: Any = self
        return CqlQuery.of(session, text, bind_query(text, CATALOG), Strategy.UPA, without)

    def declared(self, name: str) -> Any:
        return _stream(CATALOG.lookup(name))  # type: ignore[arg-type]


def asked(where: str, **options: Any) -> CqlQuery:
    text = f"SELECT g, COUNT(*) AS n FROM s [RANGE 16 us SLIDE 4 us] WHERE {where} GROUP BY g"
    return Session().query(text, **options)


def is_covered(query: CqlQuery) -> bool:
    return any(isinstance(task.operator, CoveredGroups) for task in query.program.tasks())


def test_a_cover_is_remembered_also_when_queries_go() -> None:
    queries = {"a": asked("k = 1"), "b": asked("k = 2"), "both": asked("k = 1 OR k = 2")}
    begun = all_as_begun(queries, {}, ())
    assert [name for name, query in begun.items() if is_covered(query)] == ["both"]
    stored = {name: query.description() for name, query in begun.items()}
    assert [name for name, entry in stored.items() if COVER in entry] == ["both"]
    alone = all_as_begun({"both": queries["both"]}, stored, ())
    assert is_covered(alone["both"])
    assert not differing(stored["both"], alone["both"].description())


def test_what_is_there_stays_as_it_is() -> None:
    queries = {"both": asked("k = 1 OR k = 2"), "a": asked("k = 1"), "b": asked("k = 2")}
    stored = {name: query.description() for name, query in all_as_begun(queries, {}, ()).items()}
    late = {**queries, "again": asked("k = 2 OR k = 1")}
    begun = all_as_begun(late, stored, ())
    assert not is_covered(begun["both"]), "its panes came first"
    assert is_covered(begun["again"])
    assert all(not differing(stored[name], begun[name].description()) for name in stored)


def test_the_rule_is_switched_off() -> None:
    queries = {"a": asked("k = 1"), "b": asked("k = 2")}
    both = asked("k = 1 OR k = 2", without=("SS4",))
    assert not is_covered(with_covers({**queries, "both": both})["both"])
    on = replace(both, without=())
    assert is_covered(with_covers({**queries, "both": on})["both"])
