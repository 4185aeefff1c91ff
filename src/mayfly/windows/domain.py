"""Values as 64-bit keys in the order of the values, so that indexes work on plain arrays.

Idea: whole numbers, dates and times are their own keys, floating-point numbers turn their bits
(NaN is the largest, −0.0 is 0.0). Texts and decimals get *labels*: a new value takes the middle
between the labels of its neighbours, and when there is no room, all labels are spread out anew.
Invariant: keys are ordered as the values are; NULL has the smallest key of all.
Cost: O(1) array work per value; labels O(log D) comparisons and O(D) moved per *new* value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.errors import BadInput

Int64s = npt.NDArray[np.int64]
NULL_KEY = np.int64(-(2**63))
_STEP = 2**32
_EDGE = 2**62

Relabel = Callable[[Int64s, Int64s], None]
"""Called with the old keys, ascending, and the new ones that take their places."""


def arrow_array(values: object) -> pa.Array:
    """A column of values in any form that people hold them in, as one Arrow array."""
    if isinstance(values, pa.ChunkedArray):
        array = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    elif isinstance(values, pa.Array):
        array = values
    elif isinstance(values, str | bytes | Set | Mapping):
        raise _no_column(f"one {type(values).__name__}")
    else:
        if isinstance(values, np.ndarray) and not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        try:
            array = pa.array(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _no_column(str(error)) from None
        if isinstance(array, pa.ChunkedArray):
            return arrow_array(array)
    return _plain(array)


def _no_column(reason: str) -> BadInput:
    return BadInput(
        f"these values do not make a column: {reason}",
        "give a list, NumPy array, pandas Series or Arrow array of one type",
    )


def _plain(array: pa.Array) -> pa.Array:
    """The same values in the usual layout of their type."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(array))
    if pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if pa.types.is_binary_view(kind):
        return array.cast(pa.binary())
    return array.cast(pa.date32()) if pa.types.is_date64(kind) else array


