"""Restrictions that concern a whole plan: slides, INTERNAL, windows over sub-queries.

``kind_of`` follows the propagation rules of the update patterns (thesis 3.5.1) as far as the
language needs them: which sub-queries are append-only, and which inputs are strict.
"""

from __future__ import annotations

from collections.abc import Iterator

from mayfly.cql.context import BindingContext
from mayfly.patterns import Kind
from mayfly.plan.aging_calls import decays, is_decayed
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
    StreamScan,
    SubqueryWindow,
    Top,
    UnionAll,
)
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.plan_text import aggregate_text
from mayfly.plan.resample import Resample
from mayfly.plan.window_kinds import Now, Unbounded, Window


def check_plan(context: BindingContext, output: Output) -> None:
    """Refuse plans that have no meaning, pointing at the operator that is the reason."""
    for node in output.walk():
        if isinstance(node, SubqueryWindow):
            _check_monotonic(context, node)
        elif isinstance(node, Derived):
            _check_derived(context, node)
        elif isinstance(node, GroupAggregate) and decays(node):
            _check_decay(context, node, output)
        elif isinstance(node, Distinct | AntiJoin | ExceptAll | Top | Over | AsofJoin):
            _check_external(context, node)
        elif isinstance(node, RelationJoin | PaddedNrrJoin) and not context.one_time:
            _check_relation_input(context, node)
    _check_slides(context, output)
    if output.restore and not any(window.slide for _, window in _windows(output.child)):
        raise context.error_for(
            output,
            f"{output.kind.value}-restore needs windows with SLIDE",
            "without a slide every result is reported anyway: use the plain form",
        )


# ── update patterns ───────────────────────────────────────────────────────────────────────


def kind_of(node: Node) -> Kind:
    """The update pattern of a node's results; WKS counts as WK: no restriction tells them apart."""
    match node:
        case StreamScan(window=window) | SubqueryWindow(window=window):
            return _window_kind(window)
        case InWindows():
            return Kind.WK
        case Finished():
            return Kind.MON
        case RelationScan(retroactive=retroactive):
            return Kind.STR if retroactive else Kind.MON
        case Derived() | Resample():
            return Kind.MON
        case AntiJoin() | ExceptAll() | Top():
            return Kind.STR
        case Over(appends=appends) | AsofJoin(appends=appends):
            return Kind.MON if appends else Kind.STR
        case GroupAggregate(child=child):
            return Kind.MON if _all_internal(child) else Kind.STR
        case RelationJoin(child=child):
            return Kind.STR if node.retroactive else kind_of(child)
        case Join() | UnionAll() | Distinct():
            return max(kind_of(child) for child in node.children())
        case Output(kind=OutputKind.ISTREAM | OutputKind.DSTREAM):
            return Kind.MON
    return kind_of(node.children()[0])


def _window_kind(window: Window) -> Kind:
    if window.internal:
        return Kind.MON
    if window.counts_rows:
        return Kind.STR
    return Kind.MON if window.lifetime is None else Kind.WK


def _all_internal(node: Node) -> bool:
    return all(window.internal for _, window in _windows(node))


def _windows(node: Node) -> Iterator[tuple[Node, Window]]:
    """The windows a node looks through, not those below the window of a sub-query."""
    if isinstance(node, InWindows | Finished):
        yield node, Now() if isinstance(node, InWindows) else Unbounded()
        return
    if isinstance(node, StreamScan | SubqueryWindow):
        yield node, node.window
        return
    if isinstance(node, Derived):
        return
    for child in node.children():
        yield from _windows(child)


# ── the restrictions ──────────────────────────────────────────────────────────────────────


def _check_derived(context: BindingContext, node: Derived) -> None:
    """A derived stream has slides of its own, and tells answers whose rows come and go."""
    _check_slides(context, node.child)
    if node.restore and not any(window.slide for _, window in _windows(node.child)):
        raise context.error_for(
            node,
            f"{node.kind.value}-restore needs windows with SLIDE",
            "without a slide every result is reported anyway: use the plain form",
        )


