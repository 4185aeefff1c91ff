"""Whether a plan has to be compiled before it may be called right.

Idea: EXPLAIN reads warnings off the program, and the compiler refuses what cannot run; neither says
anything about plans made of what is listed here, so that these are checked without kernels.
Invariant: what is of no concern compiles, without a warning. What is not listed is of concern.
Cost: one pass over the plan.
"""

from __future__ import annotations

from collections.abc import Iterable

from mayfly.optimizer.join_chains import steps
from mayfly.optimizer.labels import label_plan
from mayfly.optimizer.optimize import Optimized
from mayfly.optimizer.rule import offers
from mayfly.patterns import Label
from mayfly.plan.expressions import Literal
from mayfly.plan.frequent_call import Frequency
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    Equality,
    ExceptAll,
    GroupAggregate,
    Join,
    Negation,
    Node,
    Output,
    Project,
    RelationJoin,
    RelationScan,
    Select,
    Sort,
    StreamScan,
    UnionAll,
)
from mayfly.plan.window_kinds import PartitionRows, Window


def has_concerns(optimized: Optimized) -> bool:
    """Whether compiling the chosen plan may refuse it or find something to warn of."""
    plan = optimized.plan
    assert isinstance(plan, Output)
    grows = any(figure.estimated.flow.grows for figure in optimized.chosen.costed.walk())
    stored = all(_is_stored(node) for node in plan.walk())
    return plan.restore or grows or not stored or not _is_plain(_answer(plan))


def answer_label(optimized: Optimized) -> Label:
    """The label of the relation that the chosen plan maintains."""
    plan = optimized.plan
    assert isinstance(plan, Output)
    weak_distinct, one_time = optimized.context.weak_distinct, plan.one_time
    return label_plan(_answer(plan), weak_distinct, one_time).label


def _answer(plan: Output) -> Node:
    """Below the order in which an answer is sent."""
    return plan.child.child if isinstance(plan.child, Sort) else plan.child


def _is_plain(node: Node) -> bool:
    match node:
        case StreamScan(window=window):
            return _is_spread(window)
        case Select(predicate=predicate):
            plain = not isinstance(predicate, Literal)
        case Project() | Distinct() | ExceptAll() | UnionAll():
            plain = True
        case Join():
            plain = all(_meet(*_sides(join), join.equalities) for join in steps(node))
        case RelationJoin(child=child, relation=relation, equalities=pairs):
            joined = not node.retroactive or _meet(child, relation, pairs)
            return joined and _is_table(relation) and _is_plain(child)
        case AntiJoin(left=left, right=right, equalities=pairs):
            plain = node.kind is Negation.NOT_EXISTS and _meet(left, right, pairs)
        case GroupAggregate(keys=keys, aggregates=calls):
            plain = bool(keys) and not any(map(Frequency.is_asked, calls))
        case _:
            return False
    return plain and all(map(_is_plain, node.children()))


def _is_spread(window: Window) -> bool:
    """Whether no single task has to count the rows of all keys."""
    by_rows = window.slide is not None and window.slide.rows is not None
    partitioned = isinstance(window, PartitionRows) and bool(window.partition_by)
    return not by_rows and (partitioned or not window.counts_rows)


def _meet(left: Node, right: Node, pairs: Iterable[Equality]) -> bool:
    """Whether rows that match have a key by which to find each other."""
    return any(
        (offers(left, pair.left) and offers(right, pair.right))
        or (offers(left, pair.right) and offers(right, pair.left))
        for pair in pairs
    )


def _sides(join: Join) -> tuple[Node, Node]:
    left, right = join.inputs
    return left, right


def _is_table(node: Node) -> bool:
    """A stored table, perhaps selected and projected."""
    while isinstance(node, Project) or (
        isinstance(node, Select) and not isinstance(node.predicate, Literal)
    ):
        node = node.child
    return isinstance(node, RelationScan)


def _is_stored(node: Node) -> bool:
    """Whether every value that the node takes or gives can be held."""
    columns = [column.type for column in node.schema]
    return all(kind.is_stored for kind in (*columns, *(e.type for e in node.expressions())))
