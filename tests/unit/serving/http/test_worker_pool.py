"""Workers that run out of memory: only a request that a new one cannot answer is refused."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from mayfly.errors import LimitExceeded
from mayfly.serving.http import worker_pool
from mayfly.serving.http.server_limits import ServerLimits
from mayfly.serving.http.worker_pool import WorkerPool


def replies(*requests: dict[str, Any], workers: int = 1) -> list[dict[str, Any]]:
    """What workers say to requests, one after the other."""

    async def ask_all() -> list[dict[str, Any]]:
        pool = WorkerPool("nowhere", {}, ServerLimits(workers=workers))
        await pool.start()
        try:
            said = [(await pool.ask(request))[0] for request in requests]
            while pool._tasks:  # a worker is being replaced
                await asyncio.sleep(0.01)
            return said
        finally:
            await pool.close()

    try:
        return asyncio.run(ask_all())
    finally:
        gc.collect()  # a process or pipe left open fails this test, not a later one


@pytest.fixture(autouse=True)
def filling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "PROGRAM", "tests.unit.serving.http.filling_worker")


@pytest.mark.parametrize("silently", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_what_earlier_answers_left_is_not_counted(silently: bool, workers: int) -> None:
    request = {"do": "query", "enough_for": 1, "silently": silently}
    said = replies(*[request] * 3, workers=workers)
    assert [reply["status"] for reply in said] == [200] * 3
    assert len({reply["process"] for reply in said}) == 3
    assert all("last" not in reply for reply in said)


def test_a_request_that_takes_too_much_is_refused() -> None:
    small, large = ({"do": "query", "enough_for": n, "silently": False} for n in (9, 0))
    said = replies(small, large, small, workers=1)
    assert [reply["status"] for reply in said] == [200, 422, 200]


def test_a_worker_that_ends_at_its_first_request() -> None:
    with pytest.raises(LimitExceeded, match="was ended"):
        replies({"do": "query", "enough_for": 0, "silently": True})


@pytest.mark.parametrize("turns", range(8))
def test_a_worker_that_is_being_started_is_ended_with_the_pool(turns: int) -> None:
    """However far it has come: what is left open would be found by `gc.collect`."""

    async def close_early() -> None:
        pool = WorkerPool("nowhere", {}, ServerLimits(workers=1))
        await pool.start()
        pool._background(pool._spawn())
        for _ in range(turns):
            await asyncio.sleep(0)
        await pool.close()

    asyncio.run(close_early())
    gc.collect()
