"""EXPLAIN: what a query means for the machine, before anything runs.

An ``Explanation`` prints as text, in colour in a terminal, draws itself in notebooks, and can be
had as JSON, as SVG or as a page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mayfly.display import one_line, shortened
from mayfly.physical.explain.model import Explained

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True)
class Explanation(Explained):
    """A query's plan and its rivals, in every form a reader may ask for; each is imported when it
    is asked for, since checking a query needs none."""

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return one_line(self, shortened(self.query))

    def __rich__(self) -> Text:
        from mayfly.physical.explain.text_tree import rich_text

        return rich_text(self)

    def _repr_html_(self) -> str:
        from mayfly.physical.explain.page import fragment

        return fragment(self)

    def text(self, timings: bool = False) -> str:
        from mayfly.physical.explain.text_tree import plain_text

        return plain_text(self, timings)

    def json(self, timings: bool = False) -> str:
        from mayfly.physical.explain.json_tree import as_json

        return as_json(self, timings)

    def svg(self) -> str:
        """A drawing of the chosen plan."""
        from mayfly.physical.explain.svg import drawing

        return drawing(self.chosen.physical)

    def html(self) -> str:
        """A page of its own; candidates of a comparison stand side by side."""
        from mayfly.physical.explain.page import page

        return page(self)
