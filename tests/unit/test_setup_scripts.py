"""The set-up scripts on machines made of fakes: what they find, install, keep and ask for."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = "cat chmod cksum cp dirname env mkdir mktemp rm sed sh tail"


@dataclass(frozen=True)
class Machine:
    """A machine whose PATH holds a few ordinary tools and the programs a test puts there."""

    root: Path

    def program(self, name: str, text: str) -> Path:
        path = self.root / name if "/" in name else self.root / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def java(self, name: str, version: str) -> Path:
        """A java of this version, whose home is the folder above its bin."""
        home = self.root / name
        self.program(f"{name}/bin/java", self.java_text(home, version))
        return home

    @staticmethod
    def java_text(home: Path, version: str) -> str:
        return f"echo '    java.home = {home}'; echo '    java.specification.version = {version}'"

    def user(self, number: int) -> None:
        self.program("id", f"echo {number}")

    def installer(self, name: str, offers: str) -> None:
        """A package manager that installs Java 17 as the package it offers, and nothing else."""
        java = self.root / "bin" / "java"
        text = self.java_text(self.root / "installed", "17")
        self.program(
            name,
            f'echo "{name} $*" >> {self.root}/log\n'
            'case "$*" in *update*) exit 0 ;; '
            f"*{offers}) ;; *) echo no such package; exit 1 ;; esac\n"
            f"printf '%s\\n' '#!/bin/sh' \"{text}\" > {java}; chmod +x {java}",
        )

    def run(self, script: Path, **settings: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": str(self.root / "bin"),
            "HOME": str(self.root),
            "TMPDIR": str(self.root),
            "MAYFLY_JAVA_DIRECTORIES": str(self.root / "jvm"),
            **settings,
        }
        return subprocess.run(
            ["sh", str(script)], env=env, capture_output=True, text=True, check=False
        )

    @property
    def log(self) -> list[str]:
        log = self.root / "log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    for tool in TOOLS.split():
        found = shutil.which(tool)
        assert found, f"these tests need {tool}"
        os.symlink(found, tmp_path / "bin" / tool)
    made = Machine(tmp_path)
    made.user(1000)
    return made


ENSURE_JAVA = ROOT / "scripts/ensure-java.sh"


def test_java_home_comes_first(machine: Machine) -> None:
    chosen = machine.java("mine", "21")
    machine.program("java", machine.java_text(machine.root / "other", "17"))
    outcome = machine.run(ENSURE_JAVA, JAVA_HOME=str(chosen))
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, f"{chosen}\n", "")


def test_a_java_home_that_is_too_old_yields_to_the_path(machine: Machine) -> None:
    old = machine.java("old", "11")
    machine.program("java", machine.java_text(machine.root / "new", "17"))
    assert machine.run(ENSURE_JAVA, JAVA_HOME=str(old)).stdout == f"{machine.root}/new\n"


def test_the_usual_directories_are_searched_last(machine: Machine) -> None:
    machine.program("java", machine.java_text(machine.root / "ancient", "1.8"))
    machine.java("jvm/a-java-11", "11")
    machine.program("jvm/b-broken/bin/java", "exit 1")
    found = machine.java("jvm/java-21", "21")
    assert machine.run(ENSURE_JAVA).stdout == f"{found}\n"


@pytest.mark.parametrize(
    ("manager", "offers"),
    [
        ("apt-get", "openjdk-17-jre-headless"),
        ("apt-get", "openjdk-21-jre-headless"),
        ("dnf", "java-17-openjdk-headless"),
        ("yum", "java-17-amazon-corretto-headless"),
        ("apk", "openjdk17-jre-headless"),
    ],
)
def test_root_gets_java_installed(machine: Machine, manager: str, offers: str) -> None:
    machine.user(0)
    machine.installer(manager, offers)
    outcome = machine.run(ENSURE_JAVA)
    assert (outcome.returncode, outcome.stdout) == (0, f"{machine.root}/installed\n")
    assert f"Installing {offers} with {manager} ..." in outcome.stderr
    assert machine.log[-1].endswith(offers)


def test_sudo_without_a_password_is_used(machine: Machine) -> None:
    machine.installer("apt-get", "openjdk-17-jre-headless")
    machine.program("sudo", '[ "$1" = -n ] && shift && "$@"; exit $?')
    machine.program("true", "exit 0")
    assert machine.run(ENSURE_JAVA).stdout == f"{machine.root}/installed\n"


def test_brew_is_used_by_ordinary_users_only(machine: Machine) -> None:
    machine.installer("brew", "openjdk@17")
    machine.user(0)
    assert machine.run(ENSURE_JAVA).returncode == 1
    assert machine.log == []
    machine.user(501)
    assert machine.run(ENSURE_JAVA).stdout == f"{machine.root}/installed\n"


@pytest.mark.parametrize(
    ("manager", "advice"),
    [
        ("apt-get", "run 'sudo apt-get install openjdk-17-jre-headless'"),
        ("dnf", "run 'sudo dnf install java-17-openjdk-headless'"),
        ("pacman", "install a Java 17 or 21 runtime"),
    ],
)
def test_without_rights_one_line_says_what_to_install(
    machine: Machine, manager: str, advice: str
) -> None:
    machine.installer(manager, "openjdk-17-jre-headless")
    machine.program("sudo", "echo a password is required >&2; exit 1")
    outcome = machine.run(ENSURE_JAVA)
    assert (outcome.returncode, outcome.stdout) == (1, "")
    found, asked = outcome.stderr.splitlines()
    assert found == "Spark needs Java 17 or later, and none was found."
    assert asked.startswith(f"Please {advice}")
    assert machine.log == []


def test_installing_can_be_forbidden(machine: Machine) -> None:
    machine.user(0)
    machine.installer("apt-get", "openjdk-17-jre-headless")
    assert machine.run(ENSURE_JAVA, MAYFLY_NO_INSTALL="1").returncode == 1
    assert machine.log == []


def test_a_failed_installation_shows_why(machine: Machine) -> None:
    machine.user(0)
    machine.installer("apt-get", "nothing-of-use")
    outcome = machine.run(ENSURE_JAVA)
    assert outcome.returncode == 1
    assert "no such package" in outcome.stderr
    assert "Please run 'sudo apt-get install" in outcome.stderr


PYTHON = """
echo "$*" >> {root}/log
case "$*" in
*"sys.version_info <"*) exit {too_old} ;;
*"sys.version_info[:2]"*) echo {version} ;;
*ensurepip*) exit {no_ensurepip} ;;
"-m venv"*) mkdir -p .venv/bin; cp {root}/bin/{name} .venv/bin/python ;;
"-m pip install"*) exit {pip_fails} ;;
--version) echo Python {version}.7 ;;
esac
"""


@pytest.fixture
def checkout(machine: Machine) -> Path:
    """A copy of the scripts, since they work on the directory they lie in."""
    home = machine.root / "checkout"
    shutil.copytree(ROOT / "scripts", home / "scripts")
    (home / "requirements.lock").write_text("numpy==2.4.6\n")
    (home / "pyproject.toml").write_text("[project]\n")
    return home / "scripts/set-up.sh"


def put_python(machine: Machine, name: str = "python3", **changes: object) -> Path:
    usual = {"too_old": 0, "version": "3.11", "no_ensurepip": 0, "pip_fails": 0}
    text = PYTHON.format(root=machine.root, name=name, **{**usual, **changes})
    return machine.program(name, text)


def installs(machine: Machine) -> int:
    return sum("pip install" in line for line in machine.log)


def makes(machine: Machine) -> int:
    return sum("-m venv" in line for line in machine.log)


def test_the_environment_is_made_once_and_kept(machine: Machine, checkout: Path) -> None:
    put_python(machine)
    first = machine.run(checkout)
    assert first.returncode == 0, first.stderr
    assert "Setting up .venv with Python 3.11.7" in first.stderr
    assert (makes(machine), installs(machine)) == (1, 2)
    again = machine.run(checkout)
    assert (again.returncode, again.stdout + again.stderr) == (0, "")
    assert (makes(machine), installs(machine)) == (1, 2)


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_a_changed_lock_or_project_updates_it(
    machine: Machine, checkout: Path, changed: str
) -> None:
    put_python(machine)
    machine.run(checkout)
    (checkout.parents[1] / changed).write_text("numpy==2.4.7\n")
    assert "Bringing .venv up to date" in machine.run(checkout).stderr
    assert (makes(machine), installs(machine)) == (1, 4)


def test_an_environment_made_by_hand_is_taken_over(machine: Machine, checkout: Path) -> None:
    python = put_python(machine)
    by_hand = checkout.parents[1] / ".venv"
    (by_hand / "bin").mkdir(parents=True)
    shutil.copy(python, by_hand / "bin/python")
    (by_hand / "kept").touch()
    assert machine.run(checkout).returncode == 0
    assert (makes(machine), installs(machine)) == (0, 2)
    assert (by_hand / "kept").exists()


def test_another_python_remakes_it_only_when_named(machine: Machine, checkout: Path) -> None:
    put_python(machine)
    machine.run(checkout)
    put_python(machine, "python3", version="3.13")
    put_python(machine, "python3.12", version="3.12")
    machine.run(checkout)
    assert makes(machine) == 1
    assert machine.run(checkout, PYTHON="python3.12").returncode == 0
    assert makes(machine) == 2
    machine.run(checkout, PYTHON="python3.12")
    assert makes(machine) == 2


def test_a_newer_python_is_found_behind_an_old_one(machine: Machine, checkout: Path) -> None:
    put_python(machine, "python3", too_old=1)
    put_python(machine, "python3.12", version="3.12")
    assert "Python 3.12.7" in machine.run(checkout).stderr


def test_a_failed_installation_is_tried_again(machine: Machine, checkout: Path) -> None:
    put_python(machine, pip_fails=1)
    outcome = machine.run(checkout)
    assert outcome.returncode == 1
    assert "could not be installed" in outcome.stderr.splitlines()[-1]
    shutil.copy(put_python(machine), checkout.parents[1] / ".venv/bin/python")
    assert machine.run(checkout).returncode == 0


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({}, "Mayfly needs Python 3.11 or later, and what is on the PATH is none:"),
        ({"PYTHON": "python3"}, "Mayfly needs Python 3.11 or later, and python3 is none:"),
        ({"PYTHON": "python9"}, "Mayfly needs Python 3.11 or later, and python9 is none:"),
    ],
)
def test_an_old_python_is_refused_in_one_line(
    machine: Machine, checkout: Path, settings: dict[str, str], line: str
) -> None:
    put_python(machine, too_old=1)
    outcome = machine.run(checkout, **settings)
    assert outcome.returncode == 1
    (said,) = outcome.stderr.splitlines()
    assert said.startswith(line)


def test_a_missing_venv_module_is_named(machine: Machine, checkout: Path) -> None:
    put_python(machine, no_ensurepip=1)
    outcome = machine.run(checkout)
    assert outcome.returncode == 1
    (said,) = outcome.stderr.splitlines()
    assert "sudo apt-get install python3.11-venv" in said
