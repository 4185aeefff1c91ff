"""Readers beside a pipeline that runs, is vacuumed, killed and migrated: every answer is right."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import mayfly
from mayfly.storage import Repository
from tests.faults.processes import Program
from tests.faults.reader_clients import observe, resume, steps

CLIENTS = 8
SECONDS = float(os.environ.get("MAYFLY_READERS_SECONDS", "600"))


@pytest.mark.parametrize("seed", range(3))
def test_readers_between_the_steps_of_a_pipeline(tmp_path: Path, seed: int) -> None:
    """Two readers, of which one stays at its version until it is gone."""
    rng, seen, happened = Random(seed), Counter[str](), Counter[str]()
    resume(tmp_path)
    moving, staying = mayfly.open(tmp_path), mayfly.open(tmp_path)
    for number, what in enumerate(steps(tmp_path, rng)):
        happened[what] += 1
        moving = observe(moving, rng, seen)
        if number % 5 == 4:
            staying = observe(staying, rng, seen)
        if number == 40:
            break
    assert set(happened) == {"batch", "vacuum", "kill", "migrate"}
    assert seen["answers"] > 40


def version(folder: Path) -> int:
    return Repository.open(folder, sync=False).current().version


@pytest.mark.slow
def test_clients_beside_a_pipeline_that_is_killed(tmp_path: Path) -> None:
    """As processes; MAYFLY_READERS_SECONDS says for how long, ten minutes unless it does."""
    folder, rng = tmp_path / "ck", Random(1)
    resume(folder)
    clients = [
        Program.start(
            "tests.faults.reader_clients", "reader", str(folder), str(number), str(SECONDS),
            log=tmp_path / f"reader{number}.log",
        )
        for number in range(CLIENTS)
    ]  # fmt: skip
    end, kills = time.monotonic() + SECONDS, 0
    try:
        while time.monotonic() < end:
            runner = Program.start(
                "tests.faults.reader_clients", "pipeline", str(folder), str(kills),
                log=tmp_path / "pipeline.log",
            )  # fmt: skip
            last = version(folder) + rng.randint(3, 40)
            while version(folder) < last and time.monotonic() < end:
                assert runner.process.poll() is None, runner.said()
                time.sleep(0.01)
            runner.kill()
            kills += 1
        codes = [client.wait() for client in clients]
        assert codes == [0] * CLIENTS, [client.said() for client in clients]
    finally:
        for client in clients:
            client.kill()
    seen = Counter[str]()
    for client in clients:
        seen.update(json.loads(client.said().splitlines()[-1]))
    print(dict(seen), kills, "kills")
    assert seen["answers"] > SECONDS
    assert seen["versions"] > SECONDS / 10
