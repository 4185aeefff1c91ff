"""Istream, Dstream, Rstream, Wstream and the restore forms around a SELECT list."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.cql.messages import CqlError
from mayfly.cql.tokens import is_operator
from mayfly.plan.logical_operators import OutputKind

_KINDS = {
    "istream": OutputKind.ISTREAM,
    "dstream": OutputKind.DSTREAM,
    "rstream": OutputKind.RSTREAM,
}


@dataclass(frozen=True)
class StreamOperator:
    """The operator around a SELECT list, taken off the block."""

    kind: OutputKind | None
    """None for Wstream."""
    restore: bool
    place: exp.Expr


def take_operator(context: BindingContext, block: exp.Select) -> StreamOperator | None:
    """Unwrap ``SELECT Istream(a, b)``: the block then selects a, b."""
    outputs = block.expressions
    wrapped = [output for output in outputs if _is_operator(output)]
    if not wrapped:
        return None
    node = wrapped[0].unalias()
    name = node.name.lower()
    if len(outputs) > 1 or isinstance(outputs[0], exp.Alias):
        raise context.error(
            node,
            f"{node.name} must wrap the whole SELECT list",
            f"write SELECT {node.name}(a, b AS c) FROM …",
        )
    arguments = list(node.expressions)
    if block.args.get("distinct"):
        problem = f"DISTINCT belongs inside {node.name}"
        raise context.error(block, problem, f"write {node.name}(DISTINCT a, b)")
    if arguments and isinstance(arguments[0], exp.Distinct):
        block.set("distinct", exp.Distinct())
        arguments = [*arguments[0].expressions, *arguments[1:]]
    if not arguments:
        raise context.error(node, f"{node.name}() selects nothing", f"write {node.name}(*)")
    block.set("expressions", arguments)
    return _checked(context, StreamOperator(_KINDS.get(_plain(name)), name != _plain(name), node))


def _checked(context: BindingContext, operator: StreamOperator) -> StreamOperator:
    if operator.restore and operator.kind is None:
        raise context.error(
            operator.place,
            "Wstream has no restore form",
            "use plain Wstream: which restored results its window would hold is undefined",
        )
    if operator.restore and operator.kind is OutputKind.DSTREAM:
        raise context.error(
            operator.place,
            "Dstream has no restore form",
            "use Istream-restore or Rstream-restore: they report the short-lived results",
        )
    return operator


def _plain(name: str) -> str:
    return name.removesuffix("_restore")


def _is_operator(node: exp.Expr) -> bool:
    inner = node.unalias()
    return isinstance(inner, exp.Anonymous) and is_operator(inner.name)


def take_derived(context: BindingContext, block: exp.Select) -> StreamOperator | None:
    """Unwrap the operator of a sub-query that is a derived stream; Wstream has its own form."""
    words = [output.unalias().name.lower() for output in block.expressions if _is_operator(output)]
    if not words or _plain(words[0]) not in _KINDS:
        return None
    return take_operator(context, block)


def drop_rstream(context: BindingContext, block: exp.Select, where: str) -> None:
    """Rstream inside a negation means the sub-query's current content, which it is anyway."""
    operator = take_operator(context, block)
    if operator and (operator.kind is not OutputKind.RSTREAM or operator.restore):
        raise _inner_error(context, operator, where)


def refuse_operator(context: BindingContext, block: exp.Select, where: str) -> None:
    operator = take_operator(context, block)
    if operator:
        raise _inner_error(context, operator, where)


def _inner_error(context: BindingContext, operator: StreamOperator, where: str) -> CqlError:
    return context.error(
        operator.place,
        f"{operator.place.name} is not allowed in {where}",
        "it belongs to the outermost SELECT: SELECT Istream(*) FROM (…); a sub-query under a"
        " window needs INTERNAL windows instead",
    )
