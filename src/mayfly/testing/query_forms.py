"""Forms of queries that name or nest other queries, for ``random_queries``.

Each is written twice at once, as everything there: WITH and views read once and more often, USING
and NATURAL JOIN, aliases in later items and HAVING, queries used as values.
"""

from __future__ import annotations

from random import Random

from mayfly.testing.languages import Both, both, joined

Entry = tuple[str, dict[str, str]]
Scope = list[Entry]
FORMS = ("with", "using", "natural", "aliases", "value", "value_of_group")


class QueryForms:
    """Writes the forms; sources, values and conditions come from the class that mixes it in."""

    rng: Random
    views, over_views = "", ""
    """The queries of WITH as statements, and what is left of the query with them declared."""

    def _source(self, stream: str | None = None) -> tuple[Both, Entry]:
        raise NotImplementedError

    def _column(self, scope: Scope, kind: str | None = None) -> Both:
        raise NotImplementedError

    def _value(self, scope: Scope, kind: str | None = None) -> Both:
        raise NotImplementedError

    def _number(self, scope: Scope, depth: int) -> Both:
        raise NotImplementedError

    def _condition(self, scope: Scope, depth: int = 2) -> Both:
        raise NotImplementedError

    def _aggregate(self, scope: Scope, real: bool = True) -> Both:
        raise NotImplementedError

    def form(self, shape: str) -> Both:
        """A query of a form, sometimes with an operator around it."""
        if shape == "with":
            return self._named_queries()
        if shape in ("using", "natural"):
            text = self._using() if shape == "using" else self._natural()
        elif shape == "aliases":
            text = self._aliases()
        else:
            text = self._valued(grouped=shape == "value_of_group")
        return self._around(text)

    def _around(self, query: Both) -> Both:
        operator = self.rng.choice(("", "", "", "", "", "", "Istream", "Dstream", "Rstream"))
        return Both(f"{operator}({query.cql})", query.sql) if operator else query

    # ── WITH and views ────────────────────────────────────────────────────────────────────

    def _named_queries(self) -> Both:
        """Queries by name, read by each other and by the last one, some more than once."""
        named: list[tuple[str, Both, dict[str, str]]] = []
        for number in range(self.rng.randint(1, 3)):
            kinds = {f"c{n}": self.rng.choice(("number", "text")) for n in range(2)}
            kinds["c0"] = "number"
            named.append((f"q{number}", self._named_query(named, kinds), kinds))
        origin, scope, conditions = self._of_named(named, self.rng.randint(1, 3))
        outputs = [self._value(scope) for _ in range(self.rng.randint(1, 2))]
        listed = joined(", ", [both("{} AS o{}", o, str(n)) for n, o in enumerate(outputs)])
        word = self.rng.choice(("", "", "DISTINCT "))
        last = both("SELECT {}{} FROM {}{}", word, listed, origin, _where(conditions))
        parts = joined(", ", [both("{} AS ({})", name, query) for name, query, _ in named])
        self.views = "".join(f"CREATE VIEW {name} AS {query.cql};\n" for name, query, _ in named)
        self.over_views = last.cql
        whole = both("WITH {} {}", parts, last)
        return self._around(Both(whole.cql, f"SELECT * FROM ({whole.sql})"))

    def _named_query(
        self, earlier: list[tuple[str, Both, dict[str, str]]], kinds: dict[str, str]
    ) -> Both:
        origin, scope, conditions = self._of_named(earlier, self.rng.randint(1, 2))
        outputs = [both("{} AS {}", self._value(scope, k), n) for n, k in kinds.items()]
        if self.rng.random() < 0.3:
            key = self._column(scope, kinds["c1"])
            total = self._column(scope, "number")
            counted = Both(f"COUNT({total.cql})", f"CAST(count({total.sql}) AS BIGINT)")
            listed = joined(", ", [both("{} AS c0", counted), both("{} AS c1", key)])
            where = _where(conditions)
            return both("SELECT {} FROM {}{} GROUP BY {}", listed, origin, where, key)
        word = self.rng.choice(("", "", "DISTINCT "))
        listed = joined(", ", outputs)
        return both("SELECT {}{} FROM {}{}", word, listed, origin, _where(conditions))

    def _of_named(
        self, named: list[tuple[str, Both, dict[str, str]]], count: int
    ) -> tuple[Both, Scope, list[Both]]:
        """Entries that are named queries or streams, joined by equal numbers."""
        texts: list[Both] = []
        scope: Scope = []
        conditions: list[Both] = []
        for number in range(count):
            if named and (number == 0 or self.rng.random() < 0.6):
                name, _, kinds = named[-1] if number == 0 else self.rng.choice(named)
                alias = f"{name}_{number}_{self.rng.randint(0, 9)}"
                text, entry = Both(f"{name} {alias}", f"{name} AS {alias}"), (alias, kinds)
            else:
                text, entry = self._source()
            if scope:
                sides = self._column(scope, "number"), self._column([entry], "number")
                conditions.append(both("{} = {}", *sides))
            texts.append(text)
            scope.append(entry)
        if self.rng.random() < 0.4:
            conditions.append(self._condition(scope, 1))
        return joined(", ", texts), scope, conditions

    # ── USING, NATURAL JOIN, aliases ──────────────────────────────────────────────────────

    def _using(self) -> Both:
        """Joins of two or three streams by columns of one name, of which there is one."""
        streams = [self.rng.choice(("s1", "s2", "s3")) for _ in range(self.rng.randint(2, 3))]
        names = ["k"] if "s3" in streams else self.rng.choice((["k"], ["g"], ["k", "g"]))
        sources = [self._source(stream) for stream in streams]
        text = sources[0][0]
        for source, _ in sources[1:]:
            word = self.rng.choice(("", "", "LEFT ", "RIGHT ", "FULL "))
            text = both("{} {}JOIN {} USING ({})", text, word, source, ", ".join(names))
        scope = [entry for _, entry in sources]
        outputs = [Both(name, name) for name in names]
        outputs += [self._column(scope) for _ in range(self.rng.randint(0, 2))]
        listed = joined(", ", [both("{} AS c{}", o, str(n)) for n, o in enumerate(outputs)])
        conditions = [self._condition(scope, 1)] if self.rng.random() < 0.3 else []
        if self.rng.random() < 0.3:
            conditions.append(Both(f"{names[0]} IS NOT NULL", f"{names[0]} IS NOT NULL"))
        return both("SELECT {} FROM {}{}", listed, text, _where(conditions))

    def _natural(self) -> Both:
        """Sub-queries joined by all columns of one name; * shows each once."""
        names = self.rng.choice((["k"], ["g"], ["k", "g"]))
        parts = []
        for number, own in enumerate(("v", "x")):
            source, (alias, _) = self._source(self.rng.choice(("s1", "s2")))
            listed = ", ".join([*(f"{alias}.{name}" for name in names), f"{alias}.{own} AS {own}"])
            parts.append(both("(SELECT {} FROM {}) n{}", listed, source, str(number)))
        word = self.rng.choice(("", "", "LEFT ", "FULL "))
        outputs = self.rng.choice(("*", ", ".join([*names, "v"])))
        return both("SELECT {} FROM {} NATURAL {}JOIN {}", outputs, parts[0], word, parts[1])

    def _aliases(self) -> Both:
        source, entry = self._source()
        scope = [entry]
        if self.rng.random() < 0.5:
            first = both("{} AS a0", self._number(scope, 1))
            more = [f"a{n} {self.rng.choice('+-*')} {n + 2} AS a{n + 1}" for n in range(2)]
            listed = joined(", ", [first, *(Both(text, text) for text in more)])
            return both("SELECT {} FROM {}", listed, source)
        key = self._column(scope)
        call = self._aggregate(scope, real=False)
        listed = both("{} AS a0, {} AS a1, a1 + 1 AS a2", key, call)
        having = self.rng.choice((" HAVING a1 > 1", " HAVING a2 BETWEEN 1 AND 3", ""))
        return both("SELECT {} FROM {} GROUP BY {}{}", listed, source, key, having)

    # ── queries used as values ────────────────────────────────────────────────────────────

    def _valued(self, grouped: bool) -> Both:
        source, entry = self._source()
        scope = [entry]
        if grouped:
            key = self._column(scope, self.rng.choice(("number", "text")))
            value = self._query_value([entry], key)
            call = self._aggregate(scope, real=False)
            rest = both(" FROM {} GROUP BY {}", source, key)
            if self.rng.random() < 0.5:
                return both(
                    "SELECT {} AS c0, {} AS c1{} HAVING {} >= {}", key, call, rest, call, value
                )
            return both("SELECT {} AS c0, {} AS c1, {} AS c2{}", key, call, value, rest)
        value = self._query_value(scope, None)
        outputs = [self._value(scope) for _ in range(2)]
        listed = joined(", ", [both("{} AS c{}", o, str(n)) for n, o in enumerate(outputs)])
        if self.rng.random() < 0.5:
            op = self.rng.choice(("=", "<", ">=", "<>"))
            number = self._column(scope, "number")
            conditions = [both("{} {} {}", number, op, value)]
            if self.rng.random() < 0.4:
                conditions.append(self._condition(scope, 1))
            return both("SELECT {} FROM {}{}", listed, source, _where(conditions))
        return both("SELECT {}, {} + 1 AS c2 FROM {}", listed, value, source)

    def _query_value(self, scope: Scope, key: Both | None) -> Both:
        """A number from a query of one row: on its own, or for the row around it."""
        source, entry = self._source()
        number = self._column([entry], "number")
        call = self.rng.choice(("COUNT(*)", "COUNT({})", "MIN({})", "MAX({})", "MAX({}) + 1"))
        conditions = [self._condition([entry], 0)] if self.rng.random() < 0.4 else []
        if self.rng.random() < 0.6:
            outer = key or self._column(scope, self.rng.choice(("number", "text")))
            kind = next(k for a, c in scope for n, k in c.items() if f"{a}.{n}" == outer.cql)
            conditions.append(both("{} = {}", outer, self._column([entry], kind)))
        elif self.rng.random() < 0.3:
            rest = both("{} FROM {}{}", number, source, _where(conditions))
            return both("(SELECT {} ORDER BY {} DESC NULLS LAST LIMIT 1)", rest, number)
        return both("(SELECT {} FROM {}{})", both(call, number), source, _where(conditions))


def _where(conditions: list[Both]) -> Both:
    return both(" WHERE {}", joined(" AND ", conditions)) if conditions else Both("", "")
