"""The runner tells killed mutants from surviving, broken, hanging and outdated ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.run import PROJECT, Copy, main, read_mutants

MUTANT = """
[[mutant]]
name = "{name}"
file = "src/tiny/sums.py"
old = '{old}'
new = '{new}'
tests = ["tests/test_sums.py"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one function and one test, and no mutants yet."""
    for name, text in {
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        "src/tiny/__init__.py": "",
        "src/tiny/sums.py": "def add(a, b):\n    return a + b  # the sum\n",
        "tests/test_sums.py": (
            "from tiny.sums import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
        ),
        "tests/mutants/list.toml": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def plant(project: Path, name: str, old: str, new: str) -> None:
    with (project / "tests/mutants/list.toml").open("a") as file:
        file.write(MUTANT.format(name=name, old=old, new=new))


def test_a_killed_mutant_is_reported_with_its_test(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(project, "minus", "a + b", "a - b")
    assert main(["--project", str(project)]) == 0
    printed = capsys.readouterr().out
    assert "minus  killed" in printed
    assert "test_sums.py::test_add" in printed
    assert "1 of 1 mutants killed" in printed
    assert "a + b" in (project / "src/tiny/sums.py").read_text()


def test_surviving_and_broken_mutants_fail_the_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(project, "harmless", "a + b", "b + a")
    plant(project, "unreadable", "def add", "deff add")
    assert main(["--project", str(project)]) == 1
    printed = capsys.readouterr().out
    assert "harmless    SURVIVED" in printed
    assert "unreadable  BROKEN (exit 2)" in printed
    assert "0 of 2 mutants killed" in printed


def test_a_hanging_mutant_is_stopped_and_not_taken_for_killed(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plant(project, "hanging", "return", "while True:")
    (mutant,) = read_mutants(project / "tests/mutants")
    copy = Copy(project, tmp_path_factory.mktemp("copy"), timeout=5)
    trial = copy.try_mutant(mutant)
    assert (trial.code, trial.verdict) == (None, "OUT OF TIME")


def test_an_outdated_mutant_fails_the_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(project, "outdated", "a * b", "a / b")
    assert main(["--project", str(project)]) == 2
    assert "outdated: its old text occurs 0 times" in capsys.readouterr().err


def test_an_ambiguous_mutant_fails_the_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(project, "ambiguous", "a", "b")
    assert main(["--project", str(project)]) == 2
    assert "times in src/tiny/sums.py" in capsys.readouterr().err


def test_red_tests_without_a_mutant_fail_the_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(project, "minus", "a + b", "a - b")
    (project / "src/tiny/sums.py").write_text("def add(a, b):\n    return a + b + 1\n")
    assert main(["--project", str(project)]) == 2
    assert "fail without any mutant" in capsys.readouterr().err


def test_only_known_names_can_be_chosen(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant(project, "minus", "a + b", "a - b")
    assert main(["--project", str(project), "--list", "minus"]) == 0
    assert capsys.readouterr().out == "minus: src/tiny/sums.py\n"
    assert main(["--project", str(project), "plus"]) == 2
    assert "no mutants named plus" in capsys.readouterr().err


def test_every_listed_mutant_fits_the_sources_as_they_are() -> None:
    """An outdated mutant is noticed by the ordinary tests, not only when mutants are run."""
    for mutant in read_mutants(PROJECT / "tests" / "mutants"):
        text = (PROJECT / mutant.file).read_text(encoding="utf-8")
        assert mutant.applied_to(text) != text
        for test in mutant.tests:
            assert (PROJECT / test.partition("::")[0]).exists()
