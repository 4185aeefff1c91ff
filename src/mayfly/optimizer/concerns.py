"""What a plan will be warned of, told without compiling it, where that is possible.

Idea: EXPLAIN reads warnings off the program, and the compiler refuses what cannot run. Of plans of
what is listed here the warnings are known before, so that they are checked without kernels.
Invariant: what is foreseen compiles, with these warnings. What is not listed has to be compiled.
Cost: one pass over the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mayfly.optimizer.join_chains import steps
from mayfly.optimizer.labels import label_plan
from mayfly.optimizer.optimize import Optimized
from mayfly.optimizer.plan_warnings import ENDLESS_ANSWER, Warned, never_true, single_task
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
    OutputKind,
    Project,
    RelationJoin,
    RelationScan,
    Select,
    Sort,
    StreamScan,
    UnionAll,
)
from mayfly.plan.window_kinds import PartitionRows, RowsWindow, Window


def foreseen_warnings(optimized: Optimized) -> tuple[Warned, ...] | None:
    """What EXPLAIN warns of in the chosen plan; None if only the program can tell, or is refused.

    ``SELECT a FROM s [ROWS 5]`` → "s [ROWS 5] runs in a single task".
    """
    plan = optimized.plan
    assert isinstance(plan, Output)
    grows = any(figure.estimated.flow.grows for figure in optimized.chosen.costed.walk())
    if plan.serve is not None or plan.restore or not all(_is_stored(node) for node in plan.walk()):
        return None
    answer = _answer(plan)
    warnings = list(_warnings(answer))
    if grows:
        # Other operators say what they keep, and only the program knows that.
        stateless = isinstance(answer, Select | Project | StreamScan)
        if not (stateless and plan.kind is OutputKind.VIEW and _is_chain(answer)):
            return None
        warnings = [ENDLESS_ANSWER, *warnings]
    if None in warnings:
        return None
    return tuple(dict.fromkeys(warning for warning in warnings if warning is not None))


def answer_label(optimized: Optimized) -> Label:
    """The label of the relation that the chosen plan maintains."""
    plan = optimized.plan
    assert isinstance(plan, Output)
    weak_distinct, one_time = optimized.context.weak_distinct, plan.one_time
    return label_plan(_answer(plan), weak_distinct, one_time).label


def _answer(plan: Output) -> Node:
    """Below the order in which an answer is sent."""
    return plan.child.child if isinstance(plan.child, Sort) else plan.child


def _is_chain(node: Node) -> bool:
    return all(isinstance(part, Select | Project | StreamScan) for part in node.walk())


def _warnings(node: Node) -> Iterator[Warned | None]:
    """What is said of a node and then of those below it; None of what is not listed here."""
    match node:
        case StreamScan(window=window):
            if not _is_spread(window):
                yield single_task(node) if isinstance(window, RowsWindow) else None
            return
        case Select(predicate=Literal()):
            yield never_true(node)
        case Select() | Project() | Distinct() | ExceptAll() | UnionAll():
            pass
        case Join():
            joins = list(steps(node))
            if not all(_meet(*_sides(join), join.equalities) for join in joins):
                yield single_task(node) if len(joins) == 1 else None
        case RelationJoin(child=child, relation=relation, equalities=pairs):
            if not _is_table(relation) or (node.retroactive and not _meet(child, relation, pairs)):
                yield None
            yield from _warnings(child)
            return
        case AntiJoin(left=left, right=right, equalities=pairs):
            if node.kind is not Negation.NOT_EXISTS or not _meet(left, right, pairs):
                yield None
        case GroupAggregate(keys=keys, aggregates=calls):
            if any(map(Frequency.is_asked, calls)):
                yield None
            if not keys:
                slides = any(isinstance(n, StreamScan) and n.window.slide for n in node.walk())
                yield None if slides else single_task(node)  # panes may be kept in its place
        case _:
            yield None
            return
    for below in node.children():
        yield from _warnings(below)


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
