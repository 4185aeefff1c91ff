"""Workers that run out of memory: only a request that a new one cannot answer is refused."""

from __future__ import annotations

import asyncio
import gc
import time
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


def test_a_worker_is_replaced_when_there_was_no_memory_to_start_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    begin, refusals = asyncio.create_subprocess_exec, [OSError(12, "Cannot allocate memory")]

    async def begin_at_second_attempt(*words: Any, **settings: Any) -> Any:
        if pool._alive == set() and len(started) == 1 and refusals:
            raise refusals.pop()
        started.append(await begin(*words, **settings))
        return started[-1]

    started: list[Any] = []
    monkeypatch.setattr(worker_pool, "AGAIN", 0.01)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", begin_at_second_attempt)
    pool = WorkerPool("nowhere", {}, ServerLimits(workers=1))

    async def ask_twice() -> Any:
        await pool.start()
        try:
            request = {"do": "query", "enough_for": 1, "silently": True}
            return [(await pool.ask(request))[0]["status"] for _ in range(2)]
        finally:
            await pool.close()

    assert asyncio.run(ask_twice()) == [200, 200]
    gc.collect()
    assert not refusals
    assert "no worker: [Errno 12] Cannot allocate memory" in capfd.readouterr().err


def test_a_request_does_not_wait_for_ever_for_a_worker_that_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask_twice() -> None:
        pool = WorkerPool("nowhere", {}, ServerLimits(workers=1, patience=0.1))
        await pool.start()
        try:
            request = {"do": "query", "enough_for": 1, "silently": True}
            await pool.ask(request, patient=True)
            monkeypatch.setattr(worker_pool, "PROGRAM", "nowhere.at_all")
            with pytest.raises(worker_pool.Busy):
                await pool.ask(request, patient=True)
        finally:
            await pool.close()

    asyncio.run(ask_twice())
    gc.collect()


def test_a_worker_that_ended_by_itself_leaves_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def let_end() -> None:
        pool = WorkerPool("nowhere", {}, ServerLimits(workers=1))
        await pool.start()
        (worker,) = pool._alive
        assert worker.stdin is not None
        worker.stdin.close()  # it ends
        assert worker.stdout is not None
        await worker.stdout.read()
        time.sleep(0.05)  # asyncio does not hear of it before the pool ends it
        await pool.close()

    asyncio.run(let_end())
    gc.collect()
    assert caplog.messages == []
