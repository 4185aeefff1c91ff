"""Evaluating every scalar expression of the language over Arrow columns, with Spark's meaning.

That meaning is ANSI mode's, in UTC: overflow, division by zero and text that is no number are
errors. An operand is evaluated only for the rows on which Spark would: CASE and COALESCE reach
their arms row by row, AND and OR stop at FALSE and TRUE, and operators skip the rows in which
an earlier operand is NULL. Which expressions run inside Spark's tasks is another question, and
``plan.expressions.is_kernel_expression`` answers it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.errors import BadInput, InvalidSetting
from mayfly.kernels.functions.casts import cast
from mayfly.kernels.functions.comparisons import compare, extreme
from mayfly.kernels.functions.hash_functions import HASH_FUNCTIONS
from mayfly.kernels.functions.nested import NESTED_FUNCTIONS, entry, member
from mayfly.kernels.functions.numbers import NUMBER_FUNCTIONS, arithmetic
from mayfly.kernels.functions.operands import Mask, Operand, Undefined, broadcast
from mayfly.kernels.functions.text_functions import TEXT_FUNCTIONS, like
from mayfly.kernels.functions.time import TIME_FUNCTIONS
from mayfly.plan import expressions as ex
from mayfly.plan.types import BIGINT, INT, DataType, arrow_type

Resolve: TypeAlias = Callable[[ex.Column], pa.Array | pa.ChunkedArray]


def holds(condition: ex.Expression, resolve: Resolve, rows: int) -> pa.Array:
    """Where the condition is TRUE (neither FALSE nor NULL), one boolean per row."""
    value = evaluate(condition, resolve)
    if isinstance(value, pa.Scalar):
        return pa.array([bool(value.as_py())] * rows, pa.bool_())
    return pc.fill_null(value, False)


def evaluate(expression: ex.Expression, resolve: Resolve) -> Operand:
    """The value of an expression for every row; a scalar where it reads no column."""
    columns = _Columns(resolve)
    try:
        value = _evaluate(expression, columns)
    except (pa.ArrowInvalid, Undefined, OverflowError, UnicodeDecodeError) as error:
        raise BadInput(
            # Sources have generated names here.
            f"cannot evaluate {expression.sql(lambda column: column.name)}: {error}",
            "guard the expression, use TRY_CAST, or cast its operands to a wider type",
        ) from error
    read = expression.columns()
    return broadcast(value, len(columns(read[0]))) if read else value


class _Columns:
    """The columns of some rows, each resolved once."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._columns: dict[ex.Column, pa.Array] = {}

    def __call__(self, column: ex.Column) -> pa.Array:
        if column not in self._columns:
            self._columns[column] = _in_type(self._resolve(column), column.type)
        return self._columns[column]

    def only(self, rows: Mask) -> _Columns:
        kept = pa.array(rows)
        return _Columns(lambda column: self(column).filter(kept))


def _in_type(values: pa.Array | pa.ChunkedArray, kind: DataType) -> pa.Array:
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return (
        whole if kind.is_nested or whole.type == arrow_type(kind) else whole.cast(arrow_type(kind))
    )


def _evaluate(node: ex.Expression, resolve: _Columns) -> Operand:
    match node:
        case ex.Column():
            return resolve(node)
        case ex.Literal(value=value, data_type=kind):
            return pa.scalar(value, arrow_type(kind))
        case ex.Compare(op="<=>", left=left, right=right):
            return compare("<=>", _evaluate(left, resolve), _evaluate(right, resolve))
        case ex.Compare(op=op, left=left, right=right):
            return _strictly((left, right), resolve, node.type, lambda a, b: compare(op, a, b))
        case ex.Arithmetic(op=op, left=left, right=right, data_type=kind) if op in (
            "/",
            "%",
            "div",
        ):
            # Spark looks at the divisor first.
            return _strictly((right, left), resolve, kind, lambda b, a: arithmetic(op, a, b, kind))
        case ex.Arithmetic(op=op, left=left, right=right, data_type=kind):
            return _strictly((left, right), resolve, kind, lambda a, b: arithmetic(op, a, b, kind))
        case ex.And(terms=terms):
            return _logical(terms, resolve, False, pc.and_kleene)
        case ex.Or(terms=terms):
            return _logical(terms, resolve, True, pc.or_kleene)
        case ex.Not(child=child):
            return pc.invert(_evaluate(child, resolve))
        case ex.IsNull(child=child):
            return pc.is_null(_evaluate(child, resolve))
        case ex.InList(child=child, choices=choices):
            return _in_list(child, choices, resolve)
        case ex.Like(op=op, child=child, pattern=pattern, escape=escape):
            sides = (child, pattern)
            return _strictly(sides, resolve, node.type, lambda a, b: like(op, a, b, escape or "\\"))
        case ex.Case(conditions=conditions, results=results, otherwise=otherwise):
            return _case(conditions, results, otherwise, node.type, resolve)
        case ex.Cast(child=child, data_type=kind, safe=safe):
            return cast(_evaluate(child, resolve), child.type, kind, safe)
        case ex.FieldAccess(child=child, name=name):
            return member(_evaluate(child, resolve), name)
        case ex.Function():
            return _function(node, resolve)
    raise InvalidSetting(f"{node.sql()} cannot be evaluated here", "it runs on Spark only")


