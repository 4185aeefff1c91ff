"""OVER and ASOF JOIN for ``random_queries``: each piece as CQL and as DuckDB SQL.

SQL leaves open what CQL fixes, so the SQL says it: ties go by the stream's order, NULLs stand where
Spark has them, the closest row of an ASOF join is the first of an ordered sub-query.
"""

from __future__ import annotations

from random import Random

from mayfly.testing.languages import Both, both, joined

Entry = tuple[str, dict[str, str]]
Scope = list[Entry]
NEIGHBOURS = ("over", "asof")
SECOND = 1_000_000
_AGGREGATES = ("SUM", "AVG", "MIN", "MAX", "COUNT")


class NeighbourQueries:
    """Writes the forms; sources, values and conditions come from the class that mixes it in."""

    rng: Random

    def _source(self, stream: str | None = None) -> tuple[Both, Entry]:
        raise NotImplementedError

    def _unbounded_source(self, stream: str | None = None) -> tuple[Both, Entry]:
        raise NotImplementedError

    def _column(self, scope: Scope, kind: str | None = None) -> Both:
        raise NotImplementedError

    def _condition(self, scope: Scope, depth: int = 2) -> Both:
        raise NotImplementedError

    def _around(self, query: Both) -> Both:
        raise NotImplementedError

    def _some_source(self) -> tuple[Both, Entry]:
        append = self.rng.random() < 0.5
        return self._unbounded_source() if append else self._source()

    def neighbours(self, shape: str) -> Both:
        """A query of a form, sometimes with one around it."""
        text = self._over() if shape == "over" else self._asof()
        if self.rng.random() < 0.25:
            condition = f"q.c{self.rng.randint(0, 1)} IS NOT NULL"
            text = both("SELECT q.c1, q.c0 FROM ({}) q WHERE {}", text, condition)
        return self._around(text)

    # ── OVER ──────────────────────────────────────────────────────────────────────────────

    def _over(self) -> Both:
        source, entry = self._some_source()
        scope, origin = [entry], source
        if self.rng.random() < 0.15:
            other, beside = self._source()
            scope.append(beside)
            sides = self._column([entry], "number"), self._column([beside], "number")
            origin = both("{} JOIN {} ON {} = {}", source, other, *sides)
        where = Both("", "")
        if self.rng.random() < 0.4:
            where = both(" WHERE {}", self._condition(scope, 1))
        outputs = [self._column(scope)]
        by_name = self.rng.random() < 0.2
        specs = [self._spec(scope) for _ in range(self.rng.randint(1, 2))]
        clause = Both("", "")
        if by_name:
            clause = Both(f" WINDOW w AS ({specs[0].cql})", "")
        for _ in range(self.rng.randint(1, 4)):
            spec = self.rng.choice(specs)
            outputs.append(self._windowed(scope, spec, by_name and spec is specs[0]))
        listed = joined(", ", [both("{} AS c{}", out, str(n)) for n, out in enumerate(outputs)])
        return both("SELECT {} FROM {}{}{}", listed, origin, where, clause)

    def _spec(self, scope: Scope) -> _Spec:
        """PARTITION BY and ORDER BY."""
        names = [self._column(scope) for _ in range(self.rng.choice((0, 1, 1, 1, 2)))]
        partition = joined(", ", names)
        time = f"{scope[0][0]}.ts"
        keys: list[tuple[str, str, bool]] = []
        if self.rng.random() < 0.55:
            keys.append((time, "time", False))
        elif self.rng.random() < 0.9:
            kind = self.rng.choice(("number", "number", "real", "text"))
            kind = kind if any(kind in kinds.values() for _, kinds in scope) else "number"
            keys.append((self._column(scope, kind).cql, kind, self.rng.random() < 0.4))
        if keys and self.rng.random() < 0.2:
            keys.append((self._column(scope, "number").cql, "number", self.rng.random() < 0.4))
        return _Spec(partition, keys, [f"{alias}.{c}" for alias, _ in scope for c in ("ts", "seq")],
                     self.rng)  # fmt: skip

    def _windowed(self, scope: Scope, spec: _Spec, by_name: bool) -> Both:
        ordered = ("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD")
        words: tuple[str, ...] = (*_AGGREGATES, *_AGGREGATES, "FIRST_VALUE", "LAST_VALUE")
        if spec.keys:
            words = (*words, *ordered, "LAG", "ROW_NUMBER")
        word = self.rng.choice(words)
        over = f"OVER {'w' if by_name else f'({spec.cql})'}"
        if word in ordered:
            ties = word not in ("RANK", "DENSE_RANK")
            call = both("{}({})", word, self._shift(scope) if word in ("LAG", "LEAD") else "")
            return Both(f"{call.cql} {over}", f"{call.sql} OVER ({spec.sql(ties)})")
        frame, counts = self._frame(spec)
        if frame.cql and by_name:
            over = f"OVER (w {frame.cql})"
        elif frame.cql:
            over = f"OVER ({spec.cql} {frame.cql})"
        if word in ("FIRST_VALUE", "LAST_VALUE"):
            return self._picked(scope, spec, word, frame, over, counts)
        argument = both("*") if word == "COUNT" and self.rng.random() < 0.5 else None
        real = any("real" in kinds.values() for _, kinds in scope) and self.rng.random() < 0.4
        argument = argument or self._column(scope, "real" if real else "number")
        call = both("{}({})", word, argument)
        if self.rng.random() < 0.15:
            call = both("{} FILTER (WHERE {})", call, self._condition(scope, 0))
        return Both(f"{call.cql} {over}", f"{call.sql} OVER ({spec.sql(counts)} {frame.sql})")

    def _picked(
        self, scope: Scope, spec: _Spec, word: str, frame: Both, over: str, counts: bool
    ) -> Both:
        """FIRST_VALUE and LAST_VALUE: of peers the first or last by the stream's order, which SQL
        does not have as long as these are peers."""
        column = self._column(scope)
        nulls = self.rng.choice(("", "", " IGNORE NULLS"))
        cql = f"{word}({column.cql}{nulls}) {over}"
        if counts:
            return Both(cql, f"{word}({column.sql}{nulls}) OVER ({spec.sql(True)} {frame.sql})")
        kept = f" FILTER (WHERE {column.sql} IS NOT NULL)" if nulls else ""
        order = spec.ordering(True)
        listed = f"array_agg({column.sql} ORDER BY {order}){kept}"
        place = "1" if word == "FIRST_VALUE" else "-1"
        return Both(cql, f"({listed} OVER ({spec.sql(False)} {frame.sql}))[{place}]")

    def _shift(self, scope: Scope) -> Both:
        kind = self.rng.choice(("number", "text"))
        argument = self._column(scope, kind)
        if self.rng.random() < 0.3:
            return argument
        offset = str(self.rng.choice((0, 1, 1, 2, 3)))
        if self.rng.random() < 0.5:
            return both("{}, {}", argument, offset)
        default = self.rng.choice(("7", "-1")) if kind == "number" else "'none'"
        return both("{}, {}, {}", argument, offset, default)

    def _frame(self, spec: _Spec) -> tuple[Both, bool]:
        """A frame, and whether it counts rows."""
        choice = self.rng.random()
        if choice < 0.2:
            return Both("", ""), False
        if choice < 0.6 or not spec.keys:
            ends = self._ends(lambda: self._same(str(self.rng.randint(0, 4))))
            return both("ROWS BETWEEN {} AND {}", *ends), True
        measured = len(spec.keys) == 1 and spec.keys[0][1] != "text"
        distance = (lambda: self._distance(spec.keys[0][1])) if measured else None
        ends = self._ends(distance)
        return both("RANGE BETWEEN {} AND {}", *ends), False

    def _same(self, text: str) -> Both:
        return Both(text, text)

    def _distance(self, kind: str) -> Both:
        if kind == "time":
            seconds = self.rng.choice((1, 1, 2, 5, 10, 60))
            unit = self.rng.choice(("SECONDS", "sec"))
            return Both(f"INTERVAL {seconds} {unit}", str(seconds * SECOND))
        return self._same(self.rng.choice(("0", "1", "2") if kind == "number" else ("0.5", "1")))

    def _ends(self, distance: object) -> tuple[Both, Both]:
        """Two bounds, the earlier first."""
        append = self.rng.random() < 0.6
        forms: list[tuple[Both, Both]] = [
            (both("UNBOUNDED PRECEDING"), both("CURRENT ROW")),
            (both("CURRENT ROW"), both("CURRENT ROW")),
        ]
        if not append:
            forms += [(both("CURRENT ROW"), both("UNBOUNDED FOLLOWING")),
                      (both("UNBOUNDED PRECEDING"), both("UNBOUNDED FOLLOWING"))]  # fmt: skip
        if callable(distance):
            near = both("{} PRECEDING", distance())
            forms += [(near, both("CURRENT ROW"))] * 4
            forms += [(both("UNBOUNDED PRECEDING"), near)]
            if not append:
                after = both("{} FOLLOWING", distance())
                forms += [(near, after), (both("CURRENT ROW"), after)] * 2
                forms += [(after, both("UNBOUNDED FOLLOWING"))]
        return self.rng.choice(forms)

    # ── ASOF ──────────────────────────────────────────────────────────────────────────────

    def _asof(self) -> Both:
        pick = self._unbounded_source if self.rng.random() < 0.45 else self._source
        (left, entry), (right, other) = pick(), pick()
        scope = [entry, other]
        kind = self.rng.choice(("number", "number", "text"))
        keys = [(self._column([entry], kind), self._column([other], kind))]
        if self.rng.random() < 0.2:
            keys.append((self._column([entry], "number"), self._column([other], "number")))
        op = self.rng.choice(("<=", "<=", "<", ">=", ">"))
        times = f"{entry[0]}.ts", f"{other[0]}.ts"
        if self.rng.random() < 0.25:
            times = self._column([entry], "number").cql, self._column([other], "number").cql
        word = self.rng.choice(("", "LEFT "))
        equal = joined(" AND ", [both("{} = {}", *pair) for pair in keys])
        turned = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}
        if self.rng.random() < 0.5:
            matched = self.rng.choice(
                (f"{times[1]} {op} {times[0]}", f"{times[0]} {turned[op]} {times[1]}")
            )
            cql = (
                f"{left.cql} {word}ASOF JOIN {right.cql} MATCH_CONDITION ({matched}) ON {equal.cql}"
            )
        else:
            cql = (
                f"{left.cql} {word}ASOF JOIN {right.cql} ON {equal.cql} AND "
                f"{times[0]} {turned[op]} {times[1]}"
            )
        way = "DESC" if op in ("<=", "<") else "ASC"
        seq, time = f"{other[0]}.seq", f"{other[0]}.ts"
        closest = (
            f"SELECT * FROM {right.sql} WHERE {equal.sql} AND {times[1]} {op} {times[0]} "
            f"ORDER BY {times[1]} {way}, {time} {way}, {seq} {way} LIMIT 1"
        )
        sql = f"{left.sql} {word}JOIN LATERAL ({closest}) {other[0]} ON TRUE"
        outputs = [self._column([entry]), self._column([other]), *(
            self._column(scope) for _ in range(self.rng.randint(0, 2))
        )]  # fmt: skip
        listed = joined(", ", [both("{} AS c{}", out, str(n)) for n, out in enumerate(outputs)])
        where = Both("", "")
        if self.rng.random() < 0.3:
            where = both(" WHERE {}", self._condition(scope, 1))
        return both("SELECT {} FROM {}{}", listed, Both(cql, sql), where)


