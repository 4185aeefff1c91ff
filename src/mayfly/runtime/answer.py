"""What a reader is given: rows, the instant they are of, and whether something is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mayfly.display import counted, html_table, one_line
from mayfly.lifetime import instant_text


@dataclass(frozen=True)
class QueryAnswer:
    """Rows of one committed version, at one instant."""

    rows: pa.Table
    as_of: int
    """µs since 1970: the answer is that over everything with a time up to here."""
    partial: tuple[str, ...] = ()
    """Why the rows may not be all there are; empty if they are."""
    version: int = 0
    """Of the checkpoint; -1 if none was read."""

    def __repr__(self) -> str:
        missing = ("partial",) if self.partial else ()
        return one_line(
            self,
            f"{counted(self.rows.num_rows, 'row')} as of {instant_text(self.as_of)}",
            *missing,
        )

    def _repr_html_(self) -> str:
        shown = {str(number): row for number, row in enumerate(self.rows.slice(0, 20).to_pylist())}
        return html_table(repr(self)[1:-1], shown)

    def to_json(self) -> dict[str, Any]:
        """Without the rows."""
        return {
            "as_of": instant_text(self.as_of),
            "partial": list(self.partial),
            "version": self.version,
        }
