"""A derived stream in a logical plan: a stream operator below other operators."""

from __future__ import annotations

from dataclasses import dataclass

from mayfly.plan.logical_operators import Node, OutputKind


@dataclass(frozen=True)
class Derived(Node):
    """A derived stream: what a stream operator would send of an answer, as tuples that stay."""

    inputs_of = ("child",)
    child: Node
    kind: OutputKind
    restore: bool = False
