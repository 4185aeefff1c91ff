"""An aggregate call as it was written: its arguments and what may stand in and around them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

_AROUND = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


def call_of(node: exp.Expr) -> exp.Expr:
    """The call inside FILTER, WITHIN GROUP and IGNORE NULLS."""
    while isinstance(node, _AROUND):
        node = node.this
    return node


@dataclass
class WrittenCall:
    """``NAME([DISTINCT] arguments [ORDER BY …]) [WITHIN GROUP …] [FILTER …] [IGNORE NULLS]``."""

    node: exp.Expr
    arguments: list[exp.Expr] = field(default_factory=list)
    order: list[exp.Expr] = field(default_factory=list)
    condition: exp.Expr | None = None
    distinct: bool = False
    ignores_nulls: bool = False
    says_nulls: bool = False
    within_group: bool = False

    @staticmethod
    def of(node: exp.Expr) -> WrittenCall:
        call = WrittenCall(call_of(node))
        while isinstance(node, _AROUND):
            if isinstance(node, exp.Filter):
                call.condition = node.expression.this
            elif isinstance(node, exp.WithinGroup):
                call.order, call.within_group = list(node.expression.expressions), True
            else:
                call._note_nulls(node)
            node = node.this
        arguments = list(call.node.expressions)
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            call.distinct, arguments = True, list(arguments[0].expressions)
        call.arguments = [call._plain(argument) for argument in arguments]
        return call

    @property
    def name(self) -> str:
        return self.node.name.upper()

    def _note_nulls(self, node: exp.Expr) -> None:
        self.says_nulls, self.ignores_nulls = True, isinstance(node, exp.IgnoreNulls)

    def _plain(self, argument: exp.Expr) -> exp.Expr:
        """The argument without ORDER BY and IGNORE NULLS behind it."""
        while isinstance(argument, exp.Order | exp.IgnoreNulls | exp.RespectNulls):
            if isinstance(argument, exp.Order):
                self.order = list(argument.expressions)
            else:
                self._note_nulls(argument)
            argument = argument.this
        return argument
