"""Rewrites, costs, plan choice, and what a plan means for the machine."""

from mayfly.optimizer.explaining import explain, plan_physically
from mayfly.optimizer.labelling import Labelled, label_plan
from mayfly.optimizer.pipeline import Candidate, Optimized, optimize
from mayfly.optimizer.statistics import SourceStatistics, Statistics

__all__ = [
    "Candidate",
    "Labelled",
    "Optimized",
    "SourceStatistics",
    "Statistics",
    "explain",
    "label_plan",
    "optimize",
    "plan_physically",
]