class _Spec:
    """What stands in OVER, before the frame."""

    def __init__(
        self, partition: Both, keys: list[tuple[str, str, bool]], ties: list[str], rng: Random
    ) -> None:
        self.partition, self.keys, self.ties = partition, keys, ties
        self.first = [rng.choice((None, None, True, False)) for _ in keys]
        words = []
        for (name, _, descending), first in zip(keys, self.first, strict=True):
            nulls = "" if first is None else f" NULLS {'FIRST' if first else 'LAST'}"
            words.append(f"{name}{' DESC' if descending else ''}{nulls}")
        by = f"PARTITION BY {partition.cql}" if partition.cql else ""
        self.cql = " ".join(filter(None, (by, f"ORDER BY {', '.join(words)}" if words else "")))

    def ordering(self, ties: bool) -> str:
        words = []
        for (name, _, descending), first in zip(self.keys, self.first, strict=True):
            nulls = not descending if first is None else first
            way = " DESC" if descending else ""
            words.append(f"{name}{way} NULLS {'FIRST' if nulls else 'LAST'}")
        return ", ".join([*words, *(self.ties if ties else ())])

    def sql(self, ties: bool) -> str:
        by = f"PARTITION BY {self.partition.sql}" if self.partition.sql else ""
        order = self.ordering(ties)
        return " ".join(filter(None, (by, f"ORDER BY {order}" if order else "")))
