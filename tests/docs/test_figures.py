"""Documented speed figures are those that were recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import render


@pytest.mark.parametrize("name", render.DOCUMENTS)
def test_documents_show_the_recorded_figures(name: str) -> None:
    document = render.ROOT / name
    if document.exists():
        assert render.rendered(document) == document.read_text(), "run: python -m benchmarks.render"


def test_a_changed_result_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = {"cores": 2, "memory_gib": 8.0, "load_average": [0.5, 0.5, 0.5]}
    runners = {
        name: {"median_seconds": seconds, "rows_per_second": 500_000 / seconds}
        for name, seconds in (("floor", 1.0), ("mayfly", 2.0), ("spark-memory", 12.0))
    }
    recorded = {
        "benchmark": "streaming",
        "when": "2026-01-01T00:00:00Z",
        "commit": "0123456789abcdef",
        "machine": machine,
        "configuration": {"window": 10, "keys": 10_000, "rows": 250_000},
        "results": {"runners": runners},
    }
    (tmp_path / "streaming.json").write_text(json.dumps(recorded))
    monkeypatch.setattr(render, "RESULTS", tmp_path)
    assert "| mayfly | 2.00 s | 250,000 | 6.0 |" in render.streaming()
    runners["mayfly"]["median_seconds"] = 3.0
    (tmp_path / "streaming.json").write_text(json.dumps(recorded))
    assert "| mayfly | 3.00 s | 250,000 | 4.0 |" in render.streaming()