def _check_monotonic(context: BindingContext, node: SubqueryWindow) -> None:
    if node.wstream or kind_of(node.child) is Kind.MON:
        return
    taking = Distinct | AntiJoin | ExceptAll | Top | Over | AsofJoin
    strict = any(isinstance(below, taking) for below in node.child.walk())
    raise context.error_for(
        _culprit(node.child),
        "a window over a sub-query needs results that never expire, but these do",
        "put the window on the stream: DISTINCT, LIMIT, negation, OVER and ASOF over a window "
        "withdraw results"
        if strict
        else "add INTERNAL to the windows inside the sub-query, or window the stream itself",
    )


def _culprit(node: Node) -> Node:
    """The lowest operator that makes results expire."""
    while True:
        worse = next((child for child in node.children() if kind_of(child) is not Kind.MON), None)
        if worse is None:
            return node
        node = worse


def _check_decay(context: BindingContext, node: GroupAggregate, output: Output) -> None:
    """Decayed sums stand alone over all rows of one stream, and are asked by its refreshes."""
    others = [call for call in node.aggregates if not is_decayed(call)]
    if others:
        raise context.error_for(
            node,
            f"{aggregate_text((), others[:1], None)} does not fade, as the decayed sum beside it",
            "compute it in a query of its own",
        )
    below: Node = node.child
    while isinstance(below, Select | Project):
        below = below.child
    window = below.window if isinstance(below, StreamScan) else None
    slides = window is not None and window.slide is not None and window.slide.period
    if not isinstance(window, Unbounded) or window.internal or not slides:
        raise context.error_for(
            below,
            "decayed sums are over all rows of one stream, which fade and leave no window",
            "write FROM s [UNBOUNDED SLIDE 1 MIN]: they are answered at every refresh",
        )
    if output.restore:
        raise context.error_for(
            output,
            "a decayed sum differs at every instant between refreshes",
            "leave -restore out",
        )


def _check_external(context: BindingContext, node: Node) -> None:
    """DISTINCT, LIMIT and negation over internal windows would keep results that have to go."""
    words = {Distinct: "DISTINCT", Top: "LIMIT", Over: "OVER", AsofJoin: "ASOF JOIN"}
    word = words.get(type(node), "a negation")
    for scan, window in _windows(node):
        if window.internal:
            raise context.error_for(
                scan,
                f"{word} cannot work over an INTERNAL window: results that have to go would stay",
                "remove INTERNAL here",
            )


def _check_relation_input(context: BindingContext, node: RelationJoin | PaddedNrrJoin) -> None:
    if kind_of(node.child) is Kind.STR:
        raise context.error_for(
            node.relation,
            "this join would have to undo results after the relation has changed: "
            "its other input loses rows at times that are not known before",
            "join it in the sub-query, before the aggregate or negation; a ROWS window has no place"
            " where it could be joined",
        )


def _check_slides(context: BindingContext, node: Node) -> None:
    """All windows that are refreshed together share slide and origin."""
    windows = list(_windows(node))
    if not windows:
        return
    first, *others = windows
    for scan, window in others:
        if window.slide != first[1].slide:
            mine = window.slide.cql() if window.slide else "no SLIDE"
            theirs = first[1].slide.cql() if first[1].slide else "no SLIDE"
            raise context.error_for(
                scan,
                f"this window has {mine}, an earlier one has {theirs}",
                "all windows of a query share one SLIDE and origin, or have none",
            )
    if others and first[1].slide and first[1].slide.rows:
        raise context.error_for(
            others[0][0],
            "SLIDE n ROWS moves with the rows of one stream",
            "use it in queries over one window, or slide by time",
        )
    for scan, _ in windows:
        if isinstance(scan, SubqueryWindow | InWindows | Finished):
            _check_slides(context, scan.child)
