"""Evaluate what is constant, and drop what it decides.

    WHERE 1 + 1 = 2 AND bytes > 10 * 100   →   WHERE bytes > 1000
    WHERE proto = 'ftp' OR TRUE            →   (no selection)

Only what cannot fail is folded: an overflow or a division by zero stays for Spark to report.
Three-valued logic throughout; a NULL predicate selects nothing, so it becomes FALSE.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from mayfly.optimizer.rule import Rule, RuleContext
from mayfly.plan.expressions import (
    And,
    Arithmetic,
    Case,
    Cast,
    Compare,
    Expression,
    InList,
    IsNull,
    Literal,
    Not,
    Or,
    Value,
)
from mayfly.plan.logical_operators import (
    AggregateCall,
    AntiJoin,
    GroupAggregate,
    Join,
    Named,
    Node,
    Project,
    RelationJoin,
    Select,
)
from mayfly.plan.types import BOOLEAN, DataType, is_widening

TRUE, FALSE = Literal(True, BOOLEAN), Literal(False, BOOLEAN)
NULL = Literal(None, BOOLEAN)

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def fold(expression: Expression) -> Expression:
    """The expression with every constant part evaluated."""
    return expression.transform(_fold_node)


def _fold_node(node: Expression) -> Expression:
    match node:
        case And(terms=terms):
            return _fold_terms(terms, absorbing=FALSE, neutral=TRUE, combine=And)
        case Or(terms=terms):
            return _fold_terms(terms, absorbing=TRUE, neutral=FALSE, combine=Or)
        case Not(child=Literal(value=value)):
            return NULL if value is None else (FALSE if value else TRUE)
        case Not(child=Not(child=child)):
            return child
        case IsNull(child=Literal(value=value)):
            return TRUE if value is None else FALSE
        case IsNull(child=child) if not child.nullable:
            return FALSE
        case Compare(op=op, left=Literal() as left, right=Literal() as right):
            return _fold_comparison(op, left, right, node)
        case InList(child=Literal() as child, choices=choices):
            terms = tuple(_fold_node(Compare("=", child, choice)) for choice in choices)
            return _fold_terms(terms, absorbing=TRUE, neutral=FALSE, combine=Or)
        case Arithmetic(op=op, left=Literal(value=left_value), right=Literal(value=right_value)):
            return _fold_arithmetic(op, left_value, right_value, node)
        case Cast(child=Literal() as child, data_type=kind) if _folds_cast(child, kind):
            return Literal(_cast(child.value, kind), kind)
        case Case():
            return _fold_case(node)
    return node


def _fold_terms(
    terms: tuple[Expression, ...],
    absorbing: Literal,
    neutral: Literal,
    combine: type[And] | type[Or],
) -> Expression:
    flat = [
        part for term in terms for part in (term.terms if isinstance(term, combine) else (term,))
    ]
    if absorbing in flat:
        return absorbing
    left = tuple(dict.fromkeys(term for term in flat if term != neutral))
    if len(left) <= 1:
        return left[0] if left else neutral
    return combine(left)


def _fold_comparison(op: str, left: Literal, right: Literal, node: Expression) -> Expression:
    if op == "<=>":
        return TRUE if left.value == right.value else FALSE
    if left.value is None or right.value is None:
        return NULL
    if isinstance(left.value, float) or isinstance(right.value, float):
        return node  # NaN equals itself in Spark and sorts above all numbers
    return TRUE if _COMPARISONS[op](left.value, right.value) else FALSE


def _fold_arithmetic(op: str, left: Value, right: Value, node: Arithmetic) -> Expression:
    kind = node.data_type
    if kind.name not in _BITS or op not in _ARITHMETIC:
        return node
    if left is None or right is None:
        return Literal(None, kind)
    if not isinstance(left, int) or not isinstance(right, int):
        return node
    result = _ARITHMETIC[op](left, right)
    bound = 1 << (_BITS[kind.name] - 1)
    return Literal(result, kind) if -bound <= result < bound else node


def _folds_cast(child: Literal, kind: DataType) -> bool:
    if child.value is None or child.data_type == kind:
        return True
    exact = kind.name == "decimal" and child.data_type.is_integral
    return is_widening(child.data_type, kind) or (exact and _fits(child.value, kind))


def _fits(value: Value, kind: DataType) -> bool:
    precision, scale = kind.params
    return isinstance(value, int) and len(str(abs(value))) <= precision - scale


def _cast(value: Value, kind: DataType) -> Value:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if kind.name == "decimal":
        return Decimal(value)
    return float(value) if kind.name in ("float", "double") else value


def _fold_case(node: Case) -> Expression:
    arms = []
    otherwise = node.otherwise
    for condition, result in zip(node.conditions, node.results, strict=True):
        if condition == TRUE:
            otherwise = result
            break
        if not (isinstance(condition, Literal) and not condition.value):
            arms.append((condition, result))
    if not arms:
        return otherwise if otherwise is not None else Literal(None, node.data_type)
    conditions, results = zip(*arms, strict=True)
    return replace(node, conditions=conditions, results=results, otherwise=otherwise)


def _fold_condition(condition: Expression | None) -> Expression | None:
    """A condition folded; None where it is always true, FALSE where it can never be."""
    if condition is None:
        return None
    folded = fold(condition)
    if folded == TRUE:
        return None
    return FALSE if isinstance(folded, Literal) else folded


def _fold_plan_node(node: Node) -> Node:
    match node:
        case Select(predicate=predicate):
            folded = _fold_condition(predicate)
            return node.child if folded is None else replace(node, predicate=folded)
        case Project(outputs=outputs):
            named = tuple(Named(out.name, fold(out.expression)) for out in outputs)
            return replace(node, outputs=named)
        case Join() | RelationJoin() | AntiJoin():
            return replace(node, residual=_fold_condition(node.residual))
        case GroupAggregate(keys=keys, aggregates=calls, having=having):
            return replace(
                node,
                keys=tuple(Named(key.name, fold(key.expression)) for key in keys),
                aggregates=tuple(_fold_call(call) for call in calls),
                having=_fold_condition(having),
            )
    return node


def _fold_call(call: AggregateCall) -> AggregateCall:
    return replace(call, argument=fold(call.argument)) if call.argument else call


def rewrite(plan: Node, context: RuleContext) -> Node:
    return plan.transform(_fold_plan_node)


FOLD_CONSTANTS = Rule("fold-constants", "evaluate constant expressions", rewrite)
