"""Look for partners before joins and unions instead of after them, where that costs less.

    SemiJoin(Join(a, b), p on a.x)       →   Join(SemiJoin(a, p on a.x), b)
    SemiJoin(a LEFT JOIN b, p on a.x)    →   SemiJoin(a, p on a.x) LEFT JOIN b
    SemiJoin(UnionAll(a, b), p)          →   UnionAll(SemiJoin(a, p), SemiJoin(b, p))

A semi-join (EXISTS, IN) stands in plans as a join with the distinct keys of the partners, or, by
more than equalities, as Rows EXCEPT ALL (Rows NOT EXISTS Partners). Both are lowered, through
projections and selections, to the side that has all columns they read. Not below an NRR join, since
its results depend on when each tuple arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mayfly.optimizer.rule import (
    Rule,
    RuleContext,
    moved,
    offers,
    rewrite_bottom_up,
    substituted,
)
from mayfly.optimizer.rules.place_negation import left_reads
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    Equality,
    ExceptAll,
    Join,
    Named,
    Negation,
    Node,
    Project,
    RelationJoin,
    Select,
    UnionAll,
)
from mayfly.plan.outer_join import OuterJoin, without_partner

Change = Callable[[Expression], Expression]


@dataclass(frozen=True)
class SemiJoin:
    """Rows while a partner is alive, as two operators say it."""

    node: Join | ExceptAll
    negation: AntiJoin
    """The rows without a partner: who the partners are, and by which conditions."""

    @staticmethod
    def of(node: Node) -> SemiJoin | None:
        match node:
            case Join(inputs=(left, Distinct(child=Project()) as keys), residual=None):
                inner = {pair.right for pair in node.equalities}
                reads = [pair.left for pair in node.equalities]
                if inner == set(keys.schema) and offers(left, *reads):
                    return SemiJoin(node, AntiJoin(left, keys, node.equalities))
            case ExceptAll(left=left, right=AntiJoin(left=rows) as negation):
                if left == rows and negation.kind is Negation.NOT_EXISTS:
                    return SemiJoin(node, negation)
        return None

    @property
    def rows(self) -> Node:
        return self.negation.left

    @property
    def hides_partners(self) -> bool:
        """Whether it offers the columns of its rows alone."""
        return isinstance(self.node, ExceptAll)

    def reads(self) -> list[Expression]:
        return left_reads(self.negation)

    def over(self, rows: Node, change: Change | None = None) -> SemiJoin:
        """The same partners for other rows, whose columns ``change`` writes."""
        change = change or (lambda expression: expression)
        pairs = tuple(Equality(change(e.left), e.right) for e in self.negation.equalities)
        residual = self.negation.residual
        negation = replace(
            self.negation,
            left=rows,
            equalities=pairs,
            residual=None if residual is None else change(residual),
        )
        if isinstance(self.node, ExceptAll):
            return SemiJoin(replace(self.node, left=rows, right=negation), negation)
        inputs = (rows, negation.right)
        return SemiJoin(replace(self.node, inputs=inputs, equalities=pairs), negation)

    def lowered(self) -> Node | None:
        """The rows with partners, these looked for below a join or a union, if there is one."""
        if not self._can_stand():
            return None
        match self.rows:
            case Select(child=child):
                return self._above(self.over(child).lowered())
            case RelationJoin(child=child, retroactive=True):
                return self._above(self.over(child).anywhere())
            case Project(child=child, outputs=outputs, alias=alias):
                below = self.over(child, lambda part: substituted(part, outputs, alias))
                return self._above(below.lowered())
            case Join() as join:
                place = self._home(join.inputs)
                return None if place is None else _with_input(join, place, self)
            case UnionAll(alias=None) as union:
                return self._in_outer(union)
            case UnionAll() as union:
                return self._in_parts(union)
        return None

    def anywhere(self) -> Node | None:
        """The semi-join as low as it goes, or where it is, if its rows can be compared."""
        comparable = all(column.type.is_comparable for column in self.rows.schema)
        stands = self._can_stand() and (comparable or not self.hides_partners)
        return self.lowered() or (self.node if stands else None)

    def _can_stand(self) -> bool:
        """Whether its rows have what it reads, and each equality still reads some of it."""
        reading = all(pair.left.columns() for pair in self.negation.equalities)
        return reading and offers(self.rows, *self.reads())

    def _above(self, below: Node | None) -> Node | None:
        children = self.rows.children()
        return None if below is None else self.rows.with_children((below, *children[1:]))

    def _home(self, inputs: tuple[Node, ...]) -> int | None:
        """The input that has all columns it reads."""
        reads = self.reads()
        return next((n for n, child in enumerate(inputs) if offers(child, *reads)), None)

    def _in_outer(self, union: UnionAll) -> Node | None:
        """Below a LEFT JOIN, into the side of which all rows stay."""
        outer = OuterJoin.of(union)
        if outer is None or len(outer.padded) != 1 or not isinstance(outer.pairs, Join):
            return None
        (padded,) = outer.padded
        lonely = padded.child
        assert isinstance(lonely, AntiJoin)
        place = self._home((lonely.left,))
        if place is None or lonely.left not in outer.pairs.inputs:
            return None
        pairs = _with_input(outer.pairs, outer.pairs.inputs.index(lonely.left), self)
        if pairs is None:
            return None
        left = pairs.inputs[outer.pairs.inputs.index(lonely.left)]
        part = without_partner(replace(lonely, left=left), pairs.schema, padded.alias)
        return replace(union, inputs=(pairs, part))

    def _in_parts(self, union: UnionAll) -> Node | None:
        parts = [self._in_part(union, part) for part in union.inputs]
        lowered = tuple(part for part in parts if part is not None)
        return replace(union, inputs=lowered) if len(lowered) == len(parts) else None

    def _in_part(self, union: UnionAll, part: Node) -> Node | None:
        """Those of one part, which goes on to offer its own columns alone."""
        moves = self.over(part, lambda expression: moved(expression, union.schema, part))
        if isinstance(part, Project):
            inner = moves.over(
                part.child, lambda expression: substituted(expression, part.outputs, part.alias)
            ).anywhere()
            return None if inner is None else replace(part, child=inner)
        if moves.hides_partners:
            return moves.anywhere()
        relations = {column.relation for column in part.schema}
        if len(relations) != 1:
            return None
        outputs = tuple(Named(column.name, column) for column in part.schema)
        inner = moves.anywhere()
        return None if inner is None else Project(inner, outputs, relations.pop())


def _with_input(join: Join, place: int, semi: SemiJoin) -> Join | None:
    """The join with an input that has lost its rows without partners."""
    child = semi.over(join.inputs[place]).anywhere()
    if child is None:
        return None
    return replace(join, inputs=(*join.inputs[:place], child, *join.inputs[place + 1 :]))


def alternatives(plan: Node, context: RuleContext) -> list[Node]:
    """The plan, and the plan with every semi-join as low as it goes."""
    read = {column.relation for node in plan.walk() for column in _reads_outside(node)}

    def push(node: Node, order_matters: bool) -> Node:
        semi = SemiJoin.of(node)
        if semi is None:
            return node
        partners = {column.relation for column in semi.negation.right.schema}
        if not semi.hides_partners and (order_matters or partners & read):
            return node
        return semi.lowered() or node

    pushed = rewrite_bottom_up(plan, push)
    return [plan] if pushed == plan else [plan, pushed]


def _reads_outside(node: Node) -> list[Column]:
    """The columns an operator reads, without those of a semi-join's partners by itself."""
    semi = SemiJoin.of(node)
    parts = node.expressions() if semi is None else semi.reads()
    return [column for part in parts for column in part.columns()]


PUSH_SEMIJOINS = Rule(
    "push-semijoins", "look for partners before joins and unions", alternatives=alternatives
)
