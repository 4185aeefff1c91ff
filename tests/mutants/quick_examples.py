"""A pytest plugin for mutant runs: one counterexample is enough, so none is shrunk."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile(
        "mutants", parent=settings(), phases=(Phase.explicit, Phase.generate), database=None
    )
    settings.load_profile("mutants")
