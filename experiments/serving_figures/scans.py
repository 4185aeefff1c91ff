"""Periodic and one-time scans of one ring on a clock that reads drive (thesis 7.5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from statistics import mean
from typing import Any

from mayfly.periodic.isolation import PaneTransactions, check_history, isolation_named
from mayfly.synopses.number_algebra import SUM

POLICIES = ("serial", "ws", "lws", "ttu", "snapshot")


@dataclass
class ScanRun:
    """One run: a window of ``size`` sub-windows slides once through, queries in round robin."""

    policy: str
    size: int
    t: float
    groups: int
    read: float
    rng: Random
    one_time_gap: float | None = None
    now: float = 0.0
    written: dict[int, float] = field(default_factory=dict)
    figures: dict[str, list[float]] = field(default_factory=dict)

    def measured(self) -> dict[str, Any]:
        transactions: PaneTransactions[int] = PaneTransactions(
            SUM, self.size, isolation_named(self.policy), most_aborts=None
        )
        for version in range(self.size):
            transactions.update(version)
            self.written[version] = 0.0
        end, following = self.size * self.t, self.t
        windows = [
            {f"g{g}q{q}": self.rng.randint(1, self.size) for q in range(5)}
            for g in range(self.groups)
        ]
        group, left, begun = 0, set[str](), dict[int, float]()
        arrivals, asked, number = self._arrivals(end), dict[str, float](), 0
        answers = attempts = 0
        while self.now < end:
            while following <= self.now:
                version = len(self.written)
                self.written[version] = following
                transactions.update(version)
                following += self.t
            while arrivals and arrivals[0] <= self.now:
                number += 1
                asked[f"once{number}"] = arrivals.pop(0)
                length = self.rng.randint(1, self.size)
                transactions.start({f"once{number}": length}, priority=1)
            if not left:
                group = (group + 1) % self.groups
                if group in begun:
                    self._note("between executions", self.now - begun[group])
                begun[group] = self.now
                left = set(windows[group])
                transactions.start(windows[group])
            for answer in transactions.step():
                answers, attempts = answers + 1, attempts + answer.attempts
                stale = self.now + self.read - self.written[answer.as_of]
                if answer.query in asked:
                    self._note("one-time staleness", stale)
                    self._note("one-time response", self.now + self.read - asked[answer.query])
                else:
                    self._note("staleness", stale)
                    left.discard(answer.query)
            self.now += self.read
        check_history(transactions.history)
        return {
            "aborted share": transactions.aborts / max(1, transactions.aborts + answers),
            "throughput": answers / end,
            **{name: mean(values) for name, values in self.figures.items()},
        }

    def _note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)

    def _arrivals(self, end: float) -> list[float]:
        instants, now = [], 0.0
        while self.one_time_gap is not None:
            now += self.rng.expovariate(1 / self.one_time_gap)
            if now >= end:
                break
            instants.append(now)
        return instants
