"""Periodic queries: many windows and periods, answered from shared synopses."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mayfly.periodic.predicate import EVERYTHING, Opaque, Predicate, Term, any_of
    from mayfly.periodic.query import PeriodicQuery
    from mayfly.periodic.sharing import RULES
    from mayfly.periodic.sharing_set import Answer
    from mayfly.periodic.workload import QueryWorkload, Share
    from mayfly.synopses.contents import Aggregate

__all__ = [
    "EVERYTHING",
    "RULES",
    "Aggregate",
    "Answer",
    "Opaque",
    "PeriodicQuery",
    "Predicate",
    "QueryWorkload",
    "Share",
    "Term",
    "any_of",
]
_PLACES = {
    "EVERYTHING": "periodic.predicate",
    "RULES": "periodic.sharing",
    "Aggregate": "synopses.contents",
    "Answer": "periodic.sharing_set",
    "Opaque": "periodic.predicate",
    "PeriodicQuery": "periodic.query",
    "Predicate": "periodic.predicate",
    "QueryWorkload": "periodic.workload",
    "Share": "periodic.workload",
    "Term": "periodic.predicate",
    "any_of": "periodic.predicate",
}
"""Imported when they are asked for: schedules are priced without synopses."""


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return getattr(import_module(f"mayfly.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'mayfly.periodic' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
