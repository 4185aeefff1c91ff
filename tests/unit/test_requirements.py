"""requirements.lock is plain, sorted, and satisfies what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "requirements.lock").read_text().splitlines()
PINS = {canonicalize_name(name): version for name, version in (x.split("==") for x in LINES)}


def test_every_line_pins_one_package() -> None:
    assert [line for line in LINES if not re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][\w.]*", line)] == []
    assert list(PINS) == sorted(PINS)
    assert len(PINS) == len(LINES)


def test_every_dependency_is_pinned_within_its_range() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = settings["project"]
    wanted = [*settings["build-system"]["requires"], *project["dependencies"]]
    wanted += [entry for extra in project["optional-dependencies"].values() for entry in extra]
    for requirement in map(Requirement, wanted):
        if requirement.name != project["name"]:
            pinned = PINS.get(canonicalize_name(requirement.name))
            assert pinned, f"{requirement} is not in requirements.lock"
            assert requirement.specifier.contains(pinned), f"{requirement} excludes {pinned}"
