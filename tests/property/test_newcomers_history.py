"""A query that comes to a running pipeline, and what it knows of the rows before it."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.cql import catalog_after, parse
from mayfly.lifetime import NEVER
from mayfly.physical.shared_program import streams_of
from mayfly.plan.catalog import Catalog, RelationDefinition
from mayfly.runtime.clock import Clocks
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.relation_log import Changing
from mayfly.spark.io.sinks import Delivery
from mayfly.spark.stream.query_checkpoint import ENTRY, SINCE, WHOLE_FROM, RegisteredQueries
from mayfly.spark.stream.query_history import deliver_history, settle
from mayfly.storage import SetProperties, verify
from mayfly.testing.random_queries import DECLARATIONS, STREAMS, random_query
from tests.property.continuous_cases import _cut, _rows, catalog, table_of
from tests.property.shared_runs import (
    HereDataflow,
    HereRunner,
    program_of,
    results_of,
    runner_of,
)

SECOND = 1_000_000
EVERY = ("s1", "s2", "s3")
VIEWS = {
    "all of s1": "SELECT * FROM s1 [RANGE 40 s]",
    "all of s2": "SELECT * FROM s2 [UNBOUNDED]",
    "all of s3": "SELECT * FROM s3 [RANGE 8 s]",
    "join": "SELECT x.g, y.v AS w FROM s1 [RANGE 30 s] x, s2 [RANGE 30 s] y WHERE x.k = y.k",
    "some of s1": "SELECT g, v FROM s1 [RANGE 90 s] WHERE v > 1",
    "groups": "SELECT k, g, SUM(v) AS n FROM s1 [RANGE 20 s] GROUP BY k, g",
}
seeds = st.integers(0, 2**48)
some = settings(max_examples=max(24, settings().max_examples // 3), phases=[Phase.generate])


def newcomer(rng: Random) -> str:
    choices = [
        "SELECT g, COUNT(*) AS n, SUM(v) AS s FROM s1 [RANGE 20 s] GROUP BY g",
        "SELECT g, SUM(v) AS s FROM s1 [RANGE 15 s] WHERE v > 1 GROUP BY g",
        "SELECT x.v, y.v AS w FROM s1 [RANGE 20 s] x, s2 [RANGE 30 s] y WHERE x.k = y.k",
        "SELECT DISTINCT g FROM s1 [RANGE 30 s]",
        "SELECT Istream(k, COUNT(*) AS n) FROM s1 [RANGE 9 s] GROUP BY k",
        "SELECT Rstream(g, SUM(v) AS s) FROM s1 [RANGE 20 s SLIDE 5 s] GROUP BY g",
        "SELECT Istream-restore(g) FROM s1 [RANGE 4 s SLIDE 6 s]",
        "SELECT Dstream(v) FROM s2 [RANGE 7 s]",
        "SELECT seq, v FROM s2 [ROWS 4]",
        "SELECT k, v FROM s1 [RANGE 20 s] EXCEPT ALL SELECT k, v FROM s2 [RANGE 9 s]",
    ]
    return rng.choice(choices) if rng.random() < 0.5 else random_query(rng).cql


def registered(
    folder: Path,
    known: Catalog,
    running: dict[str, str],
    name: str,
    cql: str,
    buckets: int,
    relations: Mapping[str, Changing] | None = None,
) -> HereRunner:
    """The runner with one more query, as it is registered by a start."""
    before = runner_of(folder, known, running, buckets, streams=EVERY)
    manifest = before.repository.current()
    clocks = Clocks.from_json(manifest.properties["clocks"])
    streams = streams_of(program_of(cql, known))
    since = None if manifest.properties["batch"] < 0 else clocks.of(streams).query
    entry = None if since is None else manifest.version
    after = runner_of(
        folder, known, {**running, name: cql}, buckets,
        since={name: since}, entries={name: entry}, streams=EVERY,
    )  # fmt: skip
    after.relations = relations or {}
    queries: dict[str, dict[str, Any]] = {one: {SINCE: None} for one in running}
    queries[name] = {SINCE: since, ENTRY: entry}
    settle(after, RegisteredQueries(after.repository, buckets, queries, (name,), ()))
    return after


def fed(run: ContinuousRun, batch: Any, beats: dict[str, int]) -> None:
    own = set(run.clocks.streams)
    run.feed(
        {n: table_of(n, listed) for n, listed in batch.items() if n in own},
        {n: at for n, at in beats.items() if n in own},
    )


def alive(rows: list[dict[str, Any]], at: int) -> Counter[str]:
    shown = [
        {k: v for k, v in row.items() if k not in ("ts", "exp")}
        for row in rows
        if row["ts"] <= at < row["exp"]
    ]
    return Counter(map(repr, shown))


def sent(rows: list[dict[str, Any]], since: int) -> Counter[str]:
    return Counter(repr(row) for row in rows if row["ts"] >= since)


def check(seed: int, running: dict[str, str], cql: str, slack: int) -> int:
    """Whether all is right from the instant on from which answers are said to be whole."""
    rng, known = Random(seed), catalog(slack)
    rows = {name: _rows(rng, name, rng.randint(2, 20)) for name in STREAMS}
    batches = [*_cut(rng, rows, slack)]
    half, buckets = rng.randint(1, len(batches)), rng.choice((1, 2, 3))
    always = ContinuousRun(program_of(cql, known), known)
    view = always.program.sent is None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        first = runner_of(place, known, running, buckets, streams=EVERY)
        history = rng.choice((1, 4 * SECOND, 25 * SECOND, NEVER))
        first.settings = replace(first.settings, history=history)
        for batch in batches[:half]:
            first.feed({n: table_of(n, listed) for n, listed in batch.items()}, {})
            fed(always, batch, {})
        second = registered(place, known, running, "comes", cql, buckets)
        stored = second.repository.current().properties["queries"]["comes"]
        since, whole = stored[SINCE], stored[WHOLE_FROM]
        if view and whole < since:
            now = results_of(second, "comes").to_pylist()
            local = always.lifetimes().to_pylist()
            assert alive(now, since - 1) == alive(local, since - 1), "answers at once"
        end = dict.fromkeys(EVERY, 10_000 * SECOND)
        for batch in [*batches[half:], {}]:
            beats = {} if batch else end
            second.feed({n: table_of(n, listed) for n, listed in batch.items()}, beats)
            fed(always, batch, beats)
        found = results_of(second, "comes").to_pylist()
        assert verify(second.repository).ok
    wanted = (always.lifetimes() if view else always.changes()).to_pylist()
    if not view:
        assert sent(found, max(whole, since)) == sent(wanted, max(whole, since))
        assert not [row for row in found if row["ts"] < since]
        return int(whole)
    times = {at + more for row in (*found, *wanted) for at in (row["ts"], row["exp"])
             for more in (-1, 0)}  # fmt: skip
    for at in sorted(one for one in {*times, whole} if whole <= one < 10_000 * SECOND):
        assert alive(found, at) == alive(wanted, at), (at, whole, since)
    return int(whole)


@some
@given(seeds)
def test_answers_are_whole_from_the_instant_they_say(seed: int) -> None:
    rng = Random(seed)
    names = rng.sample(sorted(VIEWS), rng.randint(1, 4))
    running = {f"q{number}": VIEWS[name] for number, name in enumerate(names)}
    check(rng.getrandbits(40), running, newcomer(rng), rng.choice((0, 0, 3 * SECOND)))


ROWS = {
    "s1": [
        {"ts": at * SECOND, "seq": at, "k": at % 3, "g": "ab"[at % 2], "v": at, "x": 1.0}
        for at in range(40)
    ],
    "s2": [
        {"ts": at * SECOND, "seq": at, "k": at % 4, "g": "a", "v": at, "x": 1.0} for at in range(40)
    ],
}


def whole_at(
    tmp_path: Path, running: dict[str, str], cql: str, history: int = NEVER
) -> tuple[float, float]:
    """When the newcomer came, and from when on its answers are whole, in seconds."""
    known = catalog(0)
    first = runner_of(tmp_path, known, running, streams=EVERY)
    first.settings = replace(first.settings, history=history)
    beats = {"s3": 39 * SECOND}
    first.feed({name: table_of(name, rows) for name, rows in ROWS.items()}, beats)
    second = registered(tmp_path, known, running, "comes", cql, 2)
    stored = second.repository.current().properties["queries"]["comes"]
    return stored[SINCE] / SECOND, stored[WHOLE_FROM] / SECOND


@pytest.mark.parametrize(
    ("running", "cql", "more"),
    [
        ("SELECT * FROM s1 [RANGE 20 s]", "SELECT g FROM s1 [RANGE 20 s]", 0),
        ("SELECT * FROM s1 [RANGE 20 s]", "SELECT g FROM s1 [RANGE 5 s] WHERE v > 3", 0),
        ("SELECT g, v FROM s1 [RANGE 20 s]", "SELECT g, ts FROM s1 [RANGE 5 s]", 0),
        ("SELECT g FROM s1 [RANGE 20 s]", "SELECT g, v FROM s1 [RANGE 5 s]", 5),
        ("SELECT g, v FROM s1 [RANGE 20 s] WHERE v > 3", "SELECT g FROM s1 [RANGE 5 s]", 5),
        (
            "SELECT g FROM s1 [RANGE 20 s] WHERE v > 3",
            "SELECT g FROM s1 [RANGE 5 s] WHERE v > 3 AND k = 1",
            5,
        ),
        (
            "SELECT g, v, k FROM s1 [RANGE 20 s] WHERE v > 3",
            "SELECT g FROM s1 [RANGE 5 s] WHERE k = 1 AND v > 3",
            0,
        ),
        ("SELECT * FROM s1 [UNBOUNDED]", "SELECT g FROM s1 [ROWS 3]", 0),
        ("SELECT g, COUNT(v) AS n FROM s1 [RANGE 20 s] GROUP BY g",
         "SELECT v FROM s1 [RANGE 20 s] WHERE g = 'a'", 0),
        ("SELECT * FROM s1 [RANGE 20 s SLIDE 2 s]", "SELECT g FROM s1 [RANGE 5 s]", 5),
        ("SELECT * FROM s2 [RANGE 20 s]", "SELECT g FROM s1 [RANGE 5 s]", 5),
    ],
)  # fmt: skip
def test_what_is_kept_is_found(tmp_path: Path, running: str, cql: str, more: int) -> None:
    since, whole = whole_at(tmp_path, {"q": running}, cql)
    assert since == 39
    instant = 1 / SECOND
    assert whole == pytest.approx(since + more if more else since - instant)


@pytest.mark.parametrize(("history", "reach"), [(1, 20), (7 * SECOND, 27), (NEVER, 39)])
def test_a_view_keeps_its_window_and_its_history(
    tmp_path: Path, history: int, reach: float
) -> None:
    running = {"q": "SELECT * FROM s1 [RANGE 20 s]"}
    since, whole = whole_at(tmp_path / "a", running, "SELECT g FROM s1 [RANGE 35 s]", history)
    assert whole == pytest.approx(max(since + 35 - reach, since - 1e-6), abs=2e-6)
    since, whole = whole_at(tmp_path / "b", running, "SELECT g FROM s1 [RANGE 20 s]", history)
    assert whole == pytest.approx(since - 1e-6, abs=1e-7)


def test_a_join_knows_its_rows_from_the_next_instant_on(tmp_path: Path) -> None:
    join = "SELECT {} FROM s1 [RANGE 20 s] x, s2 [RANGE 30 s] y WHERE x.k = y.k"
    running = {"q": join.format("x.g, y.v AS w")}
    since, whole = whole_at(tmp_path / "a", running, join.format("y.v") + " AND x.g = 'a'")
    assert whole == since
    rows_with_null_keys = "SELECT g FROM s1 [RANGE 20 s]"
    since, whole = whole_at(tmp_path / "b", running, rows_with_null_keys)
    assert whole == since + 20


def test_a_grouping_and_a_join_keep_as_much_as_their_windows(tmp_path: Path) -> None:
    groups = {"q": "SELECT g, COUNT(v) AS n FROM s1 [RANGE 20 s] GROUP BY g"}
    since, whole = whole_at(tmp_path / "a", groups, "SELECT v FROM s1 [RANGE 23 s]")
    assert round((whole - since) * SECOND) == 3 * SECOND - 1
    join = "SELECT x.g, y.v AS w FROM s1 [RANGE {} s] x, s2 [RANGE 30 s] y WHERE x.k = y.k"
    since, whole = whole_at(tmp_path / "b", {"q": join.format(20)}, join.format(23))
    assert round((whole - since) * SECOND) == 3 * SECOND


def test_a_join_that_may_have_lost_rows_is_no_source(tmp_path: Path) -> None:
    known, running = catalog(0), {"q": VIEWS["join"]}
    first = runner_of(tmp_path, known, running, streams=EVERY)
    manifest = first.feed({name: table_of(name, rows) for name, rows in ROWS.items()}, {})
    totals = {**manifest.properties["totals"], "shed": {"s1": 1, "s2": 0}}
    first.repository.commit(manifest, [SetProperties({"totals": totals})])
    second = registered(tmp_path, known, running, "comes", VIEWS["join"], 2)
    stored = second.repository.current().properties["queries"]["comes"]
    assert stored[WHOLE_FROM] == stored[SINCE] + 30 * SECOND


def test_rows_that_have_waited_are_taken_once(tmp_path: Path) -> None:
    """Rows that were admitted may still be stored with those that wait."""
    known, running = catalog(3 * SECOND), {"q": "SELECT * FROM s1 [RANGE 30 s]"}
    tenth = SECOND // 10
    rows = [{**ROWS["s1"][0], "ts": at * tenth, "seq": at} for at in range(70)]
    first = runner_of(tmp_path, known, running, 1, streams=EVERY)
    for listed in (rows[:61], rows[61:63]):
        first.feed({"s1": table_of("s1", listed)}, {})
    stored = first.repository.current()
    waits = [one for one in stored.segments.values() if one.group.endswith("/waiting")]
    assert min(one.ts.low for one in waits) < 32 * tenth, "the clock: one that was admitted"
    cql = "SELECT COUNT(*) AS n FROM s1 [RANGE 20 s]"
    second = registered(tmp_path, known, running, "comes", cql, 1)
    whole = second.repository.current().properties["queries"]["comes"][WHOLE_FROM]
    assert whole == 32 * tenth - 1
    second.feed({"s1": table_of("s1", rows[63:])}, {})
    found = results_of(second, "comes").to_pylist()
    for at in (31, 32, 38):
        assert alive(found, at * tenth) == Counter([repr({"n": at + 1})])


def test_results_that_stay_need_all_rows(tmp_path: Path) -> None:
    running = {"q": "SELECT * FROM s1 [RANGE 20 s]"}
    internal = "SELECT v FROM s1 [RANGE 5 s INTERNAL]"
    assert whole_at(tmp_path / "a", running, internal, history=1)[1] == NEVER / SECOND
    assert whole_at(tmp_path / "b", running, internal)[1] < 39


def test_count_windows_without_all_rows_are_never_certain(tmp_path: Path) -> None:
    running = {"q": "SELECT * FROM s1 [RANGE 20 s]", "r": "SELECT g FROM s1 [UNBOUNDED]"}
    _, whole = whole_at(tmp_path, running, "SELECT v FROM s1 [PARTITION BY k ROWS 2]")
    # history is kept for ever here, so the log of q goes back to the first row
    assert whole < 39
    running = {"r": "SELECT g FROM s1 [UNBOUNDED]"}
    _, whole = whole_at(tmp_path / "b", running, "SELECT v FROM s1 [PARTITION BY k ROWS 2]")
    assert whole == NEVER / SECOND


@dataclass
class Noted:
    """A sink that fails as often as it is told to."""

    failures: int = 0
    told: list[tuple[int, int]] = field(default_factory=list)

    def deliver(self, delivery: Delivery) -> None:
        self.told.append((delivery.batch_id, delivery.table().num_rows))
        if self.failures:
            self.failures -= 1
            raise OSError("no space left")


def test_first_results_reach_the_sinks_once_for_certain(tmp_path: Path) -> None:
    known, running = catalog(0), {"q": "SELECT * FROM s1 [RANGE 20 s]"}
    first = runner_of(tmp_path, known, running, streams=EVERY)
    first.feed({name: table_of(name, rows) for name, rows in ROWS.items()}, {})
    second = registered(tmp_path, known, running, "comes", "SELECT g FROM s1 [RANGE 5 s]", 2)
    sink = Noted(failures=1)
    second.sinks_of = {"q": [Noted()], "comes": [sink]}
    before = second.repository.current()
    with pytest.raises(OSError, match="no space"):
        deliver_history(second)
    assert second.repository.current().version == before.version, "nothing is forgotten"
    deliver_history(second)
    deliver_history(second)
    assert sink.told == [(before.version, 5)] * 2, "what was alive at the last closed instant"
    assert second.sinks_of["q"][0].told == []  # type: ignore[attr-defined]
    more = {"ts": 41 * SECOND, "seq": 41, "k": 1, "g": "a", "v": 1, "x": 1.0}
    second._deliver(second.feed({"s1": table_of("s1", [more])}, {}))
    assert len(sink.told) == 3
    assert sink.told[2][1] == 1, "the row of the instant that was open"


def test_nothing_is_registered_when_history_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, running = catalog(0), {"q": "SELECT * FROM s1 [RANGE 20 s]"}
    first = runner_of(tmp_path, known, running, streams=EVERY)
    first.feed({name: table_of(name, rows) for name, rows in ROWS.items()}, {})
    before = first.repository.current()

    def broken(*_: Any) -> Any:
        raise OSError("unreadable")

    comes = "SELECT g FROM s1 [RANGE 5 s]"
    with monkeypatch.context() as patched:
        patched.setattr(HereDataflow, "kept_rows", broken)
        with pytest.raises(OSError, match="unreadable"):
            registered(tmp_path, known, running, "comes", comes, 2)
    assert first.repository.current().version == before.version
    again = registered(tmp_path, known, running, "comes", comes, 2)
    assert again.repository.current().properties["queries"]["comes"][WHOLE_FROM] < 39 * SECOND


def test_an_nrr_makes_a_newcomer_warm_up(tmp_path: Path) -> None:
    """Its results would depend on what the NRR was when their rows came."""
    text = DECLARATIONS + "CREATE NRR n (id INT, name STRING) KEY id;"
    known = catalog_after(parse(text))
    definition = known.lookup("n")
    assert isinstance(definition, RelationDefinition)
    running = {"q": "SELECT * FROM s1 [RANGE 20 s]"}
    first = runner_of(tmp_path, known, running, streams=EVERY)
    first.feed({"s1": table_of("s1", ROWS["s1"])}, {})
    cql = "SELECT x.v, n.name FROM s1 [RANGE 10 s] x, n WHERE x.k = n.id"
    second = registered(tmp_path, known, running, "comes", cql, 2)
    stored = second.repository.current().properties["queries"]["comes"]
    assert stored[WHOLE_FROM] == stored[SINCE] + 10 * SECOND


def test_a_relation_is_met_by_history(tmp_path: Path) -> None:
    known = catalog_after(parse(DECLARATIONS + "CREATE RELATION r (id INT, name STRING) KEY id;"))
    definition = known.lookup("r")
    assert isinstance(definition, RelationDefinition)
    changing = Changing(definition)
    changing.load(pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["one", "two"]}))
    running = {"q": "SELECT * FROM s1 [RANGE 20 s]"}
    first = runner_of(tmp_path, known, running, streams=EVERY)
    first.feed({"s1": table_of("s1", ROWS["s1"])}, {})
    cql = "SELECT x.v, n.name FROM s1 [RANGE 10 s] x, r n WHERE x.k = n.id"
    second = registered(tmp_path, known, running, "comes", cql, 2, {"r": changing})
    found = alive(results_of(second, "comes").to_pylist(), 39 * SECOND - 1)
    names = {1: "one", 2: "two"}
    wanted = [{"v": at, "name": names[at % 3]} for at in range(29, 39) if at % 3]
    assert found == Counter(map(repr, wanted))
    assert wanted
