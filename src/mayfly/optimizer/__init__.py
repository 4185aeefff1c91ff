"""Rewrites, costs and plan choice."""

from mayfly.optimizer.labels import Labelled, label_plan
from mayfly.optimizer.optimize import Candidate, Optimized, optimize
from mayfly.optimizer.statistics import SourceStatistics, Statistics

__all__ = [
    "Candidate",
    "Labelled",
    "Optimized",
    "SourceStatistics",
    "Statistics",
    "label_plan",
    "optimize",
]
