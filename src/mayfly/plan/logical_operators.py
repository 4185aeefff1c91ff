"""The logical plan: immutable nodes, each with its output columns and its place in the text.

Invariants every plan keeps (the binder makes them, rewrites must preserve them):

* A column is identified by (relation, name). Aliases are unique in a whole query, so an
  expression means the same wherever it is moved. ``schema`` lists the columns a node offers.
* Scans, blocks and Unnest introduce columns; Select, Join, RelationJoin, AntiJoin, ExceptAll,
  Distinct, Top, Finished, Shared, Sort and Output hand on the columns of their inputs unchanged.
* ``Output`` is the root and occurs nowhere else. Its columns have the relation "".
* Windows sit in ``StreamScan`` and ``SubqueryWindow`` only: a Select above them filters what the
  window holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import ClassVar, TypeAlias

from mayfly.errors import InvalidSetting
from mayfly.plan.expressions import Column, Expression, Value, occurrences
from mayfly.plan.serving_terms import Isolation, ServeClause
from mayfly.plan.types import DataType
from mayfly.plan.user_aggregates import AggregateDefinition
from mayfly.plan.window_kinds import Window

Schema: TypeAlias = tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the text, counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


def check_letters(name: str) -> None:
    """Refuse a name that files cannot hold: one with half of a surrogate pair."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidSetting(
            f"the name {name!a} is not Unicode: it has half of a pair",
            "use letters that UTF-8 can write",
        ) from None


