"""Which names a block may use, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from mayfly.cql.messages import CqlError, SourceText, listing, suggestion
from mayfly.cql.places import error_on
from mayfly.plan.expressions import Column, Expression, FieldAccess, Function
from mayfly.plan.finished_windows import END
from mayfly.plan.logical_operators import Node


class Aliases:
    """Hands out aliases that are unique in a whole query, whatever the case of the letters."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used: set[str] = {"", *(name.casefold() for name in used)}
        self._numbers: dict[str, int] = {}

    def fresh(self, base: str) -> str:
        name, number = base, self._numbers.get(base, 1)
        while name.casefold() in self._used:
            number += 1
            name = f"{base}_{number}"
        self._numbers[base] = number
        self._used.add(name.casefold())
        return name


@dataclass(frozen=True)
class Item:
    """One entry of FROM: the name the text uses for it, and the plan that produces its rows."""

    name: str
    node: Node
    nameless: Mapping[str, Column] = field(default_factory=dict)
    """Aggregates without a name of a sub-query, by the column they aggregate: SUM(a) is an ``a``
    where nothing else is (thesis 3.4)."""
    order: tuple[Column, ...] = ()
    """What the rows of a stream are ordered by, its time first."""

    def column(self, name: str) -> Column | None:
        folded = name.casefold()
        return self._columns.get(folded) or self.nameless.get(folded)

    @cached_property
    def _columns(self) -> dict[str, Column]:
        """By name, the first of a name."""
        return {column.name.casefold(): column for column in reversed(self.node.schema)}

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.node.schema]


@dataclass(frozen=True)
class Merged:
    """A column of several entries that USING or NATURAL made one: its value, and whose it is."""

    name: str
    value: Expression
    entries: frozenset[str]

    def hides(self, item: Item) -> bool:
        return item.name in self.entries


