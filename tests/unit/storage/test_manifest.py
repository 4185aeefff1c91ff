"""Manifests: what is written is read back, and what is damaged or foreign is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
import xxhash

from mayfly.errors import CorruptFile, UnsupportedFormat
from mayfly.storage import Bounds, Manifest, Segment
from mayfly.storage.manifest import FORMAT_VERSION, LINEAGE


def described(path: str, group: str = "g", **more: Any) -> Segment:
    return Segment(path, "arrow", group, 1, 10, "0" * 16, Bounds(0, 1), Bounds(2, 3), **more)


def manifest_of(*segments: Segment) -> Manifest:
    return Manifest(7, {one.path: one for one in segments}, {"clock": 5}, 123)


def forged(body: dict[str, Any], **head: Any) -> bytes:
    """A manifest file whose checksum fits whatever it says."""
    text = json.dumps(body)
    first = {
        "format": "mayfly-manifest",
        "format_version": FORMAT_VERSION,
        "checksum": xxhash.xxh3_64_hexdigest(text.encode()),
        **head,
    }
    return f"{json.dumps(first)}\n{text}\n".encode()


BODY: dict[str, Any] = {
    "version": 7,
    "written_at": 1,
    "properties": {},
    "segments": [],
    "lineage": [],
}


def test_a_manifest_comes_back_equal_with_its_segments_in_order() -> None:
    manifest = manifest_of(
        described("data/b", key=Bounds("a", "ä")), described("data/a", tags={"x": [1]}, level=2)
    )
    back = Manifest.decode(manifest.encode(), "m")
    assert back == manifest
    assert list(back.segments) == ["data/b", "data/a"]
    assert (back.rows, back.stored_bytes) == (2, 20)


def test_every_truncation_is_found() -> None:
    data = manifest_of(described("data/a")).encode()
    for length in range(len(data) - 1):
        with pytest.raises(CorruptFile, match="the-file"):
            Manifest.decode(data[:length], "the-file")


def test_a_flipped_byte_in_the_body_is_found() -> None:
    data = bytearray(manifest_of(described("data/a")).encode())
    for at in range(data.index(b"\n") + 1, len(data)):
        data[at] ^= 0x01
        with pytest.raises(CorruptFile) as caught:
            Manifest.decode(bytes(data), "the-file")
        assert caught.value.hint
        data[at] ^= 0x01


def test_a_flipped_byte_in_the_head_is_found_or_changes_nothing() -> None:
    manifest = manifest_of(described("data/a"))
    data = bytearray(manifest.encode())
    for at in range(data.index(b"\n")):
        data[at] ^= 0x01
        with pytest.raises((CorruptFile, UnsupportedFormat)):
            Manifest.decode(bytes(data), "the-file")
        data[at] ^= 0x01


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 99, None, "1", 0])
def test_another_format_version_is_refused(version: Any) -> None:
    with pytest.raises(UnsupportedFormat, match=f"format version {version}; .* reads version 1"):
        Manifest.decode(forged(BODY, format_version=version), "m")


def test_a_foreign_file_is_refused() -> None:
    with pytest.raises(CorruptFile, match="not a Mayfly manifest"):
        Manifest.decode(forged(BODY, format="something-else"), "m")
    for other in (b"", b"[]\n{}\n", b"\x80\x04\n\n", b"{}\n{}\nmore\n"):
        with pytest.raises(CorruptFile):
            Manifest.decode(other, "m")


@pytest.mark.parametrize("part", ["version", "written_at", "properties", "segments", "lineage"])
def test_a_missing_part_is_named(part: str) -> None:
    body = {name: value for name, value in BODY.items() if name != part}
    with pytest.raises(CorruptFile, match=f"lacks a part: '{part}'"):
        Manifest.decode(forged(body), "m")


def test_a_damaged_description_is_reported_with_the_manifest() -> None:
    segment = described("data/a").to_json()
    for wrong in ({**segment, "path": "../a"}, {**segment, "ts": [1]}, {**segment, "key": 5}, 3):
        with pytest.raises(CorruptFile, match="the manifest m"):
            Manifest.decode(forged({**BODY, "segments": [wrong]}), "m")
    newer = {**segment, "key": [{"point": [1, 2]}, {"point": [3, 4]}]}
    with pytest.raises(UnsupportedFormat, match=r"the manifest m: .*'point'"):
        Manifest.decode(forged({**BODY, "segments": [newer]}), "m")


def test_the_lineage_reaches_back_a_while() -> None:
    manifest = Manifest(0)
    for _ in range(2 * LINEAGE):
        manifest = manifest.followed_by(written_at=manifest.version)
    assert manifest.version == 2 * LINEAGE
    assert len(set(manifest.lineage)) == LINEAGE
    assert manifest.commit_id(manifest.version) == manifest.lineage[0]
    assert manifest.commit_id(LINEAGE + 1) == manifest.lineage[-1]
    assert manifest.commit_id(LINEAGE) is None
    assert manifest.commit_id(manifest.version + 1) is None
    assert Manifest.decode(manifest.encode(), "m") == manifest


def test_groups_are_found_by_name_and_prefix() -> None:
    names = ["state/0/a", "state/0/a/1", "state/0/ab", "state/0", "log/1", "state/10", "state0"]
    manifest = manifest_of(*(described(f"data/{at}", name) for at, name in enumerate(names)))

    def found(prefix: str) -> list[str]:
        return [segment.group for segment in manifest.in_group(prefix)]

    assert found("state/0/a") == ["state/0/a", "state/0/a/1"]
    assert found("state/0") == ["state/0", "state/0/a", "state/0/a/1", "state/0/ab"]
    assert sorted(found("state")) == sorted(n for n in names if n.startswith("state/"))
    assert found("log") == ["log/1"]
    assert found("nothing") == []
    assert manifest.groups == tuple(sorted(names))


def test_a_group_keeps_the_order_of_its_segments() -> None:
    manifest = manifest_of(*(described(f"data/{n}") for n in (3, 1, 2)))
    assert [one.path for one in manifest.in_group("g")] == ["data/3", "data/1", "data/2"]


def test_looking_up_a_group_does_not_scan_the_manifest() -> None:
    """Counted, not timed: after the first look no other group's name is compared."""
    compared: list[str] = []

    class Name(str):
        def startswith(self, *args: Any) -> bool:
            compared.append(str(self))
            return super().startswith(*args)

        __hash__ = str.__hash__

    manifest = manifest_of(*(described(f"data/{n}", Name(f"g{n:04}/x")) for n in range(1000)))
    assert len(list(manifest.in_group("g0500"))) == 1
    assert len(compared) <= 2
