"""Advice on rows with their own lifetimes, on the terminal and as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console

from mayfly.archive.advice.cell_advisor import CellAdvice, cell_name, declared
from mayfly.archive.advice.cell_cost import CellCost
from mayfly.archive.advice.wave_advisor import figure
from mayfly.cli.output import on_terminal, print_table


def show_cell_advice(advice: CellAdvice, most: int) -> None:
    """The choice in words, and the candidates with their figures."""
    Console(highlight=False).print(advice.explain(), soft_wrap=not on_terminal())
    typer.echo()
    rows = [_candidate(candidate) for candidate in advice.candidates[:most]]
    rows.append(_candidate(advice.rule_of_thumb.cost, "papers: "))
    if advice.current is not None:
        rows.append(_candidate(advice.current, "now: "))
    header = ["layout", "work s", "update s", "written MB", "MB", "runs", "probe ms", "scan s"]
    print_table(header, rows, right=header[1:])


def _candidate(cost: CellCost, mark: str = "") -> list[str]:
    figures = (
        cost.total_work,
        cost.transition,
        cost.moved.written,
        cost.space,
        cost.runs,
        cost.probe * 1000,
        cost.scan,
    )
    return [f"{mark}{cell_name(cost.layout)}", *map(figure, figures)]


def cell_advice_values(advice: CellAdvice) -> dict[str, Any]:
    """The advice as plain values."""
    even = advice.break_even()
    return {
        "explanation": advice.explain(),
        "candidates": [_cost_values(candidate) for candidate in advice.candidates],
        "rule_of_thumb": {
            "for": str(advice.rule_of_thumb),
            **_cost_values(advice.rule_of_thumb.cost),
        },
        "now": None if advice.current is None else _cost_values(advice.current),
        "measured_seconds": advice.measured,
        "rebuilding_pays_from_probes": None if even is None else even[0],
        "constants": asdict(advice.constants),
    }


def _cost_values(cost: CellCost) -> dict[str, Any]:
    return {
        **declared(cost.layout),
        "work_seconds": cost.total_work,
        "update_seconds": cost.transition,
        "files_written": cost.moved.files,
        "megabytes_written": cost.moved.written,
        "megabytes_read": cost.moved.read,
        "megabytes": cost.space,
        "expired_megabytes": cost.dead,
        "runs": cost.runs,
        "probe_seconds": cost.probe,
        "scan_seconds": cost.scan,
    }
