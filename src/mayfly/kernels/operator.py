"""What every operator says of itself; a new operator overrides what is different with it.

Idea: code that places, stores, moves or explains operators asks them, and knows none by its class.
The defaults are those of an operator that keeps nothing and needs rows nowhere in particular.
Invariant: a key is named in the columns of the rows that the operator reads, in one order for all
sides; ``holdings`` names every part of the state that ever has rows, with the shape it has there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import column_name
from mayfly.kernels.lifetime_rows import Bools
from mayfly.plan.expressions import Column, Expression, same_number
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.types import DataType

if TYPE_CHECKING:
    from mayfly.kernels.delta import Delta
    from mayfly.kernels.interval import Interval
    from mayfly.kernels.join_panes import JoinWindows
    from mayfly.kernels.pane_partials import PanePartials
    from mayfly.kernels.value_spans import ValueSpans
    from mayfly.plan.window_kinds import Range, RowsWindow, Window

Key = tuple[str | None, ...]
"""The columns that tell where rows go; None for a part that is no column as it is."""
NO_IDS: Int64s = np.empty(0, np.int64)


class Moving(Enum):
    """Where an operator has to be with its rows."""

    FREE = "prepares the rows of one source for its readers, wherever they are"
    NEAR = "where its first input is"
    MERGED = "where its inputs are"
    COUNTED = "where the rows of one partition come in their order, or in one place"
    KEYED = "where equal keys meet, or in one place"
    OWNED = "where the rows are that its pairs belong to"


@dataclass(frozen=True, slots=True)
class Holding:
    """A part of the state: what it holds and how.

    ``side`` is the input whose rows these are, None if they are the operator's own. ``spares``
    is how many stored rows there may be for each of them, ``note`` what else there is to say.
    ``per_result`` bounds how many are kept for each result of the operator, ``lifetime`` for how
    many µs, ``per_key`` how many of each value of ``keys``: then streams may go on for ever;
    ``per_value`` the same where they may not, so nothing is assumed of values not counted.
    """

    part: str
    structure: Structure
    holds: str = ""
    side: int | None = None
    keyed_by: tuple[str, ...] = ()
    reason: str = ""
    partitions: int | None = None
    spares: float = 1.0
    note: str = ""
    per_result: int | None = None
    lifetime: int | None = None
    per_key: int | None = None
    per_value: int | None = None
    keys: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Working:
    """What an operator computes by a structure of its own while a step runs, and why by that."""

    what: str
    structure: str
    reason: str


class Lying(Enum):
    """Where stored rows lie."""

    BY_KEY = "where the code that they are kept under, or columns of theirs, send them"
    AS_ARRIVED = "where they came, by the route that brought them"
    BESIDE_INPUT = "where the results of the first input are that they are copies of"
    BESIDE_LEFT = "rows of the first input where they came, and what belongs to them beside them"
    COPIED = "those of a relation everywhere, results beside the row that they end with"


@dataclass(frozen=True, slots=True)
class StateKey:
    """What a stored state is found again by: words that stay, whatever Python calls these."""

    kind: str
    parts: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Copy:
    """The part of a state that holds all living rows of an input.

    ``columns`` are expressions by stored name, None if rows are kept as they came; rows in which
    one of ``required`` is NULL are not kept. ``behind`` is how many of the last closed instants
    may have lost rows that end in them.
    """

    part: str
    columns: tuple[tuple[str, Expression], ...] | None = None
    required: tuple[Expression, ...] = ()
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Forgetting:
    """Parts of the state that go with a key of which no row comes from some inputs any more.

    ``columns`` are those of each of these inputs, and what they are called in the stored rows.
    """

    parts: tuple[str, ...]
    columns: Mapping[int, tuple[tuple[str, str], ...]]


class Operator:
    """One operator: a value that takes a state and the rows of a step to the next state."""

    __slots__ = ()
    name: str

    def state(self) -> Any:
        raise NotImplementedError

    def step(self, state: Any, inputs: Sequence[Delta], interval: Interval) -> tuple[Any, Any]:
        raise NotImplementedError

    # ── what it is ────────────────────────────────────────────────────────────────────────

    @property
    def title(self) -> str:
        """What EXPLAIN calls it."""
        raise NotImplementedError

    @property
    def detail(self) -> str:
        """What it does, in the words of the language."""
        return ""

    @property
    def sign(self) -> str:
        """What stands between the names of its inputs."""
        return " ⋈ "

    @property
    def reason(self) -> str:
        """Why rows are exchanged for it."""
        return "rows are compared with all others"

    def holdings(self) -> tuple[Holding, ...]:
        return ()

    def workings(self) -> tuple[Working, ...]:
        """By which structures it computes its results."""
        return ()

    def state_key(self) -> StateKey:
        """What makes its state another one: checkpoints know states by it, under these names."""
        raise NotImplementedError

    @property
    def opens(self) -> Window | None:
        """The window that it puts on rows of a stream or of a sub-query, if that is what it is."""
        return None

    @property
    def no_panes_because(self) -> str:
        """What keeps everything that stands on it from sharing panes, in words."""
        return ""

    @property
    def foresees(self) -> bool:
        """Whether it opens a window and knows of each row when it ends: none is cut later."""
        return False

    def computes(self) -> tuple[tuple[str, Expression], ...] | None:
        """The columns of its results by name, if to compute these is all it does."""
        return None

    @property
    def momentary(self) -> bool:
        """Whether results depend on when their rows came, so that they cannot be made later."""
        return False

    def no_input(self) -> pa.Table:
        """A step without rows of a stream; only what ``opens`` a window reads these."""
        raise NotImplementedError

    @property
    def dual(self) -> bool:
        """Whether results also say how long they are seen (INTERNAL windows)."""
        return False

    @property
    def owned(self) -> bool:
        """Whether results say which left row they belong to."""
        return False

    @property
    def passes(self) -> bool:
        """Whether results are rows of its inputs, under identities made from theirs."""
        return False

    @property
    def panes(self) -> PanePartials | None:
        """What it makes of rows, if that is one row of all in a pane: those that are late have to
        be left out before."""
        return None

    @property
    def spans(self) -> ValueSpans | None:
        """What it makes of rows, if it leaves out those that others stand for: what passes is not
        all that there is, and those that are late have to be left out before."""
        return None

    @property
    def intake(self) -> tuple[Operator, ...]:
        """What is done to rows of a stream on their way to it, before they are exchanged."""
        return ()

    @property
    def is_standing(self) -> bool:
        """Whether it is one for all queries of its streams, and shows readers all that it keeps."""
        return False

    @property
    def numbers_rows(self) -> bool:
        """Whether it numbers the rows of its stream, for windows over the latest of them."""
        return False

    def united(self, other: Operator) -> Operator:
        """One that serves the readers of both; only what ``is_standing`` can."""
        raise NotImplementedError

    def standing(self, state: Any) -> Delta | None:
        """What readers see of it where it is not stepped; None if nothing."""
        return None

    def together(self, deltas: Sequence[Delta]) -> Delta | None:
        """The results of several buckets, if these are no plain rows."""
        return None

    @property
    def reads(self) -> tuple[Range, ...]:
        """The windows by which it reads what another operator keeps, if it does."""
        return ()

    @property
    def reads_rows(self) -> RowsWindow | None:
        """The window by which it reads panes of rows, if it does."""
        return None

    @property
    def reads_join(self) -> JoinWindows | None:
        """The windows by which it reads values of a join's results, if it does."""
        return None

    @property
    def lag(self) -> int:
        """How far behind an instant its refresh may lie, where no window below says so."""
        return 0

    @property
    def answers_alone(self) -> bool:
        """Whether its results are groups of the panes that it reads, and those of no other."""
        return False

    def joint(self) -> Operator | None:
        """What answers this and all that differ in window and HAVING alone, under other names."""
        return None

    @property
    def readers(self) -> tuple[Any, ...]:
        """Those whose results it has, each by a window of its own."""
        return ()

    @property
    def apart_because(self) -> str:
        """Why there is no such one, in words."""
        return ""

    @property
    def numbers_read(self) -> tuple[str, ...]:
        """The numbers of panes that it reads there."""
        return ()

    @property
    def selects(self) -> Expression | None:
        """The predicate of the rows that it lets pass, if that is all it does."""
        return None

    def chosen(self, rows: pa.Table) -> Any:
        """Which rows it lets pass, as an index."""
        return slice(None)

    def prepared(self, rows: pa.Table) -> pa.Table:
        """What it does to rows that have no lifetime yet; only what ``passes`` can."""
        raise NotImplementedError

    def passed(self, ids: Int64s, side: int) -> Int64s:
        """The identities of what it passes on of an input."""
        return ids

    def needs(self, names: frozenset[str]) -> frozenset[str] | None:
        """The columns of its input that the wanted ones need, if it may be fed piece by piece."""
        return None

    @property
    def combines(self) -> bool:
        """Whether a result is one row of each input, alive together: then it can be drawn in
        ``pieces``, and rows have partners (``coded``, ``keyless``)."""
        return False

    def pieces(
        self, state: Any, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Any, Iterator[Delta]]:
        """A step with results in bounded pieces, made when drawn: a hot key may not fill memory."""
        raise NotImplementedError

    def giving(self, names: Collection[str]) -> Operator:
        """The operator whose results have only these columns; what it keeps stays the same."""
        raise NotImplementedError

    def coded(self, rows: pa.Table, side: int) -> pa.Table:
        """The rows of a side that have a key, with its code, clustered."""
        raise NotImplementedError

    def keyless(self, rows: pa.Table, side: int) -> int:
        """How many rows of a side have no key, as a part of it is NULL: they have no partners."""
        raise NotImplementedError

    @property
    def quiet(self) -> bool:
        """Whether nothing happens when rows that it keeps expire."""
        return False

    @property
    def passes_left(self) -> bool:
        """Whether rows of the first input may pass with the identities that they have."""
        return False

    # ── where rows have to be ─────────────────────────────────────────────────────────────

    @property
    def moving(self) -> Moving:
        return Moving.KEYED

    @property
    def keyed(self) -> bool:
        """Whether rows may be spread over buckets by its key."""
        return False

    def key_of(self, side: int = 0) -> Key:
        """The columns of the key by which rows of a side are sent."""
        return ()

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        """The key as EXPLAIN names it."""
        return tuple((name or "…").removeprefix(".") for name in self.key_of(side))

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        """The code by which rows may be spread over buckets, None if they may not."""
        return None

    def stays(self, side: int, spread: Spread) -> bool:
        """Whether rows that are spread so need not move."""
        return spread.has(self.key_of(side))

    def place(self, spread: Spread | None) -> tuple[str, ...]:
        """The columns of its stored rows that tell their bucket, if their code does not;
        ``spread`` is that of an input that stays where it is."""
        return ()

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        """Where results lie. ``kept`` says of each input how its rows are spread, None if they
        come from elsewhere by the key."""
        return Spread()

    def spread_of(self, inputs: Sequence[tuple[pa.Schema, Spread]]) -> Spread:
        """How the rows of all inputs together are spread, if they stay where they are."""
        return Spread()

    @property
    def may_lack_parts(self) -> bool:
        """Whether rows of the first side that have only a part of the key count too."""
        return False

    def without_key(self, rows: pa.Table) -> Bools:
        """Which of these rows are so."""
        return np.zeros(rows.num_rows, bool)

    # ── what it remembers ─────────────────────────────────────────────────────────────────

    def numbered(self, state: Any, first: int) -> Any:
        """A first state whose new rows are numbered from ``first`` on."""
        return state

    def identities(self, state: Any) -> Int64s:
        """Of results that it may still cut, and perhaps of others."""
        return NO_IDS

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        """The codes of rows in a part of the state, made anew from their columns; None where they
        are not those of a key, or the rows do not have it."""
        return None

    @property
    def lies_by_columns(self) -> bool:
        """Whether stored rows have a code of their own, beside the key that sends them."""
        return False

    @property
    def lying(self) -> Lying:
        """Where the rows of its state are."""
        return Lying.BY_KEY

    def copy(self, side: int) -> Copy | None:
        """Where the state has the rows of an input, if it has all of them."""
        return None

    def refreshed(self, instant: int) -> int:
        """The instants before this one are closed for it before ``instant``."""
        return instant

    def without_admitted(self, state: Any, clock: int) -> Any:
        """Without rows that were stored only to wait for instants before ``clock``."""
        return state

    def late(self, state: Any) -> int:
        """How many rows came when their instant was closed."""
        return 0

    def late_rows(self, state: Any, inputs: Sequence[Delta], interval: Interval) -> pa.Table:
        """The rows that a step leaves out as their key was closed."""
        raise NotImplementedError

    @property
    def companions(self) -> Mapping[str, str]:
        """Parts of which only the code is known, each with the part that has these rows."""
        return {}

    def forgets(self) -> tuple[Forgetting, ...]:
        """What it need not keep of keys that are closed."""
        return ()

    @property
    def keyless_parts(self) -> tuple[str, ...]:
        """Parts of the state whose rows have the hash of a key, and not the key."""
        return ()


class Alone(Operator):
    """Over one input: rows may stay where a part of the key has brought them."""

    __slots__ = ()

    def own_key(self) -> tuple[str, ...]:
        """What it calls the parts of its key."""
        return tuple(name for name in self.key_of() if name)

    def stays(self, side: int, spread: Spread) -> bool:
        return bool(spread.within(self.key_of(side)))

    def place(self, spread: Spread | None) -> tuple[str, ...]:
        key, names = self.key_of(), self.own_key()
        if spread is None:
            return names
        return tuple(names[key.index(column)] for column in spread.within(key))


def plain_key(keys: Sequence[Expression], types: Sequence[DataType]) -> Key:
    """Values of another type may have other codes; whole numbers of any size have the same."""
    return tuple(_column(key, kind) for key, kind in zip(keys, types, strict=True))


def _column(key: Expression, kind: DataType) -> str | None:
    key = same_number(key)
    same = key.type == kind or (key.type.is_integral and kind.is_integral)
    return column_name(key) if isinstance(key, Column) and same else None


def same_kind(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether equal values of both types have one code."""
    return kind == other or all(map(pa.types.is_integer, (kind, other)))
