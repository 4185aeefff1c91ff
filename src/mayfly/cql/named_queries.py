"""Queries that FROM reads by name: WITH, views, and queries declared before.

Each is planned once in a whole query, however often it is read. Read once, it is what a sub-query
in its place would be; read more often it stays one part, ``Shared``, that is computed once. A plan
is a tree, so copies of copies multiply: their number is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from mayfly.cql.context import BindingContext, NamedQuery
from mayfly.display import counted
from mayfly.plan.alias_names import with_aliases
from mayfly.plan.catalog import QueryDefinition, ViewDefinition
from mayfly.plan.derived_stream import Derived
from mayfly.plan.logical_operators import (
    Named,
    Node,
    Output,
    OutputKind,
    Position,
    Project,
    Shared,
    Sort,
    Top,
)

if TYPE_CHECKING:
    from mayfly.cql.from_clause import BindQuery


def with_common_queries(
    context: BindingContext, tree: exp.Expr, bind_query: BindQuery
) -> BindingContext:
    """The context in which a query with WITH is bound: each name is seen by those behind it."""
    clause, own = tree.args.get("with_"), set[str]()
    for part in clause.expressions if clause is not None else []:
        key = part.alias.casefold()
        if key in own:
            problem = f"two queries of WITH are called {part.alias}"
            raise context.error(part.args["alias"], problem, "give each its own name")
        own.add(key)
        inside = replace(context, recursive=context.recursive | {key})
        node = bind_query(inside, part.this, context.aliases.fresh(f"with_{part.alias}"))
        names = column_names(context, part, node)
        named = NamedQuery(part.alias, node, names)
        context = replace(context, common={**context.common, key: named})
    return context


def column_names(context: BindingContext, place: exp.Expr, node: Node) -> tuple[str, ...]:
    """What ``name(a, b)`` calls the columns; by default their own names."""
    alias = place.args.get("alias")
    listed = (alias.args.get("columns") or []) if alias is not None else []
    if alias is None or not listed:
        return tuple(column.name for column in node.schema)
    if len(listed) != len(node.schema):
        columns, names = counted(len(node.schema), "column"), counted(len(listed), "name")
        problem = f"{place.alias} has {columns}, but {names}"
        raise context.error(alias, problem, "name every column, or none")
    return tuple(name.name for name in listed)


def named_query(context: BindingContext, place: exp.Expr) -> NamedQuery | None:
    """What FROM means by a name, if that is a query."""
    key = place.name.casefold()
    if key in context.common:
        return context.common[key]
    entry = context.catalog.lookup(place.name)
    is_answer = isinstance(entry, QueryDefinition) and entry.plan.kind is OutputKind.VIEW
    if not is_answer and not isinstance(entry, ViewDefinition):
        return None
    assert isinstance(entry, QueryDefinition | ViewDefinition)
    if key not in context.inlined:
        node = _fresh(context, _rows_of(entry.plan), entry.name, context.position(place))
        names = tuple(column.name for column in node.schema)
        context.inlined[key] = NamedQuery(entry.name, node, names)
    return context.inlined[key]


def _rows_of(plan: Output) -> Node:
    """What a name stands for: an answer, or of a derived stream what the operator says of it."""
    if plan.kind is OutputKind.VIEW:
        return plan.child
    answer = plan.child
    if isinstance(answer, Sort):
        # Tuples of a stream go by their values; only LIMIT says which there are.
        limit, offset = answer.limit, answer.offset
        answer = answer.child if limit is None else Top(answer.child, answer.keys, limit, offset)
    return Derived(answer, plan.kind, plan.restore)


def _fresh(context: BindingContext, plan: Node, name: str, position: Position) -> Node:
    """A plan of another text, under aliases of its own in this one."""
    own = {alias for node in plan.walk() for alias in _aliases(node)}
    names = {alias: context.aliases.fresh(alias or f"view_{name}") for alias in sorted(own)}
    renamed: Node = with_aliases(plan, names)
    return renamed.transform(lambda node: replace(node, position=position))


def _aliases(node: Node) -> Iterator[str]:
    alias = getattr(node, "alias", None)
    if isinstance(alias, str):
        yield alias


def read_by_name(context: BindingContext, place: exp.Expr, named: NamedQuery, alias: str) -> Node:
    """The rows of a named query, as columns of an alias."""
    context.check_size(place, named.node)
    outputs = zip(named.columns, named.node.schema, strict=True)
    listed = tuple(Named(name, column) for name, column in outputs)
    position = context.position(place)
    return Project(
        Shared(named.node, named.name, position=position), listed, alias, position=position
    )


def inlined(output: Output) -> Output:
    """The plan with what is read once in the place where it is read."""
    uses = Counter(id(node.child) for node in output.walk() if isinstance(node, Shared))
    plan = _inlined(output, uses)
    assert isinstance(plan, Output)
    return plan


def _inlined(node: Node, uses: Counter[int]) -> Node:
    match node:
        case Project(child=Shared(child=child), outputs=outputs, alias=alias) if (
            uses[id(child)] == 1
        ):
            inner = _inlined(child, uses)
            if tuple(output.name for output in outputs) != tuple(c.name for c in inner.schema):
                return replace(node, child=inner)
            renamed: Node = with_aliases(inner, {inner.schema[0].relation: alias})
            return renamed
    children = node.children()
    rebuilt = tuple(_inlined(child, uses) for child in children)
    same = all(old is new for old, new in zip(children, rebuilt, strict=True))
    return node if same else node.with_children(rebuilt)


def recursion_hint(context: BindingContext, name: str) -> str:
    """What to say where a query of WITH reads itself."""
    if name.casefold() not in context.recursive:
        return ""
    return "WITH is not recursive: a query of it sees those before it only"
