"""Archives and what they give out show themselves on one line, with times that people read."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import mayfly.archive
from mayfly.archive import Archive
from mayfly.display import LONGEST_LINE
from mayfly.errors import CorruptFile

START = datetime(2026, 3, 1, 12)


@pytest.fixture(params=["waves", "cells", "counts"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    """Three days of rows, in an archive of each family."""
    settings: dict[str, dict[str, Any]] = {
        "waves": {"window": 5},
        "cells": {"max_lifetime": "5 days", "lifetime": "2 days",
                  "contract": "PHYSICAL WITHIN 2 days"},
        "counts": {"max_lifetime": "5 days", "counts": {"n": 10}},
    }  # fmt: skip
    made = mayfly.archive.create(
        tmp_path / "sales", "k STRING, ts TIMESTAMP, n BIGINT", key="k", max_gap="none",
        **settings[request.param],
    )  # fmt: skip
    for day in range(3):
        made.update([{"k": "ann", "ts": START.replace(day=day + 1), "n": day}])
    return made


def shown(archive: Archive) -> dict[str, Any]:
    """Everything public that an archive gives out."""
    report = archive.update(None)
    return {
        "archive": archive,
        "read": archive.read,
        "inspect": archive.inspect,
        "maintain": archive.maintain,
        "updates": archive.updates,
        "settings": archive.settings,
        "version": archive.version(),
        "status": archive.inspect.status(),
        "index": archive.inspect.status().constituents[0],
        "update": report,
        "repeated": archive.update(None, update=9, batch_id=f"update {report.update}"),
        "reports": archive.inspect.reports(),
        "report": archive.inspect.reports()[-1],
        "history": archive.inspect.history(),
        "plan": archive.inspect.plan(3),
        "prediction": archive.inspect.predictions()[-1],
        "advice": archive.advise(),
        "migration": archive.migrate(max_gap="2 days"),
    }


def test_everything_is_shown_on_one_line_without_microseconds(archive: Archive) -> None:
    for name, value in shown(archive).items():
        text = repr(value)
        assert "\n" not in text, name
        assert len(text) <= LONGEST_LINE, (name, text)
        assert not re.search(r"\d{15,}", text), (name, text)
        assert " object at 0x" not in text, name


def test_notebooks_show_tables(archive: Archive) -> None:
    for name, value in shown(archive).items():
        if name in ("read", "inspect", "maintain", "updates"):
            continue
        html = value._repr_html_()
        assert html.startswith(("<b>", "<pre>")), name
        assert not re.search(r"\d{15,}", html), (name, html)


def test_times_and_counts_are_in_words(archive: Archive) -> None:
    status, version = repr(archive.inspect.status()), repr(archive.version())
    assert "update 3 at 2026-03-0" in status
    assert "sales" in archive.inspect.status()._repr_html_()
    assert "update 3 at 2026-03-0" in version
    assert repr(archive.inspect.reports()) == "<PastUpdates of 3>"
    assert "2026-03-03" in archive.inspect.history()._repr_html_()
    assert repr(archive.read) == f"<Reading of {archive.repository.directory.address}>"


def test_lists_stay_lists(archive: Archive) -> None:
    plan = archive.inspect.plan(2)
    assert isinstance(plan, list)
    assert str(plan).splitlines() == plan
    assert archive.inspect.reports()[-1]["update"] == 3
    assert [version.manifest.version for version in archive.inspect.history()] == sorted(
        archive.repository.versions()
    )


def test_a_damaged_archive_is_still_shown(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged() -> None:
        raise CorruptFile("the manifest differs from its checksum", "roll back")

    monkeypatch.setattr(archive.inspect, "status", damaged)
    assert "sales" in archive._repr_html_()
    assert "checksum" in archive._repr_html_()