# ── which operands see which rows ─────────────────────────────────────────────────────────


def _strictly(
    operands: Sequence[ex.Expression],
    resolve: _Columns,
    kind: DataType,
    compute: Callable[..., Operand],
) -> Operand:
    """A function that is NULL where an operand is: each is evaluated where those before are not."""
    values: list[Operand] = []
    mask: Mask | None = None
    for operand in operands:
        if mask is not None and not mask.any():
            return pa.scalar(None, arrow_type(kind))
        value = _evaluate_on(operand, resolve, mask)
        if value.type == pa.null() or (isinstance(value, pa.Scalar) and not value.is_valid):
            return pa.scalar(None, arrow_type(kind))
        if isinstance(value, pa.Array) and value.null_count:
            valid = value.is_valid().to_numpy(zero_copy_only=False)
            mask = valid if mask is None else mask & valid
        values.append(value)
    return compute(*values)


def _evaluate_on(node: ex.Expression, resolve: _Columns, rows: Mask | None) -> Operand:
    """The value on some rows, NULL on the others; what cannot fail is evaluated on all."""
    if rows is None or _cannot_fail(node):
        return _evaluate(node, resolve)
    value = _evaluate(node, resolve.only(rows))
    if isinstance(value, pa.Scalar):
        return value
    return value.take(pa.array(np.cumsum(rows) - 1, mask=~rows))


def _cannot_fail(node: ex.Expression) -> bool:
    safe = (ex.Column, ex.Literal, ex.Compare, ex.And, ex.Or, ex.Not, ex.IsNull, ex.InList)
    return all(isinstance(subexpression, safe) for subexpression in node.walk())


def _where(condition: Operand, value: bool) -> Mask:
    """The rows in which a condition is exactly this."""
    return np.asarray(
        pc.fill_null(pc.equal(condition, value), False).to_numpy(zero_copy_only=False)
    )


def _logical(
    terms: Sequence[ex.Expression],
    resolve: _Columns,
    decisive: bool,
    combine: Callable[[Operand, Operand], Operand],
) -> Operand:
    """AND, OR: a term is evaluated where those before it have not decided."""
    value = _evaluate(terms[0], resolve)
    for term in terms[1:]:
        if isinstance(value, pa.Scalar):
            if value.as_py() is decisive:
                return value
            value = combine(value, _evaluate(term, resolve))
        else:
            open_rows = ~_where(value, decisive)
            if not open_rows.any() and len(open_rows):
                return value
            value = combine(value, _evaluate_on(term, resolve, open_rows))
    return value


def _in_list(child: ex.Expression, choices: Sequence[ex.Expression], resolve: _Columns) -> Operand:
    """IN: a choice is evaluated where the value is known and nothing before it was equal."""
    value = _evaluate(child, resolve)
    membership: Operand = pa.scalar(False)
    for choice in choices:
        rows = None
        if isinstance(value, pa.Array) and not _cannot_fail(choice):
            rows = value.is_valid().to_numpy(zero_copy_only=False)
            rows = rows & ~_where(membership, True) if isinstance(membership, pa.Array) else rows
            if not rows.any():
                # No choice can be asked, and whether NULL is among them is not known.
                membership = pc.or_kleene(membership, pc.if_else(value.is_valid(), False, None))
                continue
        test = compare("=", value, _evaluate_on(choice, resolve, rows))
        membership = pc.or_kleene(membership, test)
    return membership


