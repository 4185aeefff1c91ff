"""Generated streams are small: thresholds are made small as well, so that they are crossed."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import mayfly.kernels


@pytest.fixture(scope="module", autouse=True)
def small_thresholds() -> Iterator[None]:
    """Negation forgets keys at once, pairs of rows that meet are handed over a few at a time, and
    few runs are kept, so that they are merged and filed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mayfly.kernels.anti_join.FEW", 0)
        patch.setattr("mayfly.kernels.evaluation.REVIEW", 2)
        for name, few in {"LIMIT": 8, "WAITING": 2, "PER_CELL": 1}.items():
            patch.setattr(f"mayfly.kernels.upkeep.{name}", few)
        for module in pkgutil.iter_modules(mayfly.kernels.__path__, "mayfly.kernels."):
            if hasattr(importlib.import_module(module.name), "PAIRS_AT_ONCE"):
                patch.setattr(f"{module.name}.PAIRS_AT_ONCE", 3)
        yield
