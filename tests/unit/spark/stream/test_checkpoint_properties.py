"""What is dropped of states in silence, by what the manifest says of them."""

from __future__ import annotations

from mayfly.spark.stream.checkpoint_properties import without_dead
from mayfly.storage import Manifest
from mayfly.storage.bounds import Bounds
from mayfly.storage.segment import Segment


def segment(path: str, exp: int) -> Segment:
    return Segment(path, "arrow", "g", 1, 1, "", Bounds(0, 0), Bounds(1, exp))


def test_segments_that_are_dead_at_the_end_of_their_state_are_left_out() -> None:
    held = {path: segment(path, exp) for path, exp in (("a", 5), ("b", 6), ("c", 5), ("d", 5))}
    state = {
        "task/join/0": {"runs": {"left": ["a", "b"], "right": []}, "numbers": {}},
        "task/join/1": {"runs": {"left": ["b"], "right": []}, "numbers": {}},
        "task/other/0": {"runs": {"kept": ["c"]}, "numbers": {"n": 1}},
        "log/q/0": {"runs": {"kept": ["d"]}, "numbers": {}},
    }
    base = Manifest(1, segments=held, properties={"state": state})
    assert without_dead(base, {"task/join": 5, "log/q": 4}) == {
        "task/join/0": {"runs": {"left": ["b"], "right": []}, "numbers": {}}
    }
