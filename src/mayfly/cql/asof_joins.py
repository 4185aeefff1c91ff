"""ASOF JOIN and FOR SYSTEM_TIME AS OF: each row with the closest row of another input.

``L ASOF JOIN R MATCH_CONDITION (R.t <= L.t) ON L.k = R.k``, or with the comparison in ON. Over
unbounded streams and their own times a result is final when its instant is closed, as long as the
partner comes before the row; otherwise the join is a view of the rows alive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.cql.join_binder import conjuncts_of, split_equalities
from mayfly.cql.over_parser import ASOF_FORM
from mayfly.cql.restrictions import kind_of
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Item, Scope
from mayfly.cql.stream_time import is_column, stream_time, tie_order
from mayfly.patterns import Kind
from mayfly.plan.expressions import Compare, Expression
from mayfly.plan.logical_operators import Node, RelationScan
from mayfly.plan.over_frames import AsofJoin, Match
from mayfly.plan.plan_text import expression_text

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def is_asof(join: exp.Expr) -> bool:
    return join.args.get("method") == "ASOF" or _version(join) is not None


def _version(join: exp.Expr) -> exp.Expr | None:
    version = join.this.meta.get("version")
    return version if isinstance(version, exp.Expr) else None


def check_asof(context: BindingContext, join: exp.Expr) -> None:
    """Refuse forms that have no meaning."""
    side, kind = join.args.get("side") or "", join.args.get("kind") or ""
    if join.args.get("method") == "NATURAL" or (kind and kind not in ("INNER", "OUTER")):
        raise context.error(join, f"{kind or 'NATURAL'} cannot be combined with ASOF", ASOF_FORM)
    if side in ("RIGHT", "FULL"):
        hint = (
            "turn it around: r LEFT ASOF JOIN s MATCH_CONDITION (s.ts <= r.ts) ON s.k = r.k"
            if side == "RIGHT"
            else "write LEFT ASOF JOIN: rows of the right side have no place of their own"
        )
        raise context.error(join, f"{side} ASOF JOIN is not in the language", hint)
    if join.args.get("on") is None and not join.args.get("using"):
        raise context.error(join, "ASOF JOIN needs ON or USING", ASOF_FORM)


@dataclass(frozen=True)
class AsofBinder:
    """One ASOF join: what comes before it, and its right side."""

    context: BindingContext
    join: exp.Expr
    scope: Scope
    """All entries, the right one last."""

    @property
    def _right(self) -> Item:
        return self.scope.items[-1]

    def bound(self, left: Node, same: list[Expression]) -> Node:
        """The join; ``same`` are the conditions of USING."""
        right, binder = self._right.node, ScalarBinder(self.context.source, self.scope, "ON")
        self._check_streams(left, right)
        terms = [binder.condition(part) for part in conjuncts_of(self.join.args.get("on"))]
        sides = [frozenset(column.relation for column in node.schema) for node in (left, right)]
        equalities, rest = split_equalities([*same, *terms], sides)
        match, times = self._match(binder, rest, sides)
        if not equalities:
            problem = "ASOF JOIN needs an equality between both sides"
            raise self.context.error(self.join, problem, ASOF_FORM)
        own = Scope(self.context.source, (self._right,))
        obstacle = self._obstacle(left, right, match, times)
        because = obstacle or "its partner came before it, and neither expires"
        return AsofJoin(
            left, right, equalities, match, *times, tie_order(self.context, own, right),
            self.join.args.get("side") == "LEFT", not obstacle, because,
            position=self.context.position(self.join),
        )  # fmt: skip

    def _check_streams(self, left: Node, right: Node) -> None:
        for node in (left, right):
            if isinstance(node, RelationScan) and not self.context.one_time:
                word = "relation" if node.retroactive else "NRR"
                hint = f"write JOIN {node.relation} FOR SYSTEM_TIME AS OF s.ts ON …"
                problem = f"ASOF JOIN is between streams, and {node.alias} is a {word}"
                raise self.context.error(self.join, problem, hint)

    def _match(
        self, binder: ScalarBinder, rest: list[Expression], sides: list[frozenset[str]]
    ) -> tuple[Match, tuple[Expression, Expression]]:
        place = self.join.args.get("match_condition")
        version = _version(self.join)
        if version is not None:
            if rest or place is not None:
                raise (
                    self._stray(rest[0])
                    if rest
                    else self.context.error(
                        self.join, "FOR SYSTEM_TIME AS OF says which row is meant", ASOF_FORM
                    )
                )
            return self._as_of(binder.bind(version), sides)
        if place is not None:
            if rest:
                raise self._stray(rest[0])
            rest = [binder.condition(part) for part in conjuncts_of(place)]
        comparisons = [
            term
            for term in rest
            if isinstance(term, Compare)
            and term.op in _TURNED
            and all(part.relations() for part in (term.left, term.right))
        ]
        others = [term for term in rest if term not in comparisons]
        if others:
            raise self._stray(others[0])
        if len(comparisons) != 1:
            problem = f"ASOF JOIN compares one pair of times, not {len(comparisons)}"
            raise self.context.error(place or self.join, problem, ASOF_FORM)
        (term,) = comparisons
        if term.left.relations() <= sides[0] and term.right.relations() <= sides[1]:
            return Match(_TURNED[term.op]), (term.left, term.right)
        if term.left.relations() <= sides[1] and term.right.relations() <= sides[0]:
            return Match(term.op), (term.right, term.left)
        problem = "the comparison of ASOF JOIN is between a value of each side"
        raise self.context.error(place or self.join, problem, ASOF_FORM)

    def _stray(self, term: Expression) -> Exception:
        problem = f"ASOF JOIN cannot check {expression_text(term)}"
        hint = "put a condition on one side into a sub-query, one on the result into WHERE"
        if isinstance(term, Compare) and term.op == "=" and term.left.relations():
            hint = "put what is equal into ON, and <=, <, >= or > of two times into MATCH_CONDITION"
        return self.context.error(self.join, problem, hint)

    def _as_of(
        self, moment: Expression, sides: list[frozenset[str]]
    ) -> tuple[Match, tuple[Expression, Expression]]:
        time = stream_time(self.context, self._right.node)
        if time is None:
            problem = f"{self._right.name} has a window: FOR SYSTEM_TIME AS OF reads a whole stream"
            hint = "leave the window out, or write ASOF JOIN … MATCH_CONDITION"
            raise self.context.error(self.join, problem, hint)
        if not moment.relations() <= sides[0]:
            problem = "FOR SYSTEM_TIME AS OF names a time of the rows before it"
            raise self.context.error(self.join, problem, "write FOR SYSTEM_TIME AS OF s.ts")
        if moment.type != time.type:
            problem = f"{time.name} is {time.type}, and FOR SYSTEM_TIME AS OF is {moment.type}"
            raise self.context.error(self.join, problem, "CAST it")
        return Match.AT_OR_BEFORE, (moment, time)

    def _obstacle(
        self, left: Node, right: Node, match: Match, times: tuple[Expression, Expression]
    ) -> str:
        """Why later rows may change a result; nothing if they may not."""
        if self.context.one_time:
            return "the rows of one instant are asked for"
        if not match.backward:
            return f"its partner may come later ({match.value})"
        for node, time in zip((left, right), times, strict=True):
            own = stream_time(self.context, node)
            if own is None:
                expire = kind_of(node) is not Kind.MON
                return "rows of a side expire" if expire else "a side is not one stream, as it came"
            if not is_column(time, own):
                return f"{expression_text(time)} is not {own.name}, the time of its stream"
        return ""


def reads_version(join: exp.Expr, item: Item) -> bool:
    """Whether a relation is joined as it was at an instant."""
    return _version(join) is not None and isinstance(item.node, RelationScan)


def read_as_of(
    context: BindingContext, join: exp.Expr, before: list[Item], item: Item, binder: ScalarBinder
) -> Item:
    """A relation FOR SYSTEM_TIME AS OF the time of the rows before it is read as an NRR."""
    version, node = _version(join), item.node
    if version is None or not isinstance(node, RelationScan):
        return item
    if join.args.get("match_condition") is not None:
        hint = "leave MATCH_CONDITION out"
        raise context.error(join, "FOR SYSTEM_TIME AS OF says which version is meant", hint)
    moment = binder.bind(version)
    moving = [entry.node for entry in before if not isinstance(entry.node, RelationScan)]
    times = [stream_time(context, entry, windows=True) for entry in moving]
    if len(times) != 1 or times[0] is None or not is_column(moment, times[0]):
        names = [time.name for time in times if time is not None]
        problem = "FOR SYSTEM_TIME AS OF takes the time of the one stream before it"
        hint = f"write FOR SYSTEM_TIME AS OF {names[0] if len(names) == 1 else 's.ts'}"
        raise context.error(join, problem, hint)
    return replace(item, node=replace(node, retroactive=False))
