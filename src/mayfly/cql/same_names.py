"""Names that mean more than one column: USING, NATURAL JOIN, and aliases of the SELECT list.

USING and NATURAL make one column of those they equate: the left one, the right one behind RIGHT
JOIN, whichever is not NULL behind FULL JOIN; ``*`` shows it once, in front. An alias means its
expression in later items of SELECT, in GROUP BY and in HAVING, where no input column has that name
(as in Spark SQL).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from mayfly.cql import functions
from mayfly.cql.context import BindingContext
from mayfly.cql.messages import suggestion
from mayfly.cql.places import error_on
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Item, Merged, Scope
from mayfly.plan.expressions import Column, Compare, Expression

MOST_PARTS = 5_000
"""Of an expression in which aliases stand for what they mean: aliases of aliases multiply."""


# ── USING and NATURAL JOIN ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class SameColumns:
    """Two columns of one name that a join equates."""

    left: Expression
    right: Column
    left_entries: frozenset[str]

    def condition(self, binder: ScalarBinder, place: exp.Expr) -> Expression:
        return Compare("=", *binder.alike(place, self.left, self.right, "USING"))


def merged_pairs(
    context: BindingContext, join: exp.Expr, before: Scope, item: Item
) -> list[SameColumns]:
    """What USING or NATURAL equates: columns of the entries before with those of an entry."""
    places = join.args.get("using") or []
    names = [place.name for place in places]
    if join.args.get("method") == "NATURAL":
        offered = dict.fromkeys(name for entry in before.items for name in entry.names)
        names = [name for name in offered if item.column(name)]
        places = [join] * len(names)
        if not names:
            problem = f"{item.name} shares no column with what comes before it"
            raise context.error(join, problem, "write JOIN … ON a.x = b.y, or CROSS JOIN")
    return [
        _pair(context, place, name, before, item) for place, name in zip(places, names, strict=True)
    ]


def _pair(
    context: BindingContext, place: exp.Expr, name: str, before: Scope, item: Item
) -> SameColumns:
    right = item.column(name)
    if right is None or not before.has_column(name):
        offered = [own for entry in before.items for own in entry.names if item.column(own)]
        whose = item.name if right is None else "what comes before it"
        hint = suggestion(name, dict.fromkeys(offered), "columns of both sides")
        raise context.error(place, f"{whose} has no column {name}", hint)
    same = before.merged_column(name)
    owners = frozenset(entry.name for entry in before.items if entry.column(name))
    column = exp.column(name)
    column.meta.update(place.meta)
    left = before.resolve(column)
    return SameColumns(left, right, same.entries if same else owners)


def after_join(
    merged: tuple[Merged, ...], pairs: Sequence[SameColumns], side: str, item: Item
) -> tuple[Merged, ...]:
    """The columns that are one behind a join."""
    if side in ("RIGHT", "FULL"):
        merged = tuple(replace(same, value=_nullable(same.value)) for same in merged)
    for pair in pairs:
        left, right = pair.left, pair.right
        value: Expression = right if side == "RIGHT" else left
        if side == "FULL":
            value = functions.call("coalesce", [_nullable(left), _nullable(right)])
        same = Merged(right.name, value, pair.left_entries | {item.name})
        others = tuple(m for m in merged if m.name.casefold() != right.name.casefold())
        merged = (*others, same)
    return merged


def _nullable(expression: Expression) -> Expression:
    return expression.transform(
        lambda part: replace(part, may_be_null=True) if isinstance(part, Column) else part
    )


# ── aliases ───────────────────────────────────────────────────────────────────────────────


def with_aliases_meant(scope: Scope, place: exp.Expr, outputs: Sequence[exp.Expr]) -> exp.Expr:
    """An expression in which aliases of outputs are the expressions they stand for."""

    def is_strange(part: exp.Expr) -> bool:
        """Whether a name is none of the input's."""
        return isinstance(part, exp.Column) and not (part.table or scope.has_column(part.name))

    walked = place.walk(prune=lambda part: isinstance(part, exp.Query))
    strange = [part for part in walked if is_strange(part)]
    if not strange:  # so that a list of outputs is not gone through for each of them
        return place
    meaning = {
        output.alias.casefold(): output.unalias()
        for output in reversed(outputs)
        if isinstance(output, exp.Alias)
    }
    uses = [part for part in strange if part.name.casefold() in meaning]
    if not uses:
        return place
    parts = sum(1 for use in uses for _ in meaning[use.name.casefold()].walk())
    if parts > MOST_PARTS:
        hint = "compute some of them in a sub-query"
        raise error_on(scope.source, place, "aliases of aliases make this too long", hint)
    written = place.copy()
    for part in list(written.find_all(exp.Column)):
        if is_strange(part) and part.name.casefold() in meaning:
            earlier = [output for output in outputs if output.args.get("alias")]
            number = [output.alias.casefold() for output in earlier].index(part.name.casefold())
            inner = with_aliases_meant(scope, meaning[part.name.casefold()], earlier[:number])
            meant = exp.Paren(this=inner.copy())
            meant.meta.update(part.meta)
            if part is written:
                return meant
            part.replace(meant)
    return written
