"""Segments, manifests and commits: the storage core shared by operator state and archives."""

from mayfly.storage.bounds import Bounds
from mayfly.storage.commit import Repository
from mayfly.storage.directory import Directory, IoCounters
from mayfly.storage.edits import (
    AddSegments,
    DropSegments,
    Edit,
    MoveSegments,
    SetProperties,
    TagSegment,
)
from mayfly.storage.manifest import Manifest
from mayfly.storage.merge import plan_merge
from mayfly.storage.pins import Pin
from mayfly.storage.segment import (
    EXP,
    TS,
    Segment,
    SegmentWriter,
    open_segment,
    segment_batches,
    write_segment,
)
from mayfly.storage.vacuum import VacuumReport, prune, vacuum
from mayfly.storage.verify import Problem, VerifyReport, verify

__all__ = [
    "EXP",
    "TS",
    "AddSegments",
    "Bounds",
    "Directory",
    "DropSegments",
    "Edit",
    "IoCounters",
    "Manifest",
    "MoveSegments",
    "Pin",
    "Problem",
    "Repository",
    "Segment",
    "SegmentWriter",
    "SetProperties",
    "TagSegment",
    "VacuumReport",
    "VerifyReport",
    "open_segment",
    "plan_merge",
    "prune",
    "segment_batches",
    "vacuum",
    "verify",
    "write_segment",
]
