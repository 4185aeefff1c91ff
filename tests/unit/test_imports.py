"""Which package may import which; above all, that the core never imports pyspark.

The core runs in executors, notebooks and thousands of property cases without a Java process
beside it, so both the source text and an actual import are checked.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from textwrap import dedent

import pytest

SOURCE = Path(__file__).parents[2] / "src"

GROUND = {"errors", "lifetime", "faults", "patterns", "keywords", "arrays", "display"}
COMPUTING = {"kernels", "windows", "synopses"}
PLANNING = {"plan", "storage", "cql", "optimizer", "physical"}

# package or module → packages of mayfly that it may import, besides itself; the longest
# matching name counts.
LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "display": set(),
    "lifetime": {"errors"},
    "keywords": {"errors"},
    "faults": {"errors"},
    "arrays": {"errors"},
    "patterns": {"errors", "lifetime"},
    "plan": GROUND,
    "cql": GROUND | {"plan"},
    "optimizer": GROUND | {"plan"},
    "storage": {"errors", "lifetime", "faults", "arrays", "display"},
    **dict.fromkeys(COMPUTING, GROUND | COMPUTING | {"plan", "storage"}),
    "windows": GROUND | {"plan", "storage"},
    "physical": GROUND | COMPUTING | {"plan", "storage", "optimizer"},
    "runtime": GROUND | COMPUTING | PLANNING,
    "checkpoint": GROUND | COMPUTING | PLANNING | {"runtime"},
    "archive": GROUND | {"plan", "storage"},
    "archive.model.lifetimes": GROUND | {"plan", "archive", "cql", "kernels"},
    "archive.model.key_hash": {"errors", "arrays", "kernels", "plan"},
    "archive.read.key_places": {"archive", "kernels", "storage"},
    "archive.erase.feeds": {"errors", "lifetime", "archive", "checkpoint", "runtime", "storage"},
    "archive.layouts": GROUND | {"storage"},
    "archive.advice.cost_parameters": GROUND,
    "pipeline": GROUND | PLANNING | {"archive", "checkpoint", "runtime"},
    "periodic": GROUND | COMPUTING | PLANNING,
    "client": GROUND | {"serving", "runtime"},
    "serving": GROUND
    | COMPUTING
    | PLANNING
    | {"runtime", "checkpoint", "archive", "pipeline", "periodic"},
}
# What may import anything, pyspark included. The package itself only re-exports.
OUTER = ("spark", "cli", "dashboard", "testing", "demo", "__main__")
SPARK_PACKAGES = {"pyspark", "py4j"}


def modules(source: Path) -> Iterator[tuple[str, Path]]:
    """Each module of mayfly as (dotted name within mayfly, file); the package itself is ``""``."""
    root = source / "mayfly"
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def core_modules(source: Path) -> list[str]:
    return [
        name for name, _ in modules(source) if not any(is_within(name, outer) for outer in OUTER)
    ]


def imported(name: str, path: Path) -> Iterator[tuple[int, str]]:
    """(line, full dotted name) of every import in the file, also inside functions."""
    home = ["mayfly", *name.split(".")] if name else ["mayfly"]
    package = home if path.name == "__init__.py" else home[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*above, *(node.module or "").split(".")]).strip(".")
            # `from mayfly import storage` names a package only after the word import.
            yield from ((node.lineno, f"{start}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func).rpartition(".")[2]
            target = node.args[0]
            if called in ("import_module", "__import__") and isinstance(target, ast.Constant):
                yield node.lineno, str(target.value)


def violations(source: Path) -> list[str]:
    """One line for each import that the layers do not allow."""
    found = []
    for name, path in modules(source):
        if not name or any(is_within(name, outer) for outer in OUTER):
            continue
        layer = max((known for known in LAYERS if is_within(name, known)), key=len, default=None)
        if layer is None:
            found.append(f"mayfly.{name} belongs to no layer: add it to LAYERS or OUTER")
            continue
        allowed = LAYERS[layer] | {layer}
        for line, target in imported(name, path):
            where = f"{path.relative_to(source)}:{line}"
            top, _, inner = target.partition(".")
            if top == "pandas":
                found.append(f"{where} imports pandas; what users bring of it becomes Arrow")
            elif top in SPARK_PACKAGES:
                found.append(f"{where} imports {target}; only {', '.join(OUTER)} may")
            elif top == "mayfly" and inner and not any(is_within(inner, a) for a in allowed):
                found.append(f"{where} imports {target}, which is above mayfly.{layer}")
    return found


def room(name: str) -> str:
    """The package of a module, with rooms of archive and spark as packages of their own."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] in ("archive", "spark") else parts[0]


