"""Values as 64-bit keys in the order of the values, so that indexes work on plain arrays.

Idea: whole numbers, dates and times are their own keys, floating-point numbers turn their bits
(NaN is the largest, −0.0 is 0.0). Texts and decimals get *labels*: a new value takes the middle
between the labels of its neighbours, and when there is no room, all labels are spread out anew.
Invariant: keys are ordered as the values are; NULL has the smallest key of all.
Cost: O(1) array work per value; labels O(log D) comparisons and O(D) moved per *new* value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
    else:
        try:
            array = pa.array(values, from_pandas=not isinstance(values, np.ndarray))
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
            raise BadInput(
                f"these values do not make a column: {error}",
                "give a list, NumPy array, pandas Series or Arrow array of one type",
            ) from None
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


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
    return np.ascontiguousarray(values.cast(pa.int64()).to_numpy(zero_copy_only=False))


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

    def on_relabel(self, function: Relabel) -> None:
        """Have a function called whenever keys that were handed out are replaced."""
        self._relabels.append(function)

    def encode(self, values: object) -> Int64s:
        """The keys of the values, new values included."""
        array = self._typed(arrow_array(values))
        if self._labels is not None:
            return self._labels.encode(array, self._relabels)
        keys = ranks(array)
        if array.null_count:
            missing = pc.is_null(array).to_numpy(zero_copy_only=False)
            self._check(keys, ~missing)
            return np.where(missing, NULL_KEY, keys)
        self._check(keys, None)
        return keys

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
        array = self._typed(pa.array([value], None if value is not None else self.type))
        if self._labels is not None:
            return self._labels.known(array[0].as_py())
        return np.int64(self.encode(array)[0])

    def forget(self, keys: Int64s) -> None:
        """The values of these keys are in no window any more."""
        if self._labels is not None:
            self._labels.forget(keys)

    def _typed(self, array: pa.Array) -> pa.Array:
        if self.type is None and not pa.types.is_null(array.type):
            if not has_ranks(array.type):
                _check_labels(array.type)
                self._labels = _Labels()
            self.type = array.type
        if self.type is None or array.type == self.type:
            return array if self.type is not None else pa.nulls(len(array), pa.int64())
        try:
            return array.cast(self.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadInput(
                f"a column of {array.type} came after one of {self.type}: {error}",
                "keep one type per window",
            ) from None

    def _check(self, keys: Int64s, present: npt.NDArray[np.bool_] | None) -> None:
        smallest = keys == NULL_KEY
        if present is not None:
            smallest &= present
        if smallest.any():
            raise BadInput(
                "the value -9223372036854775808 stands for NULL in a window",
                "make the column a DECIMAL(20), or shift its values",
            )


def _check_labels(kind: pa.DataType) -> None:
    labelled = (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
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

    def known(self, value: Any) -> np.int64 | None:
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

    def forget(self, keys: Int64s) -> None:
        gone = set(keys.tolist())
        kept = [(v, k) for v, k in zip(self._values, self._keys, strict=True) if k not in gone]
        self._values = [value for value, _ in kept]
        self._keys = [key for _, key in kept]
        self._key_of = dict(kept)

    def _add(self, value: Any, relabels: Sequence[Relabel]) -> None:
        at = bisect_left(self._values, value)
        key = self._between(at)
        if key is None:
            self._spread(relabels)
            key = self._between(at)
        assert key is not None
        self._values.insert(at, value)
        self._keys.insert(at, key)
        self._key_of[value] = key

    def _between(self, at: int) -> int | None:
        """A label for the place between two neighbours, or None if they are next to each other."""
        if not self._keys:
            return 0
        if at == 0:
            key = self._keys[0] - _STEP
            return key if key > -_EDGE else None
        if at == len(self._keys):
            key = self._keys[-1] + _STEP
            return key if key < _EDGE else None
        low, high = self._keys[at - 1], self._keys[at]
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
