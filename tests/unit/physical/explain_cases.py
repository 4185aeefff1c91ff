"""The queries that are explained in tests/golden/explain, with the figures assumed for them."""

from __future__ import annotations

from pathlib import Path

from mayfly.cql import Create, catalog_after, parse
from mayfly.optimizer import SourceStatistics, Statistics
from mayfly.physical.explain.explainer import explain
from mayfly.physical.explain.explanation import Explanation
from mayfly.plan.catalog import QueryDefinition
from mayfly.plan.strategy import Strategy

FOLDER = Path(__file__).parents[2] / "golden" / "explain"

RATES = Statistics(
    {
        "link1": SourceStatistics(10.0, distinct={"src": 1000, "dst": 2000, "protocol": 20}),
        "link2": SourceStatistics(5.0, distinct={"src": 1000, "dst": 2000, "protocol": 20}),
        "link3": SourceStatistics(0.5, distinct={"src": 1000, "dst": 2000, "protocol": 20}),
        "hosts": SourceStatistics(0.01, rows=1000),
        "names": SourceStatistics(0.01, rows=1000),
    }
)


def definitions() -> dict[str, QueryDefinition]:
    text = (FOLDER / "queries.cql").read_text()
    found = (s.definition for s in parse(text) if isinstance(s, Create))
    return {each.name: each for each in found if isinstance(each, QueryDefinition)}


QUERIES = definitions()
CATALOG = catalog_after(parse((FOLDER / "queries.cql").read_text()))


def explanation(
    name: str,
    strategy: Strategy = Strategy.UPA,
    compare: bool = False,
    without: tuple[str, ...] = (),
    statistics: Statistics = RATES,
) -> Explanation:
    query = QUERIES[name]
    return explain(query.plan, CATALOG, query.text, statistics, strategy, without, compare)