@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the name of the output column it becomes."""

    name: str
    expression: Expression

    def __post_init__(self) -> None:
        check_letters(self.name)

    def column(self, relation: str) -> Column:
        return Column(relation, self.name, self.expression.type, self.expression.nullable)


@dataclass(frozen=True)
class Node:
    """One operator."""

    inputs_of: ClassVar[tuple[str, ...]] = ()

    position: Position | None = field(default=None, compare=False, kw_only=True)

    @cached_property
    def schema(self) -> Schema:
        """The columns it offers, in order."""
        return tuple(column for child in self.children() for column in child.schema)

    def children(self) -> tuple[Node, ...]:
        nodes: list[Node] = []
        for name in self.inputs_of:
            value = getattr(self, name)
            nodes.extend(value if isinstance(value, tuple) else [value])
        return tuple(nodes)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        """The same operator over other inputs, given in the order of ``children()``."""
        rest = iter(children)
        changed: dict[str, object] = {}
        for name in self.inputs_of:
            value = getattr(self, name)
            many = isinstance(value, tuple)
            changed[name] = tuple(next(rest) for _ in value) if many else next(rest)
        return replace(self, **changed)  # type: ignore[arg-type]

    def expressions(self) -> tuple[Expression, ...]:
        """The expressions it evaluates itself."""
        return ()

    def walk(self) -> Iterator[Node]:
        """This node and everything below it, parents first."""
        yield self
        for child in self.children():
            yield from child.walk()

    def transform(self, change: Callable[[Node], Node]) -> Node:
        """Rebuilt bottom-up with ``change`` applied to every node."""
        children = self.children()
        rebuilt = tuple(child.transform(change) for child in children)
        same = all(old is new for old, new in zip(children, rebuilt, strict=True))
        return change(self if same else self.with_children(rebuilt))


@dataclass(frozen=True)
class StreamScan(Node):
    """A stream behind its window."""

    stream: str
    alias: str
    window: Window
    columns: Schema

    @cached_property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class RelationScan(Node):
    """A stored table: retroactive (RELATION) or not (NRR, thesis 3.3.1)."""

    relation: str
    alias: str
    columns: Schema
    retroactive: bool
    key: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> Schema:
        return self.columns


@dataclass(frozen=True)
class SubqueryWindow(Node):
    """A window over the append-only results of a monotonic sub-query.

    ``Wstream(…)[w]`` is the same thing written in the SELECT list; ``wstream`` remembers it.
    """

    inputs_of = ("child",)
    child: Node
    window: Window
    wstream: bool = False


@dataclass(frozen=True)
class Select(Node):
    """The tuples for which the predicate is true."""

    inputs_of = ("child",)
    child: Node
    predicate: Expression

    def expressions(self) -> tuple[Expression, ...]:
        return (self.predicate,)


@dataclass(frozen=True)
class Project(Node):
    """Computed columns, offered under ``alias``; duplicates are kept."""

    inputs_of = ("child",)
    child: Node
    outputs: tuple[Named, ...]
    alias: str = ""

    @cached_property
    def schema(self) -> Schema:
        return tuple(output.column(self.alias) for output in self.outputs)

    def expressions(self) -> tuple[Expression, ...]:
        return tuple(output.expression for output in self.outputs)


@dataclass(frozen=True)
class Equality:
    """One equi-join condition: ``left`` and ``right`` each read one input and have one type."""

    left: Expression
    right: Expression

    @property
    def type(self) -> DataType:
        return self.left.type


@dataclass(frozen=True)
class Join(Node):
    """An n-way join in the order of ``inputs``: all equalities hold and the residual is true."""

    inputs_of = ("inputs",)
    inputs: tuple[Node, ...]
    equalities: tuple[Equality, ...] = ()
    residual: Expression | None = None

    def expressions(self) -> tuple[Expression, ...]:
        return _conditions(self.equalities, self.residual)


@dataclass(frozen=True)
class RelationJoin(Node):
    """A join of windows (``child``) with a relation or NRR; equalities read child, then relation.

    The child must not be STR (thesis 3.5.3).
    """

    inputs_of = ("child", "relation")
    child: Node
    relation: Node
    equalities: tuple[Equality, ...] = ()
    residual: Expression | None = None

    @property
    def retroactive(self) -> bool:
        return any(isinstance(n, RelationScan) and n.retroactive for n in self.relation.walk())

    def expressions(self) -> tuple[Expression, ...]:
        return _conditions(self.equalities, self.residual)


@dataclass(frozen=True)
class PaddedNrrJoin(Node):
    """A LEFT JOIN with an NRR: each tuple with its partners as they were before it, or with NULLs.

    No change of the NRR changes a result, so the padding stays; the child must not be STR.
    """

    inputs_of = ("child", "relation")
    child: Node
    relation: Node
    equalities: tuple[Equality, ...] = ()
    residual: Expression | None = None

    @cached_property
    def schema(self) -> Schema:
        padded = tuple(replace(column, may_be_null=True) for column in self.relation.schema)
        return (*self.child.schema, *padded)

    def expressions(self) -> tuple[Expression, ...]:
        return _conditions(self.equalities, self.residual)


class Negation(Enum):
    """Which SQL negation an anti-join stands for: they differ on NULLs."""

    NOT_EXISTS = "NOT EXISTS"
    NOT_IN = "NOT IN"


@dataclass(frozen=True)
class AntiJoin(Node):
    """The left tuples without an alive match on the right.

    NOT EXISTS: a match satisfies all equalities and the residual, if any. NOT IN has exactly one
    equality and no residual, and SQL's NULL rules: an alive NULL on the right empties the answer.
    """

    inputs_of = ("left", "right")
    left: Node
    right: Node
    equalities: tuple[Equality, ...]
    kind: Negation = Negation.NOT_EXISTS
    residual: Expression | None = None

    @cached_property
    def schema(self) -> Schema:
        return self.left.schema

    def expressions(self) -> tuple[Expression, ...]:
        return _conditions(self.equalities, self.residual)


@dataclass(frozen=True)
class Distinct(Node):
    """One tuple per value; NULLs are equal."""

    inputs_of = ("child",)
    child: Node


@dataclass(frozen=True)
class AggregateCall:
    """``function(argument)`` over a group, offered as column ``name``.

    ``function`` is one of count, sum, avg, min, max, var_samp, stddev_samp, var_pop, stddev_pop,
    median, quantile, percentile, mode, collect_set, top, frequent, approx_frequent, or one of
    ``ordered_calls``; COUNT(*) has no argument. ``parameters``: q of QUANTILE; k of TOP; k and the
    number of sub-windows of FREQUENT, then its share and its errors, if given; how entries are
    ordered.
    """

    name: str
    function: str
    argument: Expression | None
    data_type: DataType
    distinct: bool = False
    parameters: tuple[Value, ...] = ()
    approximate: bool = False
    """Whether a sketch may answer (the APPROX_ forms)."""
    user: AggregateDefinition | None = field(default=None, compare=False)
    """What users wrote, if the function is theirs; name and types say which it is."""
    bound: str = ""
    """``low`` or ``high``: not the answer of the sketch, but what the exact one is not beyond."""

    @property
    def nullable(self) -> bool:
        return self.function not in (
            *("count", "collect_set", "collect_list", "top", "frequency"),
            *("frequent", "approx_frequent"),
        )

    @property
    def exact(self) -> AggregateCall:
        """The call that an APPROX_ form stands for."""
        if not self.approximate:
            return self
        if self.function == "frequency" and self.argument is not None:
            counted = occurrences(self.argument, self.parameters[0])
            return AggregateCall(self.name, "count", counted, self.data_type)
        own = () if self.function in ("count", "sum") else self.parameters
        return replace(self, approximate=False, bound="", parameters=own)

    def column(self, relation: str) -> Column:
        return Column(relation, self.name, self.data_type, self.nullable)


DECORRELATED = "decorrelated"
"""How the alias begins of a query used as a value that depends on the rows around it."""


@dataclass(frozen=True)
class GroupAggregate(Node):
    """One row per group (one in all without keys): the keys, then the aggregates.

    ``having`` reads the columns this node offers.
    """

    inputs_of = ("child",)
    child: Node
    keys: tuple[Named, ...]
    aggregates: tuple[AggregateCall, ...]
    alias: str
    having: Expression | None = None

    @cached_property
    def schema(self) -> Schema:
        keys = tuple(key.column(self.alias) for key in self.keys)
        return (*keys, *(call.column(self.alias) for call in self.aggregates))

    def expressions(self) -> tuple[Expression, ...]:
        arguments = tuple(call.argument for call in self.aggregates if call.argument)
        having = (self.having,) if self.having else ()
        return (*(key.expression for key in self.keys), *arguments, *having)


@dataclass(frozen=True)
class UnionAll(Node):
    """Merge union by position; all inputs have the same types, columns are offered as ``alias``,
    or as the first input calls them where that is None (outer joins)."""

    inputs_of = ("inputs",)
    inputs: tuple[Node, ...]
    alias: str | None = ""

    @cached_property
    def schema(self) -> Schema:
        columns = zip(*(child.schema for child in self.inputs), strict=True)
        return tuple(
            replace(
                same[0],
                relation=same[0].relation if self.alias is None else self.alias,
                may_be_null=any(column.nullable for column in same),
            )
            for same in columns
        )


@dataclass(frozen=True)
class ExceptAll(Node):
    """Duplicate-preserving negation by position: per value the v1 - v2 youngest left tuples."""

    inputs_of = ("left", "right")
    left: Node
    right: Node

    @cached_property
    def schema(self) -> Schema:
        return self.left.schema


@dataclass(frozen=True)
class SortKey:
    expression: Expression
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class Sort(Node):
    """An order for Rstream and one-time queries, cut after ``limit`` rows.

    Ties, and everything where there are no keys, go by the row's values, so a limit is
    deterministic. The last ``hidden`` columns of the input are there for the order alone.
    """

    inputs_of = ("child",)
    child: Node
    keys: tuple[SortKey, ...]
    limit: int | None = None
    offset: int = 0
    hidden: int = 0

    @cached_property
    def schema(self) -> Schema:
        columns = self.child.schema
        return columns[: len(columns) - self.hidden]

    def expressions(self) -> tuple[Expression, ...]:
        return tuple(key.expression for key in self.keys)


@dataclass(frozen=True)
class Top(Node):
    """Top-N: of the rows alive, ``limit`` in the order of ``keys`` behind the first ``offset``.

    Ties go by the row's values, as in ``Sort``; here, the rows are an answer that is maintained.
    """

    inputs_of = ("child",)
    child: Node
    keys: tuple[SortKey, ...]
    limit: int
    offset: int = 0

    def expressions(self) -> tuple[Expression, ...]:
        return tuple(key.expression for key in self.keys)


@dataclass(frozen=True)
class Shared(Node):
    """A named part of a query that is read more than once: WITH, a view, or an earlier query.

    Rules keep all its copies alike, so that they are computed once.
    """

    inputs_of = ("child",)
    child: Node
    name: str


class OutputKind(Enum):
    """What leaves the query: a maintained answer, its changes, or all of it at each refresh."""

    VIEW = "view"
    ISTREAM = "Istream"
    DSTREAM = "Dstream"
    RSTREAM = "Rstream"


@dataclass(frozen=True)
class Output(Node):
    """The root: how results leave. ``restore`` also reports results that died between refreshes."""

    inputs_of = ("child",)
    child: Node
    kind: OutputKind = OutputKind.VIEW
    restore: bool = False
    isolation: Isolation | None = None
    one_time: bool = False
    staleness: int | None = None
    """How old a one-time answer may be, in event time (BOUNDED STALENESS)."""
    exact_sums: bool = False
    """Whether sums of floating-point numbers are rounded once, over all rows (FLOAT SUMS EXACT)."""
    names: tuple[str, ...] = field(default=(), compare=False)
    """The views and queries that the text reads by name."""
    serve: ServeClause | None = None
    """How it is answered by a server, if not by the pipeline."""


def _conditions(
    equalities: tuple[Equality, ...], residual: Expression | None
) -> tuple[Expression, ...]:
    pairs = tuple(side for equality in equalities for side in (equality.left, equality.right))
    return (*pairs, residual) if residual else pairs