def run_time_imports(name: str, path: Path) -> Iterator[tuple[int, str]]:
    """The imports that happen: those for type checkers only are left out."""
    only_types = {
        line
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return (item for item in imported(name, path) if item[0] not in only_types)


def cycle_of_rooms(source: Path) -> list[str]:
    """Rooms that import each other in a circle, or nothing."""
    files = {name: path for name, path in modules(source) if name}
    rooms = {name for name, path in files.items() if path.name == "__init__.py"}
    order: TopologicalSorter[str] = TopologicalSorter()
    for name, path in files.items():
        own = room(name) if name in rooms else room(name.rpartition(".")[0] or name)
        for _, target in run_time_imports(name, path):
            inner = target.removeprefix("mayfly.")
            while inner and inner not in files:
                inner = inner.rpartition(".")[0]
            if not target.startswith("mayfly.") or not inner:
                continue
            other = room(inner) if inner in rooms else room(inner.rpartition(".")[0] or inner)
            # A package may re-export its rooms, which never import the package itself.
            if other != own and not (name in rooms and other.startswith(own + ".")):
                order.add(own, other)
    try:
        order.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def pyspark_after_importing_the_core(source: Path) -> subprocess.CompletedProcess[str]:
    """Import every core module in a fresh interpreter; fails naming the one that brings Spark, or
    pandas."""
    program = dedent(
        """
        import importlib, sys
        for name in sys.argv[1:]:
            importlib.import_module(name)
            for other in ("pyspark", "pandas"):
                if other in sys.modules:
                    sys.exit(f"importing {name} imports {other}")
        """
    )
    names = [f"mayfly.{name}".rstrip(".") for name in core_modules(source)]
    return subprocess.run(
        [sys.executable, "-c", program, *names],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_package_imports_from_above_its_layer() -> None:
    found = violations(SOURCE)
    assert not found, "\n".join(found)


def test_rooms_do_not_import_each_other_in_a_circle() -> None:
    assert cycle_of_rooms(SOURCE) == []


def test_module_names_are_not_used_twice() -> None:
    """A name met in a message or a traceback says which file it is."""
    names = Counter(name.rpartition(".")[2] for name, path in modules(SOURCE) if name)
    twice = {name for name, count in names.items() if count > 1}
    rooms = {path.parent.name for _, path in modules(SOURCE) if path.name == "__init__.py"}
    assert twice - rooms - {"__main__"} == set()


def test_importing_the_core_does_not_import_pyspark() -> None:
    outcome = pyspark_after_importing_the_core(SOURCE)
    assert outcome.returncode == 0, outcome.stderr


def test_the_core_is_not_empty() -> None:
    assert {"errors", "lifetime"} <= set(core_modules(SOURCE))


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A source folder with a sound small mayfly and a pyspark that costs nothing to import."""
    (tmp_path / "pyspark.py").touch()
    for package in ("", "storage", "kernels", "spark"):
        (tmp_path / "mayfly" / package).mkdir()
        (tmp_path / "mayfly" / package / "__init__.py").touch()
    (tmp_path / "mayfly/errors.py").touch()
    (tmp_path / "mayfly/storage/segment.py").write_text("from mayfly.errors import x\nimport os\n")
    (tmp_path / "mayfly/spark/runner.py").write_text("import pyspark\nimport mayfly.kernels\n")
    return tmp_path


@pytest.mark.parametrize(
    ("module", "text", "complaint"),
    [
        ("kernels/join.py", "import pyspark.sql", "join.py:1 imports pyspark.sql"),
        ("kernels/join.py", "def f():\n    from pyspark import sql", "join.py:2 imports pyspark"),
        ("kernels/join.py", "import importlib\nimportlib.import_module('py4j')", "imports py4j"),
        ("kernels/codes.py", "from pandas.util import hash_array", "imports pandas"),
        ("storage/segment.py", "from mayfly.kernels import join", "imports mayfly.kernels.join"),
        ("storage/segment.py", "from mayfly import kernels", "imports mayfly.kernels"),
        ("storage/segment.py", "from ..kernels import join", "imports mayfly.kernels.join"),
        ("storage/segment.py", "from .. import session", "imports mayfly.session"),
        ("storage/__init__.py", "from ..spark import runner", "imports mayfly.spark.runner"),
        ("gadget.py", "", "mayfly.gadget belongs to no layer"),
    ],
)
def test_a_planted_import_is_noticed(planted: Path, module: str, text: str, complaint: str) -> None:
    assert violations(planted) == []
    (planted / "mayfly" / module).write_text(text)
    found = violations(planted)
    assert len(found) == 1
    assert complaint in found[0]


def test_a_planted_circle_is_noticed(planted: Path) -> None:
    assert cycle_of_rooms(planted) == []
    (planted / "mayfly/kernels/join.py").write_text("from mayfly.spark import runner")
    assert set(cycle_of_rooms(planted)) == {"kernels", "spark"}


def test_a_planted_roundabout_import_is_noticed(planted: Path) -> None:
    (planted / "mayfly/storage/segment.py").write_text("")
    assert pyspark_after_importing_the_core(planted).returncode == 0
    hidden = "getattr(__import__('builtins'), '__imp' + 'ort__')('pyspark')"
    (planted / "mayfly/kernels/join.py").write_text(hidden)
    assert violations(planted) == []
    outcome = pyspark_after_importing_the_core(planted)
    assert outcome.returncode == 1
    assert "importing mayfly.kernels.join imports pyspark" in outcome.stderr