def _coalesce(arguments: Sequence[ex.Expression], resolve: _Columns) -> Operand:
    value = _evaluate(arguments[0], resolve)
    for argument in arguments[1:]:
        if isinstance(value, pa.Scalar):
            value = value if value.is_valid else _evaluate(argument, resolve)
        elif value.null_count:
            missing = value.is_null().to_numpy(zero_copy_only=False)
            value = pc.coalesce(value, _evaluate_on(argument, resolve, missing))
    return value


def _case(
    conditions: Sequence[ex.Expression],
    results: Sequence[ex.Expression],
    otherwise: ex.Expression | None,
    kind: DataType,
    resolve: _Columns,
) -> Operand:
    """Each arm on its own rows; ``taken`` says where in the arms' values a row's value lies."""
    rest: Mask | None = None
    taken: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None
    parts: list[pa.Array] = []
    last = otherwise or ex.Literal(None, kind)
    for condition, result in zip(conditions, results, strict=True):
        inside = resolve if rest is None else resolve.only(rest)
        test = _evaluate(condition, inside)
        if isinstance(test, pa.Scalar):
            if test.as_py() is not True:
                continue
            last = result
            break
        chosen = _where(test, True)
        if rest is None:
            rest, taken = np.ones(len(chosen), np.bool_), np.full(len(chosen), -1, np.int64)
        assert taken is not None
        rows = np.flatnonzero(rest)[chosen]
        _add_part(result, resolve, rows, parts, taken)
        rest = rest.copy()
        rest[rows] = False
        if not rest.any():
            break
    if rest is None or taken is None:
        return _evaluate(last, resolve)
    _add_part(last, resolve, np.flatnonzero(rest), parts, taken)
    if not parts:
        return pa.array([], arrow_type(kind))
    return pa.concat_arrays(parts).take(pa.array(taken))


def _add_part(
    result: ex.Expression,
    resolve: _Columns,
    rows: np.ndarray[tuple[int], np.dtype[np.int64]],
    parts: list[pa.Array],
    taken: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> None:
    if not len(rows):
        return
    mask = np.zeros(len(taken), np.bool_)
    mask[rows] = True
    value = _evaluate(result, resolve if len(rows) == len(taken) else resolve.only(mask))
    start = sum(map(len, parts))
    taken[rows] = start + (0 if isinstance(value, pa.Scalar) else np.arange(len(rows)))
    parts.append(broadcast(value, 1))


# ── functions ─────────────────────────────────────────────────────────────────────────────

_STRICT = {**NUMBER_FUNCTIONS, **TEXT_FUNCTIONS, **TIME_FUNCTIONS, **NESTED_FUNCTIONS}
_OTHERS = {
    "isnan": NUMBER_FUNCTIONS["isnan"],
    "concat_ws": TEXT_FUNCTIONS["concat_ws"],
    "least": lambda values, kind: extreme("<")(values),
    "greatest": lambda values, kind: extreme(">")(values),
    "struct": entry,
    **HASH_FUNCTIONS,
}
"""Functions that see all rows of all operands."""


_COUNTING = {
    *("substring", "left", "right", "split_part", "lpad", "rpad", "regexp_extract", "sha2"),
    *("date_add", "date_sub", "element_at"),
}
"""Functions whose whole numbers are INT: Spark converts a BIGINT, and refuses what is larger."""


def _as_int(argument: ex.Expression) -> ex.Expression:
    return ex.Cast(argument, INT) if argument.type == BIGINT else argument


def _function(node: ex.Function, resolve: _Columns) -> Operand:
    name, kind = node.name, node.type
    arguments = tuple(map(_as_int, node.arguments)) if name in _COUNTING else node.arguments
    if name == "if":
        return _case(arguments[:1], arguments[1:2], arguments[2], kind, resolve)
    if name == "nullif":
        same = ex.Compare("=", *arguments)
        return _case((same,), (ex.Literal(None, kind),), arguments[0], kind, resolve)
    if name == "coalesce":
        return _coalesce(arguments, resolve)
    if name in _OTHERS:
        return _OTHERS[name]([_evaluate(argument, resolve) for argument in arguments], kind)
    if name == "pmod":
        order = (arguments[1], arguments[0])
        return _strictly(order, resolve, kind, lambda b, a: _STRICT["pmod"]((a, b), kind))
    if name in _STRICT:
        return _strictly(arguments, resolve, kind, lambda *values: _STRICT[name](values, kind))
    raise InvalidSetting(f"the function {name} cannot be evaluated here", "it runs on Spark only")
