"""The update pattern of each plan edge, from the patterns of the operator's inputs.

Idea: one pure function per kind of operator; each returns the label and the reason for it.
Invariant: ``pattern`` is what the edge's readers see; ``held`` is what the operator's state sees,
which differs only over INTERNAL windows (results stay, state is kept as if external, 3.3.2).
Cost: O(inputs). Thesis 3.5.1, with two corrections: a union is WKS only if the constants agree,
and a join with one external window is WK, since its results inherit what is left of a lifetime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mayfly.errors import MayflyError
from mayfly.lifetime import format_micros
from mayfly.patterns.lattice import MON, STR, WK, Kind, Pattern, merge_all, wks


class PatternError(MayflyError):
    """An operator was given an input whose update pattern it cannot process."""


@dataclass(frozen=True, slots=True)
class Label:
    """The pattern of an edge, the reason, and the pattern its operator's state has to follow.

    ``internal`` is true where every window below is INTERNAL: results are append-only.
    """

    pattern: Pattern
    reason: str
    held: Pattern
    internal: bool = False

    def __str__(self) -> str:
        return f"{self.pattern} {self.reason}"


def _label(pattern: Pattern, reason: str) -> Label:
    return Label(pattern, reason, held=pattern)


def _weakest_link(inputs: Sequence[Label]) -> Label:
    """The input that decides a pattern: the first among the most demanding."""
    return max(inputs, key=lambda label: label.held.kind)


# ── leaves ────────────────────────────────────────────────────────────────────────────────


def unbounded(what: str) -> Label:
    """A stream without a window, or a landmark window: nothing ever leaves."""
    return _label(MON, f"because tuples of {what} never expire")


def time_window(what: str, length: int, slide: int = 0, origin: int = 0) -> Label:
    span = format_micros(length)
    return _label(wks(length, slide, origin), f"because tuples of {what} live exactly {span}")


def count_window(what: str) -> Label:
    """ROWS n, also partitioned or with a range: the displacing tuple lies in the future."""
    return _label(STR, f"because of {what}: tuples leave when later ones displace them")


def cumulative_window(what: str) -> Label:
    """Tuples that go together when their span is over: each knows when."""
    return _label(WK, f"because tuples of {what} go together when their span is over")


def finished_window(what: str) -> Label:
    """Rows at the last instant of each of their windows, and only then."""
    return _label(wks(1), f"because rows of {what} are looked at once, when their window is over")


def finished(what: str) -> Label:
    """A window is answered once, when it is over."""
    return _label(MON, f"because {what} is given once, when it is over")


def internal(window: Label, what: str) -> Label:
    """INTERNAL: the same results, never withdrawn; the state is kept as if external."""
    return Label(MON, f"because {what} is INTERNAL: results are append-only", window.held, True)


def relation(what: str) -> Label:
    """A stored table whose rows change at any time."""
    return _label(STR, f"because {what} changes at any time")


def non_retroactive_relation(what: str) -> Label:
    """An NRR: a change concerns later tuples only, so no result is ever withdrawn for it."""
    return _label(MON, f"because a change of {what} concerns later tuples only")


# ── unary operators ───────────────────────────────────────────────────────────────────────


def stateless(source: Label) -> Label:
    """Selection and projection keep every lifetime (rule 1)."""
    return source


def weak_distinct(source: Label, what: str) -> Label:
    """δ*: results are re-issued with known expirations, in another order than they arrived."""
    _refuse_internal(source, what)
    if source.pattern.kind is Kind.STR:
        raise PatternError(
            f"{what} cannot use δ* on an STR input ({source.reason})",
            "use strict duplicate elimination there",
        )
    if source.pattern.kind is Kind.MON:
        return _label(MON, f"because the input of {what} never expires")
    return _label(WK, f"because {what} re-issues a value with what is left of a later duplicate")


def strict_distinct(source: Label, what: str) -> Label:
    """Strict δ: a result lives until the last duplicate has gone."""
    _refuse_internal(source, what)
    if source.pattern.kind is Kind.STR:
        return _label(STR, source.reason)
    return _label(STR, f"because of {what}: a value lives until its last duplicate has gone")


def distinct(source: Label, what: str) -> Label:
    """The choice of UPA: δ* wherever expirations are predictable, strict δ on STR input."""
    return (weak_distinct if source.pattern.predictable else strict_distinct)(source, what)


def aggregate(source: Label, what: str) -> Label:
    """A value is replaced when a later tuple changes it; over INTERNAL windows it stays."""
    if source.internal:
        return Label(MON, f"because {what} is over INTERNAL windows", STR, internal=True)
    return _label(STR, f"because of {what}: the next tuple may replace any value")


def top(source: Label, what: str) -> Label:
    """Top-N: a better row pushes another out, one that goes lets the next move up."""
    _refuse_internal(source, what)
    return _label(STR, f"because of {what}: a better tuple pushes out another at any time")


def neighbours(sources: Sequence[Label], what: str, appends: bool, because: str) -> Label:
    """OVER and ASOF JOIN: append-only where no later row can change a result."""
    for source in sources:
        _refuse_internal(source, what)
    if appends:
        return _label(MON, f"because {what} is final once its instant is closed: {because}")
    return _label(STR, f"because of {what}: {because}")


# ── binary and n-ary operators ────────────────────────────────────────────────────────────


def merge_union(inputs: Sequence[Label], what: str) -> Label:
    pattern = merge_all([source.pattern for source in inputs])
    held = merge_all([source.held for source in inputs])
    inner = all(source.internal for source in inputs)
    if pattern == inputs[0].pattern and pattern.kind is not Kind.STR:
        return Label(pattern, inputs[0].reason, held, inner)
    if pattern.kind is Kind.STR:
        return Label(STR, _weakest_link(inputs).reason, held, inner)
    return Label(WK, f"because the inputs of {what} live for different times", held, inner)


def window_join(inputs: Sequence[Label], what: str) -> Label:
    """A result lives from its youngest member's ts to its first member's exp."""
    pattern = _joined([source.pattern for source in inputs])
    held = _joined([source.held for source in inputs])
    inner = all(source.internal for source in inputs)
    if pattern.kind is Kind.STR:
        decisive = next(source for source in inputs if source.pattern.kind is Kind.STR)
        return Label(STR, decisive.reason, held, inner)
    if pattern.kind is Kind.MON:
        return Label(MON, f"because no input of {what} has an external window", held, inner)
    return Label(WK, f"because a result of {what} dies with the first of its members", held, inner)


def _joined(patterns: Sequence[Pattern]) -> Pattern:
    if all(pattern.kind is Kind.MON for pattern in patterns):
        return MON
    return STR if any(pattern.kind is Kind.STR for pattern in patterns) else WK


def nrr_join(source: Label, what: str) -> Label:
    """A non-retroactive relation never changes earlier results (rule 1, 3.3.1)."""
    _refuse_strict(source, what)
    return source


def relation_join(source: Label, what: str) -> Label:
    """Updates of a relation are retroactive: any of them may withdraw results (rule 4)."""
    _refuse_strict(source, what)
    return _label(STR, f"because of {what}: an update of the relation changes earlier results")


def negation(sources: Sequence[Label], what: str) -> Label:
    """NOT EXISTS, NOT IN and EXCEPT ALL: an arrival on the right withdraws results (rule 4)."""
    for source in sources:
        _refuse_internal(source, what)
    return _label(STR, f"because of {what}")


# ── outputs ───────────────────────────────────────────────────────────────────────────────


def append_only(what: str) -> Label:
    """A stream of changes or snapshots: what was sent is never withdrawn."""
    return _label(MON, f"because {what} appends to a stream")


def output_window(window: Label, what: str) -> Label:
    """Wstream: a window over the output stream; it implies INTERNAL input windows (3.3.3)."""
    return replace(window, reason=f"because {what} keeps a window of the output stream")


def _refuse_strict(source: Label, what: str) -> None:
    if source.pattern.kind is Kind.STR:
        raise PatternError(
            f"{what} would receive negative tuples: its stream input is STR {source.reason}",
            "join the relation with the stream first, in a sub-query below the operator that "
            "makes it STR; the relation's row a negative tuple refers to may be gone by then",
        )


def _refuse_internal(source: Label, what: str) -> None:
    if source.internal:
        raise PatternError(
            f"{what} over an INTERNAL window has no meaning: results that have to go would stay",
            "remove INTERNAL from the windows below it",
        )
