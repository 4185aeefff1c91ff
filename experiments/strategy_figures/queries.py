"""Queries 1 to 4 of thesis 3.6 and the ways to run them.

Each sends what leaves its answer (Dstream), so that the answer itself is kept and maintained, in
the structure the strategy calls for, as the thesis's Rstream queries do.
"""

from __future__ import annotations

from dataclasses import dataclass

from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.plan.logical_operators import AntiJoin, Join, Node, Output
from mayfly.plan.strategy import Strategy
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.local_session import LocalSession
from mayfly.testing.connections import tcp_connections

_JOIN = """SELECT Dstream(a.src, a.dst AS one, b.dst AS other, a.bytes)
FROM link1 [RANGE {window} ms] a, link2 [RANGE {window} ms] b
WHERE a.src = b.src AND a.protocol = '{protocol}' AND b.protocol = '{protocol}'"""
QUERIES = {
    "join_few": _JOIN.replace("{protocol}", "telnet"),
    "join_many": _JOIN.replace("{protocol}", "ftp"),
    "distinct_sources": "SELECT Dstream(DISTINCT src) FROM link1 [RANGE {window} ms]",
    "distinct_pairs": "SELECT Dstream(DISTINCT src, dst) FROM link1 [RANGE {window} ms]",
    "negation": """SELECT Dstream(a.src, a.dst, a.bytes) FROM link1 [RANGE {window} ms] a
WHERE NOT EXISTS (SELECT * FROM link2 [RANGE {window} ms] b WHERE b.src = a.src)""",
    "negation_and_join": """SELECT Dstream(a.src, a.dst AS one, c.dst AS other)
FROM link1 [RANGE {window} ms] a, link3 [RANGE {window} ms] c
WHERE a.src = c.src AND c.protocol = 'ftp'
AND NOT EXISTS (SELECT * FROM link2 [RANGE {window} ms] b WHERE b.src = a.src)""",
}
LINKS = ("link1", "link2", "link3")


@dataclass(frozen=True)
class Way:
    """A strategy; where the negation stands in the plan, if that is asked; rules left out."""

    name: str
    strategy: Strategy
    negation_below: bool | None = None
    without: tuple[str, ...] = ()


# Outside UPA the thesis eliminates duplicates by counting the input, without δ*.
COUNTING = ("weak-distinct",)
WAYS = {
    "negation_and_join": (
        Way("UPA", Strategy.UPA, False),
        Way("NT", Strategy.NT, False),
        Way("NT (join up)", Strategy.NT, True),
    )
}
THREE = (
    Way("UPA", Strategy.UPA),
    Way("NT", Strategy.NT),
    Way("DIRECT", Strategy.DIRECT, without=COUNTING),
)


def ways(query: str) -> tuple[Way, ...]:
    return WAYS.get(query, THREE)


def start(query: str, window: int, way: Way) -> ContinuousRun:
    """The query, running over empty windows."""
    session = LocalSession()
    for link in LINKS:
        session.stream(link, tcp_connections(1))
    bound = session._bound(QUERIES[query].format(window=window))
    candidates = optimize(bound, strategy=way.strategy, without=way.without).candidates
    plans = [one.plan for one in candidates]
    if way.negation_below is not None:
        plans = [plan for plan in plans if _negation_below(plan) is way.negation_below]
    plan = plans[0]
    assert isinstance(plan, Output)
    weak = "weak-distinct" not in way.without
    return ContinuousRun(compile_plan(plan, session.catalog, way.strategy, weak), session.catalog)


def _negation_below(plan: Node) -> bool:
    """Whether the join stands above the negation (Fig. 3.5, right) or below it (left)."""
    joins = [node for node in plan.walk() if isinstance(node, Join)]
    return any(isinstance(node, AntiJoin) for join in joins for node in join.walk())
