"""The relevant set: synopses of other predicates that together say what a predicate asks for.

Idea (thesis 8.3.3): predicates are sets of terms. Synopses *cover* a query if their terms are its
terms; the cover is *disjoint* if no term is in two of them and no row satisfies two terms, so that
values may be added. Where values can be subtracted, a disjoint *supercover* serves, less a disjoint
cover of what it has too much. Smallest sets first, at most four synopses: more are no gain.
Cost: all subsets of up to four synopses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Protocol

from mayfly.periodic.predicate import Predicate, are_disjoint
from mayfly.periodic.sharing.sharing_rule import Combine
from mayfly.synopses.contents import Content

MOST = 4

Predicates = Mapping[str, Predicate]


class Merging(Protocol):
    """How what is kept merges: whether overlaps do no harm, and whether parts can be taken out."""

    @property
    def insensitive(self) -> bool: ...
    @property
    def subtractable(self) -> bool: ...


def relevant(
    asked: Predicate, synopses: Predicates, content: Merging | Content | type[Content]
) -> Combine | None:
    """The smallest sets to merge and to subtract; None if an own synopsis is needed."""
    for size in range(1, MOST + 1):
        for plus in covers(asked, synopses, size):
            if content.insensitive or size == 1 or is_disjoint(plus, synopses):
                return Combine(plus)
        if content.subtractable:
            for plus, minus in differences(asked, synopses, size):
                return Combine(plus, minus)
    return None


def covers(asked: Predicate, synopses: Predicates, size: int) -> Iterator[tuple[str, ...]]:
    """So many synopses whose terms are those that are asked for."""
    inside = sorted(name for name, terms in synopses.items() if terms <= asked)
    for names in combinations(inside, size):
        if terms_of(names, synopses) == asked:
            yield names


def differences(
    asked: Predicate, synopses: Predicates, size: int
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Disjoint supercovers, and disjoint covers of what they have too much."""
    for several in range(1, size):
        for plus in combinations(sorted(synopses), several):
            terms = terms_of(plus, synopses)
            if not terms > asked or not is_disjoint(plus, synopses):
                continue
            others = {name: synopses[name] for name in synopses if name not in plus}
            for minus in covers(terms - asked, others, size - several):
                if is_disjoint(minus, synopses):
                    yield plus, minus


def terms_of(names: Sequence[str], synopses: Predicates) -> Predicate:
    return frozenset().union(*(synopses[name] for name in names))


def is_disjoint(names: Sequence[str], synopses: Predicates) -> bool:
    """Whether no term is in two of the synopses, and no row satisfies two of their terms."""
    terms = terms_of(names, synopses)
    return sum(len(synopses[name]) for name in names) == len(terms) and are_disjoint(terms)
