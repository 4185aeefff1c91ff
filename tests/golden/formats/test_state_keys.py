"""States of known queries are found under the names, and in the parts, that are stored.

A name is a digest of what an operator computes; nothing that Python calls otherwise may change it.
After a change that is meant to give states other names (and a state format that renews old ones):
python -m tests.golden.formats.test_state_keys
"""

from __future__ import annotations

import json
from pathlib import Path

from mayfly.checkpoint.operator_state import parts_of
from mayfly.physical.shared_program import fingerprint
from mayfly.plan.strategy import Strategy
from tests.golden.formats.checkpoint_write import QUERIES
from tests.property.continuous_cases import catalog
from tests.property.shared_runs import program_of
from tests.property.test_migration import MORE, TEXTS
from tests.property.window_texts import TEXTS as WINDOWS

GOLDEN = Path(__file__).parent / "state-keys.json"
TEXT = sorted(
    {*MORE, *TEXTS, *WINDOWS.values(), *(cql for some in QUERIES.values() for cql in some.values())}
)


def keys() -> dict[str, dict[str, dict[str, list[str]]]]:
    """By strategy and query: the names of tasks, with the parts of their states."""
    known = catalog(0)
    return {
        way.value: {
            cql: {
                fingerprint(task): sorted(parts_of(task.operator.state()))
                for task in program_of(cql, known, way).answer.walk()
            }
            for cql in TEXT
        }
        for way in (Strategy.UPA, Strategy.NT)
    }


def test_states_are_found_under_the_names_that_are_stored() -> None:
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert keys() == stored


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(keys(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
