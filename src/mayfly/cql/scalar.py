"""Binds scalar expressions: names to columns, literals to values, operators to typed nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from mayfly.cql import functions
from mayfly.cql.aggregate_functions import AGGREGATES, FOREIGN_AGGREGATES
from mayfly.cql.arithmetic import arithmetic
from mayfly.cql.literals import folded_cast, negated, number
from mayfly.cql.messages import CqlError, SourceText, closest
from mayfly.cql.places import error_on
from mayfly.cql.scope import Scope
from mayfly.cql.tokens import is_operator
from mayfly.cql.users_calls import users_aggregate
from mayfly.errors import InvalidSetting
from mayfly.plan.expressions import (
    And,
    Arithmetic,
    Case,
    Cast,
    Compare,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    as_type,
)
from mayfly.plan.types import (
    BOOLEAN,
    DATE,
    DAY_TIME_INTERVAL,
    INT,
    STRING,
    TIMESTAMP,
    VOID,
    DataType,
    common_type,
    parse_type,
)

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
}
_PATTERNS: dict[type[exp.Expr], str] = {
    exp.Like: "LIKE",
    exp.ILike: "ILIKE",
    exp.RegexpLike: "RLIKE",
}

DECLARATION = "CREATE STREAM"
"""The clause of expressions that see one row as it comes: no groups, no other inputs."""


class ScalarBinder:
    """Binds expressions over one scope; ``clause`` says where they stand, for messages."""

    def __init__(self, source: SourceText, scope: Scope, clause: str) -> None:
        self.source = source
        self.scope = scope
        self.clause = clause

    def condition(self, node: exp.Expr) -> Expression:
        """An expression that must be a condition."""
        bound = self.bind(node)
        if bound.type not in (BOOLEAN, VOID):
            raise self.error(
                node,
                f"{self.clause} needs a condition, but this is {bound.type}",
                "compare it with something",
            )
        return as_type(bound, BOOLEAN)

    def bind(self, node: exp.Expr) -> Expression:
        bound = self._bind(node)
        return Not(bound) if node.args.get("negate") else bound

    def _bind(self, node: exp.Expr) -> Expression:
        kind = type(node)
        if kind in _COMPARISONS:
            return self._compare(node, _COMPARISONS[kind])
        if kind in _ARITHMETIC:
            return self._arithmetic(node, _ARITHMETIC[kind])
        if kind in _PATTERNS:
            return self._like(node, _PATTERNS[kind])
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise self._misplaced(node)
        return handler(self, node)

    def error(self, node: exp.Expr, problem: str, hint: str) -> CqlError:
        return error_on(self.source, node, problem, hint)

    # ── operators ─────────────────────────────────────────────────────────────────────────

    def _compare(self, node: exp.Expr, op: str) -> Expression:
        left, right = self.bind(node.this), self.bind(node.expression)
        left, right = self.alike(node, left, right, op)
        return Compare(op, left, right)

    def alike(
        self, node: exp.Expr, left: Expression, right: Expression, verb: str
    ) -> tuple[Expression, Expression]:
        """Both sides in their common type; text constants become dates and instants."""
        left = self._dated(node, left, right.type)
        right = self._dated(node, right, left.type)
        kind = common_type(left.type, right.type)
        if kind is None:
            hint = f"CAST one side, for example CAST(… AS {right.type})"
            raise self.error(node, f"{verb} cannot compare {left.type} with {right.type}", hint)
        if not kind.is_comparable:
            raise self.error(
                node, f"values of type {kind} cannot be compared", "compare their members"
            )
        return as_type(left, kind), as_type(right, kind)

    def _dated(self, place: exp.Expr, side: Expression, other: DataType) -> Expression:
        """A text constant beside a date or instant is one itself."""
        temporal = other.name in ("date", "timestamp", "timestamp_ntz")
        if not (temporal and isinstance(side, Literal) and side.type == STRING):
            return side
        try:
            return folded_cast(side, other) or side
        except InvalidSetting as error:
            raise self.error(place, error.message, error.hint) from None

    def _arithmetic(self, node: exp.Expr, op: str) -> Expression:
        left, right = self.bind(node.this), self.bind(node.expression)
        bound = arithmetic(op, left, right)
        if bound is None:
            raise self.error(
                node,
                f"{left.type} {op} {right.type} has no meaning",
                "numbers go with numbers, instants with intervals; CAST one side otherwise",
            )
        return bound

    def _like(self, node: exp.Expr, op: str) -> Expression:
        text, pattern = self.bind(node.this), self.bind(node.expression)
        for side, place in ((text, node.this), (pattern, node.expression)):
            if side.type not in (STRING, VOID):
                raise self.error(place, f"{op} needs text, not {side.type}", "CAST it to STRING")
        return Like(op, text, pattern)

    def _escape(self, node: exp.Expr) -> Expression:
        escape = node.expression.name
        if len(escape) != 1 or not isinstance(node.this, exp.Like | exp.ILike):
            raise self.error(node, "ESCAPE names one character after LIKE", "write ESCAPE '!'")
        like = self._like(node.this, _PATTERNS[type(node.this)])
        assert isinstance(like, Like)
        escaped = replace(like, escape=escape)
        return Not(escaped) if node.this.args.get("negate") else escaped

    def _logical(self, node: exp.Expr) -> Expression:
        parts = tuple(self._operand(part) for part in _flattened(node, type(node)))
        return And(parts) if isinstance(node, exp.And) else Or(parts)

    def _operand(self, node: exp.Expr) -> Expression:
        bound = self.bind(node)
        if bound.type not in (BOOLEAN, VOID):
            raise self.error(
                node, f"a condition is needed here, not {bound.type}", "compare it with something"
            )
        return as_type(bound, BOOLEAN)

    def _not(self, node: exp.Expr) -> Expression:
        return Not(self._operand(node.this))

    def _not_same(self, node: exp.Expr) -> Expression:
        return Not(self._compare(node, "<=>"))

    def _negative(self, node: exp.Expr) -> Expression:
        bound = self.bind(node.this)
        constant = negated(bound) if isinstance(bound, Literal) else None
        return constant or self._call(node, "negative", [bound])

    def _is(self, node: exp.Expr) -> Expression:
        if isinstance(node.expression, exp.Null):
            return IsNull(self.bind(node.this))
        if isinstance(node.expression, exp.Boolean):
            return Compare("<=>", self._operand(node.this), self.bind(node.expression))
        raise self.error(node, "IS goes with NULL, TRUE or FALSE", "write x IS NULL")

    def _between(self, node: exp.Expr) -> Expression:
        value = self.bind(node.this)
        low, high = self.bind(node.args["low"]), self.bind(node.args["high"])
        above = Compare(">=", *self.alike(node, value, low, "BETWEEN"))
        below = Compare("<=", *self.alike(node, value, high, "BETWEEN"))
        return And((above, below))

    def _in(self, node: exp.Expr) -> Expression:
        if node.args.get("query"):
            raise self._misplaced(node)
        value = self.bind(node.this)
        choices = [
            self._dated(expression, self.bind(expression), value.type)
            for expression in node.expressions
        ]
        kind = value.type
        for choice, place in zip(choices, node.expressions, strict=True):
            common = common_type(kind, choice.type)
            if common is None or not common.is_comparable:
                problem = f"IN cannot compare {kind} with {choice.type}"
                raise self.error(place, problem, "CAST the constant, or the value before IN")
            kind = common
        return InList(as_type(value, kind), tuple(as_type(choice, kind) for choice in choices))

    def _case(self, node: exp.Expr) -> Expression:
        subject = node.args.get("this")
        conditions, results = [], []
        for arm in node.args["ifs"]:
            if subject is None:
                conditions.append(self._operand(arm.this))
            else:
                sides = self.bind(subject), self.bind(arm.this)
                conditions.append(Compare("=", *self.alike(arm, *sides, "CASE")))
            results.append(arm.args["true"])
        default = node.args.get("default")
        places = [*results, *([default] if default is not None else [])]
        bound = self._unified(places)
        otherwise = bound[-1] if default is not None else None
        arms = tuple(bound[: len(results)])
        return Case(tuple(conditions), arms, otherwise, bound[0].type)

    def _unified(self, places: list[exp.Expr]) -> list[Expression]:
        bound = [self.bind(place) for place in places]
        kind: DataType = VOID
        for place, branch in zip(places, bound, strict=True):
            common = common_type(kind, branch.type)
            if common is None:
                raise self.error(
                    place, f"CASE gives {kind} before and {branch.type} here", "CAST one"
                )
            kind = common
        return [as_type(branch, kind) for branch in bound]

    # ── casts, constants and names ────────────────────────────────────────────────────────

    def _cast(self, node: exp.Expr) -> Expression:
        child, safe = self.bind(node.this), isinstance(node, exp.TryCast)
        try:
            kind = parse_type(node.args["to"].sql(dialect="spark"))
            folded = folded_cast(child, kind) if isinstance(child, Literal) and not safe else None
        except InvalidSetting as error:
            raise self.error(node, error.message, error.hint) from None
        if folded is not None:
            return folded
        if child.type.is_nested or kind.is_nested:
            raise self.error(node, f"{child.type} cannot be cast to {kind}", "cast its members")
        return child if child.type == kind else Cast(child, kind, safe)

    def _literal(self, node: exp.Expr) -> Expression:
        if node.is_string:
            return Literal(node.name, STRING)
        constant = number(node.name)
        if constant is None:
            raise self.error(node, "this number has more than 38 digits", "write it as 1.5e40")
        return constant

    def _element(self, node: exp.Expr) -> Expression:
        """``m['k']`` is element_at; ``a[i]`` counts from 0, and there is nothing before."""
        nested, index = self.bind(node.this), self.bind(node.expressions[0])
        if nested.type.name == "array" and index.type.is_integral:
            if isinstance(index, Literal) and isinstance(index.value, int):
                place: Expression = Literal(max(index.value + 1, 0), INT)
            else:
                moved = Arithmetic("+", as_type(index, INT), Literal(1, INT), INT)
                condition = Compare(">=", index, as_type(Literal(0, INT), index.type))
                place = Case((condition,), (moved,), Literal(0, INT), INT)
            return self._call(node, "element_at", [nested, place])
        if nested.type.name not in ("array", "map"):
            problem = f"{nested.type} has no elements"
            raise self.error(node, problem, "[…] takes an element of an array or map")
        return self._call(node, "element_at", [nested, index])

    def _interval(self, node: exp.Expr) -> Expression:
        return Literal(int(node.this.name), DAY_TIME_INTERVAL)

    def _name(self, node: exp.Expr) -> Expression:
        assert isinstance(node, exp.Column | exp.Dot)
        if isinstance(node.this, exp.Star):
            raise self._misplaced(node.this)
        if isinstance(node, exp.Dot) and isinstance(node.this, exp.Bracket | exp.Dot):
            below = node.this
            while isinstance(below, exp.Dot):
                below = below.this
            if isinstance(below, exp.Bracket):
                return self.scope.member(node, self.bind(node.this), node.expression.name)
        return self.scope.resolve(node)

    def _query(self, node: exp.Expr) -> Expression:
        value = self.scope.values.get(node.meta.get("value", ""))
        if value is None:
            raise self._misplaced(node)
        return value

    def _over(self, node: exp.Expr) -> Expression:
        value = self.scope.values.get(node.meta.get("value", ""))
        if value is None:
            problem = f"a function with OVER is not allowed in {self.clause}"
            hint = "it belongs in SELECT: compute it in a sub-query and use its name here"
            raise self.error(node, problem, hint)
        return value

    def _function(self, node: exp.Expr) -> Expression:
        written = node.name.lower()
        name = functions.SYNONYMS.get(written, written)
        if name in AGGREGATES or users_aggregate(node) is not None:
            raise self.stray_aggregate(node)
        if written in ("unix_timestamp", "to_unix_timestamp") and node.expressions:
            return self._unix_timestamp(node)
        if written in functions.UNSTABLE:
            raise self.error(
                node,
                f"{written}() depends on when or where it runs",
                f"an answer must follow from the data: {functions.UNSTABLE[written]}",
            )
        if is_operator(name):
            raise self._stray_operator(node, name)
        if name == "mod" and len(node.expressions) == 2:
            left, right = node.expressions
            return self._arithmetic(exp.Mod(this=left, expression=right), "%")
        if name not in functions.FUNCTIONS:
            names = [*functions.FUNCTIONS, *functions.SYNONYMS, *AGGREGATES]
            hint = FOREIGN_AGGREGATES.get(name) or functions.FOREIGN.get(name)
            hint = hint or closest(name, names, similarity=0.75)
            hint = hint or "docs/language.md lists the functions"
            raise self.error(node, f"there is no function {written}", hint)
        return self._call(node, name, [self.bind(argument) for argument in node.expressions])

    def _unix_timestamp(self, node: exp.Expr) -> Expression:
        """Seconds of an instant, or of a text that is one: with an argument it is not the clock."""
        arguments = [self.bind(argument) for argument in node.expressions]
        if arguments[0].type == STRING:
            arguments = [self._call(node, "to_timestamp", arguments)]
        elif arguments[0].type == DATE:
            arguments[0] = as_type(arguments[0], TIMESTAMP)
        return self._call(node, "unix_seconds", arguments)

    def stray_aggregate(self, node: exp.Expr) -> CqlError:
        """An aggregate where none may stand; blocks with groups bind theirs elsewhere."""
        hint = "filter groups in HAVING, or compute it in a sub-query"
        if self.clause == DECLARATION:
            hint = "it sees one row; aggregate in a query over the stream"
        return self.error(node, f"{node.name.upper()} is not allowed in {self.clause}", hint)

    def _call(self, node: exp.Expr, name: str, arguments: list[Expression]) -> Expression:
        try:
            return functions.call(name, arguments)
        except functions.Misuse as misuse:
            index = misuse.position
            place = node.expressions[index] if index is not None and node.expressions else node
            raise self.error(place, misuse.problem, misuse.hint) from None

    def _concatenation(self, node: exp.Expr) -> Expression:
        parts = _flattened(node, exp.DPipe)
        bound = [self.bind(part) for part in parts]
        for part, place in zip(bound, parts, strict=True):
            if part.type not in (STRING, VOID):
                raise self.error(place, f"|| joins text, not {part.type}", "CAST it to STRING")
        return self._call(node, "concat", bound)

    # ── what may not stand in an expression ───────────────────────────────────────────────

    def _stray_operator(self, node: exp.Expr, name: str) -> CqlError:
        return self.error(
            node,
            f"{node.name} is not allowed in {self.clause}",
            f"it wraps the whole SELECT list: SELECT {name.capitalize()}(a, b) FROM …",
        )

    def _misplaced(self, node: exp.Expr) -> CqlError:
        if isinstance(node, exp.Subquery | exp.Query):
            return self.error(
                node,
                f"a query cannot be used as a value in {self.clause}",
                "it may be one in SELECT, WHERE and HAVING; elsewhere put it in FROM and join it",
            )
        if isinstance(node, exp.Exists | exp.In):
            return self.error(node, *_subquery_advice(node, self.clause))
        if isinstance(node, exp.Star):
            return self.error(
                node, "* is not allowed here", "it stands for all columns of SELECT or COUNT(*)"
            )
        if isinstance(node, exp.Distinct):
            return self.error(node, "DISTINCT is not allowed here", "write COUNT(DISTINCT x)")
        if isinstance(node, exp.Tuple):
            return self.error(
                node, "a list of values is not allowed here", "compare the values one by one"
            )
        if isinstance(node, exp.Filter):
            hint = "write SUM(x) FILTER (WHERE …), or CASE WHEN … THEN x END"
            return self.error(node, "FILTER goes with aggregates only", hint)
        if isinstance(node, exp.Alias):
            return self.error(node, "AS is not allowed here", "only output columns have aliases")
        return self.error(node, f"{node.key.upper()} is not allowed here", "see docs/language.md")


def _subquery_advice(node: exp.Expr, clause: str) -> tuple[str, str]:
    word = "EXISTS" if isinstance(node, exp.Exists) else "IN (SELECT …)"
    word = f"NOT {word}" if isinstance(node.parent, exp.Not) else word
    if clause == DECLARATION:
        return (
            f"{word} is not allowed in {clause}",
            "use columns of the row; join in a query over it",
        )
    return (
        f"{word} stands in WHERE, SELECT and HAVING, not here",
        "select it in a sub-query, or join one that counts, LEFT JOIN (SELECT k, COUNT(*) AS n "
        "FROM r [RANGE 1 MIN] GROUP BY k) c ON c.k = s.k, and write c.n > 0 in its place",
    )


def _flattened(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a chain of one operator, in order, without recursion."""
    operands: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if type(current) is kind:
            waiting.extend((current.expression, current.this))
        else:
            operands.append(current)
    return operands


