"""Negation on keys: NOT EXISTS over rows with lifetimes.

Idea: right rows matter only as cover: per key, the instant until which some right row is alive,
and since when none was. A left row is in the answer while its key is uncovered, so a row need not
remember whether it is: it entered at max(own _ts, the key's last uncovering). When cover comes,
the key's left rows are cut; when it expires, they are born again, with what is left of their lives.
Invariant: per key, the gaps of cover and the left lifetimes determine the answer.
Cost: O(changes of cover + left rows they concern). State: the left rows and one entry per covered
key; right rows themselves only where they can be cut (STR or NT). Thesis 2.2.2, 3.5.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s, distinct_of, places_in, stable_order
from mayfly.kernels.codes import are_exact
from mayfly.kernels.delta import (
    END,
    ID,
    LIFE,
    OWNER,
    Delta,
    concatenated,
    mixed_ids,
    with_numbers,
)
from mayfly.kernels.interval import Interval
from mayfly.kernels.join_pairs import matching_pairs
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, Bools, chosen, clustered, numbers
from mayfly.kernels.operator import (
    NO_IDS,
    Forgetting,
    Holding,
    Key,
    Lying,
    Moving,
    Operator,
    StateKey,
    plain_key,
)
from mayfly.kernels.room import touch
from mayfly.kernels.window_join import PAIRS_AT_ONCE, Condition, Pairs, partition_codes
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS

FEW = 32
OPEN = "_open"
"""Since when a key is uncovered; MIN_TIME: always."""
_GAPS = f"UniTuple({WRITE}, 4)"


@dataclass(frozen=True, slots=True)
class NegationState:
    """Left rows, covers by key (``_ts``: last uncovering, ``_exp``: covered until), right rows."""

    left: KeptRows
    covers: KeptRows
    right: KeptRows

    @property
    def rows(self) -> int:
        return self.left.rows + self.covers.rows + self.right.rows

    @property
    def bytes(self) -> int:
        return self.left.bytes + self.covers.bytes + self.right.bytes


@dataclass(frozen=True, slots=True)
class AntiJoinRows(Operator):
    """The left rows without an alive right row of equal key.

    Rows without a key (NULL) match nothing: left ones stay, right ones are ignored. With
    ``by_identity`` the right input is the join of both sides, and the key is the left row itself.
    ``strict`` says that right rows may be cut.
    """

    name: str
    condition: Condition
    columns: pa.Schema
    shapes: tuple[Shape, Shape]
    strict: bool = False
    by_identity: bool = False

    def state(self) -> NegationState:
        covers = KeptRows(Shape(Structure.COVERS))
        return NegationState(KeptRows(self.shapes[0]), covers, KeptRows(self.shapes[1]))

    def state_key(self) -> StateKey:
        return StateKey(
            "AntiJoinRows",
            (
                ("condition", self.condition),
                ("columns", self.columns),
                ("shapes", self.shapes),
                ("strict", self.strict),
                ("by_identity", self.by_identity),
            ),
        )

    @property
    def title(self) -> str:
        return self.name.partition(" at line ")[0]

    @property
    def detail(self) -> str:
        return "pairs of both sides" if self.by_identity else self.condition.text

    @property
    def sign(self) -> str:
        return " − "

    @property
    def reason(self) -> str:
        return "a tuple meets what may exclude it in one bucket"

    def holdings(self) -> tuple[Holding, ...]:
        words, (left, right) = self.key_words(), self.shapes
        held = (
            Holding("left", left.form, "", 0, words, "", left.ranges),
            Holding("covers", Structure.COVERS, "covered keys", None, words),
        )
        if not self.strict:
            return held
        return (*held, Holding("right", right.form, "", 1, self.key_words(1), "", right.ranges))

    @property
    def moving(self) -> Moving:
        return Moving.OWNED if self.by_identity else Moving.KEYED

    @property
    def keyed(self) -> bool:
        return bool(self.condition.types) and not self.by_identity

    @property
    def passes_left(self) -> bool:
        return True

    @property
    def may_lack_parts(self) -> bool:
        """Whether rows on the left may have a part of their key only."""
        keys = self.condition.keys[0]
        return len(keys) > 1 and any(key.nullable for key in keys)

    def key_of(self, side: int = 0) -> Key:
        return plain_key(self.condition.keys[side], self.condition.types)

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return ("the left row",) if self.by_identity else self.condition.words(side)

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        first = kept[0] or Spread()
        return first if self.by_identity else first | Spread.by(self.key_of())

    @property
    def lying(self) -> Lying:
        return Lying.BESIDE_LEFT if self.by_identity else Lying.BY_KEY

    def forgets(self) -> tuple[Forgetting, ...]:
        """A left row is covered for ever, or never, once no right row comes."""
        if self.by_identity:
            return ()
        pairs = zip(self.key_of(1), self.key_of(0), strict=True)
        equal = tuple((right, left) for right, left in pairs if left and right)
        return (Forgetting(("left",), {1: equal}),)

    def identities(self, state: NegationState) -> Int64s:
        """Left rows as they entered: when they came, or when their key was last uncovered."""
        codes = np.concatenate([NO_IDS, *state.covers.column(CODE)])
        opened = np.concatenate([NO_IDS, *state.covers.column(OPEN)])
        order = np.argsort(codes, kind="stable")
        codes, opened = codes[order], opened[order]
        id_arrays = [NO_IDS]
        for run in state.left.runs:
            rows = run.load()
            own, ts = numbers(rows, CODE), numbers(rows, TS)
            since = np.full(len(own), MIN_TIME)
            if len(codes):
                positions = np.minimum(np.searchsorted(codes, own), len(codes) - 1)
                since = np.where(codes[positions] == own, opened[positions], MIN_TIME)
            id_arrays.append(mixed_ids(numbers(rows, ID), np.maximum(ts, since)))
        return np.concatenate(id_arrays)

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return None if self.by_identity else partition_codes(self.condition, rows, side)

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        keyed = part == "left" and not self.by_identity
        return self.condition.codes(rows, 0) if keyed else None

    @property
    def keyless_parts(self) -> tuple[str, ...]:
        is_exact = not self.condition.types or are_exact(
            [arrow_type(t) for t in self.condition.types]
        )
        return () if self.by_identity or is_exact else ("covers", "right")

    def without_key(self, rows: pa.Table) -> Bools:
        """Which left rows match nothing because a part of their key is NULL."""
        return _missing(rows, self.condition.coded(rows, 0))

    def step(
        self, state: NegationState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[NegationState, Delta]:
        """Left rows without a partner, for as long as they have none."""
        left, right = inputs
        if (
            not left.rows
            and not right.rows
            and not state.covers.is_due(interval.began, interval.clock)
        ):
            return self._aged(state, interval.clock), Delta.empty(self.columns)
        new, keyless = self._coded_left(left.born)
        cut, keyless_cut = self._coded_left(left.cut)
        gaps, covers, kept_right = self._gaps(state, right, new, cut, interval)
        before = state.left
        after = before.cut(cut)
        born = [keyless, *self._born(new, after, gaps)]
        ended = [keyless_cut, *self._ended(before, after, gaps)]
        fresh = chosen(new, numbers(new, EXP) > interval.clock)
        nothing = Delta.empty(self.columns)
        return NegationState(after.after(fresh, interval.clock), covers, kept_right), Delta(
            concatenated([nothing.born, *(t.select(nothing.born.schema.names) for t in born)]),
            concatenated([nothing.cut, *(t.select(nothing.cut.schema.names) for t in ended)]),
        )

    def _aged(self, state: NegationState, clock: int) -> NegationState:
        """After a step in which nothing happens."""
        covers = self._forgotten(state.covers, state.left, np.empty(0, np.int64), clock)
        return NegationState(state.left.aged(clock), covers, state.right.aged(clock - 1))

    # ── sides ─────────────────────────────────────────────────────────────────────────────

    def _coded_left(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The rows with a key, and those without."""
        names = [*self.columns.names, *LIFE, *([END] if END in rows.schema.names else [])]
        rows = rows.select(names)
        if self.by_identity:
            coded = with_numbers(rows.combine_chunks(), **{CODE: numbers(rows, ID)})
            return (clustered(coded) if coded.num_rows else coded), rows.slice(0, 0)
        coded = self.condition.coded(rows, 0)
        if coded.num_rows == rows.num_rows:
            return coded, rows.slice(0, 0)
        return coded, chosen(rows, _missing(rows, coded))

    def _coded_right(self, rows: pa.Table) -> pa.Table:
        if self.by_identity:
            owner = numbers(rows, OWNER)
            table = with_numbers(rows.select(_names(rows)).combine_chunks(), **{CODE: owner})
            return clustered(table) if table.num_rows else table
        coded = self.condition.coded(rows, 1)
        return coded.select([*_names(coded), CODE])

    # ── cover ─────────────────────────────────────────────────────────────────────────────

    def _gaps(
        self,
        state: NegationState,
        right: Delta,
        new: pa.Table,
        cut: pa.Table,
        interval: Interval,
    ) -> tuple[Gaps, KeptRows, KeptRows]:
        """The uncovered stretches of every key that is concerned, and what is kept of the right."""
        arrived, removed = self._coded_right(right.born), self._coded_right(right.cut)
        blank = _cover_rows(*(np.empty(0, np.int64) for _ in range(3)))
        kept_right = state.right
        if self.strict:
            kept_right = kept_right.cut(removed)
        due = state.covers.due(interval.began, interval.clock)
        changing = _codes_of(arrived, removed, *due)
        codes = distinct_of(changing, _codes_of(new, cut))
        stored_covers = rows_with(state.covers.of_codes(codes), blank)
        opened = np.full(len(codes), MIN_TIME)
        until = np.full(len(codes), MIN_TIME)
        place = np.searchsorted(codes, numbers(stored_covers, CODE))
        opened[place], until[place] = numbers(stored_covers, OPEN), numbers(stored_covers, EXP)
        if removed.num_rows:
            self._restore_covers(kept_right, codes, numbers(removed, CODE), until, interval)
        positions = places_in(codes, numbers(arrived, CODE))
        stretches = _uncovered(
            positions, numbers(arrived, TS), numbers(arrived, EXP), opened, until,
            interval.began, interval.clock,
        )  # fmt: skip
        gaps = Gaps(codes[stretches[0]], stretches[1], stretches[2], stretches[3] == 1)
        gaps = gaps.sorted()
        keep = places_in(codes, changing)
        keep = keep[(until[keep] >= interval.clock) | (opened[keep] > MIN_TIME)]
        fresh = _cover_rows(codes[keep], opened[keep], until[keep])
        covers = state.covers.without(changing).after(fresh, MIN_TIME)
        covers = self._forgotten(covers, state.left, numbers(new, CODE), interval.clock)
        if self.strict:
            lasting = chosen(arrived, numbers(arrived, EXP) >= interval.clock)
            kept_right = kept_right.after(lasting, interval.clock - 1)
        return gaps, covers, kept_right

    def _restore_covers(
        self, right: KeptRows, codes: Int64s, changed: Int64s, until: Int64s, interval: Interval
    ) -> None:
        """Set anew, after cuts, how long the remaining right rows cover their keys."""
        touched = np.unique(changed)
        positions = np.searchsorted(codes, touched)
        covered = until[positions] >= interval.began
        until[positions[covered]] = interval.began
        for table in right.of_codes(touched):
            place = np.searchsorted(codes, numbers(table, CODE))
            exp = numbers(table, EXP)
            alive = exp >= interval.began
            np.maximum.at(until, place[alive], exp[alive])

    def _forgotten(self, covers: KeptRows, left: KeptRows, new: Int64s, clock: int) -> KeptRows:
        """Without uncovered keys of which no left row is kept or new, once they are too many; keys
        that are covered may be far more than left rows, so not all are looked at in each step.

        A left row that comes later finds its key open for ever, which is just as true for it.
        """
        if covers.rows <= 2 * max(left.rows, FEW):
            return covers

        def useful(rows: pa.Table) -> pa.Table:
            codes = np.concatenate([new, *(numbers(run.load(), CODE) for run in left.runs)])
            touch(len(codes) + rows.num_rows)
            covered = numbers(rows, EXP) >= clock
            return chosen(rows, covered | np.isin(numbers(rows, CODE), codes))

        return covers.compacted(MIN_TIME, useful)

    # ── the answer ────────────────────────────────────────────────────────────────────────

    def _born(self, new: pa.Table, kept: KeptRows, gaps: Gaps) -> Iterator[pa.Table]:
        """Left rows that enter: new ones in any gap, kept ones in gaps that open in this step."""
        if new.num_rows:
            yield from self._entered(new, gaps)
        fresh = gaps.where(~gaps.old)
        for run in kept.runs:
            yield from self._entered(run.load(), fresh)

    def _entered(self, rows: pa.Table, gaps: Gaps) -> Iterator[pa.Table]:
        for places, gap in _meetings(rows, gaps):
            ts = np.maximum(numbers(rows, TS)[places], gaps.start[gap])
            exp = np.minimum(numbers(rows, EXP)[places], gaps.stop[gap])
            yield self._pieces(rows, places, ts, exp)

    def _pieces(self, rows: pa.Table, places: Int64s, ts: Int64s, exp: Int64s) -> pa.Table:
        table = rows.take(pa.array(places)).combine_chunks()
        identity = mixed_ids(numbers(table, ID), ts)
        return with_numbers(table, **{TS: ts, EXP: exp, ID: identity})

    def _ended(self, before: KeptRows, after: KeptRows, gaps: Gaps) -> Iterator[pa.Table]:
        """Left rows in the answer that leave early: their key is covered, or they are cut."""
        held = gaps.old
        if before is after:
            # Without cuts only cover that comes ends a row's stay.
            held = held & (gaps.stop != NEVER)
        ending = gaps.where(held)
        for old, new in zip(before.runs, after.runs, strict=True):
            rows, ends = old.load(), numbers(new.load(), EXP)
            for places, gap in _meetings(rows, ending):
                ts = np.maximum(numbers(rows, TS)[places], ending.start[gap])
                exp = numbers(rows, EXP)[places]
                end = np.minimum(ends[places], ending.stop[gap])
                short = end < exp
                table = self._pieces(rows, places[short], ts[short], exp[short])
                yield with_numbers(table, **{END: end[short]})


