"""Sources that come and go: what Spark noted of those that stay moves with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.checkpoint.source_log import (
    BEGINNING,
    HEARTBEAT,
    ORIGINS,
    Move,
    clocks_of,
    folder_of,
    last_log,
    ordered,
    origin,
    rearranged,
    with_origins,
)
from mayfly.errors import InvalidSetting, StorageError
from mayfly.storage import Directory, Manifest

ABOUT = '{"batchWatermarkMs":0}'
some_sources = st.lists(st.sampled_from("abcdef*"), unique=True, min_size=1)


def log(*places: str) -> str:
    return "\n".join(["v1", ABOUT, *places])


def spark_part(root: Path, sources: str, batches: int = 2) -> Directory:
    """What Spark leaves after some batches, with its hidden checksums."""
    directory = Directory.at(root, sync=False)
    directory.replace("spark/metadata", b'{"id":"x"}')
    for batch in range(batches):
        places = [f'{{"logOffset":{batch}{ord(one)}}}' for one in sources]
        directory.replace(f"spark/offsets/{batch}", log(*places).encode())
        directory.replace(f"spark/offsets/.{batch}.crc", b"sum")
        directory.replace(f"spark/commits/{batch}", b"v1\n{}")
        for place, one in enumerate(sources):
            directory.replace(f"spark/sources/{place}/{batch}", f"v1\n{one}{batch}".encode())
    return directory


@given(before=some_sources, after=some_sources, last=some_sources)
def test_a_source_that_stays_keeps_its_offset_and_a_new_one_begins(
    before: list[str], after: list[str], last: list[str]
) -> None:
    noted = {one: f'{{"logOffset":{ord(one)}}}' for one in before}
    moved = rearranged(log(*noted.values()), before, after)
    version, about, *places = moved.split("\n")
    assert (version, about) == ("v1", ABOUT)
    assert dict(zip(after, places, strict=True)) == {
        one: noted.get(one, BEGINNING) for one in after
    }
    again = rearranged(moved, after, last).split("\n")[2:]
    stayed = [one for one in last if one in before and one in after]
    assert [again[last.index(one)] for one in stayed] == [noted[one] for one in stayed]


@given(known=some_sources, wanted=some_sources)
def test_what_is_known_keeps_its_order(known: list[str], wanted: list[str]) -> None:
    found = ordered(known, wanted)
    assert sorted(found) == sorted(wanted)
    stay = [one for one in known if one in wanted]
    assert found[: len(stay)] == stay
    assert [one for one in wanted if one not in known] == found[len(stay) :]


@dataclass
class Reader:
    """Reads sources as Spark does: batches are planned, done, and planned ones done again."""

    directory: Directory
    part: str = "spark"

    def run(self, sources: list[str], grow: list[int], killed: bool) -> list[dict[str, range]]:
        """What each batch that was done brought of each source; ``killed`` plans one more."""
        done = []
        if self._planned() > self._committed():
            done.append(self._do(sources))
        for number, more in enumerate(grow):
            batch, last = self._planned() + 1, self._offsets(self._planned(), len(sources))
            places = [str((at or 0) + more) if more else at for at in last]
            text = log(*(BEGINNING if at is None else str(at) for at in places))
            self.directory.replace(f"{self.part}/offsets/{batch}", text.encode())
            if not killed or number < len(grow) - 1:
                done.append(self._do(sources))
        return done

    def _do(self, sources: list[str]) -> dict[str, range]:
        batch = self._planned()
        ends = self._offsets(batch, len(sources))
        starts = self._offsets(batch - 1, len(sources))
        self.directory.replace(f"{self.part}/commits/{batch}", b"v1")
        pairs = zip(starts, ends, strict=True)
        brought = [range(int(start or 0), int(end or 0)) for start, end in pairs]
        return dict(zip(sources, brought, strict=True))

    def _offsets(self, batch: int, count: int) -> list[int | None]:
        if batch < 0:
            return [None] * count
        text = self.directory.read(f"{self.part}/offsets/{batch}").decode()
        return [None if one == BEGINNING else int(one) for one in text.split("\n")[2:]]

    def _planned(self) -> int:
        return len(self.directory.names(f"{self.part}/offsets")) - 1

    def _committed(self) -> int:
        return len(self.directory.names(f"{self.part}/commits")) - 1


lives = st.lists(
    st.tuples(some_sources, st.lists(st.integers(0, 3), max_size=3), st.booleans()),
    min_size=1,
    max_size=5,
)


@given(lives=lives)
def test_nothing_is_read_twice_or_passed_over(
    lives: list[tuple[list[str], list[int], bool]],
) -> None:
    with TemporaryDirectory() as folder:
        reader, before = Reader(Directory.at(folder, sync=False)), lives[0][0]
        read = dict.fromkeys(before, 0)
        for number, (wanted, grow, killed) in enumerate(lives):
            after = ordered(before, wanted)
            move = Move(reader.directory, reader.part, tuple(before), tuple(after))
            if move.needed:
                move.check()
                reader.part = move.write_anew(number)
                move.remove_others(reader.part)
            read = {one: read.get(one, 0) for one in after}
            for batch in reader.run(after, grow, killed):
                for one, rows in batch.items():
                    assert rows.start == read[one], one
                    read[one] = rows.stop
            before = after


def test_notes_move_into_a_folder_of_their_own(tmp_path: Path) -> None:
    directory = spark_part(tmp_path, "ab*")
    move = Move(directory, "spark", ("a", "b", HEARTBEAT), ("b", "c", HEARTBEAT))
    move.check()
    directory.replace("spark-7/sources/0/9", b"of one who was killed")
    assert move.write_anew(7) == "spark-7"
    assert last_log(directory, "spark-7") == log(
        f'{{"logOffset":1{ord("b")}}}', BEGINNING, f'{{"logOffset":1{ord("*")}}}'
    )
    assert directory.read("spark-7/sources/0/1") == b"v1\nb1"
    assert directory.read("spark-7/sources/2/0") == b"v1\n*0"
    assert directory.names("spark-7/sources/1") == []
    assert directory.read("spark-7/commits/1") == b"v1\n{}"
    assert directory.exists("spark-7/metadata")
    assert not directory.exists("spark-7/sources/0/9")
    assert not directory.exists("spark-7/offsets/.1.crc"), "it would be wrong"
    assert directory.exists("spark/offsets/1"), "the old one is in force until a commit"
    (tmp_path / "spark-other").mkdir()
    move.remove_others("spark-7")
    assert {one.name for one in tmp_path.iterdir()} == {"spark-7", "spark-other"}


def test_what_cannot_be_moved_is_refused(tmp_path: Path) -> None:
    directory = spark_part(tmp_path, "ab")
    assert Move(directory, "spark", ("a",), ("a",)).check() is None, "nothing is to be moved"  # type: ignore[func-returns-value]
    with pytest.raises(InvalidSetting, match="Spark reads 2 sources for a:") as refused:
        Move(directory, "spark", ("a",), ("a", "c")).check()
    assert "one source of its own" in refused.value.hint
    directory.replace("spark/offsets/10", log("1", "2").replace("v1", "v3").encode())
    with pytest.raises(StorageError, match="format v3"):
        Move(directory, "spark", ("a", "b"), ("a", "c")).check()


def test_where_spark_names_its_sources_its_notes_stay(tmp_path: Path) -> None:
    directory = Directory.at(tmp_path, sync=False)
    noted = "\n".join(["v2", ABOUT, 'x:{"logOffset":4}']).encode()
    directory.replace("spark/offsets/4", noted)
    directory.replace("spark/sources/x/4", b"v1")
    move = Move(directory, "spark", ("a",), ("c", "a"))
    move.check()
    assert move.write_anew(1) == "spark-1"
    assert directory.read("spark-1/offsets/4") == noted
    assert directory.exists("spark-1/sources/x/4")


def test_nothing_was_read_yet(tmp_path: Path) -> None:
    directory = Directory.at(tmp_path, sync=False)
    move = Move(directory, "spark", ("a",), ("a", "c"))
    move.check()
    assert move.write_anew(0) == "spark-0"


def test_a_new_stream_has_no_clock_and_the_others_keep_theirs() -> None:
    stored = {"streams": {"a": 7, "b": 3}, "largest": {"a": 9}, "ended": True}
    assert clocks_of(stored, ["a", "c"]) == {
        "streams": {"a": 7, "c": None}, "largest": {"a": 9, "c": None}, "ended": True
    }  # fmt: skip


def test_a_stream_whose_rows_come_from_elsewhere_begins_there(tmp_path: Path) -> None:
    directory = spark_part(tmp_path, "ab")
    done = Manifest(1, properties={"batch": 1, ORIGINS: {"a": "json", "b": "json"}})
    left, kafka = ["a", "b"], {"a": "kafka", "b": "json", "new": "rate"}
    assert with_origins(directory, done, left, {"a": "json", "new": "rate"}) == left
    assert with_origins(directory, Manifest(1, properties={"batch": 1}), left, kafka) == left
    before = with_origins(directory, done, left, kafka)
    assert before == ["a from json", "b"]
    move = Move(directory, "spark", tuple(before), ("a", "b"))
    assert move.needed
    move.write_anew(2)
    assert last_log(directory, "spark-2") == log(BEGINNING, f'{{"logOffset":1{ord("b")}}}')
    assert directory.names("spark-2/sources/0") == [], "nothing is known of its files"
    planned = Manifest(1, properties={**done.properties, "batch": 0})
    with pytest.raises(InvalidSetting, match="a batch from json is not done"):
        with_origins(directory, planned, left, kafka)
    directory.replace("spark/offsets/1", log("1", "2").replace("v1", "v2").encode())
    with pytest.raises(InvalidSetting, match="knows its source by name"):
        with_origins(directory, done, left, kafka)


def test_another_folder_is_another_source(tmp_path: Path) -> None:
    directory = spark_part(tmp_path, "ab")
    rec, live = origin("json", "/data/rec"), origin("json", "/data/live")
    assert (folder_of(rec), folder_of("json"), folder_of(None)) == ("/data/rec", None, None)
    done = Manifest(1, properties={"batch": 1, ORIGINS: {"a": rec, "b": "json"}})
    left = ["a", "b"]
    assert with_origins(directory, done, left, {"a": rec, "b": live}) == left, "b said no more"
    assert with_origins(directory, done, left, {"a": live, "b": rec}) == [f"a from {rec}", "b"]
    assert with_origins(directory, done, left, {"a": rec, "b": "kafka"}) == ["a", "b from json"]
