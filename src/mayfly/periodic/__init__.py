"""Periodic queries: many windows and periods, answered from shared synopses."""

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
