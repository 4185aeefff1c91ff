"""What operators of OVER compute of rows before they look at frames: keys, order, arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.codes import check_codes, group_codes
from mayfly.kernels.frame_layout import sort_columns
from mayfly.kernels.lifetime_rows import whole
from mayfly.kernels.operator import Alone, Key, plain_key
from mayfly.kernels.stateless import values_of
from mayfly.plan.expressions import Expression
from mayfly.plan.logical_operators import SortKey
from mayfly.plan.over_frames import FrameCall
from mayfly.plan.plan_text import expression_text, over_text
from mayfly.plan.spread import Spread
from mayfly.plan.types import arrow_type


@dataclass(frozen=True)
class FrameTerms:
    """PARTITION BY, ORDER BY with what orders its ties, and the calls of one OVER."""

    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    ties: tuple[Expression, ...]
    calls: tuple[FrameCall, ...]

    @property
    def state_parts(self) -> tuple[tuple[str, Any], ...]:
        """What a stored state is found again by."""
        return (
            ("partition", self.partition),
            ("order", self.order),
            ("ties", self.ties),
            ("calls", self.calls),
        )

    @property
    def part_names(self) -> tuple[str, ...]:
        return tuple(f"_part{number}" for number in range(len(self.partition)))

    @property
    def is_measured(self) -> bool:
        return any(call.is_measured for call in self.calls)

    @property
    def text(self) -> str:
        """The calls and their OVER, as the language writes them."""
        return over_text(self.partition, self.order, self.calls)

    def parts(self, rows: pa.Table) -> list[pa.Array]:
        return [values_of(key, rows, arrow_type(key.type)) for key in self.partition]

    def codes(self, rows: pa.Table) -> Int64s:
        return group_codes(self.parts(rows), rows.num_rows)

    def stored_codes(self, rows: pa.Table) -> Int64s:
        columns = [whole(rows.column(name)) for name in self.part_names]
        return group_codes(columns, rows.num_rows)

    def keys(self, rows: pa.Table) -> list[pa.Array]:
        """The values of ORDER BY."""
        sorts = (key.expression for key in self.order)
        return [values_of(sort, rows, arrow_type(sort.type)) for sort in sorts]

    def key_columns(self, keys: Sequence[pa.Array]) -> list[Int64s]:
        """Numbers that sort as ORDER BY says; peers are equal in all."""
        return [
            column
            for values, sort in zip(keys, self.order, strict=True)
            for column in sort_columns(values, sort.descending, sort.nulls_first)
        ]

    def tie_columns(self, rows: pa.Table) -> list[Int64s]:
        return [
            column
            for tie in self.ties
            for column in sort_columns(values_of(tie, rows, arrow_type(tie.type)), False, True)
        ]

    def arguments(self, rows: pa.Table, numbers: Sequence[int]) -> dict[str, pa.Array]:
        """The arguments of some calls, by the names under which they are stored."""
        return {
            f"_arg{number}": values_of(argument, rows, arrow_type(argument.type))
            for number in numbers
            if (argument := self.calls[number].argument) is not None
        }

    def defaults(self, rows: pa.Table) -> dict[int, pa.Array]:
        return {
            number: values_of(call.default, rows, arrow_type(call.data_type))
            for number, call in enumerate(self.calls)
            if call.default is not None
        }


def check_parts(codes: Int64s, columns: Sequence[pa.Array]) -> None:
    """Refuse partitions that differ but share a code; rows are sorted by it."""
    if columns:
        check_codes(codes, columns)


class OfPartitions(Alone):
    """An operator of OVER: rows of a partition lie in one bucket, or all in one place."""

    __slots__ = ()
    terms: FrameTerms

    @property
    def reason(self) -> str:
        return "a partition lies in one bucket" if self.keyed else "one order over all rows"

    @property
    def keyed(self) -> bool:
        return bool(self.terms.partition)

    def key_of(self, side: int = 0) -> Key:
        keys = self.terms.partition
        return plain_key(keys, [key.type for key in keys])

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return tuple(map(expression_text, self.terms.partition))

    def own_key(self) -> tuple[str, ...]:
        return self.terms.part_names

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return Spread.by(self.key_of()) if kept[0] is None else kept[0]

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return self.terms.codes(rows) if self.keyed else None

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self.terms.stored_codes(rows)
