"""Bound expressions: small immutable trees with a type on every node.

Their meaning is Spark SQL's in ANSI mode; ``sql()`` writes them as Spark SQL text. The binder
has already made every implicit conversion an explicit ``Cast``, so both sides of a comparison
have one type. Kernels evaluate only what ``is_kernel_expression`` admits; the rest runs in
Spark SQL before or after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import ClassVar, TypeAlias

from mayfly.plan.types import BIGINT, BOOLEAN, STRING, DataType, is_widening
from mayfly.plan.window_kinds import instant_literal

Value: TypeAlias = bool | int | float | Decimal | str | bytes | date | None
"""A literal's value; timestamps and day-time intervals are ints of µs, years-months of months."""

Naming: TypeAlias = Callable[["Column"], str]
"""How ``sql()`` writes a column reference."""


def quoted(name: str) -> str:
    """A name in backticks, as Spark SQL quotes it."""
    return f"`{name.replace('`', '``')}`"


def qualified(column: Column) -> str:
    """The default naming: `relation`.`name`, or `name` where there is no relation."""
    own = quoted(column.name)
    return f"{quoted(column.relation)}.{own}" if column.relation else own


@dataclass(frozen=True)
class Expression:
    """One node; subclasses give ``type`` and ``nullable`` and name their operands."""

    operands: ClassVar[tuple[str, ...]] = ()

    @property
    def type(self) -> DataType:
        return BOOLEAN

    @property
    def nullable(self) -> bool:
        return any(child.nullable for child in self.children())

    def children(self) -> tuple[Expression, ...]:
        expressions: list[Expression] = []
        for name in self.operands:
            value = getattr(self, name)
            expressions.extend(value if isinstance(value, tuple) else [value] if value else [])
        return tuple(expressions)

    def with_children(self, children: tuple[Expression, ...]) -> Expression:
        """The same node over other operands, given in the order of ``children()``."""
        rest = iter(children)
        changed: dict[str, object] = {}
        for name in self.operands:
            value = getattr(self, name)
            if isinstance(value, tuple):
                changed[name] = tuple(next(rest) for _ in value)
            elif value is not None:
                changed[name] = next(rest)
        return replace(self, **changed)

    def sql(self, naming: Naming = qualified) -> str:
        """Spark SQL text of this expression."""
        raise TypeError(f"{type(self).__name__} has no text")

    def walk(self) -> Iterator[Expression]:
        """This node and everything below it, parents first."""
        yield self
        for child in self.children():
            yield from child.walk()

    def columns(self) -> tuple[Column, ...]:
        """The columns it reads, each once, in order of appearance."""
        return tuple(dict.fromkeys(node for node in self.walk() if isinstance(node, Column)))

    def relations(self) -> frozenset[str]:
        """The aliases it reads from."""
        return frozenset(column.relation for column in self.columns())

    def transform(self, change: Callable[[Expression], Expression]) -> Expression:
        """Rebuilt bottom-up with ``change`` applied to every node."""
        children = self.children()
        rebuilt = tuple(child.transform(change) for child in children)
        return change(self if rebuilt == children else self.with_children(rebuilt))


@dataclass(frozen=True)
class Column(Expression):
    """A column of an alias; ``relation`` is "" for the columns of the outermost result."""

    relation: str
    name: str
    data_type: DataType
    may_be_null: bool = True

    @property
    def type(self) -> DataType:
        return self.data_type

    @property
    def nullable(self) -> bool:
        return self.may_be_null

    def sql(self, naming: Naming = qualified) -> str:
        return naming(self)


@dataclass(frozen=True)
class Literal(Expression):
    """A constant."""

    value: Value
    data_type: DataType

    @property
    def type(self) -> DataType:
        return self.data_type

    @property
    def nullable(self) -> bool:
        return self.value is None

    def sql(self, naming: Naming = qualified) -> str:
        return literal_sql(self.value, self.data_type)


@dataclass(frozen=True)
class Compare(Expression):
    """``left op right``; op is one of = <> < <= > >= <=> (equal, NULLs too)."""

    operands = ("left", "right")
    op: str
    left: Expression
    right: Expression

    @property
    def nullable(self) -> bool:
        return self.op != "<=>" and super().nullable

    def sql(self, naming: Naming = qualified) -> str:
        return f"({self.left.sql(naming)} {self.op} {self.right.sql(naming)})"


@dataclass(frozen=True)
class Arithmetic(Expression):
    """``left op right``; op is one of + - * / % div. Unary minus is ``Function('negative')``."""

    operands = ("left", "right")
    op: str
    left: Expression
    right: Expression
    data_type: DataType

    @property
    def type(self) -> DataType:
        return self.data_type

    @property
    def nullable(self) -> bool:
        # Decimal overflow gives NULL only outside ANSI mode; division by zero is an error there.
        return super().nullable

    def sql(self, naming: Naming = qualified) -> str:
        return f"({self.left.sql(naming)} {self.op} {self.right.sql(naming)})"