_HANDLERS: dict[type[exp.Expr], Callable[[ScalarBinder, exp.Expr], Expression]] = {
    exp.And: ScalarBinder._logical,
    exp.Or: ScalarBinder._logical,
    exp.Not: ScalarBinder._not,
    exp.NullSafeNEQ: ScalarBinder._not_same,
    exp.Neg: ScalarBinder._negative,
    exp.Is: ScalarBinder._is,
    exp.Between: ScalarBinder._between,
    exp.In: ScalarBinder._in,
    exp.Case: ScalarBinder._case,
    exp.Cast: ScalarBinder._cast,
    exp.TryCast: ScalarBinder._cast,
    exp.Literal: ScalarBinder._literal,
    exp.Interval: ScalarBinder._interval,
    exp.Boolean: lambda binder, node: Literal(bool(node.this), BOOLEAN),
    exp.Null: lambda binder, node: Literal(None, VOID),
    exp.Paren: lambda binder, node: binder.bind(node.this),
    exp.Column: ScalarBinder._name,
    exp.Dot: ScalarBinder._name,
    exp.Bracket: ScalarBinder._element,
    exp.Anonymous: ScalarBinder._function,
    exp.Subquery: ScalarBinder._query,
    exp.Window: ScalarBinder._over,
    exp.Escape: ScalarBinder._escape,
    exp.DPipe: ScalarBinder._concatenation,
}