def _missing(rows: pa.Table, among: pa.Table) -> Bools:
    """Which rows are not among others."""
    return ~np.isin(numbers(rows, ID), numbers(among, ID))


def _names(rows: pa.Table) -> list[str]:
    return [*LIFE, *([END] if END in rows.schema.names else [])]


def _codes_of(*tables: pa.Table) -> Int64s:
    """The codes of tables clustered by them, sorted and once."""
    return distinct_of(*(numbers(table, CODE) for table in tables))


def _cover_rows(codes: Int64s, opened: Int64s, until: Int64s) -> pa.Table:
    always = np.full(len(codes), MIN_TIME)
    arrays = {CODE: codes, TS: always, EXP: until, ID: codes, OPEN: opened}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in arrays.items()})


@dataclass(frozen=True, slots=True)
class Gaps:
    """Uncovered stretches by key; ``old`` ones were open before the step."""

    code: Int64s
    start: Int64s
    stop: Int64s
    old: np.ndarray

    def where(self, keep: np.ndarray) -> Gaps:
        return Gaps(self.code[keep], self.start[keep], self.stop[keep], self.old[keep])

    def sorted(self) -> Gaps:
        order = stable_order(self.code, self.start)
        return Gaps(self.code[order], self.start[order], self.stop[order], self.old[order])


