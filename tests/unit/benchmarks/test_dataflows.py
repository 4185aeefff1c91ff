"""No figure is kept of a dataflow peer whose answer is not DuckDB's."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks import dataflows, render

LOAD = dataflows.Load(rows=600, batches=3, peer_batches=2)


def recorded(folder: Path, stream: str, batches: int) -> Iterator[tuple[int, int, int]]:
    for batch in range(batches):
        table = pq.read_table(folder / stream / f"{batch:05d}.parquet")
        instants = table["ts"].cast("int64").to_pylist()
        yield from zip(instants, table["k"].to_pylist(), table["v"].to_pylist(), strict=True)


def sums_by_hand(folder: Path) -> list[int]:
    found: Counter[tuple[int, int]] = Counter()
    for ts, k, v in recorded(folder, "s", 2):
        for end in range(ts // 1_000_000 - 1, ts // 1_000_000 + 13):
            if (end - 10) * 1_000_000 <= ts < end * 1_000_000:
                found[k, end] += v
    results = [(k, end, x) for (k, end), x in found.items()]
    return [
        len(results),
        sum(k for k, _, _ in results),
        sum(x for _, _, x in results),
        sum(x * end for _, end, x in results),
    ]


def join_by_hand(folder: Path) -> list[int]:
    right = list(recorded(folder, "right", 2))
    pairs = [
        (k, a, b)
        for ts, k, a in recorded(folder, "left", 2)
        for other, same, b in right
        if k == same and abs(ts - other) < 10_000_000
    ]
    return [
        len(pairs),
        sum(k for k, _, _ in pairs),
        sum(3 * a + b for _, a, b in pairs),
        sum(a * (k + 1) for k, a, _ in pairs),
    ]


BY_HAND = {"grouped SUM": sums_by_hand, "join": join_by_hand}


@pytest.mark.parametrize("name", list(dataflows.QUERIES))
def test_duckdb_expects_what_the_first_batches_give(name: str, tmp_path: Path) -> None:
    dataflows.QUERIES[name].generate(LOAD, tmp_path)
    wanted = BY_HAND[name](tmp_path)
    assert wanted[0] > 100
    assert dataflows.expected(name, tmp_path, 2) == wanted
    assert dataflows.expected(name, tmp_path, 3) != wanted


def peer_that_finds(tmp_path: Path, found: list[int]) -> str:
    """Stands for the other Python: a run takes as many seconds as it has batches, times two."""
    program = tmp_path / "python"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "work = json.loads(sys.argv[2])\n"
        f"open({str(tmp_path / 'runs')!r}, 'a').write(json.dumps(work) + '\\n')\n"
        f"found = {found} if work['sums'] else []\n"
        "print(json.dumps({'seconds': 2.0 * work['batches'], 'found': found, 'version': '1'}))\n"
    )
    program.chmod(0o755)
    return str(program)


def runs(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "runs").read_text().splitlines()]


@pytest.mark.parametrize("name", list(dataflows.QUERIES))
def test_a_right_answer_is_timed(name: str, tmp_path: Path) -> None:
    dataflows.QUERIES[name].generate(LOAD, tmp_path)
    python = peer_that_finds(tmp_path, BY_HAND[name](tmp_path))
    result = dataflows.run_peer("Pathway", name, LOAD, tmp_path, python)
    assert result["rows_per_second"] == 600 / 2.0
    assert [(one["batches"], one["sums"]) for one in runs(tmp_path)] == [
        (2, True), (1, False), (2, False),
    ]  # fmt: skip


@pytest.mark.parametrize("name", list(dataflows.QUERIES))
@pytest.mark.parametrize("wrong", range(4))
def test_a_wrong_answer_is_not_timed(name: str, wrong: int, tmp_path: Path) -> None:
    dataflows.QUERIES[name].generate(LOAD, tmp_path)
    found = BY_HAND[name](tmp_path)
    found[wrong] += 1
    python = peer_that_finds(tmp_path, found)
    with pytest.raises(SystemExit, match=f"Bytewax at {name} is wrong"):
        dataflows.run_peer("Bytewax", name, LOAD, tmp_path, python)
    assert len(runs(tmp_path)) == 1


def test_an_answer_without_rows_proves_nothing() -> None:
    with pytest.raises(SystemExit, match="nothing to compare"):
        dataflows.must_agree("Pathway", [0, 0, 0, 0], [0, 0, 0, 0])


def test_a_run_as_short_as_its_warm_up_has_no_rate() -> None:
    with pytest.raises(SystemExit, match="more rows"):
        dataflows.rate_after_warm_up(LOAD, [2.0], [2.0])


def test_the_table_shows_each_peer_beside_mayfly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rates = {"mayfly": 400_000.0, "Pathway": 20_000.0}
    runners = {name: {"rows_per_second": rate} for name, rate in rates.items()}
    recorded = {
        "benchmark": "dataflows",
        "when": "2026-01-01T00:00:00Z",
        "commit": "0123456789abcdef",
        "machine": {"cores": 2, "memory_gib": 8.0, "load_average": [0.5, 0.5, 0.5]},
        "configuration": {"rows": 500_000, "batches": 8, "peer_batches": 3},
        "results": {"join": {**runners, "Bytewax": {"version": "1.2", "rows_per_second": 8e5}}},
    }
    (tmp_path / "dataflows.json").write_text(json.dumps(recorded))
    monkeypatch.setattr(render, "RESULTS", tmp_path)
    table = render.dataflows()
    assert "| join | mayfly | 400,000 |  |" in table
    assert "| join | Pathway | 20,000 | 20.0 |" in table
    assert "| join | Bytewax 1.2 | 800,000 | 0.5 |" in table
