"""Whole lives of archives, drawn at random: updates, gaps, void rows, changes and rollbacks.

After each step every read is compared with the rows that a list says are alive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import mayfly.archive
from mayfly.archive import Archive
from mayfly.archive.model.contract import HARD
from mayfly.errors import InvalidSetting
from tests.unit.archive.rows_with_lifetimes import DDL, ids, stored_exps, table

Row = tuple[int, int, int, int]
STEPS, KEYS = 16, 5
RULES = ("chronological", "round-robin", "lazy", "count", "random", "WATA")
BASELINES = ("R-ins", "D-ins", "R-exp", "D-exp")


@dataclass
class History:
    """An archive and what must be in it."""

    root: Path
    chance: Random
    archive: Archive = field(init=False)
    given: dict[int, Row] = field(default_factory=dict)
    """Rows that were stored and are not void, by their ids."""
    told: list[object] = field(default_factory=list)
    before: dict[int, tuple[dict[int, Row], int]] = field(default_factory=dict)
    """What was given at each version, and when."""

    def __post_init__(self) -> None:
        chance, self.number = self.chance, 0
        longest = chance.randint(15, 95)
        within = chance.choice([None, None, 10, 25])
        late = chance.choice([0, 0, 2])
        contract = f"SOFT({late})" if late else "HARD"
        contract += f" PHYSICAL WITHIN {within} us" if within else ""
        settings: dict[str, Any] = {
            "max_lifetime": f"{longest} us",
            "contract": contract,
            "parts": chance.randint(1, 2),
            "young": chance.randint(0, 2),
            "fan_in": chance.randint(2, 4),
            "keep_versions": chance.randint(1, 5),
            "clustered": chance.random() < 0.85,
            **self.layout(-(-longest // 10)),
        }
        self.told.append(settings)
        self.archive = mayfly.archive.create(
            self.root, DDL, key="k", refresh="10 us", origin=0, **settings
        )

    def layout(self, updates: int) -> dict[str, Any]:
        chance = self.chance
        rule = chance.choice((*RULES, *BASELINES))
        if rule in BASELINES:
            return {"layout": f"{rule}{chance.randint(1, 5)}"}
        if rule == "WATA":
            return {"layout": f"WATA{chance.randint(2, max(2, updates))}"}
        fewest = 2 if rule == "lazy" else 1
        groups = chance.randint(fewest, max(fewest, min(updates, 5)))
        found = {"layout": f"{rule} {groups}x{chance.randint(1, 6)}"}
        rebuild = chance.random() < 0.5
        return {**found, "rebuild": rebuild, **({} if rebuild else {"span": chance.randint(1, 4)})}

    @property
    def now(self) -> int:
        return self.archive.version().time

    def step(self) -> None:
        ways = [self.update] * 6 + [self.void_key, self.void_rows, self.change, self.change]
        self.chance.choice([*ways, self.rollback])()
        self.before[self.archive.version().manifest.version] = (dict(self.given), self.now)

    def update(self) -> None:
        chance, calendar = self.chance, self.archive.settings.calendar
        longest = self.archive.settings.family.longest
        number = self.archive.version().state.update + chance.choice([1, 1, 1, 1, 2, 12])
        now, last = calendar.time_of(number), calendar.time_of(number - 1)
        rows = []
        for _ in range(chance.choice([0, 1, 3, 6])):
            earliest = last + 1 if chance.random() < 0.8 else now - longest
            ts = chance.randint(earliest, now)
            exp = ts + chance.randint(1, longest)
            if chance.random() < 0.2:  # exactly at an update
                exp = min(
                    max(calendar.time_of(number + chance.randint(0, 5)), ts + 1), ts + longest
                )
            self.number += 1
            rows.append((chance.randint(0, KEYS - 1), ts, exp, self.number))
        self.told.append(("update", number, rows))
        report = self.archive.update(table(rows), update=number)
        assert report.stored == sum(row[2] > now for row in rows)
        self.given |= {row[3]: row for row in rows if row[2] > now}

    def void_key(self) -> None:
        key = self.chance.randint(0, KEYS - 1)
        self.told.append(("void key", key))
        report = self.archive.invalidate([key])
        self._voided({i for i, row in self.given.items() if row[0] == key}, report.rows)

    def void_rows(self) -> None:
        alive = self.alive()
        some = set(self.chance.sample(sorted(alive), min(2, len(alive))))
        self.told.append(("void rows", some))
        report = self.archive.invalidate(rows=table([self.given[i] for i in some]))
        self._voided(some, report.rows)

    def _voided(self, some: set[int], reported: int) -> None:
        alive = some & self.alive()
        late = self.archive.settings.contract.late
        assert reported >= len(alive) if late else reported == len(alive)
        for one in some:
            del self.given[one]

    def change(self) -> None:
        chance, settings = self.chance, self.archive.settings
        assert settings.lifetimes is not None
        changes: dict[str, Any] = {}
        if chance.random() < 0.3:
            changes["max_lifetime"] = chance.randint(15, 120)
        if chance.random() < 0.5:
            changes["refresh"] = chance.choice([5, 7, 10, 13, 20])
        refresh = changes.get(
            "refresh", settings.calendar.time_of(1) - settings.calendar.time_of(0)
        )
        longest = changes.get("max_lifetime", settings.lifetimes.longest)
        if chance.random() < 0.7:
            changes |= self.layout(-(-longest // refresh))
        method = chance.choice(["rebuild", "side by side"])
        self.told.append(("change", method, changes))
        try:
            report = self.archive.migrate(method=method, **changes)
        except InvalidSetting as refusal:
            self.told.append(str(refusal))
            return
        assert report.rows == len(self.alive())

    def rollback(self) -> None:
        known = [v for v in self.archive.repository.versions() if v in self.before]
        # What SOFT still returns of the dead, a rebuild took away: a list cannot say.
        if not known or self.archive.settings.contract != HARD:
            return
        version = self.chance.choice(known)
        self.told.append(("rollback", version))
        self.archive.maintain.rollback(version)
        self.given = dict(self.before[version][0])

    def alive(self) -> set[int]:
        return {i for i, row in self.given.items() if row[2] > self.now}

    def check(self) -> None:
        archive, now, alive = self.archive, self.now, self.alive()
        calendar, contract = archive.settings.calendar, archive.settings.contract
        last = contract.returned_until(calendar, now)
        allowed = {i for i, row in self.given.items() if row[2] > last}
        found = ids(archive.scan())
        assert len(set(found)) == len(found)
        assert alive <= set(found) <= allowed
        for key in range(KEYS):
            probed = set(ids(archive.probe(key)))
            own = {i for i in allowed if self.given[i][0] == key}
            assert own & alive <= probed <= own
        assert archive.inspect.status().rows == len(alive)
        assert archive.maintain.verify().ok, archive.maintain.verify()
        if not contract.late:
            later = now + self.chance.randint(0, 30)
            lasting = {i for i in alive if self.given[i][2] > later}
            assert set(ids(archive.scan(as_of=later))) == lasting
        if contract.erased_within is not None:
            due = calendar.time_of(archive.version().state.update + 1) - contract.erased_within
            assert not [exp for exp in stored_exps(self.root) if exp < due]


@given(st.integers(0, 2**32))
def test_an_archive_shows_what_is_alive_whatever_it_went_through(seed: int) -> None:
    with TemporaryDirectory() as folder:
        history = History(Path(folder) / "a", Random(seed))
        try:
            for _ in range(STEPS):
                history.step()
                history.check()
        except Exception as error:
            error.add_note("\n".join(str(one) for one in history.told))
            raise
