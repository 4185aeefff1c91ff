"""Comparing columns as Spark does: NaN equals itself and is larger than any number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.kernels.functions.operands import Operand


def compare(op: str, left: Operand, right: Operand) -> Operand:
    """``left op right``; op is one of = <> < <= > >= <=> (equal, NULLs too)."""
    if op == "<=>":
        both = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both, pc.fill_null(compare("=", left, right), False))
    if op in ("<>", ">=", "<="):
        return pc.invert(compare({"<>": "=", ">=": "<", "<=": ">"}[op], left, right))
    if op == ">":
        return compare("<", right, left)
    floating = pa.types.is_floating(left.type)
    if op == "=":
        same = pc.equal(left, right)
        return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right))) if floating else same
    less = pc.less(left, right)
    if floating:
        return pc.or_(less, pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))
    return less


def extreme(better: str) -> Callable[[Sequence[Operand]], Operand]:
    """The least (``<``) or greatest (``>``) of several operands."""

    def pick(left: Operand, right: Operand) -> Operand:
        # Of equal ones the first is taken (0.0 or -0.0), and NULLs are ignored, as in Spark.
        replace = pc.fill_null(compare(better, right, left), False)
        return pc.if_else(pc.or_(replace, pc.is_null(left)), right, left)

    return lambda values: reduce(pick, values)