def _meetings(rows: pa.Table, gaps: Gaps) -> Iterator[Pairs]:
    if not rows.num_rows or not len(gaps.code):
        return
    keys = tuple(numbers(rows, name) for name in (CODE, TS, EXP))
    yield from matching_pairs(
        (keys[0], keys[1], keys[2]), (gaps.code, gaps.start, gaps.stop), PAIRS_AT_ONCE
    )


@compiled(f"{_GAPS}({READ}, {READ}, {READ}, {WRITE}, {WRITE}, int64, int64)", plain=True)
def _uncovered(
    keys: Int64s,
    ts: Int64s,
    exp: Int64s,
    opened: Int64s,
    until: Int64s,
    began: int,
    clock: int,
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Gaps per key from the right rows that arrive (sorted by key, then ts).

    A key is covered when the step begins if ``until >= began``; otherwise it is open since
    ``opened``. Both are brought up to the end of the step. An open gap ends never.
    """
    room = len(keys) + 2 * len(until) + 1
    which, start, stop, old = (
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    count = row = 0
    rows = len(keys)
    for key in range(len(until)):
        covered = until[key] >= began
        since, was_open = opened[key], not covered
        while True:
            fresh = row < rows and keys[row] == key
            now = ts[row] if fresh else clock - 1
            # Expirations come before arrivals of the same instant.
            if covered and until[key] <= now:
                covered, since, was_open = False, until[key], False
            if not fresh:
                break
            if not covered:
                if since < now:
                    which[count], start[count], stop[count] = key, since, now
                    old[count] = 1 if was_open else 0
                    count += 1
                covered, until[key] = True, exp[row]
            elif exp[row] > until[key]:
                until[key] = exp[row]
            row += 1
        if not covered:
            which[count], start[count], stop[count] = key, since, NEVER
            old[count] = 1 if was_open else 0
            count += 1
            opened[key] = since
    return which[:count], start[:count], stop[:count], old[:count]
