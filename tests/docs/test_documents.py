"""The examples in README.md and docs/ run and print what they show; links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.docs.examples import broken_links, examples, needs_spark, run

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
)
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "src").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", [d for d in DOCUMENTS if "```python" in (ROOT / d).read_text()])
def test_the_examples_of(
    name: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = examples((ROOT / name).read_text(encoding="utf-8"), name)
    namespace: dict[str, object] = {"__name__": "__main__"}
    if any(needs_spark(example) for example in found):
        namespace["spark"] = request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    run(found, name, namespace)


@pytest.mark.parametrize("name", MODULES)
def test_the_docstrings_of(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_links_of(name: str) -> None:
    assert list(broken_links(ROOT / name)) == []
