#!/bin/sh
# Makes .venv ready: an environment with the packages pinned in requirements.lock and this
# project in editable form. Does nothing while neither requirements.lock nor pyproject.toml
# has changed. PYTHON names the interpreter; without it an existing .venv is kept.
set -eu
cd "$(dirname "$0")/.."
. scripts/system-packages.sh

stamp=.venv/.ready
suitable='import sys; sys.exit(sys.version_info < (3, 11))'
version_of='import sys; print("%d.%d" % sys.version_info[:2])'

give_up() { say "$*"; exit 1; }

runs() { "$1" -c "$suitable" >/dev/null 2>&1; }

# choose_python: PYTHON if given, otherwise the first interpreter that is new enough.
choose_python() {
    if [ -n "${PYTHON:-}" ]; then
        runs "$PYTHON" && echo "$PYTHON"
        return
    fi
    for name in python3 python3.13 python3.12 python3.11 python3.14 python; do
        if runs "$name"; then echo "$name"; return 0; fi
    done
    return 1
}

# environment_is_usable: .venv works, has pip, and is of the version that PYTHON asks for.
environment_is_usable() {
    runs .venv/bin/python && .venv/bin/python -c 'import pip' 2>/dev/null || return 1
    [ -z "${PYTHON:-}" ] ||
        [ "$("$PYTHON" -c "$version_of" 2>/dev/null)" = "$(.venv/bin/python -c "$version_of")" ]
}

# ensure_venv_module: Debian and Ubuntu ship Python without what `python -m venv` needs.
ensure_venv_module() {
    "$python" -c 'import venv, ensurepip' 2>/dev/null && return 0
    package=python$("$python" -c "$version_of")-venv
    if [ "$(package_manager)" = apt-get ]; then install_first apt-get "$package" || true; fi
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        give_up "$python cannot make virtual environments: install its venv and pip modules" \
            "(on Debian or Ubuntu: sudo apt-get install $package) and try again."
}

make_environment() {
    python=$(choose_python) || give_up "Mayfly needs Python 3.11 or later, and" \
        "${PYTHON:-what is on the PATH} is none: install one, or name it, as in" \
        "'make PYTHON=python3.12 test'."
    ensure_venv_module
    "$python" -m venv --clear .venv || give_up "Could not make a virtual environment in .venv."
}

install_packages() {
    export PIP_DISABLE_PIP_VERSION_CHECK=1
    pip=".venv/bin/python -m pip"
    # --no-deps: what is not in the lock is not installed; `pip check` tells if it should be.
    if ! { $pip install -qq --no-deps -r requirements.lock &&
        $pip install -qq --no-deps --no-build-isolation -e .; }; then
        give_up "The packages of requirements.lock could not be installed (see above):" \
            "check the network and pip's settings, and try again."
    fi
    problems=$($pip check 2>&1) ||
        give_up "requirements.lock and pyproject.toml disagree; correct the lock: $problems"
}

# The directory belongs to it, since an editable install points there.
wanted="$(pwd) $(cat requirements.lock pyproject.toml | cksum)"
if environment_is_usable; then
    if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi
    say "Bringing .venv up to date ..."
else
    make_environment
    say "Setting up .venv with $(.venv/bin/python --version): this takes a few minutes once ..."
fi
install_packages
printf '%s\n' "$wanted" >"$stamp"
