"""n-of-N: aggregates over the last n rows, for any n up to N, from one synopsis.

Idea: a pane is a number of rows instead of a piece of time (Lin et al. 2004 for quantiles; here any
content). Rows wait until their pane is full; n is a multiple of the rows of a pane.
Cost: that of the synopsis.
"""

from __future__ import annotations

import pyarrow as pa

from mayfly.display import counted
from mayfly.errors import InvalidSetting
from mayfly.synopses.contents import Aggregate, Keys, TableAlgebra, content_for
from mayfly.synopses.dyadic_intervals import DyadicIntervals
from mayfly.synopses.running import Running
from mayfly.synopses.synopsis import Synopsis


class RowWindows:
    """An aggregate over the last rows of a stream; rows are appended in its order.

    >>> windows = RowWindows(Aggregate("SUM", "x"), pa.schema({"x": pa.int64()}), most=4)
    >>> windows.append(pa.table({"x": [1, 2, 3, 4, 5]}))
    >>> [windows.answer(n).to_pylist()[0]["value"] for n in (1, 3, 4)]
    [5, 12, 14]
    """

    def __init__(
        self, call: Aggregate, rows: pa.Schema, *, most: int, step: int = 1, keys: Keys = ()
    ) -> None:
        if step < 1 or most < step or most % step:
            raise InvalidSetting(
                f"windows of up to {most} rows in steps of {step}", "give a multiple of the step"
            )
        self.call, self.keys, self.most, self.step = call, keys, most, step
        self.content = content_for(call, rows)
        algebra = TableAlgebra(self.content, keys, rows)
        kind = Running if self.content.running else DyadicIntervals
        self.synopsis: Synopsis[pa.Table] = kind(algebra, most // step)
        self._waiting = rows.empty_table()

    def append(self, rows: pa.Table) -> None:
        """Take rows in; those that fill no pane yet wait."""
        rows = pa.concat_tables([self._waiting, rows]).combine_chunks()
        full = rows.num_rows // self.step * self.step
        for start in range(0, full, self.step):
            self.synopsis.slide(self.content.summarize(rows.slice(start, self.step), self.keys))
        self._waiting = rows.slice(full)

    def answer(self, rows: int) -> pa.Table:
        """The keys and ``value`` of each group over the last so many rows that fill panes."""
        if not 0 < rows <= self.most or rows % self.step:
            raise InvalidSetting(
                f"the last {counted(rows, 'row')}",
                f"ask for at most {self.most}, in steps of {self.step}",
            )
        panes = min(rows // self.step, self.synopsis.covers)
        return self.content.answer(self.synopsis.answer(panes), self.keys, self.call)
