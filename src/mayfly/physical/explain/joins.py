"""Why a join of three or more inputs runs in the way it does."""

from __future__ import annotations

from collections.abc import Iterator

from mayfly.display import number
from mayfly.optimizer.join_chains import has_common_key
from mayfly.optimizer.join_ways import JoinWay, ways_to_join
from mayfly.optimizer.rule import RuleContext, aliases
from mayfly.optimizer.rules.merge_joins import merge
from mayfly.plan.logical_operators import Join, Node


def reasons_of_joins(plan: Node, context: RuleContext) -> dict[Node, str]:
    """By the outermost join of each group of inputs that are joined with each other."""
    return dict(_reasons(plan, context))


def _reasons(node: Node, context: RuleContext) -> Iterator[tuple[Node, str]]:
    inputs = list(node.children())
    if isinstance(node, Join):
        whole = _merged(node)
        if len(whole.inputs) > 2:
            yield node, _reason(node, whole, context)
            if has_common_key(whole):
                inputs = list(whole.inputs)
    for child in inputs:
        yield from _reasons(child, context)


def _merged(node: Join) -> Join:
    while (join := merge(node)) != node:
        assert isinstance(join, Join)
        node = join
    return node


def _reason(node: Join, whole: Join, context: RuleContext) -> str:
    if not has_common_key(whole):
        return f"step by step: no key is common to {', '.join(map(_name, whole.inputs))}"
    if not context.joining.whole:
        return "step by step, with every intermediate result kept, as was asked for"
    ways = ways_to_join(whole, context)
    chosen = next((way for way in ways if way.plan == node), ways[0])
    others = sorted((way for way in ways if way is not chosen), key=lambda way: way.cost)
    words = [f"{_words(chosen)}: {number(chosen.cost)} tuples/s touched"]
    for way in others[:1]:
        less = ", too little less for a stage of its own" if way.cost < chosen.cost else ""
        words.append(f"{_words(way)}: {number(way.cost)}{less}")
    return "; ".join(words)


def _words(way: JoinWay) -> str:
    if way.kept is None:
        return "all inputs at once, no intermediate result"
    return f"{_name(way.kept)} kept"


def _name(node: Node) -> str:
    return " ⋈ ".join(aliases(node))