@dataclass(frozen=True)
class Scope:
    """The entries of a block's FROM; ``outer`` is the block around a NOT EXISTS or NOT IN.

    ``closed`` says why names of the outer block may be recognised, but not used.
    """

    source: SourceText
    items: tuple[Item, ...]
    outer: Scope | None = None
    closed: str = ""
    merged: tuple[Merged, ...] = ()
    values: dict[str, Expression] = field(default_factory=dict, compare=False)
    """What queries used as values stand for, by the names they were given."""

    def merged_column(self, name: str) -> Merged | None:
        folded = name.casefold()
        return next((each for each in self.merged if each.name.casefold() == folded), None)

    def has_column(self, name: str) -> bool:
        return any(item.column(name) for item in self.items)

    def knows(self, node: exp.Column | exp.Dot) -> bool:
        """Whether a name means something of these entries."""
        return self._find(node, _parts(self.source, node)) is not None

    def resolve(self, node: exp.Column | exp.Dot) -> Expression:
        """The column, or member of a struct column, that a dotted name means."""
        parts = _parts(self.source, node)
        match = self._find(node, parts)
        if match is None and self.outer is not None:
            match = self.outer._find(node, parts)
            if match is not None and self.closed:
                name = ".".join(parts)
                raise error_on(
                    self.source, node, f"{name} belongs to the query around this one", self.closed
                )
        if match is None:
            raise self._unknown(node, parts)
        expression: Expression = match[0]
        for name in match[1]:
            expression = self.member(node, expression, name)
        return expression

    def stream_order(self) -> tuple[Expression, ...]:
        """What rows are ordered by: of several streams by the latest of their times first."""
        orders = [item.order for item in self.items if item.order]
        if len(orders) <= 1:
            return orders[0] if orders else ()
        times = tuple(order[0] for order in orders)
        if any(time.type != times[0].type for time in times):
            return ()
        nullable = all(time.nullable for time in times)
        came = Function("greatest", times, times[0].type, nullable)
        return (came, *(column for order in orders for column in order))

    def _find(self, node: exp.Expr, parts: list[str]) -> tuple[Expression, list[str]] | None:
        for item in self.items:
            if len(parts) > 1 and item.name.casefold() == parts[0].casefold():
                column = item.column(parts[1])
                if column is not None:
                    return column, parts[2:]
        same = self.merged_column(parts[0])
        matches = [
            (item, column)
            for item in self.items
            if (column := item.column(parts[0])) and not (same and same.hides(item))
        ]
        if same and not matches:
            return same.value, parts[1:]
        if len(parts) > 1:
            matches = [(i, c) for i, c in matches if c.type.name == "struct"]
        if len(matches) > 1 or (same and matches):
            owners = [item for item in self.items if same and same.hides(item)]
            matches += [(item, column) for item in owners if (column := item.column(parts[0]))]
            choices = [f"{item.name}.{column.name}" for item, column in matches]
            raise error_on(
                self.source,
                node,
                f"{parts[0]} is ambiguous: {listing(choices)} have that name",
                f"write {listing(choices, 'or')}",
            )
        return (matches[0][1], parts[1:]) if matches else None

    def _unknown(self, node: exp.Expr, parts: list[str]) -> CqlError:
        distant = self.outer.outer if self.outer else None
        if distant is not None and distant._find(node, parts):
            return error_on(
                self.source,
                node,
                f"{'.'.join(parts)} belongs to a query further out",
                "a sub-query may use names of the query directly around it only",
            )
        item = self._item(parts[0]) if len(parts) > 1 else None
        if item is not None:
            hint = suggestion(parts[1], item.names, f"columns of {item.name}")
            return error_on(self.source, node, f"{item.name} has no column {parts[1]}", hint)
        plain = next((c for i in self.items if (c := i.column(parts[0]))), None)
        if len(parts) > 1 and plain is not None:
            problem = f"{plain.name} is {plain.type}, it has no members"
            return error_on(self.source, node, problem, "only a struct has members")
        if len(parts) > 1:
            hint = suggestion(parts[0], [i.name for i in self.items], "names in FROM")
            return error_on(self.source, node, f"nothing in FROM is called {parts[0]}", hint)
        if parts[0].upper() in ("STREAM", "IRSTREAM"):
            problem = f"{parts[0].upper()} is not in the language"
            hint = "leave it out: a query is continuous; Istream(…) and Dstream(…) send changes"
            return error_on(self.source, node, problem, hint)
        names = list(dict.fromkeys(name for i in self.items for name in i.names))
        hint = suggestion(parts[0], names, "columns")
        if parts[0].casefold() == "window_time" and END in names:
            hint = (
                f"write {END}, which is the time of what a window gives; windows may be built on it"
            )
        return error_on(self.source, node, f"there is no column {parts[0]}", hint)

    def _item(self, name: str) -> Item | None:
        items = (*self.items, *(self.outer.items if self.outer else ()))
        return next((i for i in items if i.name.casefold() == name.casefold()), None)

    def member(self, node: exp.Expr, parent: Expression, name: str) -> Expression:
        if parent.type.name != "struct":
            raise error_on(
                self.source, node, f"{parent.type} has no member {name}", "only a struct has"
            )
        for label, kind in parent.type.fields:
            if label.casefold() == name.casefold():
                return FieldAccess(parent, label, data_type=kind)
        members = [label for label, _ in parent.type.fields]
        raise error_on(
            self.source,
            node,
            f"the struct has no member {name}",
            suggestion(name, members, "members"),
        )


def _parts(source: SourceText, node: exp.Expr) -> list[str]:
    """The names of ``a.b.c``, first to last."""
    behind: list[str] = []
    while isinstance(node, exp.Dot):
        if not isinstance(node.expression, exp.Identifier):
            raise error_on(source, node, "only names may follow a dot", "write alias.column")
        behind.append(node.expression.name)
        node = node.this
    if isinstance(node, exp.Column):
        keys = ("catalog", "db", "table", "this")
        names = [node.args[key].name for key in keys if node.args.get(key)]
        return [*names, *reversed(behind)]
    raise error_on(source, node, "only a column has members", "write alias.column.member")