@dataclass(frozen=True)
class And(Expression):
    operands = ("terms",)
    terms: tuple[Expression, ...]

    def sql(self, naming: Naming = qualified) -> str:
        return f"({' AND '.join(term.sql(naming) for term in self.terms)})"


@dataclass(frozen=True)
class Or(Expression):
    operands = ("terms",)
    terms: tuple[Expression, ...]

    def sql(self, naming: Naming = qualified) -> str:
        return f"({' OR '.join(term.sql(naming) for term in self.terms)})"


@dataclass(frozen=True)
class Not(Expression):
    operands = ("child",)
    child: Expression

    def sql(self, naming: Naming = qualified) -> str:
        return f"(NOT {self.child.sql(naming)})"


@dataclass(frozen=True)
class IsNull(Expression):
    operands = ("child",)
    child: Expression

    @property
    def nullable(self) -> bool:
        return False

    def sql(self, naming: Naming = qualified) -> str:
        return f"({self.child.sql(naming)} IS NULL)"


@dataclass(frozen=True)
class InList(Expression):
    """``child IN (choices)``; ``NOT IN`` with a list is ``Not(InList(…))``."""

    operands = ("child", "choices")
    child: Expression
    choices: tuple[Expression, ...]

    def sql(self, naming: Naming = qualified) -> str:
        listed = ", ".join(choice.sql(naming) for choice in self.choices)
        return f"({self.child.sql(naming)} IN ({listed}))"


@dataclass(frozen=True)
class Like(Expression):
    """``child LIKE pattern``; op is LIKE, ILIKE or RLIKE."""

    operands = ("child", "pattern")
    op: str
    child: Expression
    pattern: Expression
    escape: str | None = None

    def sql(self, naming: Naming = qualified) -> str:
        escape = f" ESCAPE {literal_sql(self.escape, STRING)}" if self.escape else ""
        return f"({self.child.sql(naming)} {self.op} {self.pattern.sql(naming)}{escape})"


@dataclass(frozen=True)
class Function(Expression):
    """A deterministic scalar function, named as in Spark SQL (lower case)."""

    operands = ("arguments",)
    name: str
    arguments: tuple[Expression, ...]
    data_type: DataType
    may_be_null: bool = True

    @property
    def type(self) -> DataType:
        return self.data_type

    @property
    def nullable(self) -> bool:
        return self.may_be_null

    def sql(self, naming: Naming = qualified) -> str:
        return f"{self.name}({', '.join(a.sql(naming) for a in self.arguments)})"


@dataclass(frozen=True)
class Case(Expression):
    """``CASE WHEN conditions[i] THEN results[i] … ELSE otherwise END``."""

    operands = ("conditions", "results", "otherwise")
    conditions: tuple[Expression, ...]
    results: tuple[Expression, ...]
    otherwise: Expression | None
    data_type: DataType

    @property
    def type(self) -> DataType:
        return self.data_type

    @property
    def nullable(self) -> bool:
        results = (*self.results, self.otherwise)
        return any(result is None or result.nullable for result in results)

    def sql(self, naming: Naming = qualified) -> str:
        arms = "".join(
            f" WHEN {condition.sql(naming)} THEN {result.sql(naming)}"
            for condition, result in zip(self.conditions, self.results, strict=True)
        )
        otherwise = f" ELSE {self.otherwise.sql(naming)}" if self.otherwise else ""
        return f"CASE{arms}{otherwise} END"


@dataclass(frozen=True)
class Cast(Expression):
    """``CAST(child AS type)``; with ``safe``, TRY_CAST: NULL where the value does not fit."""

    operands = ("child",)
    child: Expression
    data_type: DataType
    safe: bool = False

    @property
    def type(self) -> DataType:
        return self.data_type

    @property
    def nullable(self) -> bool:
        return self.safe or self.child.nullable

    def sql(self, naming: Naming = qualified) -> str:
        word = "TRY_CAST" if self.safe else "CAST"
        return f"{word}({self.child.sql(naming)} AS {self.data_type.sql()})"


@dataclass(frozen=True)
class FieldAccess(Expression):
    """``child.name``: one member of a struct."""

    operands = ("child",)
    child: Expression
    name: str
    data_type: DataType = field(kw_only=True)

    @property
    def type(self) -> DataType:
        return self.data_type

    @property
    def nullable(self) -> bool:
        return True

    def sql(self, naming: Naming = qualified) -> str:
        return f"{self.child.sql(naming)}.{quoted(self.name)}"


