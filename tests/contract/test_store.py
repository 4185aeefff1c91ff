"""One suite that every store passes: a directory of a file system, and memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.errors import StorageError, UnsupportedStore
from mayfly.storage.store import Store, open_store
from tests.contract.store_places import PLACES


@pytest.fixture(params=PLACES)
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    with PLACES[request.param]() as place:
        yield place


@pytest.fixture(params=[True, False], ids=["synced", "unsynced"])
def store(address: str, request: pytest.FixtureRequest) -> Store:
    return open_store(address, sync=request.param)


def test_an_address_finds_the_same_store(store: Store) -> None:
    again = open_store(store.address)
    assert again == store
    assert hash(again) == hash(store)
    assert again != open_store(f"{store.address}/inner")
    store.put("inner/x", b"1")
    assert open_store(f"{store.address}/inner").read("x") == b"1"


def test_a_kind_of_store_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UnsupportedStore):
        open_store("s3://bucket/place")
    with pytest.raises(StorageError, match="memory_store"):
        open_store("memory://nowhere")


def test_of_two_puts_if_absent_the_first_stays(store: Store) -> None:
    assert store.put_if_absent("a/b", b"first")
    assert not store.put_if_absent("a/b", b"second")
    assert store.read("a/b") == b"first"
    assert store.names("a") == ["a/b"]


def test_of_many_who_put_at_once_one_is_told_so(store: Store) -> None:
    def put(number: int) -> bool:
        return open_store(store.address, sync=False).put_if_absent("a/b", b"%d" % number)

    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(put, range(32)))
    assert sum(told) == 1
    assert store.read("a/b") == b"%d" % told.index(True)


def test_a_file_that_is_put_again_is_the_old_one_or_the_new_one(store: Store) -> None:
    contents = {bytes([number]) * 50_000 for number in range(20)}
    store.put("a/b", min(contents))
    unsynced = store.without_sync()

    def put_all() -> None:
        for content in sorted(contents):
            unsynced.put("a/b", content)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(put_all)
        while not done.done():
            assert store.read("a/b") in contents
    assert store.read("a/b") == max(contents)


def test_what_is_not_there_is_left_to_the_caller(store: Store) -> None:
    assert store.info("a/b") is None
    for read in (store.read, store.open, lambda name: store.open(name, mapped=True)):
        with pytest.raises(FileNotFoundError):
            read("a/b")
    assert store.names("a") == []
    assert store.entries() == store.entries("a") == []
    store.remove("a/b")
    store.remove_folder("a")


def test_info_tells_size_and_time(store: Store) -> None:
    store.put("a", b"12")
    first = store.info("a")
    store.put("a", b"12345")
    second = store.info("a")
    assert first is not None
    assert second is not None
    assert (first.size, second.size) == (2, 5)
    assert 1_600_000_000_000_000 < first.modified <= second.modified


@pytest.mark.parametrize("mapped", [False, True])
def test_an_open_file_is_read_at_any_place(store: Store, mapped: bool) -> None:
    store.put("a", bytes(range(200)))
    with store.open("a", mapped=mapped) as file:
        assert file.size() == 200
        file.seek(190)
        assert file.read_buffer().to_pybytes() == bytes(range(190, 200))
        file.seek(5)
        room = memoryview(bytearray(3))
        assert file.readinto(room) == 3
        assert bytes(room) == bytes([5, 6, 7])


@pytest.mark.parametrize("mapped", [False, True])
def test_bytes_that_were_read_outlive_their_file(store: Store, mapped: bool) -> None:
    store.put("a", b"x" * 10_000)
    with store.open("a", mapped=mapped) as file:
        store.remove("a")
        held = file.read_buffer()
    assert held.to_pybytes() == b"x" * 10_000


def test_listings_show_what_lies_below_a_folder_and_nothing_else(store: Store) -> None:
    for name in ("data/a", "data/deep/b", "data2/c", "top"):
        store.put(name, b"")
    assert sorted(store.names("data")) == ["data/a", "data/deep/b"]
    assert store.entries() == ["data", "data2", "top"]
    assert store.entries("data") == ["a", "deep"]
    store.remove_folder("data")
    assert store.names("data") == []
    assert store.entries() == ["data2", "top"]


def test_a_new_file_is_there_when_it_is_finished(store: Store) -> None:
    with store.syncing_together() as together:
        file = together.create("data/a")
        for piece in (b"one", b"", b"two"):
            file.write(memoryview(piece))
        file.finish()
    store.persist("data")
    assert store.read("data/a") == b"onetwo"


def test_a_new_file_that_is_given_up_is_not_there(store: Store) -> None:
    file = store.create("data/a")
    file.write(memoryview(b"half"))
    file.abandon()
    assert store.info("data/a") is None
    assert store.names("data") == []


def test_a_new_file_takes_no_other_ones_place(store: Store) -> None:
    store.put("data/a", b"mine")
    with pytest.raises(StorageError, match="exists"):
        store.create("data/a").finish()
    assert store.read("data/a") == b"mine"


NAMES = st.sampled_from(["a/x", "a/y", "a/b/x", "ab/x", "b/x"])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put_if_absent", "create", "remove", "remove_folder"]),
        NAMES,
        st.binary(max_size=20),
    ),
    max_size=12,
)


def done(store: Store, model: dict[str, bytes], step: str, name: str, data: bytes) -> Any:
    """Take a step on both; what the store said, and what it should have."""
    match step:
        case "put":
            store.put(name, data)
            model[name] = data
        case "put_if_absent":
            absent = name not in model
            model.setdefault(name, data)
            assert store.put_if_absent(name, data) == absent
        case "create" if name not in model:
            file = store.create(name)
            file.write(memoryview(data))
            file.finish()
            model[name] = data
        case "remove":
            store.remove(name)
            model.pop(name, None)
        case "remove_folder":
            place = Path(name).parts[0]
            store.remove_folder(place)
            for one in [one for one in model if one.startswith(f"{place}/")]:
                del model[one]


@pytest.mark.parametrize("kind", PLACES)
@given(steps=STEPS)
def test_a_store_holds_what_was_put_and_not_removed(
    kind: str, steps: list[tuple[str, str, bytes]]
) -> None:
    with PLACES[kind]() as address:
        store, model = open_store(address, sync=False), dict[str, bytes]()
        for step in steps:
            done(store, model, *step)
            for place in ("a", "a/b", "ab", "b"):
                below = {one for one in model if one.startswith(f"{place}/")}
                assert set(store.names(place)) == below
            assert {name: store.read(name) for name in model} == model
