"""Labels a logical plan: the update pattern of every edge, and the words that explain it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mayfly.errors import MayflyError
from mayfly.patterns import Label, Pattern
from mayfly.patterns import propagation as rule
from mayfly.plan.derived_stream import Derived
from mayfly.plan.finished_operators import Finished, InWindows
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    ExceptAll,
    GroupAggregate,
    Join,
    Node,
    Output,
    OutputKind,
    PaddedNrrJoin,
    Project,
    RelationJoin,
    RelationScan,
    Select,
    Shared,
    Sort,
    StreamScan,
    SubqueryWindow,
    Top,
    UnionAll,
)
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.resample import Resample
from mayfly.plan.unnest import Unnest
from mayfly.plan.window_kinds import Cumulative, Window


class UnknownNodeError(MayflyError):
    """A plan holds an operator the optimizer has no rule for."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A plan node with the label of its output edge."""

    node: Node
    label: Label
    inputs: tuple[Labelled, ...]

    @property
    def pattern(self) -> Pattern:
        return self.label.pattern

    def walk(self) -> Iterator[Labelled]:
        yield self
        for child in self.inputs:
            yield from child.walk()


def label_plan(node: Node, weak_distinct: bool = True, one_time: bool = False) -> Labelled:
    """The plan with a label on every edge; without δ*, every DISTINCT is strict.

    A one-time query sees one state of everything, so nothing in it is refused for its pattern.
    """
    one_time = one_time or (isinstance(node, Output) and node.one_time)
    inputs = tuple(label_plan(child, weak_distinct, one_time) for child in node.children())
    labels = [child.label for child in inputs]
    if (
        one_time
        and isinstance(node, RelationJoin | PaddedNrrJoin)
        and not labels[0].pattern.predictable
    ):
        return Labelled(node, labels[0], inputs)
    return Labelled(node, _label(node, labels, weak_distinct), inputs)


def _label(node: Node, inputs: list[Label], weak_distinct: bool) -> Label:
    what = describe(node)
    match node:
        case StreamScan(window=window) | SubqueryWindow(window=window):
            return _window_label(node, window)
        case InWindows():
            return rule.finished_window(what)
        case Finished():
            return rule.finished(what)
        case RelationScan(retroactive=retroactive):
            return rule.relation(what) if retroactive else rule.non_retroactive_relation(what)
        case Select() | Project() | Unnest() | Sort() | Shared():
            return rule.stateless(inputs[0])
        case Join():
            return rule.window_join(inputs, what)
        case RelationJoin(retroactive=retroactive):
            return (rule.relation_join if retroactive else rule.nrr_join)(inputs[0], what)
        case PaddedNrrJoin():
            return rule.nrr_join(inputs[0], what)
        case AntiJoin() | ExceptAll():
            return rule.negation(inputs, what)
        case Distinct():
            choice = rule.distinct if weak_distinct else rule.strict_distinct
            return choice(inputs[0], what)
        case Derived(kind=kind):
            return rule.append_only(kind.value)
        case GroupAggregate():
            return rule.aggregate(inputs[0], what)
        case Top():
            return rule.top(inputs[0], what)
        case Over(appends=appends, because=because) | AsofJoin(appends=appends, because=because):
            return rule.neighbours(inputs, what, appends, because)
        case Resample():
            return rule.neighbours(inputs, what, appends=True, because=node.because)
        case UnionAll():
            return rule.merge_union(inputs, what)
        case Output(kind=kind):
            view = kind in (OutputKind.VIEW, OutputKind.RSTREAM)
            return inputs[0] if view else rule.append_only(kind.value)
    raise UnknownNodeError(
        f"there is no update pattern for {type(node).__name__}",
        "a new plan node needs a propagation rule and a case here",
    )


def _window_label(node: Node, window: Window) -> Label:
    what = describe(node)
    if window.counts_rows:
        label = rule.count_window(what)
    elif isinstance(window, Cumulative):
        label = rule.cumulative_window(what)
    elif window.lifetime is not None:
        slide = window.slide
        period = slide.period if slide and slide.period else 0
        label = rule.time_window(what, window.lifetime, period, slide.origin if slide else 0)
    else:
        label = rule.unbounded(what)
    if isinstance(node, SubqueryWindow) and node.wstream:
        return rule.output_window(label, what)
    return rule.internal(label, what) if window.internal else label


def describe(node: Node) -> str:
    """A node in the words of the query, with its line: ``NOT EXISTS at line 4``."""
    return f"{_phrase(node)} at line {node.position.line}" if node.position else _phrase(node)


def _phrase(node: Node) -> str:
    match node:
        case StreamScan(alias=alias, window=window):
            return f"{alias} {window.cql()}"
        case SubqueryWindow(window=window, wstream=wstream):
            return f"{'Wstream' if wstream else 'the sub-query'} {window.cql()}"
        case InWindows(windows=windows):
            return windows.cql()
        case RelationScan(alias=alias, retroactive=retroactive):
            return f"the {'relation' if retroactive else 'NRR'} {alias}"
        case RelationJoin(relation=relation) | PaddedNrrJoin(relation=relation):
            names = [n.alias for n in relation.walk() if isinstance(n, RelationScan)]
            return f"the join with {', '.join(names)}"
        case AntiJoin(kind=kind):
            return kind.value
        case GroupAggregate(keys=keys):
            return "GROUP BY" if keys else "the aggregate"
        case Shared(name=name):
            return name
        case Derived(kind=kind):
            return f"the stream of {kind.value}"
        case Sort(limit=limit):
            return "ORDER BY" if limit is None else "LIMIT"
        case Output(kind=kind):
            return kind.value
    return _PHRASES.get(type(node), type(node).__name__)


_PHRASES: dict[type[Node], str] = {
    Select: "the selection",
    Project: "the projection",
    Unnest: "UNNEST",
    Join: "the join",
    Distinct: "DISTINCT",
    ExceptAll: "EXCEPT ALL",
    UnionAll: "UNION ALL",
    Top: "LIMIT",
    Finished: "the answer of each window",
    Over: "OVER",
    AsofJoin: "ASOF JOIN",
    Resample: "RESAMPLE",
}
