"""EXPLAIN of a one-time query: what it reads and how, and the steps to the answer.

Nothing is kept and nothing comes later, so there is no state, no rate and no cost to tell.
"""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mayfly.display import encodable, on_one_line, one_line, shortened
from mayfly.plan.logical_operators import Node, Output, RelationScan, StreamScan
from mayfly.plan.plan_text import node_detail, node_name
from mayfly.plan.window_kinds import Unbounded

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True)
class Step:
    """An operator and its inputs."""

    name: str
    detail: str
    inputs: tuple[Step, ...]

    @staticmethod
    def of(node: Node, tables: Collection[str]) -> Step:
        """``tables`` are read whole, by their names in lower case."""
        if isinstance(node, Output):
            return Step.of(node.child, tables)
        inputs = tuple(Step.of(child, tables) for child in node.children())
        match node:
            case StreamScan(stream=name, window=Unbounded()) if name.casefold() in tables:
                scan = RelationScan(name, node.alias, node.columns, retroactive=True)
                return Step("Read", node_detail(scan), inputs)
            case StreamScan() | RelationScan():
                return Step("Read", node_detail(node), inputs)
        return Step(node_name(node), node_detail(node), inputs)

    def __str__(self) -> str:
        return f"{self.name} {self.detail}".rstrip()

    def lines(self, indent: str = "") -> Iterator[str]:
        """Inputs below it; without the line of its own."""
        for place, step in enumerate(self.inputs):
            last = place == len(self.inputs) - 1
            yield f"{indent}{'└' if last else '├'}─ {step}"
            yield from step.lines(indent + ("   " if last else "│  "))

    def values(self) -> dict[str, Any]:
        inputs = [step.values() for step in self.inputs]
        return {"name": self.name, "detail": self.detail, "inputs": inputs}


@dataclass(frozen=True)
class OneTimeExplanation:
    """The plan of a one-time query, in every form a reader may ask for."""

    query: str
    reads: tuple[tuple[str, str], ...]
    """What is read, and how, in words."""
    root: Step
    row_by_row: bool
    """Whether no operator has to see several rows."""

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return one_line(self, shortened(self.query))

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(self.text())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"

    def text(self) -> str:
        lines = [f"reads     {name}: {access}" for name, access in self.reads]
        if self.row_by_row:
            lines.append("answered  row by row")
        lines += ["", str(self.root), *self.root.lines()]
        return encodable("\n".join(map(on_one_line, lines)) + "\n")

    def json(self) -> str:
        values = {
            "query": self.query,
            "reads": [{"name": name, "access": access} for name, access in self.reads],
            "row_by_row": self.row_by_row,
            "plan": self.root.values(),
        }
        return encodable(json.dumps(values, indent=2, ensure_ascii=False) + "\n")