def literal_sql(value: Value, kind: DataType) -> str:
    """A constant as Spark SQL text of exactly this type."""
    if value is None:
        return f"CAST(NULL AS {kind.sql()})" if kind.name != "void" else "NULL"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    if kind.name in ("timestamp", "timestamp_ntz"):
        text = instant_literal(int(value))
        plain = text.removesuffix("+00:00")
        return f"TIMESTAMP'{text}'" if kind.name == "timestamp" else f"TIMESTAMP_NTZ'{plain}'"
    if kind.is_interval:
        return _interval_sql(int(value), kind)
    return _number_sql(value, kind)


def _interval_sql(value: int, kind: DataType) -> str:
    sign, size = ("-" if value < 0 else ""), abs(value)
    if kind.name == "interval year to month":
        return f"INTERVAL '{sign}{size // 12}-{size % 12}' YEAR TO MONTH"
    seconds, fraction = divmod(size, 1_000_000)
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}.{fraction:06d}"
    return f"INTERVAL '{sign}{days} {clock}' DAY TO SECOND"


_SUFFIX = {"tinyint": "Y", "smallint": "S", "bigint": "L", "int": ""}


def _number_sql(value: int | float | Decimal, kind: DataType) -> str:
    if kind.name in _SUFFIX:
        text = f"{int(value)}{_SUFFIX[kind.name]}"
        return f"({text})" if value < 0 else text
    if kind.name == "decimal":
        return f"CAST('{Decimal(value):f}' AS {kind.sql()})"
    return f"CAST('{float(value)!r}' AS {kind.sql()})"


def conjuncts(condition: Expression | None) -> tuple[Expression, ...]:
    """The terms of a conjunction, nested ANDs flattened; none for None."""
    if condition is None:
        return ()
    if isinstance(condition, And):
        return tuple(part for term in condition.terms for part in conjuncts(term))
    return (condition,)


def conjunction(terms: tuple[Expression, ...]) -> Expression | None:
    """The AND of all terms; None if there are none."""
    if len(terms) <= 1:
        return terms[0] if terms else None
    return And(terms)


def as_type(expression: Expression, kind: DataType) -> Expression:
    """The expression in the given type, with a cast only where one is needed."""
    if expression.type == kind:
        return expression
    if isinstance(expression, Literal):
        return _literal_as(expression, kind)
    return Cast(expression, kind)


def _literal_as(literal: Literal, kind: DataType) -> Expression:
    value = literal.value
    if value is None:
        return Literal(None, kind)
    if isinstance(value, int) and is_widening(literal.type, kind):
        return Literal(float(value) if kind.name in ("float", "double") else value, kind)
    if isinstance(value, int | Decimal) and kind.name == "decimal" and not literal.type.is_interval:
        exact = Decimal(value)
        scale = max(0, -int(exact.as_tuple().exponent))
        if scale <= kind.params[1] and abs(exact) < 10 ** (kind.params[0] - kind.params[1]):
            return Literal(exact, kind)
    return Cast(literal, kind)


LONGEST_TEXT = 1 << 24
"""How many characters functions that repeat text may make."""
KERNEL_FUNCTIONS = ("abs", "negative", "coalesce", "least", "greatest")
_KERNEL_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


def is_kernel_expression(expression: Expression) -> bool:
    """Whether kernels may evaluate it: a listed set, each member tested against Spark."""
    return all(_in_kernel_set(node) for node in expression.walk())


def _in_kernel_set(node: Expression) -> bool:
    match node:
        case Column() | Literal() | Compare() | InList():
            return not node.type.is_nested
        case And() | Or() | Not() | IsNull():
            return True
        case Arithmetic(op=op):
            return op in ("+", "-", "*") and node.type.name in _KERNEL_NUMBERS
        case Function(name=name):
            return name in KERNEL_FUNCTIONS and node.type.name in _KERNEL_NUMBERS
        case Cast(child=child, safe=False):
            return is_widening(child.type, node.type)
    return False


def searches(expression: Expression) -> bool:
    """Whether it looks for a pattern in a text."""
    return any(
        isinstance(node, Like) or (isinstance(node, Function) and node.name.startswith("regexp_"))
        for node in expression.walk()
    )


def same_number(expression: Expression) -> Expression:
    """What is cast, where that only gives a whole number another size.

    TRY_CAST is no such cast: it makes one value of many, NULL.
    """
    while (
        isinstance(expression, Cast)
        and not expression.safe
        and expression.type.is_integral
        and expression.child.type.is_integral
    ):
        expression = expression.child
    return expression


def occurrences(argument: Expression, value: Value) -> Expression:
    """What COUNT counts of an argument that is a value."""
    equal = Compare("=", argument, Literal(value, argument.type))
    return Case((equal,), (Literal(1, BIGINT),), None, BIGINT)