def arrow_table(batch: object, attribute: str) -> pa.Table:
    """A batch as a table; values without a name get that of the attribute."""
    try:
        if isinstance(batch, pa.RecordBatch):
            batch = pa.Table.from_batches([batch])
        elif isinstance(batch, Mapping):
            batch = pa.table({name: arrow_array(column) for name, column in batch.items()})
        elif type(batch).__module__.startswith("pandas") and hasattr(batch, "columns"):
            batch = pa.Table.from_pandas(batch, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise BadInput(
            f"this does not make a table: {error}", "give each column one name and one type"
        ) from None
    if not isinstance(batch, pa.Table):
        return pa.table({attribute: arrow_array(batch)})
    if len(set(batch.schema.names)) < batch.num_columns:
        raise BadInput(
            f"two columns have one name: {', '.join(batch.schema.names)}", "rename one of them"
        )
    return batch


def has_ranks(kind: pa.DataType) -> bool:
    """Whether values of the type are ordered like whole numbers of 64 bits."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_duration(kind)
    )


def ranks(values: pa.Array) -> Int64s:
    """Whole numbers in the order of the values; those of NULLs mean nothing."""
    kind = values.type
    if pa.types.is_floating(kind):
        floats = values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        floats[np.isnan(floats)] = np.nan
        return _turned(floats.view(np.int64))
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    if values.null_count:
        values = values.fill_null(pa.scalar(0).cast(values.type))
    if values.type != pa.int64():
        values = values.cast(pa.int64())
    return np.ascontiguousarray(values.to_numpy(zero_copy_only=False))


def keys_in_order(values: pa.Array) -> Int64s:
    """Whole numbers in the order of these values; those of NULLs mean nothing."""
    if has_ranks(values.type):
        return ranks(values)
    order = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    return np.asarray(order.to_numpy(), np.int64)


def of_ranks(keys: Int64s, missing: npt.NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """The values of which these are the ranks."""
    if pa.types.is_floating(kind):
        return pa.array(_turned(keys).view(np.float64), mask=missing).cast(kind)
    if missing.any():
        keys = np.where(missing, 0, keys)
    numbers = pa.array(keys, mask=missing)
    return numbers.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else numbers.cast(kind)


def _turned(bits: Int64s) -> Int64s:
    """Negative floating-point numbers have the larger bits; its own inverse."""
    turned: Int64s = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    return turned


class Domain:
    """The values of one attribute and their keys; the first batch decides the type."""

    def __init__(self) -> None:
        self.type: pa.DataType | None = None
        self._labels: _Labels | None = None
        self._relabels: list[Relabel] = []

    @property
    def labelled(self) -> bool:
        """Whether keys are labels, which change when they are spread anew."""
        return self._labels is not None

    def on_relabel(self, function: Relabel) -> None:
        """Have a function called whenever keys that were handed out are replaced."""
        self._relabels.append(function)

    def admit(self, values: object) -> pa.Array:
        """The values in the type of the domain; refuses what has no key."""
        array = self._typed(arrow_array(values))
        if self._labels is None:
            self._ranks(array)
        return array

    def encode(self, values: object) -> Int64s:
        """The keys of the values, new values included."""
        array = self._typed(arrow_array(values))
        if self._labels is not None:
            return self._labels.encode(array, self._relabels)
        return self._ranks(array)

    def decode(self, keys: Int64s) -> pa.Array:
        """The values of the keys."""
        if self._labels is not None:
            return pa.array(self._labels.decode(keys), self.type)
        if self.type is None:
            return pa.nulls(len(keys))
        return of_ranks(keys, keys == NULL_KEY, self.type)

    def key_of(self, value: object) -> np.int64 | None:
        """The key of one value, or None if it was never seen."""
        if self.type is None:
            return None
        array = self._typed(arrow_array([value]))
        if self._labels is not None:
            return self._labels.key_of(array[0].as_py())
        return np.int64(self.encode(array)[0])

    def forget(self, keys: Int64s) -> None:
        """Forget the values of these keys: they are in no window any more."""
        if self._labels is not None:
            self._labels.forget(set(keys.tolist()))

    def keep(self, keys: Int64s) -> None:
        """Only the values of these keys are in a window."""
        if self._labels is not None:
            self._labels.forget(self._labels.keys() - set(keys.tolist()))

    def _typed(self, array: pa.Array) -> pa.Array:
        if pa.types.is_null(array.type) or not len(array):
            return pa.nulls(len(array), pa.int64() if self.type is None else self.type)
        if self.type is None:
            if not has_ranks(array.type):
                _check_labels(array.type)
                self._labels = _Labels()
            self.type = array.type
        if array.type == self.type:
            return array
        try:
            if family(array.type) != family(self.type):
                raise pa.ArrowInvalid("these values are not of one kind")
            if pa.types.is_decimal(self.type) and pa.types.is_decimal(array.type):
                self.type = _wider(self.type, array.type)
            return array.cast(self.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadInput(
                f"a column of {array.type} came after one of {self.type}: {error}",
                "keep one type per window: cast the column",
            ) from None

    def _ranks(self, array: pa.Array) -> Int64s:
        if pa.types.is_uint64(array.type) and len(array) and _beyond(array):
            raise BadInput(
                "a value of 9223372036854775808 or more does not fit a window's keys",
                "make the column a DECIMAL(20)",
            )
        keys = ranks(array)
        missing = pc.is_null(array).to_numpy(zero_copy_only=False) if array.null_count else None
        present = keys if missing is None else keys[~missing]
        if len(present) and present.min() == NULL_KEY:
            raise BadInput(
                "the value -9223372036854775808 stands for NULL in a window",
                "make the column a DECIMAL(20), or shift its values",
            )
        return keys if missing is None else np.where(missing, NULL_KEY, keys)


def family(kind: pa.DataType) -> str:
    """Types of one family hold values that can be compared."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_timestamp(kind):
        return "instant" if kind.tz else "local time"
    return str(kind).split("(")[0].split("[")[0]


def _beyond(array: pa.Array) -> bool:
    largest = pc.max(array).as_py()
    return largest is not None and largest >= 2**63


def _wider(kind: pa.DataType, other: pa.DataType) -> pa.DataType:
    scale = max(kind.scale, other.scale)
    digits = max(kind.precision - kind.scale, other.precision - other.scale) + scale
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(min(digits, 76), scale)


def _check_labels(kind: pa.DataType) -> None:
    labelled = (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_time(kind)
    )
    if not labelled:
        raise BadInput(
            f"a window cannot order values of type {kind}",
            "give numbers, texts, dates, times or decimals",
        )


class _Labels:
    """Labels of values that are not numbers: sorted values beside their labels."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._keys: list[int] = []
        self._key_of: dict[Any, int] = {}

    def key_of(self, value: Any) -> np.int64 | None:
        if value is None:
            return NULL_KEY
        key = self._key_of.get(value)
        return None if key is None else np.int64(key)

    def encode(self, array: pa.Array, relabels: Sequence[Relabel]) -> Int64s:
        coded = pc.dictionary_encode(array)
        distinct = coded.dictionary.to_pylist()
        for value in distinct:
            if value is not None and value not in self._key_of:
                self._add(value, relabels)
        keys = np.array([self._key_of.get(value, int(NULL_KEY)) for value in distinct], np.int64)
        if not len(distinct):
            return np.full(len(array), NULL_KEY)
        which = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        return np.where(which < 0, NULL_KEY, keys[which])

    def decode(self, keys: Int64s) -> list[Any]:
        ordered = np.array(self._keys, np.int64)
        places = np.searchsorted(ordered, keys)
        return [
            None if key == NULL_KEY else self._values[place]
            for key, place in zip(keys.tolist(), places.tolist(), strict=True)
        ]

    def keys(self) -> set[int]:
        return set(self._keys)

    def forget(self, gone: set[int]) -> None:
        kept = [(v, k) for v, k in zip(self._values, self._keys, strict=True) if k not in gone]
        self._values = [value for value, _ in kept]
        self._keys = [key for _, key in kept]
        self._key_of = dict(kept)

    def _add(self, value: Any, relabels: Sequence[Relabel]) -> None:
        position = bisect_left(self._values, value)
        key = self._between(position)
        if key is None:
            self._spread(relabels)
            key = self._between(position)
        assert key is not None
        self._values.insert(position, value)
        self._keys.insert(position, key)
        self._key_of[value] = key

    def _between(self, position: int) -> int | None:
        """A label for the place between two neighbours, or None if they are next to each other."""
        if not self._keys:
            return 0
        if position == 0:
            key = self._keys[0] - _STEP
            return key if key > -_EDGE else None
        if position == len(self._keys):
            key = self._keys[-1] + _STEP
            return key if key < _EDGE else None
        low, high = self._keys[position - 1], self._keys[position]
        return (low + high) // 2 if high - low > 1 else None

    def _spread(self, relabels: Sequence[Relabel]) -> None:
        old = np.array(self._keys, np.int64)
        room = max(1, (2 * _EDGE) // (len(old) + 2))
        step = min(_STEP, room)
        new = (np.arange(len(old), dtype=np.int64) - len(old) // 2) * step
        self._keys = new.tolist()
        self._key_of = dict(zip(self._values, self._keys, strict=True))
        for relabel in relabels:
            relabel(old, new)
